"""Size stays a Size, and holds only integers."""

import pickle
from operator import add

import numpy as np
import pytest

from rushlight.core.size import Size, unchecked


def test_text_and_numel():
    assert repr(Size([2, 3])) == str(Size((2, 3))) == "torch.Size([2, 3])"
    assert repr(Size()) == "torch.Size([])"
    assert Size((2, 3)).numel() == 6
    assert Size().numel() == 1


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Size([2, 3])[1:], (3,)),
        (add(Size([2]), (3,)), (2, 3)),
        (add((3,), Size([2])), (3, 2)),
        (Size([2]) * 2, (2, 2)),
        (2 * Size([2]), (2, 2)),
        (Size(iter([1, 2])), (1, 2)),
        (unchecked((4, 5)), (4, 5)),
        (pickle.loads(pickle.dumps(Size([1, 2]))), (1, 2)),
    ],
)
def test_results_are_sizes(made, expected):
    assert type(made) is Size
    assert made == expected
    assert hash(made) == hash(expected)


def test_entries():
    assert type(Size([True])[0]) is int
    assert Size([np.int64(3)]) == (3,)
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1 is 'float'\)"):
        Size([1, 2.5])
    with pytest.raises(TypeError, match=r"\(item 1 is 'str'\)"):
        add(Size([1]), ("a",))
    with pytest.raises(TypeError, match=r"can only concatenate tuple \(not list\) to torch.Size"):
        add(Size([1]), [2])


def test_symbolic_entries_are_kept():
    class Symbol:
        node = "s0"

        def __rmul__(self, other):
            return f"{other}*s0"

    symbol = Symbol()
    assert Size([3, symbol])[1] is symbol
    assert Size([3, symbol]).numel() == "3*s0"
