"""Named dims: tensors whose dims carry names, and what ops make of them.

A named tensor is a `NamedTensor`, which holds one name or None for each dim and handles every
call made on it: names of operands are unified or carried along by the rules below, and an op
without a rule refuses. So no op ever returns names that its result does not have, and plain
tensors know nothing of names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from rushlight.core import ports
from rushlight.core.op import find_overload
from rushlight.core.operators import OP_OF
from rushlight.core.state import LAYER_FUNCTION, USER_FUNCTION, excluding
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from typing import SupportsIndex

    from rushlight.core.protocols import Args, DimName, Function, Kwargs

__all__ = ["NamedTensor", "align_to", "refine_names", "rename", "rename_", "with_names"]

Names = tuple[str | None, ...]


class NamedTensor(Tensor):
    """A tensor with names for its dims; made by `refine_names`, `rename` or `names=`."""

    @property
    def names(self) -> Names:
        return cast(Names, self.__dict__["dim_names"])

    @names.setter
    def names(self, value: Sequence[str | None] | None) -> None:
        rename_(self, *((None,) if value is None else value))

    def has_names(self) -> bool:
        return any(name is not None for name in self.names)

    def size(self, dim: int | str | None = None) -> Any:
        return super().size(position_of(self, dim) if isinstance(dim, str) else dim)

    @classmethod
    def __torch_function__(
        cls, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        return call_named(func, args, dict(kwargs or {}))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise RuntimeError(
            "NYI: Named tensors don't support serialization. Please drop names via `tensor = "
            "tensor.rename(None)` before serialization."
        )


# -- giving names ---------------------------------------------------------------------------------


def checked(names: Sequence[Any]) -> Names:
    for name in names:
        if name is None:
            continue
        if not isinstance(name, str):
            raise TypeError(f"expected a name or None for each dim, but got {name!r}")
        if not (name.isascii() and name.isidentifier()):
            raise RuntimeError(
                "Invalid name: a valid identifier contains only digits, alphabetical characters, "
                f"and/or underscore and starts with a non-digit. got: '{name}'."
            )
    given = [name for name in names if name is not None]
    if len(given) != len(set(given)):
        raise RuntimeError(
            f"Cannot construct a tensor with duplicate names. Got names: {show(names)}."
        )
    return tuple(names)


def show(names: Sequence[object]) -> str:
    return f"[{', '.join('None' if name is None else repr(name) for name in names)}]"


def alias_of(tensor: Tensor) -> Any:
    """The same memory and history as another tensor object, of the plain class."""
    return without_overrides(find_overload("aten", "alias", "default"), (tensor,), {})


def put_names(tensor: Tensor, names: Names) -> Tensor:
    """Names for a tensor that nobody else holds yet, or for one that is renamed in place."""
    if len(names) != tensor.dim():
        raise RuntimeError(
            f"Number of names ({len(names)}) and number of dimensions in tensor ({tensor.dim()}) "
            f"do not match. Attempted to create a tensor with names {show(names)}"
        )
    if any(name is not None for name in names):
        tensor.__class__ = NamedTensor
        tensor.__dict__["dim_names"] = names
    elif isinstance(tensor, NamedTensor):
        tensor.__dict__.pop("dim_names", None)
        tensor.__class__ = Tensor  # type: ignore[assignment]
    return tensor


def with_names(make: Callable[..., Any], args: Args, kwargs: dict[str, Any]) -> Any:
    """A factory call with `names=`."""
    names = kwargs.pop("names")
    result = make(*args, **kwargs)
    return result if names is None else put_names(result, checked(names))


def names_of(tensor: Tensor) -> Names:
    return tensor.names if isinstance(tensor, NamedTensor) else (None,) * tensor.dim()


def spread_ellipsis(names: Sequence[Any], current: Names) -> Sequence[Any]:
    """Put the current names of the dims it stands for in the place of `...`."""
    places = [i for i, name in enumerate(names) if name == "..." or name is ...]
    if not places:
        return tuple(names)
    if len(places) > 1:
        raise RuntimeError(f"More than one Ellipsis ('...') found in names {show(names)}")
    at = places[0]
    count = len(current) - (len(names) - 1)
    return (*names[:at], *current[at : at + max(count, 0)], *names[at + 1 :])


def refine_names(tensor: Tensor, *names: DimName) -> Any:
    """Name dims that have no name yet."""
    current = names_of(tensor)
    wanted = checked(spread_ellipsis(names, current))
    if len(wanted) != len(current):
        raise RuntimeError(
            f"refine_names: cannot coerce Tensor{show(current)} to Tensor{show(wanted)} because "
            f"they have a different number of dims ({len(current)} and {len(wanted)} respectively)."
        )
    for index, (old, new) in enumerate(zip(current, wanted, strict=True)):
        if old is not None and old != new:
            reason = f"{old!r} is more specific than None" if new is None else "they differ"
            raise RuntimeError(
                f"refine_names: cannot coerce Tensor{show(current)} to Tensor{show(wanted)} "
                f"because {old!r} is different from {new!r} at index {index}: {reason}"
            )
    return put_names(alias_of(tensor), wanted)


def renamed(tensor: Tensor, names: tuple[Any, ...], mapping: dict[str, Any]) -> Names:
    current = names_of(tensor)
    if mapping:
        if names:
            raise RuntimeError("rename: takes either names or a mapping of old names to new ones")
        for old in mapping:
            if old not in current:
                raise RuntimeError(
                    f"rename: Tried to rename dim '{old}' to dim '{mapping[old]}' in "
                    f"Tensor{show(current)} but dim '{old}' does not exist"
                )
        return checked([mapping.get(name, name) if name else name for name in current])
    if len(names) == 1 and names[0] is None:
        return (None,) * len(current)
    return checked(spread_ellipsis(names, current))


def rename(tensor: Tensor, *names: DimName, **rename_map: str) -> Any:
    """The same tensor under other names; `rename(None)` drops them."""
    return put_names(alias_of(tensor), renamed(tensor, names, rename_map))


def rename_(tensor: Tensor, *names: DimName, **rename_map: str) -> Any:
    """`rename` in place."""
    return put_names(tensor, renamed(tensor, names, rename_map))


def align_to(tensor: Tensor, *names: DimName) -> Any:
    """The dims in the order of `names`; a name that the tensor has not becomes a dim of size 1."""
    current = names_of(tensor)
    if None in current:
        raise RuntimeError(
            f"align_to: All input dims must be named. Found unnamed dim in Tensor{show(current)}"
        )
    places = [i for i, name in enumerate(names) if name == "..." or name is ...]
    if places:
        rest = [name for name in current if name not in names]
        names = (*names[: places[0]], *rest, *names[places[0] + 1 :])
    wanted = checked(names)
    for name in current:
        if name not in wanted:
            raise RuntimeError(
                f"align_to: Cannot find dim '{name}' of Tensor{show(current)} in the desired "
                f"alignment {show(wanted)}; every dim must have a place there."
            )
    plain = alias_of(tensor)
    plain = plain.permute([current.index(name) for name in wanted if name in current])
    for place, name in enumerate(wanted):
        if name not in current:
            plain = plain.unsqueeze(place)
    return put_names(plain, wanted)


# -- calls ----------------------------------------------------------------------------------------


def without_overrides(function: Function, args: Args, kwargs: Kwargs) -> Any:
    with excluding(LAYER_FUNCTION | USER_FUNCTION):
        return function(*args, **kwargs)


def position_of(tensor: Tensor, name: str) -> int:
    names = names_of(tensor)
    if name not in names:
        raise RuntimeError(f"Name '{name}' not found in Tensor{show(names)}.")
    return names.index(name)


def call_named(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function with at least one named argument, and name its results."""
    name = getattr(func, "__name__", "")
    if name == "__repr__":
        text = without_overrides(repr, (rename(args[0], None),), {})
        return f"{text[:-1]}, names={args[0].names})"
    if name in NO_TENSORS:
        return without_overrides(func, args, kwargs)
    rule = RULES.get(name)
    if rule is None and is_pointwise(name):
        rule = pointwise_names
    if rule is None:
        if returns_tensors(name) or kwargs.get("out") is not None:
            raise RuntimeError(
                f"{name}() is not yet supported with named tensors. Please drop names via `tensor "
                "= tensor.rename(None)`, call the op with an unnamed tensor, and set names on the "
                "result of the operation."
            )
        return without_overrides(func, args, kwargs)
    if kwargs.get("out") is not None:
        raise RuntimeError(f"{name}() with out= is not supported with named tensors.")
    args = tuple([as_positions(args[0], value) for value in args]) if args else args
    if args and "dim" in kwargs:
        kwargs["dim"] = as_positions(args[0], kwargs["dim"])
    names = rule(args, kwargs)
    result = without_overrides(func, args, kwargs)
    return name_results(result, names)


def name_results(result: Any, names: Names) -> Any:
    if isinstance(result, Tensor):
        return put_names(result, names)
    if isinstance(result, (list, tuple)):
        for entry in result:
            put_names(entry, names)
    return result


def as_positions(tensor: Tensor, value: Any) -> Any:
    """Dims given by name, as numbers."""
    if isinstance(value, str) and isinstance(tensor, NamedTensor):
        return position_of(tensor, value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, str) for v in value):
        return [position_of(tensor, entry) for entry in value]
    return value


def overloads(name: str) -> Any:
    """The records behind a public name or an operator; () where there are none."""
    base = OP_OF.get(name) or (name.strip("_") if name.startswith("__") else name)
    for candidate in (base, base.removesuffix("_")):
        try:
            return ports.find_packet("aten", candidate).candidates
        except LookupError:
            continue
    return ()


# Functions whose answers have no dims, told without looking for an op.
NO_TENSORS = frozenset(
    (
        "__array__", "__bool__", "__complex__", "__float__", "__format__", "__index__", "__int__",
        "__len__", "allclose", "backward", "equal", "item", "numpy", "tolist",
    )
)  # fmt: skip


def is_pointwise(name: str) -> bool:
    return any((op.functional or op).kind.name == "POINTWISE" for op in overloads(name))


def returns_tensors(name: str) -> bool:
    return any(entry.type.is_tensor_like for op in overloads(name) for entry in op._schema.returns)


# -- rules ----------------------------------------------------------------------------------------


def unify(first: Names, second: Names) -> Names:
    """The names of a broadcast result."""
    lists = f"{show(first)} and dims {show(second)}"
    found: list[str | None] = []
    for back in range(1, max(len(first), len(second)) + 1):
        one = first[-back] if back <= len(first) else None
        two = second[-back] if back <= len(second) else None
        if one is not None and two is not None and one != two:
            raise RuntimeError(
                f"Error when attempting to broadcast dims {lists}: dim '{one}' and dim '{two}' "
                "are at the same position from the right but do not match."
            )
        found.append(two if one is None else one)
    result = tuple(reversed(found))
    for name in {name for name in result if name is not None}:
        if result.count(name) > 1:
            raise RuntimeError(
                f"Misaligned dims when attempting to broadcast dims {lists}: dim '{name}' appears "
                "in a different position from the right across both lists."
            )
    return result


def pointwise_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    names: Names = ()
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            names = unify(names, names_of(value))
    return names


def same_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    return names_of(args[0])


def reduced_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    if len(args) > 1 and isinstance(args[1], Tensor):
        return pointwise_names(args, kwargs)
    names = names_of(args[0])
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    keep = kwargs.get("keepdim", args[-1] if len(args) > 2 and args[-1] is True else False)
    if keep:
        return names
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return ()
    gone = {dim % len(names) for dim in (dims if isinstance(dims, (list, tuple)) else (dims,))}
    return tuple(name for i, name in enumerate(names) if i not in gone)


def transposed_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    names = list(names_of(args[0]))
    given = (*args[1:], *kwargs.values())
    first, second = given if given else (0, -1)
    if len(names) > 1:
        names[first], names[second] = names[second], names[first]
    return tuple(names)


def names_without_dim(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    names = names_of(args[0])
    dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % len(names)
    return (*names[:dim], *names[dim + 1 :])


def squeezed_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    names, sizes = names_of(args[0]), args[0].shape
    given = args[1] if len(args) > 1 else kwargs.get("dim", range(len(names)))
    dims = {dim % len(names) for dim in ((given,) if isinstance(given, int) else given)}
    return tuple(name for i, name in enumerate(names) if not (i in dims and sizes[i] == 1))


def product_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    first, second = args if len(args) == 2 else (args[0], *kwargs.values())
    if first.dim() != 2 or second.dim() not in (1, 2):
        raise RuntimeError(
            "Products of named tensors are supported for a matrix with a matrix or a vector; drop "
            "names via `tensor.rename(None)` for others."
        )
    return checked((names_of(first)[0], *names_of(second)[1:]))


def subscript_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Names:
    tensor, index = args
    entries = list(index) if isinstance(index, tuple) else [index]
    names = list(names_of(tensor))
    used = sum(isinstance(entry, (int, slice)) and entry is not True for entry in entries)
    if ... not in [entry for entry in entries if not isinstance(entry, Tensor)]:
        entries.append(...)
    found: list[str | None] = []
    for entry in entries:
        if entry is None:
            found.append(None)
        elif entry is ...:
            found += names[: len(names) - used]
            del names[: len(names) - used]
        elif isinstance(entry, (int, slice)) and not isinstance(entry, bool):
            kept = names.pop(0)
            used -= 1
            if isinstance(entry, slice):
                found.append(kept)
        else:
            raise RuntimeError(
                "Advanced indexing is not supported with named tensors. Please drop names via "
                "`tensor = tensor.rename(None)` first."
            )
    return tuple(found)


Rule = Callable[[tuple[Any, ...], dict[str, Any]], Names]
RULES: dict[str, Rule] = {}
for _rule, _names in (
    (
        same_names,
        "alias clone contiguous detach to type_as double float half bfloat16 long int short bool "
        "cfloat cdouble ones_like zeros_like empty_like full_like rand_like randn_like cumsum "
        "cumprod logcumsumexp softmax log_softmax narrow requires_grad_ zero_ fill_ sort split "
        "chunk flip",
    ),
    (pointwise_names, "copy_ masked_fill masked_fill_ where"),
    (
        reduced_names,
        "sum nansum mean prod std var logsumexp amax amin max min all any median argmax argmin",
    ),
    (transposed_names, "transpose swapaxes swapdims t"),
    (names_without_dim, "select unbind"),
    (squeezed_names, "squeeze"),
    (product_names, "mm mv matmul"),
    (subscript_names, "__getitem__"),
):
    RULES.update(dict.fromkeys(_names.split(), _rule))
