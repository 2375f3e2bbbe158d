"""Elementary functions: conflicting bounds, steps, what has no in-place form."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_logit_with_bounds_in_conflict_takes_the_lower_one():
    x = torch.tensor([-3.0, 0.65, 2.0], dtype=torch.float64)
    low, high = 0.4054651081081642, -0.4054651081081644
    assert torch.logit(x, 0.6).tolist() == pytest.approx([low, high, high])


def test_nextafter_has_no_derivative():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="the derivative for 'nextafter' is not"):
        torch.nextafter(x, x).sum().backward()


def test_abs_in_place_is_for_real_numbers():
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        torch.tensor([1j]).abs_()
    assert torch.tensor([-1.0]).abs_().tolist() == [1.0]


def test_a_function_without_derivative_fails_in_backward():
    y = torch.heaviside(torch.tensor([1.0], requires_grad=True), torch.tensor([0.5]))
    assert y.grad_fn.name() == "torch::autograd::NotImplemented"
    assert type(y.grad_fn).__name__ == "NotImplemented"
    with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
        y.sum().backward()


@pytest.mark.parametrize("kind", [torch.complex64, torch.complex128])
def test_log1p_keeps_small_real_parts(kind):
    z = torch.tensor([1e-10 + 1e-10j, 1e-5j, 1e-200j + 1e-20, -0.25 + 0.25j, 3 + 4j], dtype=kind)
    expected = [1e-10, 4.99999999975e-11, 1e-20, -0.23500181462286778, 1.7328679513998633]
    assert torch.log1p(z).real.tolist() == pytest.approx(expected, rel=1e-5, abs=0)
    assert torch.log1p(z).imag[3:].tolist() == pytest.approx([0.32175055439664, 0.78539816339745])


def test_heaviside_has_no_complex_form():
    z = torch.ones(1, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match="not yet implemented for complex"):
        torch.heaviside(z, z)


@pytest.mark.parametrize("name", ["xlogy", "special_xlog1py", "special_zeta"])
def test_a_single_element_and_a_number_keep_the_elements_dtype(name):
    """The element is no number: the overload of (number, tensor) does not fit."""
    from rushlight.core.state import LOCAL

    function = getattr(torch, name, None) or getattr(torch.special, name.removeprefix("special_"))
    x = torch.tensor(1.5, dtype=torch.float64)
    with torch.no_grad():
        plain = function(x, 3)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert LOCAL.state.layers  # the general path
        general = function(x, 3)
    assert plain.dtype == general.dtype == torch.float64
    assert plain.item() == general.item() == function(torch.stack([x]), 3).item()


def test_complex_numbers_times_powers_told_by_truth():
    found = torch.ldexp(torch.ones(2, dtype=torch.complex64), torch.tensor([True, False]))
    assert found.tolist() == [2, 1]
