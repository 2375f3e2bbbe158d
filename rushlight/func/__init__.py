"""Function transforms: torch's public names."""

from __future__ import annotations

from rushlight.func.derivatives import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
)
from rushlight.func.functionalization import functionalize
from rushlight.func.linearization import linearize
from rushlight.func.rearrangement import rearrange
from rushlight.func.stateless import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from rushlight.func.unwrapping import debug_unwrap
from rushlight.func.vmap import vmap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
