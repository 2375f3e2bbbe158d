"""What surrounds compiled graphs at run time: autograd, writes to inputs, rebuilt aliases.

The user must not be able to tell the compiled function from the eager one. A compiled forward and
backward become one autograd Function; the epilogue writes mutated inputs back and rebuilds
outputs that alias inputs or one another.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rushlight.aot import config
from rushlight.aot.arguments import (
    Bases,
    Member,
    overlap,
    strided_view,
    take_geometry,
    view_of,
    views_stay_valid,
)
from rushlight.aot.metadata import (
    Facts,
    InputFacts,
    OutputFacts,
    OutputKind,
    geometry_of,
    has_symbols,
)
from rushlight.aot.sizes import Sizes, with_numbers
from rushlight.aot.subclasses import Layout, as_tangent, flatten, layout_of, wrap_all
from rushlight.aot.wrappers import Wrapper
from rushlight.autograd.function import BackwardCFunction, Function
from rushlight.autograd.programs import GraphCall
from rushlight.base.errors import error
from rushlight.core import geometry
from rushlight.core.device import device
from rushlight.core.dtype import dtype
from rushlight.core.functional import ViewStep
from rushlight.core.modes import is_traceable_wrapper_subclass
from rushlight.core.node import SavedTensor, new_saved
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor, sizes_of, storage_of, strides_of
from rushlight.fx.graph_module import GraphModule, boxed_forward, has_hooks, report_error
from rushlight.symbolic.numbers import IntLike

__all__ = ["Boxed", "Epilogue", "TrainingRun", "boxed", "make_boxed_func", "unrecorded"]

# (sizes, dtype, device)
Likeness = tuple[tuple[IntLike, ...], dtype, device]


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """`f` as a function of one list, which it may empty."""

    def g(args: list[Any]) -> Any:
        return f(*args)

    g._boxed_call = True  # type: ignore[attr-defined]
    return g


def boxed(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A compiled graph as a function of one list. What it runs frees its inputs where it can."""
    if getattr(f, "_boxed_call", False):
        return f
    if isinstance(f, GraphModule):
        return BoxedModule(f)
    own: Callable[[list[Any]], Any] | None = getattr(f, "run_boxed", None)
    return make_boxed_func(f) if own is None else own


class BoxedModule:
    """A graph module as a function of one list, which its code empties before it starts."""

    __slots__ = ("forward", "module", "run")
    _boxed_call = True

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.forward: Any = None
        self.run: Callable[..., Any] | None = None

    def __call__(self, args: list[Any]) -> Any:
        module = self.module
        if self.forward is not vars(type(module)).get("forward"):
            self.forward, self.run = boxed_forward(module)
        if self.run is None or has_hooks(module):
            return module(*args)
        try:
            return self.run(module, args)
        except Exception as error:
            report_error(error)
            raise


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler whose results take one list."""

    def compile_boxed(fx_g: GraphModule, inps: Sequence[Any]) -> Any:
        return make_boxed_func(compiler(fx_g, inps))

    return compile_boxed


def plain_calls() -> changed:
    """Grad mode and autocast off: compiled graphs hold casts and gradients already."""
    return changed(grad=False, autocast=None)


class Alias:
    """A tensor that an autograd Function hands through without noticing it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def sees_to_modes(function: Any) -> bool:
    """Whether compiled code switches grad mode and autocast itself where it needs to."""
    return getattr(function, "sees_to_modes", False)


def unrecorded(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A compiled graph as a function of one list that records nothing."""
    found = boxed(function)
    return found if sees_to_modes(found) else Boxed(function)


class Boxed:
    """A compiled graph that takes and empties one list, without recording."""

    __slots__ = ("function",)
    _boxed_call = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = boxed(function)

    def __call__(self, args: list[Any]) -> Any:
        with plain_calls():
            return self.function(args)


@dataclass
class InferenceRun:
    """A compiled graph without gradients; subclasses are taken apart and put together."""

    graph: Callable[[list[Any]], Any]
    facts: Facts

    def __call__(self, args: list[Any]) -> list[Any]:
        if self.facts.has_subclasses:
            parts = [part for value in args for part in flatten(value)]
            args.clear()
            return wrap_all(self.facts.result_layouts, list(self.graph(parts)))
        return list(self.graph(args))


@dataclass
class TrainingRun:
    """Compiled graphs as one differentiable function; `backward()` compiles on first need."""

    forward: Callable[[list[Any]], Any]
    backward: Callable[[], Callable[[list[Any]], Any]]
    facts: Facts
    saved_numbers: int
    # Whether the backward itself asks for memory again that the forward gives up.
    asks_for_memory: bool = False
    # Whether the backward is small, and depends on the elements of its arguments alone.
    is_plain_math: bool = False
    # The arguments that are tensors, where not all are.
    tensor_inputs: list[int] | None = None
    # What programs of backwards know the backward by.
    formula: GraphCall | Literal[False] = False

    def __post_init__(self) -> None:
        self.gives_up_memory = any([entry.gives_up_memory for entry in self.facts.inputs])
        self.count = self.facts.graph_count
        self.tangent_places = tangents_among(self.facts)
        self.hidden = hidden_results(self.facts)
        # Inputs that the graph itself writes.
        self.kept = [place for place, e in enumerate(self.facts.inputs) if e.kept_in_graph]
        offset = len(self.facts.returned_inputs)
        self.views = {
            offset + place
            for place, entry in enumerate(self.facts.outputs)
            if entry.is_split or entry.kind is OutputKind.CUSTOM_VIEW
        }
        # Results that are one tensor for the caller: one of them has its gradient.
        self.firsts = {
            offset + place: offset + e.first
            for place, e in enumerate(self.facts.outputs)
            if e.first is not None
        }
        self.repeated = {*self.firsts, *self.firsts.values()}

    def __call__(self, args: list[Any]) -> list[Any]:
        results = CompiledFunction.apply(self, *args)
        args.clear()
        return [value.tensor if isinstance(value, Alias) else value for value in results]

    def tangents(self, grads: Sequence[Any], shapes: Sequence[Any]) -> list[Any]:
        """Incoming gradients as the backward graph takes them."""
        layouts = self.facts.tangent_layouts
        found: list[Any] = []
        for number, (place, parts) in enumerate(zip(self.tangent_places, shapes, strict=True)):
            if grads[place] is None and place in self.repeated:
                found += [tangent(None, shape) for shape in parts]
                continue
            # torch: a gradient that nobody gives is a plain tensor, also that of a wrapper.
            grad = tangent(grads[place], parts[0])
            if layouts is not None or is_traceable_wrapper_subclass(grad):
                check_tangent(grad, Layout() if layouts is None else layouts[number])
            found += flatten(grad)
        return found

    def gradients(self, found: Sequence[Any]) -> tuple[Any, ...]:
        """What the backward graph gives, of the arguments that are tensors."""
        places = self.tensor_inputs
        return tuple(found if places is None else [found[place] for place in places])

    def run_backward(self, args: list[Any]) -> Any:
        compiled = self.backward()
        with plain_calls():
            flat = compiled(args)
        return tuple(wrap_all(self.facts.gradient_layouts, flat))


def check_tangent(grad: Tensor, expected: Layout) -> None:
    """A gradient must be made of plain tensors as the compiled one was."""
    found = layout_of(grad)
    if found.cls is not expected.cls:
        # torch: the texts.
        raise AssertionError(
            "We incorrectly attempted to compile the backward with incorrect subclass metadata. "
            f"Expected a gradient of class {(expected.cls or Tensor).__name__}, got "
            f"{type(grad).__name__}. An output, or an argument that was written, that is not used "
            "has a plain gradient: let the loss depend on it."
        )
    if found.classes != expected.classes:
        raise RuntimeError("The grad inputs should be same tensor subclass type as forward output")


class CompiledFunction(Function):
    """A compiled forward whose gradient is a compiled backward."""

    @staticmethod
    def forward(ctx: Any, plan: TrainingRun, *args: Any) -> Any:
        # Tuples of arguments cannot be emptied; the list can, and frees what only it holds.
        versions = [v._version if isinstance(v, Tensor) else 0 for v in args] if plan.kept else ()
        mixed = plan.facts.has_subclasses
        given = [part for value in args for part in flatten(value)] if mixed else list(args)
        outputs = list(plan.forward(given))
        count = plan.count
        values = wrap_all(plan.facts.result_layouts, outputs[:count])
        needing = {id(values[place]) for place in plan.tangent_places}
        results = [
            unlinked(value)
            if place not in plan.views and (place in plan.tangent_places or is_view(value, needing))
            else value
            for place, value in enumerate(values)
        ]
        separate(results, plan.tangent_places, plan.firsts)
        keep_apart(results, plan.tangent_places, plan.hidden)
        saved = outputs[count:]
        first_number = len(saved) - plan.saved_numbers
        ctx.save_for_backward(*[unlinked(tensor) for tensor in saved[:first_number]])
        ctx.numbers = saved[first_number:]
        ctx.plan = plan
        # A graph may save an input and write to it: then the backward has not what it needs.
        touched = [
            v
            for v, version in zip(args, versions)
            if isinstance(v, Tensor) and v._version != version
        ]
        ctx.lost = []
        if touched:
            written = Memory([args[place] for place in plan.kept])
            kept = {id(value) for value in saved}
            ctx.lost = [v for v in touched if id(v) in kept and written.is_shared_by(v)]
        copied = [args[place] for place in plan.kept if plan.facts.inputs[place].writes_data]
        if copied:
            memory = Memory(copied)
            ctx.lost += [v for v in saved[:first_number] if memory.is_shared_by(v)]
        ctx.mark_non_differentiable(
            *[
                value
                for place, value in enumerate(results)
                if isinstance(value, Tensor)
                and place not in plan.tangent_places
                and place not in plan.hidden
            ]
        )
        ctx.set_materialize_grads(False)
        ctx.results = [
            [like(part) for part in flatten(results[place])] for place in plan.tangent_places
        ]
        return tuple(
            Alias(value) if place in plan.hidden else value for place, value in enumerate(results)
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        plan = ctx.plan
        if not any([grad is not None for grad in grads]):
            # No gradient arrives, as where results were detached: what was saved may be gone.
            return (None,) * len(ctx.needs_input_grad)
        if ctx.lost:
            raise error("RL0624", shape=tuple(ctx.lost[0].shape))
        if plan.gives_up_memory and not plan.asks_for_memory:
            check_memory(ctx.saved_tensors)
        args = [*ctx.numbers, *ctx.saved_tensors, *plan.tangents(grads, ctx.results)]
        needing = [isinstance(value, Tensor) and value.requires_grad for value in args]
        if LOCAL.state.grad and any(needing):
            if any(
                [plan.facts.inputs[place].requires_grad for place in plan.facts.written_in_backward]
            ):
                raise error("RL0622")
            return None, *DoubleBackward.apply(plan.run_backward, *args)
        tasks = LOCAL.state.tasks
        if tasks and not tasks[-1].keep_graph:
            # Nobody asks for what was saved again: it goes as soon as the graph has used it.
            ctx.release()
        return None, *plan.run_backward(args)


class DoubleBackward(Function):
    """The backward of a compiled function while gradients of gradients are recorded."""

    @staticmethod
    def forward(ctx: BackwardCFunction, run: Callable[[list[Any]], Any], *args: Any) -> Any:
        return run(list(args))

    @staticmethod
    def backward(ctx: BackwardCFunction, *grads: Tensor | None) -> Any:
        raise error("RL0610")


def tangents_among(facts: Facts) -> list[int]:
    """Positions of the forward's results that have a tangent, in the order of the tangents."""
    offset = len(facts.returned_inputs)
    found = [
        place
        for place, position in enumerate(facts.returned_inputs)
        if facts.inputs[position].seen_by_autograd and facts.inputs[position].requires_grad
    ]
    found += [
        offset + place
        for place, entry in enumerate(facts.outputs)
        if entry.is_tensor and entry.requires_grad and not entry.rebuilt
    ]
    first = offset + len(facts.outputs)
    return found + list(range(first, first + facts.bases))


def hidden_results(facts: Facts) -> set[int]:
    """Results that the runtime rebuilds: only their geometry is used."""
    offset = len(facts.returned_inputs)
    found = {offset + place for place, entry in enumerate(facts.outputs) if entry.rebuilt}
    for place, position in enumerate(facts.returned_inputs):
        entry = facts.inputs[position]
        if not entry.writes_data or entry.hidden or entry.quiet:
            found.add(place)
    return found


class Memory:
    """What some tensors lie in. They stay as they are while it is asked."""

    __slots__ = ("all_counters", "counters", "ids", "strided")

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.ids = {id(tensor) for tensor in tensors}
        self.all_counters = {id(tensor._counter) for tensor in tensors}
        # Those of tensors without memory of their own.
        self.counters: set[int] = set()
        self.strided: dict[int, list[Tensor]] = {}
        for tensor in tensors:
            if is_strided(tensor):
                self.strided.setdefault(id(storage_of(tensor)), []).append(tensor)
            else:
                self.counters.add(id(tensor._counter))

    def is_shared_by(self, tensor: Tensor) -> bool:
        """Whether a tensor has an element in common with one of them; what has no memory of its own
        is taken to where both count the same writes."""
        if id(tensor) in self.ids:
            return True
        if not is_strided(tensor):
            return id(tensor._counter) in self.all_counters
        if tensor._storage is None and tensor._view is None and type(tensor) is Tensor:
            # Its storage is not made yet, so it is nobody else's.
            return id(tensor._counter) in self.counters
        others = self.strided.get(id(storage_of(tensor)), ())
        if any([overlap(tensor, other) for other in others]):
            return True
        return id(tensor._counter) in self.counters


def check_memory(saved: Sequence[Any]) -> None:
    """Refuse to read memory that was given up and that nobody has asked for again."""
    for tensor in saved:
        if isinstance(tensor, Tensor) and tensor.numel() and not storage_of(tensor).nbytes_:
            raise error("RL0635", shape=tuple(tensor.shape))


def is_strided(tensor: Tensor) -> bool:
    if type(tensor) is Tensor and tensor._unusual is None:
        return True
    return not is_traceable_wrapper_subclass(tensor) and tensor.layout.name == "strided"


def is_view(value: Any, bases: set[int]) -> bool:
    """Whether a graph's result is a view of one of these, whose history it would take part in."""
    return isinstance(value, Tensor) and value._view is not None and id(value._view.base) in bases


def unlinked(value: Any) -> Any:
    """A graph's result without the record of its being a view, which is the graph's own affair."""
    return value.detach() if isinstance(value, Tensor) and value._is_view() else value


def separate(results: list[Any], places: Sequence[int], firsts: dict[int, int]) -> None:
    """Make results that the function gave as several tensors several, where the graph, in which
    equal nodes are one, gives one; those that it gave as one are the first."""
    seen: set[int] = set()
    for place in places:
        if place in firsts:
            results[place] = results[firsts[place]]
        elif id(results[place]) in seen:
            results[place] = results[place].detach()
        seen.add(id(results[place]))


def keep_apart(results: list[Any], tangents: Sequence[int], hidden: set[int]) -> None:
    """Make results without a gradient tensors of their own where the graph gives one for them and
    for a result with a gradient: what is marked as having none must not be that."""
    differentiable = {id(results[place]) for place in tangents}
    for place, value in enumerate(results):
        if id(value) in differentiable and place not in tangents and place not in hidden:
            results[place] = value.detach()


def like(tensor: Tensor) -> Likeness:
    return sizes_of(tensor), tensor._dtype, tensor.device


def tangent(grad: Tensor | None, shape: Likeness) -> Any:
    """An incoming gradient as compiled backwards take it: contiguous, zeros where undefined."""
    if grad is None:
        from rushlight.core.op import find_overload

        sizes, dtype, place = shape
        return find_overload("aten", "zeros", "default")(sizes, dtype=dtype, device=place)
    return as_tangent(grad)


# -- epilogue --------------------------------------------------------------------------------------


@dataclass
class Epilogue(Wrapper):
    """Writes inputs and rebuilds outputs that alias inputs or one another."""

    facts: Facts
    # Of leading inputs that are bases, the views of them that the function has.
    groups: list[list[Member]] = field(default_factory=list)
    sizes: Sizes | None = None

    @staticmethod
    def behind(wrappers: Sequence[Wrapper], facts: Facts, sizes: Sizes | None = None) -> Epilogue:
        """The epilogue of a graph that these wrappers lead to."""
        groups = [group for step in wrappers if isinstance(step, Bases) for group in step.groups]
        return Epilogue(facts, groups, sizes)

    def __post_init__(self) -> None:
        facts = self.facts
        self.writes = facts.returned_inputs
        chains = [*[e.chain or () for e in facts.outputs], *[e.moves for e in facts.inputs]]
        self.has_symbols = any([has_symbols(step.args) for chain in chains for step in chain])
        self.rebuilt = any(
            [e.rebuilt or e.first is not None or e.twins or e.is_quiet for e in facts.outputs]
        )
        # Outputs that are no views, though the graph may compute them as views.
        self.own = [
            place
            for place, e in enumerate(facts.outputs)
            if e.is_tensor and not (e.rebuilt or e.is_view or e.requires_grad)
        ]
        # Inputs with another geometry afterwards, of which outputs are views as they were; outputs
        # that are made before an input loses elements.
        self.from_start = {e.base or 0 for e in facts.outputs if e.from_start}
        self.early = [
            place
            for place, e in enumerate(facts.outputs)
            if e.from_start and facts.inputs[e.base or 0].loses
        ]
        # The inputs that a call's results are written to or made from.
        self.needed = sorted(
            {
                *facts.returned_inputs,
                *[
                    entry.base
                    for entry in facts.outputs
                    if entry.base is not None
                    and entry.kind in (OutputKind.IS_INPUT, OutputKind.ALIAS_OF_INPUT)
                ],
            }
        )

    def before(self, args: list[Any]) -> tuple[list[Any], Any]:
        starts = {position: geometry_of(args[position]) for position in self.from_start}
        facts = self.facts
        if self.has_symbols and self.sizes is not None:
            facts = with_numbers(facts, self.sizes.read(args))
        return args, ({position: args[position] for position in self.needed}, starts, facts)

    def written(self, kept: dict[int, Any]) -> list[Tensor]:
        """The tensors whose values the function writes."""
        found = []
        for position in self.writes:
            if not self.facts.inputs[position].writes_data:
                continue
            if position < len(self.groups):
                found += written_parts(kept[position], self.groups[position])
            else:
                found.append(kept[position])
        return found

    def after(
        self, results: list[Any], of_call: tuple[dict[int, Any], dict[int, Any], Facts]
    ) -> list[Any]:
        kept, starts, facts = of_call
        count = len(facts.outputs)
        updated, outputs = results[: len(self.writes)], results[len(self.writes) :]
        bases = outputs[count : count + facts.bases]
        outputs = outputs[:count]
        for place, known in enumerate(facts.outputs if self.from_start else ()):
            if known.from_start and outputs[place] is kept[known.base or 0]:
                # The graph gave the input itself, whose geometry is about to change.
                outputs[place] = outputs[place].detach()
        for place in self.own:
            outputs[place] = unlinked(outputs[place])
        early: dict[int, Any] = {}
        if self.writes:
            targets, written = [kept[position] for position in self.writes], self.written(kept)
            # An argument that is returned has the history that its base has afterwards.
            made = [v for v in results if not any([v is argument for argument in kept.values()])]
            with (
                untouched_stay_valid(results, targets, written),
                views_stay_valid(made, targets),
            ):
                for position, value in zip(self.writes, updated):
                    write(kept[position], value, facts.inputs[position])
                stems = {}
                for place in self.early:
                    stem, rest = begun(kept, facts.outputs[place])
                    if stem is None:
                        early[place] = rebuild_from_input(kept, {}, outputs[place], facts, place)
                    else:
                        stems[place] = stem, rest
                for position, value in zip(self.writes, updated):
                    if facts.inputs[position].loses:
                        move(kept[position], value, facts.inputs[position])
            for place, (stem, rest) in stems.items():
                is_written = facts.inputs[rest.base or 0].writes_data
                early[place] = rebuild(stem, outputs[place], rest, is_written)
        if self.rebuilt:
            outputs = rebuild_all(kept, starts, outputs, bases, facts, early)
        for value, known in zip(outputs, facts.outputs):
            if known.symbolic_dims and isinstance(value, Tensor):
                value.__dict__["_dynamo_weak_dynamic_indices"] = set(known.symbolic_dims)
        if facts.grad_mode_after is not None:
            LOCAL.state.set_grad(facts.grad_mode_after)
        return outputs


def written_parts(base: Tensor, group: Sequence[Member]) -> list[Tensor]:
    """What a function may have written of a base: the rest of it is written as it was."""
    if any([has_symbols((m.size, m.stride, m.offset)) for m in group]):
        return [base]
    return [view_of(base.detach(), member) for member in group]


@contextmanager
def untouched_stay_valid(
    results: Sequence[Any], targets: Sequence[Tensor], written: Sequence[Tensor]
) -> Iterator[None]:
    """Inside, `targets` change, and the values of those `written`. What a call saved for its
    backward and the writes leave alone is as valid afterwards as before, though it may share a
    version counter with a target."""
    counters = [target._counter for target in targets if target._counter is not None]
    before = {id(counter): counter.value for counter in counters}
    saved = saved_under(results, before)
    # A target that was saved itself stays for the backward as it is now.
    own = {id(target) for target in targets}
    kept = [tensor.detach() if id(tensor) in own else tensor for _, _, tensor, _ in saved]
    yield
    memory = Memory(written)
    for (node, place, _, version), tensor in zip(saved, kept, strict=True):
        assert tensor._counter is not None
        if version == before[id(tensor._counter)] and not memory.is_shared_by(tensor):
            slot = node.saved_slots[place]
            if isinstance(slot, SavedTensor) and slot.output_nr >= 0:
                slot.version = tensor._counter.value
            else:
                node.saved_slots[place] = new_saved(tensor)


def saved_under(
    results: Sequence[Any], counters: Container[int]
) -> list[tuple[Any, int, Tensor, int]]:
    """(node, place, tensor, version) of what the call that gave `results` saved, among tensors
    whose version counter has one of these ids."""
    nodes = {id(v._node): v._node for v in results if isinstance(v, Tensor)}
    found = []
    for node in nodes.values():
        if not isinstance(node, BackwardCFunction) or node._forward_cls is not CompiledFunction:
            continue
        for place, slot in enumerate(node.saved_slots):
            is_wrapped = isinstance(slot, SavedTensor)
            if is_wrapped and slot.unpack_hook is not None:
                continue
            tensor = slot.tensor if is_wrapped else slot
            if tensor is not None and id(tensor._counter) in counters:
                found.append((node, place, tensor, slot.version if is_wrapped else 0))
    return found


def write(target: Tensor, value: Tensor, entry: InputFacts) -> None:
    """Give the caller's tensor the value that the function left in it."""
    if entry.writes_geometry and not entry.loses:
        move(target, value, entry)
    if not entry.writes_data:
        # Only the geometry changed; no gradient passes through the graph.
        return
    if entry.unversioned:
        target.data.copy_(value)
    elif entry.hidden or (target.is_leaf and target.requires_grad):
        target.detach().copy_(value)
    elif entry.quiet:
        with plain_calls():
            target.copy_(value)
    else:
        target.copy_(value)


def move(target: Tensor, value: Tensor, entry: InputFacts) -> None:
    """Give the caller's tensor the geometry that the function gave it."""
    is_mixed = any(entry.quiet_moves) and not all(entry.quiet_moves)
    if is_mixed and target.requires_grad and not target._is_view():
        # Each op leaves another history.
        form: Any = target.detach()
        for step, quiet in zip(entry.moves, entry.quiet_moves, strict=True):
            form = step.replay(form)
            take_geometry(target, form, quiet)
    else:
        take_geometry(target, moved_form(target, value, entry), any(entry.quiet_moves))


def moved_form(target: Tensor, value: Tensor, entry: InputFacts) -> Tensor:
    """The caller's tensor with the geometry that the function gave it. The graph's value has other
    strides where it was computed anew."""
    if any([has_symbols(step.args) for step in entry.moves]):
        return value
    with changed(grad=False):
        form: Any = target.detach()
        for step in entry.moves:
            form = step.replay(form)
    return form  # type: ignore[no-any-return]


def rebuild_all(
    inputs: dict[int, Any],
    starts: dict[int, Any],
    outputs: list[Any],
    bases: Sequence[Any],
    facts: Facts,
    early: dict[int, Any],
) -> list[Any]:
    found = list(outputs)
    for place, entry in enumerate(facts.outputs):
        if entry.kind is OutputKind.IS_INPUT:
            found[place] = inputs[entry.base or 0]
        elif entry.kind is OutputKind.ALIAS_OF_INPUT:
            found[place] = (
                early[place]
                if place in early
                else rebuild_from_input(inputs, starts, outputs[place], facts, place)
            )
        elif entry.kind is OutputKind.ALIAS_OF_BASE:
            found[place] = rebuild(bases[entry.base or 0], outputs[place], entry)
    for place, entry in enumerate(facts.outputs):
        if entry.first is None and any([found[place] is found[twin] for twin in entry.twins]):
            found[place] = found[place].data
    for place, entry in enumerate(facts.outputs):
        if entry.is_quiet and not entry.rebuilt and entry.first is None:
            found[place].requires_grad_()
    for place, entry in enumerate(facts.outputs):
        if entry.kind is OutputKind.ALIAS_OF_OUTPUT:
            found[place] = rebuild(found[entry.base or 0], outputs[place], entry)
    for place, entry in enumerate(facts.outputs):
        if entry.first is not None:
            found[place] = found[entry.first]
    return found


def rebuild_from_input(
    inputs: dict[int, Any], starts: dict[int, Any], graph_output: Tensor, facts: Facts, place: int
) -> Any:
    """A view of an input as it is now, or of the form that it had at the start."""
    entry = facts.outputs[place]
    base = inputs[entry.base or 0]
    if entry.from_start and starts:
        base = base.as_strided(*starts[entry.base or 0])
    return rebuild(base, graph_output, entry, facts.inputs[entry.base or 0].writes_data)


def begun(inputs: dict[int, Any], entry: OutputFacts) -> tuple[Tensor | None, OutputFacts]:
    """Of one of several views: what it is a part of, and how it is made from that. The parts were
    taken after their argument had lost elements, or else nobody could use them; what they are
    parts of then has the history of what was left."""
    chain = entry.chain or ()
    cut = next((place for place, step in enumerate(chain) if step.number is not None), None)
    is_known = cut is not None and config.view_replay_for_aliased_outputs
    if not is_known or not entry.requires_grad or entry.is_quiet or entry.is_data:
        return None, entry
    return repeated(inputs[entry.base or 0], chain[:cut]), replace(entry, chain=chain[cut:])


def rebuild(
    base: Tensor, graph_output: Tensor, entry: OutputFacts, is_written: bool = False
) -> Any:
    """A view of `base` with the geometry that the graph's output has."""
    made = None
    if entry.is_data:
        base = base.data
    if config.view_replay_for_aliased_outputs:
        made = replayed(base, entry.chain, graph_output)
    if made is None:
        if entry.is_view and base.requires_grad and not entry.requires_grad:
            # A view of something detached.
            base = base.detach()
        # The graph's output is a view of the value that was written, which is dense.
        is_plain = base.is_contiguous() and base.storage_offset() == 0
        is_unknown = any([has_symbols(step.args) for step in entry.chain or ()])
        if is_written and (is_unknown or not is_plain):
            raise error("RL0630", shape=tuple(base.shape), strides=strides_of(base))
        quiet = entry.is_quiet or entry.is_unseen or any([s.quiet for s in entry.chain or ()])
        with changed(grad=LOCAL.state.grad and not quiet):
            made = strided_like(base, graph_output)
        if quiet and made.requires_grad and not entry.is_quiet:
            # A view with grad mode of what was made without: its history begins there.
            made = made.view(sizes_of(made))
    if made._is_view() and not entry.is_view:
        made = made.data if entry.is_data else made.detach()
    if made.requires_grad and not entry.requires_grad:
        return made.detach()
    if entry.requires_grad and not made.requires_grad:
        return made.requires_grad_(True)
    return made


def strided_like(base: Any, graph_output: Tensor) -> Any:
    """The view of `base` by the strides of a graph's output, as this reads its elements."""
    geometry = sizes_of(graph_output), strides_of(graph_output), graph_output.storage_offset()
    part = next(iter(flatten(graph_output)))
    return strided_view(base, *geometry, graph_output._dtype, part.is_conj(), part.is_neg())


def replayed(
    base: Tensor, chain: tuple[ViewStep, ...] | None, graph_output: Tensor
) -> Tensor | None:
    """The view by its own ops; None where they cannot be had or lead to other sizes."""
    made = repeated(base, chain)
    if made is None or not geometry.same_sizes(sizes_of(made), sizes_of(graph_output)):
        return None
    return made


def repeated(base: Tensor, chain: tuple[ViewStep, ...] | None) -> Tensor | None:
    """What views lead to; None where they are not known, or not possible."""
    if chain is None or any(has_symbols(step.args) for step in chain):
        return None
    made = base
    try:
        for step in chain:
            with changed(grad=LOCAL.state.grad and not step.quiet):
                made = step.replay(made)
    except RuntimeError:
        return None
    return made
