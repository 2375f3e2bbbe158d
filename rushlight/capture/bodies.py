"""Functions that take functions: transforms and nested regions in captured code.

The function is captured into a graph of its own, whose inputs are the tensors it is given and what
it uses of the outside. The call is one node of the graph around it, which runs the transform on the
body when the graph runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.capture.function import graph_module
from rushlight.capture.outcomes import Break
from rushlight.capture.recording import Recording, examples_of
from rushlight.capture.values import Dict, Lazy, Obj, Seq, Tensor, Transformed
from rushlight.func import derivatives
from rushlight.func.vmap import vmap

__all__ = ["TRANSFORMS", "apply", "special"]


class Body:
    """A function captured on tensors in the place of some of its arguments."""

    def __init__(self, t: Any, f: Any, args: list[Any], examples: list[Any]) -> None:
        self.t = t
        outer, effects = t.recording, len(t.effects)
        body = self.recording = t.recording = t.body(outer)
        inputs = [
            Tensor(example, body.add_input(f"arg_{number}", example))
            for number, example in enumerate(examples)
        ]
        self.count = len(inputs)
        given = iter(inputs)
        try:
            self.result = t.real(t.call(f, [replaced(t, a, given) for a in args], {}))
        finally:
            t.recording = outer
        if len(t.effects) != effects:
            raise Break("side effect in a function that is transformed")
        self.outputs: list[Any] = []
        self.shape = self.flattened(self.result)
        # Whether the graph gives its only result as it is, not in a tuple.
        self.gives_one = False

    def flattened(self, v: Any) -> Any:
        """The structure of a result, with numbers in the place of its tensors."""
        v = self.t.real(v)
        if isinstance(v, Tensor):
            self.outputs.append(v)
            return len(self.outputs) - 1
        if isinstance(v, Seq) and v.kind in (tuple, list):
            return v.kind(map(self.flattened, v.items))
        if isinstance(v, Dict) and v.kind is dict:
            return {key: self.flattened(item) for key, item in v.items.items()}
        raise Break("a transformed function gives something that is no tensor")

    def uses(self, nodes: list[Any]) -> None:
        """Take what another body uses as inputs too, in the same order."""
        body = self.recording
        body.reorder([*body.inputs[: self.count], *[body.lift(node) for node in nodes]])

    def module(self) -> Any:
        body = self.recording
        nodes = [body.lift(self.t.node(v)) for v in self.outputs]
        body.graph.output(nodes[0] if self.gives_one else tuple(nodes))
        return graph_module(body)


def replaced(t: Any, v: Any, given: Any) -> Any:
    """An argument with the body's inputs in the place of its tensors."""
    v = t.real(v)
    if isinstance(v, Tensor):
        return next(given)
    if isinstance(v, Seq) and v.kind in (tuple, list):
        return Seq(v.kind, [replaced(t, item, given) for item in v.items])
    if isinstance(v, Dict):
        return Dict({key: replaced(t, item, given) for key, item in v.items.items()}, kind=v.kind)
    return v


def tensors_in(t: Any, v: Any) -> list[Any]:
    v = t.real(v)
    if isinstance(v, Tensor):
        return [v]
    items = v.items.values() if isinstance(v, Dict) else v.items if isinstance(v, Seq) else ()
    return [x for item in items for x in tensors_in(t, item)]


def unflattened(shape: Any, values: list[Any]) -> Any:
    """A result from the tensors of it."""
    if shape is None or isinstance(shape, int):
        return None if shape is None else values[shape]
    if isinstance(shape, dict):
        return {key: unflattened(item, values) for key, item in shape.items()}
    return type(shape)(unflattened(item, values) for item in shape)


def layout_of(t: Any, v: Any, numbers: Iterator[int]) -> Any:
    """The structure of an argument, with numbers in the place of its tensors."""
    v = t.real(v)
    if isinstance(v, Tensor):
        return next(numbers)
    if isinstance(v, Seq) and v.kind in (tuple, list):
        return v.kind([layout_of(t, item, numbers) for item in v.items])
    if isinstance(v, Dict):
        return {key: layout_of(t, item, numbers) for key, item in v.items.items()}
    return None


def collected(layout: Any, value: Any) -> list[Any]:
    """The tensors of a value, in the order of the numbers in its layout."""
    if layout is None:
        return []
    if isinstance(layout, int):
        return [value]
    if isinstance(layout, dict):
        return [x for key, part in layout.items() for x in collected(part, value[key])]
    return [x for part, item in zip(layout, value, strict=True) for x in collected(part, item)]


def numbered(layout: Any, numbers: Iterator[int]) -> Any:
    """The same structure, counted anew."""
    if layout is None or isinstance(layout, int):
        return None if layout is None else next(numbers)
    if isinstance(layout, dict):
        return {key: numbered(part, numbers) for key, part in layout.items()}
    return type(layout)([numbered(part, numbers) for part in layout])


def add_call(
    t: Any,
    target: Any,
    bodies: list[tuple[str, Any]],
    arguments: Callable[..., tuple[Any, ...]],
    options: dict[str, Any],
) -> Any:
    """The result of a call of `target` in the graph. Bodies are named; `arguments` gives those of
    the call from the nodes of their graphs."""
    outer: Recording = t.recording
    graphs = []
    for name, body in bodies:
        number = t.world.bodies[name]
        t.world.bodies[name] += 1
        graphs.append(outer.add_attribute(f"{name}_{number}", body.module()))
    given = arguments(*graphs)
    example = t.world.run("call_function", target, examples_of(given), options, t.modes)
    node = outer.add("call_function", target, given, options, example)
    return t.outputs(node, example)


def emit(t: Any, target: Any, body: Body, before: list[Any], tensors: list[Any]) -> Any:
    """The result of `target(*before, module, tensors, what the body uses)`."""
    used = list(body.recording.lifted)
    body.uses(used)
    nodes = [t.node(v) for v in tensors]
    return add_call(t, target, [("body", body)], lambda graph: (*before, graph, nodes, used), {})


def as_function(body: Any, used: list[Any], shape: Any) -> Any:
    return lambda *args: unflattened(shape, body(*args, *used))


# -- transforms ------------------------------------------------------------------------------------

TRANSFORMS: set[Any] = {
    vmap, derivatives.grad, derivatives.grad_and_value, derivatives.jacrev, derivatives.jacfwd,
    derivatives.hessian,
}  # fmt: skip


def run_transform(
    name: str,
    options: dict[str, Any],
    shapes: tuple[Any, Any, Any],
    body: Any,
    tensors: list[Any],
    used: list[Any],
) -> Any:
    """A transform of a captured body, applied. `shapes` are the layout of the arguments, and the
    structures of what the body gives and of what the transform gives."""
    layout, shape, given = shapes

    def function(*args: Any) -> Any:
        return unflattened(shape, body(*collected(layout, args), *used))

    make = vmap if name == "vmap" else getattr(derivatives, name)
    result = make(function, **options)(*unflattened(layout, tensors))
    return result if isinstance(given, int) else tuple(collected(given, result))


def run_jvp(shape: Any, body: Any, tensors: list[Any], used: list[Any]) -> Any:
    half = len(tensors) // 2
    primals, tangents = tuple(tensors[:half]), tuple(tensors[half:])
    return derivatives.jvp(as_function(body, used, shape), primals, tangents)


def run_pullback(
    shape: Any, count: int, body: Any, tensors: list[Any], used: list[Any]
) -> tuple[Any, ...]:
    _, pull = derivatives.vjp(as_function(body, used, shape), *tensors[:count])
    found: tuple[Any, ...] = pull(unflattened(shape, tensors[count:]))
    return found


def special(t: Any, found: Obj, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call of a function that takes functions; None where it is none."""
    f = found.value
    if f in TRANSFORMS:
        options = {key: t.python(v) for key, v in kwargs.items()}
        return Transformed(f, args[0], [t.python(a) for a in args[1:]], options, t.position)
    made = f.__dict__.get("_made_by")
    # Who wraps such a function copies its attributes.
    if made is not None and f.__code__ in made[0].__code__.co_consts:
        return apply(t, transformed_outside(t, found), args, kwargs)
    if "_nested_region" in f.__dict__:
        return apply_region(t, f._nested_region, args, kwargs)
    if f is derivatives.jvp:
        return apply_jvp(t, args, kwargs)
    if f is derivatives.vjp:
        return apply_vjp(t, args, kwargs)
    return None


def transformed_outside(t: Any, found: Obj) -> Transformed:
    """What a transform of the library made before the program was captured."""
    assert found.source is not None
    made = t.real(Lazy(found.value._made_by, found.source.attr("_made_by")))
    transform, function, options = made.items
    return Transformed(t.python(transform), function, [], t.python(options), t.position)


def apply(t: Any, f: Transformed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call of a transformed function."""
    if f.transform is derivatives.vjp:
        return f.made(*args)
    if kwargs:
        raise Break("a transformed function with keyword arguments")
    name = f.transform.__name__
    options = dict(f.options)
    names = ("in_dims", "out_dims", "randomness") if name == "vmap" else ("argnums", "has_aux")
    options |= zip(names, f.args)
    tensors = [x for a in args for x in tensors_in(t, a)]
    if not tensors:
        raise Break(f"{name} of arguments that are no tensors")
    examples = [v.example for v in tensors]
    numbers = itertools.count()
    layout: Any = tuple([layout_of(t, a, numbers) for a in args])
    if name == "vmap":
        dims = options["in_dims"] = tuple(dims_of(t, args, options))
        examples = unbatched(t, examples, dims)
        # Each tensor is an argument of its own.
        layout = tuple(range(len(tensors)))
    body = Body(t, f.function, args, examples)
    if body.recording.draws:
        raise Break(f"{name} of random numbers")
    result = shape_of_result(name, options, layout, body.shape)
    before = [name, options, (layout, body.shape, result)]
    found = emit(t, run_transform, body, before, tensors)
    return found if isinstance(result, int) else restored(result, found.items)


def shape_of_result(name: str, options: dict[str, Any], layout: Any, shape: Any) -> Any:
    """The structure of what a transform gives."""
    if name == "vmap":
        return shape
    has_aux = bool(options.get("has_aux"))
    value, aux = shape if has_aux else (shape, None)
    if not isinstance(value, int):
        raise Break(f"{name} of a function of several results")
    argnums = options.get("argnums", 0)
    given = tuple([layout[n] for n in argnums]) if isinstance(argnums, tuple) else layout[argnums]
    if name not in ("grad", "grad_and_value"):
        if not isinstance(given, int):
            raise Break(f"{name} of arguments in containers")
        return (0, numbered(aux, itertools.count(1))) if has_aux else 0
    found: Any = given
    if name == "grad_and_value":
        found = (given, (value, aux) if has_aux else value)
    elif has_aux:
        found = (given, aux)
    return numbered(found, itertools.count())


def dims_of(t: Any, args: list[Any], options: dict[str, Any]) -> list[int | None]:
    """The dim that vmap takes off each tensor."""
    if options.get("randomness", "error") != "error" or options.get("chunk_size") is not None:
        raise Break("vmap with options")
    return dims_in(t, Seq(tuple, args), options.get("in_dims", 0))


def dims_in(t: Any, v: Any, dims: Any) -> list[int | None]:
    v = t.real(v)
    is_one = dims is None or isinstance(dims, int)
    if isinstance(v, Tensor) and is_one:
        return [dims]
    if isinstance(v, Dict) and (is_one or isinstance(dims, dict)):
        pairs = [(item, dims if is_one else dims.get(key)) for key, item in v.items.items()]
    elif isinstance(v, Seq) and (is_one or len(dims) == len(v.items)):
        pairs = list(zip(v.items, [dims] * len(v.items) if is_one else dims))
    elif dims is None:
        return []
    else:
        raise Break("vmap with in_dims that do not fit")
    return [dim for item, own in pairs for dim in dims_in(t, item, own)]


def unbatched(t: Any, examples: list[Any], dims: tuple[int | None, ...]) -> list[Any]:
    """Examples of single samples."""

    def one(example: Any, dim: int | None) -> Any:
        if dim is None:
            return example
        return t.world.run("call_method", "select", [example, dim, 0], {}, t.modes)

    return [one(example, dim) for example, dim in zip(examples, dims)]


def apply_jvp(t: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 3:
        raise Break("jvp with options")
    primals, tangents = (tensors_in(t, a) for a in args[1:])
    body = Body(t, args[0], t.iterate(args[1]), [v.example for v in primals])
    return emit(t, run_jvp, body, [body.shape], [*primals, *tangents])


def apply_vjp(t: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result, and a function that runs the body again for its gradient."""
    f, *primals = args
    primals = [t.real(a) for a in primals]
    if kwargs or not all(isinstance(a, Tensor) for a in primals):
        raise Break("vjp with options")
    body = Body(t, f, primals, [v.example for v in primals])
    if body.recording.draws:
        raise Break("vjp of random numbers")
    result = t.call(f, primals, {})

    def pull(cotangents: Any) -> Any:
        given = tensors_in(t, cotangents)
        before = [body.shape, len(primals)]
        return emit(t, run_pullback, body, before, [*primals, *given])

    pullback = Transformed(derivatives.vjp, f, [], {}, t.position)
    pullback.made = pull
    return Seq(tuple, [result, pullback])


def restored(shape: Any, items: list[Any]) -> Any:
    """A result of variables."""
    if isinstance(shape, int):
        return items[shape]
    if isinstance(shape, dict):
        return Dict({key: restored(part, items) for key, part in shape.items()})
    return Seq(type(shape), [restored(part, items) for part in shape])


def run_region(body: Any, tensors: list[Any], used: list[Any]) -> Any:
    """A graph inside a graph."""
    return body(*tensors, *used)


def apply_region(t: Any, f: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        raise Break("nested_compile_region with keyword arguments")
    tensors = [x for a in args for x in tensors_in(t, a)]
    body = Body(t, t.lift(f), args, [v.example for v in tensors])
    found = emit(t, run_region, body, [], tensors)
    return restored(body.shape, found.items)
