"""NumPy in captured code: calls on arrays are nodes of the graph that run as they are.

What such a call gives, NumPy says itself: it is made on zeros that are laid out like the array. So
only calls are captured whose sizes and dtypes no data decide.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.capture.iterators import Items
from rushlight.capture.outcomes import Break
from rushlight.capture.recording import NATIVE, WRITES, examples_of
from rushlight.capture.tracer import INPLACE, raise_user
from rushlight.capture.values import Bound, Const, Opaque, Seq, Tensor, Var
from rushlight.core.tensor import sizes_of, strides_of

__all__ = ["Array", "attribute", "binary", "is_const", "method", "of_tensor", "special", "wrapped"]

NUMBERS = "biufc"
# Functions and methods of arrays whose results have sizes and dtypes that no data decide, beside
# ufuncs.
SETTLED = {
    "all", "amax", "amin", "any", "append", "arange", "argmax", "argmin", "argsort", "array",
    "asarray", "ascontiguousarray", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "average",
    "broadcast_to", "clip", "column_stack", "concatenate", "copy", "cross", "cumprod", "cumsum",
    "diag", "diagonal", "diff", "dot", "einsum", "empty_like", "expand_dims", "eye", "flatten",
    "flip", "full", "full_like", "hstack", "identity", "inner", "kron", "linspace", "logspace",
    "max", "mean", "median", "meshgrid", "min", "moveaxis", "nan_to_num", "norm", "ones",
    "ones_like", "outer", "pad", "percentile", "prod", "quantile", "ravel", "repeat", "reshape",
    "roll", "rollaxis", "rot90", "round", "sort", "split", "squeeze", "stack", "std", "sum",
    "swapaxes", "take", "take_along_axis", "tensordot", "tile", "trace", "transpose", "tri",
    "tril", "triu", "var", "view", "vsplit", "vstack", "where", "zeros", "zeros_like",
}  # fmt: skip
# Those that take arrays in several places; elsewhere an array might tell a size.
OPERANDS = {
    "append", "array", "asarray", "average", "clip", "column_stack", "concatenate", "copy", "cross",
    "dot", "einsum", "full_like", "hstack", "inner", "kron", "meshgrid", "outer", "percentile",
    "quantile", "stack", "take", "take_along_axis", "tensordot", "vstack", "where",
}  # fmt: skip
# Those that make an array of nothing but numbers.
CREATING = {
    "arange", "eye", "full", "identity", "linspace", "logspace", "ones", "tri", "zeros",
}  # fmt: skip
# What only tells sizes.
TOLD = {"ndim", "shape", "size", "iscomplexobj", "isrealobj", "result_type", "can_cast", "finfo"}
FACTS = {"shape", "ndim", "size", "itemsize", "nbytes", "strides", "dtype"}
PARTS = {"T", "real", "imag", "mT"}
# Functions of the library that make a tensor of an array.
MAKING = {"from_numpy", "as_tensor", "tensor", "asarray"}
HOMES = (np, np.linalg)
FUNCTIONS = {
    id(found): found
    for home in HOMES
    for name in SETTLED | TOLD
    if callable(found := getattr(home, name, None)) and not isinstance(found, type)
}


class Array(Opaque):
    """An array, or a number of NumPy's, that a graph takes or gives."""

    def __init__(self, example: Any, node: Any, source: Any = None) -> None:
        super().__init__(type(example), node)
        self.example = example
        self.source = source

    def is_number(self) -> bool:
        return True


def is_const(value: Any) -> bool:
    return isinstance(value, np.generic | np.dtype)


def is_array(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype.kind in NUMBERS


def zeros(sizes: Any, strides: Any, dtype: Any) -> Any:
    """Zeros that lie in memory as an array with these sizes and strides, in bytes, does."""
    reach = [(size - 1) * stride for size, stride in zip(sizes, strides)] if all(sizes) else []
    first = -sum(part for part in reach if part < 0)
    end = first + sum(part for part in reach if part > 0) + dtype.itemsize
    memory = np.zeros(end, dtype=np.uint8)
    return np.ndarray(tuple(sizes), dtype, memory, first, tuple(strides))


def wrapped(t: Any, value: Any, source: Any) -> Array | None:
    """The variable of an array of the outside; None for others."""
    if not is_array(value):
        return None
    facts = value.dtype, value.shape, value.strides

    def test(text: str, names: Any) -> str:
        found = f"({text}.dtype, {text}.shape, {text}.strides)"
        kind = names.constant(np.ndarray)
        return f"type({text}) is not {kind} or {found} != {names.constant(facts)}"

    t.guards.append(("text", source, test))
    example = zeros(value.shape, value.strides, value.dtype)
    return Array(example, None, source)


def holds_array(t: Any, v: Any) -> bool:
    v = t.real(v)
    return isinstance(v, Array) or (isinstance(v, Seq) and any(holds_array(t, x) for x in v.items))


def special(t: Any, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call of a function of NumPy's; None where it is none that is captured."""
    if isinstance(value, type):
        if not issubclass(value, np.generic) or len(args) != 1 or kwargs:
            return None
        v = t.real(args[0])
        return t.fold(value, t.python(v)) if isinstance(v, Const) else None
    if isinstance(value, np.ufunc) or id(value) in FUNCTIONS:
        return call(t, "call_function", value, args, kwargs)
    is_maker = isinstance(value, types.FunctionType) and value.__name__ in MAKING
    if is_maker and t.world.is_op(value) and any(holds_array(t, a) for a in args):
        return tensor_of(t, value, args, kwargs)
    return None


def argument(t: Any, v: Any) -> Any:
    v = t.real(v)
    if isinstance(v, Tensor):
        raise Break("a function of NumPy's on a tensor")
    if isinstance(v, Seq) and v.kind in (tuple, list):
        return v.kind([argument(t, item) for item in v.items])
    return v.value if isinstance(v, Const) else t.arg(v)


def call(
    t: Any, op: str, target: Any, args: list[Any], kwargs: dict[str, Any], writes: bool = False
) -> Any:
    """A call of NumPy's as a node, or its result where that is a number that is known."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if name in ("asarray", "array") and isinstance(t.real(args[0]), Tensor) and not args[1:]:
        found = of_tensor(t, t.real(args[0]), [], {})
        return found if name == "asarray" else call(t, "call_method", "copy", [found], {})
    if name == "where" and len(args) != 3:
        raise Break("numpy.where, whose result has as many elements as data tell")
    check_operands(t, name, args, kwargs)
    out = output_of(t, target, args, kwargs)
    writes |= out is not None
    nodes = [argument(t, a) for a in args], {key: argument(t, v) for key, v in kwargs.items()}
    given, named = examples_of(nodes)
    with np.errstate(all="ignore"):
        try:
            run = (
                operator.methodcaller(target, *given[1:], **named) if op == "call_method" else None
            )
            example = target(*given, **named) if run is None else run(given[0])
        except Exception as error:
            raise Break(f"numpy.{name}: {error}") from error
    has_arrays = any(holds_array(t, v) for v in [*args, *kwargs.values()])
    if not has_arrays and is_const(example):
        return Const(example)
    if name in TOLD:
        return t.lift(example)
    if t.recording is not t.root:
        raise Break(f"numpy.{name} in a function that is transformed")
    t.note_effects(writes=writes, draws=False, may_raise=not isinstance(target, np.ufunc))
    node = native(t, op, target, *nodes, example)
    if writes:
        node.meta[WRITES] = True
        if out is not None:
            return out
        return args[0] if name in INPLACE else Const(None)
    return outputs(t, node, example)


def output_of(t: Any, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The array that a call writes its result to and gives; None where it makes one."""
    v = t.real(kwargs.get("out", Const(None)))
    if isinstance(v, Seq) and len(v.items) == 1:
        v = t.real(v.items[0])
    is_named = not (isinstance(v, Const) and v.value is None)
    if isinstance(target, np.ufunc) and len(args) > target.nin:
        raise Break("a result of NumPy's that is given by place")
    if is_named and not isinstance(v, Array):
        raise Break("results of NumPy's that are given")
    return v if is_named else None


def check_operands(t: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Refuse arrays where what they hold might decide the size of the result."""
    if name not in SETTLED or name in OPERANDS:
        return
    others = [*(args if name in CREATING else args[1:]), *kwargs.values()]
    if any(holds_array(t, v) for v in others):
        raise Break(f"numpy.{name} of an array that may tell a size")


def native(t: Any, op: str, target: Any, args: Any, kwargs: Any, example: Any) -> Any:
    node = t.recording.add(op, target, args, kwargs, example)
    node.meta[NATIVE] = True
    return node


def outputs(t: Any, node: Any, example: Any) -> Any:
    if is_array(example) or isinstance(example, np.number | np.bool_):
        return Array(example, node)
    if type(example) in (tuple, list):
        items = [
            outputs(t, native(t, "call_function", operator.getitem, [node, i], {}, item), item)
            for i, item in enumerate(example)
        ]
        return Seq(type(example), items)
    raise Break(f"a {type(example).__name__} of NumPy's")


def of_tensor(t: Any, tensor: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Array:
    """`tensor.numpy()`."""
    is_forced = bool(kwargs) and list(kwargs) == ["force"] and not args
    if is_forced and t.truth(kwargs["force"]):
        tensor = t.record("call_method", "detach", [tensor], {})
    if is_forced:
        kwargs = {}
    example = tensor.example
    if args or kwargs or example.requires_grad or t.recording is not t.root:
        raise Break("Tensor.numpy")
    dtype = t.world.array_dtype(example)
    numbers = [*sizes_of(example), *strides_of(example)]
    if dtype is None or not all(type(n) is int for n in numbers):
        raise Break("Tensor.numpy")
    strides = [n * dtype.itemsize for n in strides_of(example)]
    given = zeros(sizes_of(example), strides, dtype)
    return Array(given, native(t, "call_method", "numpy", [t.node(tensor)], {}, given))


def tensor_of(t: Any, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Tensor:
    """A tensor that is made of arrays."""
    nodes = [argument(t, a) for a in args], {key: argument(t, v) for key, v in kwargs.items()}
    given, named = examples_of(nodes)
    try:
        example = t.world.mode.from_tensor(target(*given, **named), static_shapes=True)
    except Exception as error:
        raise Break(f"{target.__name__}: {error}") from error
    t.note_effects(writes=False, draws=False, may_raise=True)
    return Tensor(example, native(t, "call_function", target, *nodes, example))


# -- arrays as values ------------------------------------------------------------------------------


def attribute(t: Any, v: Array, name: str) -> Any:
    if name in FACTS:
        return t.lift(getattr(v.example, name))
    if name in PARTS:
        found = getattr(v.example, name)
        return outputs(t, native(t, "call_function", getattr, [t.node(v), name], {}, found), found)
    if not hasattr(v.example, name):
        raise raise_user(AttributeError, f"'{v.kind.__name__}' object has no attribute '{name}'")
    return Bound(v, name)


def method(t: Any, v: Array, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if name == "__len__":
        return length(t, v)
    if name == "__getitem__":
        return binary(t, operator.getitem, v, *args)
    if name == "__iter__":
        return Items(items(t, v))
    if name == "fill":
        return call(t, "call_method", name, [v, *args], kwargs, writes=True)
    if name in SETTLED and name not in ("sort", "append"):
        return call(t, "call_method", name, [v, *args], kwargs)
    raise Break(f"ndarray.{name}")


def length(t: Any, v: Array) -> Const:
    if not v.example.ndim:
        raise raise_user(TypeError, "len() of unsized object")
    return Const(len(v.example))


def items(t: Any, v: Array) -> list[Any]:
    count = length(t, v).value
    return [binary(t, operator.getitem, v, Const(i)) for i in range(count)]


def is_settled_index(v: Any) -> bool:
    """Whether an index picks as many elements whatever data it has."""
    return not (isinstance(v, Array) and v.example.dtype.kind == "b")


def binary(t: Any, f: Callable[..., Any], a: Any, b: Any) -> Any:
    """An operator with an array."""
    if f is operator.getitem:
        keys = b.items if isinstance(b, Seq) else [b]
        if not all(map(is_settled_index, map(t.real, keys))):
            raise Break("a mask as an index, which picks as many elements as data tell")
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        raise Break(f"{f.__name__} of a tensor and an array")
    writes = f.__name__ in INPLACE and isinstance(a, Array) and isinstance(a.example, np.ndarray)
    return call(t, "call_function", f, [a, b], {}, writes=writes)


def store(t: Any, v: Array, key: Any, value: Any) -> Var:
    found: Var = call(t, "call_function", operator.setitem, [v, key, value], {}, writes=True)
    return found


def unary(t: Any, f: Callable[..., Any], v: Any) -> Any:
    return call(t, "call_function", f, [v], {})
