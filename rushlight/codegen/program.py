"""From a functional graph to the steps of a program: statements, views and calls.

Every node's value is an expression over its own shape until something needs it in memory: a
result, a call, a reduction's outcome, or several heavy uses. Elementwise ops apply their `scalar`
text to the expression builder, with the promotion of their kind; views change the strides of loads;
the `lower` rules of ops say what else becomes loops. Whatever cannot be said runs as a call of the
op.
Memory has the strides that the node's `meta["val"]` tells, which are those of an eager run.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.arrays.precision import HALVES
from rushlight.base.errors import error
from rushlight.base.pytree import tree_leaves, tree_map
from rushlight.codegen.expressions import (
    BINARY_FUNCTIONS,
    UNARY_FUNCTIONS,
    Builder,
    Expression,
    Factor,
    Inexpressible,
    walk,
)
from rushlight.codegen.extents import Extent, hint_of, is_static, was_one
from rushlight.codegen.loops import Buffer, Ints, Statement, accesses, restrided
from rushlight.codegen.lowerings import METHODS, Lowering
from rushlight.codegen.origins import Origins
from rushlight.codegen.sizes import SizeReader
from rushlight.codegen.values import (
    Call,
    Name,
    Operand,
    Product,
    Scalar,
    Value,
    has_scalars,
    has_variables,
    number_tensor,
)
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload, Refused
from rushlight.core.tensor import Tensor, shell
from rushlight.graph.node import Node
from rushlight.opset.elementwise import POINTWISE, number_array
from rushlight.symbolic.numbers import SymFloat, SymInt, SymNumber

if TYPE_CHECKING:
    from rushlight.fx.graph_module import GraphModule

__all__ = ["LoopProgram", "expression_of", "is_written_late", "read_graph"]

# Expressions beyond these are put into memory before they grow further.
MOST_NODES = 256
MOST_LOADS = 10
LIGHT_NODES = 6


# Lengths up to which float32 sums accumulate in float32: in vector lanes, and one by one.
LONG = 1 << 14
OUTER = 128


class LoopProgram:
    """The steps of a graph and the names that go in and out."""

    def __init__(self, converts_half: bool = True) -> None:
        self.m = Builder(converts_half)
        self.steps: list[Any] = []
        self.inputs: list[tuple[str, Value | None]] = []
        self.constants: dict[str, Any] = {}
        self.outputs: Any = None
        self.values: dict[Any, Any] = {}
        # Names of variables that hold tensors, and buffers over given tensors.
        self.tensors: dict[Value, str] = {}
        self.given: dict[str, Buffer] = {}
        # Whether memory that is written may be another input's too: what a backward has saved.
        self.inputs_share = False
        # Temporaries that are already some value's own memory.
        self.adopted: set[Buffer] = set()
        # Elements of views, which are nobody's tensor.
        self.copies: set[Buffer] = set()
        # What products read and write, in the geometry that it has there.
        self.multiplied: set[Buffer] = set()
        # Whether steps may call kernels that this process has.
        self.runs_steps = True
        self.count = 0
        self.sizes = SizeReader(self.fresh)

    # -- naming and memory -------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def facts(self, value: Tensor) -> tuple[Ints, Ints, dtype]:
        """Sizes, strides and dtype of a tensor without values."""
        sizes, strides = self.sizes.read_all(value.shape), self.sizes.read_all(value.stride())
        return sizes, strides, value.dtype

    def held(self, name: str, shape: Ints, strides: Ints, dtype: dtype) -> Value:
        """The value of a tensor that a variable holds."""
        value = Value(name, shape, strides, dtype, None)
        buffer = Buffer(name, dtype, shape, strides, "given")
        self.given[name] = buffer
        self.tensors[value] = name
        value.buffer = buffer
        if not dtype.is_complex and dtype not in dtypes.FLOAT8:
            value.expr = self.m.load(buffer, strides, 0)
        return value

    def realise(self, value: Value, as_it_is: bool = False) -> Buffer:
        """Put a value into memory with its own strides; `as_it_is`: a view too."""
        if value.buffer is not None:
            return value.buffer
        if value.expr is None:
            raise Inexpressible(value.name)
        if self.adopts(value, value.expr):
            return value.expr.payload[0]  # type: ignore[no-any-return]
        # A view that must be copied may lie as is best.
        copied = value.base is not None and not as_it_is
        strides = geometry.contiguous_strides(value.shape) if copied else value.strides
        buffer = Buffer(self.fresh("b"), value.dtype, value.shape, strides, "temporary")
        if 0 not in value.shape:
            self.steps.append(Statement(buffer, value.shape, strides, value.expr))
        self.adopted.add(buffer)
        if copied:
            self.copies.add(buffer)
        value.buffer = buffer
        value.expr = self.m.load(buffer, strides, 0)
        return buffer

    def adopts(self, value: Value, expr: Expression) -> bool:
        """Let a value take over the memory of a reduction or product that it is, unchanged."""
        if expr.op != "load" or value.base is not None or 0 in value.shape:
            return False
        buffer, strides, offset = expr.payload
        if buffer.role != "temporary" or buffer in self.adopted or offset:
            return False
        here = [pair for pair in zip(value.shape, strides) if pair[0] != 1]
        there = [pair for pair in zip(buffer.shape, buffer.strides) if pair[0] != 1]
        wanted = [pair for pair in zip(value.shape, value.strides) if pair[0] != 1]
        if not here == there == wanted:
            return False
        same = (buffer.shape, buffer.strides) == (value.shape, value.strides)
        if buffer in self.multiplied and not same:
            return False
        self.adopted.add(buffer)
        buffer.shape, buffer.strides = value.shape, value.strides
        value.buffer = buffer
        value.expr = self.m.load(buffer, value.strides, 0)
        return True

    def reused(self, value: Value) -> None:
        """Compute a value once where a rule reads it in several passes."""
        if value.expr is not None and value.buffer is None and is_heavy(value.expr):
            self.realise(value)

    def valued(self, expr: Expression, shape: Ints) -> Value:
        """An expression over `shape` as a value with contiguous memory."""
        return Value("", shape, geometry.contiguous_strides(shape), expr.dtype, expr)

    def stored(self, expr: Expression, shape: Ints) -> Expression:
        """An expression over `shape` computed once, into contiguous memory."""
        value = self.valued(expr, shape)
        self.realise(value)
        assert value.expr is not None
        return value.expr

    def fold(self, kind: str, expr: Expression, shape: Ints, axes: Ints) -> Expression:
        """A reduction over `axes`, as an expression that is constant along them."""
        axes = tuple(sorted(axes))
        kept = tuple([1 if dim in axes else size for dim, size in enumerate(shape)])
        dense = geometry.contiguous_strides(kept)
        strides = tuple([0 if dim in axes else step for dim, step in enumerate(dense)])
        length = 1
        for axis in axes:
            length *= shape[axis]
        inner = runs_inside(expr, shape, axes)
        result = expr.dtype
        most = LONG if inner else OUTER
        is_long = not is_static((length,)) or length > most
        in_strips = False
        if kind == "sum" and result is dtypes.float32 and is_long:
            # Long sums keep their accuracy in double; short stretches of memory first in single.
            last = innermost(expr, shape, axes)
            is_stretch = is_static((shape[last],)) and OUTER < shape[last] <= LONG
            if inner and is_stretch and len(axes) > 1:
                expr = self.fold("sum", expr, shape, (last,))
                shape = tuple([1 if dim == last else size for dim, size in enumerate(shape)])
            expr = self.m.cast(expr, dtypes.float64)
            in_strips = inner and not is_static((length,))
        buffer = Buffer(self.fresh("r"), expr.dtype, kept, dense, "temporary")
        if 0 in shape:
            if 0 not in kept:
                empty = self.m.const(IDENTITIES[kind], expr.dtype)
                self.steps.append(Statement(buffer, kept, dense, empty))
        else:
            moving = tuple([axis for axis in axes if shape[axis] != 1])
            kinds = (kind if moving else None, moving, inner, in_strips)
            self.steps.append(Statement(buffer, shape, strides, expr, *kinds))
        return self.m.cast(self.m.load(buffer, strides, 0), result)

    def product(self, left: Value, right: Value, shape: Ints) -> Expression:
        """A matrix product of float32 or float64, in contiguous memory."""
        dtype = left.dtype
        if dtype not in (dtypes.float32, dtypes.float64) or right.dtype is not dtype:
            raise Inexpressible(f"a product of {dtype} and {right.dtype}")
        if 0 in (*left.shape, *right.shape):
            raise Inexpressible("an empty product")
        strides = geometry.contiguous_strides(shape)
        target = Buffer(self.fresh("p"), dtype, shape, strides, "temporary")
        step = Product(self.operand(left), self.operand(right), target)
        self.multiplied |= step.reads() | {target}
        self.steps.append(step)
        return self.m.load(target, strides, 0)

    def operand(self, value: Value) -> Operand:
        """Memory that holds a value as it is, or with its last two dims swapped."""
        expr = value.expr
        if expr is None:
            raise Inexpressible(value.name)
        if expr.op != "load" and value.base is not None:
            expr = self.through_memory(value)
        found = self.as_operand(value, expr) if expr.op == "load" else None
        if found is None:
            self.realise(value)
            assert value.expr is not None
            found = self.as_operand(value, value.expr)
        assert found is not None
        return found

    def through_memory(self, value: Value) -> Expression:
        """A view's expression over the memory of its base, which both may then share."""
        op, args, pick = value.base
        base = args[0]
        if base.base is None:
            self.realise(base)
        elif base.buffer is None:
            base.expr = self.through_memory(base)
        assert value.expr is not None
        try:
            return viewed(base, op, args[1:], value.shape, pick)
        except Inexpressible:
            return value.expr

    def as_operand(self, value: Value, expr: Expression) -> Operand | None:
        buffer, strides, offset = expr.payload
        if offset == 0 and (buffer.shape, buffer.strides) == (value.shape, strides):
            return buffer, False, None
        turned = (*range(len(strides) - 2), len(strides) - 1, len(strides) - 2)
        shape = tuple([value.shape[dim] for dim in turned])
        steps = tuple([strides[dim] for dim in turned])
        if offset == 0 and (buffer.shape, buffer.strides) == (shape, steps):
            return buffer, True, None
        known = is_static((*buffer.shape, *shape))
        if offset or not known or math.prod(buffer.shape) != math.prod(shape):
            return None
        if buffer.strides != geometry.contiguous_strides(buffer.shape):
            return None
        if strides == geometry.contiguous_strides(value.shape):
            return buffer, False, value.shape
        return (buffer, True, shape) if steps == geometry.contiguous_strides(shape) else None

    # -- geometry of expressions -------------------------------------------------------------------

    def expanded(self, value: Value, shape: Ints) -> Expression:
        """The value's expression over a shape that it broadcasts to."""
        if value.expr is None:
            raise Inexpressible(f"{value.dtype}")
        own = value.shape
        if own == shape:
            return value.expr
        # What was repeated in the example is in every call that guards allow, whatever can be said
        # of its size.
        lead = len(shape) - len(own)
        own = tuple(
            1 if was_one(size) and not was_one(out) else size
            for size, out in zip(own, shape[lead:], strict=True)
        )
        return restrided(
            value.expr,
            lambda strides, offset: (geometry.broadcast_strides(shape, own, strides), offset),
        )

    # -- tensors -----------------------------------------------------------------------------------

    def tensor(self, value: Value) -> str:
        """The name of a variable that holds the value as a tensor."""
        found = self.tensors.get(value)
        if found is not None:
            return found
        if value.base is not None and not self.is_whole(value):
            self.tensors[value] = self.view(value)
            return self.tensors[value]
        buffer = self.realise(value)
        if buffer.role == "temporary":
            buffer.role = "result"
        self.tensors[value] = buffer.name
        return buffer.name

    def view(self, value: Value) -> str:
        """The name of a variable that holds a view as a tensor of its own."""
        op, args, pick = value.base
        name = self.fresh("t")
        given = [self.argument(a) for a in args]
        call = Call(op, given, {}, [name])
        call.picks = pick
        call.views = op.body is None
        if not call.views:
            call.args, call.kwargs = with_keywords(op, given)
            call.through_dispatch = True
        call.given = self.given_to(args)
        self.steps.append(call)
        return name

    def results(self, values: Any) -> Any:
        """What the program returns. A view of an input, or of what it returns too, is a tensor of
        its own: whoever gives one of them another shape leaves the other as it is."""
        leaves = [value for value in tree_leaves(values) if isinstance(value, Value)]
        taken = {self.tensor(value) for value in leaves if value.base is None}

        def result(value: Any) -> Any:
            if not isinstance(value, Value) or value.base is None:
                return self.argument(value)
            name = self.tensor(value)
            memory = value.buffer
            if memory is not None and name == memory.name:
                if memory.role == "given" or name in taken:
                    return Name(self.view(value))
                taken.add(name)
            return Name(name)

        return tree_map(result, values)

    def is_whole(self, value: Value) -> bool:
        """Whether a view is all of some memory as that lies: then that memory's tensor serves."""
        if value.expr is None:
            return False
        expr = self.through_memory(value)
        if expr.op != "load" or expr.dtype is not value.dtype:
            return False
        buffer, strides, offset = expr.payload
        here, there = (value.shape, value.strides), (buffer.shape, buffer.strides)
        if offset or here != there or strides != value.strides:
            return False
        if buffer.role not in ("given", "result", "temporary") or buffer in self.copies:
            return False
        value.buffer = buffer
        value.expr = expr
        return True

    def argument(self, value: Any) -> Any:
        """An argument of a call, tensors by the names of their variables."""
        if isinstance(value, Value):
            return Name(self.tensor(value))
        if isinstance(value, Scalar):
            return Name(value.name)
        if isinstance(value, (list, tuple)):
            return type(value)([self.argument(item) for item in value])
        return value

    def scalar(self, value: Scalar, shape: Ints) -> Expression:
        """A float as an expression over a shape."""
        if value.value is None:
            name = self.fresh("t")
            call = Call(number_tensor, [Name(value.name)], {}, [name])
            self.steps.append(call)
            value.value = self.held(name, (), (), dtypes.float64)
            assert value.value.buffer is not None
            call.made.append(value.value.buffer)
        return self.expanded(value.value, shape)

    def given_to(self, args: Iterable[Any]) -> set[Buffer]:
        found: set[Buffer] = set()
        for value in args:
            if isinstance(value, Value):
                # A view is made from its base, also where its elements were copied.
                if value.base is not None:
                    found |= self.given_to(value.base[1])
                elif value.buffer is not None:
                    found.add(value.buffer)
            elif isinstance(value, (list, tuple)):
                found |= self.given_to(value)
        return found

    def call(
        self,
        node: Node,
        op: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an op as it is. Arguments in the order of its schema come without `kwargs`."""
        if isinstance(op, OpOverload) and op._schema.is_mutable:
            self.settle()
        given = [self.argument(value) for value in args]
        named = {name: self.argument(value) for name, value in (kwargs or {}).items()}
        results: list[str | None] = []
        val: Any = node.meta.get("val")
        many = isinstance(val, (tuple, list))
        made: list[Any] = []
        call = Call(op, given, named, results)
        call.given = self.given_to([*args, *(kwargs or {}).values()])
        for entry in val if many else [val]:
            if not isinstance(entry, Tensor):
                results.append(self.fresh("t") if entry is not None or not many else None)
                made.append(None if results[-1] is None else self.number(entry, results[-1], call))
                continue
            name = self.fresh("t")
            results.append(name)
            self.sizes.bind_tensor(entry, name, call.binds)
            value = self.held(name, *self.facts(entry))
            assert value.buffer is not None
            call.made.append(value.buffer)
            made.append(value)
        call.many = many
        call.through_dispatch = (
            not isinstance(op, OpOverload)
            or op.body is not None
            or bool(op._schema.is_mutable)
            or bool(op.is_view_op and many)
            or kwargs is not None
        )
        is_view = isinstance(op, OpOverload) and bool(op.is_view_op)
        call.views = is_view and not call.through_dispatch
        if call.through_dispatch and isinstance(op, OpOverload) and kwargs is None:
            call.args, call.kwargs = with_keywords(op, given)
        self.steps.append(call)
        return type(val)(made) if many else made[0]

    def number(self, value: Any, name: str, call: Call) -> Any:
        """A result that is no tensor: sizes may depend on it."""
        if isinstance(value, SymFloat):
            return Scalar(name, value)
        if not isinstance(value, SymInt):
            return Name(name)
        self.sizes.bind_number(value, name, call.binds)
        return self.sizes.read(value)

    def settle(self) -> None:
        """Before memory changes: put every pending value that reads given memory into its own."""
        for value in flat_values(self.values.values()):
            if value.expr is None or value.buffer is not None or value.base is not None:
                continue
            if any([node.op == "load" for node in walk(value.expr)]):
                self.realise(value)


IDENTITIES: dict[str, Any] = {
    "sum": 0,
    "prod": 1,
    "any": False,
    "all": True,
    "max": float("-inf"),
    "min": float("inf"),
}


def flat_values(values: Iterable[Any]) -> list[Value]:
    found: list[Value] = []
    for value in values:
        if isinstance(value, Value):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += flat_values(value)
    return found


def walked(expr: Expression, shape: Ints) -> list[int]:
    """For every access that moves along several dims, or the only one: the dim of least stride."""
    found: list[int] = []
    probe = Statement(Buffer("", expr.dtype, (), (), ""), shape, (0,) * len(shape), expr)
    for strides in accesses(probe):
        steps = [(abs(hint_of(s)), d) for d, s in enumerate(strides) if s and shape[d] != 1]
        if len(steps) > 1 or (steps and len([d for d in shape if d != 1]) == 1):
            found.append(min(steps)[1])
    return found


def runs_inside(expr: Expression, shape: Ints, axes: Ints) -> bool:
    """Whether a reduction over `axes` runs along the dim that most loads walk in steps of 1."""
    votes = [dim in axes for dim in walked(expr, shape)]
    return votes.count(True) >= votes.count(False)


def innermost(expr: Expression, shape: Ints, axes: Ints) -> int:
    """The reduced axis that most loads walk in steps of 1."""
    votes = [dim for dim in walked(expr, shape) if dim in axes]
    return max(votes, key=votes.count) if votes else axes[-1]


def bound(op: OpOverload, args: Iterable[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a call in the order of the schema, in the forms that kernels expect: the
    op's own binder makes them, with tensors without values standing for values."""
    stands_for: dict[int, Value | Scalar] = {}

    def stand_in(value: Any) -> Any:
        if isinstance(value, Scalar):
            stands_for[id(value.symbol)] = value
            return value.symbol
        if isinstance(value, Value):
            found = meta_of(value)
            stands_for[id(found)] = value
            return found
        if isinstance(value, (list, tuple)):
            return type(value)([stand_in(item) for item in value])
        return value

    def put_back(value: Any) -> Any:
        if isinstance(value, SymFloat) and id(value) not in stands_for:
            raise Inexpressible("a number that is computed with")
        if isinstance(value, (Tensor, SymFloat)):
            return stands_for[id(value)]
        if isinstance(value, (list, tuple)):
            return type(value)([put_back(item) for item in value])
        return value

    given = [stand_in(value) for value in args]
    named = {name: stand_in(value) for name, value in kwargs.items()}
    return [put_back(value) for value in op.bind(*given, **named)]


def with_keywords(op: OpOverload, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments in the order of the schema as a call gives them: some only by keyword."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, value in zip(op._schema.arguments, values):
        if not argument.kwarg_only:
            args.append(value)
        elif not (argument.has_default and value == argument.default):
            kwargs[argument.name] = value
    return args, kwargs


def meta_of(value: Any) -> Any:
    """An argument for shape rules: tensors without values in place of values."""
    if isinstance(value, Value):
        return shell(value.shape, value.strides, value.dtype, devices.meta)
    if isinstance(value, Extent):
        # Only that it is an integer counts.
        return value.hint
    if isinstance(value, Scalar):
        return 0.5
    if isinstance(value, (list, tuple)):
        return type(value)([meta_of(item) for item in value])
    return value


# -- elementwise ops ------------------------------------------------------------------------------


# Loops compute in no such dtype: halves are widened, unless they are rounded at every step.
UNWRITTEN = frozenset((*dtypes.FLOAT8, *HALVES))


def operand(program: LoopProgram, value: Any, shape: Ints) -> Any:
    if isinstance(value, Value):
        return program.expanded(value, shape)
    if isinstance(value, Extent):
        return program.m.const(value, dtypes.int64)
    if value is not None and type(value) not in (int, float, bool, Scalar):
        raise Inexpressible(f"a {type(value).__name__}")
    return value


def scalar_operand(
    program: LoopProgram, op: OpOverload, plan: Any, position: int, value: Scalar, shape: Ints
) -> Expression:
    """A float that is known late as an operand, in the dtypes that a constant would have."""
    is_factor = position in op.options.get("factors", ())
    chain = dict(plan.casts).get(position, (plan.working,) if is_factor else ())
    if not chain:
        raise Inexpressible("a text that looks at a number")
    expr = program.scalar(value, shape)
    for target in chain:
        expr = program.m.cast(expr, target)
    return Factor(expr) if is_factor else expr


def apply_text(program: LoopProgram, op: OpOverload, args: list[Any], val: Any) -> Any:
    """The expression of an elementwise op, in the dtypes that its kind computes in."""
    options = op.options
    text = options.get("scalar")
    own = op.rules.get("kernel")
    if text is None or (own is not None and own is not text):
        raise Inexpressible(op.name())
    m = program.m
    plan = POINTWISE.plan(op, tuple([meta_of(value) for value in args]))
    if plan.working.is_complex or plan.working in UNWRITTEN or plan.result.is_complex:
        raise Inexpressible(f"{plan.working}")
    first = val[0] if isinstance(val, (tuple, list)) else val
    shape = program.sizes.read_all(first.shape)
    given: list[Any] = list(args)
    for position in op.tensor_positions:
        given[position] = operand(program, args[position], shape)
    for position, chain in plan.casts:
        if isinstance(args[position], Extent):
            given[position] = m.const(args[position], dtypes.int64)
        if isinstance(args[position], (Value, Extent)):
            for target in chain:
                given[position] = m.cast(given[position], target)
        elif isinstance(args[position], Scalar):
            continue
        elif position in op.options.get("factors", ()):
            # Texts look whether it is 1.
            given[position] = number_array(args[position], chain).item()
        else:
            given[position] = m.const(number_array(args[position], chain).item(), chain[-1])
    for position, value in enumerate(args):
        if isinstance(value, Scalar):
            given[position] = scalar_operand(program, op, plan, position, value, shape)
    try:
        found = text(m, *given)
    except (AttributeError, TypeError) as error:
        # The text asks of an operand what only arrays have.
        raise Inexpressible(str(error)) from None
    if isinstance(found, tuple):
        return tuple([m.cast(e, entry.dtype) for e, entry in zip(found, val, strict=True)])
    return m.cast(found, plan.result)


# -- views ----------------------------------------------------------------------------------------


def view_geometry(
    op: OpOverload, shape: Ints, strides: Ints, rest: list[Any], dtype: dtype, wanted: Ints
) -> Any:
    """Sizes, strides and offset of a view, or a list of those; `wanted` are its sizes."""
    if op.options.get("reshapes"):
        if geometry.numel(wanted) != geometry.numel(shape):
            raise Inexpressible("another number of elements")
        found = geometry.view_strides(shape, strides, wanted)
        if found is None:
            raise Inexpressible("a reshape that copies")
        return wanted, found, 0
    try:
        return op.rule("shape")(shell(shape, strides, dtype, devices.meta), *rest)
    except RuntimeError as error:
        raise Inexpressible(str(error)) from None


def apply_view(program: LoopProgram, op: OpOverload, args: list[Any], val: Any) -> Any:
    """A view's expression, that of its base with other strides; a tuple for several views."""
    base, rest = args[0], args[1:]
    if base.expr is None or any([isinstance(item, (Value, Tensor)) for item in rest]):
        raise Inexpressible(op.name())
    several = isinstance(val, (tuple, list))
    sizes = [program.sizes.read_all(entry.shape) for entry in (val if several else [val])]
    picks = range(len(sizes)) if several else [None]

    def views() -> Any:
        found = [viewed(base, op, rest, wanted, pick) for wanted, pick in zip(sizes, picks)]
        return tuple(found) if several else found[0]

    try:
        return views()
    except Inexpressible:
        # Strides of a broadcast or permuted operand may not allow it: those of memory may.
        if base.buffer is not None:
            raise
    program.realise(base)
    return views()


def viewed(base: Value, op: OpOverload, rest: list[Any], wanted: Ints, pick: Any) -> Expression:
    """The expression of a view of these sizes; `pick` says which of several."""

    def change(strides: Ints, offset: int) -> tuple[Ints, int]:
        found = view_geometry(op, base.shape, strides, rest, base.dtype, wanted)
        if pick is not None:
            found = found[pick]
        if len(found) != 3:
            raise Inexpressible("a view in another dtype")
        if tuple(found[0]) != wanted:
            raise Inexpressible("sizes in another form")
        return tuple(found[1]), offset + found[2]

    assert base.expr is not None
    return restrided(base.expr, change)


# -- the walk -------------------------------------------------------------------------------------


def is_heavy(expr: Expression) -> bool:
    """Whether computing it twice costs more than reading it again."""
    nodes = walk(expr)
    loads = {n.payload[0] for n in nodes if n.op == "load"}
    costly = any([n.op in UNARY_FUNCTIONS or n.op in BINARY_FUNCTIONS for n in nodes])
    return costly or len(loads) > 1 or len(nodes) > LIGHT_NODES


def is_large(expr: Expression) -> bool:
    nodes = walk(expr)
    return len(nodes) > MOST_NODES or len([n for n in nodes if n.op == "load"]) > MOST_LOADS


def read_graph(
    module: GraphModule,
    example_inputs: Sequence[Any] | None,
    converts_half: bool = True,
    runs_steps: bool = True,
) -> LoopProgram:
    """The program of a GraphModule whose nodes carry `meta["val"]`."""
    program = LoopProgram(converts_half)
    program.runs_steps = runs_steps
    examples = iter(() if example_inputs is None else example_inputs)
    given = [node for node in module.graph.nodes if node.op == "placeholder"]
    read_inputs(program, given, [node.meta.get("val", next(examples, None)) for node in given])
    origins = Origins(program)
    for node in module.graph.nodes:
        if node.op != "placeholder":
            read_node(program, module, node)
            origins.note(node)
    program.inputs_share = any(map(is_written_late, module.graph.nodes))
    return program


def is_written_late(node: Node) -> bool:
    """Whether it is a write of a backward. A forward's inputs are told apart before the call, what
    its backward saves is not."""
    return bool(node.meta.get("partitioner_tag") == "must_be_in_backward")


def read_inputs(program: LoopProgram, nodes: list[Node], examples: list[Any]) -> None:
    named = [(program.fresh("x"), example) for example in examples]
    program.sizes.bind_inputs(named)
    for node, (name, example) in zip(nodes, named, strict=True):
        if isinstance(example, Tensor):
            value = program.held(name, *program.facts(example))
            program.values[node] = value
            program.inputs.append((name, value))
        else:
            if isinstance(example, SymInt):
                program.values[node] = program.sizes.read(example)
            elif isinstance(example, SymFloat):
                program.values[node] = Scalar(name, example)
            else:
                program.values[node] = Name(name)
            program.inputs.append((name, None))


def read_node(program: LoopProgram, module: GraphModule, node: Node) -> None:
    if node.op == "get_attr":
        found = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        name = program.fresh("c")
        program.constants[name] = found
        if isinstance(found, Tensor):
            program.values[node] = program.held(name, *program.facts(found))
        else:
            program.values[node] = Name(name)
    elif node.op == "output":
        program.outputs = program.results(values_in(program, node.args[0]))
    elif node.op == "call_function":
        program.values[node] = read_call(program, node)
    else:
        raise error("RL0802", NotImplementedError, node=node.name, op=node.op)


def values_in(program: LoopProgram, value: Any) -> Any:
    """A node's argument with values in place of nodes."""
    if isinstance(value, (list, tuple)):
        items = [values_in(program, item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {name: values_in(program, item) for name, item in value.items()}
    return program.values[value] if isinstance(value, Node) else value


def read_call(program: LoopProgram, node: Node) -> Any:
    op = node.target
    args = values_in(program, tuple(node.args))
    kwargs = values_in(program, dict(node.kwargs))
    if op is operator.getitem and isinstance(args[0], (tuple, list)):
        return args[0][args[1]]
    number = node.meta.get("val")
    if isinstance(number, SymInt) and program.sizes.knows(number):
        return program.sizes.read(number)
    if not isinstance(op, OpOverload) or has_variables([*args, *kwargs.values()]):
        return program.call(node, op, list(args), kwargs)
    try:
        given = bound(op, args, kwargs)
    except Inexpressible:
        return program.call(node, op, list(args), kwargs)
    val: Any = node.meta.get("val")
    found: Any = None
    facts: list[tuple[Ints, Ints, dtype] | None] = []
    if val is not None and not op._schema.is_mutable:
        try:
            found = expression_of(program, op, given, val)
            entries = val if isinstance(found, tuple) else [val]
            facts = [None if entry is None else program.facts(entry) for entry in entries]
        except Inexpressible:
            # What was put into memory on the way is dropped if nothing reads it.
            found = None
    if found is None:
        return program.call(node, op, given)
    several = isinstance(found, tuple)
    values: list[Any] = []
    is_view = op.rule("lower") == "view"
    for at, expr in enumerate(found if several else (found,)):
        known = facts[at]
        if expr is None or known is None:
            values.append(None)
            continue
        value = Value(node.name, *known, expr)
        if is_view:
            value.base = (op, given, at if several else None)
        elif (len(node.users) > 1 and is_heavy(expr)) or is_large(expr):
            program.realise(value)
        values.append(value)
    return tuple(values) if several else values[0]


def expression_of(program: LoopProgram, op: OpOverload, args: list[Any], val: Any) -> Any:
    """The expression of a call, a tuple for several results; raises `Inexpressible`."""
    entries = val if isinstance(val, (tuple, list)) else [val]
    for entry in entries:
        if isinstance(entry, SymNumber):
            raise Inexpressible("a number")
        if isinstance(entry, (tuple, list)):
            raise Inexpressible("lists of results")
        if entry is not None and entry.device.type not in ("cpu", "meta"):
            raise Inexpressible(f"on {entry.device}")
    rule = op.rule("lower")
    if rule is None or isinstance(rule, Refused):
        raise Inexpressible(op.name())
    if rule != "text" and has_scalars(args):
        raise Inexpressible("a number that is known late")
    if rule == "view":
        return apply_view(program, op, args, val)
    if rule == "text":
        return apply_text(program, op, args, val)
    return METHODS.get(rule, rule)(Lowering(program, val), op, *args)
