"""Lists of tensors by device and dtype."""

import pytest

import rushlight as torch
from rushlight.optim.grouping import group_tensors_by_device_and_dtype as grouped
from rushlight.optim.grouping import has_foreach_support

ONES = [torch.ones(1), torch.ones(1, dtype=torch.float64), torch.ones(2)]


def test_lists_are_cut_by_the_dtypes_of_the_first():
    others = [torch.zeros(1, dtype=torch.float64) for _ in ONES]
    found = grouped([ONES, others, [None] * 3, []], with_indices=True)
    cpu = torch.device("cpu")
    assert set(found) == {(cpu, torch.float32), (cpu, torch.float64)}
    lists, places = found[cpu, torch.float32]
    assert places == [0, 2]
    assert [[each is not None for each in tensors] for tensors in lists] == [
        [True, True], [True, True], [False, False], [],
    ]  # fmt: skip
    assert lists[0][1] is ONES[2] and lists[1][1] is others[2]
    assert grouped([ONES])[cpu, torch.float64] == ([[ONES[1]]], [])


def test_lists_of_several_lengths_are_refused():
    with pytest.raises(RuntimeError, match="of one length"):
        grouped([ONES, ONES[:1]])


def test_processors_take_many_tensors_at_a_time():
    assert has_foreach_support(ONES, torch.device("cpu"))
    assert not has_foreach_support(ONES, torch.device("meta"))
