"""Compiled random programs are what they are eagerly: values, gradients, aliases, errors.

`FUZZ_AOT` says how many programs run (`make fuzz-aot`), `FUZZ_AOT_FROM` where to begin.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from tests.aot.programs import Program, comes_from, execute, generate, observe, shrink

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


# The code generator takes graphs of fixed sizes.
SETTINGS = [
    Setting(*flags) for flags in product([False, True], repeat=4) if not (flags[2] and flags[3])
]


Seen = dict[str, Any]


def differences(eager: Seen, compiled: Seen) -> list[str]:
    """The names of what differs."""
    if "error" in eager or "error" in compiled:
        return [] if eager.get("error") == compiled.get("error") else ["error"]
    return [name for name in eager if eager[name] != compiled[name]]


def compare(program: Program, setting: Setting) -> tuple[list[str], Seen, Seen]:
    def run(*args: Any) -> list[Any]:
        return execute(torch, program, args)

    eager = observe(torch, program, run)
    compiled = observe(torch, program, aot_function(run, **setting.options))
    return differences(eager, compiled), eager, compiled


# -- differences that are meant --------------------------------------------------------------------

# What a compiled function refuses; texts without a code are the reference's own.
REFUSALS = (
    "Encountered a resize_ on a graph input",
    "Encountered a set_ on a graph input",
    "Encountered duplicated inputs that are mutated",
    "Encountered aliased inputs that are mutated",
    "Metadata mutations are currently not allowed on tensor subclasses",
    "Mutations on non-contiguous inputs are currently not allowed on tensor subclasses",
    "Two outputs are views of one intermediate, and a tensor subclass is involved",
    "more than one element of the written-to tensor refers to a single memory location",
    "cannot mutate tensors with frozen storage",
    "__tensor_unflatten__() gave a tensor of shape",
    "Can't detach views in-place",
    "are out of bounds for storage of size 0",
    "view size is not compatible with input tensor's size and stride",
    "leaf Variable that requires grad is being used in an in-place operation",
)
CODES = (
    "RL0611", "RL0621", "RL0623", "RL0624", "RL0626", "RL0627", "RL0628", "RL0629", "RL0630",
    "RL0702", "RL0711",
    "RL0735", "RL0741", "RL0742", "RL0743", "RL0744",
)  # fmt: skip
# Views that eager execution lets nobody use once their base was written.
AMBIGUOUS = (
    "created in no_grad mode and",
    "This view is the output of a function that returns multiple views",
    "This view was created inside a custom Function",
)


# Views that a compiled function returns as its graph computed them.
SPLIT_VIEWS = {"unbind", "split", "chunk", "own_view"}


def is_refused(program: Program, eager: Seen, compiled: Seen) -> bool:
    """The compiled function says that it cannot do it."""
    if "error" in eager or "error" not in compiled:
        return False
    return compiled.get("code") in CODES or any([r in compiled["text"] for r in REFUSALS])


def is_early(program: Program, eager: Seen, compiled: Seen) -> bool:
    """Eager execution raises when history is asked for, or in the backward; a compiled function
    traces both at once."""
    if "error" in eager or compiled.get("error") != "RuntimeError":
        return False
    late = [look["leaf"] for look in looks(eager)]
    return (
        "RuntimeError" in late
        or eager["backward"].startswith("RuntimeError")
        or any([reason in compiled["text"] for reason in AMBIGUOUS])
    )


def is_ambiguous(program: Program, eager: Seen, compiled: Seen) -> bool:
    """Eager execution refuses a view whose base was written, and here it has its value; or the
    other way, where arguments are written after an output was made from them."""
    if "error" not in eager and "RuntimeError" in [look["leaf"] for look in looks(eager)]:
        return True
    texts = [eager.get("text", ""), eager.get("backward", ""), compiled.get("backward", "")]
    return any([reason in text for text in texts for reason in AMBIGUOUS])


def writes_leaf(program: Program, eager: Seen, compiled: Seen) -> bool:
    """A leaf that requires a gradient may be written by a compiled function."""
    return "leaf Variable that requires grad" in eager.get("text", "")


def has_fewer_versions(program: Program, eager: Seen, compiled: Seen) -> bool:
    """An in-place view op on a view of an argument leaves the argument as it is."""
    if any([step.name == "set_" for step in program.steps]):
        # It leaves a tensor its own counter.
        return True
    return all([e or not c for e, c in zip(eager["written"], compiled["written"], strict=True)])


def loses_set(program: Program, eager: Seen, compiled: Seen) -> bool:
    """`set_` has no gradient, and eager execution says so in the backward."""
    return "derivative for set_" in eager["backward"]


def has_broken_history(program: Program, eager: Seen, compiled: Seen) -> bool:
    """A change of sizes without grad mode leaves a history of other sizes."""
    texts = [eager.get("backward", ""), compiled.get("text", ""), compiled.get("backward", "")]
    return any(["invalid gradient at index" in text for text in texts])


def checks_less(program: Program, eager: Seen, compiled: Seen) -> bool:
    """Eager execution refuses operands that overlap what is written, and what a backward needs
    where anything was done in place since; a graph has values of their own."""
    return "some elements of the input tensor and the written-to tensor" in eager.get(
        "text", ""
    ) or "modified by an inplace operation" in eager.get("backward", "") + compiled.get(
        "backward", ""
    )


def starts_gradients(program: Program, eager: Seen, compiled: Seen) -> bool:
    """`requires_grad_` stays inside: an argument is as it was, and where no argument required a
    gradient, the function is compiled without."""
    if all([step.name != "requires_grad_" for step in program.steps]):
        return False
    values = [
        [(look["values"], look["shape"]) for look in looks(seen)] for seen in (eager, compiled)
    ]
    return values[0] == values[1]


def hides_views(program: Program, eager: Seen, compiled: Seen) -> bool:
    """Nobody can tell that the only view of something inside is a view."""
    count = len(eager["args"])
    return all(
        [
            e == c or place not in range(count)
            for e, c, place in zip(
                eager["views"], compiled["views"], eager["memory"][count:], strict=True
            )
        ]
    )


def restrides(program: Program, eager: Seen, compiled: Seen) -> bool:
    """What was made inside and written has the strides of the op that computed it anew."""
    count = len(eager["args"])
    different = [
        {name for name in e if e[name] != c[name]} for e, c in pairs(eager, compiled, "outputs")
    ]
    inside = [
        place >= count or comes_from(program, ref, SPLIT_VIEWS)
        for place, ref in zip(eager["memory"][count:], program.outputs, strict=True)
    ]
    return all([not d or (d == {"stride"} and i) for d, i in zip(different, inside, strict=True)])


def copies_views(program: Program, eager: Seen, compiled: Seen) -> bool:
    """One of several views of a written argument, or a view by a Function, is returned as the graph
    computed it."""
    count = len(eager["args"])
    return all(
        [
            e == c or comes_from(program, ref, SPLIT_VIEWS)
            for e, c, ref in zip(
                eager["memory"][count:], compiled["memory"][count:], program.outputs, strict=True
            )
        ]
    )


def writes_nothing_late(program: Program, eager: Seen, compiled: Seen) -> bool:
    """A backward that leads to no argument does not run: its writes are not made."""
    cuts = any([step.quiet or step.name in ("detach", "data") for step in program.steps])
    return cuts and compiled["after"] == [look["values"] for look in looks(compiled)]


def shares_data(program: Program, eager: Seen, compiled: Seen) -> bool:
    """The `data` of something made inside is the tensor itself, and equal views are one."""
    return any([comes_from(program, ref, {"data", *SPLIT_VIEWS}) for ref in program.outputs])


def cuts_history(program: Program, eager: Seen, compiled: Seen) -> bool:
    """A view of symbolic sizes of a view taken without grad mode has no history at all."""
    different = [
        {name for name in e if e[name] != c[name]} for e, c in pairs(eager, compiled, "outputs")
    ]
    quiet = any([step.quiet for step in program.steps])
    return quiet and all([names <= {"leaf"} for names in different])


def looks(seen: Seen) -> list[Seen]:
    return [*seen["args"], *seen["outputs"]]


def pairs(eager: Seen, compiled: Seen, name: str) -> Any:
    return zip(eager[name], compiled[name], strict=True)


@dataclass(frozen=True)
class Rule:
    """A difference that is meant: where it is looked for, and what it is."""

    names: frozenset[str]
    holds: Any


def rule(names: str, holds: Any) -> Rule:
    return Rule(frozenset(names.split()), holds)


EVERYTHING = "error args outputs written same memory views backward grads after"
RULES = [
    rule("error", is_refused),
    rule("error", is_early),
    rule(EVERYTHING, is_ambiguous),
    rule("error", writes_leaf),
    rule("error backward grads after", checks_less),
    rule("written", has_fewer_versions),
    rule("written backward grads", loses_set),
    rule("error args outputs backward grads after", has_broken_history),
    rule("args outputs same memory views backward grads after", starts_gradients),
    rule("views", hides_views),
    rule("outputs", restrides),
    rule("memory views", copies_views),
    rule("after", writes_nothing_late),
    rule("same", shares_data),
    rule("outputs", cuts_history),
]


def unexplained(program: Program, different: list[str], eager: Seen, compiled: Seen) -> list[str]:
    """The differences that no rule covers."""
    failed = "error" in eager or "error" in compiled
    for entry in RULES:
        if failed and "error" not in entry.names:
            continue
        if set(different) & entry.names and entry.holds(program, eager, compiled):
            different = [name for name in different if name not in entry.names]
    return different


# -- tests -----------------------------------------------------------------------------------------


def differs(program: Program, setting: Setting) -> list[str]:
    """What differs and is not meant to."""
    return unexplained(program, *compare(program, setting))


def check(number: int, setting: Setting) -> None:
    program = generate(torch, number)
    if differs(program, setting):
        smaller = shrink(program, lambda candidate: bool(differs(candidate, setting)))
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
