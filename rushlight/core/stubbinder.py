"""The text of binders of exact arguments, which stubs use inside transforms."""

from __future__ import annotations

from rushlight.base.schema import parameter_name
from rushlight.core.source import fill, join
from rushlight.core.stubwriter import Writer, any_of, as_int_tuple, inexact_test, is_int_list

__all__ = ["write_binder"]

QUIETLY = "(type({0}) not in QUIET and type({0}) not in PLAIN{number})"
NUMBER = " and type({0}) is not float and type({0}) is not int"
SPREAD_LIST = (
    "{0}_ = tuple(rest_[0]) if len(rest_) == 1 and isinstance(rest_[0], (tuple, list)) else rest_"
)
BINDER = """
def bind({parameters}):
    {lines}
    {guard}
    return ({values})
"""


def write_binder(w: Writer) -> str:
    """The text of a binder for a stub's own parameters, tensors of levels among them: the bound
    arguments where they are of exactly the types that the overload names, else None."""
    lines: list[str] = []
    tests: list[str] = []
    values: list[str] = []
    for position, argument in enumerate(w.op._schema.arguments):
        name, kind = parameter_name(argument.name), argument.type
        if argument not in w.own and argument.name != w.spread:
            values.append(w.default_text(position, argument))
            continue
        if argument.name == w.spread:
            tests.append("not rest_")
            lines.append(SPREAD_LIST.format(name))
        elif is_int_list(kind):
            lines.append(as_int_tuple(name, kind.size))
        values.append(f"{name}_" if is_int_list(kind) else name)
        if argument.type.kind == "List" and not is_int_list(kind):
            # Lists of tensors are bound the general way.
            tests.append("True")
            continue
        test = str(inexact_test(argument))
        if kind.kind == "Tensor":
            takes_number = position == 1 and w.op.options.get("numbers")
            test = QUIETLY.format(name, number=NUMBER.format(name) if takes_number else "")
            test = f"({name} is not None and {test})" if kind.optional else test
        tests.append(test)
    given = [parameter_name(a.name) for a in w.own]
    parameters = ", ".join([*given, "*rest_"] if w.spread else given)
    guard = any_of("if ", tests, ["return None"])
    bound = "".join(f"{value}, " for value in values).rstrip()
    return join(fill(BINDER, parameters=parameters, lines=lines, guard=guard, values=bound))
