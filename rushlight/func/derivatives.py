"""`grad`, `vjp`, `jacrev` and `jvp`, `jacfwd`, `hessian`: derivatives of functions as functions.

Reverse mode runs the autograd engine on aliases of the inputs; forward mode pushes tangents. Inside
`vmap` the engine runs below the batch: every input is given all hidden axes, so that one backward
of the whole batch holds each sample's gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.backward import shape_error
from rushlight.autograd.batched import column_blocks, unit_tangents
from rushlight.autograd.forward import level_gradients
from rushlight.autograd.levels import GradLevel, JvpLevel
from rushlight.base import pytree
from rushlight.core.levels import Level, alive
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
    "vjp",
]

# What messages call the function that they are about.
VJP = "vjp(f, *primals)"
JVP = "jvp(f, primals, tangents)"


class Recorded:
    """A call of a function inside a grad level, with the graph that leads to its inputs.

    Results keep their wrappers here; `finished` takes those off, `gradients` follows them."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], chosen: Any) -> None:
        leaves, structure = pytree.tree_flatten([args[position] for position in chosen])
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
            if not is_differentiable(leaf):
                raise RuntimeError(
                    "only Tensors of floating point dtype can require gradients, got a tensor of "
                    f"dtype {leaf.dtype}"
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


def is_differentiable(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def chosen_positions(argnums: Any, count: int) -> tuple[int, ...]:
    """`argnums` as positions from the front."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    if not given:
        raise RuntimeError("argnums must be non-empty")
    for position in given:
        if not isinstance(position, int):
            raise RuntimeError(f"argnum must be int, got: {type(position)}")
        if not -count <= position < count:
            raise RuntimeError(f"Got argnum={position}, but only {count} positional inputs")
    found = tuple([position % count for position in given])
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {found}")
    return found


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def lowered_aux(level: Level, aux: Any) -> Any:
    """What a function returns beside its output, as values of the levels below."""

    def lowered(value: Any) -> Any:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(value)}")
        return level.lower(value)

    return pytree.tree_map(lowered, aux)


def output_leaves(result: Any, name: str) -> tuple[list[Any], Any]:
    """The tensors of what a function returned, and their structure."""
    outputs, structure = pytree.tree_flatten(result)
    if not outputs or outputs == [None]:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = "
            f"{outputs})"
        )
    for output in outputs:
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(output)}"
            )
    return outputs, structure


def refuse_complex(values: Any, name: str, what: str) -> None:
    """Jacobians are of real functions."""
    for place, value in enumerate(pytree.tree_leaves(values)):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened "
                f"input idx: {place}"
            )


def drawn(structure: Any) -> str:
    """A structure as its containers, with a star for each leaf."""
    return str(pytree.tree_unflatten([STAR] * structure.num_leaves, structure))


class Star:
    def __repr__(self) -> str:
        return "*"


STAR = Star()


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
        chosen = chosen_positions(argnums, len(args))
        call = Recorded(lambda *given: func(*given, **kwargs), args, chosen)
        output, aux = split_aux(call.result, has_aux, "grad_and_value(f)(*args)")
        if not isinstance(output, Tensor):
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got "
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
            return gradient, (value, lowered_aux(call.level, aux))
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
    result, aux = split_aux(call.result, has_aux, VJP)
    outputs, structure = output_leaves(result, VJP)
    for output in outputs:
        if not is_differentiable(output):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {output.dtype}"
            )

    def pullback(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        leaves, given = pytree.tree_flatten(cotangents)
        if given != structure:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {drawn(given)}, primal output: "
                f"{drawn(structure)}"
            )
        for place, (leaf, output) in enumerate(zip(leaves, outputs, strict=True)):
            if leaf.shape != output.shape:
                raise shape_error(place, leaf, output, False)
        found = call.gradients(outputs, leaves)
        return tuple(pytree.tree_unflatten(found, call.structure))

    final = pytree.tree_map(call.finished, result)
    if has_aux:
        return final, pullback, lowered_aux(call.level, aux)
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
        chosen = chosen_positions(argnums, len(args))
        refuse_complex(args, "jacrev", "inputs")
        call = Recorded(lambda *given: func(*given, **kwargs), args, chosen)
        result, aux = split_aux(call.result, has_aux, VJP)
        outputs, structure = output_leaves(result, VJP)
        refuse_complex(outputs, "jacrev", "outputs")
        rows = [jacobian_rows(call, output, chunk_size) for output in outputs]
        found = [shaped(pytree.tree_unflatten(row, call.structure), argnums) for row in rows]
        jacobian = pytree.tree_unflatten(found, structure)
        if has_aux:
            return jacobian, lowered_aux(call.level, aux)
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
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    leaves, structure = pytree.tree_flatten(primals)
    pushes, given = pytree.tree_flatten(tangents)
    if given != structure:
        raise RuntimeError(
            f"{JVP}: Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{structure} and tangents with structure {given}"
        )
    check_tensors(leaves, "primals")
    check_tensors(pushes, "tangents")
    for primal, tangent in zip(leaves, pushes, strict=True):
        check_tangent(primal, tangent)
    with JvpLevel() as level:
        duals = [level.dual(p, alive(t)) for p, t in zip(leaves, pushes, strict=True)]
        result = func(*pytree.tree_unflatten(duals, structure))
        result, aux = split_aux(result, has_aux, JVP)
        aux = lowered_aux(level, aux) if has_aux else None
        outputs, shape = output_leaves(result, JVP)
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
    final = pytree.tree_unflatten(values, shape), pytree.tree_unflatten(pushed, shape)
    return (*final, aux) if has_aux else final


def check_tensors(leaves: list[Any], what: str) -> None:
    if not leaves:
        raise RuntimeError(f"{JVP}: Expected {what} to contain at least one Tensor.")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{JVP}: Expected {what} to only contain Tensors, got {type(leaf)}")


def check_tangent(primal: Tensor, tangent: Tensor) -> None:
    if not is_differentiable(primal):
        raise ValueError(
            f"Expected primal to be floating point or complex, but got: {primal.dtype}"
        )
    if not is_differentiable(tangent):
        raise ValueError(
            f"Expected tangent to be floating point or complex, but got: {tangent.dtype}"
        )
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(primal.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )


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
        chosen = chosen_positions(argnums, len(args))
        refuse_complex(args, "jacfwd", "inputs")
        inputs, structure = pytree.tree_flatten(tuple([args[position] for position in chosen]))
        for leaf in inputs:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"jacfwd: Expected inputs to be Tensors, got {type(leaf)}")

        def of_chosen(*values: Any) -> Any:
            given = list(args)
            for position, value in zip(chosen, values, strict=True):
                given[position] = value
            return func(*given, **kwargs)

        def push(tangents: Any) -> Any:
            primals = tuple([args[position] for position in chosen])
            value, *found = jvp(of_chosen, primals, tangents, has_aux=has_aux)
            refuse_complex(value, "jacfwd", "outputs")
            return tuple(found)

        basis = pytree.tree_unflatten(unit_tangents(inputs), structure)
        if all(leaf.numel() == 0 for leaf in inputs):
            # There is no column to tell the sizes of the outputs.
            one, *aux = push(pytree.tree_map(lambda leaf: leaf.new_zeros(leaf.shape[1:]), basis))
            columns = pytree.tree_map(lambda value: value.unsqueeze(0)[:0], one)
        else:
            columns, *aux = vmap(push, randomness=randomness)(basis)
            aux = pytree.tree_map(lambda value: value[0], aux)
        jacobian = pytree.tree_map(
            lambda column: shaped(
                pytree.tree_unflatten(column_blocks(column, inputs), structure), argnums
            ),
            columns,
        )
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
