"""`functionalize`: a function without mutation, from one that writes in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from rushlight.base import pytree
from rushlight.core import dispatch, geometry
from rushlight.core.functional import (
    FunctionalLevel,
    FunctionalStorage,
    FunctionalTensor,
    from_functional,
    to_functional,
)
from rushlight.core.op import OpOverload
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.opset import registry

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

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        with ExitStack() as stack:
            if remove == "mutations_and_views":
                stack.enter_context(CopiedViews())
            return run_functional(func, leaves, structure)

    return wrapped


def run_functional(func: Callable[..., Any], leaves: list[Any], structure: Any) -> Any:
    level = FunctionalLevel()
    inner = [to_functional(leaf, level) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    given, named = pytree.tree_unflatten(inner, structure)
    arguments = [
        (leaf, value, value.functional_storage)
        for leaf, value in zip(leaves, inner, strict=True)
        if isinstance(leaf, Tensor)
    ]
    with level:
        result = func(*given, **named)
    result = pytree.tree_map(level.value_of, result)
    for leaf, value, storage in arguments:
        give_back(leaf, value, storage)
    return result


def give_back(leaf: Tensor, value: FunctionalTensor, storage: FunctionalStorage) -> None:
    """Do to an argument what was done to the functional tensor in its place, which had a `storage`:
    first to the values of its memory, then to what it sees of it."""
    whole = storage.base
    is_resized = not geometry.same_sizes(sizes_of(whole), sizes_of(leaf))
    if is_resized:
        leaf.resize_(sizes_of(whole))
    if storage.writes or is_resized:
        leaf.copy_(whole)
    if value.functional_storage is not storage:
        leaf.set_(from_functional(value))
    elif value.moves:
        leaf.as_strided_(sizes_of(value), strides_of(value), value._offset)


class CopiedViews:
    """A level at which ops that take views of tensors make copies of them instead."""

    plain = False
    hop_rule = "autograd"

    def __init__(self) -> None:
        self.under = LOCAL.state.transforms

    def __enter__(self) -> None:
        self.place((*self.under, self))

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        self.place(self.under)

    def place(self, transforms: tuple[Any, ...]) -> None:
        state = LOCAL.state
        state.transforms = transforms
        state.refresh()

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.body is not None:
            return dispatch.run_body(op, args)
        with changed(transforms=self.under):
            return dispatch.call(copying_form(op) if op.is_view_op else op, args)

    def apply_function(
        self,
        cls: type[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        direct: Callable[[], Any],
        has_rule: bool,
    ) -> Any:
        with changed(transforms=self.under):
            return cls.apply(*args, **kwargs)


def copying_form(op: OpOverload) -> OpOverload:
    """`aten::t_copy` for `aten::t`; the op itself where it has none, as for a lazy conjugate."""
    try:
        return registry.find(f"{op.base_name}_copy", op._overloadname, op.namespace)
    except (KeyError, AttributeError):
        return op
