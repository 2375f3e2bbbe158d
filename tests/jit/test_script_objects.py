"""Scripted modules, classes, interfaces, overloads, hooks, units: what they offer and compute."""
# ruff: noqa: F811, UP045

from __future__ import annotations

import gc
import weakref
from typing import Any, Final, NamedTuple, Optional

import pytest

import rushlight as torch
from rushlight.jit.objects.modules import RecursiveScriptModule

nn = torch.nn
Tensor = torch.Tensor


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class PlusOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class OtherName(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        return y + 1


class Holder(nn.Module):
    impl: Step

    def __init__(self):
        super().__init__()
        self.impl = PlusOne()
        self.steps = nn.ModuleList([PlusOne(), PlusOne()])

    def forward(self, x, i: int):
        step: Step = self.steps[i]
        return self.impl.forward(x) + step.forward(x)


def use_step(step: Step, x):
    return step.forward(x)


def test_interface_takes_what_offers_its_methods():
    scripted = torch.jit.script(use_step)
    assert str(scripted.schema) == "use_step(InterfaceType<Step> step, Tensor x) -> Tensor"
    assert scripted(torch.jit.script(PlusOne()), torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        scripted(torch.jit.script(OtherName()), torch.ones(1))


def test_interface_as_an_attribute_and_an_index():
    scripted = torch.jit.script(Holder())
    assert "prim::ModuleContainerIndex" in str(scripted.graph)
    assert scripted(torch.ones(1), 1).item() == 4


@torch.jit._overload
def twice(x: int) -> int: ...


@torch.jit._overload
def twice(x: float) -> float: ...


def twice(x):
    return x * 2


class Overloaded(nn.Module):
    @torch.jit._overload_method
    def more(self, x: int) -> int: ...

    @torch.jit._overload_method
    def more(self, x: float) -> float: ...

    def more(self, x):
        return x + 1

    def forward(self, a: int, b: float):
        return self.more(a), self.more(b)


def test_overloads_are_chosen_by_type():
    def program(a: int, b: float):
        return twice(a), twice(b)

    result = torch.jit.script(program)(2, 1.5)
    assert result == (4, 3.0) and [type(each) for each in result] == [int, float]
    assert torch.jit.script(Overloaded())(1, 1.5) == (2, 2.5)
    with pytest.raises(RuntimeError, match="cannot be directly compiled because it is overloaded"):
        torch.jit.script(twice)


class Exporting(nn.Module):
    def forward(self, x):
        return x

    @torch.jit.export
    def other(self, x: int) -> int:
        return self.third(x)

    def third(self, x: int) -> int:
        return x + 1

    @torch.jit.ignore
    def python_only(self, x: int) -> int:
        return len([x]) + x

    @torch.jit.unused
    def never(self, x):
        yield x

    def not_called(self, x):
        yield x

    @property
    def three(self) -> int:
        return 3


def test_what_is_exported_is_compiled_and_the_rest_is_not():
    scripted = torch.jit.script(Exporting())
    assert isinstance(scripted, RecursiveScriptModule)
    assert sorted(scripted._c._method_names()) == ["__three_getter", "forward", "other", "third"]
    assert scripted.other(3) == 4
    assert scripted.python_only(4) == 5
    assert scripted.three == 3


class Ignoring(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2

    def forward(self, x: int):
        return self.scaled(x)

    @torch.jit.ignore
    def scaled(self, x: int) -> int:
        return x * self.factor


class Unusing(nn.Module):
    def forward(self, x: int):
        if x > 3:
            return self.never(x)
        return x

    @torch.jit.unused
    def never(self, x: int) -> int:
        yield x


def test_ignored_methods_run_as_python_and_unused_ones_raise():
    scripted = torch.jit.script(Ignoring())
    assert "^scaled[]()(%self, %x.1)" in str(scripted.graph)
    assert scripted(4) == 8
    scripted.factor = 5
    assert scripted(4) == 20
    unusing = torch.jit.script(Unusing())
    assert unusing(2) == 2
    with pytest.raises(torch.jit.Error, match="annotated to be ignored and cannot be run"):
        unusing(5)


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = PlusOne()

    def forward(self, x):
        return self.inner(x)


def double_input(self, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0] * 2,)


def add_ten(self, inputs: tuple[Tensor], output: Tensor) -> Tensor:
    return output + 10


def test_hooks_of_submodules_are_compiled():
    module = Hooked()
    module.inner.register_forward_pre_hook(double_input)
    module.inner.register_forward_hook(add_ten)
    assert torch.jit.script(module)(torch.ones(1)).item() == module(torch.ones(1)).item() == 13


class Attributes(nn.Module):
    constant: Final[int]
    maybe: int | None
    numbers: list[int]
    CLASS_WIDE = 5

    def __init__(self):
        super().__init__()
        self.constant = 3
        self.maybe = None
        self.numbers = []
        self.parts = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))])

    @property
    def double(self):
        return self.constant * 2

    @staticmethod
    def plus(x: int):
        return x + 1

    def forward(self, x):
        for part in self.parts:
            x = x + part
        maybe = self.maybe
        if maybe is not None:
            x = x + maybe
        self.numbers.append(1)
        return x + self.parts[0] + self.double + self.plus(3) + self.CLASS_WIDE


def test_attributes_constants_and_properties():
    scripted = torch.jit.script(Attributes())
    x = torch.zeros(2)
    assert scripted(x).tolist() == [18, 18]
    scripted.maybe = 7
    assert scripted(x).tolist() == [25, 25]
    assert scripted.numbers == [1, 1] and scripted.maybe == 7 and scripted.constant == 3
    assert [name for name, _ in scripted.named_parameters()] == ["parts.0", "parts.1"]


class Counting(torch.jit.ScriptModule):
    __constants__ = ["step"]

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.step = 3
        self.inner = nn.Linear(2, 2)
        self.seen = torch.jit.Attribute([], list[int])
        self.define("def extra(self, x):\n    return x + self.weight\n")

    @torch.jit.script_method
    def forward(self, x):
        self.seen.append(x.size(0))
        return self.inner(x * self.weight) + self.step + self.helper(x)

    @torch.jit.script_method
    def helper(self, x):
        return self.extra(x)


class CountingLess(Counting):
    @torch.jit.script_method
    def helper(self, x):
        return x


def test_script_module_classes():
    module = Counting()
    x = torch.ones(2)
    expected = module.inner(x) + 3 + x + 1
    assert torch.equal(module(x), expected)
    assert module.seen == [2] and module.step == 3
    assert list(module.state_dict()) == ["weight", "inner.weight", "inner.bias"]
    assert 'CallMethod[name="extra"]' in str(module.helper.graph)
    module.weight = nn.Parameter(torch.zeros(2))
    assert module.weight.tolist() == [0, 0]
    assert not module.eval().training
    assert "return (%x.1)" in str(CountingLess().helper.graph)


class Entered:
    def __init__(self):
        self.count = 0

    def __enter__(self):
        self.count += 1
        return self.count

    def __exit__(self, a: Any, b: Any, c: Any):
        self.count += 10


def test_with_runs_the_exit_on_early_returns():
    def program(x: int):
        entered = Entered()
        with entered as k:
            if x > 3:
                return entered.count + k
            x += k
        return entered.count + x

    scripted = torch.jit.script(program)
    assert scripted(5) == 2 and scripted(1) == 13


class Tree:
    def __init__(self, value: int):
        self.value = value
        self.items: list[int] = []
        self.last: int | None = None

    def add(self, x: int):
        self.items.append(x)
        self.last = x

    def __lt__(self, other: Tree) -> bool:
        return self.value < other.value

    def __iadd__(self, x: int):
        self.value += x
        return self

    def __setitem__(self, i: int, x: int):
        self.value = i + x

    def __call__(self, x: int):
        return x + self.value

    def __bool__(self):
        return self.value > 0


def test_classes_with_magic_methods():
    def program(n: int):
        a = Tree(n)
        b = Tree(2)
        a.add(3)
        a += 4
        a[1] = 2
        trees = [a, b]
        trees.sort()
        return a < b, a(3), trees[0].value, a.items, a.last, 1 if a else 2

    assert torch.jit.script(program)(3) == program(3) == (False, 6, 2, [3], 3, 1)


def test_compilation_units_hold_functions_of_a_text():
    unit = torch.jit.CompilationUnit(
        """
def f(x, n: int = 3):
    return x + n

def g(x):
    return f(x)
"""
    )
    assert str(unit.f.schema) == "f(Tensor x, int n=3) -> Tensor"
    assert unit.g(torch.ones(1)).item() == 4
    assert 'prim::Constant[name="f"]' in str(unit.g.graph)
    unit.define("def h(x):\n    return g(x) * 2\n")
    assert unit.h(torch.ones(1)).item() == 8
    with pytest.raises(RuntimeError, match=r'undefined value y:\n  File "<string>", line 3'):
        torch.jit.CompilationUnit("\ndef f(x):\n    return y + 1\n")


@torch.jit.script_if_tracing
def absolute(x):
    if x.sum() > 0:
        return x
    return -x


def test_script_if_tracing_keeps_branches_in_traces():
    traced = torch.jit.trace(lambda x: absolute(x) + 1, torch.ones(2), check_trace=False)
    assert traced(-torch.ones(2)).tolist() == [2, 2]
    assert absolute(-torch.ones(2)).tolist() == [1, 1]


class Pair(NamedTuple):
    a: int
    b: Tensor


def test_graph_runs_when_its_function_is_gone():
    def program(x: list[int], p: Pair):
        total = 0
        for v in x:
            total += v
        return total, Pair(total, p.b * 2)

    scripted = torch.jit.script(program)
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None
    total, pair = scripted([1, 2, 3], Pair(1, torch.ones(2)))
    assert total == 6 and pair.a == 6 and pair.b.tolist() == [2, 2]


def test_errors_while_running_name_the_line():
    def inner(x: list[int]):
        return x[10]

    def program(x: list[int]):
        return inner(x)

    with pytest.raises(RuntimeError, match=r"return x\[10\]\n\s+~~~~~ <--- HERE"):
        torch.jit.script(program)([1])

    def raising(n: int):
        raise ValueError("no")

    with pytest.raises(torch.jit.Error, match="builtins.ValueError: no"):
        torch.jit.script(raising)(1)


def test_scripting_twice_gives_one_function():
    def program(x):
        return x

    assert torch.jit.script(torch.jit.script(program)) is not None
    scripted = torch.jit.script(PlusOne())
    assert torch.jit.script(scripted) is scripted


def test_isinstance_knows_containers():
    assert torch.jit.isinstance([1, 2], list[int])
    assert not torch.jit.isinstance([1, "a"], list[int])
    assert torch.jit.isinstance(None, Optional[int])


def test_modules_that_are_alike_share_a_class():
    first, second = torch.jit.script(nn.Linear(2, 3)), torch.jit.script(nn.Linear(2, 3))
    other = torch.jit.script(nn.Linear(2, 4))
    assert first._c._type() is second._c._type()
    assert first._c._type() is not other._c._type()


def test_modules_are_not_kept_alive():
    module = PlusOne()
    scripted = torch.jit.script(module)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None and scripted(torch.ones(1)).item() == 2


def helper(x):
    return x * 2


def test_futures_in_lists():
    def program(x):
        futures = torch.jit.annotate(list[torch.jit.Future[Tensor]], [])
        for i in range(3):
            futures.append(torch.jit.fork(helper, x + i))
        total = torch.zeros(1)
        for future in futures:
            total = total + torch.jit.wait(future)
        return total

    assert torch.jit.script(program)(torch.ones(1)).item() == 12


class Untyped(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = []

    def forward(self, y):
        return self.x


def test_attributes_without_a_type_are_refused_where_they_are_read():
    for _ in range(2):
        with pytest.raises(RuntimeError, match="List trace inputs must have elements"):
            torch.jit.script(Untyped())


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = 3

    @torch.jit.export
    def __getstate__(self):
        return (3, self.training)

    @torch.jit.export
    def __setstate__(self, state):
        self.a = state[0]
        self.training = state[1]

    def forward(self, x):
        return x + self.a


def test_setstate_takes_what_getstate_gives():
    scripted = torch.jit.script(State())
    schema = scripted._c._get_method("__setstate__").schema
    assert str(schema.arguments[1].type.str()) == "(int, bool)"


def test_traces_of_scripted_functions_take_no_names_from_the_caller():
    x = torch.ones(2)
    traced = torch.jit.trace(torch.jit.script(helper), (x,))
    assert str(traced.graph).startswith("graph(%0 : ")
    assert traced(x).tolist() == [2, 2]


def test_gradients_in_compiled_code_and_other_threads():
    @torch.jit.script
    def slope(middle, x):
        y = middle + middle**2
        return torch.autograd.grad([y.sum()], [x], retain_graph=True)

    @torch.jit.script
    def both(x):
        y = (x + 3) * (x + 4) * 0.5
        future = torch.jit.fork(slope, y, x)
        return slope(y, x), torch.jit.wait(future)

    x = torch.randn(3, requires_grad=True)
    (here,), (there,) = both(x)
    middle = (x + 3) * (x + 4) * 0.5
    (expected,) = torch.autograd.grad((middle + middle**2).sum(), x)
    assert torch.equal(here, there)
    torch.testing.assert_close(here, expected)


def test_numbers_of_unions_keep_their_type():
    def which(x: int | float | str):
        if isinstance(x, float):
            return "float"
        return "other"

    scripted = torch.jit.script(which)
    assert [scripted(value) for value in (1, 1.0, "a")] == ["other", "float", "other"]
    with pytest.raises(RuntimeError, match="but instead found type bool"):
        scripted(True)


def test_partial_functions_are_called_in_python():
    from functools import partial

    def over(function):
        def program(x):
            return function(x) + 1

        return program

    x = torch.tensor([0.5, 2.0])
    for function in (torch.exp, partial(torch.clamp, min=1.0), lambda x: 2 * x):
        scripted = torch.jit.script(over(partial(function)))
        assert torch.equal(scripted(x), function(x) + 1)
    assert "^<python_value>[](" in str(scripted.graph)
    assert "^<python_value>()(x)" in scripted.code

    def annotated(x: torch.Tensor, a: int) -> torch.Tensor:
        return x * a

    with pytest.raises(RuntimeError, match="cannot call a python value of type 'partial'"):
        torch.jit.script(over(partial(annotated, a=2)))
