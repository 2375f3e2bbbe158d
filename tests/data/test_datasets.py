"""Datasets, samplers and collation."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from types import MappingProxyType

import numpy as np
import pytest

import rushlight as torch
from rushlight.data.collate import collate, default_collate_fn_map
from rushlight.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)

Point = namedtuple("Point", "x y")


class Stream(IterableDataset):
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


# -------------------------------------------------------------------- datasets


def test_tensor_dataset():
    data = TensorDataset(torch.arange(6).reshape(3, 2), torch.tensor([7, 8, 9]))
    row, label = data[1]
    assert (len(data), row.tolist(), label.item()) == (3, [2, 3], 8)
    with pytest.raises(AssertionError, match="^Size mismatch between tensors$"):
        TensorDataset(torch.ones(2), torch.ones(3))


def test_stacked_datasets_give_tuples_or_dicts():
    assert StackDataset([1, 2], "ab").__getitems__([1, 0]) == [(2, "b"), (1, "a")]
    named = StackDataset(n=[1, 2], s="ab")
    assert named.__getitems__([1]) == [{"n": 2, "s": "b"}] and len(named) == 2
    for args, kwargs, text in (
        (([1],), {"a": [1]}, "but both types are given"),
        ((), {}, "At least one dataset should be passed"),
        (([1], [1, 2]), {}, "Size mismatch between datasets"),
    ):
        with pytest.raises(ValueError, match=text):
            StackDataset(*args, **kwargs)


def test_nested_batches_must_have_the_asked_size():
    class Short(Dataset):
        def __len__(self):
            return 3

        def __getitems__(self, indices):
            return [0]

    with pytest.raises(ValueError, match="output size mismatch. Expected 2, got 1"):
        StackDataset(Short()).__getitems__([0, 1])


def test_concatenated_datasets():
    joined = Subset([1, 2], [0, 1]) + Subset([3], [0])
    assert [joined[i] for i in (0, 1, 2, -1, -3)] == [1, 2, 3, 3, 1]
    with pytest.raises(ValueError, match="absolute value of index should not exceed"):
        joined[-4]
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        ConcatDataset([Stream(1)])
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert joined.cummulative_sizes == [2, 3]


def test_chained_streams():
    chain = Stream(1, 2) + Stream(3)
    assert isinstance(chain, ChainDataset) and list(chain) == [1, 2, 3] and len(chain) == 3
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(ChainDataset([[1]]))


def test_subset_that_overrides_one_of_two_methods():
    class Odd(Subset):
        def __getitem__(self, idx):
            return 0

    with pytest.raises(NotImplementedError, match="Odd overrides __getitem__ but not"):
        Odd([1], [0])


def test_dataset_without_getitem():
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]


def test_random_split():
    parts = random_split(range(10), [3, 7], generator=torch.Generator().manual_seed(1))
    again = random_split(range(10), [3, 7], generator=torch.Generator().manual_seed(1))
    assert [p.indices for p in parts] == [p.indices for p in again]
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    assert [len(p) for p in random_split(range(11), [0.1, 0.2, 0.7])] == [2, 2, 7]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(2), [1.0, 0.0])
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length"):
        random_split(range(3), [1, 1])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(range(3), [-0.5, 1.5])


# -------------------------------------------------------------------- samplers


def test_random_sampler_repeats_with_its_generator():
    def drawn(**options):
        return list(RandomSampler(range(5), generator=torch.Generator().manual_seed(3), **options))

    assert drawn() == drawn() and sorted(drawn()) == [0, 1, 2, 3, 4]
    long = drawn(num_samples=13)
    assert sorted(long[:5]) == sorted(long[5:10]) == [0, 1, 2, 3, 4] and len(long) == 13
    many = drawn(replacement=True, num_samples=70)
    assert len(many) == 70 and set(many) == {0, 1, 2, 3, 4}
    order = torch.randperm(5, generator=torch.Generator().manual_seed(3)).tolist()
    assert drawn() == order


def test_random_sampler_follows_the_default_generator():
    torch.manual_seed(5)
    first, second = list(RandomSampler(range(20))), list(RandomSampler(range(20)))
    torch.manual_seed(5)
    assert list(RandomSampler(range(20))) == first != second


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: RandomSampler([1], replacement=1), TypeError,
         "replacement should be a boolean value, but got replacement=1"),
        (lambda: RandomSampler([]), ValueError,
         "num_samples should be a positive integer value, but got num_samples=0"),
        (lambda: WeightedRandomSampler([1.0], 0), ValueError,
         "num_samples should be a positive integer value, but got num_samples=0"),
        (lambda: WeightedRandomSampler([1.0], 1, 2), ValueError,
         "replacement should be a boolean value, but got replacement=2"),
        (lambda: WeightedRandomSampler([[1.0]], 1), ValueError,
         "weights should be a 1d sequence but given weights have shape (1, 1)"),
        (lambda: BatchSampler([1], 0, False), ValueError,
         "batch_size should be a positive integer value, but got batch_size=0"),
        (lambda: BatchSampler([1], 1, 0), ValueError,
         "drop_last should be a boolean value, but got drop_last=0"),
        (lambda: DistributedSampler([1], 2, 2), ValueError,
         "Invalid rank 2, rank should be in the interval [0, 1]"),
        (lambda: DistributedSampler([1]), ValueError,
         "Default process group has not been initialized, please make sure to call "
         "init_process_group."),
        (lambda: iter(Sampler()), NotImplementedError, ""),
    ],
)  # fmt: skip
def test_sampler_errors(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


def test_other_samplers():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert sorted(SubsetRandomSampler([5, 3, 8])) == [3, 5, 8]
    weighted = WeightedRandomSampler([0.0, 1.0, 1.0], 50)
    assert set(weighted) == {1, 2} and len(weighted) == 50
    assert sorted(WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False)) == [0, 1, 2]
    kept, dropped = BatchSampler(range(5), 2, False), BatchSampler(range(5), 2, True)
    assert (list(kept), len(kept)) == ([[0, 1], [2, 3], [4]], 3)
    assert (list(dropped), len(dropped)) == ([[0, 1], [2, 3]], 2)


@pytest.mark.parametrize(
    "count, replicas, drop_last, shares",
    [
        (7, 3, False, [[0, 3, 6], [1, 4, 0], [2, 5, 1]]),
        (7, 3, True, [[0, 3], [1, 4], [2, 5]]),
        (2, 5, False, [[0], [1], [0], [1], [0]]),
        (6, 2, True, [[0, 2, 4], [1, 3, 5]]),
    ],
)
def test_distributed_shares(count, replicas, drop_last, shares):
    found = [
        list(DistributedSampler(range(count), replicas, r, shuffle=False, drop_last=drop_last))
        for r in range(replicas)
    ]
    assert found == shares


def test_distributed_shuffle_depends_on_the_epoch():
    samplers = [DistributedSampler(range(20), 2, rank, seed=4) for rank in range(2)]
    first = [list(s) for s in samplers]
    assert sorted(first[0] + first[1]) == list(range(20)) and len(samplers[0]) == 10
    samplers[0].set_epoch(1)
    assert list(samplers[0]) != first[0]
    order = torch.randperm(20, generator=torch.Generator().manual_seed(5)).tolist()
    assert list(samplers[0]) == order[::2]


# -------------------------------------------------------------------- collation


def shown(value):
    """A batch as text: types, dtypes and values."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{value.tolist()}"
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{k}={shown(v)}' for k, v in value.items())})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    return repr(value)


@pytest.mark.parametrize(
    "batch, text",
    [
        ([1, 2], "int64[1, 2]"),
        ([True, False], "bool[True, False]"),
        ([1.5, 2.0], "float64[1.5, 2.0]"),
        (["a", "b"], "list('a', 'b')"),
        ([b"a"], "list(b'a')"),
        ([torch.ones(1), torch.zeros(1)], "float32[[1.0], [0.0]]"),
        ([np.ones(1, "f4"), np.zeros(1, "f4")], "float32[[1.0], [0.0]]"),
        ([np.float32(1), np.float32(2)], "float32[1.0, 2.0]"),
        ([np.int16(1)], "int16[1]"),
        ([np.bool_(True)], "bool[True]"),
        ([(1, "a"), (2, "b")], "list(int64[1, 2], tuple('a', 'b'))"),
        ([[1, 2.0], [3, 4.0]], "list(int64[1, 3], float64[2.0, 4.0])"),
        ([Point(1, 2), Point(3, 4)], "Point(int64[1, 3], int64[2, 4])"),
        ([{"a": 1, "b": [2]}] * 2, "dict(a=int64[1, 1], b=list(int64[2, 2]))"),
        ([OrderedDict(a=1)], "OrderedDict(a=int64[1])"),
        ([MappingProxyType({"a": 1})], "mappingproxy({'a': tensor([1])})"),
        ([range(2), range(2)], "list(int64[0, 0], int64[1, 1])"),
        ([[], []], "list()"),
    ],
)  # fmt: skip
def test_default_collate(batch, text):
    assert shown(default_collate(batch)) == text


@pytest.mark.parametrize(
    "batch, error, text",
    [
        ([object()], TypeError, "numbers, dicts or lists; found <class 'object'>"),
        ([None], TypeError, "found <class 'NoneType'>"),
        ([np.array(["a"])], TypeError, "default_collate: batch must contain .* found <U1"),
        ([[1], [1, 2]], RuntimeError, "each element in list of batch should be of equal size"),
        ([torch.eye(2).to_sparse()], RuntimeError, "Batches of sparse tensors are not currently"),
        ([torch.ones(2), torch.ones(3)], RuntimeError, "stack expects each tensor to be equal"),
    ],
)
def test_what_cannot_be_collated(batch, error, text):
    with pytest.raises(error, match=text):
        default_collate(batch)


def test_collate_by_type():
    class Image:
        pass

    functions = {**default_collate_fn_map, Image: lambda batch, **_: len(batch)}
    found = collate([(Image(), 1), (Image(), 2)], collate_fn_map=functions)
    assert shown(found) == "list(2, int64[1, 2])"


def test_default_convert():
    text = np.array(["a"])
    found = default_convert({"n": 1, "a": np.array([1, 2]), "t": text, "p": Point(np.int8(3), "s")})
    assert found["t"] is text and found["n"] == 1
    assert shown(found["p"]) == "Point(int8[3][...], 's')".replace("[3][...]", "3")
    assert shown(found["a"]) == "int64[1, 2]"
    assert default_convert((1, np.float64(2)))[1].dtype is torch.float64
    assert default_convert(np.str_("x")) == "x"
