"""clone, to, copy_, fill_, and elements as Python numbers."""

from __future__ import annotations

import math

import pytest

import rushlight as rl


def test_clone_keeps_dense_strides_and_makes_others_dense() -> None:
    x = rl.arange(24.0).view(2, 3, 4)
    assert x.permute(2, 0, 1).clone().stride() == (1, 12, 4)
    assert x[:, :, ::2].clone().stride() == (6, 2, 1)
    assert x.permute(2, 0, 1).clone(memory_format=rl.contiguous_format).stride() == (6, 3, 1)
    assert rl.arange(3.0).expand(2, 3).clone().stride() == (3, 1)


def test_to_returns_self_when_nothing_changes() -> None:
    x = rl.ones(2)
    assert x.to(rl.float32) is x
    assert x.to("cpu") is x
    assert x.to(rl.zeros(1)) is x
    assert x.to() is x
    assert x.float() is x
    assert x.to(rl.float32, copy=True) is not x
    assert x.contiguous() is x


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((rl.float64,), {}),
        (("cpu", rl.float64), {}),
        ((), {"dtype": rl.float64}),
        ((rl.ones(1, dtype=rl.float64),), {}),
        ((rl.float64, True, False), {}),
        ((), {"tensor": rl.ones(1, dtype=rl.float64)}),
    ],
)
def test_to_takes_all_forms(args: tuple, kwargs: dict) -> None:
    assert rl.ones(2).to(*args, **kwargs).dtype is rl.float64


def test_to_refuses_unknown_forms() -> None:
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not str"):
        rl.ones(2).to(dtype="float")
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        rl.ones(2).cuda()


def test_conversion_to_real_warns_once_and_takes_the_real_part(monkeypatch) -> None:
    from rushlight.opset.creation import copy

    monkeypatch.setattr(copy, "discard_warned", False)
    z = rl.tensor([1 + 2j])
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.float().tolist() == [1.0]


def test_copy_broadcasts_converts_and_has_both_gradients() -> None:
    x = rl.ones(2, 3, requires_grad=True)
    y = rl.arange(3, dtype=rl.float64, requires_grad=False).requires_grad_()
    z = x.clone().copy_(y)
    assert z.grad_fn.name() == "torch::autograd::CopyBackwards"
    assert type(z.grad_fn).__name__ == "CopyBackwards"
    z.sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2
    assert y.grad.tolist() == [2.0] * 3
    assert y.grad.dtype is rl.float64


def test_copy_refuses_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"must match the size of tensor b \(3\)"):
        rl.zeros(2).copy_(rl.ones(3))
    with pytest.raises(RuntimeError, match=r"doesn't match the broadcast shape \[3, 2, 2\]"):
        rl.zeros(2, 2).copy_(rl.ones(3, 2, 2))
    with pytest.raises(RuntimeError, match="single memory location"):
        rl.zeros(3).expand(2, 3).copy_(rl.ones(3))


def test_fill_and_zero() -> None:
    x = rl.zeros(2, 3)
    assert x.fill_(2).tolist() == [[2.0] * 3] * 2
    assert x.t().fill_(rl.tensor(5)).tolist() == [[5.0] * 2] * 3
    assert x.zero_().sum().item() == 0.0
    assert x._version == 3
    with pytest.raises(RuntimeError, match="type uint8_t without overflow"):
        rl.zeros(1, dtype=rl.uint8).fill_(300)
    with pytest.raises(RuntimeError, match="0-dimension value tensor"):
        x.fill_(rl.ones(2))


@pytest.mark.parametrize("call", ["zero_()", "fill_(1.0)", "copy_(rl.ones(3))", "uniform_()"])
def test_writes_to_leaves_are_refused(call: str) -> None:
    x = rl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        eval(f"x.{call}", {"x": x, "rl": rl})


def test_python_numbers() -> None:
    assert rl.tensor(2**60 + 1).item() == 2**60 + 1
    assert int(rl.tensor([[3.7]])) == 3
    assert bool(rl.tensor(math.nan))
    assert [10, 20, 30][rl.tensor(1)] == 20
    assert rl.ones(1, dtype=rl.bfloat16).item() == 1.0
    with pytest.raises(ValueError):
        int(rl.tensor(math.nan))
    with pytest.raises(OverflowError):
        int(rl.tensor(math.inf))
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(rl.ones(2))
    with pytest.raises(RuntimeError, match="with no values is ambiguous"):
        bool(rl.ones(0))
    with pytest.raises(RuntimeError, match="a Tensor with 3 elements cannot be converted"):
        rl.ones(3).item()
    with pytest.raises(TypeError, match="can be converted to an index"):
        rl.tensor(1.0).__index__()
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        rl.ones(1, device="meta").item()


def test_conversion_is_differentiable_twice() -> None:
    x = rl.tensor([2.0, 3.0], requires_grad=True)
    y = x.double()
    assert type(y.grad_fn).__name__ == "ToCopyBackward0"
    (g,) = rl.autograd.grad((y * y * y).sum(), x, create_graph=True)
    assert g.dtype is rl.float32
    (h,) = rl.autograd.grad(g.sum(), x)
    assert h.tolist() == [12.0, 18.0]


def test_to_a_memory_format_asks_what_strides_suggest():
    image = rl.rand(2, 1, 4, 4)
    assert image.to(memory_format=rl.channels_last).stride() == (16, 1, 4, 1)
    assert image.contiguous(memory_format=rl.channels_last) is image
    turned = rl.rand(2, 3).t()
    assert turned.to(memory_format=rl.contiguous_format) is turned


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e5m2"])
@pytest.mark.parametrize("target", [rl.int8, rl.int32, rl.int64])
def test_narrow_floats_become_integers_as_float32_does(name, target) -> None:
    x = rl.tensor([float("inf"), float("nan"), -1.5, 3.75]).to(getattr(rl, name))
    assert x.to(target).tolist() == x.float().to(target).tolist()


def test_whole_numbers_gain_no_history_from_what_is_written_into_them() -> None:
    value = rl.tensor(2.5, requires_grad=True)
    for target in (rl.zeros(3, dtype=rl.int64), rl.zeros(3, dtype=rl.int64)[1:]):
        target.copy_(value)
        assert target[0].item() == 2 and not target.requires_grad
    target = rl.zeros(3, dtype=rl.int64)
    target[0] = value
    assert target.tolist() == [2, 0, 0] and target.is_leaf and not target.requires_grad


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_numbers_beyond_a_half_type_are_refused(dtype) -> None:
    x, mask = rl.ones(2, dtype=dtype), rl.tensor([True, False])
    large = -1e9 if dtype is rl.float16 else -1e39
    for write in (
        lambda: x.masked_fill(mask, large),
        lambda: x.clone().masked_fill_(mask, large),
        lambda: x.index_fill(0, rl.tensor([0]), large),
        lambda: x.scatter(0, rl.tensor([0]), large),
        lambda: x.clamp(min=large),
        lambda: rl.full((2,), large, dtype=dtype),
        lambda: rl.linspace(0, large, 3, dtype=dtype),
        lambda: rl.nn.functional.pad(x, (1, 1), value=large),
        lambda: rl.nn.functional.threshold(x, 0, large),
        lambda: rl.nn.functional.hardtanh(x, large, 1),
    ):
        with pytest.raises(RuntimeError, match="cannot be converted to type c10::"):
            write()
    assert x.masked_fill(mask, float("-inf")).tolist() == [float("-inf"), 1.0]
    x[0] = large
    assert x.tolist() == [float("-inf"), 1.0]


def test_fractions_below_zero_do_not_become_unsigned() -> None:
    for make in (
        lambda: rl.full((2,), -0.5, dtype=rl.uint8),
        lambda: rl.zeros(2, dtype=rl.uint8).fill_(-0.5),
        lambda: rl.full((2,), 127.5, dtype=rl.int8),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            make()
    assert rl.full((2,), -1, dtype=rl.uint8).tolist() == [255, 255]
