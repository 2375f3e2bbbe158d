"""Storages: made of buffers, cast, turned round, refused without values, and tensors of them."""

from __future__ import annotations

import copy

import pytest

import rushlight as rl

BYTES = bytearray([1, 2, 3, 4])


def test_storages_of_buffers():
    assert rl.ByteStorage.from_buffer(BYTES).tolist() == [1, 2, 3, 4]
    assert rl.ShortStorage.from_buffer(BYTES, "big").tolist() == [258, 772]
    assert rl.IntStorage.from_buffer(BYTES, "little").tolist() == [67305985]
    assert rl.IntStorage.from_buffer(BYTES, "big").tolist() == [16909060]
    assert rl.ByteStorage.from_buffer(BYTES, count=2, offset=1).tolist() == [2, 3]
    assert rl.BoolStorage.from_buffer(bytearray([0, 1, 2]), "big").tolist() == [False, True, True]
    copied = rl.ByteStorage.from_buffer(BYTES)
    copied[0] = 9
    assert BYTES[0] == 1
    with pytest.raises(ValueError, match="invalid byte_order"):
        rl.ByteStorage.from_buffer(BYTES, "middle")
    with pytest.raises(ValueError, match="multiple of element size"):
        rl.IntStorage.from_buffer(bytearray(5), "native")


def test_tensors_over_storages():
    held = rl.ByteStorage.from_buffer(b"abc")
    assert rl.ByteTensor(held).tolist() == [97, 98, 99]
    assert rl.ByteTensor(held).data_ptr() == held.data_ptr()
    x = rl.arange(3.0)
    assert x.new(x.storage()).data_ptr() == x.data_ptr()
    made = rl.tensor(x.storage())
    assert made.tolist() == [0.0, 1.0, 2.0] and made.data_ptr() != x.data_ptr()
    assert rl.tensor(x.untyped_storage(), dtype=rl.float32).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="Expected a Storage of type Long or an Untyped"):
        rl.tensor(x.storage(), dtype=rl.int64)
    with pytest.raises(RuntimeError, match="but got type Byte for argument 1 'storage'"):
        rl.FloatTensor(held)


def test_storages_are_cast():
    held = rl.IntStorage([-1, 0, 2])
    assert held.float().tolist() == [-1.0, 0.0, 2.0]
    assert held.bool().type() == "torch.BoolStorage"
    assert held.type("torch.ShortStorage").dtype is rl.int16
    assert held.int() is held
    assert len(held.untyped().double()) == 12


def test_bytes_are_turned_round():
    held = rl.arange(8, dtype=rl.uint8).untyped_storage()
    turned = copy.copy(held)
    turned.byteswap(rl.int32)
    assert turned.tolist() == [3, 2, 1, 0, 7, 6, 5, 4] and held.tolist() == list(range(8))
    turned.byteswap(rl.complex64)
    assert turned.tolist() == list(range(8))


def test_storages_without_values():
    held = rl.empty(3, device="meta").storage()
    for read in (held.tolist, held.untyped().tolist, lambda: held[0], lambda: held.untyped()[0]):
        with pytest.raises(NotImplementedError, match="Not available for 'meta'"):
            read()
    for move in (held.cpu, held.untyped().cpu):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            move()
    assert held.fill_(1) is held and held.double().nbytes() == 24


def test_wrong_indices_and_sizes():
    held = rl.arange(2.0).storage()
    with pytest.raises(TypeError, match="can't index a torch.UntypedStorage with float"):
        held.untyped()[1.5]
    with pytest.raises(IndexError, match="index 8 out of range for storage of size 8"):
        held.untyped()[8]
    with pytest.raises(RuntimeError, match="size does not match, self was 8 bytes"):
        held.copy_(rl.FloatStorage([1.0]))
    assert rl.Storage is rl.FloatStorage


def test_files_of_storages(tmp_path):
    path = str(tmp_path / "numbers")
    shared = rl.from_file(path, shared=True, size=4)
    assert shared.untyped_storage().filename == shared.storage().filename == path
    assert rl.from_file(path, shared=False, size=4).untyped_storage().filename is None
    assert rl.ones(2).untyped_storage().filename is None
