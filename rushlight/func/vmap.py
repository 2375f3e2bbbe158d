"""`vmap`: a function of one sample, applied to a batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.base.pytree import tree_flatten, tree_unflatten
from rushlight.core.batching import VmapLevel, batched, unbatched
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor

__all__ = ["vmap"]


def spread(dims: Any, spec: Any, args: Any, what: str) -> list[Any]:
    """`in_dims` / `out_dims` with one entry per leaf."""
    from rushlight.base.pytree import broadcast_to_and_flatten

    found = broadcast_to_and_flatten(dims, spec)
    if found is None:
        raise ValueError(
            f"vmap: {what} is not compatible with the structure of inputs. {what} has structure "
            f"{tree_flatten(dims)[1]} but inputs has structure {spec}."
        )
    return list(found)


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

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, spec = tree_flatten(args)
        name = getattr(func, "__name__", repr(func))
        if not args:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
                "are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        dims = spread(in_dims, spec, args, "in_dims")
        sizes = set()
        for position, (value, dim) in enumerate(zip(flat, dims, strict=True)):
            if dim is None:
                continue
            if not isinstance(value, Tensor):
                raise ValueError(
                    f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an "
                    f"input but the input is of type {type(value)}. We cannot vmap over non-Tensor "
                    "arguments, please use None as the respective in_dim"
                )
            if not -value.dim() <= dim < value.dim():
                raise ValueError(
                    f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some "
                    f"input, but that input is a Tensor of dimensionality {value.dim()} so expected "
                    f"in_dim to satisfy -{value.dim()} <= in_dim < {value.dim()}."
                )
            dims[position] = dim % value.dim()
            sizes.add(value.shape[dims[position]])
        if not sizes:
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): at least one input must be mapped "
                "over; all in_dims are None"
            )
        if len(sizes) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {[v.shape[d] for v, d in zip(flat, dims, strict=True) if d is not None]} "
                "for the mapped dimension"
            )
        size = sizes.pop()
        if chunk_size is not None and size > chunk_size:
            return in_chunks(func, flat, spec, dims, size, out_dims, randomness, chunk_size, kwargs)
        return run_level(func, flat, spec, dims, size, out_dims, randomness, kwargs)

    return mapped


def run_level(
    func: Any,
    flat: list[Any],
    spec: Any,
    dims: list[Any],
    size: int,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    state = LOCAL.state
    before = state.transforms
    number = len(before) + 1
    level = VmapLevel(number, size, randomness)
    inputs = [
        value if dim is None else batched(value, dim, number)
        for value, dim in zip(flat, dims, strict=True)
    ]
    state.transforms = (*before, level)
    state.refresh()
    try:
        result = func(*tree_unflatten(inputs, spec), **kwargs)
    finally:
        state.transforms = before
        state.refresh()
    leaves, out_spec = tree_flatten(result)
    outs = spread(out_dims, out_spec, result, "out_dims")
    finished = []
    for leaf, dim in zip(leaves, outs, strict=True):
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"vmap({getattr(func, '__name__', func)}, ...): `{func}` must only return Tensors, "
                f"got type {type(leaf)} as a return."
            )
        finished.append(leaf if dim is None else unbatched(leaf, number, size, dim))
    return tree_unflatten(finished, out_spec)


def in_chunks(
    func: Any,
    flat: list[Any],
    spec: Any,
    dims: list[Any],
    size: int,
    out_dims: Any,
    randomness: str,
    chunk_size: int,
    kwargs: dict[str, Any],
) -> Any:
    """Parts of the batch one after another, to bound memory."""
    from rushlight.core.op import find_packet

    parts = []
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        piece = [
            value if dim is None else value.narrow(dim, start, length)
            for value, dim in zip(flat, dims, strict=True)
        ]
        parts.append(run_level(func, piece, spec, dims, length, out_dims, randomness, kwargs))
    flattened = [tree_flatten(part) for part in parts]
    out_spec = flattened[0][1]
    outs = spread(out_dims, out_spec, parts[0], "out_dims")
    cat = find_packet("aten", "cat")
    joined = [
        cat(list(column), dim)
        for column, dim in zip(zip(*[leaves for leaves, _ in flattened], strict=True), outs, strict=True)
    ]
    return tree_unflatten(joined, out_spec)
