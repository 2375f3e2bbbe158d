"""`dynamic_shapes` against the arguments of a call: which sizes may vary, and how they are related.

`process` checks a specification and makes a plan of it; the plan makes fake inputs whose sizes are
symbols, and compares in the end what tracing found with what was declared.
Invariant: leaves stand in the order of the flattened `(args, kwargs)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rushlight.base import pytree
from rushlight.base.errors import fail
from rushlight.base.pytree import (
    BUILTIN_TYPES,
    DICT_TYPES,
    SUPPORTED_NODES,
    node_type,
    tree_flatten,
    tree_unflatten,
)
from rushlight.capture.exc import UserError, UserErrorType
from rushlight.core.tensor import Tensor
from rushlight.export.dimensions import Dim, DimHint, DimHintType, readable, refuse
from rushlight.export.inputs import signature_of
from rushlight.nn.module import Module

if TYPE_CHECKING:
    from rushlight.core.fake import FakeTensorMode
    from rushlight.symbolic.constraints import Declaration, Solution
    from rushlight.symbolic.shapeenv import ShapeEnv

__all__ = [
    "AdditionalInputs", "ShapePlan", "ShapesCollection", "bound_arguments", "process", "unwrapped",
]  # fmt: skip

# One entry of a specification: of a dimension, or of an integer.
Entry = None | int | Dim | DimHint


class Leaf:
    """One leaf of the arguments: where it stands, and an entry for each of its sizes.

    `spec` is the entry of an integer.
    """

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self.path = path
        self.entries: list[Entry] = []
        self.spec: Entry = None

    @property
    def source(self) -> str:
        return f"L{self.path}"

    def size_source(self, dim: int) -> str:
        return f"{self.source}.size()[{dim}]"


def parameters_of(module: Any) -> inspect.Signature:
    """The signature that arguments are matched with."""
    if hasattr(module, "graph_signature"):
        module = module.module()
    return signature_of(module) if isinstance(module, Module) else inspect.signature(module)


def bound_arguments(
    module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The arguments by parameter; `*args` is one tuple, `**kwargs` one dict."""
    return dict(parameters_of(module).bind(*args, **(kwargs or {})).arguments)


# ---------------------------------------------------------------- walking


class Walker:
    """Visits the leaves of the arguments, each with what the specification says of it.

    `visit(value, spec, path)` is called for every leaf in order; NOTHING stands for no spec.
    """

    def __init__(self, visit: Callable[[Any, Any, str], Any]) -> None:
        self.visit = visit

    def walk(self, value: Any, spec: Any, path: str) -> Any:
        """The tree of what `visit` gives."""
        kind = node_type(value)
        if kind not in SUPPORTED_NODES:
            return self.visit(value, spec, path)
        if kind in DICT_TYPES:
            parts = matched_dict(value, spec, path)
            return {key: self.walk(value[key], parts[key], f"{path}[{key!r}]") for key in value}
        children, _ = SUPPORTED_NODES[kind].flatten_fn(value)
        specs = matched_parts(value, children, spec, path)
        keys = child_keys(value, kind, len(children))
        walked = [
            self.walk(child, part, path + key) for child, part, key in zip(children, specs, keys)
        ]
        return tuple(walked) if kind is tuple else walked


class Nothing:
    """No specification at all: a walk over the arguments alone."""


NOTHING = Nothing()


def matched_dict(value: Any, spec: Any, path: str) -> Mapping[Any, Any]:
    if spec is NOTHING:
        return dict.fromkeys(value, NOTHING)
    if not isinstance(spec, dict):
        mismatch(value, spec, path)
    if len(spec) != len(value):
        refuse("RL1542", difference=count_text(path, len(value), len(spec)))
    if set(spec) != set(value):
        refuse(
            "RL1542",
            difference=f"`inputs{path}` has keys {list(value)}, but `dynamic_shapes{path}` has "
            f"keys {list(spec)}",
        )
    found: Mapping[Any, Any] = spec
    return found


def matched_parts(value: Any, children: Sequence[Any], spec: Any, path: str) -> Sequence[Any]:
    if spec is NOTHING:
        return [NOTHING] * len(children)
    kind = node_type(value)
    if kind in BUILTIN_TYPES:
        if node_type(spec) is not kind:
            mismatch(value, spec, path)
    elif type(spec) is type(value):
        names = field_names(value)
        if names is not None:
            return [getattr(spec, name) for name in names]
        spec = SUPPORTED_NODES[kind].flatten_fn(spec)[0]
    elif not isinstance(spec, (list, tuple)):
        mismatch(value, spec, path)
    if len(spec) != len(children):
        refuse("RL1542", difference=count_text(path, len(children), len(spec)))
    return list(spec)


def field_names(value: Any) -> list[str] | None:
    """The attributes that the parts of a registered dataclass are."""
    found = SUPPORTED_NODES[type(value)].flatten_with_keys_fn
    if found is None:
        return None
    names = [getattr(key, "name", None) for key, _ in found(value)[0]]
    return names if all(isinstance(name, str) for name in names) else None  # type: ignore[return-value]


def child_keys(value: Any, kind: Any, count: int) -> list[str]:
    """How each part of a container is read."""
    names = None if kind in BUILTIN_TYPES else field_names(value)
    if names is not None:
        return [f".{name}" for name in names]
    return [f"[{position}]" for position in range(count)]


def mismatch(value: Any, spec: Any, path: str) -> None:
    actual = f"is a {type(spec)}" if node_type(spec) in SUPPORTED_NODES else "is not"
    refuse(
        "RL1542",
        difference=f"`inputs{path}` is a {type(value)}, but `dynamic_shapes{path}` {actual}",
    )


def count_text(path: str, expected: int, actual: int) -> str:
    return (
        f"`inputs{path}` has {expected} elements, but `dynamic_shapes{path}` has {actual} elements"
    )


# ---------------------------------------------------------------- plans


def process(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ShapePlan:
    """The plan of a call. Raises UserError where specification and arguments do not fit."""
    kwargs = kwargs or {}
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(module, args, kwargs)
    if dynamic_shapes is not None and not isinstance(dynamic_shapes, (dict, tuple, list)):
        raise AssertionError(
            f"expected dynamic_shapes to be dict, tuple, or list, got {type(dynamic_shapes)}"
        )
    signature = parameters_of(module)
    bound = dict(signature.bind(*args, **kwargs).arguments)
    specs = specs_by_parameter(bound, dynamic_shapes)
    groups: dict[str, list[Leaf]] = {}
    by_place = isinstance(dynamic_shapes, (tuple, list))
    for place, (name, value) in enumerate(bound.items()):
        # What does not fit is told in the specification's own terms.
        spec, path = specs.get(name, NOTHING), f"[{place if by_place else name!r}]"
        if signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD:
            groups[name] = leaves_of(value, spec, path, f"[{name!r}]")
            continue
        # Each keyword stands where the call has it.
        parts = matched_dict(value, spec, path)
        for key in value:
            groups[key] = leaves_of(
                value[key], parts[key], f"{path}[{key!r}]", f"[{name!r}][{key!r}]"
            )
    names = [*(name for name in groups if name not in kwargs), *kwargs]
    leaves = [leaf for name in names for leaf in groups[name]]
    check_definitions(leaves)
    return ShapePlan(leaves, dynamic_shapes)


def leaves_of(value: Any, spec: Any, path: str, own_path: str) -> list[Leaf]:
    """The leaves of an argument, whose own path they are below; `path` is what the specification
    calls it."""
    leaves: list[Leaf] = []

    def visit(value: Any, spec: Any, leaf_path: str) -> None:
        leaf = checked_leaf(value, spec, leaf_path)
        leaf.path = own_path + leaf_path.removeprefix(path)
        leaves.append(leaf)

    Walker(visit).walk(value, spec, path)
    return leaves


def specs_by_parameter(bound: dict[str, Any], dynamic_shapes: Any) -> dict[str, Any]:
    if not dynamic_shapes:
        return {}
    if isinstance(dynamic_shapes, dict):
        if sorted(dynamic_shapes) != sorted(bound):
            one_dict = len(bound) == 1 and isinstance(next(iter(bound.values())), dict)
            advice = (
                "Since here `inputs` is a list/tuple enclosing a single dict, maybe you just "
                "forgot to enclose `dynamic_shapes` in a list/tuple?"
                if one_dict and not bound.keys() & dynamic_shapes.keys()
                else "Alternatively, you could also ignore arg names entirely and specify "
                "`dynamic_shapes` as a list/tuple matching `inputs`."
            )
            refuse("RL1543", expected=list(bound), actual=list(dynamic_shapes), advice=advice)
        return dynamic_shapes
    if len(dynamic_shapes) != len(bound):
        refuse("RL1542", difference=count_text("", len(bound), len(dynamic_shapes)))
    return dict(zip(bound, dynamic_shapes))


def checked_leaf(value: Any, spec: Any, path: str) -> Leaf:
    """A leaf with its entries, one for each dimension."""
    leaf = Leaf(value, path)
    if isinstance(value, Tensor):
        leaf.entries = tensor_entries(value, spec, path)
    elif spec is not NOTHING and spec is not None:
        if not isinstance(value, int) or isinstance(value, bool):
            refuse("RL1541", shape=spec, path=path, actual=type(value))
        if isinstance(spec, Dim):
            fail("RL1548", ValueError)
        if not isinstance(spec, (int, DimHint)):
            refuse("RL1541", shape=spec, path=path, actual=type(value))
        leaf.spec = spec
    return leaf


def tensor_entries(tensor: Tensor, spec: Any, path: str) -> list[Entry]:
    count = tensor.dim()
    entries: list[Entry] = [None] * count
    if spec is NOTHING or spec is None:
        return entries
    if isinstance(spec, dict):
        for index, entry in spec.items():
            if not isinstance(index, int) or not -count <= index < count:
                refuse("RL1538", index=index, shape=spec, path=path, actual=entry)
            entries[index] = entry
    elif isinstance(spec, (tuple, list)):
        if len(spec) != count:
            refuse(
                "RL1539",
                shape=spec,
                path=path,
                size=tuple(tensor.shape),
                expected=count,
                actual=len(spec),
            )
        entries = list(spec)
    else:
        refuse("RL1540", shape=spec, path=path)
    for index, entry in enumerate(entries):
        if entry is not None and not isinstance(entry, (int, Dim, DimHint)):
            refuse("RL1538", index=index, shape=spec, path=path, actual=entry)
    return entries


def check_definitions(leaves: list[Leaf]) -> None:
    """That dims of one name have one definition."""
    bounds: dict[str, tuple[float, float]] = {}
    for leaf in leaves:
        for entry in leaf.entries:
            if not isinstance(entry, Dim):
                continue
            for dim in dict.fromkeys((entry, entry.root)):
                limits = (dim.min, dim.max)
                known = bounds.setdefault(dim.__name__, limits)
                if known != limits:
                    refuse(
                        "RL1537",
                        first=readable(dim.__name__, *known),
                        second=readable(dim.__name__, *limits),
                        dim=dim,
                    )


class ShapePlan:
    """The sizes of a call's arguments that may vary.

    `fakify` gives them symbols; `solve`, after tracing, says what ranges they have.
    """

    def __init__(self, leaves: list[Leaf], dynamic_shapes: Any) -> None:
        self.leaves = leaves
        self.dynamic_shapes = dynamic_shapes
        self.declaration: Declaration | None = None

    def is_dynamic(self) -> bool:
        """Whether any size may vary."""
        return any(
            isinstance(entry, (Dim, DimHint)) and not is_static(entry)
            for leaf in self.leaves
            for entry in (*leaf.entries, leaf.spec)
        )

    def described(self) -> list[dict[str, Any]]:
        """Each named size with its bounds, as strict programs keep them."""
        return [
            {"t_id": id(leaf.value), "dim": dim, "min": entry.min, "max": entry.max}
            for leaf in self.leaves
            for dim, entry in enumerate(leaf.entries)
            if isinstance(entry, Dim)
        ]

    def fakify(
        self, mode: FakeTensorMode, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with fake tensors, and symbols for the sizes that may vary."""
        from rushlight.export.symbols import Symbols

        _, spec = tree_flatten((tuple(args), dict(kwargs or {})))
        symbols = Symbols(mode)
        made = [symbols.fake_leaf(leaf) for leaf in self.leaves]
        symbols.relate()
        self.declaration = symbols.declaration
        fake_args, fake_kwargs = tree_unflatten(made, spec)
        return fake_args, fake_kwargs

    def solve(
        self, shape_env: ShapeEnv, *, keep_conditions: bool = False, allow_constants: bool = False
    ) -> Solution:
        """The ranges of the sizes after tracing. UserError where they are not what was said.

        With `keep_conditions` what no dim can say is left to run time; with `allow_constants` a
        dim that would have to be constant for it is taken as it is.
        """
        from rushlight.symbolic.constraints import Declaration, Solution
        from rushlight.symbolic.errors import ConstraintViolationError
        from rushlight.symbolic.solving import solve

        declaration = self.declaration or Declaration()
        if not declaration.dims:
            return Solution({}, [])
        try:
            return solve(
                shape_env,
                declaration,
                keep_conditions=keep_conditions,
                force_constants=not allow_constants,
            )
        except ConstraintViolationError as violation:
            raise UserError(UserErrorType.CONSTRAINT_VIOLATION, str(violation)) from violation


def is_static(entry: Entry) -> bool:
    return isinstance(entry, DimHint) and entry.type is DimHintType.STATIC


# ---------------------------------------------------------------- other forms of specification


@dataclass
class _IntWrapper:
    """An integer that is no other: what a `ShapesCollection` can tell among equal ones."""

    val: int
    dynamism: Any = field(init=False, default=None)


def unwrapped(
    module: Any, args: Any, kwargs: Any, dynamic_shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """A call with plain integers, and what a collection says of those that had a wrapper."""
    is_wrapped = [isinstance(leaf, _IntWrapper) for leaf in pytree.tree_leaves((args, kwargs))]
    if any(is_wrapped):
        if isinstance(dynamic_shapes, ShapesCollection):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(module, args, kwargs)
        args, kwargs = pytree.tree_map_only(_IntWrapper, lambda each: each.val, (args, kwargs))
    return args, kwargs, dynamic_shapes


class ShapesCollection:
    """Specifications by tensor, for inputs that are nested deeply; integers among them go in an
    `_IntWrapper`.

    >>> import rushlight as torch
    >>> x = torch.ones(3)
    >>> shapes = torch.export.ShapesCollection()
    >>> shapes[x] = (torch.export.Dim("n"),)
    >>> shapes.dynamic_shapes(lambda pair: pair[0], ([x, x],))
    {'pair': [(Dim('n', min=0),), (Dim('n', min=0),)]}
    """

    def __init__(self) -> None:
        # What it is of is kept: its id is its own while it lives.
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, (Tensor, _IntWrapper)):
            raise AssertionError(
                f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}"
            )
        known = self._shapes.get(id(t))
        if known is not None and known[1] != shape:
            raise AssertionError(
                f"Shapes assigned to input do not match: expected {known[1]}, got {shape}"
            )
        self._shapes.setdefault(id(t), (t, shape))

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The specification nested as the arguments are."""
        seen: set[int] = set()

        def find(value: Any, spec: Any, path: str) -> Any:
            known = self._shapes.get(id(value))
            if known is None:
                return None
            seen.add(id(value))
            return known[1]

        walker = Walker(find)
        nested = {
            name: walker.walk(value, NOTHING, "")
            for name, value in bound_arguments(m, args, kwargs).items()
        }
        if seen != self._shapes.keys():
            fail("RL1550", ValueError)
        return nested


class AdditionalInputs:
    """Further example inputs: sizes that differ among them may vary."""

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The specification nested as the arguments are: Dim.DYNAMIC where sizes differ."""
        examples = [input_leaves(m, *example) for example in self._examples]
        count = len(input_leaves(m, args, kwargs))
        if any(len(leaves) != count for leaves in examples):
            differing("structures", "so they cannot be marked as dynamic", args, self._examples)
        rows = iter([list(row) for row in zip(*examples)] or [[]] * count)

        def compare(value: Any, spec: Any, path: str) -> Any:
            return varying(value, next(rows))

        walker = Walker(compare)
        return {
            name: walker.walk(value, NOTHING, "")
            for name, value in bound_arguments(m, args, kwargs).items()
        }

    def verify(self, ep: Any) -> None:
        """That a program takes all the further inputs."""
        program = ep.module()
        for args, kwargs in self._examples:
            program(*args, **(kwargs or {}))


def input_leaves(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> list[Any]:
    """The leaves of the arguments, parameter by parameter."""
    found: list[Any] = []

    def visit(value: Any, spec: Any, path: str) -> None:
        found.append(value)

    for value in bound_arguments(module, args, kwargs).values():
        Walker(visit).walk(value, NOTHING, "")
    return found


def varying(value: Any, others: list[Any]) -> Any:
    """The entry of a leaf that has other values in other examples."""
    if isinstance(value, Tensor):
        if not all(isinstance(other, Tensor) and other.dim() == value.dim() for other in others):
            differing("types", "so they cannot be marked as dynamic", value, others)
        return tuple(
            None if all(other.shape[dim] == size for other in others) else Dim.DYNAMIC
            for dim, size in enumerate(value.shape)
        )
    if not all(type(other) is type(value) for other in others):
        differing("types", "so they cannot be marked as dynamic", value, others)
    if all(other == value for other in others):
        return None
    if type(value) is not int:
        differing("values", "but they cannot be marked as dynamic", value, others)
    return Dim.DYNAMIC


def differing(what: str, consequence: str, value: Any, others: list[Any]) -> None:
    values = (value, *others)
    fail("RL1552", ValueError, what=what, consequence=consequence, values=values)


def dims_in(dynamic_shapes: Any) -> dict[str, Dim]:
    """The named dims of a specification and their roots, by name."""
    found: dict[str, Dim] = {}
    pending = [dynamic_shapes]
    while pending:
        part = pending.pop(0)
        if isinstance(part, Dim):
            found[part.__name__] = part
            found[part.root.__name__] = part.root
        elif isinstance(part, dict):
            pending[:0] = part.values()
        elif isinstance(part, (list, tuple)):
            pending[:0] = part
    return found
