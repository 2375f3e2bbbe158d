"""Tensors whose components differ in shape.

A `NestedTensor` holds the values of all components packed one after the other; elementwise ops and
their gradients work on that vector. `shape` and `dim()` are those of the packed values: ask
`size(dim)` or `_nested_tensor_size()` for the nested geometry. Ops without a rule are refused.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rushlight.autograd.function import Function
from rushlight.base.errors import MissingFeature, error
from rushlight.core.device import jagged
from rushlight.core.modes import DisableTorchFunctionSubclass
from rushlight.core.operators import name_of_called
from rushlight.core.tensor import Tensor
from rushlight.opset import functions
from rushlight.opset.registry import packet
from rushlight.subclasses.jagged import JaggedTensor, from_components

__all__ = ["NestedTensor", "as_nested_tensor", "nested_tensor", "to_padded_tensor"]

# Methods that act on every element, beside the ops that say so.
CONVERSIONS = frozenset(("contiguous", "double", "float", "requires_grad", "to"))
# What concerns the tensor as an object and not its geometry.
OBJECT = frozenset(
    ("__format__", "__get__", "__set__", "backward", "numel", "register_hook", "retain_grad")
)


class NestedTensor(Tensor):
    """Components of different shapes in one tensor; made by `nested_tensor`."""

    nested_components: tuple[tuple[int, ...], ...] = ()

    @property
    def is_nested(self) -> bool:  # type: ignore[override]
        return True

    @property
    def grad(self) -> Any:  # type: ignore[override]
        """The gradient, with the same components; autograd has it packed."""
        with DisableTorchFunctionSubclass():
            found = Tensor.grad.__get__(self)
        if found is None or isinstance(found, NestedTensor):
            return found
        return as_nested(found.as_subclass(Tensor), self.nested_components)

    @grad.setter
    def grad(self, value: Any) -> None:
        with DisableTorchFunctionSubclass():
            Tensor.grad.__set__(self, value)  # type: ignore[attr-defined]

    def register_hook(self, hook: Any) -> Any:
        components = self.nested_components

        def with_components(grad: Any) -> Any:
            return hook(as_nested(grad.as_subclass(Tensor), components))

        with DisableTorchFunctionSubclass():
            return super().register_hook(with_components)

    def _nested_tensor_size(self) -> Any:
        """The components' sizes, one row each."""
        from rushlight.core.construct import tensor

        return tensor([list(sizes) for sizes in self.nested_components])

    def size(self, dim: int | None = None) -> Any:
        sizes = self.nested_components
        if dim is None:
            raise error("RL0521")
        if dim == 0:
            return len(sizes)
        place = dim - 1 if dim > 0 else dim
        found = {entry[place] for entry in sizes}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return found.pop()

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The components."""
        if dim != 0:
            raise MissingFeature(
                "unbind of a nested tensor along a dim other than 0", "Use dim=0.", code="RL0520"
            )
        packed = self.as_subclass(Tensor)
        lengths = [product(sizes) for sizes in self.nested_components]
        parts = packed.split(lengths)
        pairs = zip(parts, self.nested_components, strict=True)
        return tuple(part.view(sizes) for part, sizes in pairs)

    def __len__(self) -> int:
        return len(self.nested_components)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, int):
            raise MissingFeature(
                "indexing a nested tensor with anything but a number", code="RL0520"
            )
        return self.unbind()[index]

    def __repr__(self, **options: Any) -> str:
        inside = ",\n".join(
            "  " + repr(part.detach()).replace("\n", "\n  ") for part in self.unbind()
        )
        end = ""
        if self.grad_fn is not None:
            end = f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            end = ", requires_grad=True"
        return f"nested_tensor([\n{inside}\n]{end})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = name_of_called(func)
        rule = RULES.get(name)
        if rule is not None:
            return rule(*args, **kwargs)
        if name in CONVERSIONS or name.rstrip("_") in CONVERSIONS or is_elementwise(name):
            return elementwise(func, args, kwargs)
        if name in OBJECT:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        raise MissingFeature(f"{name or func} on nested tensors", code="RL0520")


@cache
def is_elementwise(name: str) -> bool:
    """Whether the ops of a name treat every element alike, wherever it lies."""
    try:
        found = packet(name)
    except KeyError:
        return False
    methods = [op.rule("batch") for op in found.candidates if op.body is None]
    return bool(methods) and all([rule in ("elementwise", "straight") for rule in methods])


@cache
def picks_elements(name: str) -> bool:
    """Whether the ops of a name answer some of their first operand's elements, as they are."""
    try:
        found = packet(name)
    except KeyError:
        return False
    own = [op for op in found.candidates if op.body is None]
    return bool(own) and all(["picks" in op.options for op in own])


def product(sizes: Any) -> int:
    count = 1
    for size in sizes:
        count *= int(size)
    return count


def as_nested(packed: Any, components: Any) -> Any:
    packed.__class__ = NestedTensor
    packed.nested_components = components
    return packed


def elementwise(func: Any, args: Any, kwargs: Any) -> Any:
    """Run on the packed values; nested operands must agree in every component's shape."""
    operands = [value for value in args if isinstance(value, NestedTensor)]
    components = operands[0].nested_components
    for other in operands[1:]:
        if other.nested_components != components:
            raise RuntimeError(
                f"{func.__name__} does not support broadcasting when given two nested tensors with "
                f"different component sizes: {list(components)} and {list(other.nested_components)}"
            )
    for value in args:
        if isinstance(value, Tensor) and not isinstance(value, NestedTensor) and value.dim():
            raise MissingFeature(
                f"{func.__name__} of a nested and an ordinary tensor",
                "Make both nested.",
                code="RL0520",
            )
    with DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    if isinstance(result, NestedTensor) or not isinstance(result, Tensor):
        return result
    return as_nested(result, components)


class Sum(Function):
    """Sum over the last dim of each component; keeps its input to know their sizes."""

    @staticmethod
    def forward(ctx: Any, packed: Any, components: Any) -> Any:
        ctx.save_for_backward(packed)
        ctx.components = components
        parts = packed.split([product(sizes) for sizes in components])
        pairs = zip(parts, components, strict=True)
        return functions.cat([part.view(sizes).sum(-1).reshape(-1) for part, sizes in pairs])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.saved_tensors  # noqa: B018  # the check that the input has not changed
        grad = grads[0].as_subclass(Tensor)
        rows = [product(sizes[:-1]) for sizes in ctx.components]
        pairs = zip(grad.split(rows), ctx.components, strict=True)
        spread = [part.view((-1, 1)).expand((-1, sizes[-1])) for part, sizes in pairs]
        return functions.cat([part.reshape(-1) for part in spread]), None


def nested_sum(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    packed = self.as_subclass(Tensor)
    if dim is None:
        return packed.sum(dtype=dtype)
    dims = [dim] if isinstance(dim, int) else list(dim)
    ndim = len(self.nested_components[0]) + 1
    if dims not in ([-1], [ndim - 1]) or not keepdim:
        raise MissingFeature(
            "sum of a nested tensor other than sum(-1, keepdim=True)", code="RL0520"
        )
    kept = tuple((*sizes[:-1], 1) for sizes in self.nested_components)
    return as_nested(Sum.apply(packed, self.nested_components), kept)


class SquaredGradient(Function):
    """The self-test op's rule for nested tensors: a copy whose gradient is grad², plus grad."""

    @staticmethod
    def forward(ctx: Any, packed: Any, plus_one: bool) -> Any:
        ctx.plus_one = plus_one
        return packed.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0].as_subclass(Tensor)
        return grad * grad + (grad if ctx.plus_one else 0), None


def self_test(self: Any, b: Any = None) -> Any:
    result = SquaredGradient.apply(self.as_subclass(Tensor), b is not None)
    return as_nested(result, self.nested_components)


RULES = {
    "sum": nested_sum,
    "unbind": NestedTensor.unbind,
    "size": NestedTensor.size,
    "to_padded_tensor": lambda self, padding, output_size=None: to_padded_tensor(
        self, padding, output_size
    ),
    "_test_autograd_multiple_dispatch": self_test,
}


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Any:
    """Tensors as one nested tensor, through which gradients reach them.

    >>> import rushlight as torch
    >>> len(torch.nested.as_nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]))
    2
    """
    if isinstance(ts, NestedTensor):
        if layout is jagged:
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        return ts
    if isinstance(ts, JaggedTensor):
        if layout is not jagged and layout is not None:
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        return ts
    parts = list(ts)
    if not all(isinstance(part, Tensor) for part in parts):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a list / tuple of tensors"
        )
    if layout is jagged:
        return from_components(parts, dtype, device)
    if len({part.dim() for part in parts}) > 1:
        raise RuntimeError(
            "All Tensors given to nested_tensor must have the same dimension. Found dimensions "
            f"{[part.dim() for part in parts]}"
        )
    if layout is not None and layout.name != "strided":
        raise MissingFeature(
            f"nested tensors of layout {layout}", "Use torch.strided.", code="RL0520"
        )
    parts = [part if dtype is None else part.to(dtype) for part in parts]
    parts = [part if device is None else part.to(device) for part in parts]
    components = tuple(tuple(part.shape) for part in parts)
    packed = functions.cat([part.reshape(-1) for part in parts]) if parts else functions.empty((0,))
    result: NestedTensor = as_nested(packed, components)
    return result


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A nested tensor that is a leaf: it copies what it is given."""
    from rushlight.core.construct import as_tensor

    parts = [part.detach() if isinstance(part, Tensor) else as_tensor(part) for part in tensor_list]
    result = as_nested_tensor(parts, dtype, device, layout)
    return result.requires_grad_(requires_grad) if requires_grad else result


def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> Any:
    """The components in one ordinary tensor, `padding` where they are shorter than the longest."""
    if isinstance(input, JaggedTensor):
        return input.to_padded_tensor(padding, output_size)
    parts = input.unbind()
    widest = [max(sizes) for sizes in zip(*input.nested_components, strict=True)]
    if output_size is not None:
        widest = list(output_size)[1:]
    padded = []
    for part in parts:
        pad: list[int] = []
        for have, want in zip(reversed(part.shape), reversed(widest), strict=True):
            pad += [0, want - have]
        padded.append(functions.constant_pad_nd(part, pad, padding))
    return functions.stack(padded)
