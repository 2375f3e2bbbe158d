"""`grad`, `vjp`, `jacrev` and `jvp`, `jacfwd`, `hessian`: derivatives of functions as functions.

Reverse mode runs the autograd engine on aliases of the inputs; forward mode pushes tangents. Inside
`vmap` the engine runs below the batch: every input is given all hidden axes, so that one backward
of the whole batch holds each sample's gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd import forward_ad
from rushlight.autograd.backward import grad as gradients_of
from rushlight.base import pytree
from rushlight.base.errors import MissingFeature
from rushlight.core.batching import batched
from rushlight.core.duals import tangent_of
from rushlight.core.history import without_history
from rushlight.core.node import AccumulateGrad, gradient_node, resolve_edges
from rushlight.core.state import LOCAL
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


class Bottom:
    """The place below all active `vmap`s: tensors there have the hidden axes in front."""

    def __init__(self) -> None:
        self.levels = LOCAL.state.transforms

    def lower(self, value: Any) -> Any:
        if self.levels and tangent_of(value) is not None:
            raise MissingFeature(
                "reverse mode inside of vmap over forward mode, as in jacfwd(jacrev(f))",
                "Use jacrev(jacrev(f)) or hessian(f).",
            )
        for level in reversed(self.levels):
            value = level.full(value)
        return value

    def lift(self, value: Any) -> Any:
        for level in self.levels:
            value = batched(value, 0, level.level)
        return value

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        state = LOCAL.state
        before = state.transforms
        state.transforms = before[len(self.levels) :]
        state.refresh()
        try:
            return function(*args, **kwargs)
        finally:
            state.transforms = before
            state.refresh()


class Recorded:
    """A call of a function on aliases of its inputs, with the graph that leads to them."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], chosen: Any) -> None:
        self.place = Bottom()
        self.wants_graph = LOCAL.state.grad
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
        state = LOCAL.state
        before = state.grad
        state.set_grad(True)
        try:
            self.inputs = [self.followed(self.place.lower(leaf)) for leaf in leaves]
            lifted = pytree.tree_unflatten([self.place.lift(t) for t in self.inputs], structure)
            given = list(args)
            for position, value in zip(chosen, lifted, strict=True):
                given[position] = value
            self.result = func(*given)
        finally:
            state.set_grad(before)

    def followed(self, tensor: Any) -> Any:
        """An alias that gradients can be taken with respect to; history goes on behind it."""
        if tensor.requires_grad:
            return self.place.run(functions.alias, tensor)
        return without_history(tensor).requires_grad_()

    def depends_on_others(self, output: Any) -> bool:
        """Whether the graph leads on to anything but the inputs: then derivatives are followed."""
        if not self.wants_graph:
            return False
        own = {id(tensor) for tensor in self.inputs}
        waiting = [gradient_node(output)]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, AccumulateGrad):
                if id(node.variable) not in own:
                    return True
                continue
            waiting += resolve_edges(node)
        return False

    def gradients(self, outputs: list[Any], cotangents: list[Any], many: bool = False) -> list[Any]:
        """Gradients at the bottom, zeros where an output does not depend on an input."""
        pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
        followed = any(self.depends_on_others(output) for output, _ in pairs)
        found: Any = [None] * len(self.inputs)
        if pairs:
            found = self.place.run(
                gradients_of,
                [output for output, _ in pairs],
                self.inputs,
                [cotangent for _, cotangent in pairs],
                retain_graph=True,
                create_graph=followed,
                allow_unused=True,
                is_grads_batched=many,
            )
        count = cotangents[0].shape[0] if many and cotangents else None
        return [
            self.zeros(tensor, count) if gradient is None else gradient
            for tensor, gradient in zip(self.inputs, found, strict=True)
        ]

    def zeros(self, tensor: Any, count: int | None) -> Any:
        sizes = tuple(tensor.shape) if count is None else (count, *tensor.shape)
        return self.place.run(tensor.new_zeros, sizes)

    def finished(self, value: Any) -> Any:
        """A result for the caller: without this call's graph unless it leads elsewhere."""
        if not isinstance(value, Tensor):
            return value
        bottom = self.place.lower(value)
        if bottom.requires_grad and not self.depends_on_others(bottom):
            return self.place.lift(without_history(bottom))
        return value


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
        bottom = call.place.lower(output)
        ones = call.place.run(functions.ones_like, bottom)
        found = [call.place.lift(g) for g in call.gradients([bottom], [ones])]
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
    bottoms = [call.place.lower(output) for output in outputs]

    def pullback(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        leaves, given = pytree.tree_flatten(cotangents)
        if given != structure:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {given}, primal output: {structure}"
            )
        inner = LOCAL.state.transforms[len(call.place.levels) :]
        if inner and call.place.levels:
            raise MissingFeature(
                "vmap over a function that vjp returned inside another vmap",
                "Use jacrev, or call vjp outside of the outer vmap.",
            )
        lowered = leaves if inner else [call.place.lower(leaf) for leaf in leaves]
        found = [call.place.lift(g) for g in call.gradients(bottoms, lowered)]
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
    hidden = len(call.place.levels)
    shape = tuple(output.shape)
    bottom = call.place.lower(output)
    count = output.numel()

    def rows(start: int, end: int) -> list[Any]:
        def basis() -> Any:
            eye = functions.eye(count, dtype=bottom.dtype, device=bottom.device)[start:end]
            eye = eye.reshape((end - start,) + (1,) * hidden + shape)
            return eye.expand((end - start, *bottom.shape))

        return call.gradients([bottom], [call.place.run(basis)], many=True)

    step = chunk_size or max(count, 1)
    parts = [rows(start, min(start + step, count)) for start in range(0, count, step)]

    def joined(place: int) -> Any:
        tensor = call.inputs[place]
        if not parts:
            return tensor.new_zeros(tuple(bottom.shape) + tuple(tensor.shape[hidden:]))
        stacked = parts[0][place] if len(parts) == 1 else functions.cat([p[place] for p in parts])
        # (elements, hidden axes, input) -> (hidden axes, output, input)
        moved = stacked.movedim(0, hidden) if hidden else stacked
        lead = tuple(moved.shape[:hidden])
        return moved.reshape(lead + shape + tuple(moved.shape[hidden + 1 :]))

    return [call.place.lift(call.place.run(joined, place)) for place in range(len(call.inputs))]


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
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(p, t) for p, t in zip(leaves, pushes, strict=True)]
        result = func(*pytree.tree_unflatten(duals, structure))
        result, aux = split_aux(result, has_aux, "jvp(f, primals, tangents)")
        outputs, shape = pytree.tree_flatten(result)
        pairs = [forward_ad.unpack_dual(output) for output in outputs]
        values = [pair.primal for pair in pairs]
        pushed = [
            functions.zeros_like(pair.primal) if pair.tangent is None else pair.tangent
            for pair in pairs
        ]
        aux = pytree.tree_map(
            lambda leaf: forward_ad.unpack_dual(leaf).primal if isinstance(leaf, Tensor) else leaf,
            aux,
        )
    if strict and any(pair.tangent is None for pair in pairs):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): an output does not depend on the inputs"
        )
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
        raise MissingFeature("jacfwd of a nested argument", "Pass its tensors one by one.")

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
    return jacrev(jacrev(func, argnums), argnums)
