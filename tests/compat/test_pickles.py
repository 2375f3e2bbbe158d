"""Pickles that PyTorch wrote, read while `torch` means Rushlight.

`recorded/pickles.json` holds what `pickle.dumps` of PyTorch 2.13 gave for each object.
"""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import rushlight as torch
from rushlight import compat
from rushlight.compat import pickles

WRITTEN = json.loads((Path(__file__).parent / "recorded" / "pickles.json").read_text())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    was_installed = compat.is_installed()
    compat.install()
    yield lambda name: pickle.loads(base64.b64decode(WRITTEN[name]))
    if not was_installed:
        compat.uninstall()


def test_tensors(read: Any) -> None:
    assert read("view").tolist() == [[1.0, 2.0], [4.0, 5.0]] and read("view").stride() == (3, 1)
    assert read("half").dtype is torch.bfloat16 and read("half").tolist() == [1.0] * 3
    conjugate, negative = read("conjugate"), read("negative")
    assert conjugate.is_conj() and conjugate.tolist() == [1 - 2j]
    assert negative.is_neg() and negative.tolist() == [-2.0]
    assert read("meta").is_meta and read("meta").shape == (2, 3)


def test_tensors_of_other_layouts(read: Any) -> None:
    assert read("coo").layout is torch.sparse_coo and read("csr").layout is torch.sparse_csr
    for name in ("coo", "csr"):
        assert torch.equal(read(name).to_dense(), torch.eye(2))
    assert read("quantised").dequantize().tolist() == pytest.approx([1.0, 1.0])
    for name in ("nested", "jagged"):
        assert [part.tolist() for part in read(name).unbind()] == [[1.0] * 2, [1.0] * 3]


def test_parameters_and_modules(read: Any) -> None:
    assert type(read("parameter")) is torch.nn.Parameter and read("parameter").requires_grad
    assert read("tagged").tag == "mark"
    torch.manual_seed(0)
    module, fresh = read("module"), torch.nn.Linear(2, 1)
    assert torch.equal(module.weight, fresh.weight) and torch.equal(module.bias, fresh.bias)


def test_other_objects(read: Any) -> None:
    assert read("typed").tolist() == [1.0, 1.0]
    assert read("format") is torch.channels_last
    assert read("operator")(1, torch.ones(1)).item() == 2
    assert read("things") == [torch.float32, torch.device("cpu"), torch.Size([1, 2]), torch.strided]


def test_generators_go_on_where_they_were(read: Any) -> None:
    generator = torch.Generator().manual_seed(5)
    torch.rand(3, generator=generator)
    wanted = torch.rand(4, generator=generator)
    assert torch.equal(torch.rand(4, generator=read("generator")), wanted)


def test_every_pickle_is_read(read: Any) -> None:
    for name in WRITTEN:
        assert read(name) is not None


def test_hooks_and_attributes_come_along() -> None:
    x = torch.arange(6.0)
    made = pickles.rebuild_tensor_v2(x.storage(), 1, (2, 2), (2, 1), True, {})
    assert made.tolist() == [[1, 2], [3, 4]] and made.requires_grad
    assert made.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    held = pickles.rebuild_parameter(x, False, {})
    assert isinstance(held, torch.nn.Parameter) and not held.requires_grad
    marked = pickles.rebuild_from_type_v2(lambda: torch.ones(1), torch.Tensor, (), {"tag": 1})
    assert marked.tag == 1
