"""What programs find once torch was imported, beside torch itself."""

from __future__ import annotations

import multiprocessing
from importlib import import_module

import pytest

import rushlight
from rushlight import compat
from rushlight.base.errors import MissingFeature


@pytest.fixture(autouse=True)
def installed():
    was_installed = compat.is_installed()
    compat.install()
    yield
    if not was_installed:
        compat.uninstall()


def test_parts_of_multiprocessing_are_there():
    assert multiprocessing.connection.wait is not None
    assert multiprocessing.pool.ThreadPool is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        multiprocessing.nothing


def test_switches_of_the_executor_are_kept():
    native = import_module("torch._C")
    before = native._jit_set_profiling_executor(False)
    assert before is True and native._jit_set_profiling_executor(before) is False
    native._jit_override_can_fuse_on_cpu(True)
    assert native._jit_can_fuse_on_cpu() is True
    native._jit_override_can_fuse_on_cpu(False)


def test_precision_of_backends():
    for owner in ("", ".cudnn", ".cuda.matmul", ".mkldnn", ".mkldnn.matmul"):
        assert eval(f"rushlight.backends{owner}.fp32_precision") == "none"
    assert rushlight.backends.cudnn.conv.fp32_precision == "tf32"


def test_functions_that_torch_gave_up_say_what_to_use():
    torch = import_module("torch")
    for name, instead in (("symeig", "eigh"), ("solve", "solve"), ("lstsq", "lstsq")):
        with pytest.raises(RuntimeError, match=f"torch.linalg.{instead}"):
            getattr(torch, name)(torch.eye(2))


def test_steps_of_optimisers_as_functions():
    torch = import_module("torch")
    adam = import_module("torch.optim._functional").adam
    parameter, grad = torch.ones(1), torch.ones(1)
    means, squares, counts = [torch.zeros(1)], [torch.zeros(1)], [torch.tensor(0.0)]
    adam(
        [parameter], [grad], means, squares, [], counts, amsgrad=False, beta1=0.9, beta2=0.999,
        lr=0.1, weight_decay=0.0, eps=1e-8, maximize=False,
    )  # fmt: skip
    assert parameter.item() == pytest.approx(0.9) and counts[0].item() == 1


def test_texts_of_tensors():
    texts = import_module("torch._tensor_str")
    assert texts._str_intern(rushlight.ones(2)) == "tensor([1., 1.])"
    assert texts._str_intern(rushlight.ones(2), tensor_contents="[...]") == "tensor([...])"
    assert texts._add_suffixes("f(1", ["a=2"], 2, force_newline=False) == "f(1, a=2)"


def test_what_is_not_there_says_so():
    serialization = import_module("torch.serialization")
    with pytest.raises(RuntimeError, match="map_location"):
        serialization.validate_cuda_device("cuda:0")
    autograd = import_module("torch.distributed.autograd")
    assert autograd.is_available() is import_module("torch.distributed.rpc").is_available()
    with pytest.raises(MissingFeature):
        autograd.backward(1, [])
    assert import_module("torch.utils._triton").has_triton() is False


def test_layouts_tell_whether_data_can_be_swapped():
    torch = import_module("torch")
    assert torch._has_compatible_shallow_copy_type(torch.ones(1), torch.ones(2).double())
    assert not torch._has_compatible_shallow_copy_type(torch.ones(2, 2), torch.eye(2).to_sparse())


def test_words_of_the_former_exporter():
    onnx = import_module("torch.onnx")
    assert onnx.TrainingMode.TRAINING == 2
    assert onnx.OperatorExportTypes(3).name == "ONNX_FALLTHROUGH"
