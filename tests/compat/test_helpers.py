"""Private functions of torch that libraries import do what torch's do."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.compat import helpers
from rushlight.compat.helper_aliases import HELPER_ALIASES

A, B = torch.arange(6.0).view(2, 3), torch.arange(4.0)


def test_every_name_leads_somewhere():
    code = f"""
import importlib, rushlight.compat
rushlight.compat.install()
for path, names in {HELPER_ALIASES!r}.items():
    module = importlib.import_module(path)
    for name in names if isinstance(names, dict) else ():
        if name != "*":
            assert getattr(module, name) is not None, (path, name)
from torch.nn.modules.pooling import _AvgPoolNd
import torch
assert issubclass(torch.nn.AvgPool1d, _AvgPoolNd) and issubclass(torch.nn.AvgPool2d, _AvgPoolNd)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tensors_are_flattened_and_put_back():
    flat = helpers.flatten_dense_tensors([A, B])
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
    first, second = helpers.unflatten_dense_tensors(flat, [A, B])
    assert torch.equal(first, A) and torch.equal(second, B)
    first.zero_()
    assert flat[:6].sum() == 0


def test_tensors_are_taken_in_chunks_of_one_type():
    doubles = B.double()
    chunks = list(helpers.take_tensors([A, doubles, B, B], 32))
    assert [[t.numel() for t in chunk] for chunk in chunks] == [[6], [4], [4, 4]]
    taken = [tensor for chunk in chunks for tensor in chunk]
    back = helpers.reorder_tensors_as(taken, [A, doubles, B, B])
    assert [t.dtype for t in back] == [A.dtype, doubles.dtype, B.dtype, B.dtype]


def test_tensors_are_found_in_what_holds_them():
    @dataclasses.dataclass
    class Held:
        x: object

    found = helpers.find_tensors([{"a": A, "b": (B, 1)}, Held(A), None])
    assert [id(t) for t in found] == [id(A), id(B), id(A)]


def test_names_and_texts():
    assert helpers.addindent("a\nb\n\nc", 2) == "a\n  b\n\n  c"
    assert helpers.import_dotted_name("os.path.join").__name__ == "join"

    class Holder:
        @helpers.classproperty
        def name(cls):
            return cls.__name__

    assert Holder.name == Holder().name == "Holder"
    file = io.BytesIO(b"xPK\x03\x04")
    assert not helpers.is_zipfile(file)
    file.seek(1)
    assert helpers.is_zipfile(file) and file.tell() == 1


def test_sizes_and_dims():
    assert helpers.list_with_default((None, 3), [5, 6, 7]) == [6, 3]
    with pytest.raises(ValueError, match="at least 3"):
        helpers.list_with_default((1, 2), [5, 6])
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert helpers.get_softmax_dim("softmax", 3, 2) == 0
    helpers.verify_batch_size((1, 3, 2))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        helpers.verify_batch_size((1, 3, 1))


def test_projections():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4).unbind()
    weights, biases = torch.randn(3, 4, 4).unbind(), torch.randn(3, 4).unbind()
    wanted = [
        torch.nn.functional.linear(*each) for each in zip((q, k, v), weights, biases, strict=True)
    ]
    found = helpers.in_projection(q, k, v, *weights, *biases)
    torch.testing.assert_close(list(found), wanted)
    some = helpers.in_projection(q, k, v, *weights, biases[0])
    torch.testing.assert_close(some[0], wanted[0])
    torch.testing.assert_close(some[1], k @ weights[1].T)


def test_masks_and_orders():
    mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
    assert helpers.detect_is_causal_mask(mask) and not helpers.detect_is_causal_mask(mask * 0)
    assert helpers.detect_is_causal_mask(None, True)
    assert helpers.seq_len(torch.ones(2, 5, 4), True) == 5
    assert helpers.seq_len(torch.ones(5, 4), True) == 5
    assert torch.equal(helpers.apply_permutation(A, torch.tensor([2, 0, 1])), A[:, [2, 0, 1]])


def test_other_tensors_stand_in_a_module_for_a_while():
    layer = torch.nn.Linear(2, 1)
    given = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    with helpers.reparametrize_module(layer, given):
        assert layer(torch.tensor([2.0, 3.0])).item() == 5.0
    assert isinstance(layer.weight, torch.nn.Parameter)


def test_the_switch_of_cudnn():
    with torch.backends.cudnn.flags(enabled=False):
        assert not helpers.get_cudnn_enabled()
    assert helpers.get_cudnn_enabled()


def test_what_optimisers_ask():
    params, state = [torch.ones(2, dtype=torch.complex64), A], [torch.ones(2) + 0j, B]
    helpers.view_as_real(params, state)
    assert params[0].shape == (2, 2) and state[0].shape == (2, 2) and params[1] is A
    assert helpers.get_value(torch.tensor(2.0)) == 2.0 == helpers.get_value(2.0)
    assert helpers.to_scalar(torch.ones(1)).shape == ()
    assert helpers.get_scalar_dtype() is torch.float32


def test_what_checkpoints_ask():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        other, own = helpers.get_autocast_kwargs("cpu")
    assert other == own == {"enabled": True, "dtype": torch.bfloat16, "cache_enabled": True}
    assert helpers.infer_device_type([A, torch.ones(1, device="meta")]) == "meta"
