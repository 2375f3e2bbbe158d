"""Nested tensors of the layout torch.jagged: one dim has a size of its own in each component.

A `JaggedTensor` is the tensor of all components' values, one after the other along the ragged dim,
that shows the geometry of the whole: `(batch, ..., ragged, ...)`. `offsets` says where components
begin and, with `lengths`, how much of their place they fill. What is done to one is done to its
values, so that gradients, devices and dtypes are those of ordinary tensors; `jaggedrules` says how.
"""

from __future__ import annotations

import itertools
from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.core.attributes import set_attributes
from rushlight.core.construct import tensor as from_data
from rushlight.core.device import jagged
from rushlight.core.modes import DisableTorchFunctionSubclass
from rushlight.core.operators import name_of_called
from rushlight.core.size import unchecked
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["JaggedTensor", "NestedInt", "as_jagged", "as_values", "from_components", "wrapped"]

COUNTER = itertools.count(1)


class NestedInt:
    """The size of a ragged dim: equal to itself, greater than one, and otherwise unknown."""

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number = number
        self.factor = factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __mul__(self, other: Any) -> NestedInt:
        return NestedInt(self.number, self.factor * other)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, NestedInt) and self.number == other.number
        return same and self.factor == other.factor  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.number, self.factor))

    def compared(self, other: Any, low: bool, high: bool, word: str) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            order = self.factor - other.factor
            return {"lt": order < 0, "le": order <= 0, "gt": order > 0, "ge": order >= 0}[word]
        if isinstance(other, int) and other <= (2 if word in ("lt", "ge") else 1):
            return high if word in ("gt", "ge") else low
        raise ValueError(f"{word}: relation is indeterminate")

    def __lt__(self, other: Any) -> bool:
        return self.compared(other, False, False, "lt")

    def __le__(self, other: Any) -> bool:
        return self.compared(other, False, False, "le")

    def __gt__(self, other: Any) -> bool:
        return self.compared(other, True, True, "gt")

    def __ge__(self, other: Any) -> bool:
        return self.compared(other, True, True, "ge")

    def is_symbolic(self) -> bool:
        return False


def ragged_size(structure: Tensor) -> NestedInt:
    """The one size that belongs to a tensor of offsets or lengths."""
    found = structure.__dict__.get("_ragged_size")
    if found is None:
        found = structure.__dict__["_ragged_size"] = NestedInt(next(COUNTER))
    size: NestedInt = found
    return size


class JaggedTensor(Tensor):
    """Components of one ragged dim in one tensor; made by the functions of `torch.nested`."""

    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    _seqlens: tuple[int | None, int | None]

    # -- geometry ------------------------------------------------------------------------------

    @property
    def is_nested(self) -> bool:  # type: ignore[override]
        return True

    @property
    def layout(self) -> Any:
        return jagged

    @property
    def shape(self) -> Any:
        sizes: list[Any] = list(as_values(self).shape)
        structure = self._offsets if self._lengths is None else self._lengths
        sizes[self._ragged_idx - 1] = ragged_size(structure)
        return unchecked((len(self), *sizes))

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[self.place(dim)]

    def dim(self) -> int:
        return as_values(self).dim() + 1

    ndim = property(dim)

    def place(self, dim: int) -> int:
        """A dim counted from the front."""
        ndim = self.dim()
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], "
                f"but got {dim})"
            )
        return dim % ndim

    def stride(self, dim: int | None = None) -> Any:
        strides: list[Any] = list(as_values(self).stride())
        sizes = list(self.shape[1:])
        batch = max(strides)
        widest = strides.index(batch)
        found = (sizes[widest] * batch, *strides)
        return found if dim is None else found[self.place(dim)]

    def numel(self) -> int:
        return int(as_values(self).numel())

    def is_contiguous(self, memory_format: Any = None) -> bool:
        filled = self._lengths is None and self._ragged_idx == 1
        return filled and bool(as_values(self).is_contiguous())

    def __len__(self) -> int:
        return int(self._offsets.shape[0]) - 1

    # -- parts ---------------------------------------------------------------------------------

    @property
    def _values(self) -> Tensor:
        return as_values(self)

    def values(self) -> Any:
        return as_values(self)

    def offsets(self) -> Tensor:
        return self._offsets

    def lengths(self) -> Any:
        return self._lengths

    def counts(self) -> Tensor:
        """How long each component is."""
        return self._offsets.diff() if self._lengths is None else self._lengths

    def _seqlen(self, which: int) -> int:
        known = self._seqlens[which]
        if known is not None:
            return known
        counts = self.counts()
        return int((counts.max() if which else counts.min()).item()) if len(self) else 0

    @property
    def _min_seqlen(self) -> int:
        return self._seqlen(0)

    @property
    def _max_seqlen(self) -> int:
        return self._seqlen(1)

    @property
    def grad(self) -> Any:
        found = super().grad
        if found is None or isinstance(found, JaggedTensor):
            return found
        return wrapped(found, self)

    @grad.setter
    def grad(self, value: Any) -> None:
        given = value if value is None else as_values(value)
        Tensor.grad.fset(self, given)  # type: ignore[attr-defined]

    def _nested_tensor_size(self) -> Tensor:
        """The components' sizes, one row each."""
        sizes: list[Any] = [[size] * len(self) for size in as_values(self).shape]
        sizes[self._ragged_idx - 1] = self.counts().tolist()
        found: Tensor = from_data(sizes).t()
        return found

    @property
    def mT(self) -> Any:  # type: ignore[override]
        return self.transpose(-2, -1)

    @property
    def data(self) -> Any:
        return wrapped(as_values(self).data, self)

    @property
    def real(self) -> Any:
        return wrapped(as_values(self).real, self)

    @property
    def imag(self) -> Any:
        return wrapped(as_values(self).imag, self)

    def refused_view(self) -> Any:
        raise MissingFeature("T, H and mH of nested tensors", "Use transpose().", code="RL0520")

    T = H = mH = property(refused_view)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __repr__(self, **options: Any) -> str:
        end = ""
        if self.grad_fn is not None:
            end = f", grad_fn={self.grad_fn}"
        elif self.requires_grad:
            end = ", requires_grad=True"
        sizes = ", ".join(map(str, self.shape))
        return (
            f"NestedTensor(size=({sizes}), offsets={self._offsets}{end}, "
            f"contiguous={self.is_contiguous()})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        facts = (self._offsets, self._lengths, self._ragged_idx, self._seqlens, self.requires_grad)
        return rebuilt, (as_values(self).detach(), *facts)

    def __setstate__(self, state: Any) -> None:
        # torch: its pickles repeat the parts, which the constructor was given, as attributes.
        kept = {name: value for name, value in state.items() if not name.startswith("_")}
        set_attributes(self, kept)

    def __deepcopy__(self, memo: Any) -> Any:
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user support deepcopy")
        made = wrapped(as_values(self).detach().clone(), self)
        made.requires_grad_(self.requires_grad)
        memo[id(self)] = made
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from rushlight.subclasses.jaggedrules import apply

        return apply(name_of_called(func), func, args, kwargs or {})


def as_values(tensor: Any) -> Any:
    """The values of all components, as an ordinary tensor that gradients pass."""
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def as_jagged(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None = None,
    ragged_idx: int = 1,
    seqlens: tuple[int | None, int | None] = (None, None),
) -> Any:
    """Values, which become the memory of what is answered."""
    made: Any = values
    made.__class__ = JaggedTensor
    made._offsets, made._lengths = offsets, lengths
    made._ragged_idx, made._seqlens = ragged_idx, seqlens
    return made


def wrapped(values: Tensor, like: JaggedTensor, ragged_idx: int | None = None) -> Any:
    """Values in the structure of another."""
    place = like._ragged_idx if ragged_idx is None else ragged_idx
    return as_jagged(values, like._offsets, like._lengths, place, like._seqlens)


def rebuilt(
    values: Tensor, offsets: Tensor, lengths: Any, ragged_idx: int, seqlens: Any, learns: bool
) -> Any:
    """One as pickles make it."""
    made = as_jagged(values.view_as(values), offsets, lengths, ragged_idx, seqlens)
    return made.requires_grad_(learns)


def from_components(parts: list[Tensor], dtype: Any = None, device: Any = None) -> Any:
    """Tensors as one, through which gradients reach them."""
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if len({part.dim() for part in parts}) > 1:
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dim"
        )
    if parts[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    sizes = [tuple(part.shape) for part in parts]
    uneven = [dim for dim, found in enumerate(zip(*sizes, strict=True)) if len(set(found)) > 1]
    if len(uneven) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only allows for a single ragged dimension. For example: "
            "(B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    dim = uneven[0] if uneven else 0
    parts = [part.to(device=device, dtype=dtype or part.dtype) for part in parts]
    counts = [found[dim] for found in sizes]
    offsets = from_data([0, *itertools.accumulate(counts)], device=parts[0].device)
    return as_jagged(
        functions.cat(parts, dim), offsets, ragged_idx=dim + 1, seqlens=(min(counts), max(counts))
    )


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Any:
    """Values of components that lie one after the other, as a nested tensor; gradients reach them.

    `offsets` says where components begin, and where the last ends; with `lengths` beside it their
    places need not be filled, and `lengths` alone says as much as offsets. `jagged_dim` is the
    ragged dim of what is answered.

    >>> import rushlight as torch
    >>> nested = torch.nested.nested_tensor_from_jagged(torch.arange(5.0), torch.tensor([0, 2, 5]))
    >>> nested.sum(1)
    tensor([1., 9.])
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        start = functions.zeros((1,), dtype=lengths.dtype, device=lengths.device)
        offsets, lengths = functions.cat([start, lengths.cumsum(0)]), None
    place = 1 if jagged_dim is None else jagged_dim
    return as_jagged(values.view_as(values), offsets, lengths, place, (min_seqlen, max_seqlen))


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = None) -> Any:
    """Of each entry of a batch the part that begins at its own start and is as long as its own
    length, without a copy where the layout is torch.jagged."""
    batch, longest = tensor.shape[:2]

    def one_each(value: Any) -> Tensor:
        if not isinstance(value, Tensor):
            value = from_data([value], device=tensor.device)
        return value.expand((batch,))

    starts, counts = one_each(start), one_each(length)
    if dim != 1:
        raise MissingFeature("nested.narrow of a dim other than 1", "Use dim=1.", code="RL0520")
    if layout is not jagged:
        from rushlight.subclasses.nested import as_nested_tensor

        places = zip(tensor, starts.tolist(), counts.tolist(), strict=True)
        return as_nested_tensor([row.narrow(0, first, count) for row, first, count in places])
    begin = functions.arange(batch, device=tensor.device) * longest + starts
    end = from_data([batch * longest], device=tensor.device)
    offsets = functions.cat([begin, end])
    return as_jagged(tensor.flatten(0, 1), offsets, counts.contiguous())


def masked_select(tensor: Tensor, mask: Tensor) -> Any:
    """The entries that a mask names, a component for each row along the last dim."""
    if tensor.layout.name != "strided":
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}"
        )
    mask = mask.expand(tensor.shape)
    counts = mask.sum(-1).reshape(-1)
    return nested_tensor_from_jagged(tensor.masked_select(mask), lengths=counts)
