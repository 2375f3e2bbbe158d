"""Function transforms: torch's public names."""

from __future__ import annotations

from rushlight.func.derivatives import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from rushlight.func.functionalization import functionalize
from rushlight.func.stateless import functional_call, stack_module_state
from rushlight.func.vmap import vmap

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
