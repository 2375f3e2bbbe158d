"""Dispatch modes, function modes and the switches around them."""

from __future__ import annotations

import threading
from typing import ClassVar

import pytest

import rushlight as torch
from rushlight.amp import DisableAutocast
from rushlight.core import modes
from rushlight.core.fake import FakeTensorMode, unset_fake_temporarily
from rushlight.core.functional import FunctionalMode
from rushlight.core.modes import (
    DisableTorchDispatch,
    DisableTorchFunction,
    TorchDispatchMode,
    TorchFunctionMode,
    disable_current_modes,
)
from rushlight.core.state import LAYER_AUTOCAST, LAYER_FUNCTION, LOCAL, PROCESS, changed


class Log(TorchDispatchMode):
    def __init__(self, log=None, tag=""):
        super().__init__()
        self.log = [] if log is None else log
        self.tag = tag

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.log.append(self.tag + str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self, log=None, tag=""):
        super().__init__()
        self.log = [] if log is None else log
        self.tag = tag

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append(self.tag + func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def state_is_clean_afterwards():
    yield
    assert LOCAL.state.dispatch_modes == () and LOCAL.state.function_modes == ()
    assert LOCAL.state.excluded == 0
    assert not LOCAL.state.counted


def test_a_mode_sees_factories_views_writes_and_out():
    with Log() as mode:
        x = torch.ones(2)
        x.add_(1)
        x.view(2, 1)
        torch.add(x, 1, out=torch.empty(2))
    assert mode.log == [
        "ones.default",
        "add_.Tensor",
        "view.default",
        "empty.memory_format",
        "add.out",
    ]
    assert x.tolist() == [2.0, 2.0]


def test_a_mode_sees_the_ops_of_backward():
    x = torch.ones(2, requires_grad=True)
    with Log() as mode:
        (x * x).sum().backward()
    assert mode.log[:5] == [
        "mul.Tensor",
        "sum.default",
        "ones_like.default",
        "expand.default",
        "mul.Tensor",
    ]
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_mode_sees_saved_values_being_made():
    x = torch.ones(2, requires_grad=True)
    with Log() as mode:
        x.exp()
    assert mode.log[0] == "exp.default" and set(mode.log[1:]) == {"detach.default"}


def test_an_in_place_target_is_copied_only_for_a_formula_that_needs_it():
    x = torch.ones(2, requires_grad=True)
    with Log() as mode:
        x.clone().mul_(2)
    assert mode.log == ["clone.default", "mul_.Tensor"]
    with Log() as mode:
        x.clone().mul_(x)
    assert mode.log == ["clone.default", "clone.default", "mul_.Tensor"]


def test_a_mode_runs_below_autograd():
    seen = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            seen.append((result.requires_grad, result.grad_fn))
            return result

    x = torch.ones(2, requires_grad=True)
    with Look():
        y = x * 2
    assert seen == [(False, None)]
    assert type(y.grad_fn).__name__ == "MulBackward0"


def test_a_mode_sees_composites_decomposed():
    x = torch.ones(2, 2, 3)
    w = torch.ones(3, 2)
    with Log() as mode:
        x @ w
    assert mode.log == ["view.default", "mm.default", "_unsafe_view.default"]


def test_modes_nest_innermost_first():
    log = []
    with Log(log, "outer "), Log(log, "inner "):
        torch.ones(1)
    assert log == ["inner ones.default", "outer ones.default"]


def test_a_mode_is_off_while_it_handles():
    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert modes.get_current_dispatch_mode() is not self
            return func(*args, **(kwargs or {})) + 1

    with Twice():
        result = torch.zeros(1)
    assert result.item() == 1.0


def test_a_mode_may_change_the_result():
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.add.Tensor:
                return torch.mul(*args)
            return func(*args, **(kwargs or {}))

    a, b = torch.tensor([3.0]), torch.tensor([5.0])
    with Doubled():
        assert (a + b)[0].item() == 15.0


def test_arguments_arrive_without_trailing_defaults():
    seen = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func, args[1:], kwargs))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with Look():
        x + 2
        torch.add(x, x, alpha=2)
        x.sum((1,))
        x.view((3, 2))
    assert seen[0][1:] == ((2,), {})
    assert seen[1][2] == {"alpha": 2}
    assert str(seen[2][0]) == "aten.sum.dim_IntList" and seen[2][1] == ([1],)
    assert seen[3][1] == ([3, 2],)


def test_a_raising_mode_leaves_the_state_as_it_was():
    class Fails(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    with Fails():
        before = LOCAL.state.dispatch_modes
        with pytest.raises(KeyError, match="mine"):
            torch.ones(1)
        assert LOCAL.state.dispatch_modes is before


def test_not_implemented_is_an_error_that_names_the_mode():
    class Declines(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with (
        Declines(),
        pytest.raises(TypeError, match="Multiple dispatch failed for 'torch._ops.aten"),
    ):
        torch.ones(1)


def test_reentrant_dispatch_turns_autograd_on_again():
    seen = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            x = torch.ones(1, requires_grad=True)
            seen.append((x * 2).requires_grad)
            with modes.enable_reentrant_dispatch():
                seen.append((x * 2).requires_grad)
            seen.append((x * 2).requires_grad)
            return func(*args, **(kwargs or {}))

    with Look():
        torch.ones(1)
    assert seen == [False, True, False]


def test_switches_hide_modes():
    with Log() as mode:
        with modes.no_dispatch():
            torch.ones(1)
        assert mode.log == []
        with modes.disable_current_modes() as hidden:
            torch.ones(1)
            assert hidden == [mode]
        with modes.pop_mode_temporarily() as popped:
            assert popped is mode and modes.get_current_dispatch_mode() is None
        assert mode.log == []
        assert modes.get_current_dispatch_mode_stack() == [mode]
        torch.ones(1)
    assert mode.log == ["ones.default"]


def test_another_thread_has_no_modes():
    found = []
    with Log() as mode:
        worker = threading.Thread(target=lambda: found.append(torch.ones(1)))
        worker.start()
        worker.join()
    assert mode.log == [] and len(found) == 1
    assert PROCESS.special == 0


# -- function modes ------------------------------------------------------------------------------


def test_a_function_mode_sees_public_functions_and_methods():
    with Functions() as mode:
        x = torch.ones(2)
        x + 1
        x.sum()
        torch.einsum("i,i", x, x)
        torch.ops.aten.add.Tensor(x, 1)
    assert mode.log == ["ones", "add", "sum", "einsum", "add.Tensor"]


def test_operators_are_handed_over_as_the_methods_they_mean():
    seen = []

    class Look(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Look():
        x + 1
        2 * x
        x @ x
        x -= 1
    assert seen == [torch.Tensor.add, torch.Tensor.mul, torch.Tensor.matmul, torch.Tensor.sub_]


def test_function_modes_stand_above_dispatch_modes():
    log = []
    with Functions(log, "f "), Log(log, "d "):
        torch.ones(1)
    assert log == ["f ones", "d ones.default"]


def test_a_function_mode_sees_a_composite_once():
    x, w = torch.ones(2, 2, 3), torch.ones(3, 2)
    with Functions() as mode:
        torch.matmul(x, w)
    assert mode.log == ["matmul"]


def test_disable_torch_function_hides_function_modes():
    with Functions() as mode:
        with modes.DisableTorchFunction():
            torch.ones(1)
        with modes.DisableTorchFunctionSubclass():
            torch.ones(1)
    assert mode.log == ["ones"]


def test_a_declining_function_mode_leaves_the_call_to_subclasses():
    class Declines(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    class Answer(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return 42

    x = torch.ones(1).as_subclass(Answer)
    plain = torch.ones(1)
    with Declines():
        assert torch.add(x, 1) == 42
        with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.add'"):
            torch.add(plain, 1)


# -- several threads ------------------------------------------------------------------------------


def run_in_threads(work, count=8):
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize(
    ("make", "field", "values"),
    [
        (DisableTorchFunction, "excluded", (0, LAYER_AUTOCAST)),
        (DisableTorchDispatch, "excluded", (0, LAYER_AUTOCAST)),
        (DisableAutocast, "excluded", (0, LAYER_FUNCTION)),
        (FunctionalMode, "functional", (None, "another")),
        (FakeTensorMode, "fake", (None, "another")),
        (unset_fake_temporarily, "fake", (None, "another")),
        (disable_current_modes, "dispatch_modes", ((), ("another",))),
        (lambda: torch.autocast("cpu"), "autocast", (None, "another")),
    ],
)
def test_an_object_shared_by_threads_restores_each_threads_state(make, field, values):
    shared = make()
    # Entered by all, then left by all: only then could one meet another's state.
    everyone = threading.Barrier(8, timeout=60)

    def work(number):
        state = LOCAL.state
        own = values[number % 2]
        with changed(**{field: own}):
            for _ in range(20):
                everyone.wait()
                with shared:
                    everyone.wait()
                    with shared:
                        assert getattr(state, field) != "another"
                    everyone.wait()
                found = getattr(state, field)
                assert (found is None) == (own is None) and (found == own or field == "autocast")
            assert state.entered == []

    run_in_threads(work)


def test_changed_restores_what_it_changed_and_nothing_else():
    state = LOCAL.state
    before = state.snapshot()
    with pytest.raises(KeyError), changed(grad=False, excluded=LAYER_FUNCTION) as inside:
        assert inside is state and not state.grad and state.excluded == LAYER_FUNCTION
        assert PROCESS.special >= 1
        state.forward_enabled = False
        raise KeyError
    assert state.forward_enabled is False
    state.forward_enabled = True
    assert state.snapshot() == before


class Logged(torch.Tensor):
    log: ClassVar[list[str]] = []

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.log.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_the_inherited_rule_runs_the_op_itself():
    Logged.log.clear()
    result = torch.sin(torch.zeros(2).as_subclass(Logged))
    assert type(result) is torch.Tensor and result.tolist() == [0.0, 0.0]
    assert Logged.log == ["aten.sin.default"]


def test_a_class_may_want_no_rule():
    class Plain(torch.Tensor):
        __torch_dispatch__ = modes.disabled_torch_dispatch_impl

    assert torch.Tensor.__torch_dispatch__ is modes.disabled_torch_dispatch_impl
    assert type(torch.zeros(2).as_subclass(Plain).sin()) is Plain


def test_modes_see_detach_twice():
    seen = []

    class Mode(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Mode():
        x.detach()
    assert seen == ["aten.detach.default"] * 2


def test_wrappers_take_their_geometry_by_position():
    made = torch.Tensor._make_wrapper_subclass(Logged, (2, 3), (1, 2), 0, dtype=torch.int32)
    assert made.stride() == (1, 2) and made.dtype is torch.int32


class Wrapped(torch.Tensor):
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[value.inner if isinstance(value, cls) else value for value in args])


class PoliteBelow(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(types)
        return NotImplemented if types else func(*args, **(kwargs or {}))


class Polite(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(types)
        return NotImplemented if types else func(*args, **(kwargs or {}))


class Derived(torch.Tensor):
    pass


def test_a_mode_may_leave_calls_to_classes():
    x = Wrapped(torch.ones(2))
    with PoliteBelow() as outer, PoliteBelow() as inner:
        assert x.neg().tolist() == [-1.0, -1.0]
    assert (outer.seen, inner.seen) == ([()], [(Wrapped,), ()])
    y = Derived(torch.ones(2))
    with Polite() as mode:
        assert type(torch.neg(y)) is Derived
    assert mode.seen == [(Derived,), ()]


def test_rules_of_modes_are_plain_methods():
    class Below(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args)

    class Above(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args)

    x = torch.ones(2)
    for mode in (Below(), Above()):
        with mode, pytest.raises(RuntimeError, match="as a classmethod is not supported"):
            torch.neg(x)


def test_rules_of_tensors_may_be_plain_methods(monkeypatch):
    monkeypatch.setattr("rushlight.core.state.WARNED", set())

    class Above(torch.Tensor):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return type(self)

    class Below(Wrapped):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(self.inner)

    with pytest.warns(UserWarning, match="as a plain method is deprecated"):
        assert torch.neg(Above(torch.ones(1))) is Above
    assert Below(torch.ones(2)).neg().tolist() == [-1.0, -1.0]
    with pytest.raises(TypeError, match="expected a sequence"):
        torch.overrides.has_torch_function(object())


def wrapper_of_two():
    from tests.aot.programs import pair_class

    part = torch.arange(4.0)
    return pair_class(torch)(part, part * 10)


def test_wrappers_are_resized_and_set_with_their_parts():
    value = wrapper_of_two()
    assert value.resize_(4)._version == 0
    assert value.resize_(2, 2) is value
    assert (value.shape, value.stride(), value.a.shape, value._version) == (
        (2, 2),
        (2, 1),
        (2, 2),
        1,
    )
    value.set_(wrapper_of_two())
    assert (value.shape, value.b.tolist(), value._version) == ((4,), [0, 10, 20, 30], 2)


def test_wrappers_with_a_gradient_are_neither_resized_nor_set():
    value = wrapper_of_two().requires_grad_()
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        value.resize_(2)
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        (value * 1).set_(wrapper_of_two())
