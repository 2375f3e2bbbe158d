"""Shared memory: forked processes see writes, and nothing is left behind silently."""

import multiprocessing

import pytest

import rushlight as torch


def add_one(tensor):
    with torch.no_grad():
        tensor.add_(1)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked"
)
def test_forked_processes_see_writes():
    layer = torch.nn.Linear(2, 2)
    layer.share_memory()
    before = layer.weight.detach().clone()
    child = multiprocessing.get_context("fork").Process(target=add_one, args=(layer.weight,))
    child.start()
    child.join()
    assert torch.equal(layer.weight, before + 1)


def test_a_shared_tensor_works_as_before():
    x = torch.arange(6.0).reshape(2, 3)
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    assert x.share_memory_() is x
    assert x[1].tolist() == [3.0, 4.0, 5.0]
    x[0].add_(1)
    assert x.tolist() == [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]


@pytest.mark.parametrize("take", [lambda x: x[1:], lambda x: x.view(3), lambda x: x.detach()])
def test_views_are_not_left_behind(take):
    x = torch.zeros(3)
    view = take(x)
    with pytest.raises(RuntimeError, match="other tensors are views of the same memory"):
        x.share_memory_()
    del view
    assert x.share_memory_().is_shared()
