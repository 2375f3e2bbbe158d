"""Wrong calls: every op has some, each raises what it states, and they follow from the schema."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rushlight
from rushlight.core.op import OpOverload, refuse
from rushlight.opset import audit, registry
from rushlight.opset.kinds import OPAQUE
from rushlight.opset.samples.from_schema import derived_errors, door
from rushlight.opset.samples.maker import Sample, errors_of

OPS = audit.records()


def raised(op: Any, case: Sample) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door(op)(*case.args, **case.kwargs)
    except Exception as error:
        return type(error).__name__
    return "nothing"


@pytest.mark.parametrize("family", sorted({op.family for op in OPS}))
def test_every_wrong_call_raises_what_it_states(family: str) -> None:
    problems = []
    for op in OPS:
        if op.family == family:
            for wanted, case in errors_of(op):
                name = raised(op, case)
                if name != wanted.__name__:
                    problems.append(f"{op.name()}{case!r}: {name}, stated {wanted.__name__}")
    assert not problems, "\n".join(problems)


def test_most_ops_have_several() -> None:
    counts = [len(errors_of(op)) for op in OPS if audit.error_state(op)[:7] != "refused"]
    assert min(counts) >= 1
    assert sum(count > 1 for count in counts) >= 0.9 * len(counts)


def shown(name: str, overload: str = "default") -> set[str]:
    cases = derived_errors(registry.find(name, overload))
    return {f"{error.__name__} {case!r}" for error, case in cases}


def test_a_public_function_says_typeerror() -> None:
    assert shown("cumsum") >= {
        "TypeError (f32[3, 4])",
        "TypeError (f32[3, 4], 0, 'text')",
        "TypeError (f32[3, 4], 0, no_such_argument=1)",
        "TypeError ('text', 0)",
        "TypeError (f32[3, 4], 1.5)",
        "TypeError (f32[3, 4], 0, dtype='text')",
        "TypeError (f32[3, 4], 0, out='text')",
        "IndexError (f32[3, 4], 7)",
    }


def test_an_overload_says_runtimeerror() -> None:
    classes = {line.split()[0] for line in shown("tanh_backward")}
    assert classes == {"RuntimeError"}
    assert door(registry.find("tanh_backward")) is registry.find("tanh_backward")


def test_a_call_that_another_overload_takes_is_no_error() -> None:
    # max(x) is an overload of its own.
    assert "TypeError (f32[2, 3])" not in shown("max", "dim")


def test_elementwise_operands_must_agree() -> None:
    found = shown("add", "Tensor")
    assert "RuntimeError (f32[2, 3], f32[4])" in found
    on_meta = [c for e, c in derived_errors(registry.find("add", "Tensor")) if e is RuntimeError]
    assert any(c.args[1].device.type == "meta" for c in on_meta)


def test_what_is_written_must_not_be_a_leaf() -> None:
    cases = [case for error, case in derived_errors(registry.find("resize_as_")) if case.args]
    assert any(case.args[0].requires_grad for case in cases if hasattr(case.args[0], "dim"))


def test_what_is_written_down_stands_before_what_follows() -> None:
    stated = {repr(case): error for error, case in errors_of(registry.find("narrow_copy"))}
    assert stated["(f32[4, 3], 7, 1, 2)"] is RuntimeError
    implied = {repr(case): error for error, case in derived_errors(registry.find("narrow_copy"))}
    assert implied["(f32[4, 3], 7, 1, 2)"] is IndexError


def test_refused() -> None:
    op = OpOverload("odd(Tensor self) -> Tensor", OPAQUE, "test")
    assert errors_of(op)
    op.errors = refuse("no")
    assert errors_of(op) == []


# -- what they brought to light --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes"), [("square", [(3,)]), ("outer", [(2,), (3,)]), ("matmul", [(3,), (3,)])]
)
def test_out_of_a_composite_loses_no_fraction(name: str, sizes: list[Any]) -> None:
    operands = [rushlight.full(size, 1.5) for size in sizes]
    out = rushlight.zeros_like(getattr(rushlight, name)(*operands), dtype=rushlight.int64)
    with pytest.raises(RuntimeError, match="Float can't be cast|Expected out tensor to have dtype"):
        getattr(rushlight, name)(*operands, out=out)


def test_out_is_found_past_an_overload_without_it() -> None:
    x = rushlight.tensor([1.0, 2.0, 4.0])
    out = rushlight.empty(())
    assert rushlight.var(x, out=out) is out
    assert out.item() == pytest.approx(7 / 3)
    with pytest.raises(TypeError):
        rushlight.var(x, True, out=out)


def test_names_that_are_not_functions() -> None:
    for name in ("_unsafe_view", "_to_copy", "unique_dim", "silu", "relu6_", "reflection_pad1d"):
        assert not hasattr(rushlight, name), name
    x = rushlight.arange(4.0)
    assert rushlight.as_strided_(x, (2,), (2,)).tolist() == [0.0, 2.0]
    assert rushlight.nn.functional.silu(x) is not None
