"""torch.backends: which accelerated libraries there are (none), and their switches.

A switch can be read and set, so that scripts which set it keep running; it changes nothing.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from rushlight.base.errors import error
from rushlight.base.lazy import namespace
from rushlight.base.refusals import refused

__all__ = [
    "cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "mkl", "mkldnn", "mps", "nnpack",
    "openmp", "opt_einsum", "quantized",
]  # fmt: skip


# How products of float32 may be rounded inside; those of the CPU are exact.
fp32_precision = "none"

# Each backend can be imported by its path, as scripts do with torch.backends.cudnn.
__path__: list[str] = []


class Backend(ModuleType):
    """One library: absent unless said otherwise, with settable switches."""

    def __init__(self, name: str, available: bool = False, **switches: Any) -> None:
        super().__init__(f"{__name__}.{name}")
        self.name = name
        self.available = available
        vars(self).update(switches)
        sys.modules[self.__name__] = self

    def is_available(self) -> bool:
        return self.available

    def is_built(self) -> bool:
        return self.available

    def version(self) -> None:
        return None

    @contextmanager
    def flags(self, **switches: Any) -> Any:
        """Set switches for a block."""
        before = {name: getattr(self, name) for name in switches}
        vars(self).update(switches)
        try:
            yield self
        finally:
            vars(self).update(before)

    def __repr__(self) -> str:
        return f"<backend {self.name}: {'available' if self.available else 'not available'}>"


# torch: what engines of quantised arithmetic are called in errors.
ENGINES = {
    "none": "NoQEngine", "qnnpack": "QNNPACK", "fbgemm": "FBGEMM", "onednn": "ONEDNN", "x86": "X86",
}  # fmt: skip


class QuantizedBackend(Backend):
    """torch.backends.quantized: the engine of quantised arithmetic. All have x86's integers."""

    def __init__(self, name: str) -> None:
        super().__init__(name, supported_engines=["onednn", "x86", "fbgemm"], chosen="x86")

    @property
    def engine(self) -> str:
        return str(vars(self)["chosen"])

    @engine.setter
    def engine(self, value: str) -> None:
        if value not in ENGINES:
            raise RuntimeError(f"{value} is not a valid value for quantized engine")
        if value not in vars(self)["supported_engines"]:
            raise RuntimeError(f"quantized engine {ENGINES[value]} is not supported")
        vars(self)["chosen"] = value


class CudaBackend(Backend):
    """torch.backends.cuda: which forms of attention may be taken, and libraries to prefer.

    The plain form and the flash form are chosen by these switches here too; the others are of
    devices, so that setting them is remembered and changes nothing.
    """

    def __init__(self, name: str, **switches: Any) -> None:
        super().__init__(name, **switches)
        self._allowed = {"mem_efficient": True, "cudnn": True, "fp16_bf16_reduction_math": False}
        self._preferred = {"blas": "default", "linalg": "default", "rocm_fa": "default"}
        look_up, _ = namespace(self.__name__, refused={"RL0011": REFUSED_CUDA})
        self.__getattr__ = look_up

    def math_sdp_enabled(self) -> bool:
        return forms_of_attention()[MATH]

    def enable_math_sdp(self, enabled: bool) -> None:
        forms_of_attention()[MATH] = bool(enabled)

    def flash_sdp_enabled(self) -> bool:
        return forms_of_attention()[FLASH]

    def enable_flash_sdp(self, enabled: bool) -> None:
        forms_of_attention()[FLASH] = bool(enabled)

    def mem_efficient_sdp_enabled(self) -> bool:
        return self._allowed["mem_efficient"]

    def enable_mem_efficient_sdp(self, enabled: bool) -> None:
        self._allowed["mem_efficient"] = bool(enabled)

    def cudnn_sdp_enabled(self) -> bool:
        return self._allowed["cudnn"]

    def enable_cudnn_sdp(self, enabled: bool) -> None:
        self._allowed["cudnn"] = bool(enabled)

    def fp16_bf16_reduction_math_sdp_allowed(self) -> bool:
        return self._allowed["fp16_bf16_reduction_math"]

    def allow_fp16_bf16_reduction_math_sdp(self, enabled: bool) -> None:
        self._allowed["fp16_bf16_reduction_math"] = bool(enabled)

    def is_flash_attention_available(self) -> bool:
        return False

    is_ck_sdpa_available = is_flash_attention_available

    def can_use_flash_attention(self, params: Any, debug: bool = False) -> bool:
        return False

    can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention

    @contextmanager
    def sdp_kernel(
        self,
        enable_flash: bool = True,
        enable_math: bool = True,
        enable_mem_efficient: bool = True,
        enable_cudnn: bool = True,
    ) -> Any:
        """Choose the forms of attention for a block."""
        before = dict(forms_of_attention()), dict(self._allowed)
        try:
            self.enable_flash_sdp(enable_flash)
            self.enable_math_sdp(enable_math)
            self.enable_mem_efficient_sdp(enable_mem_efficient)
            self.enable_cudnn_sdp(enable_cudnn)
            yield {}
        finally:
            forms_of_attention().update(before[0])
            self._allowed.update(before[1])

    def prefer(self, kind: str, backend: Any, known: str) -> str:
        if backend is not None:
            if str(backend) not in known.split():
                raise RuntimeError(f"Unknown input value {backend!r}; choose from: {known}")
            self._preferred[kind] = str(backend)
        return self._preferred[kind]

    def preferred_blas_library(self, backend: str | None = None) -> str:
        return self.prefer("blas", backend, "default cublas cublaslt hipblaslt ck")

    def preferred_linalg_library(self, backend: str | None = None) -> str:
        return self.prefer("linalg", backend, "default magma cusolver")

    def preferred_rocm_fa_library(self, backend: str | None = None) -> str:
        return self.prefer("rocm_fa", backend, "default aotriton ck")


MATH, FLASH = 0, 1
REFUSED_CUDA = "SDPAParams blas_workspace_size cublas_workspace_size cublaslt_workspace_size"


class cuFFTPlanCacheAttrContextProp:
    """A property that is read and written by functions of the object's `device_index`; a text in
    place of the writing one says why it cannot be written."""

    def __init__(self, getter: Any, setter: Any) -> None:
        self.getter = getter
        self.setter = setter

    def __get__(self, obj: Any, objtype: Any) -> Any:
        return self.getter(obj.device_index)

    def __set__(self, obj: Any, val: Any) -> None:
        if isinstance(self.setter, str):
            raise RuntimeError(self.setter)
        self.setter(obj.device_index, val)


def no_plans(*args: Any) -> NoReturn:
    raise error("RL1209", RuntimeError)


class cuFFTPlanCache:
    """The plans of one device, of which there is none."""

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    size = cuFFTPlanCacheAttrContextProp(
        no_plans,
        ".size is a read-only property showing the number of plans currently in the cache. To "
        "change the cache capacity, set cufft_plan_cache.max_size.",
    )
    max_size = cuFFTPlanCacheAttrContextProp(no_plans, no_plans)

    def clear(self) -> None:
        no_plans()


class cuFFTPlanCacheManager:
    """The plans of all devices; as one cache, those of the current device."""

    def __getitem__(self, device: Any) -> Any:
        raise RuntimeError(
            "cufft_plan_cache: expected 0 <= device index < 0, but got device with index "
            f"{getattr(device, 'index', device)}"
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("size", "max_size", "clear"):
            raise error("RL1209", AssertionError)
        raise AttributeError(name)


class cuBLASModule:
    """Switches of products on a device, as `torch.backends.cuda.matmul` has them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(cuda.matmul, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(cuda.matmul, name):
            raise AttributeError("Unknown attribute " + name)
        setattr(cuda.matmul, name, value)


def forms_of_attention() -> dict[int, bool]:
    from rushlight.opset.product.attention import ENABLED

    return ENABLED


def cpu_capability() -> str:
    """The widest instructions that kernels use, in torch's words. Libraries choose by it whether
    bytes are resized as bytes."""
    from numpy._core._multiarray_umath import __cpu_features__ as found

    if all([found.get(f"AVX512{part}") for part in ("F", "BW", "DQ", "VL")]):
        return "AVX512"
    return "AVX2" if found.get("AVX2") and found.get("FMA3") else "DEFAULT"


cpu = Backend("cpu", available=True)
cpu.get_cpu_capability = cpu_capability  # type: ignore[attr-defined]
cuda = CudaBackend(
    "cuda",
    cuBLASModule=cuBLASModule,
    cuFFTPlanCache=cuFFTPlanCache,
    cuFFTPlanCacheAttrContextProp=cuFFTPlanCacheAttrContextProp,
    cuFFTPlanCacheManager=cuFFTPlanCacheManager,
    cufft_plan_cache=cuFFTPlanCacheManager(),
    matmul=Backend(
        "cuda.matmul",
        allow_tf32=False,
        fp32_precision="none",
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
    ),
)
cudnn = Backend(
    "cudnn", enabled=True, benchmark=False, benchmark_limit=10, deterministic=False,
    allow_tf32=True, fp32_precision="none",
)  # fmt: skip
cudnn.conv = Backend("cudnn.conv", fp32_precision="tf32")  # type: ignore[attr-defined]
cudnn.rnn = Backend("cudnn.rnn", fp32_precision="tf32")  # type: ignore[attr-defined]
cudnn.is_acceptable = lambda tensor: False  # type: ignore[attr-defined]
mkl = Backend("mkl", VERBOSE_OFF=0, VERBOSE_ON=1)
mkldnn = Backend(
    "mkldnn", enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none",
    **{
        part: Backend(f"mkldnn.{part}", fp32_precision="none")
        for part in ("conv", "matmul", "rnn")
    },
)  # fmt: skip
mps = Backend("mps")
mps.is_macos13_or_newer = lambda minor=0: False  # type: ignore[attr-defined]
mps.is_macos_or_newer = lambda major, minor: False  # type: ignore[attr-defined]
mps.get_core_count = refused("torch.backends.mps.get_core_count", "RL0011")  # type: ignore[attr-defined]
mps.get_name = refused("torch.backends.mps.get_name", "RL0011")  # type: ignore[attr-defined]
cusparselt = Backend("cusparselt")
cusparselt.get_max_alg_id = lambda: None  # type: ignore[attr-defined]
kleidiai = Backend("kleidiai")
nnpack = Backend("nnpack", enabled=False)
openmp = Backend("openmp")
opt_einsum = Backend("opt_einsum", enabled=False, strategy=None)
quantized = QuantizedBackend("quantized")
xnnpack = Backend("xnnpack", enabled=False)
mha = Backend("mha", fastpath=True)


def set_fastpath_enabled(value: bool) -> None:
    """Kept; the layers of `nn` have one path."""
    mha.fastpath = bool(value)


mha.get_fastpath_enabled = lambda: mha.fastpath  # type: ignore[attr-defined]
mha.set_fastpath_enabled = set_fastpath_enabled  # type: ignore[attr-defined]


def set_nnpack_flags(_enabled: bool) -> tuple[bool]:
    """Set whether NNPACK is used, and answer what it was; there is none."""
    before = (nnpack.enabled,)
    nnpack.enabled = bool(_enabled)
    return before


@contextmanager
def nnpack_flags(enabled: bool = False) -> Any:
    """Set whether NNPACK is used, for a block."""
    (before,) = set_nnpack_flags(enabled)
    try:
        yield
    finally:
        set_nnpack_flags(before)


nnpack.set_flags = set_nnpack_flags  # type: ignore[attr-defined]
nnpack.flags = nnpack_flags


class verbose:
    """Reports of a library that is not used: nothing is printed."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *details: Any) -> bool:
        return False


mkl.verbose = mkldnn.verbose = verbose
