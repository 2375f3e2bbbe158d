"""What a backward graph is, said exactly: the key under which its program is found again.

`describe` walks a graph and answers its `Signature`: classes, edges, forward shapes, plain values
by their bits, and the geometry of saved tensors. Formulas may depend on nothing else but elements.
`write_matcher` turns a signature, and nothing but it, into straight-line code that recognises such
graphs sooner than a walk does. It says no to anything unexpected; the walk then decides.
"""

from __future__ import annotations

from itertools import pairwise
from struct import unpack
from typing import Any, NamedTuple

from rushlight.autograd.engine import is_unwatched
from rushlight.base.keys import exact_key
from rushlight.core import dtype as dtypes
from rushlight.core.gradrule import TensorMeta
from rushlight.core.node import AccumulateGrad, SavedTensor
from rushlight.core.size import Size
from rushlight.core.source import compile_source
from rushlight.core.tensor import PLAIN, Tensor

__all__ = ["Found", "Signature", "describe", "write_matcher"]

# The most nodes that a graph with a signature may have.
LARGEST = 400
# An edge to a node not met before.
NEW = "new"
# Heads the description of a saved tensor: (SAVED, shape, dtype, strides or None, requires grad).
SAVED = SavedTensor
# Heads the description of a saved tuple with tensors in it: (SEVERAL, item by item).
SEVERAL = "several"
# Types of saved values that are told apart by their keys.
VALUES = frozenset((int, float, complex, bool, str, type(None), dtypes.dtype, TensorMeta))


class Signature(NamedTuple):
    """A graph's key. A node is (class and formula, forward metas, edge numbers, edges, saved
    values); an edge is None, NEW, the place of a node or leaf met before, or a leaf's (shape,
    dtype). `order`: the nodes' numbers from the youngest to the oldest, which is how the engine
    takes those that are ready, and so how it adds up."""

    number: int
    default_dtype: Any
    nodes: tuple[Any, ...]
    order: tuple[int, ...]


class Found(NamedTuple):
    """A graph that has a signature, and its parts in the order of the walk."""

    signature: Signature
    saved: list[Any]
    leaves: list[Any]
    nodes: list[Any]


def describe(root: Any, number: int) -> Found | None:
    """The signature of a graph; None for one that somebody watches, that keeps what a key cannot
    say, or that the engine will refuse to run."""
    nodes, leaves = [root], []
    saved: list[Any] = []
    places: dict[Any, int] = {root: 0}
    described = []
    for node in nodes:  # grows while it is walked
        formula = node.formula
        if formula is False or node.node_hooks is not None:
            return None
        edges: list[Any] = []
        for following in node.next_nodes:
            if type(following) is AccumulateGrad:
                following = following.variable
            place = None if following is None else places.get(following)
            if place is not None or following is None:
                edges.append(place)
                continue
            places[following] = len(places)
            if isinstance(following, Tensor):
                if not is_unwatched(following):
                    return None
                leaves.append(following)
                edges.append((following._array.shape, following._dtype))
            else:
                nodes.append(following)
                edges.append(NEW)
        values = describe_saved(node.saved_slots, saved)
        if values is None or len(nodes) > LARGEST:
            return None
        for meta in node.output_metas:
            if meta is not None and meta[2] is not None:
                return None
        kind = type(node) if formula is None else (type(node), formula)
        described.append((kind, node.output_metas, node.next_nrs, tuple(edges), values))
    order = sorted(range(len(nodes)), key=lambda at: -nodes[at].sequence_nr)
    signature = Signature(number, dtypes.get_default_dtype(), tuple(described), tuple(order))
    return Found(signature, saved, leaves, nodes)


def describe_saved(slots: Any, saved: list[Any]) -> tuple[Any, ...] | None:
    """What a node keeps; its tensors are added to `saved`. None if that cannot be said."""
    if slots is None:
        return None
    described: list[Any] = []
    for entry in slots:
        cls = type(entry)
        if cls in VALUES:
            described.append(exact_key(entry))
        elif cls is tuple or cls is Size:
            if all([type(item) in VALUES for item in entry]):
                described.append(exact_key(entry))
                continue
            items = describe_saved(entry, saved) if cls is tuple else None
            if items is None:
                return None
            described.append((SEVERAL, items))
        else:
            tensor = saved_tensor(entry)
            if tensor is None:
                return None
            saved.append(tensor)
            array = tensor._array
            strides = None if tensor._is_contiguous else array.strides
            described.append((SAVED, array.shape, tensor._dtype, strides, tensor._requires_grad))
    return tuple(described)


def saved_tensor(entry: Any) -> Any:
    """The plain tensor in a saved slot, if it is still what was saved; else None."""
    version = 0
    if type(entry) is SavedTensor:
        if entry.unpack_hook is not None:
            return None
        version = entry.version
        entry = entry.tensor
    if (type(entry) is not Tensor and type(entry) not in PLAIN) or entry._unusual is not None:
        return None
    counter, state = entry._counter, entry._autograd
    if counter is not None and counter.value != version:
        return None
    return None if state is not None and state.detached_at else entry


# -- the matcher -----------------------------------------------------------------------------------

LEAF = """
    t = {source}
    if type(t) is AccumulateGrad: t = t.variable
"""

# `is_unwatched`, written out for the common case.
NEW_LEAF = """
    if ((type(t) is not Tensor and type(t) not in PLAIN) or t._unusual is not None
            or ((o := t._autograd) is not None
                and (o.hooks is not None or o.post_accumulate or o.accumulator is not None))):
        if not is_unwatched(t): return None
    if t._array.shape != {shape} or t._dtype is not {dtype}: return None
    {name} = t
"""

# `saved_tensor`, written out.
TENSOR = """
    t = {source}
    v = 0
    if type(t) is SavedTensor:
        if t.unpack_hook is not None: return None
        v = t.version
        t = t.tensor
    if ((type(t) is not Tensor and type(t) not in PLAIN) or t._unusual is not None
            or (t._counter is not None and t._counter.value != v)
            or (t._autograd is not None and t._autograd.detached_at)): return None
    {name} = t._array
    if ({name}.shape != {shape} or t._dtype is not {dtype} or t._requires_grad is not {needs}
            or {layout}): return None
"""


class MatcherWriter:
    """Collects the lines of one matcher and the constants they compare with."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "AccumulateGrad": AccumulateGrad,
            "PLAIN": PLAIN,
            "Size": Size,
            "Tensor": Tensor,
            "dtypes": dtypes,
            "exact_key": exact_key,
            "is_unwatched": is_unwatched,
            "SavedTensor": SavedTensor,
        }
        # Names of nodes and leaves in the order of the walk.
        self.places: list[str] = ["root"]
        self.nodes: list[str] = ["root"]
        # (consumer, producer): the producer is the older one, and cannot be ready first.
        self.edges: set[tuple[str, str]] = set()
        self.leaves: list[str] = []
        self.leaf_facts: list[Any] = []
        self.arrays: list[str] = []

    def constant(self, value: Any) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def refuse_if(self, test: str) -> None:
        self.lines.append(f"    if {test}: return None")

    def node(self, name: str, described: Any) -> None:
        kind, metas, numbers, edges, values = described
        node_class, formula = kind if type(kind) is tuple else (kind, None)
        self.refuse_if(
            f"type({name}) is not {self.constant(node_class)} or {name}.node_hooks is not None "
            f"or {name}.output_metas != {self.constant(metas)} "
            f"or {name}.next_nrs != {self.constant(numbers)}"
        )
        if formula is not None:
            self.refuse_if(f"{name}.formula is not {self.constant(formula)}")
        self.lines.append(f"    e = {name}.next_nodes")
        for position, edge in enumerate(edges):
            self.edge(f"e[{position}]", edge)
            if edge is not None:
                following = self.places[-1] if type(edge) is not int else self.places[edge]
                self.edges.add((name, following))
        self.lines.append(f"    s = {name}.saved_slots")
        self.refuse_if(f"s is None or len(s) != {len(values)}")
        for position, value in enumerate(values):
            self.slot(f"s[{position}]", value)

    def slot(self, source: str, value: Any) -> None:
        head = value[0] if type(value) is tuple else None
        if head is SAVED:
            self.tensor(source, *value[1:])
        elif head is SEVERAL:
            self.refuse_if(f"type({source}) is not tuple or len({source}) != {len(value[1])}")
            for position, item in enumerate(value[1]):
                self.slot(f"{source}[{position}]", item)
        else:
            self.refuse_if(self.differs(source, value))

    def edge(self, source: str, edge: Any) -> None:
        if edge is None:
            self.refuse_if(f"{source} is not None")
        elif edge == NEW:
            name = f"n{len(self.places)}"
            self.places.append(name)
            self.nodes.append(name)
            self.lines.append(f"    {name} = {source}")
        elif type(edge) is int and self.places[edge] in self.nodes:
            self.refuse_if(f"{source} is not {self.places[edge]}")
        else:
            self.lines.append(LEAF.format(source=source))
            if type(edge) is int:
                self.refuse_if(f"t is not {self.places[edge]}")
                return
            name = f"l{len(self.places)}"
            self.places.append(name)
            self.leaves.append(name)
            self.leaf_facts.append(edge)
            shape, dtype = [self.constant(fact) for fact in edge]
            self.lines.append(NEW_LEAF.format(name=name, shape=shape, dtype=dtype))

    def ages(self, order: tuple[int, ...]) -> None:
        """Nodes in their order, which also tells them apart; leaves are told apart."""
        names = [self.nodes[place] for place in order]
        for younger, older in pairwise(names):
            if (younger, older) not in self.edges:
                self.refuse_if(f"{younger}.sequence_nr <= {older}.sequence_nr")
        alike: dict[Any, list[str]] = {}
        for leaf, facts in zip(self.leaves, self.leaf_facts, strict=True):
            alike.setdefault(facts, []).append(leaf)
        for leaves in alike.values():
            if len(leaves) == 2:
                self.refuse_if(" is ".join(leaves))
            elif len(leaves) > 2:
                found = ", ".join([f"id({leaf})" for leaf in leaves])
                self.refuse_if(f"len({{{found}}}) != {len(leaves)}")

    def tensor(self, source: str, shape: Any, dtype: Any, strides: Any, needs: bool) -> None:
        name = f"a{len(self.arrays)}"
        self.arrays.append(name)
        layout = f"t._is_contiguous or {name}.strides != {self.constant(strides)}"
        self.lines.append(
            TENSOR.format(
                source=source,
                name=name,
                shape=self.constant(shape),
                dtype=self.constant(dtype),
                needs=needs,
                layout="not t._is_contiguous" if strides is None else layout,
            )
        )

    def differs(self, source: str, key: Any) -> str:
        """A test whether a value has another key. For values that equal only themselves, `!=`
        says so."""
        if key is None:
            return f"{source} is not None"
        kind = key[0] if type(key) is tuple else type(key)
        known = self.constant(key)
        if kind in (int, str):
            return f"type({source}) is not {kind.__name__} or {source} != {known}"
        if kind in (bool, dtypes.dtype):
            return f"{source} is not {known}[1]"
        if kind is float:
            number = unpack("<d", key[1])[0]
            if number and number == number:
                return f"type({source}) is not float or {source} != {self.constant(number)}"
        if kind in (tuple, Size) and all([type(item) is int for item in key[1:]]):
            tests = [f"type({source}) is not {kind.__name__}"]
            tests.append(f"{source} != {self.constant(key[1:])}")
            tests += [f"type({source}[{place}]) is not int" for place in range(len(key) - 1)]
            return " or ".join(tests)
        return f"exact_key({source}) != {known}"


def write_matcher(signature: Signature, name: str) -> Any:
    """A function of (root, number) that answers None, or the saved arrays, leaves and nodes of a
    graph with this signature, each in the order of the walk."""
    writer = MatcherWriter()
    default = writer.constant(signature.default_dtype)
    writer.refuse_if(f"number != {signature.number} or dtypes.default_dtype is not {default}")
    for place, described in enumerate(signature.nodes):
        writer.node(writer.nodes[place], described)
    writer.ages(signature.order)
    parts = ", ".join(
        [
            f"({', '.join(names)},)" if names else "()"
            for names in (writer.arrays, writer.leaves, writer.nodes)
        ]
    )
    source = "\n".join(["def match(root, number):", *writer.lines, f"    return {parts}"]) + "\n"
    compile_source(source, name, writer.scope)
    return writer.scope["match"]
