"""Ops on lists: gradients tensor by tensor, in-place forms, versions, tracing, errors."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import rushlight as rl
from rushlight.aot.tracing import make_fx
from rushlight.autograd import forward_ad
from rushlight.core.functional import FunctionalMode, from_functional, to_functional
from rushlight.opset.registry import PACKETS, find, packet


def leaves() -> list[Any]:
    return [rl.tensor([1.0, 2.0], requires_grad=True), rl.tensor([[3.0]], requires_grad=True)]


def test_each_result_has_the_node_of_the_op_on_one_tensor() -> None:
    x = leaves()
    x[1].requires_grad_(False)
    first, second = rl._foreach_exp(x)
    assert type(first.grad_fn).__name__ == "ExpBackward0" and second.grad_fn is None
    first.sum().backward()
    assert x[0].grad.tolist() == pytest.approx(first.tolist())


def test_operands_of_several_lists() -> None:
    x, y = leaves(), leaves()
    results = rl._foreach_addcmul(x, y, y, [2.0, 3.0])
    assert [r.tolist() for r in results] == [[3.0, 10.0], [[30.0]]]
    (results[0].sum() + results[1].sum()).backward()
    assert y[0].grad.tolist() == [4.0, 8.0] and y[1].grad.tolist() == [[18.0]]
    assert [r.item() for r in rl._foreach_norm([t.detach() for t in x], 1)] == [3.0, 3.0]
    assert [r.tolist() for r in rl._foreach_pow(2, [rl.tensor([3.0])])] == [[8.0]]
    assert [r.tolist() for r in rl._foreach_lerp(x, y, 0.5)] == [[1.0, 2.0], [[3.0]]]


def test_in_place_forms_record_history_and_count_versions() -> None:
    x = leaves()
    y = [t.clone() for t in x]
    assert rl._foreach_mul_(y, x) is None
    assert type(y[0].grad_fn).__name__ == "MulBackward0"
    y[0].sum().backward()
    assert x[0].grad.tolist() == [2.0, 4.0]
    with rl.no_grad():
        rl._foreach_add_(x, 1.0)
    assert [t._version for t in x] == [1, 1] and x[0].tolist() == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        rl._foreach_zero_(x)


INPLACE = sorted(
    name
    for name in {packet("_foreach_abs").base_name} | set(PACKETS["aten"])
    if name.startswith("_foreach_") and name.endswith("_")
)


@pytest.mark.parametrize("name", INPLACE)
def test_in_place_forms_give_what_the_others_give(name: str) -> None:
    from rushlight.opset.samples.maker import samples_of

    for overload, record in packet(name).table.items():
        functional = getattr(packet(name[:-1]), overload)
        assert record.functional is functional
        for case in samples_of(functional, rl.float64):
            wanted = functional(*case.args, **case.kwargs)
            copies = [t.clone() for t in case.args[0]]
            record(copies, *case.args[1:], **case.kwargs)
            for target, value in zip(copies, wanted, strict=True):
                assert rl.equal(target, value)


def test_a_list_is_one_call_below_autograd() -> None:
    def step(x: Any, y: Any) -> Any:
        values = [x.clone(), y.clone()]
        rl._foreach_add_(values, [y, x], alpha=2)
        return rl._foreach_mul(values, 3.0)

    x, y = rl.ones(2), rl.zeros(2)

    def functional(*args: Any) -> Any:
        with FunctionalMode():
            return [from_functional(t) for t in step(*[to_functional(a) for a in args])]

    graph = make_fx(functional)(x, y)
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert "aten._foreach_add.List" in names and "aten._foreach_mul.Scalar" in names
    assert not any(name.startswith("aten._foreach_add_") for name in names)
    assert [t.tolist() for t in graph(x, y)] == [t.tolist() for t in step(x, y)]


def test_vmap_and_forward_mode() -> None:
    x = rl.arange(6.0).reshape(3, 2)
    found = rl.vmap(lambda row: rl._foreach_mul([row, row.sum()], 2.0))(x)
    assert found[0].tolist() == (x * 2).tolist() and found[1].tolist() == [2.0, 10.0, 18.0]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, rl.ones(3, 2))
        tangent = forward_ad.unpack_dual(rl._foreach_exp([dual])[0]).tangent
    assert rl.equal(tangent, x.exp())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: rl._foreach_add([], 1.0), "Tensor list must have at least one tensor."),
        (lambda x: rl._foreach_add(x, x[:1]), "the same number of tensors, got 2 and 1"),
        (lambda x: rl._foreach_mul(x, [1.0]), "same number of elements as scalar list"),
        (lambda x: rl._foreach_mul(x, rl.ones(2)), "scalar tensor expected to be 0 dim"),
        (lambda x: rl._foreach_addcdiv(x, x, x, rl.ones(3)), "match input of length 2"),
        (lambda x: rl._foreach_add_([rl.ones(2)], [rl.ones(3)]), r"size of tensor a \(2\)"),
        (lambda x: rl._foreach_sqrt_([rl.ones(1, dtype=rl.int32)]), "can't be cast"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(leaves())


def test_names_as_overloads() -> None:
    assert find("_foreach_copy_")._schema.returns == ()
    target = [rl.zeros(2), rl.zeros(1, dtype=rl.int64)]
    rl._foreach_copy_(target, [rl.ones(2), rl.tensor([2.5])])
    assert [t.tolist() for t in target] == [[1.0, 1.0], [2]]


class Noticing(rl.Tensor):
    """Tells which operators came to it."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(func))
        return None if func._schema.is_mutable else [rl.ones(2)]


@pytest.mark.parametrize("grad", [True, False])
def test_subclasses_in_lists_are_asked(grad: bool) -> None:
    made = [rl.ones(2).as_subclass(Noticing)]
    Noticing.seen.clear()
    with rl.set_grad_enabled(grad):
        rl._foreach_add(made, 1.0)
        rl._foreach_add_(made, [rl.ones(2)])
    assert Noticing.seen == ["aten._foreach_add.Scalar", "aten._foreach_add_.List"]


def test_writes_to_lists_that_share_memory_are_made_in_turn() -> None:
    from rushlight.aot.api import aot_function
    from rushlight.aot.compilers import nop

    def parts(x: Any) -> Any:
        made = x * 1
        rl._foreach_mul_([made, made[:1]], [2, 3])
        return made

    def crossed(x: Any) -> Any:
        first, second = x * 1, x * 0
        rl._foreach_add_([first, second], [second + 5, first])
        return first + second * 10

    for function in (parts, crossed):
        for grad in (False, True):
            x = rl.ones(3, 2, requires_grad=grad)
            expected = function(x)
            assert aot_function(function, nop)(x).tolist() == expected.tolist()
            assert rl.func.functionalize(function)(x.detach()).tolist() == expected.tolist()
