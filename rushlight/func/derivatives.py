"""`grad`, `vjp`, `jacrev` and `jvp`, `jacfwd`, `hessian`: derivatives of functions as functions.

Reverse mode runs the autograd engine on aliases of the inputs; forward mode pushes tangents. Inside
`vmap` the engine runs below the batch: every input is given all hidden axes, so that one backward
of the whole batch holds each sample's gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.forward import level_gradients
from rushlight.autograd.levels import GradLevel, JvpLevel
from rushlight.base import pytree
from rushlight.base.errors import MissingFeature
from rushlight.core.levels import alive
from rushlight.core.tensor import Tensor
from rushlight.func.vmap import vmap
from rushlight.opset import functions

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
]


class Recorded:
    """A call of a function inside a grad level, with the graph that leads to its inputs.

    Results keep their wrappers here; `finished` takes those off, `gradients` follows them."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], chosen: Any) -> None:
        leaves, structure = pytree.tree_flatten([args[position] for position in chosen])
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise ValueError(
                    "Expected the inputs to differentiate to be tensors, got an input of type "
                    f"{type(leaf)}"
                )
            if not (leaf.is_floating_point() or leaf.is_complex()):
                raise RuntimeError(
                    "only Tensors of floating point and complex dtype can require gradients, got "
                    f"{leaf.dtype}"
                )
        self.structure = structure
        with GradLevel() as level:
            self.level = level
            self.inputs = [level.input(leaf) for leaf in leaves]
            given = list(args)
            placed = pytree.tree_unflatten(self.inputs, structure)
            for position, value in zip(chosen, placed, strict=True):
                given[position] = value
            self.result = func(*given)
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


def chosen_positions(argnums: Any, count: int, name: str) -> tuple[int, ...]:
    """`argnums` as positions from the front."""
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    if not given:
        raise RuntimeError("argnums must be a non-empty integer or tuple of integers")
    for position in given:
        if not isinstance(position, int) or not -count <= position < count:
            raise RuntimeError(f"{name}: got argnum={position}, but only {count} positional inputs")
    return tuple([position % count for position in given])


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


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
        chosen = chosen_positions(argnums, len(args), "grad")
        call = Recorded(lambda *given: func(*given, **kwargs), args, chosen)
        output, aux = split_aux(call.result, has_aux, "grad_and_value(f)(*args)")
        if not isinstance(output, Tensor):
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a tensor, got type "
                f"{type(output)}"
            )
        if output.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor "
                f"with {output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        found = call.gradients([output], [functions.ones_like(call.finished(output))])
        gradient = pytree.tree_unflatten(found, call.structure)
        gradient = tuple(gradient) if isinstance(argnums, tuple) else gradient[0]
        value = call.finished(output)
        if has_aux:
            return gradient, (value, pytree.tree_map(call.finished, aux))
        return gradient, value

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

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(outputs, function from cotangents to gradients of the inputs) and aux where it is asked for.

    >>> import rushlight as torch
    >>> out, pull = torch.func.vjp(torch.sin, torch.tensor([0.0]))
    >>> pull(torch.tensor([2.0]))
    (tensor([2.]),)
    """
    call = Recorded(func, primals, tuple(range(len(primals))))
    result, aux = split_aux(call.result, has_aux, "vjp(f, *primals)")
    outputs, structure = pytree.tree_flatten(result)
    if not outputs or not all(isinstance(output, Tensor) for output in outputs):
        raise RuntimeError("vjp(f, *primals): Expected f to return tensors")

    def pullback(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        leaves, given = pytree.tree_flatten(cotangents)
        if given != structure:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {given}, primal output: {structure}"
            )
        found = call.gradients(outputs, leaves)
        return tuple(pytree.tree_unflatten(found, call.structure))

    final = pytree.tree_map(call.finished, result)
    if has_aux:
        return final, pullback, pytree.tree_map(call.finished, aux)
    return final, pullback


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
        chosen = chosen_positions(argnums, len(args), "jacrev")
        call = Recorded(lambda *given: func(*given, **kwargs), args, chosen)
        result, aux = split_aux(call.result, has_aux, "jacrev(f)(*args)")
        outputs, structure = pytree.tree_flatten(result)
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
    if not isinstance(primals, tuple) or not primals:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple of inputs")
    leaves, structure = pytree.tree_flatten(primals)
    pushes, given = pytree.tree_flatten(tangents)
    if given != structure:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            f"structure. Got primals with structure {structure} and tangents with structure {given}"
        )
    with JvpLevel() as level:
        duals = [level.dual(p, alive(t)) for p, t in zip(leaves, pushes, strict=True)]
        result = func(*pytree.tree_unflatten(duals, structure))
        result, aux = split_aux(result, has_aux, "jvp(f, primals, tangents)")
        outputs, shape = pytree.tree_flatten(result)
        found = [level.tangent(output) for output in outputs]
    if strict and any(tangent is None for tangent in found):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): an output does not depend on the inputs"
        )
    values = [level.lower(output) for output in outputs]
    pushed = [
        functions.zeros_like(value) if tangent is None else tangent
        for value, tangent in zip(values, found, strict=True)
    ]
    aux = pytree.tree_map(level.lower, aux)
    final = pytree.tree_unflatten(values, shape), pytree.tree_unflatten(pushed, shape)
    return (*final, aux) if has_aux else final


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(outputs, the linear function that best approximates `func` at `primals`)."""

    def push(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), push


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
        chosen = chosen_positions(argnums, len(args), "jacfwd")
        columns, aux = [], None
        for position in chosen:
            found, aux = one_argument(func, args, kwargs, position, has_aux, randomness)
            columns.append(found)
        jacobian = columns[0]
        if isinstance(argnums, tuple):
            jacobian = pytree.tree_map(lambda *entries: tuple(entries), *columns)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def one_argument(
    func: Any, args: Any, kwargs: Any, position: int, has_aux: bool, randomness: str
) -> tuple[Any, Any]:
    """The Jacobian with respect to one argument, and aux."""
    source = args[position]
    if not isinstance(source, Tensor):
        raise MissingFeature("jacfwd of a nested argument", code="RL0606")

    def of_one(value: Any) -> Any:
        return func(*args[:position], value, *args[position + 1 :], **kwargs)

    def push(tangent: Any) -> Any:
        return jvp(of_one, (source,), (tangent,), has_aux=has_aux)[1:]

    count = source.numel()
    basis = functions.eye(count, dtype=source.dtype, device=source.device)
    basis = basis.reshape((count, *source.shape))
    results = vmap(push, randomness=randomness, out_dims=(-1, None) if has_aux else -1)(basis)
    pushed = results[0]

    def unfolded(column: Any) -> Any:
        return column.reshape((*column.shape[:-1], *source.shape))

    return pytree.tree_map(unfolded, pushed), results[1] if has_aux else None


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of a scalar function.

    >>> import rushlight as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
