"""`grad`, `vjp`, `jacrev` and `jvp`, `jacfwd`, `hessian`: derivatives of functions as functions.

Reverse mode runs the autograd engine on aliases of the inputs; forward mode pushes tangents. Inside
`vmap` the engine runs below the batch: every input is given all hidden axes, so that one backward
of the whole batch holds each sample's gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.backward import make_grads
from rushlight.autograd.batched import column_blocks, unit_tangents
from rushlight.autograd.forward import level_gradients
from rushlight.autograd.forward_ad import check_dual
from rushlight.autograd.graph import disable_saved_tensors_hooks
from rushlight.autograd.levels import GradLevel, JvpLevel
from rushlight.base import pytree
from rushlight.core.levels import alive
from rushlight.core.tensor import Tensor
from rushlight.func.checks import (
    check_floating_inputs,
    check_real,
    check_tensor_outputs,
    check_tensors_given,
    chosen_positions,
    split_aux,
)
from rushlight.func.vmap import vmap
from rushlight.opset import functions

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "vjp",
]


NO_SAVED_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an "
    "issue with your use case."
)


class Recorded:
    """A call of a function inside a grad level, with the graph that leads to its inputs.

    Results keep their wrappers here; `finished` takes those off, `gradients` follows them."""

    def __init__(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, chosen: Any
    ) -> None:
        leaves, structure = pytree.tree_flatten([args[position] for position in chosen])
        check_floating_inputs(leaves)
        self.structure = structure
        with disable_saved_tensors_hooks(NO_SAVED_HOOKS), GradLevel() as level:
            self.level = level
            self.inputs = [level.input(leaf) for leaf in leaves]
            placed = pytree.tree_unflatten(self.inputs, structure)
            given = placed_among(level, args, chosen, placed)
            named = pytree.tree_map_only(Tensor, level.captured, kwargs) if kwargs else kwargs
            self.result = func(*given, **named)
            outputs = pytree.tree_flatten(self.result)[0]
            self.roots = {id(output): level.root(output) for output in outputs}

    def gradients(self, outputs: list[Any], cotangents: list[Any]) -> list[Any]:
        """Gradients of the inputs, zeros where no output depends on one."""
        roots = [self.roots[id(output)] for output in outputs]
        found = level_gradients(roots, cotangents, self.inputs)
        return [
            functions.zeros_like(tensor._value) if gradient is None else gradient
            for tensor, gradient in zip(self.inputs, found, strict=True)
        ]

    def finished(self, value: Any) -> Any:
        """A result for the caller, without this call's graph."""
        return self.level.lower(value)


def placed_among(level: Any, args: tuple[Any, ...], chosen: Any, values: Any) -> list[Any]:
    """Arguments at a level: `values` at the chosen positions; the others' tensors are lifted too,
    so that the function may write to them."""
    given = list(args)
    for position in set(range(len(args))).difference(chosen):
        given[position] = pytree.tree_map_only(Tensor, level.captured, args[position])
    for position, value in zip(chosen, values, strict=True):
        given[position] = value
    return given


# -- reverse mode ----------------------------------------------------------------------------------


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of `func` and its value.

    >>> import rushlight as torch
    >>> torch.func.grad_and_value(lambda x: x * x)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = Recorded(func, args, kwargs, chosen_positions(argnums, len(args)))
        output, aux = split_aux(call.result, has_aux, "grad_and_value(f)(*args)")
        if not isinstance(output, Tensor):
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got "
                f"{type(output)}"
            )
        if output.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor "
                f"with {output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if output.is_complex():
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got "
                f"{output.dtype}"
            )
        found = call.gradients([output], [functions.ones_like(call.finished(output))])
        gradient = pytree.tree_unflatten(found, call.structure)
        gradient = tuple(gradient) if isinstance(argnums, tuple) else gradient[0]
        value = call.finished(output)
        if has_aux:
            return gradient, (value, pytree.tree_map(call.finished, aux))
        return gradient, value

    options = {"argnums": argnums, "has_aux": has_aux}
    wrapper._made_by = (grad_and_value, func, options)  # type: ignore[attr-defined]
    return wrapper


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of a scalar function.

    >>> import rushlight as torch
    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    >>> torch.func.vmap(torch.func.grad(lambda x: x**3))(torch.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    options = {"argnums": argnums, "has_aux": has_aux}
    wrapper._made_by = (grad, func, options)  # type: ignore[attr-defined]
    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(outputs, function from cotangents to gradients of the inputs) and aux where it is asked for.

    >>> import rushlight as torch
    >>> out, pull = torch.func.vjp(torch.sin, torch.tensor([0.0]))
    >>> pull(torch.tensor([2.0]))
    (tensor([2.]),)
    """
    call, result, aux = pulled_back(func, primals, tuple(range(len(primals))), has_aux)
    outputs, structure = pytree.tree_flatten(result)

    def pullback(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        leaves, given = pytree.tree_flatten(cotangents)
        if given != structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {pytree.treespec_pprint(given)}, primal "
                f"output: {pytree.treespec_pprint(structure)}"
            )
        found = call.gradients(outputs, make_grads(outputs, leaves))
        return tuple(pytree.tree_unflatten(found, call.structure))

    final = pytree.tree_map(call.finished, result)
    if has_aux:
        return final, pullback, pytree.tree_map(call.finished, aux)
    return final, pullback


def pulled_back(
    func: Callable[..., Any], args: tuple[Any, ...], chosen: Any, has_aux: bool, kwargs: Any = None
) -> tuple[Recorded, Any, Any]:
    """(the call, its result and aux) of a function whose outputs can be differentiated."""
    call = Recorded(func, args, kwargs or {}, chosen)
    result, aux = split_aux(call.result, has_aux, "vjp(f, *primals)")
    outputs = pytree.tree_flatten(result)[0]
    check_tensor_outputs(outputs, "vjp(f, *primals)")
    for output in outputs:
        if not (output.is_floating_point() or output.is_complex()):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {output.dtype}"
            )
    return call, result, aux


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, row by row of its outputs.

    >>> import rushlight as torch
    >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        check_real("jacrev", args, are_inputs=True)
        chosen = chosen_positions(argnums, len(args))
        call, result, aux = pulled_back(func, args, chosen, has_aux, kwargs)
        outputs, structure = pytree.tree_flatten(result)
        check_real("jacrev", outputs, are_inputs=False)
        rows = [jacobian_rows(call, output, chunk_size) for output in outputs]
        found = [shaped(pytree.tree_unflatten(row, call.structure), argnums) for row in rows]
        jacobian = pytree.tree_unflatten(found, structure)
        if has_aux:
            return jacobian, pytree.tree_map(call.finished, aux)
        return jacobian

    return wrapper


def shaped(values: Any, argnums: Any) -> Any:
    return tuple(values) if isinstance(argnums, tuple) else values[0]


def jacobian_rows(call: Recorded, output: Any, chunk_size: int | None) -> list[Any]:
    """Derivatives of every element of one output with respect to each input."""
    finished = call.finished(output)
    shape = tuple(output.shape)
    count = output.numel()

    def pulled(row: Any) -> Any:
        return tuple(call.gradients([output], [row]))

    def rows(start: int, end: int) -> Any:
        eye = functions.eye(count, dtype=finished.dtype, device=finished.device)[start:end]
        if chunk_size == 1:
            # What cannot be batched can be done for one row.
            return tuple([value.unsqueeze(0) for value in pulled(eye.reshape(shape))])
        return vmap(pulled)(eye.reshape((end - start, *shape)))

    step = chunk_size or max(count, 1)
    parts = [rows(start, min(start + step, count)) for start in range(0, count, step)]

    def joined(place: int) -> Any:
        sizes = tuple(call.inputs[place].shape)
        if not parts:
            return call.inputs[place]._value.new_zeros(shape + sizes)
        stacked = parts[0][place] if len(parts) == 1 else functions.cat([p[place] for p in parts])
        return stacked.reshape(shape + sizes)

    return [joined(place) for place in range(len(call.inputs))]


# -- forward mode ----------------------------------------------------------------------------------


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """(outputs, their derivative along `tangents`) and aux where it is asked for.

    >>> import rushlight as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    return pushed_forward(func, primals, tangents, None, strict, has_aux)


def pushed_forward(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    argnums: Any,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`jvp` along tangents of the arguments at `argnums`; None stands for all of them."""
    api = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{api}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    count = len(primals)
    chosen = range(count) if argnums is None else chosen_positions(argnums, count)
    leaves, structure = pytree.tree_flatten(tuple([primals[position] for position in chosen]))
    pushes, given = pytree.tree_flatten(tangents)
    if given != structure:
        raise RuntimeError(
            f"{api}: Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{structure} and tangents with structure {given}"
        )
    check_tensors_given(leaves, api, "primals")
    check_tensors_given(pushes, api, "tangents")
    for primal, tangent in zip(leaves, pushes, strict=True):
        check_dual(primal, tangent)
    with JvpLevel() as level:
        duals = [level.dual(p, alive(t)) for p, t in zip(leaves, pushes, strict=True)]
        placed = pytree.tree_unflatten(duals, structure)
        result = func(*placed_among(level, primals, chosen, placed))
        result, aux = split_aux(result, has_aux, api)
        outputs, shape = pytree.tree_flatten(result)
        check_tensor_outputs(outputs, api)
        found = [level.tangent(output) for output in outputs]
    if strict and any(tangent is None for tangent in found):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    values = [level.lower(output) for output in outputs]
    pushed = [
        functions.zeros_like(value) if tangent is None else tangent
        for value, tangent in zip(values, found, strict=True)
    ]
    aux = pytree.tree_map(level.lower, aux)
    final = pytree.tree_unflatten(values, shape), pytree.tree_unflatten(pushed, shape)
    return (*final, aux) if has_aux else final


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, column by column of its inputs.

    >>> import rushlight as torch
    >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        check_real("jacfwd", args, are_inputs=True)
        chosen = chosen_positions(argnums, len(args))
        leaves, structure = pytree.tree_flatten(tuple([args[position] for position in chosen]))

        def push(basis: Any) -> Any:
            def called(*given: Any) -> Any:
                return func(*given, **kwargs)

            found = pushed_forward(called, args, basis, argnums, has_aux=has_aux)
            check_real("jacfwd", found[0], are_inputs=False)
            return found[1:]

        def blocks(column: Any) -> Any:
            parts = column_blocks(column, leaves)
            return shaped(pytree.tree_unflatten(parts, structure), argnums)

        basis = pytree.tree_unflatten(unit_tangents(leaves), structure)
        if all(leaf.numel() == 0 for leaf in leaves):
            # There is no column to tell the sizes of the outputs.
            one, *aux = push(pytree.tree_map(lambda leaf: leaf.new_zeros(leaf.shape[1:]), basis))
            columns = pytree.tree_map(lambda value: value.unsqueeze(0)[:0], one)
        else:
            columns, *aux = vmap(push, randomness=randomness)(basis)
            # Every column has an aux of its own, all alike.
            aux = pytree.tree_map(lambda value: value[0], aux)
        jacobian = pytree.tree_map(blocks, columns)
        return (jacobian, aux[0]) if has_aux else jacobian

    return wrapper


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of a scalar function.

    >>> import rushlight as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
