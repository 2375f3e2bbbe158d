"""What is said where tracing found other sizes than were declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.capture.exc import UserError
from rushlight.export import Dim
from tests.export.relations import traced

HEADER = 'Constraints violated ({})! For more information, run with TORCH_LOGS="+dynamic".\n'
SPECIAL = (
    "Specializations unexpectedly required ({})! "
    'For more information, run with TORCH_LOGS="+dynamic".\n'
)


def ones(*sizes: int) -> torch.Tensor:
    return torch.ones(*sizes)


X, Y, Z, ROOT = Dim("dx"), Dim("dy"), Dim("dz"), Dim("root", min=2)
A, B, C = "L['x'].size()[0]", "L['y'].size()[0]", "L['z'].size()[0]"


def chosen(test: Callable[..., Any]) -> Callable[..., Any]:
    """A program that asks one question."""
    return lambda x, y: x + 1 if test(x.shape[0], y.shape[0]) else x


CASES: dict[str, tuple[Any, tuple[Any, ...], Any, str]] = {
    "constant": (
        lambda x: x + 1 if x.shape[0] == 5 else x,
        (ones(5),),
        ({0: Dim("dx", min=3, max=9)},),
        HEADER.format("dx")
        + f"  - Not all values of dx = {A} in the specified range 3 <= dx <= 9 are valid because "
        "dx was inferred to be a constant (5).\n\nSuggested fixes:\n  dx = 5",
    ),
    "one": (
        lambda x: x + 1,
        (ones(1),),
        ({0: X},),
        HEADER.format("dx")
        + f"  - Not all values of dx = {A} in the specified range are valid because dx was "
        "inferred to be a constant (1).\n\nSuggested fixes:\n  dx = 1",
    ),
    "equal": (
        lambda x, y: x + y,
        (ones(5), ones(5)),
        ({0: X}, {0: Y}),
        HEADER.format("dy") + f"  - The values of dy = {B} and dx = {A} must always be equal.\n"
        "\nSuggested fixes:\n  dy = dx",
    ),
    "related": (
        lambda x, y: x + y[1:],
        (ones(5), ones(6)),
        ({0: X}, {0: Y}),
        HEADER.format("dy")
        + f"  - The values of dy = {B} must always be related to the values of dx = {A} by "
        "dy = dx + 1.\n\nSuggested fixes:\n  dy = dx + 1",
    ),
    "names stay whose dims are smallest": (
        lambda x, y, z: x + y[1:] + z[2:],
        (ones(5), ones(6), ones(7)),
        ({0: ROOT - 2}, {0: ROOT - 1}, {0: Z}),
        HEADER.format("dz")
        + f"  - The values of dz = {C} must always be related to the values of root - 2 = {A} by "
        "dz = root.\n\nSuggested fixes:\n  dz = root",
    ),
    "no dim is exactly the name": (
        lambda x, y: x + y[::2],
        (ones(3), ones(6)),
        ({0: X}, {0: 2 * ROOT}),
        HEADER.format("root")
        + f"  - The values of 2*root = {B} must always be related to the values of dx = {A} by "
        "root = dx.\n\nSuggested fixes:\n  root = dx",
    ),
    "range": (
        lambda x: x + 1 if x.shape[0] <= 6 else x,
        (ones(5),),
        ({0: Dim("dx", min=3)},),
        HEADER.format("dx")
        + f"  - Not all values of dx = {A} in the specified range 3 <= dx satisfy the generated "
        f"guard 3 <= {A} and {A} <= 6\n\nSuggested fixes:\n  dx = Dim('dx', min=3, max=6)",
    ),
    "unequal": (
        lambda x: x + 1 if x.shape[0] != 7 else x,
        (ones(5),),
        ({0: X},),
        HEADER.format("dx")
        + f"  - Not all values of dx = {A} in the specified range satisfy the generated guard "
        f"{A} != 7.\n\nSuggested fixes:\n  dx = Dim('dx', max=6)",
    ),
    "divisible": (
        lambda x: x.view(-1, 2),
        (ones(6),),
        ({0: X},),
        HEADER.format("dx")
        + f"  - Not all values of dx = {A} in the specified range satisfy the generated guard "
        f"({A} % 2) == 0.\n\nSuggested fixes:\n  _dx = Dim('_dx', min=1)\n  dx = 2*_dx",
    ),
    "new root": (
        lambda x, y, z: (
            x + y[1:] + z[3:] if x.shape[0] >= 5 and x.shape[0] <= 36 and y.shape[0] % 3 == 0 else x
        ),
        (ones(11), ones(12), ones(14)),
        ({0: X}, {0: Y}, {0: Z}),
        HEADER.format("dx, dy, dz")
        + f"  - The values of dy = {B} must always be related to the values of dx = {A} by "
        f"dy = dx + 1.\n  - The values of dz = {C} must always be related to the values of dx = "
        f"{A} by dz = dx + 3.\n  - Not all values of dx = {A} in the specified range satisfy the "
        f"generated guard (({A} + 1) % 3) == 0.\n  - Not all values of dx = {A} in the specified "
        f"range satisfy the generated guard 5 <= {A} and {A} <= 36\n\nSuggested fixes:\n"
        "  _dx = Dim('_dx', max=12)\n  dx = 3*_dx - 1\n  dy = 3*_dx\n  dz = 3*_dx + 2",
    ),
    "two multiples": (
        chosen(lambda a, b: 2 * a == 3 * b),
        (ones(6), ones(4)),
        ({0: X}, {0: Y}),
        HEADER.format("dx")
        + f"  - The values of dx = {A} must always satisfy the generated guard 2*{A} == 3*{B}.\n"
        "\nSuggested fixes:\n  _dy = Dim('_dy', min=1)\n  dx = 3*_dy\n  dy = 2*_dy",
    ),
    "half": (
        lambda x, y: x[::2] + y,
        (ones(7), ones(4)),
        ({0: X}, {0: Y}),
        HEADER.format("dy") + f"  - The values of dy = {B} must always satisfy the generated guard "
        f"{B} == (({A} + 1) // 2).\n\nSuggested fixes:\n"
        "  _dx = Dim('_dx')\n  dx = 2*_dx - 1\n  dy = _dx",
    ),
    "least value of a root": (
        lambda x, y: x + y[3:],
        (ones(5), ones(8)),
        ({0: X}, {0: Dim("dy", max=9)}),
        HEADER.format("dy")
        + f"  - The values of dy = {B} must always be related to the values of dx = {A} by "
        "dy = dx + 3.\n\nSuggested fixes:\n  dx = Dim('dx', max=6)\n  dy = dx + 3",
    ),
    "falling": (
        chosen(lambda a, b: a + b == 11),
        (ones(5), ones(6)),
        ({0: X}, {0: Y}),
        SPECIAL.format("dx, dy")
        + f"  - dx = {A} must be specialized to 5 because the guards generated for it are too "
        f"complex.\n  - dy = {B} must be specialized to 6 because the guards generated for it are "
        "too complex.\n\nSuggested fixes:\n  dx = 5\n  dy = 6",
    ),
    "unique solution": (
        lambda x, y: x.reshape([-1]) + y,
        (ones(6, 2), ones(12)),
        {"x": (Dim("dy", min=6) - 6, 2), "y": (Dim("dy", min=6),)},
        SPECIAL.format("dy")
        + f"  - dy - 6 = {A} must be specialized to 6 because the guards generated for it are too "
        f"complex.\n  - dy = {B} must be specialized to 12 because the guards generated for it are "
        "too complex.\n\nSuggested fixes:\n  dy = 12",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_texts(name: str) -> None:
    program, inputs, spec, expected = CASES[name]
    with pytest.raises(UserError) as refusal:
        traced(program, inputs, spec)
    assert str(refusal.value) == expected


def test_texts_do_not_depend_on_the_order_of_names() -> None:
    """The same relations with other names, and sizes asked about in another order."""

    def first(x: Any, y: Any) -> Any:
        return x + 1 if x.shape[0] % 2 == 0 and y.shape[0] <= 8 else x

    def second(x: Any, y: Any) -> Any:
        return x + 1 if y.shape[0] <= 8 and x.shape[0] % 2 == 0 else x

    fixes = []
    for program in (first, second):
        with pytest.raises(UserError) as refusal:
            traced(program, (ones(4), ones(5)), ({0: X}, {0: Y}))
        fixes.append(str(refusal.value).partition("Suggested")[2])
    assert fixes[0] == fixes[1]


def test_divisors_that_vary_become_constant() -> None:
    spec = {"x": (Dim("a", min=3), Dim("b", max=8000))}
    with pytest.raises(UserError) as refusal:
        traced(lambda x: x.view(x.shape[0] - 1, -1), (ones(3, 4),), spec)
    assert str(refusal.value).endswith(
        "Suggested fixes:\n  _b = Dim('_b', min=1, max=4000)\n  a = 3\n  b = 2*_b"
    )


def test_what_no_dim_can_say_is_kept_for_run_time() -> None:
    solution, _ = traced(
        chosen(lambda a, b: a < b and (a + b) % 4 == 3), (ones(5), ones(6)), ({0: X}, {0: Y})
    )
    assert [str(one.expr) for one in solution.conditions] == ["s0 < s1", "Eq(Mod(s0 + s1, 4), 3)"]
    assert str(solution.ranges) == "{s0: VR[0, int_oo], s1: VR[0, int_oo]}"


def test_sizes_without_names_take_what_comes() -> None:
    auto, dynamic = Dim.AUTO, Dim.DYNAMIC
    solution, fakes = traced(lambda x, y: x + y[1:], (ones(5), ones(6)), ({0: auto}, {0: dynamic}))
    assert str(solution.ranges) == "{s0: VR[2, int_oo], s0 + 1: VR[3, int_oo]}"
    solution, fakes = traced(lambda x: x + 1 if x.shape[0] == 5 else x, (ones(5),), ({0: auto},))
    assert tuple(fakes[0].shape) == (5,) and solution.ranges == {}
    solution, _ = traced(
        lambda x: x + 1 if x.shape[0] <= 6 else x, (ones(5),), ({0: dynamic(min=3, max=20)},)
    )
    assert str(solution.ranges) == "{s0: VR[3, 6]}"


def test_dynamic_sizes_must_vary() -> None:
    with pytest.raises(UserError, match=r"You marked L\['x'\].size\(\)\[0\] as dynamic but your"):
        traced(lambda x: x + 1 if x.shape[0] == 5 else x, (ones(5),), ({0: Dim.DYNAMIC},))
    with pytest.raises(ValueError, match=r"0/1 specialized due to hint of 1 .*inputs\['x'\].shape"):
        traced(lambda x: x + 1, (ones(1),), ({0: Dim.DYNAMIC},))
    with pytest.raises(ValueError, match=r"range of \[8, None\], conflicting .* \[2, 6\]"):
        traced(lambda x: x + 1 if x.shape[0] <= 6 else x, (ones(5),), ({0: Dim.DYNAMIC(min=8)},))
