"""Operators of graphs that are public functions: they do what the functions do."""

import pytest

import rushlight as torch
from rushlight.jit.ir.operators import find_operator

F = torch.nn.functional
IMAGE = torch.arange(32.0).reshape(1, 2, 4, 4)


def call(name, *args):
    return find_operator(name).call(*args)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("aten::__interpolate", (2, None, "nearest", None, None, False), {"size": 2}),
        (
            "aten::__interpolate.scale_list",
            (None, [2.0, 1.5], "bilinear", False, None, False),
            {"scale_factor": (2.0, 1.5), "mode": "bilinear", "align_corners": False},
        ),
        ("aten::__upsample.size_list", ([2, 3], None, "nearest", None), {"size": (2, 3)}),
        ("aten::__upsample_nearest", (None, 2), {"scale_factor": 2}),
        (
            "aten::__upsample_bilinear.size_list",
            ([6, 6], None),
            {"size": (6, 6), "mode": "bilinear", "align_corners": True},
        ),
    ],
)
def test_resized_images(name, args, kwargs):
    assert torch.equal(call(name, IMAGE, *args), F.interpolate(IMAGE, **kwargs))


def test_initial_values_leave_no_history():
    tensor = torch.ones(3, requires_grad=True)
    call("aten::_no_grad_fill_", tensor, 2.0)
    assert tensor.tolist() == [2, 2, 2]
    generator = call("aten::Generator", None, 5)
    call("aten::_no_grad_uniform_", tensor, 0.0, 1.0, generator)
    other = torch.empty(3).uniform_(0.0, 1.0, generator=torch.Generator().manual_seed(5))
    assert torch.equal(tensor.detach(), other) and tensor.is_leaf
    call("aten::_no_grad_normal_", tensor, 3.0, 0.0, None)
    assert tensor.tolist() == [3, 3, 3]
    call("aten::_no_grad_zero_", tensor)
    assert tensor.tolist() == [0, 0, 0] and tensor.requires_grad


def test_generators():
    generator = call("aten::Generator", None, 7)
    assert call("aten::initial_seed", generator) == 7
    assert call("aten::manual_seed.generator", generator, 9) is generator
    assert call("aten::initial_seed", generator) == 9


def test_tensors():
    x = torch.tensor([[1.5, 2.5]])
    assert call("aten::_cast_Int", x, False).dtype is torch.int32
    assert call("aten::_shape_as_tensor", x).tolist() == [1, 2]
    assert call("aten::_reshape_from_tensor", x, torch.tensor([2, 1])).shape == (2, 1)
    assert call("aten::_dim_arange", x, 1).tolist() == [0, 1]
    assert call("aten::_grad_sum_to_size", x, [1, 1]).tolist() == [[4.0]]
    assert call("aten::_grad_sum_to_size", x, None) is x
    assert call("aten::_pack_sequence", x, x, None, None) == (x, x, None, None)
    assert call("aten::chalf", x, None).dtype is torch.complex32


def test_files(tmp_path):
    call("aten::save", [torch.ones(2)], str(tmp_path / "a.pt"))
    assert torch.load(tmp_path / "a.pt")[0].tolist() == [1, 1]
