"""einsum: parsing, and contraction by permute, bmm and permute back.

Operands are brought to one order of dims (output labels, then the summed ones by label) and are
contracted pairwise, left to right or along `path`. `Note [Swapped operands]`: where the free dims
of the right operand all come first in the output, the operands swap, so that bmm writes its
result in the output's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import geometry
from rushlight.core.dispatch import overridable
from rushlight.core.tensor import Tensor
from rushlight.opset.product.contract import product_of
from rushlight.opset.registry import composite
from rushlight.opset.rules import aten

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("einsum",)

__all__ = ["einsum"]

ELLIPSIS = 52
LABELS = 52


def label_of(letter: str) -> int:
    code = ord(letter)
    return code - 65 if letter.isupper() else code - 97 + 26


def letter_of(label: int) -> str:
    if label >= ELLIPSIS:
        return "..."
    return chr(label + 65) if label < 26 else chr(label - 26 + 97)


def is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def refuse(text: str) -> None:
    raise RuntimeError(f"einsum(): {text}")


def refuse_subscript(index: int) -> None:
    refuse(
        f"invalid subscript given at index {index} in the equation string, subscripts must be in "
        "[a-zA-Z]"
    )


def parse_inputs(text: str, count: int) -> list[list[int]]:
    """Labels of each operand."""
    labels: list[list[int]] = [[] for _ in range(count)]
    current = 0
    has_ellipsis = False
    index = 0
    while index < len(text):
        character = text[index]
        if character == " ":
            pass
        elif character == ".":
            if has_ellipsis:
                refuse(f"found '.' for operand {current} for which an ellipsis was already found")
            if text[index : index + 3] != "...":
                refuse(f"found '.' for operand {current} that is not part of any ellipsis")
            labels[current].append(ELLIPSIS)
            index += 2
            has_ellipsis = True
        elif character == ",":
            current += 1
            if current >= count:
                refuse("fewer operands were provided than specified in the equation")
            has_ellipsis = False
        elif is_letter(character):
            labels[current].append(label_of(character))
        else:
            refuse_subscript(index)
        index += 1
    if current + 1 < count:
        refuse("more operands were provided than specified in the equation")
    return labels


def parse_output(text: str, start: int, known: dict[int, int]) -> list[int]:
    """Labels of the result of an explicit equation; `start` is where they begin in it."""
    labels: list[int] = []
    index = 0
    while index < len(text):
        character = text[index]
        if character == " ":
            pass
        elif character == ".":
            if ELLIPSIS in labels:
                refuse("found '.' for output but an ellipsis (...) was already found")
            if text[index : index + 3] != "...":
                refuse("found '.' for output that is not part of any ellipsis (...)")
            labels.append(ELLIPSIS)
            index += 2
        elif is_letter(character):
            label = label_of(character)
            if label in labels:
                refuse(f"output subscript {character} appears more than once in the output")
            if label not in known:
                refuse(
                    f"output subscript {character} does not appear in the equation for any input "
                    "operand"
                )
            labels.append(label)
        else:
            refuse_subscript(start + index)
        index += 1
    return labels


def ellipsis_width(labels: list[list[int]], operands: Sequence[Any]) -> int:
    """How many dims the ellipsis stands for at most."""
    width = 0
    for number, (names, operand) in enumerate(zip(labels, operands, strict=True)):
        ndim = operand.dim()
        if ELLIPSIS in names:
            if len(names) - 1 > ndim:
                refuse(
                    f"the number of subscripts in the equation ({len(names) - 1}) is more than the "
                    f"number of dimensions ({ndim}) for operand {number}"
                )
            width = max(width, ndim - len(names) + 1)
        elif len(names) != ndim:
            refuse(
                f"the number of subscripts in the equation ({len(names)}) does not match the "
                f"number of dimensions ({ndim}) for operand {number} and no ellipsis was given"
            )
    return width


def arranged(
    operand: Any, number: int, names: list[int], place: dict[int, int], width: int, total: int
) -> Any:
    """The operand with every label's dim, in the common order."""
    order = [-1] * total
    seen: dict[int, int] = {}
    missing = width - (operand.dim() - len(names) + 1)
    position = 0
    for label in names:
        if label == ELLIPSIS:
            for _ in range(missing):
                operand = operand.unsqueeze(position)
            for offset in range(width):
                order[place[ELLIPSIS] + offset] = position
                position += 1
        elif label in seen:
            first = seen[label]
            if operand.shape[position] != operand.shape[first]:
                refuse(
                    f"subscript {letter_of(label)} is repeated for operand {number} but the sizes "
                    f"don't match, {operand.shape[position]} != {operand.shape[first]}"
                )
            operand = operand.diagonal(0, first, position).movedim(-1, first)
        else:
            seen[label] = position
            order[place[label]] = position
            position += 1
    for index, entry in enumerate(order):
        if entry == -1:
            operand = operand.unsqueeze(position)
            order[index] = position
            position += 1
    return operand.permute(order)


def multiply_pair(left: Any, right: Any, summed: list[int]) -> Any:
    """The product of two arranged operands, summed over dims which stay with size one."""
    if not summed:
        return left * right
    shared: list[int] = []
    only_left: list[int] = []
    only_right: list[int] = []
    gone = set(summed)
    for axis in range(left.dim()):
        if axis in gone:
            continue
        if left.shape[axis] != 1 and right.shape[axis] != 1:
            shared.append(axis)
        elif left.shape[axis] != 1:
            only_left.append(axis)
        else:
            only_right.append(axis)
    # Note [Swapped operands]
    if only_left and only_right and only_right[-1] < only_left[0]:
        left, right = right, left
        only_left, only_right = only_right, only_left
    batch = [left.shape[axis] for axis in shared]
    rows = [left.shape[axis] for axis in only_left]
    columns = [right.shape[axis] for axis in only_right]
    inner = product_of([left.shape[axis] for axis in summed])
    first = left.permute((*shared, *only_left, *summed, *only_right))
    first = first.reshape((product_of(batch), product_of(rows), inner))
    second = right.permute((*shared, *summed, *only_right, *only_left))
    second = second.reshape((product_of(batch), inner, product_of(columns)))
    result = first.bmm(second).view((*batch, *rows, *([1] * len(summed)), *columns))
    order = [*shared, *only_left, *summed, *only_right]
    return result.permute([order.index(axis) for axis in range(len(order))])


@composite(
    "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    errors=lambda make: [
        (RuntimeError, ("ij,jk", [make(2, 3)])),
        (RuntimeError, ("i1", [make(2, 3)])),
        (RuntimeError, ("ij->k", [make(2, 3)])),
        (RuntimeError, ("ij,ij", [make(2, 3), make(3, 2)])),
    ],
    method=False,
    function=None,
    out=False,
    samples=lambda make: (
        ("ij,jk->ik", [make(2, 3), make(3, 2)]),
        ("ij->ji", [make.strided(2, 3)]),
        ("ii", [make(3, 3)]),
        ("bij,bjk", [make(2, 2, 3), make(2, 3, 1)]),
        ("i,j,k->kij", [make(2), make(3), make(2)]),
        ("...i,...i->...", [make(2, 1, 3), make(2, 3)]),
        ("ij,kj,k->i", [make(2, 3), make(2, 3), make(2)]),
        ("i,->", [make(3), make()]),
    ),
)
def contract(equation: str, tensors: Any, path: Any = None) -> Any:
    if not tensors:
        refuse("must provide at least one operand")
    count = len(tensors)
    plan = Plan(equation, tensors)
    check_path(path, count)
    operands, remaining = plan.arrange(tensors)
    steps = None if path is None else list(path)
    while len(operands) > 1:
        first, second = (0, 1) if steps is None else next_pair(steps, len(operands))
        right = operands.pop(second)
        left = operands.pop(first)
        left, right, summed = reduce_ready(left, right, remaining, plan.kept, plan.total)
        product = multiply_pair(left, right, summed)
        operands.insert(0 if steps is None else len(operands), product)
    result = operands[0]
    if plan.total == plan.kept:
        return result
    if count > 1:
        return result.view(tuple(result.shape[: plan.kept]))
    return result.sum(tuple(range(plan.kept, plan.total)))


class Plan:
    """The common order of dims: `place` of each label, `kept` output dims of `total`."""

    __slots__ = ("kept", "labels", "place", "total", "width")

    def __init__(self, equation: str, tensors: Any) -> None:
        head, arrow, tail = equation.partition("->")
        self.labels = parse_inputs(head, len(tensors))
        width = self.width = ellipsis_width(self.labels, tensors)
        uses: dict[int, int] = {}
        for names in self.labels:
            for label in names:
                if label != ELLIPSIS:
                    uses[label] = uses.get(label, 0) + 1
        place: dict[int, int] = {}
        total = 0
        if arrow:
            output = parse_output(tail, len(head) + 2, uses)
        else:
            output = [ELLIPSIS, *[label for label in sorted(uses) if uses[label] == 1]]
        for label in output:
            place[label] = total
            total += width if label == ELLIPSIS else 1
        self.kept = total
        for label in (ELLIPSIS, *sorted(uses)):
            if label not in place:
                place[label] = total
                total += width if label == ELLIPSIS else 1
        self.place = place
        self.total = total

    def arrange(self, tensors: Any) -> tuple[list[Any], list[int]]:
        """The operands in the common order, and how many of them have each dim."""
        operands: list[Any] = []
        sizes: list[Any] = [1] * self.total
        remaining = [0] * self.total
        for number, tensor in enumerate(tensors):
            operand = arranged(
                tensor, number, self.labels[number], self.place, self.width, self.total
            )
            for axis, size in enumerate(operand.shape):
                if geometry.is_size(size, 1):
                    continue
                if geometry.is_size(sizes[axis], 1):
                    sizes[axis] = size
                elif sizes[axis] != size:
                    self.refuse_size(axis, number, size, sizes[axis])
                remaining[axis] += 1
            operands.append(operand)
        return operands, remaining

    def refuse_size(self, axis: int, number: int, size: Any, seen: Any) -> None:
        for label, index in self.place.items():
            if index == axis and label != ELLIPSIS:
                refuse(
                    f"subscript {letter_of(label)} has size {size} for operand {number} which does "
                    f"not broadcast with previously seen size {seen}"
                )
        # torch: the missing space is its own.
        refuse(
            f"dimension {axis - self.place[ELLIPSIS]} covered by ellipsis in operand {number}has "
            f"size {size} which does not broadcast with previously seen ellipsis with size {seen} "
            "for the respective dimension"
        )


def check_path(path: Any, count: int) -> None:
    wanted = 1 if count == 1 else 2 * (count - 1)
    if path is not None and len(path) != wanted:
        refuse(
            f"expected contraction path given in path parameter to have size {wanted} but got "
            f"{len(path)}"
        )


def next_pair(steps: list[int], count: int) -> tuple[int, int]:
    """The next two operands of a contraction path."""
    first, second = sorted((steps.pop(0), steps.pop(0)))
    if second >= count or first < 0:
        refuse(f"invalid contraction ({first}, {second}) operand index is out of bounds")
    if first == second:
        refuse(f"invalid contraction ({first}, {second}) cannot contract an operand with itself")
    return first, second


def reduce_ready(
    left: Any, right: Any, remaining: list[int], kept: int, total: int
) -> tuple[Any, Any, list[int]]:
    """Dims that no later operand has: summed at once where one side lacks them, else listed."""
    summed: list[int] = []
    alone: tuple[list[int], list[int]] = ([], [])
    for axis in range(kept, total):
        in_left, in_right = (not geometry.is_size(side.shape[axis], 1) for side in (left, right))
        if in_left and in_right:
            remaining[axis] -= 1
            if remaining[axis] == 1:
                summed.append(axis)
                remaining[axis] = 0
        elif remaining[axis] == 1 and (in_left or in_right):
            alone[0 if in_left else 1].append(axis)
            remaining[axis] = 0
    if alone[0]:
        left = left.sum(tuple(alone[0]), True)
    if alone[1]:
        right = right.sum(tuple(alone[1]), True)
    return left, right, summed


def sublist_text(sublist: Any) -> str:
    parts = []
    if isinstance(sublist, str) or not hasattr(sublist, "__iter__"):
        raise TypeError(
            "einsum(): every operand must be followed by a list of ints, but got "
            f"{type(sublist).__name__}"
        )
    for entry in sublist:
        if entry is not Ellipsis and not hasattr(entry, "__index__"):
            raise TypeError(
                "einsum(): a subscript list must hold ints or an Ellipsis, but got "
                f"{type(entry).__name__}"
            )
        if entry is Ellipsis:
            parts.append("...")
        elif 0 <= entry < LABELS:
            parts.append(letter_of(entry))
        else:
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range [0, 52)"
            )
    return "".join(parts)


@overridable
def einsum(*args: Any) -> Any:
    """Sums of products in Einstein's notation: `einsum("ij,jk->ik", a, b)`, or with sublists."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation = ",".join([sublist_text(entry) for entry in args[1::2]])
        operands = list(args[::2])
        if len(args) % 2:
            equation += "->" + sublist_text(args[-1])
            operands = list(args[:-1:2])
    else:
        equation = args[0]
        operands = list(args[1:])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    return aten.einsum(equation, operands)
