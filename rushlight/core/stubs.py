"""Stubs: the public functions and Tensor methods, generated from op records on first use.

A stub of an elementwise op is straight-line Python for the common case (no special state, plain
contiguous tensors of one fast dtype); anything else goes to `dispatch.packet_call`. Each public
function and each method is a function object of its own, because `__torch_function__` tells them
apart.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.direct import direct_stub
from rushlight.core.dispatch import packet_call
from rushlight.core.gradrule import compile_source
from rushlight.core.node import needs_grad, pack_result
from rushlight.core.op import REPLACED
from rushlight.core.return_types import named_result
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.storage import VersionCounter
from rushlight.core.tensor import PLAIN, Tensor, ViewInfo, new_tensor

__all__ = ["make_stub", "stub_source"]

# Names that `__r*__` operators share with a function of swapped arguments.
REFLECTED = frozenset(("__rsub__", "__rtruediv__", "__rpow__", "__rfloordiv__", "__rmod__"))


# A partial is called with less ado than `object.__new__` with an argument.
NEW_INFO = partial(object.__new__, ViewInfo)


class Missing:
    """Stands for an argument not given."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


VIEW = """
def stub({parameters}):
    grad = True
    if PROCESS.special:
        state = LOCAL.state
        if state.layers:
            return slow({arguments}{keywords})
        grad = state.grad
    if ((type(self) is not Tensor and type(self) not in PLAIN) or self._ext is not None
            {shape_test}{unused}):
        return slow({arguments}{keywords})
{prepare}
    try:
        r = {quick}
    except (ValueError, TypeError, IndexError):
        r = None
    if r is None:
        return slow({arguments})
    sizes = r.shape{check}
    counter = self._counter
    if counter is None:
        counter = self._counter = VersionCounter()
    info = new_info()
    parent = info.parent = self._view
    info.op = op
    info.args = ({bound})
    info.version = counter.value
    if parent is None:
        info.base = self
        info.kind = 0 if grad else 3
    else:
        info.base = parent.base
        info.kind = parent.kind if grad else 3
    t = new_tensor()
    t._array = r
    t._dtype = self._dtype
    t._contig = {contiguous}
    t._counter = counter
    t._storage = self._storage
    t._offset = self._offset
    t._view = info
    t._ag = None
    t._ext = None
    t._output_nr = 0
    t._node = None
    if grad and (self._requires_grad or (parent is not None and needs_grad(self))):
{node}
        t._requires_grad = True
    else:
        info.pending = None
        t._requires_grad = False
    return t
"""

SIZE_LIST = """
    size = given
    if len(given) < 2 and (not given or type(given[0]) is not int):
        if not given or not isinstance(given[0], (tuple, list)):
            return slow((self, *given))
        size = tuple(given[0])
"""


AT_ONCE = """
        info.pending = None
        node.output_metas = ((sizes, self._dtype, None),)
        t._node = node"""


def view_record(rule: Any) -> str:
    """Lines of a view stub that record its gradient: as pending where the rule allows it."""
    if rule is None:
        return " " * 8 + "info.pending = None"
    pending: str | None = rule.pending_source(" " * 8)
    return pending or rule.inline_source(" " * 8) + AT_ONCE


CHECK = """
    if {refused}:
        return slow({arguments})"""


def view_template(op: Any) -> str | None:
    """Source of the stub of a view op that says how to do it quickly (`quick=`)."""
    quick = op.options.get("quick")
    if quick is None:
        return None
    rule = op.options.get("quick_as", op).grad_rule
    refused = op.options.get("quick_refused")
    names = [argument.name for argument in op._schema.arguments[1:] if not argument.kwarg_only]
    defaults = [a.default for a in op._schema.arguments[1:] if a.kwarg_only]
    spread = op.options.get("varargs") is not None
    every = {a.name: None for record in op.packet.candidates for a in record._schema.arguments}
    every.pop("self", None)
    if spread:
        # Keyword spellings cost nothing when they are parameters of their own.
        spelled = list(every)
        parameters = "self, *given, " + ", ".join(f"{name}=MISSING" for name in spelled)
        arguments = "(self, *given)"
    else:
        spelled = [name for name in every if name not in names]
        parameters = ", ".join(
            ["self", *[f"{name}=MISSING" for name in names], *[f"{n}=MISSING" for n in spelled]]
        )
        arguments = f"({', '.join(['self', *names])},)"
    keywords = "".join(f", {name}={name}" for name in spelled)
    unused = "".join(f" or {name} is not MISSING" for name in spelled)
    bound = ", ".join([*names, *[repr(value) for value in defaults]])
    return VIEW.format(
        parameters=parameters,
        arguments=arguments,
        keywords=keywords,
        unused=unused,
        prepare=SIZE_LIST.replace("size", names[0]) if spread else "",
        quick=quick,
        check=CHECK.format(refused=refused, arguments=arguments) if refused else "",
        bound=bound + "," if bound else "",
        contiguous="r.flags.c_contiguous and 1 not in r.shape"
        if op.options.get("quick_any")
        else op.options.get("quick_contiguous", False),
        shape_test="" if op.options.get("quick_any") else "or not self._contig",
        node=view_record(rule),
    )


# Factors as 0-d arrays, which NumPy takes with less ado than Python numbers.
SCALES: dict[tuple[Any, Any], Any] = {}


def as_scale(number: Any, kind: Any) -> Any:
    if len(SCALES) > 256:
        SCALES.clear()
    scale = SCALES[number, kind] = np.array(number, kind.np)
    return scale


def inplace_template(op: Any) -> str | None:
    """Source of the stub of `add_` and its like: a binary op that is one ufunc."""
    base = op.functional
    if base is None or base.kind.name != "POINTWISE" or op.kind.name != "INPLACE":
        return None
    arguments = base._schema.arguments
    alpha = len(arguments) == 3 and arguments[2].name == "alpha"
    promote = base.options.get("promote", "default")
    if (
        len(base.tensor_positions) != 2
        or len(arguments) != 2 + alpha
        or promote not in ("default", "int_to_float")
        or base.options.get("dtypes") is not None
        or not base.options.get("numbers")
        or single_ufunc(base, 2) is None
    ):
        return None
    return INPLACE.format(
        alpha=", alpha=1" if alpha else "",
        alpha_value="alpha" if alpha else "1",
        scale=SCALE.format(**extra_parts(op)) if alpha else "",
        **extra_parts(op),
    )


def quick_template(op: Any) -> str | None:
    """Source of the stub of an op of one tensor that says how to do it quickly when called bare."""
    quick = op.options.get("quick")
    if quick is None or "quick_when" in op.options:
        return None
    rule = op.grad_rule
    record = ""
    if rule is not None:
        node = rule.inline_source(" " * 8)
        record = UNARY_RECORD.format(dtype="self._dtype", save="", node=node)
    return QUICK.format(compute=quick, result=RESULT.format(dtype="self._dtype"), record=record)


def compile_quick_stub(packet: Any, op: Any, name: str, template: str) -> Any:
    scope = {
        **({} if op.grad_rule is None else op.grad_rule.scope),
        **common_scope(),
        **op.options.get("quick_scope", {}),
    }
    compile_source(template, f"stub of {name}", scope)
    stub = scope["stub"]

    def slow(self: Any, rest: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        args = rest if self is MISSING else (self, *rest)
        return packet_call(packet, stub, args, keywords)

    scope["slow"] = slow
    scope["second"] = None
    if len(packet.candidates) > 1:
        # `sum(x, dim)` beside `sum(x)`
        other = packet.candidates[1]
        scope["second"] = direct_stub(packet, other, name, MISSING, packet_call, alone=False)
    stub.__name__ = name
    stub.__qualname__ = name
    return stub


def compile_view_stub(packet: Any, op: Any, name: str, template: str) -> Any:
    # A composite (reshape) may be, for the quick case, another op (view).
    recorded = op.options.get("quick_as", op)
    scope = {
        **({} if recorded.grad_rule is None else recorded.grad_rule.scope),
        **common_scope(),
        "new_info": NEW_INFO,
        "op": recorded,
        **op.options.get("quick_scope", {}),
    }
    compile_source(template, f"stub of {name}", scope)
    stub = scope["stub"]

    def slow(args: tuple[Any, ...], **keywords: Any) -> Any:
        given = {name: value for name, value in keywords.items() if value is not MISSING}
        positional = tuple([value for value in args if value is not MISSING])
        return packet_call(packet, stub, positional, given)

    scope["slow"] = slow
    stub.__name__ = name
    stub.__qualname__ = name
    return stub


def refuse() -> None:
    """Leave a quick expression for the general path."""
    raise ValueError


def common_scope() -> dict[str, Any]:
    """What every generated stub may mention."""
    return {
        "__name__": "rushlight.core.stubs",
        "MISSING": MISSING,
        "PROCESS": PROCESS,
        "LOCAL": LOCAL,
        "PLAIN": PLAIN,
        "Tensor": Tensor,
        "new_tensor": new_tensor,
        "ndarray": np.ndarray,
        "asarray": np.asarray,
        "ascontiguousarray": np.ascontiguousarray,
        "needs_grad": needs_grad,
        "pack_result": pack_result,
        "VersionCounter": VersionCounter,
        "SCALES": SCALES,
        "as_scale": as_scale,
        "refuse": refuse,
        "bool_": dtypes.bool_,
    }


def generic_stub(packet: Any, name: str) -> Any:
    def stub(*args: Any, **kwargs: Any) -> Any:
        return packet_call(packet, stub, args, kwargs)

    stub.__name__ = name
    stub.__qualname__ = name
    return stub


def named_stub(packet: Any, name: str, result_class: Any) -> Any:
    """The stub of an op of several named results."""
    lists = any(entry.type.kind == "List" for entry in packet.candidates[0]._schema.returns)

    def stub(*args: Any, **kwargs: Any) -> Any:
        result = packet_call(packet, stub, args, kwargs)
        # An override may answer with anything.
        if type(result) is not tuple or len(result) != result_class.n_fields:
            return result
        if lists:
            result = [tuple(item) if type(item) is list else item for item in result]
        return result_class(result)

    stub.__name__ = name
    stub.__qualname__ = name
    return stub


def sequence_stub(packet: Any, name: str) -> Any:
    """An op that returns a list of tensors: its public name answers with a tuple."""

    def stub(*args: Any, **kwargs: Any) -> Any:
        result = packet_call(packet, stub, args, kwargs)
        return tuple(result) if type(result) is list else result

    stub.__name__ = name
    stub.__qualname__ = name
    return stub


def operator_stub(packet: Any, name: str) -> Any:
    """An operator: arguments of a foreign type give NotImplemented, so that theirs may answer."""
    numbers = any([op.options.get("numbers") for op in packet.candidates])
    accepted = (Tensor, int, float, complex, bool, np.generic) if numbers else (Tensor,)

    def stub(self: Any, *args: Any) -> Any:
        try:
            return packet_call(packet, stub, (self, *args), {})
        except TypeError:
            if args and not isinstance(args[0], accepted):
                return foreign_answer(packet, stub, self, args[0])
            raise

    stub.__name__ = name
    stub.__qualname__ = name
    return stub


def foreign_answer(packet: Any, stub: Any, self: Any, other: Any) -> Any:
    """What an operator says to an operand of a foreign type. torch: `==` alone reads arrays."""
    if stub.__name__ != "__eq__" or not isinstance(other, np.ndarray):
        return NotImplemented
    from rushlight.core.construct import from_numpy

    try:
        tensor = from_numpy(other)
    except TypeError:
        return NotImplemented
    return packet_call(packet, stub, (self, tensor), {})


def is_replaced(packet: Any) -> bool:
    """Whether a program has put kernels of its own in the place of some that a stub of this
    packet would run by itself."""
    if not REPLACED:
        return False
    return any(
        not REPLACED.isdisjoint((op, op.functional, op.options.get("quick_as")))
        or "fused" in op.options
        for op in packet.candidates
    )


def make_stub(packet: Any, name: str, method: bool, named: bool = True) -> Any:
    """The function object behind one public name; `named` results are for the public only."""
    key = f"Tensor.{name}" if method else name if named else f"({name})"
    found = packet.stubs.get(key)
    if found is not None:
        return found
    op: Any = packet.candidates[0] if packet.candidates else None
    template = view = quick = None
    plain = op is not None and not is_replaced(packet)
    if plain and op.kind.name == "POINTWISE" and op.functional is None:
        template = pointwise_template(op)
    if plain and (op.kind.name == "VIEW" or "quick_as" in op.options):
        view = view_template(op)
    if plain and template is None and op.functional is not None:
        template = inplace_template(op)
    if plain and template is None and view is None:
        quick = quick_template(op)
    if template is not None:
        stub = compile_stub(packet, op, name, template)
    elif view is not None:
        stub = compile_view_stub(packet, op, name, view)
    elif quick is not None:
        stub = compile_quick_stub(packet, op, name, quick)
    elif name.startswith("__"):
        stub = operator_stub(packet, name)
    elif any(
        len(c._schema.returns) == 1 and c._schema.returns[0].type.kind == "List"
        for c in packet.candidates
    ):
        stub = sequence_stub(packet, name)
    else:
        result_class = named_result(packet) if named else None
        stub = None
        if plain:
            stub = direct_stub(packet, op, name, MISSING, packet_call, result_class)
        if stub is None and result_class is not None:
            stub = named_stub(packet, name, result_class)
        elif stub is None:
            stub = generic_stub(packet, name)
    stub.__module__ = "torch"
    stub.__doc__ = "\n".join(str(record._schema) for record in packet.candidates)
    # One function for all threads.
    return packet.stubs.setdefault(key, stub)


def stub_source(packet: Any) -> str:
    """The generated source of a packet's stub, for `rushlight doctor --op`."""
    op = packet.candidates[0]
    template = pointwise_template(op) if op.kind.name == "POINTWISE" else None
    return packet.base_name + ": generic stub" if template is None else template


class Recorder:
    """A math namespace that finds out whether a scalar text is one ufunc call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.append((name, args))
            return Operand()

        return call


class Operand:
    """Stands for an array while a scalar text is looked at."""


def single_ufunc(op: Any, count: int) -> Any:
    """The NumPy ufunc that a scalar text amounts to, or None."""
    from rushlight.arrays.numpy_ import MATH

    recorder = Recorder()
    operands = tuple(Operand() for _ in range(count))
    rest = tuple(a.default for a in op._schema.arguments[count:])
    try:
        op.options["scalar"](recorder, *operands, *rest)
    except Exception:
        return None
    if len(recorder.calls) != 1:
        return None
    name, args = recorder.calls[0]
    if args != operands:
        return None
    found = getattr(MATH, name, None)
    return found if isinstance(found, np.ufunc) else None


FAST_DTYPES = tuple(kind for kind in dtypes.ALL if kind.scalar_fast)


def ufunc_with_number(op: Any) -> Any:
    """For a unary text such as `m.maximum(0, x)`: (ufunc, {dtype: number as an array}, whether
    the operand comes first); None for any other."""
    from rushlight.arrays.numpy_ import MATH

    recorder = Recorder()
    operand = Operand()
    try:
        op.options["scalar"](recorder, operand)
    except Exception:
        return None
    if len(recorder.calls) != 1:
        return None
    name, args = recorder.calls[0]
    found = getattr(MATH, name, None)
    if not isinstance(found, np.ufunc) or len(args) != 2 or operand not in args:
        return None
    leads = args[0] is operand
    number = args[1] if leads else args[0]
    if type(number) not in (int, float):
        return None
    # NumPy takes a 0-d array of the right dtype with less ado than a Python number.
    return found, {kind: np.array(number, kind.np) for kind in FAST_DTYPES}, leads


RESULT = """
    t = new_tensor()
    t._array = r
    t._dtype = {dtype}
    t._contig = True
    t._requires_grad = False
    t._node = None
    t._output_nr = 0
    t._counter = None
    t._storage = None
    t._offset = 0
    t._view = None
    t._ag = None
    t._ext = None
"""

UNARY = """
def stub(self=MISSING, *, out=None{extra}):
    grad = True
    if PROCESS.special:
        state = LOCAL.state
        if state.layers:
            return slow(self, out, {extra_values})
        grad = state.grad
    if ((type(self) is not Tensor and type(self) not in PLAIN) or self._ext is not None
            or not self._contig or out is not None or not self._dtype.scalar_fast
            {real_only}{unused}):
        return slow(self, out, {extra_values})
    r = {compute}
    if type(r) is not ndarray:
        r = asarray(r)
{result}
{record}
    return t
"""

UNARY_RECORD = """
    if grad and (self._requires_grad or (self._view is not None and needs_grad(self))):
{node}
        node.output_metas = ((r.shape, {dtype}, None),)
        t._node = node
        t._requires_grad = True{save}
"""

QUICK = """
def stub(self=MISSING, *rest, **keywords):
    grad = True
    if PROCESS.special:
        state = LOCAL.state
        if state.layers:
            return slow(self, rest, keywords)
        grad = state.grad
    if rest and second is not None and (type(self) is Tensor or type(self) in PLAIN):
        return second(self, *rest, **keywords)
    if (rest or keywords or (type(self) is not Tensor and type(self) not in PLAIN)
            or self._ext is not None or not self._contig or not self._dtype.scalar_fast):
        return slow(self, rest, keywords)
    r = {compute}
{result}
{record}
    return t
"""

BINARY = """
def stub(self=MISSING, other=MISSING, *{alpha}, out=None{extra}):
    grad = True
    if PROCESS.special:
        state = LOCAL.state
        if state.layers:
            return slow(self, other, {alpha_value}, out, {extra_values})
        grad = state.grad
    if ((type(self) is not Tensor and type(self) not in PLAIN) or self._ext is not None
            or out is not None or not self._dtype.scalar_fast
            {real_only}{alpha_test}{unused}):
        return slow(self, other, {alpha_value}, out, {extra_values})
    kind = type(other)
    leader = None
    if kind is Tensor or kind in PLAIN:
        if other._dtype is not self._dtype or other._ext is not None:
            return slow(self, other, {alpha_value}, out, {extra_values})
        y = other._array
        if not (self._contig and other._contig):
            # The result is laid out like a contiguous first operand of its shape, or like the
            # second when the first is one number expanded.
            leader = self._array
            if not self._contig:
                if not other._contig or any(leader.strides):
                    return slow(self, other, {alpha_value}, out, {extra_values})
                leader = y
        wants = grad and (self._requires_grad or other._requires_grad or (
            (self._view is not None or other._view is not None)
            and (needs_grad(self) or needs_grad(other))))
{number}    else:
        return slow(self, other, {alpha_value}, out, {extra_values})
    try:
        r = {compute}
    except (ValueError, OverflowError):
        r = None
    if type(r) is not ndarray:
        if r is None:
            return slow(self, other, {alpha_value}, out, {extra_values})
        r = asarray(r)
    if leader is not None:
        if r.shape != leader.shape:
            return slow(self, other, {alpha_value}, out, {extra_values})
        if not r.flags.c_contiguous:
            r = ascontiguousarray(r)
{result}
{record}
    return t
"""

INPLACE = """
def stub(self=MISSING, other=MISSING, *{alpha}{extra}):
    grad = True
    if PROCESS.special:
        state = LOCAL.state
        if state.layers:
            return slow(self, other, {alpha_value}, None, {extra_values})
        grad = state.grad
    if ((type(self) is not Tensor and type(self) not in PLAIN)
            or self._ext is not None or not self._contig or not self._dtype.scalar_fast
            or (grad and (self._requires_grad or self._view is not None)){unused}):
        return slow(self, other, {alpha_value}, None, {extra_values})
    kind = type(other)
    if kind is Tensor or kind in PLAIN:
        if (other._dtype is not self._dtype or other._ext is not None
                or (grad and (other._requires_grad or other._view is not None))):
            return slow(self, other, {alpha_value}, None, {extra_values})
        y = other._array
    elif kind is float or kind is int:
        y = other
    else:
        return slow(self, other, {alpha_value}, None, {extra_values})
    target = self._array
    try:
{scale}
        r = ufunc(target, y, target)
    except (ValueError, TypeError, OverflowError):
        r = None
    if r is None:
        return slow(self, other, {alpha_value}, None, {extra_values})
    counter = self._counter
    if counter is None:
        counter = self._counter = VersionCounter()
    counter.value += 1
    return self
"""

SCALE = """
        if alpha != 1:
            if type(alpha) is not float and type(alpha) is not int:
                return slow(self, other, alpha, None, {extra_values})
            y = y * (SCALES.get((alpha, self._dtype)) or as_scale(alpha, self._dtype))
"""

NUMBER = """    elif (kind is float or kind is int) and self._contig:
        y = other
        wants = grad and (self._requires_grad or (self._view is not None and needs_grad(self)))
"""

BINARY_RECORD = """
    if wants:
        make, kept = with_tensor if y is not other else with_number
        node = make(self, other{alpha_argument})
        node.output_metas = ((r.shape, {dtype}, None),)
        t._node = node
        t._requires_grad = True{save}
"""

SAVE = """
        save_outputs(node, (t,))"""
SAVE_RESULT = """
        node.saved_slots[{slot}] = pack_result(t)"""


def extra_names(op: Any) -> list[str]:
    """Keywords that a call may use besides those of the quick case, of any overload."""
    quick = {"self", "other", "alpha", "out", "input"}
    arguments = [a for record in op.packet.candidates for a in record._schema.arguments]
    return ["input", *dict.fromkeys(a.name for a in arguments if a.name not in quick)]


def extra_parts(op: Any) -> dict[str, str]:
    """How a template spells those keywords. `input` goes with a missing `self`, which is seen."""
    names = extra_names(op)
    return {
        "extra": "".join(f", {name}=MISSING" for name in names),
        "extra_values": f"({', '.join(names)},)",
        "unused": "".join(f" or {name} is not MISSING" for name in names[1:]),
    }


def given_keywords(names: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, values, strict=True) if value is not MISSING}


def pointwise_template(op: Any) -> str | None:
    """Source of the stub of a unary or binary elementwise op; None when it has another form."""
    arguments = op._schema.arguments
    promote = op.options.get("promote", "default")
    if not isinstance(promote, str) or promote == "long" or len(op._schema.returns) != 1:
        return None
    if op.options.get("unpromoted") or op.options.get("promoted_scalars"):
        return None
    if any(required(c) != required(op) for c in op.packet.candidates):
        return None
    singles = len(op.tensor_positions)
    dtype = {"bool": "bool_", "complex_to_float": "self._dtype.real"}.get(promote, "self._dtype")
    rule = op.grad_rule
    save = SAVE if rule is not None and rule.output_slots else ""
    if save and singles == 1 and [entry[1:] for entry in rule.output_slots] == [(0, "")]:
        save = SAVE_RESULT.format(slot=rule.output_slots[0][0])
    result = RESULT.format(dtype=dtype)
    # Predicates over dtypes (bitwise ops refuse floats) are left to the general path.
    real_only = " or not allowed(self._dtype)" if op.options.get("dtypes") else ""
    if singles == 1 and len(arguments) == 1:
        record = ""
        if rule is not None:
            node = rule.inline_source(" " * 8)
            record = UNARY_RECORD.format(dtype=dtype, save=save, node=node)
        compute = "ufunc(self._array)"
        constant = ufunc_with_number(op)
        if constant is not None:
            operands = "number[self._dtype], self._array", "self._array, number[self._dtype]"
            compute = f"ufunc({operands[constant[2]]})"
        return UNARY.format(
            compute=compute, result=result, record=record, real_only=real_only, **extra_parts(op)
        )
    if singles == 2 and arguments[1].type.kind == "Tensor" and len(arguments) in (2, 3):
        alpha = len(arguments) == 3
        if alpha and arguments[2].name != "alpha":
            return None
        number = number_overload(op)
        record = ""
        if rule is not None:
            if number is not None and number.grad_rule.output_slots:
                save = SAVE
            record = BINARY_RECORD.format(
                dtype=dtype,
                save=save.replace("save_outputs", "kept"),
                alpha_argument=", 1" if alpha else "",
            )
        return BINARY.format(
            alpha=", alpha=1" if alpha else "",
            alpha_value="alpha" if alpha else "1",
            alpha_test=" or alpha != 1" if alpha else "",
            number="" if number is None else NUMBER,
            compute="ufunc(self._array, y)",
            result=result,
            record=record,
            real_only=real_only,
            **extra_parts(op),
        )
    return None


def required(op: Any) -> int:
    return len([a for a in op._schema.arguments if not a.has_default and not a.kwarg_only])


def number_overload(op: Any) -> Any:
    """The overload that `op(tensor, number)` means, if it computes as `op` does."""
    if op.options.get("numbers"):
        return op
    for other in op.packet.candidates:
        arguments = other._schema.arguments
        if (
            other is not op
            and len(arguments) == len(op._schema.arguments)
            and arguments[0].type.kind == "Tensor"
            and arguments[1].type.kind == "Scalar"
            and other.options.get("scalar") is op.options["scalar"]
            and other.options.get("promote") == op.options.get("promote")
        ):
            return other if (op.grad_rule is None) == (other.grad_rule is None) else None
    return None


def text_function(source: Any, count: int) -> Any:
    """An elementwise op's text as a function of its first `count` operands."""
    from rushlight.arrays.numpy_ import MATH

    scalar = source.options["scalar"]
    rest = tuple(a.default for a in source._schema.arguments[count:])

    def with_arrays(first: Any, *others: Any) -> Any:
        # A number takes the array's dtype: what NumPy makes of a bare one would be wider.
        kind = first.dtype
        arrays = [y if type(y) is np.ndarray else np.asarray(y, kind) for y in others]
        return scalar(MATH, first, *arrays, *rest)

    def with_numbers(first: Any, *others: Any) -> Any:
        return scalar(MATH, first, *others, *rest)

    return with_numbers if source.options.get("weak_numbers") else with_arrays


def compile_stub(packet: Any, op: Any, name: str, template: str) -> Any:
    source = op if op.functional is None else op.functional
    count = len(source.tensor_positions)
    ufunc = single_ufunc(source, count)
    if ufunc is None:
        ufunc = text_function(source, count)
    constant = ufunc_with_number(source) if count == 1 and op.functional is None else None
    if constant is not None:
        ufunc = constant[0]
    rule = op.grad_rule
    number = number_overload(op) if count == 2 else None
    number_rule = None if number is None else number.grad_rule
    scope: dict[str, Any] = {
        **({} if rule is None else rule.scope),
        **common_scope(),
        "ufunc": ufunc,
        "number": None if constant is None else constant[1],
        "allowed": op.options.get("dtypes"),
        "with_tensor": rule and (rule.make_node, rule.save_outputs),
        "with_number": number_rule and (number_rule.make_node, number_rule.save_outputs),
        "save_outputs": None if rule is None else rule.save_outputs,
    }
    compile_source(template, f"stub of {name}", scope)
    stub = scope["stub"]
    is_operator = name.startswith("__")
    names = extra_names(op)

    if count == 1:

        def slow(self: Any, out: Any, extra: tuple[Any, ...]) -> Any:
            args = () if self is MISSING else (self,)
            keywords = given_keywords(names, extra)
            if out is not None:
                keywords["out"] = out
            return packet_call(packet, stub, args, keywords)

    else:

        def slow(  # type: ignore[misc]
            self: Any, other: Any, alpha: Any, out: Any, extra: tuple[Any, ...]
        ) -> Any:
            args = tuple([value for value in (self, other) if value is not MISSING])
            keywords = given_keywords(names, extra)
            if self is MISSING and other is not MISSING:
                args = ()
                keywords["other"] = other
            if type(alpha) is not int or alpha != 1:
                keywords["alpha"] = alpha
            if out is not None:
                keywords["out"] = out
            if not is_operator:
                return packet_call(packet, stub, args, keywords)
            try:
                return packet_call(packet, stub, args, keywords)
            except TypeError:
                if not isinstance(other, (Tensor, int, float, complex, bool, np.generic)):
                    return foreign_answer(packet, stub, self, other)
                raise

    scope["slow"] = slow
    stub.__name__ = name
    stub.__qualname__ = name
    return stub
