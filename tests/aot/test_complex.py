"""Complex numbers in compiled functions: conjugated and negated lazily, seen as real ones."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop


def leaf(*shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64).view(shape) * 1).requires_grad_()


@pytest.mark.parametrize("inside", [False, True])
def test_lazily_conjugated_numbers_are_written(inside):
    def f(a):
        pairs = a * 1 if inside else a
        torch.view_as_complex(pairs).conj().mul_(2j)
        return pairs

    def g(a):
        numbers = torch.complex(a, a * 2)
        torch.view_as_real(numbers).transpose(0, 1).mul_(torch.ones(2, 4, 2))
        torch.view_as_real(numbers).copy_(numbers.conj().imag.unsqueeze(-1))
        return torch.view_as_real(numbers)

    for function in (f, g):
        found = []
        for run in (function, aot_function(function, nop)):
            x = leaf(4, 2)
            result = run(x * 1)
            result.sum().backward()
            found.append((result.tolist(), x.grad.tolist()))
        assert found[0] == found[1]


def returned_conjugated(a):
    return torch.complex(a, a * 2).conj()


def written_conjugated(a):
    numbers = torch.complex(a, a * 2)
    view = numbers.conj()
    view.mul_(2j)
    return view, numbers


@pytest.mark.parametrize("function", [returned_conjugated, written_conjugated])
@pytest.mark.parametrize("give", [lambda g: g, lambda g: g.conj(), lambda g: g.t().t()])
def test_gradients_of_lazily_conjugated_outputs(function, give):
    found = []
    for run in (function, aot_function(function, nop)):
        x = leaf(2, 3)
        result = run(x * 1)
        outputs = result if isinstance(result, tuple) else (result,)
        weights = [torch.complex(o.detach().real.clone(), o.detach().imag * 3) for o in outputs]
        torch.autograd.backward(outputs, [give(each) for each in weights])
        found.append(([o.resolve_conj().tolist() for o in outputs], x.grad.tolist()))
    assert found[0] == found[1]


READINGS = {
    "conj": lambda z: z.conj(),
    "part of conj": lambda z: z.conj()[1:],
    "real numbers": torch.view_as_real,
    "imag": lambda z: z.imag,
    "imag of conj": lambda z: z.conj().imag,
    "negative": lambda z: z._neg_view(),
}


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("name", READINGS)
def test_arguments_that_read_one_memory_in_different_ways(name, needs):
    def write_base(a, b):
        a.mul_(2j)
        return b * 1

    def write_view(a, b):
        b.mul_(2)
        return a * 1

    def write_and_return(a, b):
        a.mul_(2j)
        return b

    for function in (write_base, write_view, write_and_return):
        found = []
        for run in (function, aot_function(function, nop)):
            x = torch.arange(1.0, 4.0).requires_grad_(needs)
            z = torch.complex(x, x * 3)
            result = run(z, READINGS[name](z))
            if needs:
                loss = (result * result).sum()
                (loss.real if loss.is_complex() else loss).backward()
            values = result.resolve_conj().resolve_neg().tolist()
            found.append((values, z.tolist(), x.grad.tolist() if needs else None))
        assert found[0] == found[1]
