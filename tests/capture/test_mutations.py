"""Whatever compiled code read, changed afterwards: the result is that of eager code."""

from __future__ import annotations

import re
import types

import pytest

import rushlight as torch
from rushlight.capture.marks import graph_break
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter
from tests.capture import mutations


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def grad_of(net, x):
    x = x.detach().clone().requires_grad_()
    net(x).sum().backward()
    return x.grad


def namespace_of(*texts):
    names = {"torch": torch, "nn": torch.nn, "grad_of": grad_of, "__name__": __name__}
    names |= {"types": types, "graph_break": graph_break}
    for text in texts:
        exec(compile(text, "<mutated>", "exec"), names)
    return names


def shown(value):
    """A value as text, tensors with all that can be seen of them."""
    if isinstance(value, torch.Tensor):
        facts = (type(value).__name__, value.dtype, tuple(value.shape), value.requires_grad)
        if value.device.type == "meta":
            return f"{facts}"
        return f"{facts} {value.detach().to_dense().resolve_conj().resolve_neg().tolist()}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    return repr(value)


def outcome(f, *args):
    try:
        return shown(f(*args))
    except Exception as error:
        # An empty slot has two texts, by whether CPython has specialized the instruction.
        text = re.sub(r"^'[\w.]*Slots' object has no attribute 's'$", "s", str(error))
        return f"{type(error).__name__}: {text}"


def run_change(names, text):
    exec(compile(text, "<change>", "exec"), names)
    return names.pop("UNDO", lambda: None)


CASES = [(case, context) for case in mutations.CASES for context in mutations.CONTEXTS]


@pytest.mark.parametrize(("case", "context"), CASES)
def test_what_was_read_is_changed(case, context):
    setup, expression, change = mutations.CASES[case]
    text = mutations.CONTEXTS[context].format(e=expression)
    eager, captured = namespace_of(setup, text), namespace_of(setup, text)
    counter = CompileCounter()
    compiled = torch.compile(captured["f"], backend=counter)
    x = torch.arange(3.0) + 1
    for _ in range(2):
        assert outcome(compiled, x) == outcome(eager["f"], x)
    assert counter.frame_count, "nothing was captured"
    undo = run_change(eager, change)
    try:
        want = outcome(eager["f"], x)
        undo()
        undo = run_change(captured, change)
        assert outcome(compiled, x) == want
        assert outcome(compiled, x) == want
    finally:
        undo()
    assert want != outcome(namespace_of(setup, text)["f"], x) or is_silent(case), "no change"


SILENT = {
    "global negative zero",
    "attribute deleted",
    "global number to bool",
    "hasattr, deleted",
    "__call__ of an instance",
}


def is_silent(case):
    """Whether a change need not be seen in the result."""
    return case in SILENT


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("case", mutations.TENSORS)
def test_other_arguments(case, backend, order):
    expression, *texts = mutations.TENSORS[case]
    names = namespace_of(mutations.PREPARED, f"def f(x):\n    return {expression}")
    compiled = torch.compile(names["f"], backend=backend)
    for number in (order[0], order[0], order[1], order[1], order[0]):
        pair = [eval(texts[number - 1], names) for _ in range(2)]
        assert outcome(compiled, pair[0]) == outcome(names["f"], pair[1])
        assert shown(pair[0]) == shown(pair[1]) or "iter" in texts[0] or callable(pair[0])


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("context", ["in the frame", "in a callee", "behind a break"])
@pytest.mark.parametrize("case", mutations.STATES)
def test_other_states(case, context):
    state, expression = mutations.STATES[case]
    text = mutations.CONTEXTS[context].format(e=expression)
    names = namespace_of(mutations.STATE_SETUP, text)
    f = names["f"]
    compiled = torch.compile(f, backend="eager")
    x = torch.ones(3, 3)
    for _ in range(2):
        assert outcome(compiled, x) == outcome(f, x)
    for _ in range(2):
        with eval(state, names):
            got, want = outcome(compiled, x), outcome(f, x)
        assert got == want
    assert outcome(compiled, x) == outcome(f, x)
