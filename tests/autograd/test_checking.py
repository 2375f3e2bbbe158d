"""gradcheck and gradgradcheck: what they accept, refuse and say."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rushlight as torch
from rushlight.autograd.checking import (
    GradcheckError,
    get_analytical_jacobian,
    get_numerical_jacobian,
    gradcheck,
    gradgradcheck,
)

both_modes = pytest.mark.parametrize("fast_mode", [False, True])


def real(*shape: int) -> Any:
    count = 1
    for size in shape:
        count *= size
    values = [0.3 + 0.7 * i * (-1) ** i for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()


def cplx(*shape: int) -> Any:
    return torch.complex(real(*shape).detach(), real(*shape).detach().cos()).requires_grad_()


def biased(x: Any) -> Any:
    y = x.clone()
    y.register_hook(lambda grad: grad + 1e-2)
    return y


@both_modes
def test_right_derivatives_pass(fast_mode: bool) -> None:
    x, y, z = real(2, 3), real(3), cplx(3)
    assert gradcheck(lambda x, y: (x * y).sin(), (x, y), fast_mode=fast_mode)
    assert gradcheck(lambda x, n: (x.exp(), x * n), (x, 2), fast_mode=fast_mode)
    assert gradcheck(lambda z: z * z.exp(), z, fast_mode=fast_mode)
    assert gradcheck(lambda z: z.abs(), z, fast_mode=fast_mode)
    assert gradcheck(lambda x: torch.complex(x, x * x), x, fast_mode=fast_mode)
    assert gradgradcheck(lambda x, y: x * y.sin() * x, (x, y), fast_mode=fast_mode)
    assert gradgradcheck(lambda z: z * z * z, z, fast_mode=fast_mode)
    assert gradgradcheck(
        lambda x: x.sin(), x, gen_non_contig_grad_outputs=True, fast_mode=fast_mode
    )


@both_modes
def test_forward_and_batched_pass(fast_mode: bool) -> None:
    assert gradcheck(
        lambda x, y: (x * y).exp(),
        (real(2), real(2)),
        check_forward_ad=True,
        check_batched_grad=True,
        fast_mode=fast_mode,
    )
    assert gradcheck(lambda z: z * z, cplx(2), check_forward_ad=True, fast_mode=fast_mode)
    assert gradgradcheck(lambda x: x.exp(), real(2), check_fwd_over_rev=True, fast_mode=fast_mode)


def test_batched_tangents_pass() -> None:
    assert gradcheck(
        lambda x: (x * x).exp(), real(2), check_forward_ad=True, check_batched_forward_grad=True
    )


@both_modes
def test_mismatch_names_output_and_input(fast_mode: bool) -> None:
    headline = "Jacobian mismatch for output 0 with respect to input 0"
    with pytest.raises(GradcheckError, match=headline):
        gradcheck(biased, real(2), fast_mode=fast_mode)
    assert gradcheck(biased, real(2), raise_exception=False, fast_mode=fast_mode) is False
    part = "While considering the imaginary part of complex outputs only, Jacobian mismatch"
    with pytest.raises(RuntimeError, match=part):
        gradcheck(lambda z: biased(z) * 1j, cplx(2), fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="output 1 with respect to input 1"):
        gradcheck(lambda x, y: (x * 1, biased(y)), (real(2), real(2)), fast_mode=fast_mode)


@both_modes
def test_inputs_are_restored(fast_mode: bool) -> None:
    x = real(4)
    before = x.detach().clone()
    version = x._version
    gradcheck(lambda x: x.sin(), x, fast_mode=fast_mode)
    assert torch.equal(x, before)
    assert x._version == version


@both_modes
def test_errors_of_the_function_pass_through(fast_mode: bool) -> None:
    def broken(x: Any) -> Any:
        raise RuntimeError("not about gradients")

    with pytest.raises(RuntimeError, match="not about gradients"):
        gradcheck(broken, real(2), raise_exception=False, fast_mode=fast_mode)


@both_modes
def test_unsuitable_inputs(fast_mode: bool) -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, real(2).detach(), fast_mode=fast_mode)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(lambda x: x, real(1).expand(2, 2), fast_mode=fast_mode)
    single = real(2).detach().to(torch.float32).requires_grad_()
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double"):
        assert gradcheck(lambda x: x, single, atol=1e-1, fast_mode=fast_mode)


def test_checks_must_fit_together() -> None:
    with pytest.raises(AssertionError, match="Expected at least one of"):
        gradcheck(lambda x: x, real(1), check_backward_ad=False)
    with pytest.raises(AssertionError, match="requires check_forward_ad to be True"):
        gradcheck(lambda x: x, real(1), check_batched_forward_grad=True)


@both_modes
def test_outputs_must_keep_shape_and_dtype(fast_mode: bool) -> None:
    one = torch.ones(1, dtype=torch.float64, requires_grad=True)

    def grows(x: Any) -> Any:
        return torch.cat([x, x]) if x.detach().item() >= 1 else x

    def narrows(x: Any) -> Any:
        return x.to(torch.float32) if x.detach().item() >= 1 else x

    with pytest.raises(AssertionError, match="return outputs with the same shape when inputs are"):
        gradcheck(grows, one, fast_mode=fast_mode)
    with pytest.raises(AssertionError, match="return outputs with the same dtype when inputs are"):
        gradcheck(narrows, one, fast_mode=fast_mode)


@both_modes
def test_no_differentiable_output(fast_mode: bool) -> None:
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, real(2), fast_mode=fast_mode)
    assert gradcheck(lambda x: x.detach() * 0, real(2), fast_mode=fast_mode)
    assert gradcheck(lambda x: (), real(2), fast_mode=fast_mode)


@both_modes
def test_backward_must_repeat(fast_mode: bool) -> None:
    calls = [0]

    def jittery(x: Any) -> Any:
        def hook(grad: Any) -> Any:
            calls[0] += 1
            return grad * (1 + 1e-9 * calls[0])

        y = x * 2
        y.register_hook(hook)
        return y

    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(jittery, real(2), fast_mode=fast_mode)
    assert gradcheck(jittery, real(2), nondet_tol=1e-5, check_undefined_grad=False)


@both_modes
def test_undefined_gradients(fast_mode: bool) -> None:
    def picky(x: Any) -> Any:
        def hook(grad: Any) -> None:
            if grad is None:
                raise RuntimeError("undefined")

        y = x.clone()
        y.register_hook(hook)
        return y

    with (
        pytest.warns(UserWarning, match="New undefined gradient support checking feature"),
        pytest.raises(GradcheckError, match="to handle undefined output grads"),
    ):
        gradcheck(picky, real(1), fast_mode=fast_mode)
    assert gradcheck(picky, real(1), check_undefined_grad=False, fast_mode=fast_mode)


def test_older_names() -> None:
    a, b = real(2, 2), real(2, 2)

    def fn(inputs: Any) -> Any:
        return 2 * inputs[0] + inputs[1], inputs[0] + 2 * inputs[1]

    eye = torch.eye(4, dtype=torch.float64)
    with pytest.warns(FutureWarning, match="part of PyTorch's private API"):
        found = get_numerical_jacobian(fn, (a, b), eps=1e-6)
    assert torch.allclose(found[0], 2 * eye) and torch.allclose(found[1], eye)
    with pytest.warns(FutureWarning, match="part of PyTorch's private API"):
        jacobians, repeatable, sizes, types = get_analytical_jacobian((a, b), fn((a, b))[0])
    assert torch.equal(jacobians[0], 2 * eye) and torch.equal(jacobians[1], eye)
    assert repeatable and sizes and types
    with warnings.catch_warnings(), pytest.raises(ValueError, match="Expected grad_out to be 1.0"):
        warnings.simplefilter("ignore")
        get_numerical_jacobian(fn, (a, b), grad_out=2.0)
