"""More private functions of torch that libraries import: lists of tensors, layers, optimisers.

Each does what torch's does on the CPU. Nothing in the package itself calls one of these.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import rushlight
from rushlight import nn
from rushlight.core.dtype import dtype
from rushlight.core.format import body_str, tensor_str, with_suffixes
from rushlight.core.tensor import Tensor
from rushlight.func.stateless import replaced
from rushlight.jit.scripting.annotations import BroadcastingList
from rushlight.nn.attention import project_apart

# What `DataLoader` takes for `collate_fn` and `worker_init_fn`.
collate_fn_t = Callable[[list[Any]], Any]
worker_init_fn_t = Callable[[int], None]

BroadcastingList1, BroadcastingList2, BroadcastingList3 = map(BroadcastingList, (1, 2, 3))
BroadcastingList4, BroadcastingList5, BroadcastingList6 = map(BroadcastingList, (4, 5, 6))

# -- lists of tensors ------------------------------------------------------------------------------


def flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of all tensors, one after the other."""
    found: Tensor = rushlight.cat([tensor.reshape(-1) for tensor in tensors])
    return found


def unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The elements in the sizes of `tensors`, as views."""
    sizes = [tensor.numel() for tensor in tensors]
    parts = flat.narrow(0, 0, sum(sizes)).split(sizes)
    return tuple([part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)])


def take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """The tensors of each type, in lists of at most so many bytes where one does not need more."""
    waiting: dict[str, list[Tensor]] = defaultdict(list)
    held: dict[str, int] = defaultdict(int)
    for tensor in tensors:
        kind = tensor.type()
        size = tensor.numel() * tensor.element_size()
        if waiting[kind] and held[kind] + size > size_limit:
            yield waiting.pop(kind)
            held[kind] = 0
        waiting[kind].append(tensor)
        held[kind] += size
    yield from [each for each in waiting.values() if each]


def reorder_tensors_as(
    tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]
) -> tuple[Tensor, ...]:
    """Tensors in the order that the types of `ordered_tensors` have."""
    own: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        own[tensor.type()].append(tensor)
    queues = {kind: iter(found) for kind, found in own.items()}
    return tuple([next(queues[tensor.type()]) for tensor in ordered_tensors])


def find_tensors(obj: Any) -> Iterable[Tensor]:
    """The tensors in lists, dicts and dataclasses of them."""
    if isinstance(obj, Tensor):
        return [obj]
    if isinstance(obj, dict):
        obj = list(obj.values())
    elif hasattr(obj, "__dataclass_fields__") and not isinstance(obj, type):
        obj = [getattr(obj, name) for name in obj.__dataclass_fields__]
    if isinstance(obj, (list, tuple)):
        return [tensor for entry in obj for tensor in find_tensors(entry)]
    return []


# -- names and texts -------------------------------------------------------------------------------


def import_dotted_name(name: str) -> Any:
    """What a dotted name leads to."""
    first, *rest = name.split(".")
    return functools.reduce(getattr, rest, importlib.import_module(first))


class ClassProperty:
    """A property of a class itself."""

    def __init__(self, read: Any) -> None:
        self.read = read if isinstance(read, (classmethod, staticmethod)) else classmethod(read)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.read.__get__(instance, owner or type(instance))()


classproperty = ClassProperty


def addindent(s_: str, numSpaces: int) -> str:
    """A text whose lines but the first are moved to the right."""
    first, *rest = s_.split("\n")
    pad = " " * numSpaces
    return "\n".join([first, *[pad + line if line.strip() else "" for line in rest]])


def is_path(name_or_buffer: object) -> bool:
    return isinstance(name_or_buffer, (str, os.PathLike))


def is_zipfile(f: Any) -> bool:
    """Whether a file goes on as archives begin; it is left where it was."""
    start = f.tell()
    begin = f.read(4)
    f.seek(start)
    return bool(begin == b"PK\x03\x04")


# -- layers ----------------------------------------------------------------------------------------


def list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """Sizes of which some are None, which stand for those of the input."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    own = defaults[len(defaults) - len(out_size) :]
    return [b if a is None else a for a, b in zip(out_size, own, strict=True)]


def none_or_dtype(input: Tensor | None) -> dtype | None:
    if input is None:
        return None
    if not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return input.dtype


def get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dim that softmax took where none was named."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def verify_batch_size(size: Sequence[int]) -> None:
    """Refuse sizes with one value a channel, of which there are no statistics."""
    count = 1
    for place, length in enumerate(size):
        count *= 1 if place == 1 else length
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Queries, keys and values, each by a weight of its own."""
    shifts = (b_q, b_k, b_v)
    given = [shift for shift in shifts if shift is not None]
    if not given or len(given) == 3:
        bias = rushlight.cat(given) if given else None
        return tuple(project_apart((q, k, v), (w_q, w_k, w_v), bias))  # type: ignore[return-value]
    found = zip((q, k, v), (w_q, w_k, w_v), shifts, strict=True)
    return tuple([nn.functional.linear(*each) for each in found])  # type: ignore[return-value]


def clones(module: nn.Module, N: int) -> nn.ModuleList:
    """A list of copies of a module."""
    from rushlight.nn.transformer import copies

    return copies(module, N)


def seq_len(src: Tensor, batch_first: bool) -> int | None:
    """The length of a sequence, with a batch or without."""
    if src.is_nested:
        return None
    return int(src.size(1 if src.dim() == 3 and batch_first else 0))


def detect_is_causal_mask(
    mask: Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    """The hint as it was given, or whether the mask is the causal one."""
    if is_causal is not None or mask is None:
        return is_causal is True
    from rushlight.nn.transformer import subsequent_mask

    causal = subsequent_mask(mask.size(-2) if size is None else size, mask.device, mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    found: Tensor = tensor.index_select(dim, permutation)
    return found


def reparametrize_module(
    module: nn.Module,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> AbstractContextManager[None]:
    """Inside, the module has the given tensors for its own."""
    # torch: `stack_weights` tells one order of putting them back, which none of them needs here.
    return replaced(module, parameters_and_buffers, tie_weights, strict)


# -- optimisers ------------------------------------------------------------------------------------


def get_value(x: Any) -> Any:
    """The number in a tensor."""
    return x.item() if isinstance(x, Tensor) else x


def unchanged(x: Any) -> Any:
    return x


def view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Put pairs of reals in the place of complex parameters, and of what belongs to them."""
    for place, param in enumerate(params):
        if param.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[place] = rushlight.view_as_real(tensors[place])


def get_scalar_dtype(is_fused: bool | None = None) -> dtype:
    """The dtype that numbers of steps are kept in."""
    if is_fused or rushlight.get_default_dtype() is not rushlight.float64:
        return rushlight.float32
    return rushlight.float64


def to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., object] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a step that is compiled as any other function is."""
    return unchanged


# -- devices and state -----------------------------------------------------------------------------


def get_cudnn_enabled() -> bool:
    """Whether cuDNN would be used."""
    return bool(rushlight.backends.cudnn.enabled)


def get_autocast_kwargs(device_type: str = "cuda") -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """What autocast is set to, on a device and on the CPU."""

    def now(kind: str) -> dict[str, Any]:
        return {
            "enabled": rushlight.is_autocast_enabled(kind),
            "dtype": rushlight.get_autocast_dtype(kind),
            "cache_enabled": rushlight.is_autocast_cache_enabled(),
        }

    known = rushlight.amp.is_autocast_available(device_type)
    return (now(device_type) if known else None), now("cpu")


def infer_device_type(*args: Any) -> str:
    """The type of the first tensor that is not on the CPU; else the default one."""
    from rushlight.utils.checkpoint import DefaultDeviceType

    kinds = [tensor.device.type for tensor in find_tensors(args) if tensor.device.type != "cpu"]
    return kinds[0] if kinds else str(DefaultDeviceType.get_device_type())


# -- what torch has given up -----------------------------------------------------------------------


def given_up(name: str, instead: str) -> Any:
    """torch: functions that are there and say what took their place."""

    def call(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.{name} is no longer part of torch; use torch.linalg.{instead}.")

    call.__name__ = call.__qualname__ = name
    return call


eig, lstsq = given_up("eig", "eig"), given_up("lstsq", "lstsq")
solve, symeig = given_up("solve", "solve"), given_up("symeig", "eigh")
matrix_rank = given_up("matrix_rank", "matrix_rank")


def has_compatible_shallow_copy_type(input: Tensor, source: Tensor) -> bool:
    """Whether `input.data = source` may keep the object: both are of one layout."""
    return input.layout == source.layout


def validate_cuda_device(location: Any) -> Any:
    """The device of a location in a file; there is none."""
    raise RuntimeError(
        f"The file puts storages on {location}, and torch.cuda.is_available() is False. Give "
        "map_location=torch.device('cpu') to torch.load to put them into memory."
    )


def add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    return with_suffixes(tensor_str, suffixes, indent, force_newline)


def str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """What `repr` shows of a tensor, with another text for its numbers."""
    shown = tensor_str(inp)
    if tensor_contents is None:
        return shown
    return shown.replace(body_str(inp, shown.index("(") + 1), tensor_contents, 1)


def has_triton() -> bool:
    """Whether torch could make kernels by Triton on this machine: they need a device."""
    return False
