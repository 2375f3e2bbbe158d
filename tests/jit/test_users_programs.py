"""Programs as users write them: what they give, the code they show and the errors they get are
those of PyTorch 2.13."""

import enum
import io
from typing import Any, NamedTuple

import pytest

import rushlight as torch
from rushlight import Tensor, nn


def refusal(function, *args, **kwargs):
    with pytest.raises((RuntimeError, torch.jit.Error)) as caught:
        function(*args, **kwargs)
    return str(caught.value)


# -- code


class Detector(nn.Module):
    def forward(
        self, x: Tensor, targets: list[dict[str, Tensor]] | None = None
    ) -> tuple[dict[str, Tensor], list[dict[str, Tensor]] | None]:
        losses: dict[str, Tensor] = {}
        if targets is not None:
            total = torch.zeros(())
            for t in targets:
                assert "boxes" in t, "need boxes"
                total = total + (t["boxes"] - x).abs().sum()
            losses["box"] = total
            return losses, None
        found: list[dict[str, Tensor]] = []
        for i in range(x.size(0)):
            keep = torch.where(x[i] > 0)[0]
            found.append({"scores": x[i][keep], "labels": keep})
        return losses, found


def test_a_detector():
    detector = torch.jit.script(Detector())
    x = torch.tensor([[1.0, -1.0], [2.0, 3.0]])
    losses, found = detector(x)
    assert losses == {} and [d["labels"].tolist() for d in found] == [[0], [0, 1]]
    losses, found = detector(x, [{"boxes": x + 1}])
    assert losses["box"].item() == 4 and found is None
    assert "RuntimeError: AssertionError: need boxes" in refusal(detector, x, [{"box": x}])
    assert str(detector.forward.schema).endswith(
        "Tensor x, Dict(str, Tensor)[]? targets=None) -> ((Dict(str, Tensor), Dict(str, "
        "Tensor)[]?))"
    )


BRANCHES = """\
def branches(x: Tensor,
    n: int) -> Tensor:
  y = torch.add(x, 1)
  if torch.gt(n, 1):
    z = torch.mul(y, 2)
  else:
    z0 = torch.mul(y, 3)
    w = torch.add(z0, 1)
    z = torch.sub(w, 2)
  z1 = z
  for i in range(n):
    z1 = torch.add(z1, i)
  return z1
"""


def branches(x, n: int):
    y = x + 1
    if n > 1:
        z = y * 2
    else:
        z = y * 3
        w = z + 1
        z = w - 2
    for i in range(n):
        q = z + i
        z = q
    return z


def test_what_a_block_gives_has_one_name():
    scripted = torch.jit.script(branches)
    assert scripted.code == BRANCHES
    for n in (0, 1, 4):
        assert scripted(torch.ones(2), n).equal(branches(torch.ones(2), n))


def test_dicts_of_traced_tensors_need_no_annotation():
    traced = torch.jit.trace(
        lambda d: {"s": d["a"] + d["b"]}, ({"a": torch.ones(2), "b": torch.ones(2)},), strict=False
    )
    assert '{"s": torch.add(' in traced.code and "annotate" not in traced.code
    assert traced({"a": torch.ones(3), "b": torch.ones(3)})["s"].tolist() == [2, 2, 2]


# -- modules behind an interface


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Plus(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Times(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList([Plus(), Times(), Times()])
        self.named = nn.ModuleDict({"a": Plus(), "b": Times()})

    def forward(self, x: Tensor, i: int, key: str) -> Tensor:
        first: Step = self.steps[i]
        second: Step = self.named[key]
        return second.forward(first.forward(x))


def test_modules_chosen_by_a_number_are_saved():
    scripted = torch.jit.script(Chosen())
    step = "__torch__.tests.jit.test_users_programs.Step"
    assert f"  first : {step} = steps[i]\n" in scripted.code
    assert f"  second : {step} = named[key]\n" in scripted.code
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer)
    for made in (scripted, loaded):
        assert made(torch.ones(1), 2, "a").item() == 4
        assert made(torch.ones(1), 0, "b").item() == 6
        assert "list index out of range" in refusal(made, torch.ones(1), 7, "a")
    assert loaded.code == scripted.code


# -- arguments


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Other(enum.Enum):
    GREEN = "x"
    BLUE = "y"


def value_of(c: Color) -> tuple[int, str]:
    return c.value, c.name


def test_enumerations_as_arguments():
    scripted = torch.jit.script(value_of)
    assert scripted(Color.RED) == (1, "RED")
    # PyTorch too takes what has the name of a member.
    assert scripted(Other.GREEN)[1] == "GREEN"
    text = refusal(scripted, 1)
    name = "Enum<__torch__.tests.jit.test_users_programs.Color>"
    assert text == (
        f"value_of() Expected a value of type '{name}' for argument 'c' but instead found type "
        f"'int'.\nPosition: 0\nValue: 1\nDeclaration: value_of({name} c) -> ((int, str))\n"
        " Python error details: AttributeError: 'int' object has no attribute 'name'"
    )
    assert "Cast error details: Unable to cast Other.BLUE" in refusal(scripted, Other.BLUE)
    assert "return ((c).value, (c).name)" in scripted.code


def test_arguments_without_annotation_say_so():
    scripted = torch.jit.script(lambda_like)
    assert refusal(scripted, torch.ones(1), 3).startswith(
        "lambda_like() Expected a value of type 'Tensor (inferred)' for argument 'n' but instead "
        "found type 'int'.\nInferred 'n' to be of type 'Tensor' because it was not annotated with "
        "an explicit type.\nPosition: 1\nValue: 3\nDeclaration: "
    )
    text = refusal(torch.jit.script, either)
    assert "if-expression's true branch has type Tensor (inferred) but false branch has" in text


def lambda_like(x: Tensor, n):
    return x + n


def either(x):
    return x if x else 3


class Keyworded(nn.Module):
    def forward(self, a, b, c=None):
        return a - b


def test_unknown_keywords_of_a_trace():
    with pytest.raises(NameError) as caught:
        torch.jit.trace(Keyworded(), example_kwarg_inputs={"zz": torch.ones(2)})
    expected = "'zz' is not in forward() method's arguments,\n" + " " * 25
    assert str(caught.value) == expected + "valid arguments name are [a,b,c]"


class Constant(nn.Module):
    __constants__ = ["k"]

    def __init__(self):
        super().__init__()
        self.k = 3

    def forward(self, x):
        return x * self.k


def test_constants_stay():
    scripted = torch.jit.script(Constant())
    with pytest.raises(RuntimeError, match="^Can't set constant 'k' which has value:3$"):
        scripted.k = 4
    assert scripted.k == 3 and scripted(torch.ones(1)).item() == 3


# -- statements


def asserting(x, y: int):
    torch._assert(x.size(0) == 2, "two rows")
    torch._assert(x.sum() > y, "too small")
    return x


def test_assertions_as_calls():
    scripted = torch.jit.script(asserting)
    assert scripted(torch.ones(2), 1).tolist() == [1, 1]
    assert "RuntimeError: AssertionError: two rows" in refusal(scripted, torch.ones(3), 1)
    assert "RuntimeError: AssertionError: too small" in refusal(scripted, torch.ones(2), 2)
    with pytest.raises(torch.jit.Error):
        scripted(torch.ones(3), 1)


def forgets(x: int):
    y = x + 1
    z = y
    del y, z
    y = "text"
    return x, y


def forgets_in_a_branch(x: int):
    y = x
    if x > 0:
        del y
    return x


def forgets_in_a_loop(x: list[int]):
    total = 0
    while len(x) > 0:
        item = x[0]
        total += item
        del x[0], item
    return total


def uses_what_is_gone(x: int):
    y = x
    del y
    return y  # noqa: F821


def uses_what_a_branch_forgot(x: int):
    y = x
    if x > 0:
        del y
    return y


def forgets_what_is_not(x: int):
    del y  # noqa: F821
    return x


class ForgetsAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = 3

    def forward(self, x: int):
        del self.q
        return x


def test_variables_can_be_deleted():
    assert torch.jit.script(forgets)(2) == (2, "text")
    assert torch.jit.script(forgets_in_a_branch)(2) == 2
    assert torch.jit.script(forgets_in_a_loop)([1, 2, 3]) == 6
    for function in (uses_what_is_gone, uses_what_a_branch_forgot, forgets_what_is_not):
        assert refusal(torch.jit.script, function).startswith("\nundefined value y:\n")
    assert refusal(torch.jit.script, ForgetsAttribute()).startswith(
        "\ndel statements are only supported for deleting list and dict items and variables:\n"
    )


# -- what is outside


NUMBERS = [1, 2, 3]
TABLE = {"a": 1}


def item_of_global(x: int):
    return NUMBERS[x]


def whole_global(x: int):
    return TABLE


def test_containers_outside_are_no_values():
    for function, kind in ((item_of_global, "list"), (whole_global, "dict")):
        assert refusal(torch.jit.script, function).startswith(
            f"\npython value of type '{kind}' cannot be used as a value. Perhaps it is a closed "
            "over global variable? If so, please consider passing it in as an argument or use a "
            "local variable instead.:\n"
        )


def number_for_a_tensor(x, y=3):
    return x


def text_for_a_number(x, y: int = "s"):  # type: ignore[assignment]
    return x


def fitting(x, y=None, z: float = 1, w: tuple[int, int] = (1, 2), v: str | None = "s"):
    return x


def test_defaults_are_values_of_their_parameters():
    assert refusal(torch.jit.script, number_for_a_tensor).startswith(
        '\nExpected a default value of type Tensor (inferred) on parameter "y".Because "y" was not '
        "annotated with an explicit type it is assumed to be type 'Tensor'.:\n"
    )
    assert refusal(torch.jit.script, text_for_a_number).startswith(
        '\nExpected a default value of type int on parameter "y".:\n'
    )
    assert torch.jit.script(fitting)(torch.ones(1)).item() == 1


# -- programs in one piece


class Point(NamedTuple):
    x: Tensor
    y: Tensor | None = None
    n: int = 3


def moved(p: Point, log: dict[str, list[int]]) -> tuple[Point, dict[str, list[int]], str]:
    y = p.y
    if y is None:
        y = p.x * p.n
    doubled = {key: [value * 2 for value in values] for key, values in log.items()}
    doubled["sum"] = [sum(values) for values in log.values()]
    return Point(p.x + 1, y, p.n + 1), doubled, f"{p.n} of {len(log)}"


def test_named_tuples_dicts_and_texts():
    scripted = torch.jit.script(moved)
    for point in (Point(torch.ones(1)), Point(torch.ones(1), torch.zeros(1), 9)):
        log: dict[str, Any] = {"a": [1, 2], "b": []}
        got, expected = scripted(point, log), moved(point, log)
        assert got[1:] == expected[1:] and got[0]._fields == Point._fields
        assert got[0].x.equal(expected[0].x) and got[0].y.equal(expected[0].y)
        assert got[0].n == expected[0].n
