"""Decompositions equal their ops, and the core table leads to core ops."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.decompositions import tables
from rushlight.aot.decompositions.names import CORE_TABLE, TEXTS
from rushlight.aot.decompositions.written import PROGRAMS
from rushlight.aot.tracing import make_fx
from rushlight.core import dtype as dtypes
from rushlight.core.op import OpOverload, Tag
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from tests.reference import store

aten = torch.ops.aten
NAMES = dict.fromkeys([*TEXTS.split(), *CORE_TABLE.split(), *PROGRAMS])
OPS = [op for op in tables.named_ops(" ".join(NAMES)) if has_samples(op)]
CORE = tables.core_aten_decompositions()

# Ops that stay in graphs of core ops, and why there is no core op to say them with.
LEFT = {
    "a factorisation of matrices": """
        _linalg_svd _linalg_eigh _linalg_slogdet _linalg_det _linalg_solve_ex linalg_inv_ex
        linalg_pinv.atol_rtol_tensor linalg_lu_factor_ex linalg_matrix_exp linalg_cholesky_ex
        linalg_ldl_factor_ex linalg_lu_solve linalg_eig linalg_qr linalg_householder_product""",
    "a check of values": "_linalg_check_errors",
    "complex numbers": "_conj _conj_physical _fft_c2c sgn logaddexp",
    "a special function": "erfc lgamma special_erfcx",
    "random numbers": "bernoulli_.float rrelu_with_noise_functional",
    "a write, which functionalization takes out": """
        as_strided_ copy_ squeeze_.dim div_.Tensor mul_.Tensor add_.Tensor fill_.Scalar""",
    "a scan": "cumprod logcumsumexp",
    "a histogram": "_histogramdd_from_bin_cts _histogramdd_bin_edges _histogramdd_from_bin_tensors",
    "a constant, which is fresh each time": "lift_fresh_copy",
    "a sum over paths": "_ctc_loss",
    "quantized values": """
        fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask
        _fake_quantize_per_tensor_affine_cachemask_tensor_qparams""",
    "a shift of bits": """
        bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar
        bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar""",
    "a product of three": "_trilinear",
    "an order that is kept": "sort.stable",
    "numbers that are no floats": "affine_grid_generator",
    "a window": """
        adaptive_max_pool2d grid_sampler_3d upsample_trilinear3d upsample_bicubic2d
        _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa""",
}
STAYS = {op: why for why, names in LEFT.items() for op in tables.named_ops(names)}


def tensors_in(value: Any) -> list[Any]:
    return [leaf for leaf in store.flat(value) if isinstance(leaf, torch.Tensor)]


def same(found: Any, wanted: Any) -> None:
    for one, other in zip(tensors_in(found), tensors_in(wanted), strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)
        assert steps(one) == steps(other)


def steps(tensor: Any) -> list[int]:
    """The strides that say where elements lie."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [step for size, step in pairs if size != 1 and tensor.numel()]


def good_samples(op: OpOverload, dtype: Any, limit: int | None = None) -> list[tuple[Sample, Any]]:
    found = []
    for case in samples_of(op, dtype)[:limit]:
        torch.manual_seed(0)
        try:
            found.append((case, op(*case.args, **case.kwargs)))
        except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            continue
    return found


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("op", OPS, ids=str)
def test_equals_its_op(op: OpOverload) -> None:
    rule = tables.decomposition_table[op]
    answers = 0
    for dtype in (dtypes.float64, dtypes.int64, dtypes.bool_, dtypes.float32):
        if answers and dtype is dtypes.float32:
            # Only of ops whose samples are of no other dtype.
            break
        for case, wanted in good_samples(op, dtype):
            torch.manual_seed(0)
            found = rule(*case.args, **case.kwargs)
            if found is NotImplemented:
                continue
            answers += 1
            if "empty" in op.base_name:
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            elif op.base_name != "_reshape_alias":  # its strides are what the caller says
                same(found, wanted)
    assert answers


def traced(op: OpOverload, case: Sample) -> Any:
    def run(*values: Any) -> Any:
        given = iter(values)
        call = store.mapped(case, lambda leaf: next(given) if is_tensor(leaf) else leaf)
        return op(*call.args, **call.kwargs)

    module = make_fx(run, CORE, tracing_mode="fake")(*store.tensors_of(case))
    module.graph.eliminate_dead_code()
    return module


def is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def test_core_table_leads_to_core_ops() -> None:
    left: dict[Any, str] = {}
    checked = 0
    for op in CORE:
        if not has_samples(op) or store.is_data_dependent(op) or op.base_name == "one_hot":
            continue
        for case, _ in good_samples(op, dtypes.float64, 2):
            for node in traced(op, case).graph.nodes:
                target = node.target
                if isinstance(target, OpOverload) and Tag.core not in target.tags:
                    left.setdefault(target, str(op))
            checked += 1
    assert checked > 700
    assert {op: user for op, user in left.items() if op not in STAYS} == {}


def test_half_precision_computes_in_float32() -> None:
    x = torch.linspace(-3, 3, 32, dtype=torch.bfloat16)
    rule = tables.decomposition_table[aten._softmax.default]
    torch.testing.assert_close(rule(x, 0, False), torch.softmax(x, 0), rtol=0, atol=0)


def test_tables_for_users() -> None:
    found = tables.get_decompositions([aten.gelu_backward, aten.mm, aten.t.default])
    assert {str(op) for op in found} == {"aten.gelu_backward.default", "aten.t.default"}
    mine = dict(found)
    tables.remove_decompositions(mine, [aten.t])
    assert [str(op) for op in mine] == ["aten.gelu_backward.default"]
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.t.default"):
        tables.register_decomposition(aten.t, found)(lambda x: x)
    with pytest.raises(AssertionError, match="type must be one of post_autograd"):
        tables.get_decompositions([aten.t], type="sideways")
    own: dict[Any, Any] = {}
    tables.register_decomposition([aten.sin.default, aten.cos.default], own)(len)
    assert own == {aten.sin.default: len, aten.cos.default: len}


def test_core_ops_stay() -> None:
    kept = [op for op in CORE if Tag.core in op.tags]
    assert kept == []
    assert aten.gelu.default in tables.decomposition_table
    assert tables.select_decomp_table() is tables.decompositions


def test_graph_of_a_training_step() -> None:
    def step(x: Any, w: Any) -> Any:
        return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (4,), w)).sum()

    graphs: list[str] = []

    def keep(module: Any, _: Any) -> Any:
        graphs.append(module.code)
        return module

    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    table = tables.get_decompositions([aten.gelu_backward, aten.native_layer_norm_backward])
    step(x, w).backward()
    eager = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    aot_function(step, keep, keep, decompositions=table)(x, w).backward()
    torch.testing.assert_close((x.grad, w.grad), eager)
    assert "gelu_backward" not in graphs[1] and "layer_norm_backward" not in graphs[1]
    assert re.search(r"aten\.erf\.default", graphs[1])
    aot_function(step, nop, decompositions=tables.core_aten_decompositions())(x, w).backward()
    torch.testing.assert_close((x.grad, w.grad), (2 * eager[0], 2 * eager[1]))


def test_symbolic_sizes_stay_symbolic() -> None:
    module = make_fx(lambda x: x.std(1), CORE,
                     tracing_mode="symbolic")(torch.randn(5, 7))  # fmt: skip
    other = torch.randn(6, 3)
    torch.testing.assert_close(module(other), other.std(1))
