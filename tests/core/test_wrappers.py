"""Wrapper tensors whose class answers for their geometry, device and layout."""

from __future__ import annotations

import pytest

import rushlight as torch

aten = torch.ops.aten
POLICIES = ("sizes", "strides")


def made(cls, data, wrapper, **asked):
    if wrapper:
        return torch.Tensor._make_wrapper_subclass(
            cls, data.size(), dtype=data.dtype, device=data.device, **asked
        )
    return torch.Tensor._make_subclass(cls, data, True, **asked)


def class_that(answers):
    """A class of tensors with these answers; it declines every other operator."""

    class Answering(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func in answers:
                return answers[func]
            return NotImplemented

    return Answering


SIZES = {aten.sym_size.default: (5, 3), aten.dim.default: 2, aten.sym_numel.default: 15}


@pytest.mark.parametrize("wrapper", [True, False])
def test_sizes_are_those_that_the_class_says(wrapper):
    x = made(class_that(SIZES), torch.randn(4, 2), wrapper, dispatch_sizes_strides_policy="sizes")
    for _ in range(3):
        assert x.shape == x.size() == (5, 3)
        assert x.size(-1) == 3
        assert x.dim() == x.ndim == 2
        assert x.numel() == x.nelement() == 15


@pytest.mark.parametrize("wrapper", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_strides_are_those_that_the_class_says(wrapper, policy):
    answers = {aten.sym_stride.default: (4, 2), aten.is_contiguous.default: True}
    x = made(class_that(answers), torch.randn(3, 3), wrapper, dispatch_sizes_strides_policy=policy)
    assert x.stride() == (4, 2)
    assert x.stride(1) == 2
    assert x.is_contiguous()
    assert x.contiguous() is x


@pytest.mark.parametrize("wrapper", [True, False])
def test_none_leaves_it_to_the_tensor(wrapper):
    answers = dict.fromkeys(
        (
            aten.sym_size.default,
            aten.sym_stride.default,
            aten.dim.default,
            aten.is_contiguous.memory_format,
        )
    )
    x = made(class_that(answers), torch.randn(4, 2), wrapper, dispatch_sizes_strides_policy="sizes")
    assert x.size() == (4, 2)
    assert x.stride() == (2, 1)
    assert x.dim() == 2
    assert not x.is_contiguous(memory_format=torch.channels_last)


READS = {
    "sym_size": ("sizes", lambda x: x.size()),
    "dim": ("sizes", lambda x: x.dim()),
    "sym_numel": ("sizes", lambda x: x.numel()),
    "sym_stride": ("strides", lambda x: x.stride()),
    "is_contiguous": ("strides", lambda x: x.contiguous()),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("wrapper", [True, False])
def test_what_the_class_declines_is_an_error(name, wrapper):
    policy, read = READS[name]
    x = made(class_that({}), torch.randn(3, 3), wrapper, dispatch_sizes_strides_policy=policy)
    with pytest.raises(TypeError, match=f"Multiple dispatch failed for 'torch._ops.aten.{name}"):
        read(x)


def test_the_policy_of_strides_leaves_sizes_alone():
    x = made(class_that({}), torch.randn(3, 2), True, dispatch_sizes_strides_policy="strides")
    assert x.size() == (3, 2)
    assert x.dim() == 2


@pytest.mark.parametrize("wrapper", [True, False])
def test_devices_and_layouts_are_those_that_the_class_says(wrapper):
    answers = {
        torch.ops.prim.device.default: torch.device("meta"),
        torch.ops.prim.layout.default: torch.sparse_csr,
    }
    cls = class_that(answers)
    x = made(cls, torch.randn(3, 3), wrapper, dispatch_device=True)
    assert x.device.type == "meta"
    assert x.layout is torch.strided
    y = made(cls, torch.randn(3, 3), wrapper, dispatch_layout=True)
    assert y.layout is torch.sparse_csr
    assert y.device.type == "cpu"
    with pytest.raises(TypeError, match="prim.layout"):
        made(class_that({}), torch.randn(3), wrapper, dispatch_layout=True).layout


def test_other_tensors_of_the_class_answer_for_themselves():
    cls = class_that(SIZES)
    made(cls, torch.randn(4, 2), True, dispatch_sizes_strides_policy="sizes")
    plain = made(cls, torch.randn(4, 2), True)
    assert plain.shape == (4, 2)
    assert plain.device.type == "cpu"


def test_readers_of_the_users_class_stay():
    class Own(torch.Tensor):
        def dim(self):
            return 7

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = made(Own, torch.randn(3), True, dispatch_sizes_strides_policy="sizes")
    assert x.dim() == 7


def test_a_policy_that_does_not_exist_is_refused():
    with pytest.raises(RuntimeError, match="Unknown dispatch_sizes_strides_policy: shapes"):
        made(class_that({}), torch.randn(3), True, dispatch_sizes_strides_policy="shapes")


def test_facts_are_operators():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert tuple(aten.size.default(x)) == (2, 3, 4, 5)
    assert aten.size.int(x, -1) == 5
    assert aten.stride.int(x, 1) == 1
    assert aten.dim.default(x) == 4
    assert aten.numel.default(x) == 120
    assert not aten.is_contiguous.default(x)
    assert aten.is_contiguous.memory_format(x, torch.channels_last)
    assert aten.is_strides_like_format.default(x, torch.channels_last)
    assert not aten.is_strides_like_format.default(x[0], torch.channels_last)
    assert aten.is_non_overlapping_and_dense.default(x)
    assert not aten.is_non_overlapping_and_dense.default(x[..., ::2])
    assert torch.ops.prim.device.default(x) == torch.device("cpu")
    assert torch.ops.prim.layout.default(x) is torch.strided
