"""What graphs do beside computing: print, warn, raise, wait; optionals, enums, nested lists."""

from __future__ import annotations

import time
import warnings
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.awaits import _awaitable_nowait
from rushlight.jit.ir.operators import graph_op, graph_text
from rushlight.jit.ops.texts import print_values
from rushlight.jit.runtime.errors import raise_exception

graph_op("prim::Print(...) -> ()")(print_values)
graph_op("prim::RaiseException(str msg, str? cls=None) -> ()")(raise_exception)
graph_text("{0}.name", "prim::EnumName(AnyEnumType enum) -> str")
graph_text("{0}.value", *[f"prim::EnumValue.{x}(AnyEnumType enum) -> {x}"
                          for x in ("int", "float", "str")])  # fmt: skip
graph_text("{1} if {0} else {2}", "prim::IfThenElse(bool cond, Any(a) x, Any(b) y) -> Any(b|a)")
graph_op("prim::id(AnyClassType? x) -> int")(id)
graph_op("prim::TimePoint() -> int")(time.perf_counter_ns)
graph_op("prim::AddStatValue(str key, int val) -> ()")(lambda key, val: None)


@graph_op("aten::warn(str message, int stacklevel=2) -> ()")
def warn(message: str, stacklevel: int) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)


# What has been said where, for filters that want to hear a thing once.
SAID: dict[Any, Any] = {}


def warn_at(message: str, file: str, line: int) -> None:
    """A warning of compiled code: it comes from the line that was compiled."""
    warnings.warn_explicit(message, UserWarning, file, line, registry=SAID)


@graph_op("profiler::_call_end_callbacks_on_jit_fut(Tensor x, Future(t) y) -> Future(t)")
def end_label_with(x: Tensor, y: Any) -> Any:
    """The label of a handle ends when the future is done."""
    from rushlight.profiler.recorder import exit_by_handle

    number = int(x)

    def finish(done: Any) -> Any:
        exit_by_handle(number)
        return done.value()

    return y.then(finish)


@graph_op("aten::_unwrap_optional(t(a)? optional) -> t(a)")
def unwrap_optional(optional: Any) -> Any:
    if optional is None:
        raise RuntimeError("Unwrapping null optional")
    return optional


graph_text("{0}", "prim::unchecked_cast(t x) -> t",
           "prim::unchecked_unwrap_optional(t(a)? optional) -> t(a)")  # fmt: skip
graph_text("{0}.wait()", "aten::wait(Future(t) self) -> t",
           "prim::awaitable_wait(Await(t) self) -> t")  # fmt: skip
graph_op("prim::awaitable_nowait(t self) -> Await(t)")(_awaitable_nowait)


@graph_op("prim::tolist(...) -> ...")
def to_list(tensor: Tensor, depth: int, code: int) -> Any:
    """A tensor as lists of `depth` levels; `code` says what the elements are."""
    if tensor.dim() != depth:
        raise RuntimeError(
            "Output annotation list dimension and runtime tensor dimension must match for tolist()"
        )
    words = ("int64", "float64", "bool", "complex128")
    actual = str(tensor.dtype).rpartition(".")[2]
    wide = {"float32": "float64", "complex64": "complex128"}.get(actual, actual)
    if wide != words[code]:
        raise RuntimeError(
            "Output annotation element type and runtime tensor element type must match for "
            f"tolist(): {TOLIST_WORDS[code]} vs {tensor.dtype.scalar_type_name}"
        )
    return tensor.tolist()


TOLIST_WORDS = ("Int", "Float", "Bool", "Complex")


@graph_op("prim::AutogradZero() -> Tensor")
def no_gradient() -> None:
    return None


@graph_op("prim::AutogradAdd(Any a, Any b) -> Any")
def add_gradients(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


@graph_op("prim::ModuleContainerIndex.list(Any self, int ind) -> Any",
          "prim::ModuleContainerIndex.dict(Any self, str ind) -> Any")  # fmt: skip
def index_modules(self: Any, ind: Any) -> Any:
    return self[ind]
