"""What hooks of compiled modules must take and give; torch's words where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from rushlight.jit.ir.schemas import Argument
from rushlight.jit.ir.types import NONE, ClassType, TupleType, Type


def check_names(owner: str, before: Sequence[Any], after: Sequence[Any]) -> None:
    """Refuses two hooks of one name."""
    known: dict[str, Any] = {}
    for word, hooks in (("Hook", after), ("Pre-hook", before)):
        for hook in hooks:
            if known.setdefault(hook.__name__, hook) != hook:
                raise RuntimeError(
                    f"{word} '{hook.__name__}' on {owner} has at least two different python "
                    "definitions. Please use unique names for all hooks."
                )


class Check:
    """One hook: its name, what it is, and how it was expected to look."""

    def __init__(self, what: str, name: str, owner: str, expected: str) -> None:
        self.subject = f"{what} '{name}' on module '{owner}'"
        self.expected = expected

    def refuse(self, reason: str, end: str = "\n") -> NoReturn:
        raise RuntimeError(f"{self.subject} {reason}{end}{self.expected}")

    def inputs(self, arguments: Sequence[Argument], count: int, given: TupleType) -> None:
        if len(arguments) != count:
            self.refuse(
                f"was expected to only have exactly {count} inputs but it had {len(arguments)} "
                "inputs.",
                end=" ",
            )
        type_ = arguments[1].type
        text = type_.annotation_str
        if not isinstance(type_, TupleType):
            self.refuse(
                f"expected the input argument to be typed as a Tuple but found type: '{text}' "
                "instead."
            )
        if not given.items and type_.items:
            self.refuse(f"was expecting Tuple[()] as the input type. Received type: '{text}'.")
        if len(type_.items) != len(given.items):
            self.refuse(
                "has the wrong number of contained types for the input argument's Tuple. Received "
                f"type: '{text}'."
            )
        if not same_types(type_, given):
            self.refuse(
                f"has the wrong inner types for the input tuple argument. Received type: '{text}'."
            )


def same_types(a: Type, b: Type) -> bool:
    return a.annotation_str == b.annotation_str


def check_hook(
    owner: ClassType, arguments: Sequence[Argument], name: str, given: TupleType, result: Type
) -> None:
    """Refuses a hook that does not take the inputs of `forward` as a tuple, and what it gave."""
    shown, output = given.annotation_str, result.annotation_str
    check = Check(
        "Hook",
        name,
        owner.name(),
        f"This error occurred while scripting the forward hook '{name}' on module {owner.name()}. "
        "If you did not want to script this hook remove it from the original NN module before "
        "scripting. This hook was expected to have the following signature: "
        f"{name}(self, input: {shown}, output: {output}). The type of the output arg is the "
        "returned type from either the forward method or the previous hook if it exists. Note that "
        "hooks can return anything, but if the hook is on a submodule the outer module is "
        "expecting the same return type as the submodule's forward.\n",
    )
    check.inputs(arguments, 3, given)
    actual = arguments[2].type
    if not same_types(actual, result):
        check.refuse(
            f"has the wrong type for the output argument. Received type: '{actual.annotation_str}'."
            f" Expected type: '{output}'."
        )


def check_pre_hook(
    owner: ClassType,
    arguments: Sequence[Argument],
    result: Type | None,
    name: str,
    given: TupleType,
) -> None:
    """Refuses a hook before `forward` that does not take its inputs, or gives something else."""
    shown = given.annotation_str
    single = given.items[0] if len(given.items) == 1 else None
    if isinstance(single, TupleType):
        single = None
    options = f"'None' or '{shown}'"
    if single is not None:
        options = f"'None', '{single.annotation_str}', or '{shown}'"
    check = Check(
        "Pre-hook",
        name,
        owner.name(),
        f"This error occurred while scripting the forward pre-hook '{name}' on module "
        f"'{owner.name()}'. If you did not want to script this pre-hook remove it from the original"
        f" NN module before scripting. Pre-hooks for module '{owner.name()}' are expected to have "
        f"the following signature: {name}(self, input: {shown}) with a return type of either "
        f"{options}.\n",
    )
    check.inputs(arguments, 2, given)
    if result is None:
        check.refuse(
            "is missing a return annotation. Return annotations are required, please add one."
        )
    if result is NONE or (single is not None and same_types(result, single)):
        return
    wrong = f"returned the wrong type of: '{result.annotation_str}'."
    if not isinstance(result, TupleType):
        check.refuse(wrong, end="")
    if len(given.items) == 1 and single is None and same_types(result, given.items[0]):
        check.refuse(
            f"{wrong} When forward has a single tuple input argument, the return needs to be 'None'"
            f" or a nested tuple containing forward's input tuple argument as in: '{shown}'."
        )
    if len(result.items) != len(given.items):
        check.refuse(f"{wrong} The returned tuple contains the wrong number of contained types.")
    if not same_types(result, given):
        check.refuse(f"{wrong} The returned tuple contains the wrong inner types.")
