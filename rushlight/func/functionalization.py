"""`functionalize`: a function without mutation, from one that writes in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.base import pytree
from rushlight.core.functional import FunctionalLevel, from_functional, to_functional
from rushlight.core.tensor import Tensor

__all__ = ["functionalize"]

KINDS = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func` with in-place ops replaced by ones that make new tensors; what it writes to its
    arguments is copied into them at the end.

    >>> import rushlight as torch
    >>> from rushlight.aot.tracing import make_fx
    >>> graph = make_fx(torch.func.functionalize(lambda x: x.clone().relu_()))(torch.ones(1))
    >>> [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    ['aten.clone.default', 'aten.relu.default']
    """
    if remove not in KINDS:
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are:\n     remove='mutations': all inplace and out= operators will be "
            "removed from the program, and replaced with their out-of-place equivalents.\n     "
            "remove='mutations_and_views': In addition to the above, all aliasing operators {view} "
            "will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )
    if remove != "mutations":
        from rushlight.base.errors import MissingFeature

        raise MissingFeature("functionalize(remove='mutations_and_views')", code="RL0607")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        level = FunctionalLevel()
        inner = [
            to_functional(leaf, level) if isinstance(leaf, Tensor) else leaf for leaf in leaves
        ]
        given, named = pytree.tree_unflatten(inner, structure)
        with level:
            result = func(*given, **named)
        for leaf, value in zip(leaves, inner, strict=True):
            if isinstance(leaf, Tensor) and value.functional_storage.writes:
                leaf.copy_(from_functional(value))
        return pytree.tree_map(from_functional, result)

    return wrapped
