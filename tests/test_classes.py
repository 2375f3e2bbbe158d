"""`torch.classes` is there, and says that it has no classes."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_classes_of_libraries_are_refused_by_name():
    space = torch.classes.shop
    assert torch.classes.shop is space
    assert "torch.classes.shop" in repr(space)
    with pytest.raises(RuntimeError, match=r"class 'shop\.Basket', but it does not exist") as found:
        space.Basket(3)
    assert found.value.code == "RL1590"
    assert not hasattr(torch.classes, "__path__")
    assert not torch.classes.loaded_libraries


def test_libraries_are_not_loaded(tmp_path):
    with pytest.raises(NotImplementedError, match="RL1591"):
        torch.classes.load_library(str(tmp_path / "library.so"))
