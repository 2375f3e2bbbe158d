"""What compiled code does beside what Python does: results, warnings, errors, writes, draws."""

from __future__ import annotations

import itertools
import re
import warnings

import rushlight as torch

FLAGS = (False, True)


def t(*sizes):
    return torch.randn(*sizes)


def at(values, **options):
    return torch.tensor(values, **options)


def copied(values):
    """Arguments of one call: what it writes stays its own."""
    if isinstance(values, torch.Tensor):
        return values.clone()
    if isinstance(values, tuple):
        items = [copied(value) for value in values]
        return type(values)(*items) if hasattr(values, "_fields") else tuple(items)
    return values


def plain(text):
    """A message without what differs between Python and compiled code: how numbers are written."""
    text = str(text).replace("<class 'rushlight.core.tensor.Tensor'>", "Tensor")
    text = re.sub(r"torch\.Size|,\)|[()\[\]]", "", text)
    return re.sub(r"(\d\.)0\b", r"\1", text)


def outcome(function, args, kwargs):
    """(what it gives or the error, its warnings, its inputs afterwards, the next random number)."""
    args, kwargs = copied(args), {name: copied(value) for name, value in kwargs.items()}
    torch.manual_seed(3)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            return error, [], (), None
    said = sorted([plain(each.message) for each in heard])
    return result, said, (args, kwargs), torch.rand(())


def is_same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        )
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all([is_same(a[key], b[key]) for key in a])
    return a is b or a == b


def check_same(python, compiled, args, kwargs, where):
    wanted, got = outcome(python, args, kwargs), outcome(compiled, args, kwargs)
    if isinstance(wanted[0], Exception) or isinstance(got[0], Exception):
        assert isinstance(wanted[0], Exception), f"{where}: only compiled code refuses: {got[0]}"
        assert isinstance(got[0], Exception), f"{where}: only Python refuses: {wanted[0]}"
        return plain(wanted[0]), plain(got[0])
    for name, a, b in zip(("results", "warnings", "inputs", "random numbers"), wanted, got):
        assert is_same(a, b), f"{where}: {name} differ: {a} {b}"
    return "", ""


def combinations(options):
    return [dict(zip(options, values)) for values in itertools.product(*options.values())]
