"""Stubs: the public functions and Tensor methods, generated from op records on first use.

A stub does the plain case itself (`core.stubwriter` has the text); anything else goes to `slow`,
the general path of `dispatch.packet_call`. An op without a plain case has a general stub. Each
public function and each method is a function object of its own, because `__torch_function__` tells
them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.base.naming import module_name
from rushlight.base.schema import parameter_name
from rushlight.core.binding import KEYWORD_ALIASES
from rushlight.core.dispatch import QUIET, call, packet_call
from rushlight.core.op import OWN_STUB, is_replaced
from rushlight.core.return_types import class_for, named_result
from rushlight.core.signature import SchemaSignature
from rushlight.core.source import compile_source, source_of
from rushlight.core.state import LAYER_TRANSFORMS, LOCAL, PROCESS
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.stubwriter import Writer

__all__ = [
    "generalize", "make_stub", "overload_function", "packet_stub", "specialize",
    "stub_source",
]  # fmt: skip


def compile_stub(w: Writer, label: str) -> Any:
    clash = set(w.scope) & {parameter_name(argument.name) for argument in w.own}
    assert not clash, f"{label}: {clash} are arguments and names of the stub's own"
    return compile_source(w.text(), f"stub of {label}", w.scope)["stub"]


def level_binder(writer: Writer) -> Any:
    """What binds the arguments of calls inside transforms; None for the general path to do it."""
    from rushlight.core.stubbinder import write_binder

    scope = {**writer.scope, "QUIET": QUIET}
    name = f"exact binder of {writer.op.name()}"
    return compile_source(write_binder(writer), name, scope)["bind"]


def slow_path(w: Writer, packet: Any, api: Any, answer: Any, is_operator: bool) -> Any:
    """`slow` of a stub: the call as it was made, by the general path."""
    function, missing = w.scope["stub"], w.scope["MISSING"]
    names = [a.name for a in w.own if not a.kwarg_only]
    # The very objects: what is one of them was not given.
    defaults = function.__defaults__
    named = function.__kwdefaults__ or {}

    op, is_spread, bind = w.op, bool(w.spread), None

    def slow(values: Any, given: Any, rest: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        nonlocal bind
        if not keywords and PROCESS.special:
            state = LOCAL.state
            transforms = () if state.excluded & LAYER_TRANSFORMS else state.transforms
            # No overrides between the call and its op, and arguments as it takes them.
            if (
                (transforms or state.proxy is not None)
                and not state.function_modes
                and state.tracer is None
                and (is_spread or not rest)
            ):
                if bind is None:
                    bind = level_binder(w)
                bound = bind(*values, *given, *rest)
                if bound is not None:
                    result = transforms[-1].process(op, bound) if transforms else call(op, bound)
                    return result if answer is None else answer(result)
        entries = zip(named, given, strict=True)
        keywords |= {name: value for name, value in entries if value is not named[name]}
        count = len(values)
        if rest:
            values = (*values, *rest)
        else:
            # What follows a missing argument was given by keyword.
            while count and values[count - 1] is defaults[count - 1]:
                count -= 1
            start = next((at for at in range(count) if values[at] is missing), count)
            if not KEYWORD_ALIASES.keys().isdisjoint(keywords):
                # A default may stand for an argument that is given under another name.
                kept = [at for at in range(start) if values[at] is defaults[at]]
                start = kept[0] if kept else start
            for at in range(start, count):
                if values[at] is not defaults[at]:
                    keywords[names[at]] = values[at]
            values = values[:start]
        return general(values, keywords)

    def general(args: Any, keywords: dict[str, Any]) -> Any:
        try:
            result = packet_call(packet, api, args, keywords)
        except TypeError as raised:
            is_declined = hasattr(raised, "is_declined")
            if is_operator and (is_declined or is_foreign(packet, args[1:])):
                return foreign_answer(packet, api, *args[:2])
            raise
        return result if answer is None else answer(result, keywords.get("out"))

    return slow


def is_foreign(packet: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operator's other argument is of a type whose own operator may know what to do."""
    numbers = any(
        [op.kind.name == "POINTWISE" or op.options.get("numbers") for op in packet.candidates]
    )
    known = (Tensor, int, float, complex, bool, np.generic) if numbers else (Tensor,)
    return bool(args) and not isinstance(args[0], known)


def foreign_answer(packet: Any, api: Any, self: Any, other: Any) -> Any:
    """What an operator says to an operand of a foreign type. torch: `==` alone reads arrays."""
    if api.__name__ != "__eq__" or not isinstance(other, np.ndarray):
        return NotImplemented
    from rushlight.core.construct import from_numpy

    try:
        tensor = from_numpy(other)
    except TypeError:
        return NotImplemented
    return packet_call(packet, api, (self, tensor), {})


GENERAL = """
def stub(*args, **kwargs):
    return {result}
"""
GENERAL_OPERATOR = """
def stub(self, *args):
    try:
        return packet_call(packet, stub, (self, *args), {})
    except TypeError:
        if is_foreign(packet, args):
            return foreign_answer(packet, stub, self, args[0])
        raise
"""


def general_stub(packet: Any, label: str, answer: Any, is_operator: bool) -> Any:
    """The stub of an op without a plain case: binding and all layers, each time."""
    result = "packet_call(packet, stub, args, kwargs)"
    result = result if answer is None else f"answer({result}, kwargs.get('out'))"
    source = GENERAL_OPERATOR if is_operator else GENERAL.format(result=result)
    scope = {
        "__name__": "rushlight.core.stubs",
        "packet": packet,
        "packet_call": packet_call,
        "answer": answer,
        "is_foreign": is_foreign,
        "foreign_answer": foreign_answer,
    }
    return compile_source(source.lstrip(), f"general stub of {label}", scope)["stub"]


def as_named(result: Any, out: Any = None, *, result_class: Any, lists: bool) -> Any:
    # An override may answer with anything.
    if type(result) is not tuple or len(result) != result_class.n_fields:
        return result
    if lists:
        result = [tuple(item) if type(item) is list else item for item in result]
    return class_for(result_class, out)(result)


def as_tuple(result: Any, out: Any = None) -> Any:
    return tuple(result) if type(result) is list else result


def answer_of(packet: Any, named: bool) -> Any:
    """What a public name makes of the op's result: a named tuple, a tuple for a list; None where
    the result is the answer."""
    returns = [op._schema.returns for op in packet.candidates]
    if any(len(entries) == 1 and entries[0].type.kind == "List" for entries in returns):
        return as_tuple
    result_class = named_result(packet) if named else None
    if result_class is None:
        return None
    lists = any(entry.type.kind == "List" for entry in returns[0])
    return partial(as_named, result_class=result_class, lists=lists)


def make_stub(
    packet: Any, name: str, method: bool, named: bool = True, module: str = "rushlight"
) -> Any:
    """The function object behind one public name; `named` results are for the public only.
    `module` is where pickle finds it again."""
    key = f"Tensor.{name}" if method else name if named else f"({name})"
    found = packet.stubs.get(key)
    if found is not None:
        return found
    label = key if packet.namespace == "aten" else f"{packet.namespace}::{key}"
    is_operator = method and name.startswith("__")
    answer = None if is_operator else answer_of(packet, named)
    if is_replaced(packet):
        stub = general_stub(packet, label, answer, is_operator)
        stub.__globals__["specialised"] = partial(
            specialised_parts, packet, label, answer, is_operator
        )
    else:
        made = specialised_stub(packet, label, answer, is_operator)
        stub = general_stub(packet, label, answer, is_operator) if made is None else made
    stub.__name__ = name
    stub.__qualname__ = f"Tensor.{name}" if method else name
    stub.__module__ = module_name(module, stub.__qualname__)
    if packet.candidates:
        stub.__signature__ = SchemaSignature(packet, method)
    stub.__doc__ = "\n".join(str(record._schema) for record in packet.candidates)
    # One function for all threads.
    return packet.stubs.setdefault(key, stub)


def specialised_stub(
    packet: Any, label: str, answer: Any, is_operator: bool, api: Any = None
) -> Any:
    """A stub with a plain case, None where the op has none. Overrides are told of `api` instead of
    the stub where that is given."""
    # Not before the first call of an op: import makes no stub.
    from rushlight.core.stubwriter import write_first, write_second

    other = write_second(packet) if answer is None else None
    second = None if other is None else compile_stub(other, f"{label}, {other.op._overloadname}")
    w = None if answer is as_tuple else write_first(packet, second, answer is not None)
    if w is None:
        return None
    w.scope["answer"] = answer
    stub = compile_stub(w, label)
    api = stub if api is None else api
    stub.__globals__["slow"] = slow_path(w, packet, api, answer, is_operator)
    if other is not None:
        other.scope["slow"] = slow_path(other, packet, api, answer, is_operator)
    return stub


def specialised_parts(packet: Any, label: str, answer: Any, is_operator: bool, stub: Any) -> Any:
    """The parts of a plain case for a stub that was made without one."""
    made = specialised_stub(packet, label, answer, is_operator, stub)
    if made is None:
        return None
    stub.__globals__.update(made.__globals__)
    stub.__globals__["stub"] = stub
    return made.__code__, made.__defaults__, made.__kwdefaults__


def packet_stub(packet: Any) -> Any:
    """What a call of the packet itself runs. Overrides are told of the packet."""
    label = packet._qualified_op_name
    is_plain = packet.namespace == "aten" and not is_replaced(packet)
    stub = specialised_stub(packet, label, None, False, packet) if is_plain else None
    if stub is None:
        stub = general_stub(packet, label, None, False)
        stub.__globals__["stub"] = packet
        if is_replaced(packet):
            # Later it may have a plain case.
            return stub
    stub.__globals__["api"] = packet
    return packet.stubs.setdefault(OWN_STUB, stub)


def generalize(stub: Any, packet: Any) -> None:
    """Let a stub that holds its op's kernel pass the dispatcher, for every holder of the stub."""
    scope = stub.__globals__
    if "slow" in scope and "specialised" not in scope:
        scope["specialised"] = (stub.__code__, stub.__defaults__, stub.__kwdefaults__)
        made = general_stub(packet, stub.__name__, scope["answer"], stub.__name__.startswith("__"))
        scope.update(made.__globals__)
        scope["stub"] = scope.get("api", stub)
        stub.__code__ = made.__code__
        stub.__defaults__ = stub.__kwdefaults__ = None


def specialize(stub: Any) -> None:
    """Give a stub its plain case back, or the one that it could not have when it was made."""
    parts = stub.__globals__.pop("specialised", None)
    if callable(parts):
        parts = parts(stub)
    if parts is not None:
        stub.__code__, stub.__defaults__, stub.__kwdefaults__ = parts


def overload_function(op: Any) -> Callable[..., Any]:
    """`dispatch.call(op, args)` as a function of the arguments, plain case first."""
    from rushlight.core.stubwriter import write_bound

    w = write_bound(op)
    if w is None:
        return lambda *args: call(op, args)
    w.scope["slow"] = call
    made: Callable[..., Any] = compile_stub(w, op.name())
    return made


def stub_source(packet: Any) -> str:
    """The text of a packet's stub for `rushlight doctor --op`, and a general one's binders."""
    first = packet.candidates[0]
    stub = make_stub(packet, packet.base_name, method=not first.options.get("function", True))
    parts = [source_of(stub)]
    if "return slow(" not in parts[0]:
        parts += [source_of(op.bind) for op in packet.candidates]
    elif (second := stub.__globals__.get("second")) is not None:
        parts.append(source_of(second))
    return "\n".join(parts)
