"""The text of stubs: one `Writer` that puts four parts together for every shape of op.

Guard: no special state, plain tensors, exact types; anything else is refused and goes to `slow`.
Compute: `array_`. Wrap: `tensor_`. Record: `node_`, from the op's `GradRule`. Names that end in an
underscore are the stub's own, so that no argument can be meant. `rushlight doctor --op mul` prints
what comes out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rushlight.base.schema import parameter_name
from rushlight.core import dtype as dtypes
from rushlight.core import history, ports
from rushlight.core.binding import default_value
from rushlight.core.extras import ViewInfo
from rushlight.core.geometry import contiguous_strides, falls
from rushlight.core.node import needs_grad
from rushlight.core.operands import Between, Operand, PlainTensor, Value
from rushlight.core.quick import (
    FAST_DTYPES,
    Quick,
    single_ufunc,
    taken_dtypes,
    text_function,
    ufunc_with_number,
)
from rushlight.core.source import block, fill, fill_tensor, join
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.storage import VersionCounter
from rushlight.core.tensor import PLAIN, Tensor, new_tensor, wrap

__all__ = ["MISSING", "Writer", "write_bound", "write_first", "write_second"]


class Missing:
    """Stands for an argument not given."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()
# Factors as 0-d arrays, which NumPy takes with less ado than Python numbers.
SCALES: dict[tuple[Any, Any], Any] = {}


def as_scale(number: Any, dtype: Any) -> Any:
    if len(SCALES) > 256:
        SCALES.clear()
    scale = SCALES[number, dtype] = np.array(number, dtype.np)
    return scale


def is_row_major(array: Any) -> bool:
    """Whether even the strides of size-1 dims, a free choice to NumPy, are the row-major ones."""
    width = array.itemsize
    return tuple([step // width for step in array.strides]) == contiguous_strides(array.shape)


def view_between(source: Any, array: Any, node: Any) -> Any:
    """A view that only the graph of a composite sees, so that it needs no record of its base."""
    counter = source._counter
    if counter is None:
        counter = source._counter = VersionCounter()
    result = wrap(array, source._dtype)
    result._is_contiguous = False
    result._counter = counter
    result._node = node
    result._requires_grad = node is not None
    return result


# What every stub may mention.
SCOPE: dict[str, Any] = {
    "__name__": "rushlight.core.stubs",
    "np": np,
    "ndarray": np.ndarray,
    "asarray": np.asarray,
    "ascontiguousarray": np.ascontiguousarray,
    "MISSING": MISSING,
    "PROCESS": PROCESS,
    "LOCAL": LOCAL,
    "PLAIN": PLAIN,
    "Tensor": Tensor,
    "VersionCounter": VersionCounter,
    # A partial is called with less ado than `object.__new__` with an argument.
    "new_info": partial(object.__new__, ViewInfo),
    "NORMAL": ViewInfo.NORMAL,
    "NO_GRAD": ViewInfo.NO_GRAD,
    "SCALES": SCALES,
    "FROM_NUMPY": dtypes.FROM_NUMPY,
    "bool_": dtypes.bool_,
    "falls": falls,
    "dtype_class": dtypes.dtype,
    "as_scale": as_scale,
    "attach": history.attach,
    "is_row_major": is_row_major,
    "needs_grad": needs_grad,
    "new_tensor": new_tensor,
    "view_between": view_between,
    "wrap": wrap,
}

# -- parts -----------------------------------------------------------------------------------------

STUB = """
def stub({parameters}):
    recording_ = True
    if PROCESS.special:
        state_ = LOCAL.state
        if state_.layers:
            {refuse}
        recording_ = state_.grad
    {lines}
"""

# Tests that a value is not exactly what the schema asks for.
INEXACT = {
    "int": "type({0}) is not int",
    "SymInt": "type({0}) is not int",
    "bool": "type({0}) is not bool",
    "float": "type({0}) is not float",
    "str": "type({0}) is not str",
    "Scalar": "(type({0}) is not int and type({0}) is not float)",
    "ScalarType": "type({0}) is not dtype_class",
    "Tensor": "(type({0}) is not Tensor and type({0}) not in PLAIN) or {0}._unusual is not None",
}
PLAIN_ONE = "(type(t_) is Tensor or type(t_) in PLAIN) and t_._unusual is None"
TENSOR_LIST = f"type({{0}}_) is not list or not all([{PLAIN_ONE} for t_ in {{0}}_])"
INT_LIST = "type({0}_) is not tuple or not all([type(i_) is int for i_ in {0}_])"


def is_int_list(kind: Any) -> bool:
    return kind.kind == "List" and kind.element.kind in ("int", "SymInt")


def is_tensor_list(kind: Any) -> bool:
    return kind.kind == "List" and kind.element.kind == "Tensor" and not kind.element.optional


def inexact_test(argument: Any) -> str | None:
    """The test that a value is not of the argument's own type; None if there is no such test."""
    name = parameter_name(argument.name)
    kind = argument.type
    text = INT_LIST if is_int_list(kind) else INEXACT.get(kind.kind)
    text = TENSOR_LIST if is_tensor_list(kind) else text
    if text is None:
        # Devices, layouts, generators, lists: only when left out.
        return f"{name} is not None" if kind.optional else None
    text = text.format(name)
    return f"({name} is not None and ({text}))" if kind.optional else text


def wants_text(name: str, optional: bool = False) -> str:
    """`needs_grad(x)` written out for tensors that are no views."""
    text = f"{name}._requires_grad or ({name}._view is not None and needs_grad({name}))"
    return f"({name} is not None and ({text}))" if optional else text


def any_of(head: str, tests: list[str], lines: list[str]) -> list[str]:
    """`lines` under the condition that one of the tests holds, a line for each where it is long."""
    if len("".join(tests)) < 80:
        return block(f"{head}({' or '.join(tests)}):", lines)
    listed = [f"    {test} or" for test in tests[:-1]]
    return [f"{head}(", *listed, f"    {tests[-1]}", *block("):", lines)]


def if_recording(wants: list[str], lines: list[str], head: str = "if recording_") -> list[str]:
    """`lines` where gradients are recorded and one of the tensors wants any."""
    return any_of(f"{head} and ", wants, lines)


class Writer:
    """The text of one overload's stub, and the names it mentions.

    Parameters are the overload's own arguments (without keyword-only ones where those are left to
    the general path); whatever else a call gives, be it another overload's or another spelling,
    is in `rest_` and `others_`. A `bound` stub takes what a binder answers and nothing else.
    """

    def __init__(self, op: Any, keywords: bool = True, bound: bool = False) -> None:
        self.op = op
        self.lines: list[str] = []
        # `op` is what is recorded: for some views that is another than their own.
        self.scope: dict[str, Any] = {**SCOPE, "op": op, "own_op": op}
        arguments = op._schema.arguments
        # The argument that takes `f(x, 2, 3)` as `f(x, (2, 3))`.
        spread = None if bound else op.options.get("varargs")
        self.spread = "" if spread is None else op.argument_names[spread]
        self.own = [a for a in arguments[:spread] if bound or keywords or not a.kwarg_only]
        own = [a.name for a in self.own]
        # The arguments as the stub knows them: by their names, or as the defaults they have.
        self.texts = {
            a.name: parameter_name(a.name)
            if a.name in own or a.name == self.spread
            else self.default_text(position, a)
            for position, a in enumerate(arguments)
        }
        self.tensors = [self.texts[op.argument_names[at]] for at in op.tensor_positions]
        names = [self.texts[name] for name in own]
        self.strangers = ["others_"] if self.spread else ["rest_ or others_"]
        if bound:
            self.strangers = []
            self.parameters = ", ".join(names)
            self.refuse = f"return slow(own_op, ({', '.join(names)},))"
            return
        count = len([a for a in self.own if not a.kwarg_only])
        spelled = [
            f"{self.texts[a.name]}={self.default_text(arguments.index(a), a)}" for a in self.own
        ]
        self.parameters = ", ".join([*spelled[:count], "*rest_", *spelled[count:], "**others_"])
        given = ", ".join(names[count:]) + ("," if names[count:] else "")
        self.refuse = f"return slow(({', '.join(names[:count])},), ({given}), rest_, others_)"

    def default_text(self, position: int, argument: Any) -> str:
        if not argument.has_default:
            return "MISSING"
        value = default_value(argument)
        if value is None or type(value) in (bool, int):
            return repr(value)
        self.scope[f"default_{position}"] = value
        return f"default_{position}"

    def add(self, template: str, **parts: str | list[str]) -> None:
        """Append a template, in which `{x}` and `{y}` are the first tensors."""
        first = dict(zip("xy", self.tensors, strict=False))
        self.lines += fill(template, **{"refuse": self.refuse, **first, **parts})

    def fields(self, text: str) -> str:
        """A text of a `Quick` with arguments in the place of braces."""
        arrays = {self.op.argument_names[at]: True for at in self.op.tensor_positions}
        names = {name: f"{t}._array" if name in arrays else t for name, t in self.texts.items()}
        return text.format(**names)

    # Guard

    def inexact(self) -> dict[str, str]:
        """For each parameter the test that its value is not of the argument's own type."""
        return {self.texts[a.name]: str(inexact_test(a)) for a in self.own}

    def refuse_if(self, *tests: str) -> list[str]:
        return any_of("if ", list(tests), [self.refuse])

    # Compute

    def arrays(self) -> str:
        """The arguments as kernels take them: arrays and plain values."""
        found = []
        for argument in self.op._schema.arguments:
            text = self.texts[argument.name]
            if argument.type.kind == "Tensor":
                none = f"None if {text} is None else " if argument.type.optional else ""
                text = f"{none}{text}._array"
            found.append(text)
        return ", ".join(found)

    # Wrap

    def wrap(self, dtype: str) -> list[str]:
        return fill_tensor("tensor_", "array_", dtype)

    # Record

    def mention(self, rule: Any) -> None:
        for name, value in rule.node_scope.items():
            assert self.scope.setdefault(name, value) is value, f"{name} is two things"

    def node(self, rule: Any, operands: dict[str, Operand], dtype: str) -> list[str]:
        """Lines that make the result's node."""
        self.mention(rule)
        return [
            *rule.node_lines(operands),
            f"node_.output_metas = ((array_.shape, {dtype}, None),)",
            "tensor_._node = node_",
            "tensor_._requires_grad = True",
            *rule.output_lines(["tensor_"]),
        ]

    def operands(self) -> dict[str, Operand]:
        """What the guard lets the record know of the arguments."""
        found: dict[str, Operand] = {}
        for argument in self.op._schema.arguments:
            known = Operand if argument.type.optional else PlainTensor
            known = known if argument.type.kind == "Tensor" else Value
            found[argument.name] = known(self.texts[argument.name])
        return found

    def wants(self, rule: Any) -> list[str]:
        kinds = {a.name: a.type for a in self.op._schema.arguments}
        return [
            f"any([needs_grad(t_) for t_ in {self.texts[name]}])"
            if kinds[name].kind == "List"
            else wants_text(self.texts[name], kinds[name].optional)
            for name in rule.inputs
        ]

    def record(self, rule: Any, dtype: str, head: str = "if recording_") -> list[str]:
        if rule is None:
            return []
        return if_recording(self.wants(rule), self.node(rule, self.operands(), dtype), head)

    def text(self) -> str:
        parameters, refuse = self.parameters, self.refuse
        return join(fill(STUB, parameters=parameters, refuse=refuse, lines=self.lines))


# -- elementwise ops -------------------------------------------------------------------------------

UNARY = """
{guard}
array_ = {compute}
if type(array_) is not ndarray:
    array_ = asarray(array_)
{wrap}
{record}
return tensor_
"""

BINARY = """
{guard}
class_ = type({y})
leader_ = None
if class_ is Tensor or class_ in PLAIN:
    if {y}._dtype is not {x}._dtype or {y}._unusual is not None:
        {refuse}
    right_ = {y}._array
    if not ({x}._is_contiguous and {y}._is_contiguous):
        # Laid out like a first without equal strides, or like a second in the order of the first.
        leader_ = {x}._array
        if {x}._is_contiguous:
            if 1 in leader_.shape[1:]:
                {refuse}
        elif not {y}._is_contiguous or (any(leader_.strides) and not falls(leader_.strides)):
            {refuse}
        else:
            leader_ = right_
{number}
else:
    {refuse}
try:
    array_ = ufunc({x}._array, right_)
except (ValueError, OverflowError):
    array_ = None
if type(array_) is not ndarray:
    if array_ is None:
        {refuse}
    array_ = asarray(array_)
if leader_ is not None:
    if array_.shape != leader_.shape:
        {refuse}
    if not array_.flags.c_contiguous:
        array_ = ascontiguousarray(array_)
{wrap}
{record}
return tensor_
"""

# Several tensors or plain values: the kernel's answer is taken if it is as expected.
UNIFORM = """
{guard}
try:
    {check}
    array_ = kernel(MATH, {arrays})
except (ValueError, OverflowError{refusals}):
    array_ = None
if type(array_) is not ndarray or not array_.flags.c_contiguous or array_.dtype != {dtype}.np:
    {refuse}
{wrap}
{record}
return tensor_
"""

INPLACE = """
{guard}
class_ = type({y})
if class_ is Tensor or class_ in PLAIN:
    if (
        {y}._dtype is not {x}._dtype or {y}._unusual is not None
        or (recording_ and ({y}._requires_grad or {y}._view is not None))
    ):
        {refuse}
    right_ = {y}._array
elif class_ is float or class_ is int:
    right_ = {y}
else:
    {refuse}
target_ = {x}._array
try:
    {scale}
    array_ = ufunc(target_, right_, target_)
except (ValueError, TypeError, OverflowError):
    array_ = None
if array_ is None:
    {refuse}
counter_ = {x}._counter
if counter_ is None:
    counter_ = {x}._counter = VersionCounter()
counter_.value += 1
return {x}
"""

SCALE = """
if alpha != 1:
    if type(alpha) is not float and type(alpha) is not int:
        {refuse}
    right_ = right_ * (SCALES.get((alpha, {x}._dtype)) or as_scale(alpha, {x}._dtype))
"""

RESULT_DTYPES = {"bool": "bool_", "complex_to_float": "{0}._dtype.real"}


def write_elementwise(op: Any, bound: bool = False) -> Writer | None:
    """The stub of an elementwise op that computes in its operands' dtype if they share one."""
    arguments = op._schema.arguments
    promote = op.options.get("promote", "default")
    if not isinstance(promote, str) or promote == "long" or len(op._schema.returns) != 1:
        return None
    if op.options.get("unpromoted"):
        return None
    is_unary = len(arguments) == 1 == len(op.tensor_positions)
    is_binary = op.tensor_positions == (0, 1) and op.argument_names[2:] in ([], ["alpha"])
    promoted = op.options.get("promoted_scalars")
    if promoted and (is_binary or op.tensor_positions[:1] != (0,)):
        return None
    if not is_unary and not is_binary and not is_uniform(op):
        return None
    w = Writer(op, keywords=not is_binary, bound=bound)
    first = w.tensors[0]
    dtype = RESULT_DTYPES.get(promote, "{0}._dtype").format(first)
    taken = taken_dtypes(op, not is_unary and not is_binary)
    if promoted:
        # No number changes a float's dtype.
        taken = frozenset([kind for kind in taken if kind.category == dtypes.FLOAT])
    tests = [f"not {first}._dtype.scalar_fast"]
    if taken != FAST_DTYPES:
        w.scope["taken"] = taken
        tests = [f"{first}._dtype not in taken"]
    if is_binary:
        # What is added or taken away as it is; a factor is left to the general path.
        tests += ["alpha != 1"] if bound and "alpha" in op.argument_names else []
        write_binary(w, dtype, [INEXACT["Tensor"].format(first), *tests, *w.strangers])
        return w
    tests += [f"not {name}._is_contiguous" for name in w.tensors]
    tests += [f"{name}._dtype is not {first}._dtype" for name in w.tensors[1:]]
    guard = w.refuse_if(*w.inexact().values(), *tests, *w.strangers)
    parts = {"wrap": w.wrap(dtype), "record": w.record(op.grad_rule, dtype)}
    if is_unary:
        w.add(UNARY, guard=guard, compute=unary_call(w), **parts)
    else:
        check = op.options.get("check")
        w.scope.update(kernel=op.rule("kernel"), MATH=math_namespace(), check=check)
        given = ", ".join([w.texts[name] for name in op.argument_names])
        parts["check"] = [f"check({first}._dtype, ({given},))"] if check else []
        refusals = ", RuntimeError, TypeError" if check else ""
        w.add(UNIFORM, guard=guard, arrays=w.arrays(), dtype=dtype, refusals=refusals, **parts)
    return w


def is_uniform(op: Any) -> bool:
    """Whether an elementwise op of any arguments can be left to its kernel as it is."""
    if not is_writable(op) or (op.options.get("numbers") and op.tensor_positions != (0,)):
        return False
    return not any([a.type.optional for a in op._schema.arguments if a.type.kind == "Tensor"])


def math_namespace() -> Any:
    from rushlight.arrays.numpy_ import MATH

    return MATH


def unary_call(w: Writer) -> str:
    number = ufunc_with_number(w.op)
    array = f"{w.tensors[0]}._array"
    if number is None:
        w.scope["ufunc"] = single_ufunc(w.op, 1) or text_function(w.op, 1)
        return f"ufunc({array})"
    w.scope["ufunc"], w.scope["number"], leads = number
    constant = f"number[{w.tensors[0]}._dtype]"
    call = f"ufunc({array}, {constant})" if leads else f"ufunc({constant}, {array})"
    w.scope.update(kernel=text_function(w.op, 1), LARGE=ports.large_size)
    return f"{call} if {array}.size < LARGE else kernel({array})"


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


def write_binary(w: Writer, dtype: str, tests: list[str]) -> None:
    x, y = w.tensors
    w.scope["ufunc"] = single_ufunc(w.op, 2) or text_function(w.op, 2)
    rule, number = w.op.grad_rule, number_overload(w.op)
    record, elif_number = w.record(rule, dtype), []
    if number is not None:
        # A number that the general path casts first may be raised to by another loop.
        real = f" and not {x}._dtype.is_complex" if number.options.get("promoted_scalars") else ""
        test = f"elif (class_ is float or class_ is int) and {x}._is_contiguous{real}:"
        elif_number = block(test, [f"right_ = {y}"])
    if number is not None and rule is not None:
        # One node for two tensors, another for a tensor and a number.
        known = [PlainTensor(x), Value(y), Value("1")]
        operands = dict(zip(number.argument_names, known, strict=False))
        of_number = w.node(number.grad_rule, operands, dtype)
        record = block(f"if right_ is not {y}:", record)
        record += if_recording([wants_text(x)], of_number, "elif recording_")
    w.add(BINARY, guard=w.refuse_if(*tests), number=elif_number, wrap=w.wrap(dtype), record=record)


def write_inplace(op: Any, bound: bool = False) -> Writer | None:
    """The stub of `add_` and its like: a binary op that is one ufunc."""
    base = op.functional
    if base.kind.name != "POINTWISE" or op.kind.name != "INPLACE":
        return None
    promote = base.options.get("promote", "default")
    if (
        base.tensor_positions != (0, 1)
        or base.argument_names[2:] not in ([], ["alpha"])
        or promote not in ("default", "int_to_float")
        or base.options.get("dtypes") is not None
        or not base.options.get("numbers")
        or single_ufunc(base, 2) is None
    ):
        return None
    w = Writer(op, bound=bound)
    x = w.tensors[0]
    w.scope["ufunc"] = single_ufunc(base, 2)
    guard = w.refuse_if(
        INEXACT["Tensor"].format(x),
        f"not {x}._is_contiguous",
        f"not {x}._dtype.scalar_fast",
        f"(recording_ and ({x}._requires_grad or {x}._view is not None))",
        *w.strangers,
    )
    scale = fill(SCALE, refuse=w.refuse, x=x) if "alpha" in op.argument_names else []
    w.add(INPLACE, guard=guard, scale=scale)
    return w


# -- views -----------------------------------------------------------------------------------------

VIEW = """
{guard}
{spread}
try:
    array_ = {compute}
except (ValueError, TypeError, IndexError):
    array_ = None
if array_ is None:
    {refuse}
counter_ = self._counter
if counter_ is None:
    counter_ = self._counter = VersionCounter()
info_ = new_info()
parent_ = info_.parent = self._view
info_.op = op
info_.args = ({args})
info_.version = counter_.value
if parent_ is None:
    info_.base = self
    info_.kind = NORMAL if recording_ else NO_GRAD
else:
    info_.base = parent_.base
    info_.kind = parent_.kind if recording_ else NO_GRAD
{wrap}
if recording_ and (self._requires_grad or (parent_ is not None and needs_grad(self))):
    {record}
else:
    info_.pending = None
return tensor_
"""

SPREAD = """
{name} = rest_
if len(rest_) < 2 and (not rest_ or type(rest_[0]) is not int):
    if not rest_ or not isinstance(rest_[0], (tuple, list)):
        {refuse}
    {name} = tuple(rest_[0])
"""

CONTIGUOUS = "array_.flags.c_contiguous and (1 not in array_.shape or is_row_major(array_))"


def write_view(op: Any, quick: Quick, bound: bool = False) -> Writer:
    """The stub of a view op that says how to make the array."""
    w = Writer(op, keywords=False, bound=bound)
    recorded = op if quick.as_op is None else quick.as_op
    w.scope.update(quick.scope, op=recorded)
    when = [f"not ({w.fields(quick.when)})"] if quick.when else []
    if bound:
        lists = [w.texts[a.name] for a in w.own if is_int_list(a.type)]
        w.lines += [f"{name}_ = {name}" for name in lists]
    values = [w.texts[name] for name in op.argument_names[1:]]
    contiguous = quick.result_is_contiguous
    made = fill_tensor(
        "tensor_",
        "array_",
        "self._dtype",
        is_contiguous=CONTIGUOUS if contiguous is None else str(contiguous),
        counter="counter_",
        storage="self._storage",
        offset=w.fields(quick.offset) or "self._offset",
        view="info_",
    )
    w.add(
        VIEW,
        guard=w.refuse_if(*w.inexact().values(), *w.strangers, *when),
        spread=fill(SPREAD, name=w.spread, refuse=w.refuse) if w.spread else [],
        compute=w.fields(quick.expression),
        args="".join(f"{value}, " for value in values).rstrip(),
        wrap=made,
        record=record_view(w, recorded, values),
    )
    return w


def record_view(w: Writer, recorded: Any, values: list[str]) -> list[str]:
    """The record of a view: its node is left pending where the rule allows it."""
    rule = recorded.grad_rule
    known = [PlainTensor("self"), *[Value(value) for value in values]]
    operands: dict[str, Operand] = dict(zip(recorded.argument_names, known, strict=True))
    pending = rule.pending_lines(operands)
    if pending is None:
        return ["info_.pending = None", *w.node(rule, operands, "self._dtype")]
    w.mention(rule)
    return [*pending, "tensor_._requires_grad = True"]


# -- kernels and composites ------------------------------------------------------------------------

QUICK = """
if {when}:
    try:
        array_ = {compute}
    except ValueError:
        array_ = None
    if array_ is not None:
        {finish}
"""

# The kernel's answer as it is, where that is fresh and row-major. Strides of size-1 dims are a free
# choice to NumPy; the kind's `finish` sets them right.
KERNEL = """
array_ = kernel(np, {arrays})
if (
    type(array_) is ndarray and array_.flags.c_contiguous and array_.size
    and 1 not in array_.shape{like}
):
    dtype_ = FROM_NUMPY[array_.dtype]
    {wrap}
    {record}
    return tensor_
"""


def is_writable(op: Any) -> bool:
    """Whether an op takes and gives what a stub can test and make."""
    schema = op._schema
    if schema.is_mutable or op.is_view_op or not (op.tensor_positions or op.list_positions):
        return False
    if op.functional is not None or op.options.get("varargs") is not None:
        return False
    if not schema.returns or any(entry.type.kind != "Tensor" for entry in schema.returns):
        return False
    return all(inexact_test(argument) is not None for argument in schema.arguments)


def write_direct(
    op: Any, second: Any = None, named: bool = False, bound: bool = False
) -> Writer | None:
    """The stub of an op that is no more than its kernel, or of a composite. `second` is the stub of
    another overload, which takes what this one does not; `named` results have a class."""
    if op.kind.name == "POINTWISE" or op.options.get("numbers") or not is_writable(op):
        return None
    layout = op.options.get("layout", op.kind.layout)
    if op.body is None and (layout == "value" or op.namespace != "aten"):
        return None
    # Traces show calls as they were made: `dim=0` too, where that is the default.
    defaults = [a for a in op._schema.arguments if a.has_default and not a.kwarg_only]
    if op.body is None and defaults and not op.kind.is_direct(op) and not bound:
        return None
    if op.list_positions and (op.body is not None or op.kind.is_direct(op)):
        return None
    if named and (op.body is not None or len(op.packet.candidates) != 1):
        return None
    w = Writer(op, keywords=second is None, bound=bound)
    write_guard(w, second)
    quick = op.options.get("quick")
    if quick is not None:
        write_attempt(w, quick)
    names = ", ".join(w.texts.values())
    if op.body is not None:
        w.scope["body"] = op.body
        w.lines.append(f"return body({names})")
    else:
        write_kernel(w, names, layout)
        w.lines.append("return answer(tensor_)" if named else "return tensor_")
    return w


def as_int_tuple(name: str, size: int | None) -> str:
    """The line that makes `name_` a tuple where `name` is a list, or the one number of `size`."""
    every = f"({name},)" if size == 1 else f"({name},) * {size}"
    one = "" if size is None else f"{every} if type({name}) is int else "
    return f"{name}_ = {one}tuple({name}) if type({name}) is list else {name}"


def write_guard(w: Writer, second: Any) -> None:
    for argument in w.own:
        if is_int_list(argument.type):
            # The value as a tuple, under a name of its own: overrides see what was given.
            w.lines.append(as_int_tuple(w.texts[argument.name], argument.type.size))
        elif is_tensor_list(argument.type):
            name = w.texts[argument.name]
            # A list of its own: the caller's may change.
            test = f"type({name}) is list or type({name}) is tuple"
            w.lines.append(f"{name}_ = [*{name}] if {test} else {name}")
    if second is None:
        w.lines += w.refuse_if(*w.inexact().values(), *w.strangers)
    else:
        w.scope["second"] = second
        w.lines += w.refuse_if(*w.inexact().values())
        names = ", ".join([*w.tensors, "*rest_", "**others_"])
        w.lines += block("if rest_ or others_:", [f"return second({names})"])
    for argument in w.own:
        if is_int_list(argument.type) or is_tensor_list(argument.type):
            w.texts[argument.name] += "_"


def write_attempt(w: Writer, quick: Quick) -> None:
    """The quick case; what it leaves goes on below."""
    w.scope.update(quick.scope)
    dtype = f"{w.tensors[0]}._dtype"
    record = record_graph(w, quick, dtype) if quick.graph else w.record(w.op.grad_rule, dtype)
    finish = [*w.wrap(dtype), *record, "return tensor_"]
    if quick.result_is_contiguous is None:
        as_array = block("if type(array_) is not ndarray:", ["array_ = asarray(array_)"])
        finish = [*as_array, *block("if array_.flags.c_contiguous:", finish)]
    when, compute = w.fields(quick.when), w.fields(quick.expression)
    for argument in w.own:
        # A keyword that the texts do not speak of may not be given.
        if argument.kwarg_only and f"{argument.name} is None" not in when:
            when = f"{w.texts[argument.name]} is None and {when}"
    w.add(QUICK, when=when, compute=compute, finish=finish)


def record_graph(w: Writer, quick: Quick, dtype: str) -> list[str]:
    """The graph of a composite in one piece: a node for each step that gradients pass."""
    known: dict[str, Operand] = {name: PlainTensor(name) for name in w.tensors}
    lines: list[str] = []
    sources: dict[str, None] = {}
    for step in quick.graph:
        op = ports.find_packet("aten", step.op).candidates[0]
        rule = op.grad_rule
        w.mention(rule)
        operands = {
            name: known.get(text) or Value(text)
            for name, text in zip(op.argument_names, step.arguments, strict=True)
        }
        own = [operands[n].text for n in rule.inputs if operands[n].text in w.tensors]
        sources.update(dict.fromkeys(own))
        if step is quick.graph[-1]:
            metas = [f"({text}.shape, {dtype}, None)" for text in (step.array, step.also) if text]
            lines += rule.node_lines(operands)
            lines += [f"node_.output_metas = ({', '.join(metas)},)"]
            lines += ["tensor_._node = node_", "tensor_._requires_grad = True"]
            lines += rule.output_lines(["tensor_", f"wrap({step.also}, {dtype})"])
            break
        tensor, node = f"{step.result}_", f"{step.result}_node_"
        made = rule.node_lines(operands, node)
        made += [f"{node}.output_metas = (({step.array}.shape, {dtype}, None),)"]
        if op.is_view_op:
            known[step.result] = Between(own[0], step.array, node)
        else:
            known[step.result] = PlainTensor(tensor)
            lines += fill_tensor(tensor, step.array, dtype)
            made += [f"{tensor}._node = {node}", f"{tensor}._requires_grad = True"]
            made += rule.output_lines([tensor], node)
        lines += [f"{node} = None", *block(f"if {' or '.join(map(wants_text, own))}:", made)]
    return if_recording([wants_text(name) for name in sources], lines)


def write_kernel(w: Writer, names: str, layout: str) -> None:
    op, rule, arrays = w.op, w.op.grad_rule, w.arrays()
    if not op.kind.is_direct(op):
        # The kind has more to do than to call the kernel.
        w.scope["backend"] = op.backend
        w.lines.append(f"tensor_ = backend({names})")
        write_attached(w, names)
        return
    w.scope.update(kernel=op.array_kernel, finish=op.kind.finish)
    value = f"kernel(np, {arrays})"
    if len(op._schema.returns) == 1 and layout in ("contiguous", "like"):
        value = "array_"
        like = f" and {w.tensors[0]}._is_contiguous" if layout == "like" else ""
        record = w.record(rule, "dtype_", "if recording_ and dtype_.category > 1")
        if rule is not None and not op.options.get("ends_gradients"):
            # Whole numbers have no gradient: `attach` says so.
            attached = [f"attach(op, make_node({names}), tensor_)"]
            record += if_recording(w.wants(rule), attached, "elif recording_")
            w.scope["make_node"] = rule.make_node
        w.add(KERNEL, arrays=arrays, like=like, wrap=w.wrap("dtype_"), record=record)
    w.lines.append(f"tensor_ = finish(op, ({names},), {value}, {layout!r})")
    write_attached(w, names)


def write_attached(w: Writer, names: str) -> None:
    rule = w.op.grad_rule
    if rule is not None:
        w.scope["make_node"] = rule.make_node
        w.lines += if_recording(w.wants(rule), [f"attach(op, make_node({names}), tensor_)"])


# -- which overload --------------------------------------------------------------------------------


def is_told_apart(op: Any) -> bool:
    """Whether a call that does not fit an overload means the same to the others of its name when
    its arguments are given by position and without defaults."""
    for other in op.packet.candidates:
        for argument, counterpart in zip(op._schema.arguments, other._schema.arguments):
            # Left out where it was given as the default, the other would miss it.
            by_keyword = argument.kwarg_only or counterpart.kwarg_only
            if argument.has_default and not (by_keyword or counterpart.has_default):
                return False
        for position, argument in enumerate(op._schema.arguments):
            for place, counterpart in enumerate(other._schema.arguments):
                if argument.kwarg_only or counterpart.name != argument.name:
                    continue
                if place != position or counterpart.kwarg_only:
                    return False
                default = counterpart.default if counterpart.has_default else MISSING
                if argument.has_default and default != argument.default:
                    return False
    return True


def write_first(packet: Any, second: Any, named: bool) -> Writer | None:
    """The stub of a name's first overload: what fits it exactly is bound to no other."""
    if not packet.candidates:
        return None
    op = packet.candidates[0]
    quick = op.options.get("quick")
    if op.functional is not None:
        return write_inplace(op)
    if quick is not None and (op.kind.name == "VIEW" or quick.as_op is not None):
        return write_view(op, quick)
    if not is_told_apart(op):
        return None
    if op.kind.name == "POINTWISE":
        return write_elementwise(op)
    return write_direct(op, second, named)


def write_bound(op: Any) -> Writer | None:
    """The stub of an overload below the API, which takes what its binder answers."""
    quick = op.options.get("quick")
    if op.functional is not None:
        return None if op.out_positions else write_inplace(op, bound=True)
    if quick is not None and (op.kind.name == "VIEW" or quick.as_op is not None):
        return write_view(op, quick, bound=True)
    if op.kind.name == "POINTWISE":
        return write_elementwise(op, bound=True)
    return write_direct(op, bound=True)


def write_second(packet: Any) -> Writer | None:
    """The stub of a second overload that needs more than the one tensor that the first takes."""
    if len(packet.candidates) < 2:
        return None
    first, other = packet.candidates[:2]
    needed = {a.name for a in other._schema.arguments if not a.has_default}
    taken = [a.name for a in first._schema.arguments if not a.kwarg_only]
    if needed <= set(first.argument_names) or len(taken) != 1 or first.tensor_positions != (0,):
        return None
    return write_direct(other) if is_told_apart(other) else None
