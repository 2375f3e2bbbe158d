"""Switches of `torch.compile`."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base.errors import MissingFeature
from rushlight.capture.exc import FailOnRecompileLimitHit
from rushlight.compiler import compiling, config
from rushlight.compiler.counting import CompileCounter


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def number_in_the_middle(x, y):
    n = x.sum().item()
    return y * n + x


def places_in_the_middle(x, y):
    y = y + 1
    return x[x.nonzero()[:, 0]] * 2, y + 1


def mask_in_the_middle(x, y):
    return x[x > 0] * 2, y + 1


@pytest.mark.parametrize(
    ("program", "switch"),
    [
        (number_in_the_middle, "capture_scalar_outputs"),
        (places_in_the_middle, "capture_dynamic_output_shape_ops"),
        (mask_in_the_middle, "capture_dynamic_output_shape_ops"),
    ],
)
def test_what_only_data_tell_is_part_of_graphs_where_asked_for(program, switch):
    x, y = torch.tensor([1.0, 0.0, -2.0, 5.0]), torch.arange(4.0)
    for is_on in (False, True):
        compiling.reset()
        with config.patch({switch: is_on}):
            counter = CompileCounter()
            compiled = torch.compile(program, backend=counter)
            for sign in (1, -1):
                found, expected = compiled(x * sign, y), program(x * sign, y)
                torch.testing.assert_close(found, expected)
            assert (counter.frame_count == 1) is is_on


def test_a_decision_on_a_captured_number_breaks_there():
    def f(x):
        n = x.sum().item()
        y = x * n
        return y + 1 if n > 0 else y - 1

    with config.patch(capture_scalar_outputs=True):
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter)
        for x in (torch.ones(2), -torch.ones(2), torch.ones(2) * 2):
            torch.testing.assert_close(compiled(x), f(x))
        assert counter.frame_count > 1


@pytest.mark.parametrize("writes", [False, True])
def test_backends_are_checked_where_asked_for(writes):
    def wrong(gm, inputs):
        if writes:
            for node in gm.graph.nodes:
                if node.op == "call_method" and node.target == "sin":
                    node.target = "cos"
            gm.recompile()
            return gm.forward
        return lambda *args: tuple(result + 1 for result in gm(*args))

    x = torch.linspace(0, 1, 3)
    with config.patch(verify_correctness=True):
        with pytest.raises(RuntimeError, match="incorrect results of backend wrong"):
            torch.compile(lambda x: x.sin(), backend=wrong)(x)
        compiled = torch.compile(lambda x: torch.rand(3) + x.sin(), backend="aot_eager")
        torch.manual_seed(1)
        found = compiled(x)
        torch.manual_seed(1)
        torch.testing.assert_close(found, torch.rand(3) + x.sin())
    compiling.reset()
    assert not torch.equal(torch.compile(lambda x: x.sin(), backend=wrong)(x), x.sin())


def test_nothing_is_compiled_where_compiling_is_switched_off():
    counter = CompileCounter()
    with config.patch(disable=True):
        compiled = torch.compile(torch.sin, backend=counter)
    assert compiled(torch.ones(2)).equal(torch.ones(2).sin())
    assert counter.frame_count == 0


def test_older_names_of_limits():
    def f(x, n):
        return x + n

    with config.patch(
        accumulated_cache_size_limit=1, fail_on_cache_limit_hit=True, specialize_int=True
    ):
        compiled = torch.compile(f, backend="eager")
        compiled(torch.ones(2), 1)
        with pytest.raises(FailOnRecompileLimitHit, match="accumulated"):
            compiled(torch.ones(2), 2)


def test_switches_of_machinery_are_taken_and_those_with_a_meaning_refused():
    with config.patch(inline_inbuilt_nn_modules=False, traceable_tensor_subclasses={int}):
        assert config.inline_inbuilt_nn_modules is False
    assert config.inline_inbuilt_nn_modules is True
    with pytest.raises(MissingFeature, match="numpy_default_float"):
        config.numpy_default_float = "float32"


def test_those_who_ask_are_told_why_code_does_not_fit():
    told = []
    f = compiling.optimize("eager", guard_fail_fn=told.append)(lambda x: x + 1)
    for x in (torch.ones(2), torch.ones(2), torch.ones(2, 2)):
        f(x)
    ((reason, code),) = told
    assert "L['x'] is a Tensor" in reason
    assert code.co_name == "<lambda>"
