"""Checks as operators: what a graph states about its numbers and tensors, and fails without."""

from __future__ import annotations

from typing import Any

from rushlight.core.dispatch import overridable
from rushlight.core.op import refuse
from rushlight.opset.kinds import STATEMENT
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("_assert",)
NOTHING = refuse("it returns nothing")


FACTS: dict[str, Any] = {"kind": STATEMENT, "method": False, "out": False, "jvp": NOTHING}
SINGLE = "Boolean value of Tensor with {} is ambiguous"


def _assert(condition: Any, message: str) -> None:
    """An assertion that traces record."""
    if not condition:
        raise AssertionError(message)


_assert = overridable(_assert)


# -- tensors ---------------------------------------------------------------------------------------


def hold_single(array: Any, message: str) -> None:
    if array.size != 1:
        raise RuntimeError(SINGLE.format("no values" if not array.size else "more than one value"))
    if not array.reshape(-1)[0]:
        raise RuntimeError(message)


def hold_every(level: Any, op: Any, self: Any, *message: str) -> None:
    """Every sample holds one value: what is stated of all of them is stated once."""
    if self.numel() != 1:
        raise RuntimeError(SINGLE.format("more than one value" if self.numel() else "no values"))
    level.below(op, (level.run(lambda: (level.front(self) != 0).all()), *message))


op(
    "_assert_async(Tensor self) -> ()",
    may_raise=True,
    shape=lambda self: None,
    kernel=lambda xp, self: hold_single(
        self, "Expected Tensor with single nonzero value, but got zero"
    ),
    samples=lambda make: [(make.positive(1),), (make.positive(),)],
    errors=lambda make: [(RuntimeError, sample(make(1) * 0)), (RuntimeError, sample(make(2)))],
    batch=hold_every,
    **FACTS,
)
op(
    "_assert_async.msg(Tensor self, str assert_msg) -> ()",
    may_raise=True,
    shape=lambda self, assert_msg: None,
    kernel=lambda xp, self, assert_msg: hold_single(self, assert_msg),
    samples=lambda make: [(make.positive(1), "must not be zero")],
    errors=lambda make: [(RuntimeError, sample(make(1) * 0, "must not be zero"))],
    batch=hold_every,
    **FACTS,
)


@composite(
    "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, "
    "ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
    method=False,
    function=False,
    out=False,
    samples=refuse("it returns nothing, and states what no value changes"),
    errors=lambda make: [(RuntimeError, (make(2), [3])), (RuntimeError, (make(2), None, [2]))],
)
def hold_metadata(a: Any, size: Any, stride: Any, dtype: Any, device: Any, layout: Any) -> None:
    for what, wanted, found in (
        ("sizes", None if size is None else list(size), list(a.shape)),
        ("strides", None if stride is None else list(stride), list(a.stride())),
        ("dtype", dtype, a.dtype),
        ("device", device, a.device),
        ("layout", layout, a.layout),
    ):
        if wanted is not None and wanted != found:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {wanted}, Got: {found}")


# -- numbers ---------------------------------------------------------------------------------------


def hold_number(number: Any, message: str) -> None:
    if not number:
        raise RuntimeError(message)


def state_number(number: Any, message: str) -> None:
    from rushlight.symbolic import expect_true

    if not expect_true(number):
        raise RuntimeError(message)


op(
    "_assert_scalar(Scalar self, str assert_msg) -> ()",
    function=False,
    shape=state_number,
    kernel=lambda xp, self, assert_msg: hold_number(self, assert_msg),
    samples=lambda make: [(1, "must not be zero"), (True, "must hold")],
    errors=lambda make: [(RuntimeError, sample(0, "must not be zero"))],
    **FACTS,
)


def hold_range(size: Any, low: int | None, high: int | None, for_size: bool) -> None:
    lowest = 0 if low is None and for_size else low
    if high is not None and for_size and high <= 2:
        raise RuntimeError(
            f"Max value to constrain_range_for_size must be greater than 2. got: {high}"
        )
    if low is not None and high is not None and low > high:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={low} max={high}")
    if type(size) not in (int, bool):
        raise RuntimeError("Constraining SymFloat or Symbool is nyi")
    if (lowest is not None and size < lowest) or (high is not None and size > high):
        shown = [-(1 << 63) if lowest is None else lowest, (1 << 63) - 1 if high is None else high]
        raise RuntimeError(f"Invalid value range for {size} between [{shown[0]}, {shown[1]}].")


def state_range(size: Any, low: int | None, high: int | None, for_size: bool) -> None:
    from rushlight.symbolic import SymInt, constrain_range, constrain_range_for_size

    if isinstance(size, SymInt):
        (constrain_range_for_size if for_size else constrain_range)(size, min=low, max=high)
    else:
        hold_range(size, low, high, for_size)


for name, for_size in (("sym_constrain_range", False), ("sym_constrain_range_for_size", True)):
    op(
        f"{name}(Scalar size, *, int? min=None, int? max=None) -> ()",
        shape=lambda size, min, max, for_size=for_size: state_range(size, min, max, for_size),
        kernel=lambda xp, size, min, max, for_size=for_size: hold_range(size, min, max, for_size),
        samples=lambda make: [sample(5, min=2, max=9), sample(5, min=5), sample(3)],
        errors=lambda make: [(RuntimeError, sample(5, min=6, max=9))],
        **FACTS,
    )


# -- texts -----------------------------------------------------------------------------------------


def write_text(xp: Any, s: str) -> None:
    print(s)


op(
    "_print(str s) -> ()",
    kind=STATEMENT,
    method=False,
    out=False,
    jvp=refuse("it returns nothing"),
    shape=lambda s: None,
    kernel=write_text,
    samples=refuse("it writes to the output of the program"),
)
