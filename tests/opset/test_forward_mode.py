"""Forward mode beyond first order: tangents under vmap, through backward, and of in-place forms.

The plain first-order check of every op is `test_gradients.test_forward_mode`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import forward_ad as fwAD
from rushlight.autograd.checking import gradgradcheck
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor, values_of
from rushlight.opset import registry
from rushlight.opset.samples.maker import samples_of
from tests.opset import floors
from tests.opset.test_gradients import OPS, check_forward, each_op, examine, is_finite
from tests.reference import store


@each_op
def test_batched_tangents(op: Any) -> None:
    def check(function: Any, leaves: Any, first: bool) -> None:
        check_forward(function, leaves, undefined=False, batched=True)

    examine(op, "forward", 2, check, "batched_tangents")


@each_op
def test_forward_over_reverse(op: Any) -> None:
    def check(function: Any, leaves: Any, first: bool) -> None:
        gradgradcheck(
            function,
            leaves,
            fast_mode=True,
            atol=1e-4,
            check_fwd_over_rev=True,
            check_rev_over_rev=False,
            check_undefined_grad=False,
        )

    examine(op, "gradgradcheck", 2, check, "forward_over_reverse")


IN_PLACE = [op for op in OPS if op.options.get("inplace") and not op._schema.is_mutable]


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.name()[6:])
def test_in_place_like_out_of_place(op: Any) -> None:
    """The tangent after `x.op_(...)` is that of `op(x, ...)`, for a tensor, a view and its base."""
    ran = 0
    twin = getattr(registry.packet(op.base_name + "_"), op._overloadname)
    for case in samples_of(op, dtypes.float64)[:6]:
        tensors = store.tensors_of(case)
        if not is_finite(case) or not tensors or case.args[0] is not tensors[0]:
            continue
        with fwAD.dual_level(), np.errstate(all="ignore"):
            duals = {
                id(t): fwAD.make_dual(t.clone(), torch.cos(t) + 1)
                for t in tensors
                if t.is_floating_point()
            }

            def put(value: Any, duals: Any = duals) -> Any:
                return duals.get(id(value), value) if isinstance(value, Tensor) else value

            filled = store.mapped(case, put)
            try:
                expected = op(*filled.args, **filled.kwargs)
            except Exception:
                continue
            self = filled.args[0]
            if not isinstance(expected, Tensor) or expected.shape != self.shape:
                continue
            if expected.dtype is not self.dtype:
                continue
            base = torch.zeros((2, *self.shape), dtype=self.dtype)
            whole = base.clone()
            view = whole[1]
            view.copy_(self)
            try:
                twin(view, *filled.args[1:], **filled.kwargs)
            except NotImplementedError:
                continue
            except RuntimeError as error:
                # A result does not tell the sign of its input where the slope is negative.
                assert "negative slope" in str(error), case
                continue
            ran += 1
            wanted = fwAD.unpack_dual(expected).tangent
            found = fwAD.unpack_dual(view).tangent
            around = fwAD.unpack_dual(whole).tangent
            if wanted is None:
                assert found is None or not values_of(found).any(), case
                continue
            assert found is not None and around is not None, case
            np.testing.assert_allclose(values_of(found), values_of(wanted), err_msg=repr(case))
            np.testing.assert_allclose(values_of(around[1]), values_of(wanted))
            assert not values_of(around[0]).any()
    floors.ran("in_place_tangents", op.name().removeprefix("aten::"), ran)
