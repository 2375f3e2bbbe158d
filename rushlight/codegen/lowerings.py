"""Ops that are more than one elementwise text, as loops: reductions, normalisations, fills.

`TABLE` maps an op's name to a rule `(program, args, val) -> expression`, a tuple for several
results; `args` are the schema's in order, tensors as `Value`. Rules compute in the dtypes of the
op's own kernel (halves in float32) and raise `Inexpressible` for the cases they leave to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.codegen.expressions import HALVES, Expression, Inexpressible
from rushlight.codegen.loops import Ints, restrided
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import BOOL, FLOAT, INTEGER, dtype

__all__ = ["TABLE"]

Rule = Callable[[Any, list[Any], Any], Any]
TABLE: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def attach(function: Rule) -> Rule:
        for name in names:
            TABLE[f"aten::{name}"] = function
        return function

    return attach


def working(kind: dtype) -> dtype:
    """The dtype that kernels compute in."""
    if kind.is_complex or kind in dtypes.FLOAT8:
        raise Inexpressible(f"{kind}")
    return dtypes.float32 if kind in HALVES else kind


def widened(program: Any, value: Any) -> Expression:
    """A value's expression in the dtype to compute in."""
    if value.expr is None:
        raise Inexpressible(f"{value.dtype}")
    found: Expression = program.m.cast(value.expr, working(value.dtype))
    return found


def floating(program: Any, value: Any) -> Expression:
    """A float operand that several passes read: computed once, if that is work at all."""
    if value.dtype.category != FLOAT:
        raise Inexpressible(f"{value.dtype}")
    program.reused(value)
    return widened(program, value)


def axes_of(dim: Any, ndim: int, empty_is_all: bool = True) -> Ints:
    """The dims of a `dim` argument: int, list or None."""
    if not ndim:
        return ()
    if dim is None or (type(dim) is not int and not dim and empty_is_all):
        return tuple(range(ndim))
    return geometry.wrap_dims((dim,) if type(dim) is int else dim, ndim)


def without(expr: Expression, axes: Ints) -> Expression:
    """An expression that is constant along `axes` without them."""

    def change(strides: Ints, offset: int) -> tuple[Ints, int]:
        return tuple([step for dim, step in enumerate(strides) if dim not in axes]), offset

    return restrided(expr, change)


def folded(program: Any, kind: str, expr: Expression, value: Any, dim: Any, keepdim: bool) -> Any:
    axes = axes_of(dim, len(value.shape))
    found = program.fold(kind, expr, value.shape, axes)
    return found if keepdim else without(found, axes)


# -- reductions -----------------------------------------------------------------------------------


def summed_dtype(value: Any, given: dtype | None) -> dtype:
    if given is not None:
        return given
    return dtypes.int64 if value.dtype.category <= INTEGER else value.dtype


def accumulated(program: Any, fold: str, value: Any, dim: Any, keepdim: bool, given: Any) -> Any:
    kind = summed_dtype(value, given)
    if kind.category == BOOL or value.expr is None:
        raise Inexpressible(f"{fold} in {kind}")
    m = program.m
    expr = m.cast(widened(program, value), working(kind))
    return m.cast(folded(program, fold, expr, value, dim, keepdim), kind)


@rule("sum")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return accumulated(program, "sum", args[0], None, False, args[1])


@rule("sum.dim_IntList")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return accumulated(program, "sum", *args)


@rule("prod")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return accumulated(program, "prod", args[0], None, False, args[1])


@rule("prod.dim_int")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return accumulated(program, "prod", *args)


def averaged(program: Any, value: Any, dim: Any, keepdim: bool, given: Any) -> Any:
    kind = given or value.dtype
    if kind.category != FLOAT:
        raise Inexpressible(f"mean in {kind}")
    m = program.m
    expr = m.cast(widened(program, value), working(kind))
    total = folded(program, "sum", expr, value, dim, keepdim)
    count = math.prod([value.shape[axis] for axis in axes_of(dim, len(value.shape))])
    return m.cast(m.divide(total, m.const(count, working(kind))), kind)


@rule("mean")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return averaged(program, args[0], None, False, args[1])


@rule("mean.dim")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return averaged(program, *args)


def extreme(fold: str) -> Rule:
    def lower(program: Any, args: list[Any], val: Any) -> Any:
        value = args[0]
        dim, keepdim = (args[1], args[2]) if len(args) > 1 else (None, False)
        if 0 in value.shape:
            raise Inexpressible("an extreme of nothing")
        expr = widened(program, value)
        name = fold
        if expr.dtype.category == BOOL:
            name = "any" if fold == "max" else "all"
        return program.m.cast(folded(program, name, expr, value, dim, keepdim), value.dtype)

    return lower


rule("amax", "max")(extreme("max"))
rule("amin", "min")(extreme("min"))


def truth(fold: str) -> Rule:
    def lower(program: Any, args: list[Any], val: Any) -> Any:
        value = args[0]
        dim, keepdim = (args[1], args[2]) if len(args) > 1 else (None, False)
        expr = program.m.truth(widened(program, value))
        axes = axes_of(dim, len(value.shape), empty_is_all=False)
        found = program.fold(fold, expr, value.shape, axes)
        return program.m.cast(found if keepdim else without(found, axes), val.dtype)

    return lower


rule("any", "any.dim", "any.dims")(truth("any"))
rule("all", "all.dim", "all.dims")(truth("all"))


@rule("count_nonzero", "count_nonzero.dim_IntList")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, dim = args
    expr = program.m.cast(program.m.truth(widened(program, value)), dtypes.int64)
    return folded(program, "sum", expr, value, dim, False)


def spread(program: Any, args: list[Any]) -> tuple[Expression, Expression, dtype]:
    """Variance and mean, in double: differences of near numbers are all that counts here."""
    value, dim, correction, keepdim = args
    m = program.m
    expr = m.cast(floating(program, value), dtypes.float64)
    axes = axes_of(dim, len(value.shape))
    count = math.prod([value.shape[axis] for axis in axes])
    freedom = count - (1 if correction is None else correction)
    if freedom <= 0:
        # The op warns.
        raise Inexpressible("no degrees of freedom")
    mean = m.divide(program.fold("sum", expr, value.shape, axes), float(count))
    centred = m.subtract(expr, mean)
    total = program.fold("sum", m.multiply(centred, centred), value.shape, axes)
    variance = m.divide(total, float(freedom))
    if not keepdim:
        variance, mean = without(variance, axes), without(mean, axes)
    return variance, mean, value.dtype


def narrowed(program: Any, expr: Expression, kind: dtype) -> Expression:
    if kind in HALVES:
        raise Inexpressible("double to half")
    found: Expression = program.m.cast(expr, kind)
    return found


def variance_rule(root: bool, with_mean: bool) -> Rule:
    def lower(program: Any, args: list[Any], val: Any) -> Any:
        variance, mean, kind = spread(program, args)
        first = narrowed(program, program.m.sqrt(variance) if root else variance, kind)
        return (first, narrowed(program, mean, kind)) if with_mean else first

    return lower


for _name, _root in (("var", False), ("std", True)):
    rule(f"{_name}.correction")(variance_rule(_root, False))
    rule(f"{_name}_mean.correction")(variance_rule(_root, True))


# -- softmax --------------------------------------------------------------------------------------


def one_axis(value: Any, dim: int) -> Ints:
    if not value.shape or 0 in value.shape:
        raise Inexpressible("no axis")
    return (geometry.wrap_dim(dim, len(value.shape)),)


@rule("_softmax")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, dim, half_to_float = args
    if half_to_float:
        raise Inexpressible("half_to_float")
    m, axes = program.m, one_axis(value, dim)
    x = floating(program, value)
    top = program.fold("max", x, value.shape, axes)
    powers = program.stored(m.exp(m.subtract(x, top)), value.shape)
    total = program.fold("sum", powers, value.shape, axes)
    return m.cast(m.multiply(powers, m.reciprocal(total)), value.dtype)


@rule("_log_softmax")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, dim, half_to_float = args
    if half_to_float:
        raise Inexpressible("half_to_float")
    m, axes = program.m, one_axis(value, dim)
    x = floating(program, value)
    gap = m.subtract(x, program.fold("max", x, value.shape, axes))
    total = program.fold("sum", m.exp(gap), value.shape, axes)
    return m.cast(m.subtract(gap, m.log(total)), value.dtype)


def softmax_backward(logarithmic: bool) -> Rule:
    def lower(program: Any, args: list[Any], val: Any) -> Any:
        grad, output, dim, kind = args
        m, axes = program.m, one_axis(output, dim)
        if grad.shape != output.shape or grad.dtype is not output.dtype:
            raise Inexpressible("mixed operands")
        g, y = floating(program, grad), floating(program, output)
        if logarithmic:
            total = program.fold("sum", g, output.shape, axes)
            found = m.subtract(g, m.multiply(m.exp(y), total))
        else:
            total = program.fold("sum", m.multiply(g, y), output.shape, axes)
            found = m.multiply(m.subtract(g, total), y)
        return m.cast(found, kind)

    return lower


rule("_softmax_backward_data")(softmax_backward(False))
rule("_log_softmax_backward_data")(softmax_backward(True))


# -- layer norm -----------------------------------------------------------------------------------


def statistic(program: Any, expr: Expression, shape: Ints, axes: Ints) -> Expression:
    """The mean over `axes`."""
    total = program.fold("sum", expr, shape, axes)
    count = math.prod([shape[axis] for axis in axes])
    found: Expression = program.m.divide(total, float(count))
    return found


@rule("native_layer_norm")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, normalized, weight, bias, eps = args
    m, shape = program.m, value.shape
    if 0 in shape:
        raise Inexpressible("nothing to normalise")
    axes = tuple(range(len(shape) - len(normalized), len(shape)))
    x = floating(program, value)
    mean = statistic(program, x, shape, axes)
    centred = m.subtract(x, mean)
    variance = statistic(program, m.multiply(centred, centred), shape, axes)
    rstd = m.reciprocal(m.sqrt(m.add(variance, m.const(eps, x.dtype))))
    result = m.multiply(centred, rstd)
    if weight is not None:
        result = m.multiply(result, m.cast(program.expanded(weight, shape), x.dtype))
    if bias is not None:
        result = m.add(result, m.cast(program.expanded(bias, shape), x.dtype))
    return (m.cast(result, value.dtype), m.cast(mean, val[1].dtype), m.cast(rstd, val[2].dtype))


@rule("native_layer_norm_backward")
def _(program: Any, args: list[Any], val: Any) -> Any:
    grad, value, normalized, mean, rstd, weight, _, mask = args
    m, shape = program.m, value.shape
    if 0 in shape or grad.dtype is not value.dtype:
        raise Inexpressible("nothing to normalise")
    axes = tuple(range(len(shape) - len(normalized), len(shape)))
    outer = tuple(range(len(shape) - len(normalized)))
    g, x = floating(program, grad), floating(program, value)
    kind = x.dtype
    scale = m.cast(program.expanded(rstd, shape), kind)
    normal = m.multiply(m.subtract(x, m.cast(program.expanded(mean, shape), kind)), scale)
    found: list[Any] = [None, None, None]
    parameter = value.dtype if weight is None else weight.dtype
    if mask[0]:
        h = g
        if weight is not None:
            h = m.multiply(g, m.cast(program.expanded(weight, shape), kind))
        average = statistic(program, h, shape, axes)
        along = statistic(program, m.multiply(h, normal), shape, axes)
        rest = m.subtract(m.subtract(h, average), m.multiply(normal, along))
        found[0] = m.cast(m.multiply(rest, scale), value.dtype)
    if mask[1]:
        total = program.fold("sum", m.multiply(g, normal), shape, outer)
        found[1] = m.cast(without(total, outer), parameter)
    if mask[2]:
        found[2] = m.cast(without(program.fold("sum", g, shape, outer), outer), parameter)
    return tuple(found)


# -- products -------------------------------------------------------------------------------------


@rule("mm", "bmm")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return program.product(args[0], args[1], tuple(val.shape))


@rule("addmm", "baddbmm")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, left, right, beta, alpha = args
    m, shape = program.m, tuple(val.shape)
    if value.dtype is not left.dtype or value.expr is None:
        raise Inexpressible("mixed operands")
    found = program.product(left, right, shape)
    if alpha != 1:
        found = m.multiply(found, m.const(alpha, found.dtype))
    if beta == 0:
        return found
    added = program.expanded(value, shape)
    return m.add(found, added if beta == 1 else m.multiply(added, m.const(beta, found.dtype)))


# -- copies and fills -----------------------------------------------------------------------------


@rule("clone")
def _(program: Any, args: list[Any], val: Any) -> Any:
    if args[0].expr is None:
        raise Inexpressible(f"{args[0].dtype}")
    return args[0].expr


@rule("_to_copy")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, layout = args[0], args[2]
    if value.expr is None or (layout is not None and layout.name != "strided"):
        raise Inexpressible("a copy to elsewhere")
    return program.m.cast(value.expr, val.dtype)


@rule("copy")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, source = args[0], args[1]
    return program.m.cast(program.expanded(source, value.shape), value.dtype)


def filled(program: Any, number: Any, val: Any) -> Expression:
    kind = val.dtype
    if kind in HALVES or type(number) not in (bool, int, float):
        raise Inexpressible(f"fill of {kind}")
    if kind.category == INTEGER and int(number) != number:
        raise Inexpressible("a fraction")
    working(kind)
    expr: Expression = program.m.const(number, kind)
    if kind.category != BOOL and expr.payload != number and kind.category == INTEGER:
        raise Inexpressible("out of range")
    return expr


@rule("zeros", "zeros_like")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return filled(program, 0, val)


@rule("ones", "ones_like")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return filled(program, 1, val)


@rule("full", "full_like")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return filled(program, args[1], val)


@rule("scalar_tensor")
def _(program: Any, args: list[Any], val: Any) -> Any:
    return filled(program, args[0], val)


@rule("masked_fill.Scalar")
def _(program: Any, args: list[Any], val: Any) -> Any:
    value, mask, number = args
    shape = tuple(val.shape)
    if mask.dtype is not dtypes.bool_ or value.shape != shape:
        raise Inexpressible("no mask")
    fill = filled(program, number, val)
    m = program.m
    return m.where(program.expanded(mask, shape), fill, program.expanded(value, shape))


def triangle(lower_part: bool) -> Rule:
    def lower(program: Any, args: list[Any], val: Any) -> Any:
        value, diagonal = args
        if value.expr is None or len(value.shape) < 2:
            raise Inexpressible("no matrix")
        m, lead = program.m, (0,) * (len(value.shape) - 2)
        # column - row, compared with the diagonal
        place = m.index((*lead, -1, 1), 0)
        inside = m.less_equal(place, diagonal) if lower_part else m.greater_equal(place, diagonal)
        zero = m.const(0, working(value.dtype))
        return m.cast(m.where(inside, widened(program, value), zero), value.dtype)

    return lower


rule("tril")(triangle(True))
rule("triu")(triangle(False))
