"""Compiled random programs are what they are eagerly: values, gradients, aliases, errors.

`FUZZ_AOT` says how many programs run (`make fuzz-aot`), `FUZZ_AOT_FROM` where to begin.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from tests.aot.programs import (
    OPS,
    Program,
    Uses,
    comes_from,
    execute,
    generate,
    make_arguments,
    observe,
    shrink,
    uses_of,
)

# Outputs that are resized, Functions that mark what is no input: eager execution warns of them.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@dataclass(frozen=True)
class Setting:
    """How a program is compiled."""

    least: bool
    keep: bool
    dynamic: bool
    native: bool

    @property
    def options(self) -> dict[str, Any]:
        partition = min_cut_rematerialization_partition if self.least else default_partition
        return {
            "fw_compiler": torch.compiler.compile_graph if self.native else nop,
            "partition_fn": partition,
            "keep_inference_input_mutations": self.keep,
            "dynamic": self.dynamic,
        }


SETTINGS = [Setting(*flags) for flags in product([False, True], repeat=4)]


Seen = dict[str, Any]
# ("error",), ("backward",), ("memory", 2), ("outputs", 1, "leaf"): what differs; ("again",): the
# second call from the first.
Path = tuple[Any, ...]


def differences(eager: Seen, compiled: Seen) -> list[Path]:
    """What differs, each thing for itself."""
    if "error" in eager or "error" in compiled:
        return [] if eager.get("error") == compiled.get("error") else [("error",)]
    return [
        path
        for name in eager
        for path in paths(name, eager[name], compiled[name])
        if found_at(eager, path) != found_at(compiled, path)
    ]


def paths(name: str, eager: Any, compiled: Any) -> list[Path]:
    if not isinstance(eager, list):
        return [(name,)]
    assert len(eager) == len(compiled)
    places = range(len(eager))
    if name in ("args", "outputs"):
        return [(name, place, field) for place in places for field in eager[place]]
    return [(name, place) for place in places]


def found_at(seen: Seen, path: Path) -> Any:
    found: Any = seen
    for key in path:
        found = found[key]
    return found


def compare(program: Program, setting: Setting) -> tuple[list[Path], Seen, Seen]:
    def run(*args: Any) -> list[Any]:
        return execute(torch, program, args)

    eager = observe(torch, program, run)
    function = aot_function(run, **setting.options)
    compiled = observe(torch, program, function)
    different = differences(eager, compiled)
    if "error" not in compiled and observe(torch, program, function) != compiled:
        different.append(("again",))
    return different, eager, compiled


# -- differences that are meant --------------------------------------------------------------------

STRIDED = {"as_strided", "as_strided_"}
# What a compiled function refuses without a code: the reference's own texts, and what a program
# has that they are about, ops or forms of arguments.
REFUSALS = {
    "Encountered a resize_ on a graph input": {"release"},
    "Encountered a set_ on a graph input": {"set_"},
    "Encountered duplicated inputs that are mutated": {"pair"},
    "Encountered aliased inputs that are mutated": {"pair"},
    "Metadata mutations are currently not allowed on tensor subclasses": {"pair"},
    "Mutations on non-contiguous inputs are currently not allowed on tensor subclasses": {"pair"},
    "Two outputs are views of one intermediate, and a tensor subclass is involved": {"pair"},
    "__tensor_unflatten__() gave a tensor of shape": {"pair"},
    "more than one element of the written-to tensor": {"expand", "unfold", *STRIDED},
    "cannot mutate tensors with frozen storage": {"set_"},
    "Can't detach views in-place": {"detach_"},
    "are out of bounds for storage of size 0": {"release"},
    "leaf Variable that requires grad is being used in an in-place operation": {"requires_grad_"},
}
CODES = (
    "RL0611", "RL0621", "RL0623", "RL0624", "RL0626", "RL0627", "RL0628", "RL0629", "RL0630",
    "RL0631", "RL0632", "RL0633", "RL0634", "RL0702", "RL0710", "RL0711",
    "RL0717", "RL0735", "RL0741", "RL0742", "RL0743",
    "RL0760", "RL0761", "RL0762",
)  # fmt: skip
# Views that eager execution lets nobody use once their base was written.
AMBIGUOUS = (
    "created in no_grad mode and",
    "This view is the output of a function that returns multiple views",
    "This view was created inside a custom Function",
)
# What else eager execution says in the backward, and a compiled function when it is traced.
LATE = (
    "modified by an inplace operation", "invalid gradient at index",
    "saved tensor that has been detached in-place",
)  # fmt: skip


# What may not be done to what requires a gradient.
MORE = {
    "don't support automatic differentiation": ("sin_out", "add_out"),
    "cannot resize variables that require grad": ("resize_", "grow"),
}
# Views that a compiled function returns as its graph computed them.
SPLIT_VIEWS = {"unbind", "split", "chunk", "own_view"}
# Ops that change the geometry of a tensor, or its memory, and raise its version.
MOVES = {"t_", "transpose_", "unsqueeze_", "squeeze_", "as_strided_", "resize_", "set_"}


@dataclass(frozen=True)
class Case:
    """One program as it ran both ways."""

    program: Program
    eager: Seen
    compiled: Seen

    @property
    def late_errors(self) -> str:
        """What eager execution raises in the backward."""
        return str(self.eager["backward"]) if "error" not in self.eager else ""

    @cached_property
    def uses(self) -> list[Uses]:
        """What the steps did to arguments eagerly."""
        return uses_of(torch, self.program)

    def writers(self, argument: int) -> set[str]:
        """The ops that raised an argument's version eagerly."""
        return {use.step.name for use in self.uses if argument in use.raises}

    def views_under(self, *names: str) -> set[int]:
        """Arguments that are views, over whose memory one of these ops runs."""
        forms = [argument.form for argument in self.program.arguments]
        owners = [use.operands[0] for use in self.uses if use.step.name in names]
        return {place for places in owners for place in places if forms[place].endswith("view")}

    def is_set(self, argument: int) -> bool:
        """Whether `set_` gave an argument's memory, or took it away."""
        return any(
            [
                argument in owners
                for use in self.uses
                if use.step.name == "set_"
                for owners in use.operands
            ]
        )

    def has(self, *names: str) -> bool:
        """Whether one of these ops runs."""
        return any([step.name in names for step in self.program.steps])

    def memory_of(self, output: int) -> int:
        """The first tensor over an output's memory; arguments come before outputs."""
        return int(self.eager["memory"][len(self.eager["args"]) + output])

    def is_inside(self, output: int) -> bool:
        """Whether an output has memory of its own, not an argument's."""
        return self.memory_of(output) >= len(self.eager["args"])

    def is_alone(self, output: int) -> bool:
        """Whether no other tensor that the caller has is over an output's memory, but for one of
        several views."""
        memory, count = self.eager["memory"], len(self.eager["args"])
        found = {
            same
            for place, (one, same) in enumerate(zip(memory, self.eager["same"], strict=True))
            if one == memory[count + output]
            and (place == count + output or place < count or not self.is_split(place - count))
        }
        return found == {self.eager["same"][count + output]}

    def is_copied(self, output: int) -> bool:
        """Whether an output is one of several views of a written argument, as a graph gives it.
        Writes to `data` raise no version."""
        count = len(self.eager["args"])
        place = self.eager["memory"][count + output] if output >= 0 else count
        if place >= count or not self.is_split(output):
            return False
        return bool(self.eager["written"][place]) or any(
            [
                OPS[use.step.name].writes
                and place in use.target
                and comes_from(self.program, use.step.operands[use.step.written], {"data"})
                for use in self.uses
            ]
        )

    @property
    def is_quiet(self) -> bool:
        """Whether a step runs without grad mode."""
        return any([step.quiet for step in self.program.steps])

    @property
    def moves_quietly(self) -> bool:
        """Whether geometry changes in place without grad mode."""
        return any([step.quiet and step.name in MOVES for step in self.program.steps])

    @property
    def writes(self) -> bool:
        return any([OPS[step.name].writes for step in self.program.steps])

    def is_split(self, output: int) -> bool:
        return comes_from(self.program, self.program.outputs[output], SPLIT_VIEWS)

    def is_backward(self, path: Path) -> bool:
        """Whether a backward decides it. Values after it are those from before where none of the
        program's writes."""
        return path[0] in ("backward", "grads") or (
            path[0] == "after" and self.has("write_late", "write_saved")
        )


def is_refused(case: Case, path: Path) -> bool:
    """The compiled function says that it cannot do it; eager execution may fail in another step or
    in the backward."""
    if path != ("error",) or "error" not in case.compiled:
        return False
    if case.compiled["code"] in CODES:
        return True
    forms = {argument.form for argument in case.program.arguments}
    text = case.compiled["text"]
    return any(
        [
            reason in text and (case.has(*subjects) or forms & subjects)
            for reason, subjects in REFUSALS.items()
        ]
    )


def is_early(case: Case, path: Path) -> bool:
    """Eager execution raises the like when history is asked for, or in the backward; a compiled
    function traces both at once. There `requires_grad_` of a written argument is one of its base,
    which a view as an argument has not got eagerly, and `detach_` of its base is none of it. What
    leads to no output that has a history is traced too, and is checked, and so are gradients of
    arguments that are views without a history, which go nowhere eagerly."""
    if path != ("error",) or "error" in case.eager:
        return False
    text = case.compiled["text"]
    writes_late = case.is_quiet and case.has("write_late", "write_saved")
    has_quiet_view = any([each.form == "quiet view" for each in case.program.arguments])
    if "modified by an inplace operation" in text and (writes_late or has_quiet_view):
        return True
    if "invalid gradient at index" in text and case.moves_quietly:
        return True
    if is_about_views(text) and "RuntimeError" in [look["leaf"] for look in looks(case.eager)]:
        return True
    if any([r in text for r in (*AMBIGUOUS, *LATE)]) and ": " in case.late_errors:
        return True
    return is_about_views(text) and bool(case.views_under("requires_grad_", "detach_"))


def is_a_write(case: Case, path: Path) -> bool:
    """To change the geometry of an argument, or what was set to its memory, is, compiled, to write
    to it: what was a view of it without grad mode is refused when its history is asked for."""
    if not any([use.step.name in MOVES and any(use.operands) for use in case.uses]):
        return False
    refused = is_about_views(str(case.compiled.get("backward")))
    return refused and (case.is_backward(path) or path[-1] == "leaf")


def is_ambiguous(case: Case, path: Path) -> bool:
    """Eager execution refuses a view whose base was written, and here it has its value."""
    if path == ("error",):
        return is_about_views(case.eager.get("text", ""))
    if path[-1] == "leaf":
        return bool(found_at(case.eager, path) == "RuntimeError")
    return case.is_backward(path) and is_about_views(case.late_errors)


def writes_leaf(case: Case, path: Path) -> bool:
    """A leaf that requires a gradient may be written by a compiled function."""
    return path == ("error",) and "leaf Variable that requires grad" in case.eager.get("text", "")


def requires_more(case: Case, path: Path) -> bool:
    """A traced argument is no view: with `requires_grad_` its views require a gradient, and cannot
    be `out` or resized; what is done to its base leaves it as it is. The reference says the
    same."""
    if path != ("error",) or ("error" in case.eager and "error" in case.compiled):
        return False
    said = str({**case.eager, **case.compiled}["text"])
    names = {name for text, names in MORE.items() if text in said for name in names}
    return case.has(*names) and bool(case.views_under("requires_grad_", "detach_"))


def checks_less(case: Case, path: Path) -> bool:
    """Eager execution refuses operands that overlap what is written, and what a backward needs
    where anything was done in place since; a graph has values of their own."""
    if path == ("error",):
        reason = "some elements of the input tensor and the written-to tensor"
        return reason in case.eager.get("text", "")
    return case.is_backward(path) and "modified by an inplace operation" in case.late_errors


def loses_its_base(case: Case, path: Path) -> bool:
    """Eager execution cannot make the gradient of a view whose base was given fewer elements in
    place, and fails in the backward; the reference's compiled functions make it too. Writes of a
    backward to elements that repeat likewise."""
    reasons = (
        "are out of bounds for storage of size",
        "invalid storage offset",
        "more than one element of the written-to tensor",
    )
    return (
        case.is_backward(path)
        and case.compiled["backward"] == "done"
        and any([reason in case.late_errors for reason in reasons])
    )


def uses_released_memory(case: Case, path: Path) -> bool:
    """A backward that needs memory which was given up: whoever gives it up fills it again before
    the backward. The reference crashes, eagerly and compiled."""
    reason = "whose memory the compiled forward gave up"
    return case.is_backward(path) and reason in case.compiled["backward"]


def has_fewer_versions(case: Case, path: Path) -> bool:
    """An in-place view op on a view of an argument leaves the argument as it is, and so does a
    write to memory that is given up. What `set_` gives other memory keeps its counter eagerly."""
    if path[0] != "written":
        return False
    if not case.eager["written"][path[1]]:
        return False
    if case.is_set(path[1]):
        return True
    is_gone = case.eager["args"][path[1]]["values"] == "no memory"
    return is_gone or case.writers(path[1]) <= MOVES


def has_more_versions(case: Case, path: Path) -> bool:
    """What was set to an argument's memory counts its writes for itself, and so does the `data` of
    a wrapper; a compiled function writes the argument. The reference likewise for the former."""
    if path[0] != "written" or case.eager["written"][path[1]]:
        return False
    is_wrapper = case.program.arguments[path[1]].form == "pair"
    return case.is_set(path[1]) or (is_wrapper and case.has("data"))


def has_broken_history(case: Case, path: Path) -> bool:
    """A change of sizes without grad mode leaves a history of other sizes."""
    if not case.is_backward(path):
        return False
    broken = "invalid gradient at index" in case.compiled["backward"] and case.moves_quietly
    return broken or "invalid gradient at index" in case.late_errors


def starts_gradients(case: Case, path: Path) -> bool:
    """`requires_grad_` of an argument stays inside: the caller's is as it was. What is made from it
    has no history, and a leaf that required no gradient gets none. A written argument has the
    history of what is written. Where the argument is a view, so is what was taken of it before,
    for which the argument's flag is not set."""
    if not case.has("requires_grad_"):
        return False
    if path[0] == "grads":
        return not case.program.leaves[path[1]][1]
    if path == ("backward",):
        return (case.eager["backward"], case.compiled["backward"]) == ("done", "nothing")
    if path[-1] == "leaf":
        return isinstance(found_at(case.compiled, path), bool)
    if path[0] == "views":
        # Eagerly it has a history, and is what it was made in; here it has none.
        started = bool(case.eager["outputs"][path[1]]["requires_grad"])
        return case.has("own_write") or (started and case.is_inside(path[1]))
    if path[-1] != "requires_grad":
        return False
    return bool(found_at(case.eager, path)) or (
        path[0] == "outputs" and not case.is_inside(path[1])
    )


def hides_views(case: Case, path: Path) -> bool:
    """Nobody can tell that the only view of something inside is a view, or one of several, or one
    without a history. What `set_` gives other memory is no view of that."""
    if path[0] != "views" or not case.eager["views"][path[1]]:
        return False
    if not case.is_inside(path[1]):
        return case.is_set(case.memory_of(path[1]))
    output = case.eager["outputs"][path[1]]
    return (
        case.is_alone(path[1])
        or case.is_split(path[1])
        or not output["requires_grad"]
        or output["leaf"] is True
        or case.has("detach_")
    )


def restrides(case: Case, path: Path) -> bool:
    """What was written has the strides of the op that computed it anew, and so has what is made
    from it inside. Where it is an argument, dims of one element, and those of an empty tensor, may
    have any stride."""
    if path[0] not in ("outputs", "args") or path[2] != "stride" or not case.writes:
        return False
    if path[0] == "outputs" and (case.is_inside(path[1]) or case.is_copied(path[1])):
        return True
    eager, compiled = [seen[path[0]][path[1]] for seen in (case.eager, case.compiled)]
    places = zip(eager["shape"], eager["stride"], compiled["stride"], strict=True)
    return 0 in eager["shape"] or all([size == 1 or one == other for size, one, other in places])


def copies_views(case: Case, path: Path) -> bool:
    """One of several views of a written argument, or a view by a Function, is returned as the graph
    computed it."""
    if path[0] == "memory":
        return case.is_copied(path[1] - len(case.eager["args"]))
    return path[0] == "views" and bool(case.eager["views"][path[1]]) and case.is_split(path[1])


def writes_nothing_late(case: Case, path: Path) -> bool:
    """A backward that leads to no argument does not run: its writes are not made."""
    if path[0] != "after" or not case.has("write_late", "write_saved"):
        return False
    # What `requires_grad_` starts stays inside.
    unchanged = [look["values"] for look in looks(case.compiled)]
    return case.has("requires_grad_") and case.compiled["after"] == unchanged


def is_about_views(text: str) -> bool:
    return any([reason in text for reason in AMBIGUOUS])


def looks(seen: Seen) -> list[Seen]:
    return [*seen["args"], *seen["outputs"]]


RULES = [
    is_refused, is_early, is_a_write, is_ambiguous, writes_leaf, requires_more, checks_less,
    loses_its_base, uses_released_memory, has_fewer_versions, has_more_versions, has_broken_history,
    starts_gradients, hides_views, restrides, copies_views, writes_nothing_late,
]  # fmt: skip


def unexplained(case: Case, different: list[Path]) -> list[Path]:
    """The differences that no rule covers."""
    return [path for path in different if not any([holds(case, path) for holds in RULES])]


# -- tests -----------------------------------------------------------------------------------------


def differs(program: Program, setting: Setting) -> list[Path]:
    """What differs and is not meant to."""
    different, eager, compiled = compare(program, setting)
    return unexplained(Case(program, eager, compiled), different)


def fits(program: Program) -> bool:
    """Whether the views of a smaller program's arguments can be taken."""
    try:
        make_arguments(torch, program)
    except (RuntimeError, IndexError):
        return False
    return True


def check(number: int, setting: Setting) -> None:
    program = generate(torch, number)
    if differs(program, setting):
        smaller = shrink(program, lambda candidate: fits(candidate) and differs(candidate, setting))
        pytest.fail(f"program {number}, {setting}: {differs(smaller, setting)}\n{smaller}")


def settings_for(number: int) -> list[Setting]:
    """Two of the settings; those of neighbours differ."""
    return [SETTINGS[number % len(SETTINGS)], SETTINGS[(5 * number + 3) % len(SETTINGS)]]


@pytest.mark.parametrize("part", range(8))
def test_a_sample_of_programs(part):
    for number in range(part * 40, part * 40 + 40):
        check(number, settings_for(number)[0])


@pytest.mark.slow
@pytest.mark.skipif("FUZZ_AOT" not in os.environ, reason="set FUZZ_AOT to a count of programs")
@pytest.mark.parametrize("part", range(16))
def test_many_programs(part):
    first, count = int(os.environ.get("FUZZ_AOT_FROM", "1000")), int(os.environ["FUZZ_AOT"])
    for number in range(first + part, first + count, 16):
        for setting in settings_for(number):
            check(number, setting)
