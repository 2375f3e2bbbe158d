"""Values of Python that enter compiled code: what they become, and what is said otherwise."""

from collections import namedtuple
from typing import Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

import numpy as np
import pytest

import rushlight as torch


@torch.jit.script
def an_int(x: int):
    return x


@torch.jit.script
def a_float(x: float):
    return x


@torch.jit.script
def a_bool(x: bool):
    return x


@torch.jit.script
def a_complex(x: complex):
    return x


@torch.jit.script
def a_union(x: Union[int, float]):  # noqa: UP007
    return x


@torch.jit.script
def a_dict(x: Dict[str, int]):  # noqa: UP006
    return x


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (an_int, torch.tensor(3), 3),
        (an_int, torch.tensor([1.5]), 1),
        (an_int, np.float32(1.5), 1),
        (an_int, np.bool_(True), 1),
        (a_float, torch.tensor(2), 2.0),
        (a_float, torch.tensor([1.5]), 1.5),
        (a_bool, torch.tensor(0.0), False),
        (a_bool, 3, True),
        (a_bool, np.int64(0), False),
        (a_complex, torch.tensor(1 + 2j), 1 + 2j),
        (a_complex, np.float32(1.5), 1.5 + 0j),
    ],
)
def test_numbers_are_taken_from_what_has_one(function, value, expected):
    found = function(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (an_int, 1.5),
        (an_int, "3"),
        (an_int, torch.ones(2)),
        (an_int, torch.tensor(1 + 2j)),
        (a_float, torch.ones(2)),
        (a_float, torch.tensor(1 + 2j)),
        (a_bool, torch.ones(2)),
        (a_bool, "yes"),
        (a_complex, "1"),
        (a_union, torch.tensor(1)),
        (a_union, np.int64(3)),
    ],
)
def test_what_has_no_number_is_refused(function, value):
    with pytest.raises(RuntimeError, match="Expected a value of type"):
        function(value)


def test_values_of_dicts_are_converted():
    assert a_dict({"a": torch.tensor(1), "b": 2}) == {"a": 1, "b": 2}


@torch.jit.ignore
def counts(x: torch.Tensor) -> Dict[str, int]:  # noqa: UP006
    return {"a": x}


@torch.jit.ignore
def number(x: torch.Tensor) -> int:
    return x


@torch.jit.script
def by_counts(x):
    return counts(x)["a"] + 1


@torch.jit.script
def by_number(x):
    return number(x) + 1


def test_results_of_ignored_functions_have_the_type_that_they_say():
    for value in range(3):
        assert by_number(torch.tensor(value)) == value + 1
        assert by_counts(torch.tensor(value)) == value + 1
    assert type(by_number(torch.tensor(1))) is int


def test_results_of_ignored_functions_that_have_another_type_are_refused():
    with pytest.raises(RuntimeError, match=r"expected value of type Dict\(str, int\)"):
        by_counts(torch.ones(2))
    with pytest.raises(RuntimeError, match="instead got value of type Tensor"):
        by_number(torch.ones(2))


Pair = namedtuple("Pair", ["left", "right"])


def test_named_tuples_that_do_not_fit_are_named_with_their_fields():
    @torch.jit.script
    def f(x: Pair):
        return x.left

    with pytest.raises(RuntimeError, match=r"Pair \(aka NamedTuple\(left, right\)\)"):
        f(Pair(torch.ones(1), 5))


def test_a_name_stands_for_one_named_tuple():
    class Point(NamedTuple):
        x: int

    def first(p: Point):
        return p.x

    assert torch.jit.script(first)(Point(3)) == 3
    known = Point

    class Point(NamedTuple):
        x: int

    def again(p: Point):
        return p.x

    assert torch.jit.script(again)(Point(4)) == 4
    assert known is not Point

    class Point(NamedTuple):
        y: int

    def other(p: Point):
        return p.y

    with pytest.raises(RuntimeError, match="Can't redefine NamedTuple"):
        torch.jit.script(other)


class Incomplete(NamedTuple):
    x: torch.Tensor
    y: "NoSuchType"  # noqa: F821


def test_fields_without_a_type_are_told_with_their_place():
    def f(x: Incomplete):
        return x.x

    with pytest.raises(ValueError, match=r"in NamedTuple Incomplete at +File"):
        torch.jit.script(f)


def test_one_number_stands_for_an_optional_list():
    @torch.jit.script
    def f(x):
        # type: (Optional[BroadcastingList2[float]]) -> List[float]
        if x is None:
            return [0.0]
        return x

    assert f(2.5) == [2.5, 2.5]
    assert f(None) == [0.0]
    assert f([1.0, 2.0, 3.0]) == [1.0, 2.0, 3.0]


def test_annotations_of_methods_may_be_names_of_the_function_around():
    alias = torch.Tensor
    result = torch.Tensor

    class Doubling:
        def __init__(self):
            pass

        def run(self, x: alias) -> result:
            return x * 2

    def f():
        return Doubling().run(torch.ones(2))

    assert torch.equal(torch.jit.script(f)(), torch.full((2,), 2.0))


class Plain:
    def __init__(self):
        pass


class Ordered:
    def __init__(self, n: int):
        self.n = n

    def __lt__(self, other: "Ordered") -> bool:
        return self.n < other.n


def test_objects_are_sorted_by_their_own_comparison_or_not_at_all():
    def unordered():
        found = [Plain(), Plain()]
        found.sort()
        return found

    def ordered():
        found = [Ordered(3), Ordered(1), Ordered(2)]
        found.sort()
        return [each.n for each in found]

    with pytest.raises(RuntimeError, match="must define a __lt__ method"):
        torch.jit.script(unordered)()
    assert torch.jit.script(ordered)() == [1, 2, 3]


class Adding:
    def __call__(self, *args):
        return sum(args)

    def __prepare_scriptable__(self):
        return add_two


def add_two(a: int, b: int) -> int:
    return a + b


def test_objects_say_what_is_compiled_for_them():
    assert torch.jit.script(Adding())(1, 2) == 3


def test_a_module_without_its_base_is_told_so():
    class Bare(torch.nn.Module):
        def __init__(self):
            self.x = 2

        def forward(self):
            return self.x

    with pytest.raises(RuntimeError, match="Bare' has not been initialized"):
        torch.jit.script(Bare())


def test_errors_name_the_class_of_the_method_and_the_statement():
    def wrong(x: int) -> int:
        return "a"

    class Using(torch.nn.Module):
        def forward(self, x: int) -> int:
            y = wrong(x)
            return y

    with pytest.raises(RuntimeError, match="called from 'Using.forward'") as caught:
        torch.jit.script(Using())
    lines = str(caught.value).split("\n")
    place = next(at for at, line in enumerate(lines) if "y = wrong(x)" in line)
    assert lines[place + 1].strip().startswith("~" * len("y = wrong("))


def test_shared_kinds_stay_what_they_are():
    @torch.jit.script
    def f(x: Tuple[int, List[float], Optional[str]]):  # noqa: UP006, UP045
        return x

    assert f((torch.tensor(1), [2, torch.tensor(3)], None)) == (1, [2.0, 3.0], None)
