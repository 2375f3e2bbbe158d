"""Derivatives of every differentiable op against differences, in float64 and complex128.

First order (backward and forward), second order and batched backward, over a few samples of each
op: fast mode, and slow mode for the first sample. Left out are random ops, samples or results that
are not finite, and what has no derivative in the recorded results either.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from rushlight.autograd.checking import gradcheck, gradgradcheck
from rushlight.core import dtype as dtypes
from rushlight.core.op import Refused
from rushlight.core.tensor import Tensor, strides_of, values_of, wrap
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from tests.opset import floors
from tests.reference import store
from tests.reference.exemptions import is_exempt
from tests.reference.forms import digest

LIMIT = 7  # samples of one op and dtype
SECOND = 4


def is_candidate(op: Any) -> bool:
    if not has_samples(op) or op.kind.name in ("RANDOM", "CREATION"):
        return False
    if store.is_data_dependent(op):
        return False
    vjp = op.rules.get("vjp")
    return not isinstance(vjp, Refused) and (vjp is not None or op.body is not None)


OPS = [op for op in audit.records() if is_candidate(op)]
each_op = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])


def is_regular(values: Any) -> bool:
    """Finite, and not on the axes, where complex functions have their branch cuts."""
    if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > 1e6:
        return False
    return values.dtype.kind != "c" or bool((values.real != 0).all() and (values.imag != 0).all())


def is_finite(case: Sample) -> bool:
    return all(
        is_regular(np.asarray(values_of(t)))
        for t in store.tensors_of(case)
        if t.dtype.category >= dtypes.FLOAT
    )


def cases_of(op: Any, kind: Any, limit: int) -> list[Sample]:
    """Samples with something to differentiate, spread over all of them."""
    found = [
        case
        for case in samples_of(op, kind)
        if is_finite(case)
        and not any(0 in strides_of(t) for t in store.tensors_of(case) if t.numel())
        and any(t.dtype.category >= dtypes.FLOAT and t.numel() for t in store.tensors_of(case))
    ]
    step = max(1, -(-len(found) // limit))
    return found[::step]


def differentiable(op: Any, kind: Any, case: Sample) -> frozenset[int]:
    """Identities of the tensors with respect to which an op has a derivative."""
    if op.body is not None:
        floats = [t for t in store.tensors_of(case) if t.dtype.category >= dtypes.FLOAT]
        grads = recorded(op, kind, case).get("grad", [True] * len(floats))
        pairs = zip(floats, grads, strict=True)
        return frozenset(id(t) for t, gradient in pairs if gradient is not None)
    names = op.differentiable_inputs()
    bound = dict(zip(op.argument_names, case.args, strict=False)) | case.kwargs
    chosen = Sample(tuple(bound[name] for name in names if name in bound), {})
    return frozenset(id(t) for t in store.tensors_of(chosen))


def recorded(op: Any, kind: Any, case: Sample) -> dict[str, Any]:
    reader = store.family(op.family)
    table = {} if reader is None else reader.table(op.name(), kind.name)
    found: dict[str, Any] = table.get(digest(case), {})
    return found


def has_reference(op: Any, kind: Any, case: Sample, second: bool) -> bool:
    """Whether the recorded results have derivatives for a sample; True when it is not recorded."""
    record = recorded(op, kind, case)
    if "error" in record or "grad_error" in record or not record.get("needs", True):
        return False
    return not (second and isinstance(record.get("second"), str))


def is_double(outputs: Any) -> bool:
    """Whether results are finite and precise enough for differences."""
    return all(
        out.dtype in (dtypes.float64, dtypes.complex128) and np.isfinite(values_of(out)).all()
        for out in outputs
    )


def prepared(op: Any, kind: Any, case: Sample) -> tuple[Any, list[Tensor]]:
    """A function of the sample's floating point tensors, and these tensors as leaves."""
    slots: list[Any] = []
    wanted = differentiable(op, kind, case)
    written = {id(case.args[i]) for i in op.mutated_positions if i < len(case.args)}

    class Slot:
        def __init__(self, position: int, fresh: bool) -> None:
            self.position = position
            self.fresh = fresh

    def take(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.category >= dtypes.FLOAT:
            double = dtypes.complex128 if value.dtype.is_complex else dtypes.float64
            leaf = value
            if value.dtype is not double:
                leaf = wrap(np.array(values_of(value), double.np, order="C"), double)
            slots.append(leaf.requires_grad_() if id(value) in wanted else leaf)
            return Slot(len(slots) - 1, id(value) in written)
        return value

    pattern = store.mapped(case, take)

    def function(*leaves: Any) -> Any:
        def put(value: Any) -> Any:
            if isinstance(value, Slot):
                leaf = leaves[value.position]
                return leaf.clone() if value.fresh else leaf
            return value

        filled = store.mapped(pattern, put)
        result = store.settle(op, op(*filled.args, **filled.kwargs))
        return tuple(
            out
            for out in store.flat(result)
            if isinstance(out, Tensor) and out.dtype.category >= dtypes.FLOAT
        )

    return function, slots


def one_by_one(check: Any, function: Any, leaves: Any, first: bool) -> None:
    """Check all inputs together; where one of them has no derivative, each alone."""
    try:
        check(function, leaves, first)
        return
    except NotImplementedError as error:
        if "derivative" not in str(error):
            raise
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    for chosen in wanted:
        for leaf in wanted:
            leaf.requires_grad_(leaf is chosen)
        try:
            check(function, leaves, first)
        except NotImplementedError as error:
            if "derivative" not in str(error):
                raise


def examine(op: Any, what: str, limit: int, check: Any, suite: str | None = None) -> None:
    name = op.name().removeprefix("aten::")
    lines = []
    ran = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind in (dtypes.float64, dtypes.complex128):
            wanted = limit if kind is dtypes.float64 else max(limit // 2, 1)
            for i, case in enumerate(cases_of(op, kind, wanted)):
                second = what == "gradgradcheck"
                if is_exempt(name, kind.name, what, case) or not has_reference(
                    op, kind, case, second
                ):
                    continue
                function, leaves = prepared(op, kind, case)
                try:
                    outputs = function(*leaves)
                except Exception:
                    continue  # refused for this dtype: the recorded results say whether rightly
                if is_double(outputs) and any(out.requires_grad for out in outputs):
                    ran += 1
                    try:
                        one_by_one(check, function, leaves, i == 0)
                    except Exception as error:
                        text = " ".join(str(error).split())[:300]
                        lines.append(f"{kind.name} {case!r}: {type(error).__name__}: {text}")
    if lines:
        pytest.fail("\n".join([name, *lines[:6]]), pytrace=False)
    floors.ran(suite or what, name, ran)


@each_op
def test_first_order(op: Any) -> None:
    def check(function: Any, leaves: Any, first: bool) -> None:
        gradcheck(function, leaves, fast_mode=not first, check_undefined_grad=first)

    examine(op, "gradcheck", LIMIT, check)


@each_op
def test_second_order(op: Any) -> None:
    def check(function: Any, leaves: Any, first: bool) -> None:
        gradgradcheck(function, leaves, fast_mode=True, atol=1e-4, check_undefined_grad=False)

    examine(op, "gradgradcheck", SECOND, check)


def check_forward(function: Any, leaves: Any, undefined: bool, batched: bool = False) -> None:
    gradcheck(
        function,
        leaves,
        fast_mode=True,
        check_forward_ad=True,
        check_backward_ad=False,
        check_batched_forward_grad=batched,
        check_undefined_grad=undefined,
    )


@each_op
def test_forward_mode(op: Any) -> None:
    examine(op, "forward", SECOND, check_forward)


@each_op
def test_batched(op: Any) -> None:
    def check(function: Any, leaves: Any, first: bool) -> None:
        gradcheck(
            function, leaves, fast_mode=True, check_batched_grad=True, check_undefined_grad=False
        )

    examine(op, "batched", 2, check)
