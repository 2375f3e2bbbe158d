"""torch: what the package `functorch` has beside `torch.func`.

The transforms are there under their former names, which warn.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from rushlight import func
from rushlight.compat import make_functional as modules
from rushlight.compat.make_functional import FunctionalModule, FunctionalModuleWithBuffers
from rushlight.func.vmap import Mapping
from rushlight.func.vmap import vmap as current_vmap

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def warn_deprecated(name: str, new: str) -> None:
    warnings.warn(
        "We've integrated functorch into PyTorch. As the final step of the integration, "
        f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future "
        f"version of PyTorch >= 2.3. Please use `{new}` instead; see the PyTorch 2.0 release notes "
        "and/or the `torch.func` migration guide for more details "
        "https://pytorch.org/docs/main/func.migrating.html",
        FutureWarning,
        stacklevel=3,
    )


def former(current: Callable[..., Any], successor: str = "") -> Callable[..., Any]:
    """A function under the name that it had in `functorch`."""
    name = current.__name__

    @functools.wraps(current)
    def outer(*args: Any, **kwargs: Any) -> Any:
        warn_deprecated(name, successor or f"torch.func.{name}")
        return current(*args, **kwargs)

    return outer


vmap = former(func.vmap, "torch.vmap")
grad = former(func.grad)
grad_and_value = former(func.grad_and_value)
vjp = former(func.vjp)
jvp = former(func.jvp)
jacrev = former(func.jacrev)
jacfwd = former(func.jacfwd)
hessian = former(func.hessian)
functionalize = former(func.functionalize)
make_functional = former(modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = former(
    modules.make_functional_with_buffers, "torch.func.functional_call"
)
combine_state_for_ensemble = former(
    modules.combine_state_for_ensemble, "torch.func.stack_module_state"
)


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """`vmap` that runs the batch in so many parts, one after another.

    >>> import rushlight as torch
    >>> from rushlight.compat.functorch import chunk_vmap
    >>> chunk_vmap(torch.sin, chunks=2)(torch.zeros(3))
    tensor([0., 0., 0.])
    """
    if chunks == 1:
        return current_vmap(func, in_dims, out_dims, randomness)

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        _, _, _, size = Mapping(func, in_dims, out_dims, randomness).inputs(args)
        inner = current_vmap(
            func, in_dims, out_dims, randomness, chunk_size=max(-(-size // chunks), 1)
        )
        return inner(*args, **kwargs)

    return mapped
