"""Nested containers as trees: flatten to leaves and a spec, and back. Names follow PyTorch's.

A container is a node when its exact type is registered, or it is a named tuple; everything else,
None and subclasses of list or dict included, is a leaf. Dicts keep insertion order.
Invariant: `tree_unflatten(*tree_flatten(tree))` equals `tree`, container types included.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Any

from rushlight.base.errors import fail
from rushlight.base.lazy import namespace

PyTree = Any
Context = Any
FlattenFn = Callable[[Any], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], Any]
FlattenWithKeysFn = Callable[[Any], tuple[list[tuple[Any, Any]], Context]]
IsLeaf = Callable[[Any], bool] | None


class NodeDef:
    """How a registered container comes apart and together."""

    __slots__ = (
        "flatten_fn",
        "flatten_with_keys_fn",
        "from_dumpable_context",
        "serialized_type_name",
        "to_dumpable_context",
        "type",
        "unflatten_fn",
    )

    def __init__(
        self,
        type: Any,
        flatten_fn: FlattenFn,
        unflatten_fn: UnflattenFn,
        serialized_type_name: str | None = None,
        to_dumpable_context: Callable[[Context], Any] | None = None,
        from_dumpable_context: Callable[[Any], Context] | None = None,
        flatten_with_keys_fn: FlattenWithKeysFn | None = None,
    ) -> None:
        self.type = type
        self.flatten_fn = flatten_fn
        self.unflatten_fn = unflatten_fn
        self.serialized_type_name = serialized_type_name
        self.to_dumpable_context = to_dumpable_context
        self.from_dumpable_context = from_dumpable_context
        self.flatten_with_keys_fn = flatten_with_keys_fn


def unflatten_dict(values: Iterable[Any], keys: Context) -> dict[Any, Any]:
    return dict(zip(keys, values))


def unflatten_ordered_dict(values: Iterable[Any], keys: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(keys, values))


def flatten_default_dict(tree: defaultdict[Any, Any]) -> tuple[list[Any], Context]:
    return list(tree.values()), [tree.default_factory, list(tree)]


def unflatten_default_dict(values: Iterable[Any], context: Context) -> defaultdict[Any, Any]:
    factory, keys = context
    return defaultdict(factory, zip(keys, values))


BUILTIN_NODES: tuple[NodeDef, ...] = (
    NodeDef(tuple, lambda tree: (list(tree), None), lambda values, _: tuple(values)),
    NodeDef(list, lambda tree: (tree, None), lambda values, _: list(values)),
    NodeDef(dict, lambda tree: (list(tree.values()), list(tree)), unflatten_dict),
    # Every named tuple is a node of this one type; the context says which class it is.
    NodeDef(
        namedtuple, lambda tree: (list(tree), type(tree)), lambda values, cls: cls._make(values)
    ),
    NodeDef(OrderedDict, lambda tree: (list(tree.values()), list(tree)), unflatten_ordered_dict),
    NodeDef(defaultdict, flatten_default_dict, unflatten_default_dict),
    NodeDef(
        deque,
        lambda tree: (list(tree), tree.maxlen),
        lambda values, maxlen: deque(values, maxlen=maxlen),
    ),
)
SUPPORTED_NODES: dict[Any, NodeDef] = {node.type: node for node in BUILTIN_NODES}
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)
DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Makes instances of `cls` nodes: `flatten_fn(obj) -> (children, context)` and back.

    `flatten_with_keys_fn` gives (key, child) pairs; the other options say how `treespec_dumps`
    writes a spec with this node.
    """
    if cls in SUPPORTED_NODES:
        fail("RL0201", ValueError, node=cls)
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        fail("RL0211", ValueError, node=cls)
    SUPPORTED_NODES[cls] = NodeDef(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name,
        to_dumpable_context,
        from_dumpable_context,
        flatten_with_keys_fn,
    )


# Classes whose instances are nodes without children.
CONSTANT_NODES: set[type[Any]] = set()


def register_constant(cls: type[Any]) -> None:
    """Makes instances of `cls` constants of trees: parts of the spec, which says that trees with
    others are different. Its instances have to be comparable and hashable.

    >>> from dataclasses import dataclass
    >>> from rushlight.base import pytree
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     width: int
    >>> pytree.register_constant(Config)
    >>> pytree.tree_flatten([Config(3), 4])[0]
    [4]
    """
    for name, default in (("__eq__", object.__eq__), ("__hash__", None)):
        if getattr(cls, name) is default:
            # torch: the text.
            raise TypeError(
                "register_constant(cls) expects `cls` to have a non-default "
                f"`{name}` implementation."
            )
    register_pytree_node(
        cls,
        lambda value: ([], value),
        lambda values, value: value,
        flatten_with_keys_fn=lambda value: ([], value),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type[Any]) -> bool:
    return cls in CONSTANT_NODES


# Classes of named tuples -> the names that texts of specs have for them.
NAMEDTUPLE_NAMES: dict[type[Any], str] = {}


def _register_namedtuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Gives a class of named tuples, which are nodes anyway, a name for texts of specs."""
    if cls in NAMEDTUPLE_NAMES or not is_namedtuple_class(cls):
        fail("RL0201", ValueError, node=cls)
    NAMEDTUPLE_NAMES[cls] = serialized_type_name


def register_sequence_node(cls: type[Any]) -> None:
    """Makes a tuple subclass, built from the sequence of its items, a node of its own type."""
    register_pytree_node(cls, lambda tree: (list(tree), None), lambda values, _: cls(values))


def is_namedtuple_class(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type) -> bool:
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether it is a tuple type with named items as `time.struct_time` is, and results of ops."""
    counts = [getattr(cls, name, None) for name in ("n_fields", "n_sequence_fields")]
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and all(type(count) is int for count in counts)
        and not hasattr(cls, "_fields")
    )


def is_structseq_instance(obj: object) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj: object | type) -> bool:
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def node_type(tree: PyTree) -> Any:
    """The type under which `tree` is, or would be, registered."""
    cls = type(tree)
    if cls not in SUPPORTED_NODES and isinstance(tree, tuple) and is_namedtuple_class(cls):
        return namedtuple
    return cls


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or node_type(tree) not in SUPPORTED_NODES


class TreeSpec:
    """The shape of a tree: a node's type, its context, and the specs of its children."""

    __slots__ = ("children_specs", "context", "num_children", "num_leaves", "num_nodes", "type")

    num_leaves: int
    num_nodes: int

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_children = len(children_specs)
        self.num_leaves = sum([child.num_leaves for child in children_specs])
        self.num_nodes = 1 + sum([child.num_nodes for child in children_specs])

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> list[TreeSpec]:
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            fail("RL0202", ValueError, length=len(leaves), expected=self.num_leaves, spec=self)
        return self.build(iter(leaves))

    def build(self, leaves: Iterator[Any]) -> PyTree:
        """The tree of this shape made of the next `num_leaves` items of `leaves`."""
        if self.type is None:
            return next(leaves)
        children = [
            next(leaves) if child.type is None else child.build(leaves)
            for child in self.children_specs
        ]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The subtrees of `tree` that stand where this spec has its leaves."""
        subtrees: list[PyTree] = []
        self.collect(tree, subtrees)
        return subtrees

    def collect(self, tree: PyTree, subtrees: list[PyTree]) -> None:
        if self.type is None:
            subtrees.append(tree)
            return
        for child, subtree in zip(self.children_specs, self.match(tree)):
            child.collect(subtree, subtrees)

    def match(self, tree: PyTree) -> list[PyTree]:
        """The children of `tree` in this node's order; fails unless it has this node's shape."""
        found = node_type(tree)
        if self.type not in BUILTIN_TYPES:
            if found is not self.type:
                fail("RL0208", ValueError, expected=self.type, found=found)
        elif found is not self.type and not (self.type in DICT_TYPES and found in DICT_TYPES):
            fail("RL0203", ValueError, expected=self.type, found=found)
        if self.type in DICT_TYPES:
            return self.match_dict(tree)
        children, context = SUPPORTED_NODES[found].flatten_fn(tree)
        if len(children) != self.num_children:
            fail("RL0204", ValueError, expected=self.num_children, found=len(children))
        # torch: the bound of a deque does not take part.
        if found is not deque and context != self.context:
            if self.type in BUILTIN_TYPES:
                fail("RL0206", ValueError, node=self.type, expected=self.context, found=context)
            fail("RL0207", ValueError, node=self.type)
        return children

    def match_dict(self, tree: dict[Any, Any]) -> list[PyTree]:
        keys = self.context[1] if self.type is defaultdict else self.context
        if len(tree) != self.num_children:
            fail("RL0204", ValueError, expected=self.num_children, found=len(tree))
        if tree.keys() != set(keys):
            missing, extra = set(keys) - tree.keys(), tree.keys() - set(keys)
            fail("RL0205", ValueError, missing=missing, extra=extra)
        return [tree[key] for key in keys]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and bool(self.context == other.context)
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        # Contexts may be unhashable; equal specs still agree on types and arities.
        return hash((self.type, *self.children_specs))

    def __repr__(self) -> str:
        return self.describe(0)

    def describe(self, indent: int) -> str:
        """The spec as text, its later children on lines of their own below column `indent`."""
        separator = ",\n" + " " * (indent + 2)
        children = separator.join(child.describe(indent + 2) for child in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeSpec, (self.type, self.context, self.children_specs)


class LeafSpec(TreeSpec):
    """The spec of a leaf; all are equal."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1

    def describe(self, indent: int) -> str:
        return "*"

    def __reduce__(self) -> tuple[Any, ...]:
        return LeafSpec, ()


LEAF = LeafSpec()


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of `tree` from left to right, and its spec."""
    leaves: list[Any] = []
    return leaves, flatten_into(tree, leaves, is_leaf)


def flatten_into(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    if is_leaf is None or not is_leaf(tree):
        cls: Any = type(tree)
        node = SUPPORTED_NODES.get(cls)
        if node is None and isinstance(tree, tuple):
            cls = node_type(tree)
            node = SUPPORTED_NODES.get(cls)
        if node is not None:
            children, context = node.flatten_fn(tree)
            return TreeSpec(
                cls, context, [flatten_into(child, leaves, is_leaf) for child in children]
            )
    leaves.append(tree)
    return LEAF


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of shape `treespec` with these leaves."""
    if not isinstance(treespec, TreeSpec):
        fail("RL0210", TypeError, found=type(treespec))
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    if tree_is_leaf(tree, is_leaf):
        yield tree
    else:
        children, _ = SUPPORTED_NODES[node_type(tree)].flatten_fn(tree)
        for child in children:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    leaves: list[Any] = []
    flatten_into(tree, leaves, is_leaf)
    return leaves


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of a call's arguments, positional ones first."""
    leaves: list[Any] = []
    for tree in (*args, *kwargs.values()):
        flatten_into(tree, leaves, None)
    return leaves


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    return flatten_into(tree, [], is_leaf)


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree of `func(leaf, *others)`; each of `rests` has at least the structure of `tree`."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    others = [treespec.flatten_up_to(rest) for rest in rests]
    return treespec.unflatten([func(*items) for items in zip(leaves, *others)])


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Calls `func` as `tree_map` does, drops the results, and returns `tree` itself."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    others = [treespec.flatten_up_to(rest) for rest in rests]
    for items in zip(leaves, *others):
        func(*items)
    return tree


TypeOrPredicate = type[Any] | tuple[type[Any], ...] | UnionType | Callable[[Any], bool]


def map_only(
    type_or_types_or_pred: TypeOrPredicate, /
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Turns a function into one that leaves alone what is not of these types."""
    chosen: Callable[[Any], bool]
    if isinstance(type_or_types_or_pred, (type, tuple, UnionType)):
        types = type_or_types_or_pred

        def chosen(item: Any) -> bool:
            return isinstance(item, types)

    elif callable(type_or_types_or_pred):
        chosen = type_or_types_or_pred
    else:
        fail("RL0209", TypeError)

    def limit(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda item: func(item) if chosen(item) else item

    return limit


def tree_map_only(
    type_or_types_or_pred: TypeOrPredicate,
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: TypeOrPredicate,
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: type[Any] | tuple[type[Any], ...] | UnionType,
    /,
    pred: Callable[[Any], bool],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> bool:
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: type[Any] | tuple[type[Any], ...] | UnionType,
    /,
    pred: Callable[[Any], bool],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> bool:
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """One value per leaf of `treespec`, a leaf of `tree` standing for the whole subtree below it.

    None when `tree` is not a prefix of `treespec`.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    values: list[Any] = []

    def spread(leaf: Any, subtree: PyTree) -> None:
        values.extend([leaf] * len(tree_leaves(subtree)))

    full = treespec.unflatten([0] * treespec.num_leaves)
    try:
        tree_map_(spread, tree, full, is_leaf=is_leaf)
    except ValueError:
        return None
    return values


# The functions of paths and of texts are asked for by this module's name.
PATHS = frozenset(
    (
        "GetAttrKey", "KeyEntry", "KeyPath", "MappingKey", "SequenceKey", "key_get", "keystr",
        "tree_flatten_with_path", "tree_leaves_with_path", "tree_map_with_path",
    )
)  # fmt: skip
# How built-in containers come apart, by the names that registrations of like classes use.
FORMS = {
    f"_{name}_{form}": (cls, form)
    for name, cls in (
        ("dict", dict), ("list", list), ("tuple", tuple), ("namedtuple", namedtuple),
        ("ordereddict", OrderedDict), ("defaultdict", defaultdict), ("deque", deque),
    )
    for form in ("flatten", "unflatten", "flatten_with_keys")
}  # fmt: skip
_get_node_type = node_type
_register_pytree_node = register_pytree_node
_broadcast_to_and_flatten = broadcast_to_and_flatten
_is_namedtuple_instance = is_namedtuple_instance


def find_form(name: str) -> Any:
    if name not in FORMS:
        return None
    cls, form = FORMS[name]
    node = SUPPORTED_NODES[cls]
    if form == "flatten_with_keys":
        from rushlight.base.treepaths import flatten_with_keys_as

        return flatten_with_keys_as(cls)
    return node.flatten_fn if form == "flatten" else node.unflatten_fn


TEXTS = frozenset(("treespec_dumps", "treespec_loads", "treespec_pprint"))
__getattr__, __dir__ = namespace(
    __name__,
    homes={
        **dict.fromkeys(PATHS, "rushlight.base.treepaths"),
        **dict.fromkeys(TEXTS, "rushlight.base.treetexts"),
    },
    make=find_form,
)
