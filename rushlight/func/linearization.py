"""`linearize`: a function's derivative at a point, recorded once and run many times.

The function runs at a level of forward mode. Its values are computed below a `TapeLevel`, its
tangents at it, so that the tape holds the linear part alone and knows what the function computed as
constants. Constants are tensors of the levels below: what is around `linearize` follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rushlight.autograd.levels import JvpLevel
from rushlight.base import pytree
from rushlight.core import dispatch
from rushlight.core.functional import FunctionalLevel, to_functional
from rushlight.core.levels import Level, alive
from rushlight.core.op import OpOverload
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["linearize"]


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(outputs, the linear function that best approximates `func` at `primals`).

    `func` runs once. The function that is returned repeats what its derivative computed: it takes
    tangents shaped as `primals` and runs none of `func` again.

    >>> import rushlight as torch
    >>> value, push = torch.func.linearize(lambda x: x.sin() * 3, torch.tensor(0.0))
    >>> push(torch.tensor(1.0)), push(torch.tensor(2.0))
    (tensor(3.), tensor(6.))
    """
    leaves, structure = pytree.tree_flatten(primals)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
    leaves = [alive(leaf) for leaf in leaves]
    zeros = [functions.zeros_like(leaf) for leaf in leaves]
    with TapeLevel() as tape:
        inputs = [tape.place_input(zero) for zero in zeros]
        with LinearizedLevel(tape) as level:
            duals = [level.dual(leaf, t) for leaf, t in zip(leaves, inputs, strict=True)]
            result = func(*pytree.tree_unflatten(duals, structure))
            outputs, out_structure = pytree.tree_flatten(result)
            tangents = [level.tangent(output) for output in outputs]
    values = [level.lower(output) for output in outputs]
    tangents = [
        functions.zeros_like(value) if tangent is None and isinstance(value, Tensor) else tangent
        for value, tangent in zip(values, tangents, strict=True)
    ]
    program = Program(tape, tangents)
    facts = [(leaf.shape, leaf.device, leaf.dtype) for leaf in leaves]

    def push(*tangents: Any) -> Any:
        given, found = pytree.tree_flatten(tangents)
        if found != structure:
            raise RuntimeError(
                f"Expected the tangents {found} to have the same argspec as the primals {structure}"
            )
        for place, (tangent, wanted) in enumerate(zip(given, facts, strict=True)):
            for name, expected in zip(("shape", "device", "dtype"), wanted, strict=True):
                actual = getattr(tangent, name)
                if actual != expected:
                    raise RuntimeError(
                        f"tangent:{place} with {name} {actual} in flattened pytree doesn't match "
                        f"the {name} {expected} of the corresponding primal."
                    )
        return pytree.tree_unflatten(program.run(given), out_structure)

    return pytree.tree_unflatten(values, out_structure), push


class LinearizedLevel(JvpLevel):
    """Forward mode whose values are computed below the tape that its tangents are recorded on."""

    def __init__(self, tape: TapeLevel) -> None:
        super().__init__()
        self.tape = tape

    @contextmanager
    def below_tape(self) -> Iterator[None]:
        """Where values are computed. While a custom Function pushes, all that it does is linear."""
        under = self.under
        if self.is_pushing:
            self.under = self.tape.under
        try:
            yield
        finally:
            self.under = under

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.body is not None or self.lifted(op, args) is not None:
            return super().process(op, args)
        with self.below_tape():
            return super().process(op, args)

    def backend(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        with self.below_tape():
            return super().backend(op, args)

    def apply_function(
        self, cls: Any, args: tuple[Any, ...], kwargs: Any, direct: Any, has_rule: bool
    ) -> Any:
        if any([self.is_own(value) for value in args]):
            return super().apply_function(cls, args, kwargs, direct, has_rule)
        with self.below_tape():
            return super().apply_function(cls, args, kwargs, direct, has_rule)

    def forward(self, cls: Any, args: tuple[Any, ...], grad: bool, forward_enabled: bool) -> Any:
        with self.below_tape():
            return super().forward(cls, args, grad, forward_enabled)


class Memory:
    """What a tensor and its views have in common: whether it depends on the tangents, and whether
    ops write to it."""

    __slots__ = ("is_linear", "is_written")

    def __init__(self, is_linear: bool) -> None:
        self.is_linear = is_linear
        self.is_written = False


class Slot:
    """The place of a recorded tensor, with its value while recording."""

    __slots__ = ("memory", "value")

    value: Any

    def __init__(self, value: Tensor, memory: Memory) -> None:
        self.value = value
        self.memory = memory


class Call(NamedTuple):
    """An op with slots for tensors, and whether the function turned gradients off for it."""

    op: OpOverload
    args: tuple[Any, ...]
    results: list[Slot]
    is_quiet: bool


class TapeLevel(Level):
    """Records every op that runs at it."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Slot] = []
        self.calls: list[Call] = []
        self.grad = LOCAL.state.grad
        self.slots: dict[int, Slot] = {}
        self.tensors: dict[Slot, Any] = {}

    def place_input(self, value: Tensor) -> Any:
        made = self.placed(value, Memory(True))
        self.inputs.append(self.slot_of(made))
        return made

    def placed(self, value: Tensor, memory: Memory) -> Any:
        """A tensor of this level with a slot, kept alive so that its id stays its own."""
        made = self.lift(value)
        slot = self.slots[id(made)] = Slot(value, memory)
        self.tensors[slot] = made
        return made

    def slot_of(self, tensor: Any) -> Any:
        return self.slots.get(id(tensor), tensor)

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.body is not None:
            return dispatch.run_body(op, args)
        known = pytree.tree_map(lambda value: self.slot_of(alive(value)), list(args))
        operands = [value for value in pytree.tree_leaves(known) if isinstance(value, Slot)]
        written = {
            id(value): value
            for position in op.mutated_positions
            for value in pytree.tree_leaves(known[position])
            if isinstance(value, Slot)
        }
        values = pytree.tree_map(lambda v: v.value if isinstance(v, Slot) else v, known)
        result = self.run(dispatch.call, op, tuple(values))
        is_linear = any(slot.memory.is_linear for slot in operands)
        for slot in written.values():
            slot.memory.is_written = True
            slot.memory.is_linear |= is_linear
        memory = operands[0].memory if op.is_view_op and operands else None
        own = {id(slot.value): slot for slot in operands}
        made: list[Slot] = []

        def lifted(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if id(value) in own:
                made.append(own[id(value)])
                return self.tensors[own[id(value)]]
            tensor = self.placed(value, memory or Memory(is_linear))
            made.append(self.slot_of(tensor))
            return tensor

        answer = pytree.tree_map(lifted, result)
        is_quiet = self.grad and not LOCAL.state.grad
        self.calls.append(Call(op, tuple(known), made, is_quiet))
        return answer

    def apply_function(
        self, cls: Any, args: Any, kwargs: Any, direct: Callable[[], Any], has_rule: bool
    ) -> Any:
        """A custom Function of tangents: what its forward does is recorded."""
        return direct()


class Program:
    """The calls of a tape that outputs depend on; what no input reaches is a constant."""

    def __init__(self, tape: TapeLevel, outputs: list[Any]) -> None:
        self.inputs = tape.inputs
        self.outputs = [tape.slot_of(output) for output in outputs]
        changing = [call for call in tape.calls if is_changing(call)]
        needed = {id(slot.memory) for slot in self.outputs if isinstance(slot, Slot)}
        kept = []
        for call in reversed(changing):
            reached = [s for s in pytree.tree_leaves(list(call.args)) if isinstance(s, Slot)]
            touched = [*call.results, *reached] if call.op.mutated_positions else call.results
            if any(id(slot.memory) in needed for slot in touched):
                needed.update(id(slot.memory) for slot in reached)
                kept.append(call)
        self.calls = [(call, slot_places(call.args)) for call in reversed(kept)]
        for slot in (*self.inputs, *[slot for call in kept for slot in call.results]):
            # Computed anew in every run.
            slot.value = None
        self.has_writes = any(call.op.mutated_positions for call in kept)

    def run(self, tangents: list[Any]) -> list[Any]:
        if not self.has_writes:
            return self.run_calls(tangents)
        # Writes become values: tangents stay as they are, and a batch may be written to zeros.
        level = FunctionalLevel()
        values = [to_functional(tangent, level) for tangent in tangents]
        with level:
            outputs = self.run_calls(values)
        return [level.value_of(output) for output in outputs]

    def run_calls(self, tangents: list[Any]) -> list[Any]:
        found: dict[int, Any] = {
            id(slot): tangent for slot, tangent in zip(self.inputs, tangents, strict=True)
        }

        def value_of(value: Any) -> Any:
            return found.get(id(value), value.value) if isinstance(value, Slot) else value

        for call, places in self.calls:
            if places is None:
                values = pytree.tree_map(value_of, list(call.args))
            else:
                values = list(call.args)
                for place in places:
                    values[place] = value_of(values[place])
            if call.is_quiet:
                with changed(grad=False):
                    result = dispatch.call(call.op, tuple(values))
            else:
                result = dispatch.call(call.op, tuple(values))
            leaves = (result,) if isinstance(result, Tensor) else pytree.tree_leaves(result)
            results = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            for slot, value in zip(call.results, results, strict=True):
                found[id(slot)] = value
        return [value_of(output) for output in self.outputs]


def slot_places(args: tuple[Any, ...]) -> list[int] | None:
    """Where arguments are slots; None where lists of them are among the arguments."""
    leaves = pytree.tree_leaves(list(args))
    places = [place for place, value in enumerate(args) if isinstance(value, Slot)]
    return places if len(places) == sum(isinstance(leaf, Slot) for leaf in leaves) else None


def is_changing(call: Call) -> bool:
    """Whether a call's results differ from run to run: a constant that is written to does too."""
    slots = [s for s in pytree.tree_leaves(list(call.args)) if isinstance(s, Slot)]
    return any(slot.memory.is_linear or slot.memory.is_written for slot in (*slots, *call.results))
