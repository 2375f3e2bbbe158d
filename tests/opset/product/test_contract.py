"""The matmul family: values, strides, gradients, decompositions, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.modes import TorchDispatchMode
from rushlight.opset.registry import public

linear = public("linear")


class Calls(TorchDispatchMode):
    """Names of the ops that run."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


def calls(function):
    with Calls() as mode:
        function()
    return mode.names


def numbers(*shape, dtype=torch.float64, grad=False):
    count = int(np.prod(shape))
    values = torch.arange(count, dtype=torch.float64).reshape(shape).sin().to(dtype)
    return values.requires_grad_() if grad else values


def array(tensor):
    return tensor.detach().numpy()


def node_names(tensor):
    found, queue = [], [tensor.grad_fn]
    while queue:
        node = queue.pop(0)
        if node is not None:
            found.append(type(node).__name__)
            queue += [entry for entry, _ in node.next_functions]
    return found


SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((3,), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((0, 2, 3), (3, 4)),
    ((2, 0), (0, 3)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("grads", [(False, False), (True, False), (False, True)])
def test_matmul_agrees_with_numpy_and_is_contiguous(left, right, grads):
    a, b = numbers(*left, grad=grads[0]), numbers(*right, grad=grads[1])
    result = a @ b
    np.testing.assert_allclose(array(result), np.matmul(array(a), array(b)))
    assert result.is_contiguous()


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_gradients_are_those_of_the_bilinear_form(left, right):
    a, b = numbers(*left, grad=True), numbers(*right, grad=True)
    result = a @ b
    weight = numbers(*result.shape)
    grad_a, grad_b = torch.autograd.grad((result * weight).sum(), (a, b))
    step = numbers(*left)
    moved = (((a + step) @ b - result) * weight).sum()
    np.testing.assert_allclose(array((grad_a * step).sum()), array(moved), atol=1e-9)
    step = numbers(*right)
    moved = ((a @ (b + step) - result) * weight).sum()
    np.testing.assert_allclose(array((grad_b * step).sum()), array(moved), atol=1e-9)


def test_matmul_folds_the_batch_into_rows():
    a, b = numbers(5, 2, 3), numbers(3, 4)
    assert calls(lambda: a @ b) == ["view.default", "mm.default", "_unsafe_view.default"]


def test_matmul_of_batches_expands_and_uses_bmm():
    a, b = numbers(5, 2, 3), numbers(5, 3, 4)
    assert calls(lambda: a @ b) == [
        "expand.default",
        "view.default",
        "expand.default",
        "view.default",
        "bmm.default",
        "_unsafe_view.default",
    ]


def test_matmul_copies_a_transposed_batch_only_where_the_matrix_needs_a_gradient():
    a = numbers(2, 5, 3).transpose(0, 1)
    assert "bmm.default" in calls(lambda: a @ numbers(3, 4))
    names = calls(lambda: a @ numbers(3, 4, grad=True))
    assert "mm.default" in names and "bmm.default" not in names


def test_backward_nodes_of_a_folded_product():
    result = numbers(5, 2, 3, grad=True) @ numbers(3, 4, grad=True)
    assert node_names(result) == [
        "UnsafeViewBackward0",
        "MmBackward0",
        "ViewBackward0",
        "AccumulateGrad",
        "AccumulateGrad",
    ]


@pytest.mark.parametrize("shape", [(2, 3), (3,), (5, 2, 3), (4, 5, 2, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape, bias):
    x, weight = numbers(*shape), numbers(4, 3)
    offset = numbers(4) if bias else None
    expected = array(x) @ array(weight).T + (array(offset) if bias else 0)
    np.testing.assert_allclose(array(linear(x, weight, offset)), expected)


def test_linear_of_a_matrix_is_t_and_addmm():
    x, weight, bias = numbers(2, 3), numbers(4, 3), numbers(4)
    assert calls(lambda: linear(x, weight, bias)) == ["t.default", "addmm.default"]


def test_gradient_of_a_linear_weight_is_contiguous():
    weight = numbers(4, 3, grad=True)
    linear(numbers(2, 3), weight, numbers(4)).sum().backward()
    assert weight.grad.stride() == (3, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_once(dtype):
    a, b = numbers(2, 64, dtype=dtype), numbers(64, 2, dtype=dtype)
    exact = array(a.to(torch.float32)) @ array(b.to(torch.float32))
    expected = torch.tensor(exact).to(dtype)
    assert torch.equal(a.mm(b), expected)
    assert torch.equal(a.unsqueeze(0).bmm(b.unsqueeze(0))[0], expected)


def test_integers_wrap():
    a = torch.full((1, 2), 100, dtype=torch.int8)
    assert a.mm(a.t()).item() == (2 * 100 * 100 + 128) % 256 - 128


def test_bool_products_are_refused():
    a = torch.ones(2, 2, dtype=torch.bool)
    with pytest.raises(NotImplementedError, match="\"addmm_impl_cpu_\" not implemented for 'Bool'"):
        a.mm(a)


def test_beta_zero_ignores_nan():
    result = torch.full((2, 2), float("nan")).addmm(torch.ones(2, 2), torch.ones(2, 2), beta=0)
    assert result.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_scalars_of_integer_products_are_truncated():
    one = torch.ones(2, dtype=torch.int64)
    matrix = torch.ones(2, 2, dtype=torch.int64)
    assert one.addmm(matrix, matrix, alpha=1.5).tolist() == [[3, 3], [3, 3]]


def test_addr_takes_the_layout_of_its_first_operand():
    result = torch.ones(3, 2).t().addr(torch.ones(2), torch.ones(3))
    assert result.stride() == (1, 2)


def test_complex_gradients_are_conjugated():
    a = torch.tensor([[1 + 2j]], requires_grad=True)
    b = torch.tensor([[3 - 1j]], requires_grad=True)
    grad_a, grad_b = torch.autograd.grad(a.mm(b), (a, b), torch.tensor([[1 + 0j]]))
    assert grad_a.item() == 3 + 1j
    assert grad_b.item() == 1 - 2j
    assert torch.vdot(a.detach()[0], b.detach()[0]).item() == (1 - 2j) * (3 - 1j)


ERRORS = [
    (lambda: numbers(2, 3).mm(numbers(2, 3)),
     r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"),
    (lambda: numbers(2, 3).mm(numbers(3, 3, dtype=torch.float32)),
     "expected m1 and m2 to have the same dtype, but got: double != float"),
    (lambda: numbers(3).mm(numbers(3, 2)), "self must be a matrix"),
    (lambda: numbers(2, 3, 4).bmm(numbers(2, 3, 4)),
     r"Expected size for first two dimensions of batch2 tensor to be: \[2, 4\] but got: \[2, 3\]."),
    (lambda: numbers(2, 3).mv(numbers(2)),
     r"size mismatch, got input \(2\), mat \(2x3\), vec \(2\)"),
    (lambda: numbers(2).dot(numbers(3)), "inconsistent tensor size"),
    (lambda: numbers(2).addmm(numbers(2, 3), numbers(3, 3)),
     r"The expanded size of the tensor \(3\) must match the existing size \(2\)"),
    (lambda: numbers(3, dtype=torch.float32).addmm(numbers(2, 3), numbers(3, 3)),
     "self and mat2 must have the same dtype, but got Float and Double"),
    (lambda: torch.tensor(1.0) @ numbers(3, dtype=torch.float32),
     "both arguments to matmul need to be at least 1D, but they are 0D and 1D"),
    (lambda: torch.matrix_power(numbers(3, 2), 2), "must be batches of square matrices"),
    (lambda: torch.tensordot(numbers(2, 3), numbers(2, 3), 1),
     "contracted dimensions need to match, but first has size 3 in dim -1"),
    (lambda: torch.cdist(numbers(2, 3), numbers(4, 2)), "must have the same number of columns"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), ERRORS)
def test_refusals_are_worded_as_users_know_them(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_at_refuses_foreign_types():
    with pytest.raises(TypeError, match="unsupported operand"):
        numbers(2, 2) @ 3
    with pytest.raises(TypeError, match="unsupported operand"):
        3 @ numbers(2, 2)


def test_out_of_a_composite():
    out = torch.empty(0, dtype=torch.float64)
    a, b = numbers(2, 2, 3), numbers(3, 2)
    assert torch.matmul(a, b, out=out) is out
    np.testing.assert_allclose(array(out), array(a @ b))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("bij,bjk,bkl->bil", (5, 2, 3), (5, 3, 4), (5, 4, 2)),
    ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    ("...ij,jk->...ik", (5, 2, 3), (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("i,j->ij", (2,), (3,)),
    ("ij->", (2, 3)),
    ("ij,kl->ik", (2, 3), (4, 5)),
    ("ija,jkb->ik", (2, 3, 2), (3, 4, 2)),
    ("...a,...b->...ab", (2, 3), (4, 1, 3)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("iij->ij", (2, 2, 3)),
]


@pytest.mark.parametrize(("equation", "shapes"), [(e[0], e[1:]) for e in EINSUMS])
def test_einsum_agrees_with_numpy(equation, shapes):
    operands = [numbers(*shape) for shape in shapes]
    expected = np.einsum(equation, *[array(operand) for operand in operands])
    np.testing.assert_allclose(array(torch.einsum(equation, *operands)), expected, atol=1e-12)


def test_einsum_takes_sublists_and_paths():
    a, b, c = numbers(2, 3), numbers(3, 4), numbers(4, 5)
    expected = array(a) @ array(b)
    np.testing.assert_allclose(array(torch.einsum(a, [0, 1], b, [1, 2], [0, 2])), expected)
    by_path = torch.ops.aten.einsum("ij,jk,kl->il", [a, b, c], path=[1, 2, 0, 1])
    np.testing.assert_allclose(array(by_path), expected @ array(c))


def test_einsum_writes_the_result_in_output_order():
    result = torch.einsum("ij,jk->ki", numbers(2, 3), numbers(3, 4))
    assert result.stride() == (2, 1)


@pytest.mark.parametrize(
    ("equation", "shapes", "text"),
    [
        ("ij,jk->ik", [(2, 3)], "fewer operands were provided than specified in the equation"),
        ("i->i", [(3,), (3,)], "more operands were provided than specified in the equation"),
        ("ij->ik", [(2, 3)], "output subscript k does not appear in the equation"),
        ("ij->ii", [(2, 3)], "output subscript i appears more than once in the output"),
        ("i1->i", [(2, 3)], "invalid subscript given at index 1"),
        ("ij", [(2, 3, 4)], "the number of subscripts in the equation .2. does not match"),
        ("i..j->ij", [(2, 3)], "found '.' for operand 0 that is not part of any ellipsis"),
        ("ii", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "subscript j has size 4 for operand 1"),
    ],
)
def test_einsum_refusals(equation, shapes, text):
    with pytest.raises(RuntimeError, match=text):
        torch.einsum(equation, *[numbers(*shape) for shape in shapes])


def test_multi_dot_chooses_the_cheap_order():
    chain = [numbers(10, 3), numbers(3, 4), numbers(4, 2), numbers(2, 6)]
    multi_dot = public("linalg_multi_dot")
    assert calls(lambda: multi_dot(chain)) == ["mm.default"] * 3 + ["view.default"]
    expected = np.linalg.multi_dot([array(matrix) for matrix in chain])
    np.testing.assert_allclose(array(multi_dot(chain)), expected, atol=1e-12)


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_cdist(p):
    a, b = numbers(2, 3), numbers(4, 3) + 0.5
    gap = array(a)[:, None] - array(b)[None]
    expected = np.linalg.norm(gap, ord=p, axis=-1)
    np.testing.assert_allclose(array(torch.cdist(a, b, p)), expected)


def test_cdist_by_matrix_product_has_the_same_gradient():
    grads = []
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        a, b = numbers(2, 3, grad=True), numbers(4, 3) + 0.5
        torch.cdist(a, b, compute_mode=mode).sum().backward()
        grads.append(array(a.grad))
    np.testing.assert_allclose(grads[0], grads[1], atol=1e-9)


def test_cross_and_matrix_power():
    a, b = numbers(2, 3), numbers(2, 3) + 1
    np.testing.assert_allclose(array(public("linalg_cross")(a, b)), np.cross(array(a), array(b)))
    square = numbers(3, 3)
    expected = np.linalg.matrix_power(array(square), 5)
    np.testing.assert_allclose(array(torch.matrix_power(square, 5)), expected, atol=1e-12)
    np.testing.assert_array_equal(array(torch.matrix_power(square, 0)), np.eye(3))


def test_products_refuse_in_torchs_words():
    x = torch.ones(2, 3)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.tensordot(x, torch.ones(3, 2), dims=([5], [0]))
    with pytest.raises(RuntimeError, match="input1: float, input2: float, weight: double"):
        torch.bilinear(x, torch.ones(2, 4), torch.ones(5, 3, 4).double())
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        torch.cdist(x, x.double())
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype"):
        torch.cdist(torch.ones(30, 3), x.double())
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match"):
        torch.cdist(torch.ones(2, 2, 3), torch.ones(3, 2, 3))
    assert torch.cdist(torch.ones(2, 0), torch.ones(3, 0).double()).dtype is torch.float32


def test_gradient_of_a_strided_factor_is_row_major():
    x = torch.rand(3, 8)[:, ::2].t().requires_grad_()
    (grad,) = torch.autograd.grad(x.mm(torch.rand(3, 2)).sum(), x)
    assert grad.stride() == (3, 1)
    x = torch.rand(3, 4).t().requires_grad_()
    (grad,) = torch.autograd.grad(x.mm(torch.rand(3, 2)).sum(), x)
    assert grad.stride() == (1, 4)


def test_negative_power():
    assert torch.matrix_power(torch.eye(2) * 2, -2).tolist() == [[0.25, 0], [0, 0.25]]
    with pytest.raises(torch.linalg.LinAlgError, match="the inversion could not be completed"):
        torch.matrix_power(torch.ones(2, 2), -1)


def test_pairs_of_halves_do_not_multiply_as_matrices():
    square = torch.ones(2, 2, dtype=torch.complex32)
    with pytest.raises(NotImplementedError, match="ComplexHalf"):
        square @ square


def test_bilinear_gradients_of_complex_numbers():
    torch.manual_seed(0)
    operands = [
        torch.randn(*sizes, dtype=torch.complex128, requires_grad=True)
        for sizes in ((2, 2), (2, 3), (1, 2, 3))
    ]
    bilinear = torch.nn.functional.bilinear
    assert torch.autograd.gradcheck(bilinear, operands, check_forward_ad=True)


@pytest.mark.parametrize("given", [{"alpha": float("nan")}, {"beta": float("inf")}])
def test_factors_that_the_dtype_does_not_hold_are_refused(given):
    whole = torch.ones(2, 2, dtype=torch.int64)
    for product in (
        lambda: torch.addmm(whole, whole, whole, **given),
        lambda: torch.addmv(whole[0], whole, whole[0], **given),
        lambda: torch.baddbmm(whole[None], whole[None], whole[None], **given),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            product()
    small = whole.to(torch.uint8)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.addmm(small, small, small, alpha=300)
    assert torch.addmm(small, small, small, beta=2.5).tolist() == [[4, 4], [4, 4]]
