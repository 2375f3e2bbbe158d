"""Wrong calls: torch's exception class, and the part of its message that says what was wrong.

The table in bad_input.txt holds single calls; sequences of statements are below. Sweeps over all
operators check that no error comes out of the library's own insides.
"""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as functional
from rushlight import nn
from rushlight.opset import registry

BUILTIN = {
    kind.__name__: kind
    for kind in (
        AssertionError, AttributeError, IndexError, ImportError, KeyError, NotImplementedError,
        OverflowError, RuntimeError, TypeError, ValueError, ZeroDivisionError,
    )
}  # fmt: skip


def table():
    lines = (Path(__file__).parent / "bad_input.txt").read_text().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            call, rest = line.split(" -> ", 1)
            kind, fragment = rest.split(": ", 1)
            yield call, BUILTIN[kind], fragment


ROWS = list(table())


def scope():
    a = torch.arange(6.0).reshape(2, 3)
    return {
        "torch": torch, "nn": nn, "F": functional, "np": np,
        "a": a, "b": torch.arange(4.0), "i": torch.tensor([0, 1]), "l": a.long(), "d": a.double(),
        "c": torch.complex(a, a), "z": a > 2, "m": torch.empty(2, 3, device="meta"),
        "w": torch.ones(2, 3, requires_grad=True),
    }  # fmt: skip


def test_the_table_is_large():
    assert len(ROWS) >= 150


@pytest.mark.parametrize("call, kind, fragment", ROWS, ids=[row[0] for row in ROWS])
def test_call(call, kind, fragment):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(kind) as caught:
            exec(compile(call, "call", "exec"), scope())
    assert type(caught.value) is kind or kind is not RuntimeError
    assert fragment.lower() in str(caught.value).lower()


# -- sequences -------------------------------------------------------------------------------------

FUNCTION = """
class G(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1
    @staticmethod
    def backward(ctx, grad):
        return {result}
"""
SEQUENCES = [
    ("y = (w * w).sum(); y.backward(); y.backward()", RuntimeError,
     "Trying to backward through the graph a second time"),
    ("y = w.exp().sum(); y.backward(); torch.autograd.grad(y, w)", RuntimeError,
     "Specify retain_graph=True"),
    ("y = w.exp(); y.add_(1); y.sum().backward()", RuntimeError,
     "[torch.FloatTensor [2, 3]], which is output 0 of Exp"),
    ("y = w * 1; s = y * y; y[0] = 0; s.sum().backward()", RuntimeError,
     "is at version 1; expected version 0 instead"),
    ("v = torch.ones(2, 3); s = w * v; v.zero_(); s.sum().backward()", RuntimeError,
     "has been modified by an inplace operation: [torch.FloatTensor [2, 3]] is at version 1"),
    ("v, _ = (w * 1).unbind(0); v.add_(1)", RuntimeError,
     "is the output of a function that returns multiple views"),
    ("v, _ = (w * 1).split(1); v.mul_(2)", RuntimeError, "is a view and is being modified inplace"),
    ("y = w * 1; y.view(-1).detach_()", RuntimeError, "Can't detach views in-place"),
    ("y = w * 2; y.requires_grad = False", RuntimeError,
     "you can only change requires_grad flags of leaf variables"),
    ("w[0] = 1", RuntimeError, "a view of a leaf Variable that requires grad is being used in an"),
    ("w += 1", RuntimeError, "a leaf Variable that requires grad is being used in an in-place"),
    ("if a: pass", RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    ("for v in torch.tensor(1): pass", TypeError, "iteration over a 0-d tensor"),
    ("a[0] = 'x'", TypeError, "can't assign a str to a torch.FloatTensor"),
    ("del a[0]", TypeError, "Tensor does not support deleting items"),
    ("w.register_hook(lambda g: g[:1]); w.sum().backward()", RuntimeError,
     "hook '<lambda>' has changed the size of value"),
    ("w.register_hook(lambda g: 'x'); w.sum().backward()", TypeError,
     "expected Variable, but hook returned 'str'"),
    ("with torch.inference_mode(): q = torch.ones(2, 3)\nq.add_(1)", RuntimeError,
     "Inplace update to inference tensor outside InferenceMode is not allowed"),
    ("with torch.inference_mode(): q = torch.ones(2, 3)\n(q * w).sum()", RuntimeError,
     "Inference tensors cannot be saved for backward"),
    ("class G(torch.autograd.Function): pass\nG.apply(a)", NotImplementedError,
     "You must implement the forward function for custom autograd.Function."),
    (FUNCTION.format(result="grad, grad") + "G.apply(w).sum().backward()", RuntimeError,
     "function GBackward returned an incorrect number of gradients (expected 1, got 2)"),
    (FUNCTION.format(result="grad[:1, :2]") + "G.apply(w).sum().backward()", RuntimeError,
     "GBackward returned an invalid gradient at index 0 - got [1, 2] but expected shape"),
    (FUNCTION.format(result="'x'") + "G.apply(w).sum().backward()", RuntimeError,
     "expected Variable or None (got str)"),
    (FUNCTION.format(result="ctx.saved_tensors[0]") + "y = G.apply(w).sum()\ny.backward()\n"
     "y.backward()", RuntimeError, "Trying to backward through the graph a second time"),
    ("class N(nn.Module):\n    def __init__(self): self.l = nn.Linear(2, 2)\nN()",
     AttributeError, "cannot assign module before Module.__init__() call"),
    ("class N(nn.Module):\n    def __init__(self): self.register_buffer('p', a)\nN()",
     AttributeError, "cannot assign buffer before Module.__init__() call"),
    ("nn.Linear(3, 2).load_state_dict({'weight': a[:, :2], 'bias': a[:, 0]})", RuntimeError,
     "size mismatch for weight: copying a param with shape torch.Size([2, 2]) from checkpoint, "
     "the shape in current model is torch.Size([2, 3])"),
    ("nn.Linear(3, 2).load_state_dict({'weight': a, 'bias': a[:, 0], 'x': a})", RuntimeError,
     'Unexpected key(s) in state_dict: "x"'),
    ("nn.Linear(3, 2).load_state_dict({})", RuntimeError,
     'Missing key(s) in state_dict: "weight", "bias"'),
]  # fmt: skip


@pytest.mark.parametrize("source, kind, fragment", SEQUENCES, ids=lambda value: str(value)[-40:])
def test_sequence(source, kind, fragment):
    with pytest.raises(kind) as caught:
        exec(compile(textwrap.dedent(source), "sequence", "exec"), scope())
    assert fragment in str(caught.value)


def test_anomaly_mode_names_both_lines():
    w = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
            saved = torch.ones(3)
            product = w * saved
            saved.mul_(2)
            product.sum().backward()
    text = str(caught.value)
    assert "modified by an inplace operation" in text
    assert "product = w * saved" in text and "saved.mul_(2)" in text


# -- sweeps ----------------------------------------------------------------------------------------

ANSWERS = (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError)
# Wordings of NumPy or of Python where a check of ours is missing.
INSIDES = (
    "operands could not", "cannot reshape", "could not broadcast", "ufunc", "<missing>",
    "zip()", "is not subscriptable", "has no len()", "setting an array",
)  # fmt: skip
OPERATORS = sorted(name for name in registry.PACKETS["aten"] if not name.startswith("_"))
# Operators without a public form in torch.
PRIVATE = {"copy_sparse_to_sparse_"}


def bad_arguments():
    a = torch.arange(6.0).reshape(2, 3)
    return (
        (), ("x",), (None,), (a, "x"), (a, None), (a, a, "x"), (a, ["x"]), (a, 99),
        (a, torch.ones(4)), (a, 9, a), (a > 1, 0), (torch.ones(0, 3), 0),
    )  # fmt: skip


def complaint(function, args, kwargs):
    """What is wrong with the way a call fails; None when nothing is."""
    try:
        function(*args, **kwargs)
    except ANSWERS as error:
        return next((f"{error}" for words in INSIDES if words in str(error)), None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.filterwarnings("ignore")
def test_no_operator_fails_from_inside():
    found = []
    for name in OPERATORS:
        if name in PRIVATE:
            continue
        function = getattr(torch, name, None)
        method = getattr(torch.Tensor, name, None)
        for position, args in enumerate(bad_arguments()):
            if callable(function) and (problem := complaint(function, args, {})):
                found.append((f"torch.{name}", position, problem))
            bound = callable(method) and args and isinstance(args[0], torch.Tensor)
            if bound and (problem := complaint(method, args, {})):
                found.append((f"Tensor.{name}", position, problem))
        if callable(method) and (problem := complaint(method, (torch.ones(2),), {"foo": 1})):
            found.append((f"Tensor.{name}", "foo=1", problem))
    assert found == []


@pytest.mark.filterwarnings("ignore")
def test_errors_do_not_tell_of_numpy():
    """What a traceback shows before the error is the user's own, not an array library's failure."""
    found = []
    for call, kind, _ in ROWS:
        try:
            exec(compile(call, "call", "exec"), scope())
        except kind as error:
            cause = error.__context__
            if isinstance(cause, Exception) and not error.__suppress_context__:
                found.append((call, repr(cause)[:80]))
    assert found == []
