"""`vmap`: a function of one sample, applied to a batch of them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight.base.errors import MissingFeature
from rushlight.base.pytree import broadcast_to_and_flatten, tree_flatten, tree_unflatten
from rushlight.core.batching import VmapLevel, batched, is_batched, unbatched
from rushlight.core.rng import default_generator
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.opset import batching as _rules  # noqa: F401  (registers the batch rules)
from rushlight.opset import functions

__all__ = ["plain_vmap", "vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Map `func` over a dim of its tensor arguments.

    >>> import rushlight as torch
    >>> torch.func.vmap(lambda x: x.sum())(torch.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    call = Mapping(func, in_dims, out_dims, randomness)

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        call.check_out_dims()
        flat, spec, dims, size = call.inputs(args)
        if chunk_size is None:
            return call.run(flat, spec, dims, size, kwargs)
        return call.run_chunks(flat, spec, dims, size, kwargs, chunk_size)

    options = {"in_dims": in_dims, "out_dims": out_dims, "randomness": randomness}
    options["chunk_size"] = chunk_size
    mapped._made_by = (vmap, func, options)  # type: ignore[attr-defined]
    return mapped


def plain_vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Any:
    """torch: the older vmap behind batched gradients; autograd stays visible inside of it, so that
    custom Functions run as they are, and random ops are refused. Results that are None may stay."""
    call = Mapping(func, in_dims, out_dims, "error", plain=True)
    call.keeps_none = allow_none_pass_through

    @functools.wraps(func)
    def mapped(*args: Any) -> Any:
        call.check_out_dims()
        flat, spec, dims, size = call.inputs(args)
        return call.run(flat, spec, dims, size, {})

    return mapped


def former_vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Any:
    """torch: `plain_vmap` under its public name, which warns."""
    warnings.warn(
        "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.",
        FutureWarning,
        stacklevel=2,
    )
    return plain_vmap(func, in_dims, out_dims)


def name_of(func: Any) -> str:
    """What error messages call a function."""
    if hasattr(func, "__name__"):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return repr(func)


class Mapping:
    """A function with what `vmap` was told about it."""

    def __init__(
        self, func: Any, in_dims: Any, out_dims: Any, randomness: str, plain: bool = False
    ) -> None:
        self.func = func
        self.in_dims = in_dims
        self.out_dims = out_dims
        self.randomness = randomness
        self.plain = plain
        self.keeps_none = False

    # -- arguments --------------------------------------------------------------------------------

    def bad_input(self, what: str) -> NoReturn:
        raise ValueError(
            f"vmap({name_of(self.func)}, in_dims={self.in_dims}, ...)(<inputs>): {what}"
        )

    def inputs(self, args: tuple[Any, ...]) -> tuple[list[Any], Any, list[Any], int]:
        """(leaves of the arguments, their structure, the dim to map of each, batch size)."""
        if not isinstance(self.in_dims, (int, tuple)):
            self.bad_input(
                "expected `in_dims` to be int or a (potentially nested) tuple matching the "
                f"structure of inputs, got: {type(self.in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({name_of(self.func)})(<inputs>): got no inputs. Maybe you forgot to add "
                "inputs, or you are trying to vmap over a function with no inputs. The latter is "
                "unsupported."
            )
        flat, spec = tree_flatten(args)
        dims = broadcast_to_and_flatten(self.in_dims, spec)
        if dims is None:
            self.bad_input(
                "in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                f"{tree_flatten(self.in_dims)[1]} but inputs has structure {spec}."
            )
        placed: list[Any] = []
        sizes: list[Any] = []
        for value, dim in zip(flat, dims, strict=True):
            place = self.input_dim(value, dim)
            placed.append(place)
            if place is not None:
                sizes.append(sizes_of(value)[place])
        if not sizes:
            raise ValueError("vmap: Expected at least one Tensor to vmap over")
        if any([size != sizes[0] for size in sizes[1:]]):
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sizes} for the mapped dimension"
            )
        return flat, spec, placed, sizes[0]

    def input_dim(self, value: Any, dim: Any) -> int | None:
        if dim is None:
            return None
        if not isinstance(dim, int):
            self.bad_input(
                f"Got in_dim={dim} for an input but in_dim must be either an integer dimension or "
                "None."
            )
        if not isinstance(value, Tensor):
            self.bad_input(
                f"Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot "
                "vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if value.is_nested:
            raise MissingFeature("vmap over a nested tensor", code="RL0520")
        rank = value.dim()
        if not -rank <= dim < rank:
            self.bad_input(
                f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                f"{rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
        return dim % rank

    # -- running ----------------------------------------------------------------------------------

    def run(
        self, flat: list[Any], spec: Any, dims: list[Any], size: int, kwargs: dict[str, Any]
    ) -> Any:
        leaves, spec, _ = self.run_flat(flat, spec, dims, size, kwargs)
        return tree_unflatten(leaves, spec)

    def run_flat(
        self, flat: list[Any], spec: Any, dims: list[Any], size: int, kwargs: dict[str, Any]
    ) -> tuple[list[Any], Any, list[Any]]:
        """(leaves of the result, their structure, where each has its batch axis)."""
        state = LOCAL.state
        before = state.transforms
        number = len(before) + 1
        level = VmapLevel(number, size, self.randomness, self.plain)
        inputs = [
            value if dim is None else batched(value, dim, number)
            for value, dim in zip(flat, dims, strict=True)
        ]
        given = tree_unflatten(inputs, spec)
        try:
            state.ascend((*before, level))
            result = self.func(*given, **kwargs)
        finally:
            state.ascend(before)
        leaves, out_spec = tree_flatten(result)
        places = self.output_dims(result, out_spec)
        finished = [
            self.finish(leaf, dim, number, size) for leaf, dim in zip(leaves, places, strict=True)
        ]
        return finished, out_spec, places

    def run_chunks(
        self,
        flat: list[Any],
        spec: Any,
        dims: list[Any],
        size: int,
        kwargs: dict[str, Any],
        chunk_size: int,
    ) -> Any:
        """Parts of the batch one after another, to bound memory."""
        columns: list[list[Any]] = []
        out_spec, places = spec, dims
        drawn = default_generator.state_bytes() if self.randomness == "same" else None
        for start in range(0, max(size, 1), chunk_size):
            if drawn is not None:
                # Every chunk draws the numbers that the first one does.
                default_generator.load_state_bytes(drawn)
            length = min(chunk_size, size - start)
            piece = [
                value if dim is None else value.narrow(dim, start, length)
                for value, dim in zip(flat, dims, strict=True)
            ]
            leaves, out_spec, places = self.run_flat(piece, spec, dims, length, kwargs)
            columns.append(leaves)
        joined = [
            column[0] if dim is None else functions.cat(list(column), dim)
            for column, dim in zip(zip(*columns, strict=True), places, strict=True)
        ]
        return tree_unflatten(joined, out_spec)

    # -- results ----------------------------------------------------------------------------------

    def check_out_dims(self) -> None:
        if isinstance(self.out_dims, int):
            return
        for dim in tree_flatten(self.out_dims)[0]:
            if dim is not None and not isinstance(dim, int):
                raise ValueError(
                    f"vmap({name_of(self.func)}, ..., out_dims={self.out_dims}): `out_dims` must "
                    "be an int, None or a python collection of ints representing where in the "
                    "outputs the vmapped dimension should appear."
                )

    def output_dims(self, result: Any, spec: Any) -> list[Any]:
        """One out_dim for each leaf of the result."""
        given = self.out_dims
        found: list[Any] | None
        if isinstance(result, Tensor):
            if isinstance(given, tuple):
                found = list(given) if len(given) == 1 else None
            else:
                found = [given] if given is None or isinstance(given, int) else None
        else:
            found = broadcast_to_and_flatten(given, spec)
        if found is None:
            raise ValueError(
                f"vmap({name_of(self.func)}, ..., out_dims={given})(<inputs>): out_dims is not "
                f"compatible with the structure of `outputs`. out_dims has structure "
                f"{tree_flatten(given)[1]} but outputs has structure {spec}."
            )
        return found

    def finish(self, leaf: Any, dim: int | None, number: int, size: int) -> Any:
        if dim is None:
            if is_batched(leaf, number):
                name = name_of(self.func)
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is "
                    "None"
                )
            return leaf
        if leaf is None and self.keeps_none:
            return None
        if not isinstance(leaf, Tensor):
            name = name_of(self.func)
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did "
                "you mean to set out_dims= to None for output?"
            )
        return unbatched(leaf, number, size, dim)
