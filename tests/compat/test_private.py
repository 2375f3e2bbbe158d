"""Private functions of torch that libraries call."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.compat import private

nn = torch.nn


def test_checks_of_tensors():
    private.check_tensor_all(torch.tensor([True, True]))
    with pytest.raises(RuntimeError, match="all of them"):
        private.check_tensor_all(torch.tensor([True, False]), lambda: "all of them")
    with pytest.raises(ValueError, match="this"):
        private.check_tensor_all_with(ValueError, torch.tensor(False), lambda: "this")
    with pytest.raises(TypeError, match="cond must be a tensor"):
        private.check_tensor_all(True)
    with pytest.raises(TypeError, match="must have dtype torch.bool"):
        private.check_tensor_all(torch.ones(2))


def test_devices():
    assert private.get_accelerator() == torch.device("cpu")
    assert private.get_default_device() == "cpu" and private.get_available_device_type() is None
    assert private.get_device_module("cuda") is torch.cuda
    with pytest.raises(RuntimeError, match="'torch.abacus'"):
        private.get_device_module("abacus")
    assert private.get_device_index(3) == 3
    assert private.get_device_index(None, optional=True) == -1
    assert private.get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        private.get_device_index("cpu")
    assert torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")


def test_tensors():
    x = torch.arange(6.0).reshape(2, 3)
    assert private.element_size(torch.float64) == 8
    assert private.is_alias_of(x, x[1]) and not private.is_alias_of(x, x.clone())
    assert private.shape_as_tensor(x).tolist() == [2, 3]
    assert private.is_contiguous_or_false(x) and not private.is_contiguous_or_false(x.T)


def test_what_vmap_gives():
    def mapped(x):
        return private.maybe_remove_batch_dim("f", x, 1, 3, None)

    with pytest.raises(ValueError, match="when out_dim is None"):
        torch.vmap(mapped)(torch.ones(3))
    with pytest.raises(ValueError, match="must only return Tensors"):
        private.maybe_remove_batch_dim("f", 1, 1, 3, 0)
    assert private.maybe_remove_batch_dim("f", 7, 1, 3, None) == 7


def test_modes_are_told():
    assert not private.is_torch_function_mode_enabled()
    with torch.overrides.TorchFunctionMode():
        assert private.is_torch_function_mode_enabled()


def test_optimisers():
    assert repr(private.required) == "<required parameter>"
    ones = [torch.ones(1)]
    assert private.default_to_fused_or_foreach(ones, False) == (False, False)
    assert private.default_to_fused_or_foreach(ones, False, use_fused=True) == (True, False)
    assert private.default_to_fused_or_foreach(ones, True, use_fused=True) == (False, False)
    assert "cuda" in private.get_capturable_supported_devices()
    assert "xla" not in private.get_capturable_supported_devices(supports_xla=False)

    class Own(torch.optim.Optimizer):
        def __init__(self, params, differentiable):
            super().__init__(params, {"differentiable": differentiable})

        @private.use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    for differentiable in (False, True):
        assert Own([nn.Parameter(torch.ones(1))], differentiable).step() is differentiable


def test_methods_that_scripts_keep():
    from rushlight.jit.scripting.ignoring import COPY, modifier_of

    def method(self):
        pass

    assert private.copy_to_script_wrapper(method) is method and modifier_of(method) == COPY


def test_modes_of_the_compiler():
    modes = private.list_mode_options()
    assert private.list_mode_options("max-autotune") == modes["max-autotune"]
    assert modes["default"] == {} and len(modes) == 4
