"""Checkpointed regions and selective ones."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)


def test_the_modes_of_selective_regions_have_torchs_names():
    saving, reading = create_selective_checkpoint_contexts([torch.ops.aten.mm.default])
    assert type(saving) is torch.utils.checkpoint._CachingTorchDispatchMode
    assert type(reading) is torch.utils.checkpoint._CachedTorchDispatchMode


def leaf():
    return torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradients_are_those_of_the_function(use_reentrant):
    x = leaf()
    checkpoint(lambda a: a.exp().sin(), x, use_reentrant=use_reentrant).sum().backward()
    e = x.detach().exp()
    assert x.grad.tolist() == pytest.approx((e.cos() * e).tolist())


def test_random_numbers_are_the_same_again():
    x = leaf()
    seen = []

    def run(a):
        seen.append(torch.rand(3, dtype=torch.float64))
        return (a * seen[-1]).exp()

    checkpoint(run, x, use_reentrant=False).sum().backward()
    assert len(seen) == 2 and torch.equal(*seen)


def test_sequences_in_segments():
    chain = nn.Sequential(nn.Tanh(), nn.Sigmoid(), nn.Tanh(), nn.ReLU())
    x, y = leaf(), leaf()
    checkpoint_sequential(chain, 2, x, use_reentrant=False).sum().backward()
    chain(y).sum().backward()
    assert torch.allclose(x.grad, y.grad)


def test_arguments():
    x = leaf()
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint(lambda a: a, x, use_reentrant=True, foo=3)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(lambda a: a, x, use_reentrant=True, context_fn=lambda: 0)
    with pytest.raises(ValueError, match=r"one of \['default', 'none'\], but got zz"):
        checkpoint(lambda a: a * 2, x, use_reentrant=False, determinism_check="zz")
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed"):
        checkpoint(lambda a: a * 2, x)


def test_a_policy_keeps_the_outputs_of_chosen_ops():
    asked = []

    def policy(context, op, *args, **kwargs):
        asked.append((context.is_recompute, str(op)))
        keep = op is torch.ops.aten.sin.default
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    x = leaf()
    contexts = create_selective_checkpoint_contexts(policy)
    result = checkpoint(
        lambda a: a.sin().exp().cos(), x, use_reentrant=False, context_fn=lambda: contexts
    )
    result.sum().backward()
    s = x.detach().sin()
    wanted = -s.exp().sin() * s.exp() * x.detach().cos()
    assert x.grad.tolist() == pytest.approx(wanted.tolist())
    assert (False, "aten.sin.default") in asked and (True, "aten.sin.default") in asked
    assert not any("detach" in name for _, name in asked)


def test_kept_outputs_serve_one_backward():
    x = leaf()
    contexts = create_selective_checkpoint_contexts([torch.ops.aten.sin.default])
    result = checkpoint(
        lambda a: a.sin().exp(), x, use_reentrant=False, context_fn=lambda: contexts
    )
    result.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        result.sum().backward()


def test_lists_of_ops_hold_overloads():
    with pytest.raises(ValueError, match="to be an OpOverload but got"):
        create_selective_checkpoint_contexts([torch.ops.aten.mm])
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)


def test_what_two_formulas_read_is_unpacked_once():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    found = checkpoint(lambda y: torch.minimum(y, y.sum() / 2), x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert gradient.tolist() == [1.5, 0.5]


def test_forward_mode_passes_through_a_region():
    from rushlight.autograd import forward_ad

    x = torch.tensor([1.0, 2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(2))
        result = checkpoint(lambda y: y * y, dual, use_reentrant=False)
        assert forward_ad.unpack_dual(result).tangent.tolist() == [2.0, 4.0]


def test_a_region_in_inference_mode_is_a_plain_call():
    with torch.inference_mode():
        x = torch.ones(2) * 3
        with torch.enable_grad():
            result = checkpoint(lambda y: y * y, x, use_reentrant=False)
    assert result.tolist() == [9.0, 9.0] and not result.requires_grad


def test_forward_mode_derived_from_the_gradient_saves_nothing_in_a_region():
    from rushlight.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.eye(2) * 2, torch.eye(2))
        result = checkpoint(torch.logdet, dual, use_reentrant=False)
        assert forward_ad.unpack_dual(result).tangent.item() == 1.0
