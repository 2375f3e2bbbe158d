"""Compiled code called while a trace runs, and exported methods of traced modules."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.testing import FileCheck

nn = torch.nn


@torch.jit.script
def choose(x: torch.Tensor, flag: bool = True, name: str = "up") -> torch.Tensor:
    if bool(x.sum() > 0):
        return x + 1
    return x - 1


@torch.jit.script
def total(parts: list[torch.Tensor]) -> torch.Tensor:
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result


@torch.jit.script
def named(x: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    return {"a": (x, x + 1), "b": (x * 2, x)}


@torch.jit.script
def rows(x: torch.Tensor) -> list[list[torch.Tensor]]:
    return [[x[0], x[1]], [x[1]]]


@torch.jit.script
def maybe(x: torch.Tensor | None, y: torch.Tensor) -> torch.Tensor:
    if x is None:
        return y
    return x + y


def test_control_flow_stays_in_the_callee():
    traced = torch.jit.trace(lambda x: choose(x) * 2, torch.ones(2))
    FileCheck().check('name="choose"').check_next("prim::CallFunction").check("aten::mul").run(
        traced.graph
    )
    assert traced(torch.ones(2)).tolist() == [4, 4]
    assert traced(-torch.ones(2)).tolist() == [-4, -4]


def test_arguments_are_put_together():
    traced = torch.jit.trace(lambda x: total((x, x * 2, x * 3)), torch.ones(2))
    assert "prim::ListConstruct" in str(traced.graph)
    assert traced(torch.full((2,), 2.0)).tolist() == [12, 12]
    none = torch.jit.trace(lambda x: maybe(None, x) + maybe(x, x), torch.ones(2))
    assert none(torch.ones(3)).tolist() == [3, 3, 3]


def test_results_are_taken_apart():
    def f(x):
        found = named(x)
        return found["a"][1] - found["b"][0]

    traced = torch.jit.trace(f, torch.ones(2))
    FileCheck().check("prim::CallFunction").check("aten::__getitem__").check(
        "prim::TupleUnpack"
    ).run(traced.graph)
    assert traced(torch.full((2,), 3.0)).tolist() == [-2, -2]
    nested = torch.jit.trace(lambda x: rows(x)[0][1] + rows(x)[1][0], torch.ones(2, 2))
    assert str(nested.graph).count("prim::ListUnpack") >= 3
    assert nested(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [6, 8]


def test_results_have_complete_types():
    traced = torch.jit.trace(lambda x: choose(x), torch.ones(4, 2))
    (call,) = traced.graph.findAllNodes("prim::CallFunction")
    assert call.output().isCompleteTensor()
    assert call.output().type().sizes() == [4, 2]


def test_a_traced_compiled_function_is_one_call():
    traced = torch.jit.trace(choose, torch.ones(2))
    assert [node.kind() for node in traced.graph.nodes()][-1] == "prim::CallFunction"
    assert traced.graph.inputs()[0].debugName() == "0"


def test_modules_must_belong_to_the_traced_one():
    inner = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="not part of the active trace"):
        torch.jit.trace(lambda x: inner(x), torch.ones(1, 2))


class WithExports(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.a = 3

    @torch.jit.export
    def __getstate__(self):
        return (self.a, self.training)

    @torch.jit.export
    def __setstate__(self, state):
        self.a = state[0]
        self.training = state[1]

    @torch.jit.export
    def halved(self, x):
        return x / 2

    def forward(self, x):
        return (lambda y: self.lin(y))(x)


def test_exported_methods_are_compiled():
    module = WithExports()
    traced = torch.jit.trace(module, torch.ones(1, 2))
    assert isinstance(traced, torch.jit.RecursiveScriptModule)
    assert set(traced._c._method_names()) >= {"forward", "halved", "__getstate__", "__setstate__"}
    assert traced.halved(torch.ones(2)).tolist() == [0.5, 0.5]
    x = torch.rand(3, 2)
    assert torch.equal(traced(x), module(x))
    assert str(traced._c._get_method("__setstate__").schema).endswith(
        "(int, bool) state) -> NoneType"
    )
