"""Steps of a C library that are calls of its kernels: what each op says in C.

A rule gets the op's arguments by name and its results, as views. What it cannot say it refuses; ops
without a rule are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight.base.errors import error
from rushlight.codegen.extents import Extent
from rushlight.codegen.loops import Buffer
from rushlight.codegen.values import Call, Name, Value
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload, Refused
from rushlight.deploy.ckernels import TYPES

if TYPE_CHECKING:
    from rushlight.deploy.csource import CSource

__all__ = ["View", "decompositions", "refuse", "write_step"]

MOST_DIMS = 12
NO_MEMORY = "no memory is left"
OUTSIDE = "an index is outside of its dim"
ARITHMETIC = ("float32", "float64")


def refuse(what: str) -> Exception:
    return error("RL1587", NotImplementedError, what=what)


class View(NamedTuple):
    """Memory as an operand sees it; steps and the offset are in elements."""

    memory: str
    shape: tuple[Any, ...]
    steps: tuple[Any, ...]
    offset: Any
    dtype: dtype

    def moved(self, axis: int, start: Any) -> View:
        return self._replace(offset=self.offset + start * self.steps[axis])

    def padded(self, front: int, ndim: int) -> View:
        """With dims of one element behind the first `front`, up to `ndim` in all."""
        more = ndim - len(self.shape)
        return self._replace(
            shape=(*self.shape[:front], *[1] * more, *self.shape[front:]),
            steps=(*self.steps[:front], *[0] * more, *self.steps[front:]),
        )

    def expanded(self, shape: Sequence[Any]) -> View:
        """Broadcast to a shape."""
        strides = geometry.broadcast_strides(tuple(shape), self.shape, self.steps)
        return self._replace(shape=tuple(shape), steps=tuple(strides))


class Step:
    """One call: its arguments by name, its results, and the text that it becomes."""

    def __init__(self, source: CSource, call: Call) -> None:
        self.source = source
        self.call = call
        op = call.op
        if not isinstance(op, OpOverload):
            raise refuse(f"a step that is {op}")
        self.op = op
        self.arguments: dict[str, Any] = {}
        for place, argument in enumerate(op._schema.arguments):
            if place < len(call.args):
                value = call.args[place]
            else:
                value = call.kwargs.get(argument.name, argument.default)
            self.arguments[argument.name] = value
        self.results: list[Any] = [
            None if name is None else self.view(Name(name)) for name in call.results
        ]

    def __getitem__(self, name: str) -> Any:
        """An argument: tensors as views, others as they are."""
        return self.operand(self.arguments[name])

    def operand(self, value: Any) -> Any:
        if isinstance(value, Name):
            return self.view(value)
        if isinstance(value, (list, tuple)):
            return [self.operand(item) for item in value]
        return value

    def number(self, name: str) -> Any:
        value = self.arguments[name]
        if type(value) not in (int, float, bool):
            raise refuse(f"{self.op} of a number that only a call tells")
        return value

    def numbers(self, name: str, count: int) -> list[int]:
        """A list of integers, one for each dim."""
        values = self.arguments[name]
        values = [values] if isinstance(values, (int, Extent)) else list(values or ())
        if any([type(value) is not int for value in values]):
            raise refuse(f"{self.op} of a number that only a call tells")
        return values * count if len(values) == 1 else values

    def view(self, name: Name) -> View:
        source = self.source
        buffer = source.program.given.get(name.name)
        value = source.values.get(name.name)
        if value is not None and value.base is not None:
            return self.through(value)
        if value is not None and value.buffer is not None:
            buffer = value.buffer
        if not isinstance(buffer, Buffer):
            raise refuse(f"{self.op} of a value that is no tensor")
        return self.of_buffer(buffer)

    def of_buffer(self, buffer: Buffer) -> View:
        if len(buffer.shape) > MOST_DIMS:
            raise refuse(f"a tensor of more than {MOST_DIMS} dims")
        memory = self.source.pointer(buffer)
        return View(memory, buffer.shape, buffer.strides, 0, buffer.dtype)

    def through(self, value: Value) -> View:
        """A view, as its base's memory shows it."""
        expr = self.source.program.through_memory(value)
        if expr.op != "load" or expr.dtype is not value.dtype:
            raise refuse(f"{self.op} of a view that is no memory")
        buffer, strides, offset = expr.payload
        base = self.of_buffer(buffer)
        return base._replace(shape=value.shape, steps=tuple(strides), offset=offset)

    # -- text --------------------------------------------------------------------------------------

    def size(self, value: object) -> str:
        return self.source.size(value)

    def at(self, view: View) -> str:
        """The address of a view's first element."""
        if type(view.offset) is int and view.offset == 0:
            return view.memory
        return f"{view.memory} + {self.size(view.offset)} * {view.dtype.itemsize}"

    def literal(self, view: View | None) -> str:
        """A view as C takes it; one without memory for None."""
        if view is None:
            return "&(view){0}"
        lists = [self.source.sizes(values) for values in (view.shape, view.steps)]
        return f"&(view){{{self.at(view)}, {len(view.shape)}, {lists[0]}, {lists[1]}}}"

    def kernel(self, name: str, function: str, *args: Any, of: dtype | None = None) -> str:
        """A call of a kernel; `of` is the dtype that it is for."""
        if of is not None:
            if of.name not in TYPES:
                raise refuse(f"{self.op} of {of.name}")
            function = f"{function}_{TYPES[of.name][1]}"
        self.source.need(name, None if of is None else of.name)
        words = [self.literal(arg) if isinstance(arg, View) else str(arg) for arg in args]
        return f"{function}({', '.join(words)})"

    def put(self, line: str) -> None:
        self.source.put(line)

    def copy(self, to: View, origin: View) -> None:
        if to.dtype is not origin.dtype:
            raise refuse(f"{self.op} of several dtypes")
        self.source.copy(self.at(to), to.steps, self.at(origin), origin.steps, to.shape, to.dtype)

    def fill(self, to: View, value: Any) -> None:
        self.put(
            f"{self.kernel('fill', 'fill', to, self.constant(value, to.dtype), to.dtype.itemsize)};"
        )

    def constant(self, value: Any, of: dtype) -> str:
        """A number's bytes."""
        if of.name not in TYPES:
            raise refuse(f"{self.op} of {of.name}")
        data = np.asarray(value).astype(of.np).tobytes()
        return f"(const uint8_t[]){{{', '.join(map(str, data))}}}"

    def checked(self, text: str, message: str) -> None:
        self.put(f'if ({text}) FAIL("{message}");')

    def arithmetic(self, view: View) -> dtype:
        """The dtype of an operand that is computed with."""
        if view.dtype.name not in ARITHMETIC:
            raise refuse(f"{self.op} of {view.dtype.name}")
        return view.dtype


# Ops that become loops for some operands, and calls for others.
NORMS = frozenset(
    (
        "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
        "native_group_norm",
    )
)  # fmt: skip
Rule = Callable[[Step], None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def keep(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return keep


def write_step(source: CSource, call: Call) -> None:
    """Put the text of a call into a source."""
    found = RULES.get(rule_name(call.op))
    if found is None:
        raise refuse(f"a step that is {call.op}")
    found(Step(source, call))


def rule_name(op: Any) -> str:
    return str(op).removeprefix("aten.").removesuffix(".default")


def decompositions() -> dict[Any, Any]:
    """What takes ops apart that are neither loops nor have a rule here."""
    from rushlight.aot.decompositions.tables import core_aten_decompositions, decomposition_table

    core_aten_decompositions()
    return {
        op: how
        for op, how in decomposition_table.items()
        if rule_name(op) not in RULES and (op.base_name in NORMS or not has_loops(op))
    }


def has_loops(op: OpOverload) -> bool:
    rule = op.rule("lower")
    return rule is not None and not isinstance(rule, Refused)


def axis_of(step: Step, view: View, name: str = "dim") -> int:
    dim = step.number(name)
    return int(dim) % max(len(view.shape), 1)


def as_line(view: View) -> View:
    """A number as a tensor of one element."""
    return view if view.shape else view._replace(shape=(1,), steps=(1,))


# -- moving elements -------------------------------------------------------------------------------


@rule("cat")
def _(step: Step) -> None:
    (result,) = step.results
    parts = [part for part in step["tensors"] if part.shape != (0,)]
    axis = axis_of(step, result)
    before: Any = 0
    for part in parts:
        step.copy(result.moved(axis, before)._replace(shape=part.shape), part)
        before = before + part.shape[axis]


@rule("constant_pad_nd")
def _(step: Step) -> None:
    (result,) = step.results
    self, pad = step["self"], step["pad"]
    if any([type(width) is not int for width in pad]):
        raise refuse("a padding that only a call tells")
    inner, origin = result, self
    shape = list(self.shape)
    for back in range(len(pad) // 2):
        axis = len(shape) - 1 - back
        low, high = pad[2 * back], pad[2 * back + 1]
        inner, origin = inner.moved(axis, max(low, 0)), origin.moved(axis, max(-low, 0))
        shape[axis] = shape[axis] + min(low, 0) + min(high, 0)
    step.fill(result, step.number("value"))
    step.copy(inner._replace(shape=tuple(shape)), origin)


@rule("flip")
def _(step: Step) -> None:
    (result,) = step.results
    self = step["self"]
    origin = self
    for dim in step.arguments["dims"]:
        axis = dim % max(len(self.shape), 1)
        if self.shape:
            steps = list(origin.steps)
            steps[axis] = -steps[axis]
            origin = origin.moved(axis, self.shape[axis] - 1)._replace(steps=tuple(steps))
    step.copy(result, origin)


@rule(*[f"{kind}_pad{dims}d" for kind in ("reflection", "replication") for dims in (1, 2, 3)])
def _(step: Step) -> None:
    (result,) = step.results
    dims = int(step.op.base_name[-2])
    padding = step.numbers("padding", 2 * dims)
    before = [padding[2 * (dims - 1 - axis)] for axis in range(dims)]
    self = step["self"]
    leading = len(self.shape) - dims
    words = f"(const int64_t[]){{{', '.join(map(str, [*[0] * leading, *before]))}}}"
    mirrored = int(step.op.base_name.startswith("reflection"))
    args = (self, result, words, mirrored, self.dtype.itemsize)
    step.put(f"{step.kernel('edges', 'padded', *args)};")


@rule("arange.start_step")
def _(step: Step) -> None:
    (result,) = step.results
    kind, start, by = result.dtype.name, step["start"], step["step"]
    if kind not in TYPES or type(by) not in (int, float):
        raise refuse(f"numbers in steps of {kind}")
    made = TYPES[kind][0]
    first = repr(start) if isinstance(start, float) else step.size(start)
    count = step.size(result.shape[0])
    step.put(f"for (int64_t at = 0; at < {count}; at++)")
    step.put(f"    (({made} *){step.at(result)})[at] = ({made})({first} + at * ({by!r}));")


@rule("empty_strided", "empty.memory_format", "new_empty", "new_empty_strided")
def _(step: Step) -> None:
    """Memory alone, which its result has by now."""


@rule("gather")
def _(step: Step) -> None:
    (result,) = step.results
    self, index = as_line(step["self"]), as_line(step["index"])
    check_index(index)
    axis, width = axis_of(step, self), self.dtype.itemsize
    args = (self, index, as_line(result), axis, width, 0)
    step.checked(step.kernel("gathering", "along", *args), OUTSIDE)


@rule("index_select")
def _(step: Step) -> None:
    (result,) = step.results
    self, index = as_line(step["self"]), as_line(step["index"])
    choose(step, result, self, {axis_of(step, self): index})


@rule("embedding")
def _(step: Step) -> None:
    (result,) = step.results
    choose(step, result, step["weight"], {0: step["indices"]})


@rule("scatter.src", "scatter.value", "scatter_add")
def _(step: Step) -> None:
    (result,) = step.results
    self, index = as_line(step["self"]), as_line(step["index"])
    check_index(index)
    step.copy(result, step["self"])
    axis = axis_of(step, self)
    if "value" in step.arguments:
        source = number_view(step, step.number("value"), self.dtype)
    else:
        source = as_line(step["src"])
    source = source.expanded(index.shape) if not source.shape else source
    to = as_line(result)
    if step.op.base_name == "scatter_add":
        text = step.kernel("adding", "add_along", source, index, to, axis, of=self.dtype)
    else:
        text = step.kernel("gathering", "along", source, index, to, axis, self.dtype.itemsize, 1)
    step.checked(text, OUTSIDE)


def number_view(step: Step, value: Any, of: dtype) -> View:
    name = f"n{step.source.blocks}"
    step.source.take(name, str(of.itemsize))
    step.put(f"memcpy({name}, {step.constant(value, of)}, {of.itemsize});")
    return View(name, (), (), 0, of)


def check_index(index: View) -> None:
    if index.dtype.name != "int64":
        raise refuse(f"an index of {index.dtype.name}")


@rule("index.Tensor")
def _(step: Step) -> None:
    (result,) = step.results
    choose(step, result, step["self"], chosen(step))


@rule("index_put")
def _(step: Step) -> None:
    (result,) = step.results
    self = step["self"]
    step.copy(result, self)
    picks, values = chosen(step), step["values"]
    dims, first, shape = choice(self, picks)
    literals = pick_literals(step, picks, shape[first : first + ndim_of(picks)])
    values = values.expanded(shape)
    args = [result, len(dims), literals, dims_literal(dims), values, first]
    if step.arguments["accumulate"]:
        text = step.kernel("adding picked", "add_all", *args, of=self.dtype)
    else:
        text = step.kernel("picking", "put_all", *args, self.dtype.itemsize)
    step.checked(text, OUTSIDE)


def chosen(step: Step) -> dict[int, View]:
    """The indices by their dims."""
    found = {axis: index for axis, index in enumerate(step["indices"]) if index is not None}
    for index in found.values():
        check_index(index)
    return found


def ndim_of(picks: dict[int, View]) -> int:
    return max([len(index.shape) for index in picks.values()])


def choice(table: View, picks: dict[int, View]) -> tuple[list[int], int, tuple[Any, ...]]:
    """The dims that are indexed, where the indices' dims begin in the choice, and its sizes."""
    dims = sorted(picks)
    together = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if together else 0
    shape: tuple[Any, ...] = ()
    for index in picks.values():
        shape = tuple(geometry.broadcast_shapes(shape, index.shape))
    others = [size for dim, size in enumerate(table.shape) if dim not in picks]
    return dims, first, (*others[:first], *shape, *others[first:])


def pick_literals(step: Step, picks: dict[int, View], shape: Sequence[Any]) -> str:
    found = [step.literal(picks[axis].expanded(shape)) for axis in sorted(picks)]
    return f"(const view[]){{{', '.join([text.removeprefix('&(view)') for text in found])}}}"


def dims_literal(dims: Sequence[int]) -> str:
    return f"(const int[]){{{', '.join(map(str, dims))}}}"


def choose(step: Step, result: View, table: View, picks: dict[int, View]) -> None:
    for index in picks.values():
        check_index(index)
    dims, first, shape = choice(table, picks)
    literals = pick_literals(step, picks, shape[first : first + ndim_of(picks)])
    args = (table, len(dims), literals, dims_literal(dims), result, first, table.dtype.itemsize)
    step.checked(step.kernel("picking", "pick_all", *args), OUTSIDE)


# -- order -----------------------------------------------------------------------------------------


@rule("sort", "sort.stable", "topk")
def _(step: Step) -> None:
    values, picks = step.results
    self = as_line(step["self"])
    backwards = step.arguments.get("descending", step.arguments.get("largest"))
    lines = as_line(values), as_line(picks)
    args = (self, *lines, axis_of(step, self), int(bool(backwards)))
    step.checked(step.kernel("sorting", "sort", *args, of=self.dtype), NO_MEMORY)


@rule("argmax", "argmin")
def _(step: Step) -> None:
    (result,) = step.results
    self = as_line(step["self"])
    if step.arguments["dim"] is None:
        self, kept, axis = line_of(step, self), result._replace(shape=(1,), steps=(1,)), 0
    else:
        axis = axis_of(step, self)
        kept = with_axis(result, axis, len(self.shape))
    extreme(step, self, None, kept, axis)


@rule("max.dim", "min.dim")
def _(step: Step) -> None:
    values, picks = step.results
    self = as_line(step["self"])
    axis = axis_of(step, self)
    count = len(self.shape)
    extreme(step, self, with_axis(values, axis, count), with_axis(picks, axis, count), axis)


def line_of(step: Step, view: View) -> View:
    """All elements in a row of their own."""
    count: Any = 1
    for size in view.shape:
        count = count * size
    name = f"d{step.source.blocks}"
    step.source.take(name, step.size(count * view.dtype.itemsize))
    dense = geometry.contiguous_strides(view.shape)
    step.copy(View(name, view.shape, tuple(dense), 0, view.dtype), view)
    return View(name, (count,), (1,), 0, view.dtype)


def with_axis(view: View, axis: int, ndim: int) -> View:
    """A reduced result with its axis, if that was dropped."""
    if len(view.shape) == ndim:
        return view
    return view._replace(
        shape=(*view.shape[:axis], 1, *view.shape[axis:]),
        steps=(*view.steps[:axis], 0, *view.steps[axis:]),
    )


def extreme(step: Step, self: View, values: View | None, picks: View, axis: int) -> None:
    if any([type(size) is int and size == 0 for size in self.shape]):
        raise refuse(f"{step.op} of nothing")
    largest = int("max" in step.op.base_name)
    words = step.literal(values)
    step.put(
        f"{step.kernel('extremes', 'extreme', self, words, picks, axis, largest, of=self.dtype)};"
    )


@rule("cumsum", "cumprod")
def _(step: Step) -> None:
    (result,) = step.results
    self = as_line(step["self"])
    if self.dtype is not result.dtype:
        raise refuse(f"{step.op} of several dtypes")
    axis, multiplies = axis_of(step, self), int(step.op.base_name == "cumprod")
    args = (self, as_line(result), axis, multiplies)
    step.put(f"{step.kernel('sums', 'running', *args, of=self.dtype)};")


# -- windows ---------------------------------------------------------------------------------------


def in_space(view: View, dims: int) -> View:
    """Batch, channel and three dims of space."""
    if len(view.shape) == dims + 1:
        view = view._replace(shape=(1, *view.shape), steps=(0, *view.steps))
    return view.padded(2, 5)


def forms(dims: int, *columns: Sequence[int], empty: Sequence[int]) -> str:
    """Options of each of three dims; those that are not there have `empty`."""
    rows = [list(empty)] * (3 - dims) + [list(row) for row in zip(*columns, strict=True)]
    return f"(const int64_t[]){{{', '.join([str(n) for row in rows for n in row])}}}"


@rule("convolution")
def _(step: Step) -> None:
    (result,) = step.results
    self, weight, bias = step["input"], step["weight"], step["bias"]
    of, dims = step.arithmetic(self), len(weight.shape) - 2
    if dims not in (1, 2, 3):
        raise refuse(f"a convolution over {dims} dims")
    columns = [step.numbers(name, dims) for name in ("stride", "padding", "dilation")]
    made = TYPES[of.name][0]
    shift = "NULL" if bias is None else f"(const {made} *)({step.at(bias)})"
    bias_step = 0 if bias is None else step.size(bias.steps[0])
    args = (
        in_space(self, dims), weight.padded(2, 5), shift, bias_step, in_space(result, dims),
        forms(dims, *columns, empty=(1, 0, 1)), int(bool(step.arguments["transposed"])),
        step.number("groups"),
    )  # fmt: skip
    step.checked(step.kernel("convolution", "convolution", *args, of=of), NO_MEMORY)


@rule("max_pool2d_with_indices", "max_pool3d_with_indices")
def _(step: Step) -> None:
    values, picks = step.results
    dims = int(step.op.base_name[8])
    kernel = step.numbers("kernel_size", dims)
    stride = step.numbers("stride", dims) or kernel
    rest = [step.numbers(name, dims) for name in ("padding", "dilation")]
    self, of = step["self"], step.arithmetic(step["self"])
    where = step.literal(None if picks is None else in_space(picks, dims))
    window = forms(dims, kernel, stride, *rest, empty=(1, 1, 0, 1))
    args = (in_space(self, dims), in_space(values, dims), where, window)
    step.put(f"{step.kernel('pooling', 'max_pool', *args, of=of)};")


@rule("avg_pool2d", "avg_pool3d")
def _(step: Step) -> None:
    dims = int(step.op.base_name[8])
    kernel = step.numbers("kernel_size", dims)
    stride = step.numbers("stride", dims) or kernel
    padding = step.numbers("padding", dims)
    window = forms(dims, kernel, stride, padding, [1] * dims, empty=(1, 1, 0, 1))
    divisor = step.arguments["divisor_override"]
    mean_pool(step, dims, window, 0, int(bool(step.arguments["count_include_pad"])), divisor or 0)


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _(step: Step) -> None:
    mean_pool(step, int(step.op.base_name[-2]), "NULL", 1, 0, 0)


def mean_pool(step: Step, dims: int, window: str, *options: int) -> None:
    (result,) = step.results
    self = step["self"]
    args = (in_space(self, dims), in_space(result, dims), window, *options)
    step.put(f"{step.kernel('pooling', 'mean_pool', *args, of=step.arithmetic(self))};")


@rule("upsample_bilinear2d", "upsample_nearest2d")
def _(step: Step) -> None:
    (result,) = step.results
    self = step["self"]
    lines = step.op.base_name == "upsample_bilinear2d"
    aligned = lines and bool(step.arguments["align_corners"])
    scales = []
    for axis, name in ((2, "scales_h"), (3, "scales_w")):
        before, after, factor = self.shape[axis], result.shape[axis], step.arguments[name]
        before, after = step.size(before), step.size(after)
        if aligned:
            scales.append(f"{after} > 1 ? ({before} - 1) / (double)({after} - 1) : 0")
        elif type(factor) in (int, float) and factor > 0:
            scales.append(repr(1 / factor))
        else:
            scales.append(f"{before} / (double){after}")
    words = f"(const double[]){{{', '.join(scales)}}}"
    args = (self, result, words, int(lines), int(aligned))
    step.put(f"{step.kernel('resizing', 'resize', *args, of=step.arithmetic(self))};")


# -- recurrent layers ------------------------------------------------------------------------------


@rule("mkldnn_rnn_layer")
def _(step: Step) -> None:
    output, hidden, cell, _ = step.results
    if step.arguments["batch_sizes"]:
        raise refuse("a recurrent layer over packed sequences")
    of, mode = step.arithmetic(step["input"]), step.number("mode")
    names = ["input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_"]
    given = [dense(step, step[name]) for name in names]
    if not step.number("has_biases"):
        given[3:5] = ["NULL", "NULL"]
    if mode != LSTM:
        given[6] = "NULL"
    lasts = [step.at(hidden), step.at(cell) if mode == LSTM else "NULL"]
    made = TYPES[of.name][0]
    pointers = [f"({made} *)({text})" for text in (*given, step.at(output), *lasts)]
    steps, rows, ins = [step.size(size) for size in step["input"].shape]
    args = (*pointers, steps, rows, ins, step.number("hidden_size"), mode)
    text = step.kernel("recurrent", "recurrent", *args, int(step.number("reverse")), of=of)
    step.checked(text, NO_MEMORY)


LSTM = 2


def dense(step: Step, view: View) -> str:
    """The address of a view's elements in rows, which may be a copy."""
    strides = tuple(geometry.contiguous_strides(view.shape))
    if step.source.sizes(strides) == step.source.sizes(view.steps):
        return step.at(view)
    return step.at(line_of(step, view))
