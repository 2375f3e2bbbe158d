"""Tensors that carry a mask: elements where it is false count as absent.

A `MaskedTensor` holds all numbers as an ordinary tensor would; ops act on them, and on the mask
what concerns places. Two of them meet only where their masks are the same. Reductions leave out
what is masked; `rushlight.masked` gives them. Ops without a rule are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.core.dtype import bool_
from rushlight.core.modes import DisableTorchFunctionSubclass
from rushlight.core.operators import name_of_called
from rushlight.core.tensor import Tensor
from rushlight.opset import functions
from rushlight.subclasses.nested import is_elementwise, picks_elements

__all__ = ["REDUCTIONS", "MaskedTensor", "is_masked_tensor"]

# By op: the function of `rushlight.masked` that knows masks.
REDUCTIONS: dict[str, Callable[..., Any]] = {}
# What moves or repeats elements, and the mask with them.
PLACING = frozenset(
    (
        "__getitem__", "expand", "expand_as", "flatten", "permute", "reshape", "select", "slice",
        "squeeze", "t", "transpose", "unsqueeze", "view", "chunk", "split", "unbind", "movedim",
        "narrow", "flip", "roll", "repeat",
    )
)  # fmt: skip
JOINING = frozenset(("cat", "stack", "concat", "hstack", "vstack"))
# What keeps each element where it is.
KEEPING = frozenset(
    (
        "bfloat16", "bool", "clone", "contiguous", "detach", "double", "float", "half", "int",
        "long", "ones_like", "requires_grad_", "to", "zeros_like",
    )
)  # fmt: skip
# What concerns the tensor as an object.
OBJECT = frozenset(
    (
        "__format__", "__get__", "__set__", "__len__", "backward", "dim", "element_size",
        "get_device", "is_floating_point", "is_complex", "item", "ndimension", "nelement", "numel",
        "register_hook", "retain_grad", "size", "stride",
    )
)  # fmt: skip
WARNING = (
    "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. "
    "Please open a Github issue for features requests and see our documentation on the "
    "torch.masked module for further information about the project."
)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether `obj` is a tensor that carries a mask."""
    return isinstance(obj, MaskedTensor)


class MaskedTensor(Tensor):
    """Numbers, and which of them are there."""

    _masked_mask: Any

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        for what, value in (("data", data), ("mask", mask)):
            if is_masked_tensor(value) or not isinstance(value, Tensor):
                raise TypeError(f"{what} must be a Tensor")
        warnings.warn(WARNING, UserWarning, stacklevel=2)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        if data.layout is not mask.layout:
            raise TypeError("data and mask must have the same layout.")
        if data.layout.name != "strided":
            raise MissingFeature(f"MaskedTensor of layout {data.layout}", code="RL0406")
        if mask.dtype is not bool_:
            raise TypeError("mask must have dtype bool.")
        if data.dim() != mask.dim():
            raise ValueError("data.dim() must equal mask.dim()")
        if data.shape != mask.shape:
            raise ValueError("data.size() must equal mask.size()")
        made = with_mask(data.detach().clone(), mask.clone())
        return made.requires_grad_() if requires_grad else made

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def get_data(self) -> Any:
        """All numbers, masked or not."""
        return plain(self)

    def get_mask(self) -> Any:
        return self._masked_mask

    def to_tensor(self, value: Any) -> Any:
        """The numbers, `value` where they are masked."""
        return plain(self).masked_fill(~self._masked_mask, value)

    def is_sparse_coo(self) -> bool:
        return False

    def tolist(self) -> Any:
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    @property
    def grad(self) -> Any:
        with DisableTorchFunctionSubclass():
            found = Tensor.grad.__get__(self)
        return None if found is None else with_mask(plain(found).detach(), self._masked_mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        with DisableTorchFunctionSubclass():
            Tensor.grad.__set__(self, value)

    def __repr__(self, **options: Any) -> str:
        data, mask = plain(self).detach(), self._masked_mask
        if not self.dim():
            shown = number(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        inside = rows(data, mask).replace("\n", "\n  ")
        return f"MaskedTensor(\n  {inside}\n)"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = name_of_called(func)
        if name in OBJECT:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if name in REDUCTIONS:
            return reduced(name, *args, **kwargs)
        if name in PLACING or picks_elements(name):
            return placed(func, args, kwargs)
        if name in JOINING:
            tensors, *rest = args
            data = func([plain(each) for each in tensors], *rest, **kwargs)
            return with_mask(data, func([mask_of(each) for each in tensors], *rest, **kwargs))
        if name in ("softmax", "log_softmax"):
            return NORMALISED[name](*args, **kwargs)
        if name == "where":
            return chosen(*args)
        if name in KEEPING or is_elementwise(name.rstrip("_")):
            return elementwise(func, name, args, kwargs)
        raise MissingFeature(f"{name or func} of a MaskedTensor", code="RL0406")


NORMALISED: dict[str, Callable[..., Any]] = {}


def with_mask(data: Any, mask: Any) -> Any:
    made = data.as_subclass(MaskedTensor)
    made._masked_mask = mask
    return made


def plain(value: Any) -> Any:
    return value.as_subclass(Tensor) if isinstance(value, MaskedTensor) else value


def mask_of(value: Any) -> Any:
    if isinstance(value, MaskedTensor):
        return value._masked_mask
    return functions.ones_like(value, dtype=bool_)


def common_mask(values: Any) -> Any:
    masks = [value._masked_mask for value in values if isinstance(value, MaskedTensor)]
    for other in masks[1:]:
        if not functions.equal(masks[0], other):
            raise ValueError(
                "Input masks must match. If you need support for this, please open an issue on "
                "Github."
            )
    return masks[0]


def elementwise(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    mask = common_mask(args)
    data = func(*[plain(value) for value in args], **kwargs)
    if name.endswith("_") and isinstance(args[0], MaskedTensor):
        return args[0]
    if name in ("contiguous", "detach", "to"):
        # torch: copies, even where nothing changes.
        data, mask = data.clone(), mask.clone()
    if data.shape != mask.shape:
        mask = mask.expand(data.shape)
    return with_mask(data, mask)


def placed(func: Any, args: Any, kwargs: Any) -> Any:
    self, *rest = args
    rest = [plain(value) for value in rest]
    data, mask = func(plain(self), *rest, **kwargs), func(self._masked_mask, *rest, **kwargs)
    # torch: parts are copies, too.
    if isinstance(data, Tensor):
        return with_mask(data.clone(), mask.clone())
    pairs = zip(data, mask, strict=True)
    return type(data)([with_mask(part.clone(), its.clone()) for part, its in pairs])


def chosen(condition: Any, input: Any, other: Any) -> Any:
    data = functions.where(condition, plain(input), plain(other))
    return with_mask(data, functions.where(condition, mask_of(input), mask_of(other)))


def reduced(
    name: str,
    self: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    """Over what is not masked; absent where nothing is there."""
    mask = self._masked_mask
    if dtype is not None:
        kwargs["dtype"] = dtype
    data = REDUCTIONS[name](plain(self), dim, keepdim=keepdim, mask=mask, **kwargs)
    if dim is None:
        return with_mask(data, mask.any())
    dims = sorted([each % self.dim() for each in ([dim] if isinstance(dim, int) else dim)])
    for each in reversed(dims):
        mask = mask.any(each, keepdim=keepdim)
    return with_mask(data, mask)


# -- showing them ----------------------------------------------------------------------------------


def number(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def rows(data: Any, mask: Any) -> str:
    if data.dim() > 1:
        parts = [rows(*pair).replace("\n", "\n  ") for pair in zip(data, mask, strict=True)]
        return "[\n  " + ",\n  ".join(parts) + "\n]"
    texts = [number(value) for value in data.tolist()]
    there = mask.tolist()
    width = max([8, *[len(text) for text in texts]]) if not all(there) else 0
    shown = [
        text if is_there else "--".rjust(width) for text, is_there in zip(texts, there, strict=True)
    ]
    return "[" + ", ".join(shown) + "]"
