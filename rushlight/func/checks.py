"""What the derivatives of `torch.func` accept as positions, inputs, outputs and aux."""

from __future__ import annotations

from typing import Any

from rushlight.base import pytree
from rushlight.core.tensor import Tensor

__all__ = [
    "check_floating_inputs",
    "check_real",
    "check_tensor_outputs",
    "check_tensors_given",
    "chosen_positions",
    "split_aux",
]


def chosen_positions(argnums: Any, count: int) -> tuple[int, ...]:
    """`argnums` as positions from the front."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    for position in given:
        if not isinstance(position, int):
            raise RuntimeError(f"argnum must be int, got: {type(position)}")
        if not -count <= position < count:
            raise RuntimeError(f"Got argnum={position}, but only {count} positional inputs")
    if not given:
        raise RuntimeError("argnums must be non-empty")
    found = tuple([position % count for position in given])
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {found}")
    return found


def slice_argnums(args: tuple[Any, ...], argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments at `argnums`; one alone unless `as_tuple`."""
    found = tuple([args[position] for position in chosen_positions(argnums, len(args))])
    return found if as_tuple or isinstance(argnums, tuple) else found[0]


def check_floating_inputs(leaves: list[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        if not (leaf.is_floating_point() or leaf.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")


def check_tensors_given(leaves: list[Any], api: str, name: str) -> None:
    if not leaves:
        raise RuntimeError(f"{api}: Expected {name} to contain at least one Tensor.")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{api}: Expected {name} to only contain Tensors, got {type(leaf)}")


def check_tensor_outputs(outputs: list[Any], api: str) -> None:
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(
            f"{api}: Expected f to be a function that has non-empty output (got output = {outputs})"
        )
    for output in outputs:
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"{api}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(output)}"
            )


def check_real(name: str, values: Any, are_inputs: bool) -> None:
    """torch: Jacobians are those of real functions only."""
    for index, value in enumerate(pytree.tree_leaves(values)):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {'inputs' if are_inputs else 'outputs'} to be real but "
                f"received complex tensor at flattened input idx: {index}"
            )


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    for leaf in pytree.tree_leaves(result[1]):
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return result
