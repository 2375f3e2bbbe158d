"""References and dictionaries by identity; the setting of deterministic mode."""

from __future__ import annotations

import copy
import gc

import pytest

import rushlight as torch
from rushlight.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef


def test_keys_are_told_apart_by_identity():
    a, b = torch.ones(2), torch.ones(2)
    table = WeakIdKeyDictionary({a: 1})
    table[b] = 2
    assert (table[a], table[b], len(table)) == (1, 2, 2)
    assert [key is a or key is b for key in table] == [True, True]
    assert torch.ones(2) not in table and 5 not in table
    assert copy.copy(table) == table
    del b
    gc.collect()
    assert len(table) == 1 and list(table.values()) == [1]
    with pytest.raises(KeyError):
        table[torch.ones(2)]


def test_references():
    a = torch.ones(2)
    assert WeakIdRef(a) == WeakIdRef(a) and WeakIdRef(a) != WeakIdRef(torch.ones(2))
    assert TensorWeakRef(a)() is a


def test_filling_is_a_setting():
    settings = torch.utils.deterministic
    assert settings.fill_uninitialized_memory is True
    settings.fill_uninitialized_memory = False
    try:
        assert settings.fill_uninitialized_memory is False
        with pytest.raises(RuntimeError, match="expected a bool"):
            settings.fill_uninitialized_memory = 1
    finally:
        settings.fill_uninitialized_memory = True


def test_dictionaries_are_joined_from_both_sides():
    class Key:
        pass

    first, second = Key(), Key()
    held = WeakIdKeyDictionary({first: 1})
    for joined in (held | {second: 2}, {second: 2} | held):
        assert type(joined) is WeakIdKeyDictionary
        assert (joined[first], joined[second], len(held)) == (1, 2, 1)
    assert repr(held).startswith("<WeakIdKeyDictionary at 0x")
