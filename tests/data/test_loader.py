"""The loader in one process, its arguments, and the public names."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.utils import data as facade
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))

    def __len__(self):
        return 3


def values(loader):
    return [batch.tolist() for batch in loader]


def test_batches():
    assert values(DataLoader(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert values(DataLoader(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(range(3), batch_size=None)) == [0, 1, 2]
    assert values(DataLoader(range(5), batch_sampler=[[4, 0], [1]])) == [[4, 0], [1]]
    assert values(DataLoader(range(5), sampler=[3, 1])) == [[3], [1]]
    assert list(DataLoader(range(4), 2, collate_fn=sum)) == [1, 5]
    assert [len(DataLoader(range(5), 2, drop_last=d)) for d in (False, True)] == [3, 2]


def test_shuffle_follows_the_generator():
    def order():
        generator = torch.Generator().manual_seed(7)
        return [i for b in DataLoader(range(9), 4, True, generator=generator) for i in b.tolist()]

    generator = torch.Generator().manual_seed(7)
    torch.empty((), dtype=torch.int64).random_(generator=generator)  # the workers' seed
    assert order() == torch.randperm(9, generator=generator).tolist()


def test_batches_at_once():
    class AtOnce(Dataset):
        def __getitems__(self, indices):
            return [10 * i for i in indices]

        def __len__(self):
            return 3

    assert values(DataLoader(AtOnce(), 2)) == [[0, 10], [20]]


def test_streams():
    assert values(DataLoader(Stream(), 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert values(DataLoader(Stream(), 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    loader = DataLoader(Stream(), batch_size=2)
    assert len(loader) == 2 and len(DataLoader(Stream(), batch_size=None)) == 3
    with pytest.warns(UserWarning, match=r"reported to be 3\(when .* but \d samples"):
        assert len(values(loader)) == 5


@pytest.mark.parametrize(
    "options, error, text",
    [
        (dict(num_workers=-1), ValueError, "num_workers option should be non-negative; "
         "use num_workers=0 to disable multiprocessing."),
        (dict(timeout=-1), ValueError, "timeout option should be non-negative"),
        (dict(prefetch_factor=2), ValueError, "prefetch_factor option could only be specified in "
         "multiprocessing.let num_workers > 0 to enable multiprocessing, otherwise set "
         "prefetch_factor to None."),
        (dict(num_workers=1, prefetch_factor=-1), ValueError,
         "prefetch_factor option should be non-negative"),
        (dict(persistent_workers=True), ValueError,
         "persistent_workers option needs num_workers > 0"),
        (dict(multiprocessing_context="fork"), ValueError, "multiprocessing_context can only be "
         "used with multi-process loading (num_workers > 0), but got num_workers=0"),
        (dict(num_workers=1, multiprocessing_context=3), TypeError, "multiprocessing_context "
         "option should be a valid context object or a string specifying the start method, but "
         "got multiprocessing_context=3"),
        (dict(num_workers=1, worker_kind="thread", multiprocessing_context="spawn"), ValueError,
         "multiprocessing_context can only be used with worker_kind='process', but got "
         "worker_kind='thread'"),
        (dict(worker_kind="fibre"), ValueError, "worker_kind option should be one of "
         "('process', 'thread'), but got worker_kind='fibre'"),
        (dict(batch_size=None, drop_last=True), ValueError, "batch_size=None option disables "
         "auto-batching and is mutually exclusive with drop_last"),
        (dict(batch_size=0), ValueError,
         "batch_size should be a positive integer value, but got batch_size=0"),
        (dict(shuffle=True, sampler=[1]), ValueError,
         "sampler option is mutually exclusive with shuffle"),
        (dict(batch_sampler=[[1]], batch_size=3), ValueError, "batch_sampler option is mutually "
         "exclusive with batch_size, shuffle, sampler, and drop_last"),
    ],
)  # fmt: skip
def test_argument_errors(options, error, text):
    with pytest.raises(error) as caught:
        DataLoader(range(4), **options)
    assert str(caught.value) == text


def test_start_method_that_does_not_exist():
    with pytest.raises(ValueError, match="should specify a valid start method in .*='bad'"):
        DataLoader(range(4), num_workers=1, multiprocessing_context="bad")


@pytest.mark.parametrize("name, value", [("shuffle", True), ("sampler", [1]), ("batch_sampler", 1)])
def test_streams_have_no_order(name, value):
    text = f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}="
    with pytest.raises(ValueError) as caught:
        DataLoader(Stream(), **{name: value})
    assert str(caught.value) == f"{text}{value}"


def test_errors_of_the_iterator():
    with pytest.raises(AssertionError, match="_SingleProcessDataLoaderIter requires timeout == 0"):
        iter(DataLoader(range(4), timeout=3))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(range(4), num_workers=1, prefetch_factor=0))
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(DataLoader(range(4))))
    loader = DataLoader(range(4))
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader"):
        loader.batch_size = 3


def test_warnings():
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator"):
        assert values(DataLoader(range(2), pin_memory=True)) == [[0], [1]]
    with pytest.warns(UserWarning, match="This DataLoader will create 9999 worker processes in "):
        DataLoader(range(4), num_workers=9999)


def test_a_profile_shows_the_loader():
    with torch.profiler.profile() as profile:
        values(DataLoader(range(2)))
    names = [event.key for event in profile.key_averages()]
    assert "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" in names


def test_every_public_name_is_there():
    for name in facade.__all__:
        assert getattr(facade, name).__name__ == name
    assert set(facade.__all__) <= set(dir(facade))
    assert facade.distributed.DistributedSampler is facade.DistributedSampler
    assert facade.dataset.TensorDataset is TensorDataset


def test_the_facade_is_cheap():
    code = (
        "import sys, rushlight.utils.data\n"
        "assert not {'multiprocessing', 'rushlight.data'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_whatever_has_the_attributes_of_a_loader_is_iterated():
    from rushlight.data.iteration import SingleIterator, WorkerIterator

    class Own:
        dataset = list(range(4))
        _dataset_kind, _auto_collation, _index_sampler = 0, True, [[0, 1], [2, 3]]
        collate_fn, drop_last, generator, timeout = staticmethod(sum), False, None, 0
        pin_memory, pin_memory_device, persistent_workers = False, "", False
        _IterableDataset_len_called, prefetch_factor, in_order = None, 2, True
        worker_init_fn = multiprocessing_context = None
        num_workers = 0

    assert list(SingleIterator(Own())) == [1, 5]
    Own.num_workers = 1
    assert list(WorkerIterator(Own())) == [1, 5]
