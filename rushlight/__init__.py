"""Rushlight: PyTorch's programming model in Python on NumPy.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> (x * 3).sum().backward()
    >>> x.grad
    tensor([3., 3.])

Names resolve lazily: dtypes and the Tensor class exist from the start, operators become functions
on first access, submodules are imported when named.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import Any

from rushlight.base.config import config as _config
from rushlight.base.lazy import namespace as _namespace
from rushlight.core import device as _devices
from rushlight.core import dtype as _dtypes
from rushlight.core import ports as _ports
from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype, finfo, get_default_dtype, iinfo, set_default_dtype
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.graph import host as _host
from rushlight.opset import exposure as _exposure
from rushlight.opset import families as _families
from rushlight.opset import registry as _registry

__version__ = "0.1.0"

for _entry in (*_devices.LAYOUTS, *_devices.MEMORY_FORMATS):
    globals()[str(_entry).rsplit(".", 1)[-1]] = _entry
_families.load()
_exposure.promise_all()

from rushlight import autograd as autograd  # noqa: E402
from rushlight.autograd.grad_mode import (  # noqa: E402
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

inf = float("inf")
nan = float("nan")
pi = 3.141592653589793
e = 2.718281828459045
newaxis = None

# Public functions that are not operators: name -> module that defines it.
_FUNCTIONS: dict[str, str] = {
    **_families.FUNCTIONS,
    "return_types": "rushlight.core",
    "Tag": "rushlight.core.op",
    "vmap": "rushlight.func.vmap",
    "cond": "rushlight.higher_order.cond",
    "while_loop": "rushlight.higher_order.loops",
}
for _module, _names in (
    (
        "rushlight.core.construct",
        "tensor as_tensor asarray from_numpy frombuffer set_default_tensor_type BFloat16Tensor "
        "BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
        "ShortTensor",
    ),
    (
        "rushlight.storage",
        "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage "
        "ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage "
        "ShortStorage Storage TypedStorage UntypedStorage",
    ),
    ("rushlight.core.mapped", "from_file"),
    (
        "rushlight.core.schemes",
        "per_channel_affine per_channel_affine_float_qparams per_channel_symmetric "
        "per_tensor_affine per_tensor_symmetric qscheme",
    ),
    (
        "rushlight.subclasses.quantized",
        "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic empty_quantized "
        "_choose_qparams_per_tensor _empty_affine_quantized _empty_per_channel_affine_quantized "
        "_make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor",
    ),
    (
        "rushlight.subclasses.quantizedmath",
        "fbgemm_linear_fp16_weight "
        "fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight "
        "fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight "
        "fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix "
        "fused_moving_avg_obs_fake_quant quantized_batch_norm quantized_gru_cell "
        "quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d "
        "quantized_rnn_relu_cell quantized_rnn_tanh_cell",
    ),
    ("rushlight.core.format", "set_printoptions get_printoptions printoptions"),
    ("rushlight.core.interop", "from_dlpack to_dlpack"),
    ("rushlight.io.checkpoint", "save load"),
    ("rushlight.core.state", "set_warn_always is_warn_always_enabled"),
    (
        "rushlight.symbolic.numbers",
        "SymInt SymFloat SymBool sym_int sym_float sym_max sym_min sym_not sym_ite sym_sqrt "
        "sym_sum",
    ),
    (
        "rushlight.core.process",
        "are_deterministic_algorithms_enabled get_deterministic_debug_mode "
        "get_float32_matmul_precision get_num_interop_threads get_num_threads init_num_threads "
        "is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode "
        "set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads "
        "use_deterministic_algorithms",
    ),
    (
        "rushlight.build",
        "__config__ compiled_with_cxx11_abi get_device_module get_file_path has_lapack has_mkl "
        "has_openmp has_spectral is_vulkan_available",
    ),
    ("rushlight.base.naming", "typename"),
    (
        "rushlight.amp",
        "autocast autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache "
        "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype "
        "is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled "
        "set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled "
        "set_autocast_dtype set_autocast_enabled "
        "set_autocast_gpu_dtype GradScaler",
    ),
    (
        "rushlight.autograd.anomaly",
        "is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled",
    ),
    ("rushlight.algorithms.lowrank", "svd_lowrank pca_lowrank"),
    ("rushlight.algorithms.lobpcg", "lobpcg"),
    ("rushlight.compiler.compiling", "compile"),
):
    _FUNCTIONS.update(dict.fromkeys(_names.split(), _module))
_SUBMODULES = frozenset(
    (
        "__future__", "accelerator", "amp", "autograd", "backends", "classes", "compat", "compiler",
        "cpu", "cuda", "distributed", "distributions", "export", "fft", "func", "functional",
        "futures", "fx", "hub", "jit", "library", "linalg", "masked", "monitor", "mps",
        "multiprocessing", "nested", "nn", "onnx", "ops", "optim", "overrides", "profiler",
        "quasirandom", "random", "serialization", "signal", "sparse", "special",
        "storage", "testing", "torch_version", "types", "utils", "version", "viz", "xpu",
    )
)  # fmt: skip
# What graphs call `torch`, and the private names that their code may use.
_host.serve(
    _sys.modules[__name__],
    {
        "torch._C._set_grad_enabled": "rushlight.autograd.grad_mode:write_grad",
        "torch._C._autograd._saved_tensors_hooks_disable": (
            "rushlight.autograd.graph:forbid_saved_tensors_hooks"
        ),
        "torch._C._autograd._saved_tensors_hooks_enable": (
            "rushlight.autograd.graph:allow_saved_tensors_hooks"
        ),
        "torch._functorch.autograd_function.autograd_function_apply": (
            "rushlight.higher_order.regions:autograd_function_apply"
        ),
        **{
            f"torch._functorch.predispatch.{name}": f"rushlight.func.nesting:{name.lstrip('_')}"
            for name in (
                *("_add_batch_dim", "_remove_batch_dim", "_vmap_decrement_nesting"),
                *("_vmap_increment_nesting", "lazy_load_decompositions"),
            )
        },
        "torch._higher_order_ops.auto_functionalize.auto_functionalized": (
            "rushlight.higher_order.writes:auto_functionalized"
        ),
        "torch._higher_order_ops.wrap.wrap_with_set_grad_enabled": (
            "rushlight.higher_order.regions:wrap_with_set_grad_enabled"
        ),
        "torch.amp.autocast_mode._enter_autocast": "rushlight.amp.autocasting:enter_autocast",
        "torch.amp.autocast_mode._exit_autocast": "rushlight.amp.autocasting:exit_autocast",
        "torch.fx._pytree.tree_flatten_spec": "rushlight.graph.specs:tree_flatten_spec",
        "torch.utils._pytree.tree_unflatten": "rushlight.base.pytree:tree_unflatten",
        "torch._sym_sqrt": "rushlight.symbolic.numbers:sym_sqrt",
        "torch._assert": "rushlight.opset.other.asserts:_assert",
        "torch.fx._symbolic_trace.wrap": "rushlight.fx.tracing:wrap",
    },
    (__name__, "rushlight.opset.functions"),
)


def _find(name: str) -> Any:
    if name == "__all__":
        # For `from rushlight import *`: the names that torch gives there.
        return _import_module("rushlight.compat.publicnames").star_names()
    home = _FUNCTIONS.get(name)
    if home is not None:
        return getattr(_import_module(home), name)
    return None if name.startswith("__") else _registry.public(name)


def _every_name() -> list[str]:
    return [*_registry.public_names(), *_FUNCTIONS]


__getattr__, __dir__ = _namespace(__name__, modules=_SUBMODULES, make=_find, names=_every_name)


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def _late(module: str, name: str) -> Any:
    """A function of a module that is loaded when it is first called."""
    return lambda *given: getattr(_import_module(f"rushlight.{module}"), name)(*given)


# Native kernels are loaded with the first call that is large enough for them.
_ports.fill(
    native_text=_late("codegen.eager", "text_kernel"),
    native_lowered=_late("codegen.eager", "lowered_kernel"),
    native_joining=_late("codegen.joining", "joining"),
    native_picked=_late("codegen.picking", "picked_kernel"),
    native_loop=_late("codegen.byhand", "loop"),
    native_draw=_late("codegen.drawing", "drawer"),
    native_kernels=_late("codegen.kernels", "available"),
    all_return_types=_late("compat.publicnames", "all_return_types"),
    index_by_dims=_late("func.dim.tensors", "index"),
    namespace_modules={
        "quantized": ("rushlight.quantization.operators",),
        "torchaudio": ("rushlight.library.audio",),
        "_torchaudio": ("rushlight.library.audio",),
    },
)

if _config.anomaly:
    from rushlight.autograd.anomaly import detect_everywhere as _detect_everywhere

    _detect_everywhere()

# Last, because these shadow the builtins bool, int and float in this module.
globals().update(_dtypes.BY_NAME)
