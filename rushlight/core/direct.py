"""Direct stubs: for an op of one signature, a function with that signature.

Where no thread is in a special state, operands are plain tensors and the other arguments already
have the types the schema asks for, the stub runs the kernel (or a composite's body) itself and
records the node; anything else goes to the general path, which also words the errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.schema import parameter_name
from rushlight.core import dtype as dtypes
from rushlight.core import history
from rushlight.core.binding import KEYWORD_ALIASES, default_value
from rushlight.core.gradrule import compile_source
from rushlight.core.node import needs_grad, pack_result
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import PLAIN, Tensor, new_tensor, wrap

__all__ = ["direct_source", "direct_stub"]

# Python types that a value of a schema type may have to be taken as it is.
EXACT = {
    "int": "type({0}) is not int",
    "SymInt": "type({0}) is not int",
    "bool": "type({0}) is not bool",
    "float": "type({0}) is not float",
    "str": "type({0}) is not str",
    "Scalar": "(type({0}) is not int and type({0}) is not float)",
    "Tensor": "(type({0}) is not Tensor and type({0}) not in PLAIN)",
    "ScalarType": "type({0}) is not dtype_class",
}

HEAD = """
def stub({parameters}):
    recording = True
    if PROCESS.special:
        state_ = LOCAL.state
        if state_.layers:
            return slow({given})
        recording = state_.grad
{prepare}
    if {unfit}:
        return slow({given})
"""

# A list of ints may come as one int (where the schema gives a length), a tuple or a list.
INT_LIST = """
    if type({0}) is int{allowed}:
        {0} = ({0},)
    elif type({0}) is list:
        {0} = tuple({0})
"""

BODY = """
    return body({arguments})
"""

# A composite whose common case is quicker in one piece than op by op (same graph, same bits).
FUSED = """
    answer_ = fused({arguments}, recording)
    if answer_ is not None:
        return answer_
"""

KERNEL = """
    node_ = None
    if recording and ({wants}):
{node8}
    r_ = kernel(np, {arrays})
    if type(r_) is ndarray and {plain}:
        kind_ = FROM_NUMPY[r_.dtype]
        t_ = wrap(r_, kind_)
        if node_ is not None and kind_.category > 1:
            node_.output_metas = ((r_.shape, kind_, None),)
            t_._node = node_
            t_._requires_grad = True{save}
        return t_
    if type(r_) is tuple and {fresh}:
        t_ = tuple([wrap(a_, FROM_NUMPY[a_.dtype]) for a_ in r_])
    else:
        t_ = finish(record_, ({arguments},), r_, {layout!r})
    if node_ is not None:
        attach(record_, node_, t_)
    return {answer}
"""

# An op that says how to do the common case in one expression of its arrays.
QUICK = """
    if {when}:
        try:
            r_ = {quick}
        except ValueError:
            r_ = None
        if type(r_) is not ndarray:
            if r_ is None:
                return slow({given})
            r_ = np.asarray(r_)
        if r_.flags.c_contiguous:
            t_ = new_tensor()
            t_._array = r_
            t_._dtype = {first}._dtype
            t_._contig = True
            t_._requires_grad = False
            t_._node = None
            t_._output_nr = 0
            t_._counter = None
            t_._storage = None
            t_._offset = 0
            t_._view = None
            t_._ag = None
            t_._ext = None
            if recording and ({wants}):
{node16}
                node_.output_metas = ((r_.shape, {first}._dtype, None),)
                t_._node = node_
                t_._requires_grad = True
            return t_
"""

# Elementwise, contiguous, one fast dtype: the kernel's answer needs no further thought.
ELEMENTWISE = """
    if not ({uniform}):
        return slow({given})
    node_ = None
    if recording and ({wants}):
{node8}
    try:
        r_ = kernel(MATH, {arrays})
    except (ValueError, OverflowError):
        r_ = None
    if type(r_) is not ndarray or not r_.flags.c_contiguous or r_.dtype != {expected}.np:
        return slow({given})
    t_ = wrap(r_, {expected})
    if node_ is not None:
        node_.output_metas = ((r_.shape, {expected}, None),)
        t_._node = node_
        t_._requires_grad = True{save}
    return t_
"""

SAVE = """
            save_outputs(node_, (t_,))"""
SAVE_RESULT = """
            node_.saved_slots[{slot}] = pack_result(t_)"""


def is_int_list(kind: Any) -> bool:
    return kind.kind == "List" and kind.element.kind in ("int", "SymInt")


def fits_exactly(argument: Any) -> str | None:
    """The test that a value is not of the argument's own type; None if there is no such test."""
    name = parameter_name(argument.name)
    kind = argument.type
    test = EXACT.get(kind.kind)
    if is_int_list(kind):
        text = f"type({name}) is not tuple or not all([type(i) is int for i in {name}])"
        return f"({name} is not None and ({text}))" if kind.optional else f"({text})"
    if test is None:
        # Devices, layouts, generators, lists: only when left out.
        if not kind.optional:
            return None
        return f"{name} is not None"
    text = test.format(name)
    if kind.kind == "Tensor":
        text = f"({text} or {name}._ext is not None)"
    return f"({name} is not None and {text})" if kind.optional else text


def is_direct(op: Any) -> bool:
    schema = op._schema
    if schema.is_mutable or op.is_view_op or op.list_positions:
        return False
    if op.functional is not None or op.options.get("varargs") is not None:
        return False
    if not schema.returns or any(entry.type.kind != "Tensor" for entry in schema.returns):
        return False
    if not op.tensor_positions:
        return False
    if op.kind.name == "POINTWISE":
        if not is_uniform(op):
            return False
    elif op.options.get("numbers") or (
        op.body is None
        and (not op.kind.direct or op.options.get("layout", op.kind.layout) == "value")
    ):
        return False
    return all(fits_exactly(argument) is not None for argument in schema.arguments)


EXPECTED = {"bool": "bool_", "complex_to_float": "{0}._dtype.real"}


def is_uniform(op: Any) -> bool:
    """Whether an elementwise op computes in its operands' dtype when they have one in common."""
    promote = op.options.get("promote", "default")
    return (
        len(op._schema.returns) == 1
        and isinstance(promote, str)
        and promote != "long"
        and not any(op.options.get(o) for o in ("unpromoted", "promoted_scalars", "check"))
        and not any(a.type.optional for a in op._schema.arguments if a.type.kind == "Tensor")
    )


def elementwise_source(op: Any, parts: dict[str, str]) -> str:
    tensors = [parameter_name(op.argument_names[position]) for position in op.tensor_positions]
    first = tensors[0]
    tests = [f"{first}._dtype.scalar_fast", *[f"{name}._contig" for name in tensors]]
    tests += [f"{name}._dtype is {first}._dtype" for name in tensors[1:]]
    if op.options.get("dtypes") is not None:
        tests.append(f"allowed({first}._dtype)")
    promote = op.options.get("promote", "default")
    expected = EXPECTED.get(promote, "{0}._dtype").format(first)
    return ELEMENTWISE.format(uniform=" and ".join(tests), expected=expected, **parts)


def save_source(rule: Any) -> str:
    if rule is None or not rule.output_slots:
        return ""
    if [entry[1:] for entry in rule.output_slots] == [(0, "")]:
        return SAVE_RESULT.format(slot=rule.output_slots[0][0])
    return SAVE


def alias_names(op: Any) -> list[str]:
    """Other spellings of the op's arguments that calls may use as keywords."""
    names = set(op.argument_names)
    return [a for a, target in KEYWORD_ALIASES.items() if target in names and a not in names]


def node_source(rule: Any, indent: int, known: frozenset[str]) -> str:
    """Lines that make the node, under a name that no argument has."""
    if rule is None:
        return " " * indent + "pass"
    return re.sub(r"\bnode\b", "node_", rule.inline_source(" " * indent, known))


def without(parts: dict[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in parts.items() if name not in names}


def direct_source(op: Any, answer: str = "t_") -> str:
    arguments = op._schema.arguments
    names = [parameter_name(a.name) for a in arguments]
    positional = [a for a in arguments if not a.kwarg_only]
    parameters = [
        f"{parameter_name(a.name)}={f'default_{i}' if a.has_default else 'MISSING'}"
        for i, a in enumerate(arguments)
        if not a.kwarg_only
    ]
    keyword_only = [
        f"{parameter_name(a.name)}=default_{i}" if a.has_default else parameter_name(a.name)
        for i, a in enumerate(arguments)
        if a.kwarg_only
    ]
    aliases = alias_names(op)
    spelled = [f"{alias}=MISSING" for alias in aliases]
    signature = ", ".join([*parameters, "*", *keyword_only, "out=None", *spelled])
    given = (
        f"({', '.join(parameter_name(a.name) for a in positional)},), "
        f"({', '.join(parameter_name(a.name) for a in arguments if a.kwarg_only)}"
        f"{',' if keyword_only else ''}), out, ({', '.join(aliases)}{',' if aliases else ''})"
    )
    # The alias of an argument without a default goes with that argument missing, which is seen.
    optional = {a.name for a in arguments if a.has_default}
    unfit = [
        "out is not None",
        *[f"{alias} is not MISSING" for alias in aliases if KEYWORD_ALIASES[alias] in optional],
        *[str(fits_exactly(a)) for a in arguments],
    ]
    prepare = [
        INT_LIST.format(
            parameter_name(a.name), allowed="" if a.type.size is not None else " and False"
        )
        for a in arguments
        if is_int_list(a.type)
    ]
    head = HEAD.format(
        parameters=signature,
        given=given,
        prepare="".join(prepare),
        unfit=" or ".join(unfit),
    )
    if op.body is not None:
        fused = FUSED if op.options.get("fused") is not None else ""
        return head + (fused + BODY).format(arguments=", ".join(names))
    rule = op.grad_rule
    wants = "False"
    if rule is not None:
        tests = []
        for owner in rule.inputs:
            name = parameter_name(owner)
            argument = arguments[op.argument_names.index(owner)]
            test = f"{name}._requires_grad or ({name}._view is not None and needs_grad({name}))"
            if argument.type.optional:
                test = f"({name} is not None and ({test}))"
            tests.append(test)
        wants = " or ".join(tests)
    arrays = []
    for argument, name in zip(arguments, names, strict=True):
        if argument.type.kind != "Tensor":
            arrays.append(name)
        elif argument.type.optional:
            arrays.append(f"(None if {name} is None else {name}._array)")
        else:
            arrays.append(f"{name}._array")
    known = frozenset(
        parameter_name(a.name) for a in arguments if a.type.kind == "Tensor" and not a.type.optional
    )
    parts = {
        "node8": node_source(rule, 8, known),
        "node16": node_source(rule, 16, known),
        "wants": wants,
        "arguments": ", ".join(names),
        "arrays": ", ".join(arrays),
        "save": save_source(rule),
    }
    if op.kind.name == "POINTWISE":
        return head + elementwise_source(op, without(parts, "node16") | {"given": given})
    when = op.options.get("quick_when")
    if when is not None:
        first = parameter_name(op.argument_names[op.tensor_positions[0]])
        quick = QUICK.format(
            when=when,
            quick=op.options["quick"],
            given=given,
            first=first,
            **without(parts, "save", "arrays", "node8"),
        )
        head += quick
    layout = op.options.get("layout", op.kind.layout)
    # Strides of size-1 dims are a free choice to NumPy; the general path sets them right.
    plain = "r_.flags.c_contiguous and r_.size and 1 not in r_.shape"
    if layout == "like":
        plain += f" and {parameter_name(op.argument_names[op.tensor_positions[0]])}._contig"
    elif layout != "contiguous":
        plain = "False"
    fresh = "False"
    if len(op._schema.returns) > 1 and layout == "contiguous":
        fresh = "all([type(a_) is ndarray and a_.ndim == 0 for a_ in r_])"
    return head + KERNEL.format(
        layout=layout, plain=plain, fresh=fresh, answer=answer, **without(parts, "node16")
    )


def direct_stub(
    packet: Any,
    op: Any,
    name: str,
    missing: Any,
    packet_call: Callable[..., Any],
    result_class: Any = None,
    alone: bool = True,
) -> Any:
    """Compile the stub of one signature; None when the op is not of that sort.

    `alone` says that the packet has no other signature that could be meant.
    """
    from rushlight.arrays.numpy_ import MATH

    if (alone and len(packet.candidates) != 1) or not is_direct(op):
        return None
    if op.body is not None and result_class is not None:
        return None
    source = direct_source(op, "t_" if result_class is None else "result_class(t_)")
    rule = None if op.body is not None else op.grad_rule
    scope: dict[str, Any] = {
        **({} if rule is None else rule.scope),
        "__name__": "rushlight.core.direct",
        "MISSING": missing,
        "PROCESS": PROCESS,
        "LOCAL": LOCAL,
        "PLAIN": PLAIN,
        "Tensor": Tensor,
        "ndarray": np.ndarray,
        "np": np,
        "new_tensor": new_tensor,
        "MATH": MATH,
        "bool_": dtypes.bool_,
        "dtype_class": dtypes.dtype,
        "allowed": op.options.get("dtypes"),
        "result_class": result_class,
        "FROM_NUMPY": dtypes.FROM_NUMPY,
        "wrap": wrap,
        "needs_grad": needs_grad,
        "pack_result": pack_result,
        "attach": history.attach,
        "record_": op,
        "body": op.body,
        "fused": op.options.get("fused"),
        "kernel": None if op.body is not None else op.rule("kernel"),
        "finish": op.kind.finish,
        "save_outputs": None if rule is None else rule.save_outputs,
    }
    scope.update(op.options.get("quick_scope", {}))
    arguments = op._schema.arguments
    for position, argument in enumerate(arguments):
        if argument.has_default:
            scope[f"default_{position}"] = default_value(argument)
    compile_source(source, f"stub of {name}", scope)
    stub = scope["stub"]
    positional = [
        default_value(a) if a.has_default else missing for a in arguments if not a.kwarg_only
    ]
    keyword_only = [
        (a.name, default_value(a) if a.has_default else missing) for a in arguments if a.kwarg_only
    ]

    aliases = alias_names(op)
    position_names = [a.name for a in arguments if not a.kwarg_only]

    def slow(values: Any, rest: Any, out: Any, others: tuple[Any, ...]) -> Any:
        """The call as it was made: what equals a default at the end was not given."""
        keywords = {
            alias: value
            for alias, value in zip(aliases, others, strict=True)
            if value is not missing
        }
        count = len(values)
        while count and values[count - 1] is positional[count - 1]:
            count -= 1
        given = next((i for i in range(count) if values[i] is missing), count)
        # What follows a missing argument was given by keyword.
        for position in range(given, count):
            value = values[position]
            if value is not missing and value is not positional[position]:
                keywords[position_names[position]] = value
        args = values[:given]
        for (key, default), value in zip(keyword_only, rest, strict=True):
            if value is not default:
                keywords = {**keywords, key: value}
        if out is not None:
            keywords = {**keywords, "out": out}
        result = packet_call(packet, stub, args, keywords)
        if result_class is not None and type(result) is tuple:
            return result_class(result)
        return result

    scope["slow"] = slow
    stub.__name__ = name
    stub.__qualname__ = name
    return stub
