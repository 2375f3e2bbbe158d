"""Weight and spectral norm by hooks, as older programs use them."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import utils

W = [[-1.0, 2.0, 0.5], [3.0, -2.0, 1.0]]


def layer(kind=nn.Linear):
    made = kind(3, 2)
    made.weight.data.copy_(torch.tensor(W))
    return made


def normed(**options):
    with pytest.warns(FutureWarning, match="`torch.nn.utils.weight_norm` is deprecated in favor"):
        return utils.weight_norm(layer(), **options)


def test_weight_norm():
    module = normed()
    assert list(module.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert torch.allclose(module.weight, torch.tensor(W))
    module.weight_g.data.mul_(2)
    module(torch.ones(1, 3)).sum().backward()
    assert torch.allclose(module.weight, 2 * torch.tensor(W))
    assert module.weight_g.grad.flatten().tolist() == pytest.approx([0.6546537, 0.5345225])
    with pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks"):
        normed_again(module)
    utils.remove_weight_norm(module)
    assert set(module.state_dict()) == {"bias", "weight"}
    assert torch.allclose(module.weight, 2 * torch.tensor(W))
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in"):
        utils.remove_weight_norm(module)


def normed_again(module):
    with pytest.warns(FutureWarning):
        utils.weight_norm(module)


def test_one_norm_for_all():
    module = normed(dim=None)
    assert module.weight_g.shape == () and module.weight_g.item() == pytest.approx(19.25**0.5)


def test_state_of_hooks_loads_into_parametrized_modules():
    module = utils.parametrizations.weight_norm(nn.Linear(3, 2))
    module.load_state_dict(normed().state_dict())
    assert torch.allclose(module.weight, torch.tensor(W))


def test_spectral_norm():
    torch.manual_seed(0)
    module = utils.spectral_norm(layer(), n_power_iterations=50)
    assert list(module.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    module(torch.ones(1, 3)).sum().backward()
    assert torch.linalg.svdvals(module.weight)[0].item() == pytest.approx(1.0, rel=1e-5)
    assert module.weight_orig.grad is not None
    state = module.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    utils.spectral_norm(layer()).load_state_dict(state)
    with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks"):
        utils.spectral_norm(module)
    value = module.weight.detach().clone()
    utils.remove_spectral_norm(module)
    assert torch.allclose(module.weight, value) and set(module.state_dict()) == {"bias", "weight"}
    assert not module._state_dict_hooks and not module._forward_pre_hooks
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found in"):
        utils.remove_spectral_norm(module)


def test_state_from_before_v_was_stored():
    torch.manual_seed(0)
    module = nn.Linear(2, 3)
    module.weight.data.copy_(torch.tensor(W).T)
    utils.spectral_norm(module, n_power_iterations=80)
    module(torch.ones(1, 2))
    state = dict(module.state_dict())
    wanted = state.pop("weight_v").clone()
    state["weight"] = module.weight.detach().clone()
    other = utils.spectral_norm(nn.Linear(2, 3))
    other.load_state_dict(state)
    assert torch.allclose(other.weight_v, wanted, atol=1e-4)


def test_transposed_convolutions_count_their_outputs_in_dim_one():
    module = utils.spectral_norm(nn.ConvTranspose1d(3, 2, 2))
    assert module.weight_u.shape == (2,) and module.weight_v.shape == (6,)


def test_lazy_modules_come_too_early():
    with pytest.raises(ValueError, match="passed to `SpectralNorm` can't have uninitialized"):
        utils.spectral_norm(nn.LazyLinear(2))


def test_functional_call():
    with pytest.warns(FutureWarning, match="Please use `torch.func.functional_call` instead"):
        result = utils.stateless.functional_call(
            nn.Linear(1, 1, bias=False), {"weight": torch.tensor([[2.0]])}, torch.tensor([3.0])
        )
    assert result.tolist() == [6.0]


def test_fusion():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 4, 4)
    norm = nn.BatchNorm2d(3).eval()
    norm.running_mean.copy_(torch.tensor([1.0, 2.0, 3.0]))
    norm.running_var.copy_(torch.tensor([0.5, 2.0, 3.0]))
    norm.weight.data.copy_(torch.tensor([2.0, -1.0, 0.5]))
    conv = nn.Conv2d(2, 3, 2).eval()
    assert torch.allclose(utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-5)
    conv = nn.ConvTranspose2d(2, 3, 2, bias=False).eval()
    fused = utils.fuse_conv_bn_eval(conv, norm, transpose=True)
    assert torch.allclose(fused(x), norm(conv(x)), atol=1e-5) and fused.bias.shape == (3,)
    linear, flat = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    y = torch.randn(4, 2)
    fused = utils.fuse_linear_bn_eval(linear, flat)
    assert torch.allclose(fused(y), flat(linear(y)), atol=1e-6)
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        utils.fuse_linear_bn_eval(linear.train(), flat)
    with pytest.raises(AssertionError, match="To fuse, linear.out_features == bn.num_features"):
        utils.fuse_linear_bn_eval(linear.eval(), nn.BatchNorm1d(2).eval())


def test_memory_formats():
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Conv2d(1, 1, 1), nn.Conv3d(2, 2, 2))
    utils.convert_conv2d_weight_memory_format(net, torch.channels_last)
    strides = [module.weight.stride() for module in net]
    assert strides == [(8, 1, 4, 2), (1, 1, 1, 1), (16, 8, 4, 2, 1)]
    utils.convert_conv3d_weight_memory_format(net, torch.channels_last_3d)
    assert net[2].weight.stride() == (16, 1, 8, 4, 2)


def test_skipping_initial_values():
    module = utils.skip_init(nn.Linear, 3, 2)
    assert module.weight.shape == (2, 3) and module.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        utils.skip_init(nn.ReLU)
    with pytest.raises(RuntimeError, match="Expected a Module; got <class 'int'>"):
        utils.skip_init(int)
