"""Dims and the tensors that have them: every function runs batched over the dims of its arguments.

A call pushes a `vmap` level for each dim and shows the function tensors without their first-class
axes; results get the dims back that they still vary along. What takes dims as arguments
(subscripts, reductions, `order`) works on the labelled axes themselves.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from rushlight.base import pytree
from rushlight.core import tensor as core
from rushlight.core.batching import BatchedTensor, VmapLevel, batched
from rushlight.core.dtype import bool_
from rushlight.core.state import LOCAL, changed
from rushlight.func.dim import indexing
from rushlight.func.dim.labels import (
    Label,
    Labelled,
    axis_of,
    expanded,
    joined,
    matched,
    ordered,
    plain,
)
from rushlight.func.errors import DimensionBindError
from rushlight.opset import batching as _rules  # noqa: F401  (registers the batch rules)
from rushlight.opset import functions
from rushlight.opset.view.subscript import index_from_sequence

__all__ = ["Dim", "DimList", "Tensor", "cat", "index", "order", "softmax", "split", "stack"]

created = itertools.count()


class _Tensor:
    """What dims and tensors with dims have in common: the methods of tensors."""

    __hash__ = object.__hash__

    @property
    def labelled(self) -> Labelled:
        """The plain tensor behind, with its labels."""
        raise NotImplementedError

    @property
    def dims(self) -> tuple[Any, ...]:
        """The first-class dims, in the order of memory."""
        return self.labelled.dims

    @property
    def ndim(self) -> int:
        return self.labelled.rank

    def dim(self) -> int:
        """How many dims are positional."""
        return self.ndim

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return call(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        member = getattr(core.Tensor, name)
        if callable(member):
            return lambda *args, **kwargs: call(member, (self, *args), kwargs)
        return call(lambda tensor: getattr(tensor, name), (self,), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        write(self, index, value)

    def __iter__(self) -> Iterator[Any]:
        if self.labelled.rank == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def order(self, *dims: Any) -> Any:
        """Dims made positional, in front of the positional ones; a sequence of dims becomes one."""
        return order(self, *dims)

    def index(self, dims: Any, indices: Any) -> Any:
        """The tensor with entries of a subscript for the dims that are named."""
        return index(self, dims, indices)

    def __repr__(self) -> str:
        tensor = self.labelled
        sizes = tuple(tensor.value.shape)
        return f"{tensor.value}\nwith dims={tensor.shown_labels()} sizes={sizes}"


class Dim(Label, _Tensor):
    """A first-class dim. As a tensor it holds the positions along itself.

    >>> import rushlight as torch
    >>> from rushlight.func.dim import dims
    >>> i, j = dims()
    >>> matrix = torch.arange(6.0).view(2, 3)[i, j]
    >>> (matrix * 10 + i).order(j, i)
    tensor([[ 0., 31.],
            [10., 41.],
            [20., 51.]])
    """

    def __init__(self, name: str, s: int = -1) -> None:
        super().__init__(name, s)
        self._number = next(created)

    @property
    def labelled(self) -> Labelled:
        return Labelled(functions.arange(self.size), (self,))

    @property
    def ndim(self) -> int:
        # torch: a dim is one, whatever tensor it stands for.
        return 1

    __format__ = object.__format__


class Tensor(_Tensor):
    """A tensor with first-class dims; a product is not computed before it is needed."""

    def __init__(self, labelled: Labelled | None, product: Product | None = None) -> None:
        self._labelled = labelled
        self._product = product

    @property
    def labelled(self) -> Labelled:
        if self._labelled is None:
            assert self._product is not None
            self._labelled, self._product = self._product.computed(), None
        return self._labelled


class DimList:
    """Several dims in a row; how many, the tensor tells that they are bound to.

    >>> import rushlight as torch
    >>> from rushlight.func.dim import dimlists, dims
    >>> rest = dimlists()
    >>> last = dims(1)
    >>> torch.zeros(2, 3, 4)[rest, last].order(last, rest).shape
    torch.Size([4, 2, 3])
    """

    def __init__(self, len_or_dims: Any = None, name: str | None = None) -> None:
        self._name = name
        self._dims: list[Dim] | None = None
        if isinstance(len_or_dims, int):
            self.bind_len(len_or_dims)
        elif len_or_dims is not None:
            self._dims = [
                Dim(self._dim_name(place), item) if isinstance(item, int) else Dim(str(item))
                for place, item in enumerate(len_or_dims)
            ]

    def _dim_name(self, place: int) -> str:
        return f"{self._name or 'dim'}{place}"

    @property
    def is_bound(self) -> bool:
        """Whether it is known how many dims there are."""
        return self._dims is not None

    def bind_len(self, size: int) -> None:
        """Say how many dims there are."""
        if self._dims is None:
            self._dims = [Dim(self._dim_name(place)) for place in range(size)]
        elif len(self._dims) != size:
            raise DimensionBindError(
                f"Dimlist has size {len(self._dims)} but it is being bound to size {size}"
            )

    def bind(self, sizes: Sequence[int]) -> None:
        """Say what sizes the dims have."""
        if not hasattr(sizes, "__len__") or not hasattr(sizes, "__getitem__"):
            raise ValueError("expected a sequence")
        self.bind_len(len(sizes))
        for dim, size in zip(self._bound(), sizes, strict=True):
            dim.size = int(size)

    def _bound(self) -> list[Dim]:
        if self._dims is None:
            raise DimensionBindError("DimList not bound")
        return self._dims

    def size(self) -> int:
        """How many dims there are."""
        return len(self._bound())

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, key: Any) -> Any:
        dims = self._bound()
        if isinstance(key, slice):
            return tuple(dims[key])
        if not isinstance(key, int):
            raise ValueError("expected an int or a slice")
        if not 0 <= key < len(dims):
            raise IndexError("index out of bounds")
        return dims[key]

    def __repr__(self) -> str:
        if self._dims is not None:
            return f"({', '.join([repr(dim) for dim in self._dims])})"
        return "<unbound_dimlist>" if self._name is None else f"*{self._name}"

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return call(func, args, kwargs or {})


def wrapped(tensor: Labelled) -> Any:
    """A tensor for users: a plain one where no dim is left."""
    return Tensor(tensor) if tensor.dims else tensor.value


def labelled_of(value: Any) -> Labelled | None:
    """A tensor of any kind with its labels; None for what is no tensor."""
    if isinstance(value, _Tensor):
        return value.labelled
    return plain(value) if isinstance(value, core.Tensor) else None


# -- calls -----------------------------------------------------------------------------------------


def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of tensors that may have dims."""
    name = getattr(func, "__name__", "")
    own = SPECIAL.get(name)
    if own is not None:
        return own(func, *args, **kwargs)
    if name in DIM_ARGUMENTS:
        return call_along(func, DIM_ARGUMENTS[name], args, kwargs)
    return call_batched(func, args, kwargs)


def call_batched(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function, run as by `vmap` over every dim that an argument has."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    tensors = [leaf.labelled if isinstance(leaf, _Tensor) else None for leaf in leaves]
    found = {id(dim): dim for tensor in tensors if tensor is not None for dim in tensor.dims}
    dims: list[Any] = sorted(found.values(), key=lambda dim: dim._number)
    places = [leaf.device for leaf in leaves if isinstance(leaf, core.Tensor)]
    places += [t.value.device for leaf, t in zip(leaves, tensors) if isinstance(leaf, Tensor) and t]
    with ExitStack() as stack:
        levels = {}
        for dim in dims:
            before = LOCAL.state.transforms
            level = VmapLevel(len(before) + 1, dim.size, "different")
            stack.enter_context(changed(transforms=(*before, level)))
            levels[level.level] = dim
        given = []
        for leaf, tensor in zip(leaves, tensors, strict=True):
            if tensor is None:
                given.append(leaf)
                continue
            value, labels = tensor.value, list(tensor.labels)
            if isinstance(leaf, Dim) and places and value.device != places[0]:
                # Where a dim lies, the tensors say that it meets.
                value = value.to(places[0])
            for level_number, dim in levels.items():
                axis = next((k for k, label in enumerate(labels) if label is dim), -1)
                if axis >= 0:
                    value = batched(value, axis, level_number)
                    del labels[axis]
            given.append(value)
        positional, named = pytree.tree_unflatten(given, structure)
        result = func(*positional, **named)
    return pytree.tree_map(lambda leaf: with_dims(leaf, levels), result)


def with_dims(value: Any, levels: dict[int, Any]) -> Any:
    """A result with dims for the batch axes that it has."""
    if not isinstance(value, core.Tensor):
        return value
    labels: list[Any] = [None] * value.dim()
    while isinstance(value, BatchedTensor) and value._level in levels:
        labels.insert(value._axis, levels[value._level])
        value = value._value
    return wrapped(Labelled(value, tuple(labels)))


# -- functions of dims -----------------------------------------------------------------------------


class DimArgument:
    """Where a function takes its dim, and whether that dim is gone from the result."""

    def __init__(self, place: int = 1, reduces: bool = True) -> None:
        self.place = place
        self.reduces = reduces


REDUCED = DimArgument()
KEPT = DimArgument(reduces=False)
DIM_ARGUMENTS = {
    **dict.fromkeys(
        ("mean", "sum", "all", "amax", "amin", "aminmax", "any", "count_nonzero", "logsumexp",
         "nanmean", "nansum", "prod", "std", "var", "max", "min", "argmax", "argmin", "median",
         "nanmedian", "mode", "unbind"),
        REDUCED,
    ),
    **dict.fromkeys(
        ("sort", "argsort", "cummax", "cummin", "cumprod", "cumprod_", "cumsum", "cumsum_",
         "logcumsumexp", "softmax", "log_softmax", "flip"),
        KEPT,
    ),
    "kthvalue": DimArgument(2),
    "norm": DimArgument(2),
    "chunk": DimArgument(2, reduces=False),
    "renorm": DimArgument(2, reduces=False),
}  # fmt: skip


def is_dim_argument(value: Any) -> bool:
    """Whether an argument speaks of dims, and is not a tensor or a number of another meaning."""
    entries = value if isinstance(value, (tuple, list)) else (value,)
    return bool(entries) and all(
        isinstance(e, (Dim, int)) and not isinstance(e, bool) for e in entries
    )


def call_along(func: Any, how: DimArgument, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function along dims, positional ones or not, which it sees as axes."""
    dim = kwargs.get("dim", args[how.place] if len(args) > how.place else None)
    if not args or not is_dim_argument(dim):
        return call_batched(func, args, kwargs)
    entries = dim if isinstance(dim, (tuple, list)) else (dim,)
    keepdim = how.reduces and bool(kwargs.get("keepdim", False))
    if keepdim and any(isinstance(entry, Dim) for entry in entries):
        raise ValueError("cannot preserve first-class dimensions with keepdim=True")
    contracted = contraction(func, args, kwargs, entries)
    if contracted is not None:
        return contracted
    tensor = labelled_of(args[0])
    if tensor is None:
        raise ValueError("expected a tensor object")
    axes = []
    for entry in entries:
        axis = axis_of(tensor, entry)
        if axis < 0:
            shown = [str(label) for label in tensor.shown_labels()]
            raise ValueError(f"Tensor with dimensions {shown} does not contain {entry}")
        axes.append(axis)
    labels = tensor.labels
    if how.reduces and not keepdim:
        labels = tuple([label for axis, label in enumerate(labels) if axis not in axes])
    given: Any = axes[0] if not isinstance(dim, (tuple, list)) else tuple(axes)
    if "dim" in kwargs:
        kwargs = {**kwargs, "dim": given}
        values = (tensor.value, *args[1:])
    else:
        values = (tensor.value, *args[1 : how.place], given, *args[how.place + 1 :])
    result = func(*values, **kwargs)
    return pytree.tree_map(
        lambda leaf: wrapped(Labelled(leaf, labels)) if isinstance(leaf, core.Tensor) else leaf,
        result,
    )


class Product:
    """Two factors that are not multiplied yet: a sum over some of their dims is a contraction,
    which needs no memory for the product."""

    def __init__(self, first: Labelled, second: Labelled) -> None:
        self.factors = first, second
        self.versions = first.value._version, second.value._version

    def check(self) -> None:
        if self.versions != tuple([factor.value._version for factor in self.factors]):
            raise RuntimeError(
                "a factor of a product was modified in place before the product was used. Clone "
                "the factor, or use the product first."
            )

    def computed(self) -> Labelled:
        self.check()
        result = call_batched(functions.mul, tuple(map(wrapped, self.factors)), {})
        return labelled_of(result) or plain(result)

    def summed(self, dims: Sequence[Any]) -> Any:
        self.check()
        labels = joined(self.factors)
        letters = dict(zip(map(id, labels), string.ascii_letters, strict=False))
        kept = [label for label in labels if not any(label is dim for dim in dims)]
        first, second, out = [
            "".join([letters[id(label)] for label in part])
            for part in (*[factor.labels for factor in self.factors], kept)
        ]
        factors = [factor.value for factor in self.factors]
        value = functions.einsum(f"{first},{second}->{out}", factors)
        return wrapped(Labelled(value, tuple(kept)))


def multiply(func: Any, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 2 and not kwargs:
        tensors = [labelled_of(arg) for arg in args]
        first, second = tensors
        if (
            first is not None
            and second is not None
            and not first.rank + second.rank
            and first.value.is_floating_point()
            and first.value.dtype == second.value.dtype
        ):
            return Tensor(None, Product(first, second))
    return call_batched(func, args, kwargs)


def contraction(func: Any, args: tuple[Any, ...], kwargs: Any, dims: Sequence[Any]) -> Any:
    """The sum of a product; None where it is something else."""
    product = args[0]._product if isinstance(args[0], Tensor) else None
    if product is None or getattr(func, "__name__", "") != "sum" or kwargs.keys() - {"dim"}:
        return None
    labels = joined(product.factors)
    if len(args) > 2 or not all(any(label is dim for label in labels) for dim in dims):
        return None
    return product.summed(dims)


# -- subscripts ------------------------------------------------------------------------------------


def read(func: Any, self: Any, index: Any) -> Any:
    tensor = labelled_of(self)
    assert tensor is not None
    return wrapped(indexing.read(tensor, entries_of(tensor, index)))


def write(self: Any, index: Any, value: Any) -> None:
    tensor = labelled_of(self)
    assert tensor is not None
    given = labelled_of(value)
    indexing.assign(tensor, entries_of(tensor, index), value if given is None else given)


def entries_of(tensor: Labelled, index: Any) -> list[Any]:
    """The entries of a subscript, with `...` and lists of dims spelled out."""
    entries = list(index) if is_several(index) else [index]
    entries = [entry for given in entries for entry in converted(given)]
    open_places = [
        place
        for place, entry in enumerate(entries)
        if entry is Ellipsis or (isinstance(entry, DimList) and not entry.is_bound)
    ]
    if len(open_places) > 1:
        raise DimensionBindError(
            "at most one ... or unbound dimension list can exist in indexing list but found 2 at "
            f"offsets {open_places[0]} and {open_places[1]}"
        )
    used = sum(
        [
            len(entry) if isinstance(entry, DimList) else entry is not None
            for place, entry in enumerate(entries)
            if place not in open_places
        ]
    )
    left = max(tensor.rank - used, 0)
    found: list[Any] = []
    for entry in entries:
        if entry is Ellipsis:
            found += [indexing.KEEP] * left
        elif isinstance(entry, DimList):
            if not entry.is_bound:
                entry.bind_len(left)
            found += entry._bound()
        else:
            found.append(entry)
    return found


def is_several(index: Any) -> bool:
    """Whether a subscript is several entries: a tuple, or a list of what is more than numbers."""
    if not isinstance(index, list):
        return isinstance(index, tuple)
    others = (core.Tensor, slice, _Tensor, list, tuple, DimList)
    return any(item is None or item is Ellipsis or isinstance(item, others) for item in index)


def converted(entry: Any) -> list[Any]:
    """One entry as those of `indexing`: packs are tuples of dims, index tensors have labels."""
    if isinstance(entry, (list, tuple)):
        if entry and all(isinstance(item, Dim) for item in entry):
            return [tuple(entry)]
        entry = index_from_sequence(entry)
    if isinstance(entry, (Dim, DimList)) or not isinstance(entry, (_Tensor, core.Tensor)):
        return [entry]
    tensor = labelled_of(entry)
    assert tensor is not None
    if tensor.value.dtype is not bool_:
        return [tensor]
    if tensor.dims:
        raise DimensionBindError("a mask with first-class dims has no size: use where()")
    return [plain(places) for places in tensor.value.nonzero(as_tuple=True)]


def index(self: Any, dims: Any, indices: Any) -> Any:
    """`self` with an entry of a subscript (a number, slice, dim, pack of dims or tensor) for each
    dim that is named; several dims in a sequence are taken as one."""
    tensor = labelled_of(self)
    if tensor is None:
        raise ValueError("expected a tensor object")
    if isinstance(dims, (tuple, list)) and isinstance(indices, (tuple, list)):
        if len(dims) != len(indices):
            raise TypeError(
                f"dims ({len(dims)}) and indices ({len(indices)}) must have the same length"
            )
        pairs = list(zip(dims, indices, strict=True))
    else:
        pairs = [(dims, indices)]
    groups = [list(d) if isinstance(d, (tuple, list)) else [d] for d, _ in pairs]
    # A label of its own keeps each axis found while others are taken together.
    marks = {
        indexing.present_axis(tensor, dim): Label(str(dim)) for group in groups for dim in group
    }
    names = [[marks[indexing.present_axis(tensor, dim)] for dim in group] for group in groups]
    labels = [marks.get(axis, label) for axis, label in enumerate(tensor.labels)]
    tensor = Labelled(tensor.value, tuple(labels))
    for group in names:
        tensor = indexing.flattened(tensor, group)
    axes = {
        axis_of(tensor, group[0]): converted(entry)[0]
        for group, (_, entry) in zip(names, pairs, strict=True)
    }
    return wrapped(indexing.read_axes(tensor, axes))


def order(self: Any, *dims: Any) -> Any:
    """A tensor with dims made positional; see `Tensor.order`."""
    if not isinstance(self, _Tensor):
        raise ValueError("First argument must be a Tensor or Dim object")
    groups: list[Any] = []
    for entry in dims:
        if isinstance(entry, DimList):
            groups += entry._bound()
        elif isinstance(entry, (Dim, int, tuple, list)):
            groups.append(entry)
        else:
            raise ValueError("expected a Dim, List[Dim], or Sequence[Dim]")
    return wrapped(ordered(self.labelled, groups))


# -- joining and splitting -------------------------------------------------------------------------


def stack(tensors: Sequence[Any], new_dim: Any, dim: Any = 0) -> Any:
    """Tensors along a new dim, which is bound to how many they are.

    >>> import rushlight as torch
    >>> from rushlight.func.dim import dims, stack
    >>> i = dims(1)
    >>> stack([torch.zeros(3), torch.ones(3)], i).sum(i)
    tensor([1., 1., 1.])
    """
    if not tensors:
        raise ValueError("stack expects a non-empty sequence of tensors")
    if not isinstance(new_dim, Dim):
        return call_batched(functions.stack, (tensors, dim), {})
    parts = [labelled_of(tensor) for tensor in tensors]
    if any(part is None for part in parts):
        raise ValueError("expected a tensor object")
    given = [part for part in parts if part is not None]
    labels = joined(given)
    if isinstance(dim, Dim) and not any(label is dim for label in labels):
        raise TypeError(f"Dimension {dim} does not exist in inputs")
    new_dim.size = len(given)
    value = functions.stack([matched(part, labels) for part in given])
    return wrapped(Labelled(value, (new_dim, *labels)))


def cat(tensors: Sequence[Any], dim: Any, new_dim: Any) -> Any:
    """Tensors one after another along `dim`, which becomes the dim `new_dim`."""
    parts = [labelled_of(tensor) for tensor in tensors]
    given = [part for part in parts if part is not None]
    if len(given) != len(parts) or not given:
        raise ValueError("expected a non-empty sequence of tensors")
    moved = []
    for part in given:
        axis = indexing.present_axis(part, dim)
        rest = (*part.labels[:axis], *part.labels[axis + 1 :])
        moved.append((part.value.movedim(axis, 0), rest))
    labels = joined([Labelled(value[0], rest) if len(value) else Labelled(value.sum(0), rest)
                     for value, rest in moved])  # fmt: skip
    mark = Label("joined")
    values = [matched(Labelled(value, (mark, *rest)), (mark, *labels)) for value, rest in moved]
    value = functions.cat(values)
    new_dim.size = value.shape[0]
    return wrapped(Labelled(value, (new_dim, *labels)))


def split(tensor: Any, split_size_or_sections: Any, dim: Any = None) -> Any:
    """Parts of a tensor along a dim. Sections may be dims: those without a size share what is left
    by the others, and each part has its dim.

    >>> import rushlight as torch
    >>> from rushlight.func.dim import dims, split
    >>> first, second = dims(sizes=[2, None])
    >>> [part.order(*part.dims).tolist() for part in split(torch.arange(5), [first, second], 0)]
    [[0, 1], [2, 3, 4]]
    """
    sections = split_size_or_sections
    kinds = (
        {isinstance(item, Dim) for item in sections}
        if isinstance(sections, (tuple, list))
        else {False}
    )
    if kinds != {True}:
        if True in kinds:
            raise TypeError("split list must be ints or dims but got a mix")
        if isinstance(dim, Dim):
            raise TypeError(
                "when dim is specified as a Dim object, split sizes must also be dimensions."
            )
        return call_batched(functions.split, (tensor, sections, dim or 0), {})
    source = labelled_of(tensor)
    if source is None:
        raise ValueError("expected a tensor object")
    axis = indexing.present_axis(source, 0 if dim is None else dim)
    bind_sections(sections, source.value.shape[axis])
    labels = source.labels
    return tuple(
        wrapped(Labelled(part, (*labels[:axis], section, *labels[axis + 1 :])))
        for part, section in zip(
            source.value.split([section.size for section in sections], axis), sections, strict=True
        )
    )


def bind_sections(sections: Sequence[Any], size: int) -> None:
    unbound = [section for section in sections if not section.is_bound]
    total = sum([section.size for section in sections if section.is_bound])
    if unbound:
        if total > size:
            raise TypeError(
                f"sizes of target dimensions add up to more ({total}) than source dim ({size})"
            )
        left = size - total
        share = -(-left // len(unbound))
        for section in unbound:
            section.size = min(share, left)
            left -= section.size
    elif total != size:
        raise TypeError(
            f"sum of sizes of target dimensions ({total}) do not match the source dim ({size})"
        )


def expand(func: Any, self: Any, *args: Any) -> Any:
    """More first-class dims, or other sizes of positional ones."""
    tensor = labelled_of(self)
    if tensor is not None and args and all(isinstance(arg, Dim) for arg in args):
        return wrapped(expanded(tensor, args))
    return call_batched(func, (self, *args), {})


def stack_plain(func: Any, tensors: Any, dim: Any = 0) -> Any:
    if isinstance(dim, Dim):
        return stack(tensors, dim)
    return call_batched(func, (tensors, dim), {})


# Functions that take dims where others take numbers, by name.
SPECIAL: dict[str, Any] = {
    "__getitem__": read,
    "__setitem__": lambda func, self, index, value: write(self, index, value),
    "__len__": lambda func, self: self.shape[0],
    "__mul__": multiply,
    "mul": multiply,
    "stack": stack_plain,
    "split": lambda func, *args, **kwargs: split(*args, **kwargs),
    "split_with_sizes": lambda func, *args, **kwargs: split(*args, **kwargs),
    "expand": expand,
}


def operator_method(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        return call(getattr(core.Tensor, name), (self, *args), {})

    method.__name__ = name
    return method


BINARY = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and", "or",
    "xor", "matmul",
)  # fmt: skip
UNARY = (
    "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "bool", "int", "float",
    "complex", "getitem", "len",
)  # fmt: skip
for _name in (*BINARY, *[f"r{name}" for name in BINARY], *[f"i{name}" for name in BINARY], *UNARY):
    if hasattr(core.Tensor, f"__{_name}__"):
        setattr(_Tensor, f"__{_name}__", operator_method(f"__{_name}__"))


def softmax(input: Any, dim: Any = None, **kwargs: Any) -> Any:
    """Softmax along a dim, which may be first-class."""
    return call_along(functions.softmax, KEPT, (input, dim), kwargs)
