"""What a function does to its inputs and what its outputs alias, found by one dry run.

The function runs on functional fake tensors. The facts decide the calling convention: which
mutated inputs are returned and written back afterwards, which outputs are rebuilt from inputs or
from other outputs, and which outputs have a tangent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rushlight.aot.subclasses import (
    Layout,
    as_tangent,
    flatten,
    has_subclass,
    layouts_of,
    map_parts,
)
from rushlight.autograd.function import BackwardCFunction
from rushlight.base.errors import error
from rushlight.core.extras import ViewInfo
from rushlight.core.functional import (
    FunctionalMode,
    FunctionalStorage,
    FunctionalTensor,
    ViewStep,
    from_functional,
    to_functional,
)
from rushlight.core.geometry import equal, is_nested
from rushlight.core.modes import is_traceable_wrapper_subclass
from rushlight.core.node import GraphNode
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor, sizes_of, storage_of, strides_of
from rushlight.higher_order.effects import EffectType
from rushlight.symbolic.numbers import NUMBERS, IntLike, SymInt
from rushlight.symbolic.queries import has_hint

# (sizes, strides, storage offset)
Geometry = tuple[tuple[IntLike, ...], tuple[IntLike, ...], IntLike]

__all__ = [
    "Facts",
    "InputFacts",
    "OutputFacts",
    "OutputKind",
    "check_subclasses",
    "collect_facts",
    "functional_input",
]


class OutputKind(Enum):
    """How an output relates to other tensors, which is how it is given back to the caller."""

    FRESH = "a tensor of its own, or no tensor"
    IS_INPUT = "an input, returned as it is"
    ALIAS_OF_INPUT = "a view of an input"
    CUSTOM_VIEW = "a view of an input made by an autograd Function"
    HIDDEN_VIEW = "the only view of an intermediate: nobody can tell"
    ALIAS_OF_BASE = "a view of an intermediate that is an extra output"
    ALIAS_OF_OUTPUT = "a view of another output"


REBUILT = (
    OutputKind.IS_INPUT,
    OutputKind.ALIAS_OF_INPUT,
    OutputKind.ALIAS_OF_BASE,
    OutputKind.ALIAS_OF_OUTPUT,
)


@dataclass
class InputFacts:
    """What happens to one input."""

    is_leaf: bool
    requires_grad: bool
    writes_data: bool
    writes_geometry: bool
    # All writes were on detached aliases; or each was, or was without grad mode.
    hidden: bool
    quiet: bool
    # It was given other memory, or its memory another size.
    sets_storage: bool = False
    resizes_storage: bool = False
    gives_up_memory: bool = False
    # The graph itself ends with a copy_ into the input, or with what gives it its memory.
    kept_in_graph: bool = False
    # All writes were on its `data`.
    unversioned: bool = False
    # It became a view of itself, by ops that history records; the views that lead to it.
    becomes_view: bool = False
    moves: tuple[ViewStep, ...] = field(default=(), compare=False)
    # Of each, whether it ran without grad mode: what is no view then keeps the history of the old
    # geometry.
    quiet_moves: tuple[bool, ...] = ()
    is_view: bool = False
    # The new geometry leaves out elements, or has some of them twice.
    loses: bool = False

    @property
    def returned(self) -> bool:
        """Whether the new value is an extra output, written back by the runtime."""
        return (self.writes_data or self.writes_geometry) and not self.kept_in_graph

    @property
    def returns_start(self) -> bool:
        """Whether the value that is written back has the geometry that the input came with."""
        return self.writes_data and self.loses

    @property
    def seen_by_autograd(self) -> bool:
        """Whether a gradient must be taken with respect to the value before the write."""
        return self.writes_data and not self.hidden and not self.quiet

    @property
    def is_moved_leaf(self) -> bool:
        """Whether it is a leaf that is given another geometry, which its gradient has too."""
        return self.is_leaf and self.requires_grad and any(self.quiet_moves)

    @property
    def is_changed(self) -> bool:
        """Whether the caller finds anything changed afterwards."""
        return self.writes_data or self.writes_geometry or self.sets_storage or self.resizes_storage


@dataclass
class OutputFacts:
    """What one output is."""

    kind: OutputKind
    is_tensor: bool
    requires_grad: bool
    # The input, output or intermediate base it is rebuilt from.
    base: int | None = None
    # The views that lead from the base to it; None where they cannot be replayed.
    chain: tuple[ViewStep, ...] | None = None
    symbolic_dims: frozenset[int] = frozenset()
    # One of several views of an input that one op gave: nobody may write to it.
    is_split: bool = False
    # A view without history of something that requires a gradient: taken without grad mode.
    is_quiet: bool = False
    # The first output that is the same tensor.
    first: int | None = None
    # Made from its input's `data`, or given its memory: no view of it.
    is_data: bool = False
    # Whether autograd knows it as a view, which what was detached is not.
    is_view: bool = False
    # The chain leads from the input as it was given, which the function gave another geometry.
    from_start: bool = False
    # Earlier outputs that are other tensors over the same elements: the graph may give one.
    twins: tuple[int, ...] = ()
    # A view of a wrapper, whose chain nobody knows, that was begun without grad mode.
    is_unseen: bool = False

    @property
    def rebuilt(self) -> bool:
        return self.kind in REBUILT


@dataclass
class Facts:
    """All that the dry run found."""

    inputs: list[InputFacts]
    outputs: list[OutputFacts]
    bases: int
    # Fake tensors like the tangents of mutated inputs, outputs and intermediate bases.
    tangents: list[Tensor]
    # Grad mode after the function, where it changed it.
    grad_mode_after: bool | None = None
    keep_writes: bool = False
    training: bool = False
    returned_inputs: list[int] = field(default_factory=list)
    # Inputs that the backward writes; known once the joint graph is traced.
    written_in_backward: list[int] = field(default_factory=list)
    # Inputs that the backward has a gradient for; known once the joint graph is traced.
    differentiated: list[int] = field(default_factory=list)
    # How results of the forward, tangents and gradients are made of the graphs' plain tensors;
    # None where they are plain. Known once graphs are traced.
    result_layouts: list[Layout] | None = None
    tangent_layouts: list[Layout] | None = None
    gradient_layouts: list[Layout] | None = None
    has_subclasses: bool = False
    # The effects that the function has: the forward graph takes and returns a token of each first.
    tokens: list[EffectType] = field(default_factory=list)
    # Those of the backward, whose graph takes and returns tokens last. Known once it is traced.
    backward_tokens: list[EffectType] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.returned_inputs = [i for i, entry in enumerate(self.inputs) if entry.returned]

    @property
    def needs_gradients(self) -> bool:
        """Whether a backward can ever be asked for."""
        return any(entry.requires_grad for entry in self.outputs) or any(
            entry.requires_grad and entry.seen_by_autograd for entry in self.inputs
        )

    @property
    def forward_count(self) -> int:
        """Results of the forward between tokens and what is saved for backward."""
        return len(self.returned_inputs) + len(self.outputs) + self.bases

    @property
    def graph_count(self) -> int:
        """The same as outputs of the forward graph, where a subclass is several."""
        if self.result_layouts is None:
            return self.forward_count
        return sum([layout.count for layout in self.result_layouts])


class InputNode(GraphNode):
    """Makes an input of a traced function a tensor that may be written to, as no leaf may."""

    __slots__ = ()

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        return ()


def functional_input(value: Any, seen: dict[int, Any]) -> Any:
    """A traced function's argument; the same tensor twice is the same functional tensor."""
    if not isinstance(value, Tensor):
        return value
    known = seen.get(id(value))
    if known is None:
        if is_traceable_wrapper_subclass(value):
            known = map_parts(value, lambda part: functional_input(part, seen))
        else:
            known = to_functional(value)
        seen[id(value)] = known
    return known


def functional_parts(value: Any) -> list[FunctionalTensor]:
    """The functional tensors that a value is made of."""
    return [part for part in flatten(value) if isinstance(part, FunctionalTensor)]


def value_of(value: Any) -> Any:
    """What a functional tensor, or a subclass of such, stands for."""
    return map_parts(value, from_functional)


def memory_of(value: Any) -> int | None:
    """Tells apart the memory of traced tensors; None for anything else."""
    if isinstance(value, FunctionalTensor):
        return id(value.functional_storage)
    return id(storage_of(value)) if is_traceable_wrapper_subclass(value) else None


def has_memory_of(value: Any, source: Any) -> bool:
    """Whether what a value is made of lies in memory of what another is made of: parts of a wrapper
    may have been set to other memory."""
    memory = parts_memory(source)
    return all([memory_of(part) in memory for part in functional_parts(value)])


def allow_writes(tensor: object) -> None:
    if isinstance(tensor, Tensor) and tensor._requires_grad and tensor._node is None:
        node = InputNode()
        node.output_metas = ((tuple(tensor.shape), tensor._dtype, tensor._unusual),)
        tensor._node = node


# Where a tensor has its memory, and how it lies in it.
GEOMETRY = ("_storage", "_array", "_is_contiguous", "_offset", "_unusual")


@contextmanager
def kept_memory(args: Sequence[Any]) -> Iterator[None]:
    """Fakes have the memory after a run that they had before, whatever it asked for or set them to,
    and their versions: the next run asks and writes again."""
    parts = [part for value in args for part in flatten(value) if isinstance(part, Tensor)]
    storages = [storage_of(part) for part in parts]
    sizes = [storage.nbytes_ for storage in storages]
    counters = [part._counter for part in parts if part._counter is not None]
    versions = [counter.value for counter in counters]
    forms = [[(name, getattr(part, name)) for name in GEOMETRY] for part in parts]
    yield
    for part, form in zip(parts, forms, strict=True):
        for name, value in form:
            setattr(part, name, value)
    for storage, size in zip(storages, sizes, strict=True):
        storage.nbytes_ = size
    for counter, version in zip(counters, versions, strict=True):
        counter.value = version


def collect_facts(
    function: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    keep_writes: bool,
    pre_dispatch: bool = False,
    make_mode: Callable[[], FunctionalMode] | None = None,
) -> Facts:
    """Run `function` once on functional versions of fake `args`."""
    seen: dict[int, Any] = {}
    inputs = [functional_input(value, seen) for value in args]
    for value in inputs:
        allow_writes(value)
    geometries = [geometry_of(value) for value in inputs]
    storages = [[part.functional_storage for part in functional_parts(v)] for v in inputs]
    given = [memory_of(value) for value in inputs]
    before = LOCAL.state.grad
    mode = FunctionalMode(pre_dispatch) if make_mode is None else make_mode()
    with kept_memory(args), mode:
        outputs = list(function(*inputs))
    after = LOCAL.state.grad
    if after != before:
        LOCAL.state.set_grad(before)
    found = [
        input_facts(source, value, geometry, originals, keep_writes)
        for source, value, geometry, originals in zip(args, inputs, geometries, storages)
    ]
    for position, (source, value) in enumerate(zip(args, inputs, strict=True)):
        if not isinstance(value, Tensor):
            continue
        was_detached = value._autograd is not None and value._autograd.detached_at > 0
        if isinstance(value, FunctionalTensor) and value.was_detached and source._is_view():
            # A traced argument is no view; this says what the caller's says.
            source.detach_()
        if source.requires_grad and (was_detached or value.grad_fn is None):
            raise error("RL0626", position=position)
    classified, bases = Classifier(inputs, outputs, given).classify()
    tangents = [
        source if entry.returns_start else value
        for source, value, entry in zip(args, inputs, found)
        if entry.returned and entry.seen_by_autograd and entry.requires_grad
    ]
    tangents += [
        value
        for value, entry in zip(outputs, classified)
        if entry.is_tensor and entry.requires_grad and not entry.rebuilt
    ]
    tangents += bases
    return Facts(
        inputs=found,
        outputs=classified,
        bases=len(bases),
        tangents=[tangent_like(value) for value in tangents],
        grad_mode_after=after if after != before else None,
        keep_writes=keep_writes,
        tangent_layouts=layouts_of([value_of(value) for value in tangents]),
        has_subclasses=has_subclass([*args, *outputs]),
        tokens=list(mode.tokens),
    )


def check_subclasses(args: Sequence[Any], facts: Facts) -> None:
    """Refuse what cannot be done to subclasses."""
    if facts.bases:
        raise AssertionError(
            "Two outputs are views of one intermediate, and a tensor subclass is involved: this is "
            "not supported"
        )
    for value, entry in zip(args, facts.inputs, strict=True):
        if not is_traceable_wrapper_subclass(value):
            continue
        # torch: the texts.
        if entry.writes_geometry:
            raise RuntimeError("Metadata mutations are currently not allowed on tensor subclasses")
        if entry.writes_data and not value.is_contiguous():
            raise RuntimeError(
                "Mutations on non-contiguous inputs are currently not allowed on tensor subclasses"
            )


def tangent_like(value: Any) -> Any:
    """A fake tensor of a forward output's sizes, as `runtime.tangent` makes it, without history."""
    found = value_of(value)
    return as_tangent(found.detach()) if isinstance(found, Tensor) else found


def geometry_of(value: object) -> Geometry | None:
    if not isinstance(value, Tensor):
        return None
    return sizes_of(value), strides_of(value), value._offset


def is_same_geometry(one: Geometry | None, other: Geometry | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = zip(one[:2], other[:2], strict=True)
    return all([equal(a, b) for a, b in pairs]) and equal((one[2],), (other[2],))


def input_facts(
    source: Any,
    value: Any,
    geometry: Geometry | None,
    originals: Sequence[FunctionalStorage],
    keep_writes: bool,
) -> InputFacts:
    parts = functional_parts(value)
    if not parts:
        return InputFacts(
            is_leaf=False,
            requires_grad=False,
            writes_data=False,
            writes_geometry=False,
            hidden=False,
            quiet=False,
        )
    storages = [part.functional_storage for part in parts]
    writes = sum([storage.writes for storage in storages])
    becomes_view = any([part.moves for part in parts])
    moved = becomes_view or storages != originals or any([part.was_set for part in parts])
    sets = storages != originals
    found = InputFacts(
        is_leaf=source.is_leaf,
        requires_grad=value.requires_grad,
        writes_data=writes > 0 and not sets,
        writes_geometry=moved
        and not sets
        and (value is not parts[0] or geometry_of(moved_form(source, value)) != geometry),
        becomes_view=becomes_view,
        moves=value.chain if moved and value is parts[0] else (),
        hidden=sum([storage.hidden_writes for storage in storages]) == writes,
        quiet=writes > 0 and sum([storage.quiet_writes for storage in storages]) == writes,
        sets_storage=sets,
        unversioned=writes > 0 and sum([s.unversioned_writes for s in storages]) == writes,
        resizes_storage=any([storage.resized_to is not None for storage in storages]),
        gives_up_memory=any([storage.resized_to == 0 for storage in storages]),
        quiet_moves=parts[0].moves,
        is_view=source._is_view(),
    )
    if found.writes_geometry and found.moves:
        form = moved_form(source, value)
        is_whole = form.numel() == source.numel()
        found.loses = not is_whole or not is_nested(sizes_of(form), strides_of(form))
    is_unknown = any([depends_on_data(step.args) for step in found.moves])
    is_odd = any(found.quiet_moves) and found.requires_grad and not found.is_view
    if found.returns_start and (is_unknown or is_odd):
        raise error("RL0629", shape=tuple(source.shape))
    if is_odd and is_unknown and not all(found.quiet_moves):
        raise error("RL0631", shape=tuple(source.shape))
    replaces = found.sets_storage or found.resizes_storage
    found.kept_in_graph = (
        keep_writes
        and (found.writes_data or replaces)
        and value is parts[0]
        and not found.unversioned
        and (found.sets_storage or not found.writes_geometry)
        and (found.hidden or found.quiet or (not found.requires_grad and not found.writes_geometry))
    )
    if replaces and not found.kept_in_graph:
        # torch: the text.
        name = "resize_" if found.resizes_storage else "set_"
        raise AssertionError(
            f"Encountered a {name} on a graph input, but the input has other mutations that we "
            "cannot\nkeep in the graph. This is not supported today. Current state:\n"
            f"  keep_input_mutations={keep_writes}\n  {found}"
        )
    if sets and any([storage.is_given for storage in storages]):
        raise error("RL0743")
    if sets and found.is_view and found.requires_grad:
        # Its history would go on as that of its base.
        raise error("RL0611", name="set_")
    if sets and any([storage.writes for storage in originals]):
        raise error("RL0633", use="written")
    return found


def has_symbols(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(has_symbols(item) for item in value)
    return isinstance(value, NUMBERS)


def depends_on_data(value: object) -> bool:
    """Whether a number among arguments of an op is known at run time only."""
    if isinstance(value, (list, tuple)):
        return any(depends_on_data(item) for item in value)
    return isinstance(value, NUMBERS) and not has_hint(value)


def moved_form(source: Tensor, value: FunctionalTensor) -> Tensor:
    """An argument as the function leaves it, less its values: a write changes no strides."""
    with changed(grad=False):
        form: Any = source.detach()
        for step in value.chain:
            form = step.replay(form)
    return form  # type: ignore[no-any-return]


class Classifier:
    """Sorts outputs by what they alias."""

    def __init__(
        self, inputs: Sequence[Any], outputs: Sequence[Any], given: Sequence[int | None]
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        # The memory that inputs came with, and of that what they were taken away from by `set_`.
        self.given = given
        self.lost = set(given) - {memory_of(value) for value in inputs}
        self.input_of_storage: dict[int, int] = {}
        self.input_of_tensor: dict[int, int] = {}
        for position, value in enumerate(inputs):
            key = memory_of(value)
            if key is not None:
                self.input_of_storage.setdefault(key, position)
                self.input_of_tensor.setdefault(id(value), position)
        # How many outputs share a storage; how many of these are one of several views of an op.
        self.aliases: Counter[int] = Counter()
        self.split_aliases: Counter[int] = Counter()
        self.output_of_tensor: dict[int, int] = {}
        for position, value in enumerate(outputs):
            key = memory_of(value)
            if key is not None:
                self.aliases[key] += 1
                self.split_aliases[key] += is_split(value)
                self.output_of_tensor.setdefault(id(value), position)
        self.bases: list[Tensor] = []
        self.base_of_tensor: dict[int, int] = {}

    def classify(self) -> tuple[list[OutputFacts], list[Tensor]]:
        found = []
        for position, value in enumerate(self.outputs):
            key = memory_of(value)
            if key is None:
                found.append(OutputFacts(OutputKind.FRESH, isinstance(value, Tensor), False))
                continue
            kind, base, chain = self.kind_of(value, position)
            if kind is not OutputKind.IS_INPUT:
                refuse_released(value)
            if kind is OutputKind.FRESH and is_traceable_wrapper_subclass(value):
                self.refuse_parts_of_inputs(value, position)
            symbolic = frozenset(
                dim for dim, size in enumerate(sizes_of(value)) if isinstance(size, SymInt)
            )
            split = is_split(value) and key in self.input_of_storage
            needs, quiet = value.requires_grad, False
            if needs and kind is not OutputKind.IS_INPUT and value.grad_fn is None:
                needs, quiet = kind in REBUILT, True
            first = self.output_of_tensor[id(value)]
            found.append(
                OutputFacts(
                    kind, True, needs, base, chain, symbolic, split, quiet,
                    first if first != position else None,
                    kind is OutputKind.ALIAS_OF_INPUT and is_no_view(value, chain),
                    value._is_view(),
                    kind is OutputKind.ALIAS_OF_INPUT and self.is_from_start(value, base or 0),
                    self.twins_before(value, position) if kind is OutputKind.FRESH else (),
                    is_unseen=chain is None and is_begun_quietly(value),
                )
            )  # fmt: skip
        return found, self.bases

    def kind_of(
        self, value: FunctionalTensor, position: int
    ) -> tuple[OutputKind, int | None, tuple[ViewStep, ...] | None]:
        key = memory_of(value)
        assert key is not None
        only_split = self.aliases[key] == self.split_aliases[key]
        source = self.input_of_storage.get(key)
        if key in self.lost:
            raise error("RL0633", use=f"that of output {position}")
        if source is not None:
            same = self.input_of_tensor.get(id(value))
            if same is not None:
                return OutputKind.IS_INPUT, same, ()
            if not has_memory_of(value, self.inputs[source]):
                return OutputKind.FRESH, None, None
            is_made_inside = memory_of(self.inputs[source]) not in self.given
            if is_made_inside and (value.grad_fn is not None or self.is_from_start(value, source)):
                # What the input was set to has a history of its own, and lies elsewhere in memory
                # than the input came with.
                return OutputKind.FRESH, None, None
            if is_hidden(value) and value.grad_fn is not None:
                raise error("RL0627", position=position, argument=source)
            if is_custom_view(value, self.inputs[source]):
                return OutputKind.CUSTOM_VIEW, source, None
            if value.grad_fn is not None and only_split:
                return OutputKind.FRESH, None, None
            if has_own_history(value, self.inputs[source]):
                raise error("RL0627", position=position, argument=source)
            return OutputKind.ALIAS_OF_INPUT, source, self.chain_from_input(value, source)
        base = value._base
        if (
            base is not None
            and value.requires_grad
            and base.requires_grad
            and not is_custom_view(value, base)
        ):
            return self.view_of_intermediate(value, base)
        if self.aliases[key] > 1 and not value.requires_grad:
            for other, place in self.twins(value):
                if other.requires_grad:
                    return OutputKind.ALIAS_OF_OUTPUT, place, None
        return OutputKind.FRESH, None, None

    def refuse_parts_of_inputs(self, value: Any, position: int) -> None:
        """Refuse a wrapper that is no view of an input, and is made of parts that are."""
        for part in functional_parts(value):
            if any([memory_of(part) in parts_memory(source) for source in self.inputs]):
                raise error("RL0761", position=position)

    def chain_from_input(self, value: FunctionalTensor, source: int) -> tuple[ViewStep, ...] | None:
        """The views that lead from an input as the function leaves it to an output."""
        if not isinstance(value, FunctionalTensor):
            return None
        if self.is_from_start(value, source):
            return value.chain
        return value.chain[len(self.inputs[source].chain) :]

    def is_from_start(self, value: Any, source: int) -> bool:
        """Whether a view was taken before its input was given another geometry."""
        return isinstance(value, FunctionalTensor) and not starts_with(
            value.chain, self.inputs[source].chain
        )

    def view_of_intermediate(
        self, value: FunctionalTensor, base: Tensor
    ) -> tuple[OutputKind, int | None, tuple[ViewStep, ...] | None]:
        key = memory_of(value)
        assert key is not None
        if self.aliases[key] - self.split_aliases[key] <= 1:
            return OutputKind.HIDDEN_VIEW, None, None
        returned = self.output_of_tensor.get(id(base))
        chain = chain_between(base, value)
        if returned is not None:
            return OutputKind.ALIAS_OF_OUTPUT, returned, chain
        place = self.base_of_tensor.get(id(base))
        if place is None and not any([has_history_of(base, other) for other in self.outputs]):
            # Taken without grad mode, all of them: no gradient reaches the base.
            return OutputKind.FRESH, None, None
        if place is None:
            place = self.base_of_tensor[id(base)] = len(self.bases)
            self.bases.append(base)
        return OutputKind.ALIAS_OF_BASE, place, chain

    def twins_before(self, value: FunctionalTensor, position: int) -> tuple[int, ...]:
        if value.grad_fn is not None:
            return ()
        return tuple([place for _, place in self.twins(value) if place < position])

    def twins(self, value: FunctionalTensor) -> list[tuple[Tensor, int]]:
        """Other outputs over the same memory with the same geometry."""
        geometry = geometry_of(value)
        return [
            (other, place)
            for place, other in enumerate(self.outputs)
            if isinstance(other, Tensor)
            and other is not value
            and memory_of(other) == memory_of(value)
            and is_same_geometry(geometry_of(other), geometry)
        ]


def is_no_view(value: Any, chain: tuple[ViewStep, ...] | None) -> bool:
    """Whether a tensor over an input's memory is none of its views: its `data`, or set to it."""
    return isinstance(value, FunctionalTensor) and (value.unversioned or chain == ())


def refuse_released(value: Any) -> None:
    """A tensor whose memory was given up comes out of no graph."""
    for part in functional_parts(value):
        storage = part.functional_storage
        if storage.resized_to == 0:
            raise error("RL0735", size=0, current=storage.memory.nbytes_)


def is_hidden(value: Any) -> bool:
    """Whether a tensor is, or is made of, detached aliases."""
    return any([part.hidden for part in functional_parts(value)])


def has_own_history(value: Any, source: Tensor) -> bool:
    """Whether views of an input alone do not give an alias of it the history it has."""
    node, last = value.grad_fn, source.grad_fn
    if node is None:
        return False
    if isinstance(value, FunctionalTensor):
        # Its history is that of its views, unless it is detached.
        return value.was_set
    if value._base is not source:
        return True
    while node is not None and node is not last:
        nodes = [before for before, _ in node.next_functions if before is not None]
        node = nodes[0] if len(nodes) == 1 else None
    return node is None


def is_custom_view(value: Tensor, source: Tensor) -> bool:
    """Whether an autograd Function is between a view and the input it is a view of: its backward
    is part of the graph, which ops alone would not repeat."""
    node, last = value.grad_fn, source.grad_fn
    while node is not None and node is not last:
        if isinstance(node, BackwardCFunction):
            return True
        nodes = [before for before, _ in node.next_functions if before is not None]
        node = nodes[0] if len(nodes) == 1 else None
    return False


def has_history_of(base: Tensor, value: object) -> bool:
    return isinstance(value, Tensor) and value._base is base and value.grad_fn is not None


def starts_with(chain: tuple[ViewStep, ...], start: tuple[ViewStep, ...]) -> bool:
    return len(chain) >= len(start) and all([a is b for a, b in zip(chain, start)])


def chain_between(base: Any, value: Any) -> tuple[ViewStep, ...] | None:
    """The views that lead from a tensor as the function leaves it to a view of it."""
    if not isinstance(value, FunctionalTensor) or not isinstance(base, FunctionalTensor):
        return None
    if not starts_with(value.chain, base.chain):
        raise error("RL0632", shape=tuple(base.shape))
    return value.chain[len(base.chain) :]


def chain_of(value: Any) -> tuple[ViewStep, ...] | None:
    return value.chain if isinstance(value, FunctionalTensor) else None


def parts_memory(value: Any) -> set[int | None]:
    return {memory_of(part) for part in functional_parts(value)}


def is_begun_quietly(value: Tensor) -> bool:
    """Whether autograd knows a tensor as a view taken without grad mode, or a view of such."""
    return value._view is not None and value._view.kind == ViewInfo.NO_GRAD


def is_split(value: Any) -> bool:
    """Whether a tensor is one of several views that one op returned."""
    return any([step.number is not None for step in chain_of(value) or ()])
