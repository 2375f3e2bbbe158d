"""torch.library: define operators of one's own and give them kernels, shapes and gradients.

Registrations live in the same tables as the built-in operators, so a custom op is called, traced,
differentiated and overridden like any other. A `Library` undoes what it registered when destroyed.
"""

from __future__ import annotations

from rushlight.library.checking import OpCheckError as OpCheckError
from rushlight.library.checking import opcheck
from rushlight.library.custom_ops import CustomOpDef, custom_op, register_kernel
from rushlight.library.registration import (
    Library,
    define,
    fallthrough_kernel,
    get_ctx,
    get_kernel,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_torch_dispatch,
    register_vmap,
    triton_op,
    wrap_triton,
)
from rushlight.library.registration import _scoped_library as _scoped_library
from rushlight.library.schemas import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]
