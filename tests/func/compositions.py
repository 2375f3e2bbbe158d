"""Random programs with random nestings of transforms, compared with an oracle in NumPy.

A `Program` is straight-line code over registers: inputs, captured tensors, then one register for
each step. A step may be a transform of a program of its own (its body), which reads registers of
the outer one as inputs or as captured tensors. `execute` runs it over the package, `Oracle` over
jets: reverse and forward mode are both tags there, `vmap` is a loop, `no_grad` silences the tags of
reverse mode that are open, `detach` all tags.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.func import jets
from tests.func.jets import TAGS, Array, AtKinkError, Jet, UnfitError, jet
from tests.func.steps import OPS, Shape, constant

LARGEST = 1e4
# NumPy broadcasts 32 dims, those of the oracle's own among them.
MOST_DIMS = 16
TOLERANCE = 1e-7


@dataclass(frozen=True)
class Step:
    name: str
    args: tuple[int, ...]
    params: dict[str, Any]
    body: Program | None = None
    captures: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    inputs: int
    captured: int
    steps: tuple[Step, ...]
    output: int

    def lines(self, indent: str = "") -> Iterator[str]:
        held = [f"r{i}" for i in range(self.inputs + self.captured)]
        yield f"{indent}({', '.join(held[: self.inputs])} | {', '.join(held[self.inputs :])})"
        for at, step in enumerate(self.steps, self.inputs + self.captured):
            params = "".join(f", {k}={short(v)}" for k, v in step.params.items())
            args = ", ".join(f"r{i}" for i in step.args)
            captures = ", ".join(f"r{i}" for i in step.captures)
            more = f" | {captures}" if captures else ""
            yield f"{indent}r{at} = {step.name}({args}{params}{more})"
            if step.body is not None:
                yield from step.body.lines(indent + "    ")
        yield f"{indent}return r{self.output}"

    def names(self) -> set[str]:
        found = {step.name for step in self.steps}
        for step in self.steps:
            if step.body is not None:
                found |= step.body.names()
        return found


def short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=3, separator=",").replace("\n", "")
    return repr(value)


# -- the oracle ------------------------------------------------------------------------------------


class Oracle:
    def __init__(self) -> None:
        self.open: list[bool] = []  # the tags in use; True where reverse mode
        self.silenced = 0
        self.silenced_before = 0  # when the innermost tag of reverse mode was opened

    @contextlib.contextmanager
    def tag(self, is_reverse: bool) -> Iterator[int]:
        number = len(self.open)
        if number == TAGS:
            raise UnfitError
        self.open.append(is_reverse)
        before = self.silenced, self.silenced_before
        if is_reverse:
            self.silenced_before = self.silenced
        try:
            yield number
        finally:
            self.open.pop()
            self.silenced, self.silenced_before = before

    @contextlib.contextmanager
    def recording(self, enabled: bool) -> Iterator[None]:
        """Grad mode. What was silenced outside of the innermost `grad` stays so."""
        before = self.silenced
        self.silenced = self.silenced_before
        if not enabled:
            self.silenced |= sum(1 << i for i, is_reverse in enumerate(self.open) if is_reverse)
        try:
            yield
        finally:
            self.silenced = before

    def fresh(self, value: Jet) -> Array:
        return Array.of(check_size(value.without(self.silenced)))

    def call(self, program: Program, inputs: Sequence[Array], captured: Sequence[Array]) -> Array:
        registers = [*inputs, *captured]
        for step in program.steps:
            registers.append(self.step(step, registers))
        return registers[program.output]

    def step(self, step: Step, registers: list[Array]) -> Array:
        args = [registers[i] for i in step.args]
        if step.body is not None:
            body, captured = step.body, [registers[i] for i in step.captures]
            transform = TRANSFORMS[step.name]
            return transform.oracle(
                self, lambda *a: self.call(body, a, captured), args, step.params
            )
        op = OPS[step.name]
        if op.kind in ("view", "reshape", "detach"):
            index = np.asarray(op.value(args[0].index, **step.params))
            if op.kind == "detach":
                return Array.of(args[0].read().without(-1))
            return self.fresh(args[0].view(index).read()) if self.silenced else args[0].view(index)
        value = jet(op.value(*[one.read() for one in args], **step.params))
        if op.kind == "write":
            args[0].write(value.without(self.silenced))
            return args[0]
        return self.fresh(value)


def check_size(value: Jet) -> Jet:
    """Large numbers and those that they are multiplied with would show the oracle's rounding."""
    for part in value.parts.values():
        if not (np.abs(part) < LARGEST).all():
            raise UnfitError
    return value


def basis(shapes: Sequence[Shape], at: int, total: int) -> Jet:
    """The unit vectors of several tensors laid end to end, as directions of one of them."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    start = sum(sizes[:at])
    return jet(np.eye(total)[:, start : start + sizes[at]].reshape(total, *shapes[at]))


Body = Callable[..., Array]


def linearized(
    oracle: Oracle, body: Body, args: Sequence[Array], argnums: Sequence[int], tag: int
) -> tuple[Jet, Jet]:
    """(result, its derivatives in all elements of some arguments, the direction in front)."""
    inputs = [one.read() for one in args]
    shapes = [inputs[i].shape for i in argnums]
    total = sum(int(np.prod(shape)) for shape in shapes)
    for at, i in enumerate(argnums):
        inputs[i] = inputs[i].varied(tag, basis(shapes, at, total))
    result = check_size(body(*[Array.of(one) for one in inputs]).read())
    return result.without(1 << tag), result.derivative(tag, total)


def flat(value: Jet) -> Jet:
    return value.reshape(-1)


def join(T: Any, parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else T.cat([part.reshape(-1) for part in parts])


def total(T: Any, result: Any, weight: float) -> Any:
    """A scalar that depends on all elements unequally."""
    return (result * result * weight + result).sum()


def total_jet(result: Jet, weight: float) -> Jet:
    return (result * result * weight + result).sum()


@dataclass(frozen=True)
class Transform:
    """`run(T, function, args, params)` for the package; `oracle(oracle, body, args, params)`."""

    name: str
    run: Callable[..., Any]
    oracle: Callable[..., Array]
    draw: Callable[..., dict[str, Any]]
    order: int = 0
    samples: int = 1
    is_quiet: bool = False
    weight: float = 1.0


TRANSFORMS: dict[str, Transform] = {}


def add(name: str, run: Any, oracle: Any, draw: Any = None, **facts: Any) -> None:
    TRANSFORMS[name] = Transform(name, run, oracle, draw or (lambda rng, shapes: {}), **facts)


def draw_argnums(rng: Any, shapes: Sequence[Shape]) -> dict[str, Any]:
    some = [i for i in range(len(shapes)) if rng.random() < 0.6]
    return {
        "argnums": tuple(some or [int(rng.integers(len(shapes)))]),
        "form": int(rng.integers(3)),
    }


# -- reverse mode ----------------------------------------------------------------------------------


def run_grad(T: Any, function: Any, args: Any, params: Any) -> Any:
    argnums, form = params["argnums"], params["form"]
    if form == 0:
        found = T.func.grad(lambda *a: total(T, function(*a), 0.5), argnums)(*args)
        return join(T, found)
    if form == 1:
        found, value = T.func.grad_and_value(lambda *a: total(T, function(*a), 0.5), argnums)(*args)
        return join(T, found) * value

    def with_aux(*a: Any) -> Any:
        result = function(*a)
        return total(T, result, 0.5), result

    found, aux = T.func.grad(with_aux, argnums, has_aux=True)(*args)
    return join(T, found) * aux.sum()


def grad_oracle(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    argnums, form = params["argnums"], params["form"]
    with oracle.tag(True) as tag:
        inner = {}

        def scalar(*a: Array) -> Array:
            inner["aux"] = body(*a).read()
            return Array.of(total_jet(inner["aux"], 0.5))

        value, found = linearized(oracle, scalar, args, argnums, tag)
        aux = inner["aux"].without(1 << tag)
    if len(argnums) == 1:
        found = found.reshape(*args[argnums[0]].index.shape)
    if form == 1:
        found = found * value
    if form == 2:
        found = found * aux.sum()
    return oracle.fresh(found)


add("grad", run_grad, grad_oracle, draw_argnums, order=1, weight=3)


def run_vjp(T: Any, function: Any, args: Any, params: Any) -> Any:
    form = params["form"]
    result, pull = T.func.vjp(function, *args)
    weights = constant(T, np.linspace(0.5, 1.5, result.numel())).reshape(result.shape)
    if form == 0:
        return join(T, pull(weights))
    if form == 1:
        return join(T, [a + b for a, b in zip(pull(result), pull(weights), strict=True)])
    pulled = T.func.vmap(pull)(T.stack([weights, result * 0.5]))
    return join(T, [one.sum(0) for one in pulled])


def vjp_oracle(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    with oracle.tag(True) as tag:
        result, found = linearized(oracle, body, args, range(len(args)), tag)
    weights = np.linspace(0.5, 1.5, result.positions().size).reshape(result.shape)
    cotangent = jet(weights)
    if params["form"] == 1:
        cotangent = cotangent + result
    if params["form"] == 2:
        cotangent = cotangent + result * 0.5
    pulled = (found * cotangent).reshape(found.shape[0], -1).sum(1)
    if len(args) == 1:
        pulled = pulled.reshape(*args[0].index.shape)
    return oracle.fresh(pulled)


add(
    "vjp",
    run_vjp,
    vjp_oracle,
    lambda rng, shapes: {"form": int(rng.integers(3))},
    order=1,
    weight=2,
)


# -- forward mode ----------------------------------------------------------------------------------


def draw_tangents(rng: Any, shapes: Sequence[Shape]) -> dict[str, Any]:
    """None: the input itself."""
    return {
        "tangents": [None if rng.random() < 0.4 else rng.normal(size=shape) for shape in shapes],
        "form": int(rng.integers(2)),
    }


def tangents_of(T: Any, args: Any, params: Any) -> tuple[Any, ...]:
    given = zip(args, params["tangents"], strict=True)
    return tuple(x if t is None else constant(T, t) for x, t in given)


def run_jvp(T: Any, function: Any, args: Any, params: Any) -> Any:
    result, pushed = T.func.jvp(function, tuple(args), tangents_of(T, args, params))
    return pushed if params["form"] == 0 else pushed + result


def run_linearize(T: Any, function: Any, args: Any, params: Any) -> Any:
    result, push = T.func.linearize(function, *args)
    pushed = push(*tangents_of(T, args, params))
    return pushed if params["form"] == 0 else pushed + result


def jvp_oracle(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    with oracle.tag(False) as tag:
        inputs = []
        for one, tangent in zip(args, params["tangents"], strict=True):
            x = one.read()
            direction = x if tangent is None else jet(tangent)
            inputs.append(Array.of(x.varied(tag, direction.reshape(1, *x.shape))))
        result = body(*inputs).read()
        pushed = result.derivative(tag, 1).sum(0)
        result = result.without(1 << tag)
    return oracle.fresh(pushed if params["form"] == 0 else pushed + result)


add("jvp", run_jvp, jvp_oracle, draw_tangents, order=1, weight=3)
add("linearize", run_linearize, jvp_oracle, draw_tangents, order=1, weight=0.5)


# -- Jacobians -------------------------------------------------------------------------------------


def draw_jacobian(rng: Any, shapes: Sequence[Shape]) -> dict[str, Any]:
    argnum = int(rng.integers(len(shapes)))
    chunk = int(rng.integers(1, 4)) if rng.random() < 0.25 else None
    weights = rng.normal(size=shapes[argnum]) if rng.random() < 0.6 else None
    return {"argnum": argnum, "chunk": chunk, "weights": weights}


def contract(T: Any, found: Any, params: Any) -> Any:
    weights = params["weights"]
    if weights is None or not weights.ndim:
        return found
    return (found * constant(T, weights)).sum(tuple(range(-weights.ndim, 0)))


def contract_jet(found: Jet, params: Any) -> Jet:
    weights = params["weights"]
    if weights is None or not weights.ndim:
        return found
    return (found * weights).sum(tuple(range(-weights.ndim, 0)))


def run_jacrev(T: Any, function: Any, args: Any, params: Any) -> Any:
    found = T.func.jacrev(function, params["argnum"], chunk_size=params["chunk"])(*args)
    return contract(T, found, params)


def run_jacfwd(T: Any, function: Any, args: Any, params: Any) -> Any:
    return contract(T, T.func.jacfwd(function, params["argnum"])(*args), params)


def run_hessian(T: Any, function: Any, args: Any, params: Any) -> Any:
    found = T.func.hessian(function, params["argnum"])(*args)
    return contract(T, contract(T, found, params), params)


def directions_last(found: Jet, shape: Shape) -> Jet:
    moved = found.take(np.moveaxis(found.positions(), 0, -1))
    return moved.reshape(*moved.shape[:-1], *shape)


def jacobian_oracle(is_reverse: bool) -> Callable[..., Array]:
    def run(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
        shape = args[params["argnum"]].index.shape
        with oracle.tag(is_reverse) as tag:
            _, found = linearized(oracle, body, args, [params["argnum"]], tag)
        return oracle.fresh(contract_jet(directions_last(found, shape), params))

    return run


def hessian_oracle(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    at = params["argnum"]
    shape = args[at].index.shape
    with oracle.tag(False) as outer:

        def jacobian(*inputs: Array) -> Array:
            with oracle.tag(True) as inner:
                _, found = linearized(oracle, body, inputs, [at], inner)
            return Array.of(directions_last(found, shape))

        _, found = linearized(oracle, jacobian, args, [at], outer)
    found = contract_jet(directions_last(found, shape), params)
    return oracle.fresh(contract_jet(found, params))


add("jacrev", run_jacrev, jacobian_oracle(True), draw_jacobian, order=1, weight=1.5)
add("jacfwd", run_jacfwd, jacobian_oracle(False), draw_jacobian, order=1, weight=1.5)
add("hessian", run_hessian, hessian_oracle, draw_jacobian, order=2)


# -- batches ---------------------------------------------------------------------------------------


def draw_vmap(rng: Any, shapes: Sequence[Shape]) -> dict[str, Any]:
    size = int(rng.integers(1, 4))
    dims = [
        None if rng.random() < 0.3 else int(rng.integers(-len(shape) - 1, len(shape) + 1))
        for shape in shapes
    ]
    if all(dim is None for dim in dims):
        dims[0] = 0
    return {
        "size": size,
        "in_dims": tuple(dims),
        "out_dim": int(rng.integers(-1, 2)),
        "chunk": int(rng.integers(1, 3)) if rng.random() < 0.2 else None,
        "sums": bool(rng.random() < 0.5),
    }


def scales(size: int) -> np.ndarray:
    return np.linspace(0.6, 1.3, size)


def run_vmap(T: Any, function: Any, args: Any, params: Any) -> Any:
    inputs = []
    for x, dim in zip(args, params["in_dims"], strict=True):
        if dim is not None:
            x = T.stack([x * scale for scale in scales(params["size"]).tolist()], dim)
        inputs.append(x)

    def placed(*a: Any) -> Any:
        result = function(*a)
        return result if result.dim() else result.reshape(1)

    mapped = T.func.vmap(placed, params["in_dims"], params["out_dim"], chunk_size=params["chunk"])
    result = mapped(*inputs)
    return result.sum(params["out_dim"]) if params["sums"] else result


def vmap_oracle(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    dims = params["in_dims"]
    found = []
    for scale in scales(params["size"]):
        inputs = [
            one if dim is None else Array.of((one.read() * float(scale)).without(oracle.silenced))
            for one, dim in zip(args, dims, strict=True)
        ]
        result = body(*inputs).read()
        found.append(result if result.ndim else result.reshape(1))
    result = jets.stack(found, params["out_dim"])
    return oracle.fresh(result.sum(params["out_dim"]) if params["sums"] else result)


add("vmap", run_vmap, vmap_oracle, draw_vmap, samples=3, weight=5)


# -- transforms that change no value ---------------------------------------------------------------


def run_functionalize(T: Any, function: Any, args: Any, params: Any) -> Any:
    return T.func.functionalize(function, remove=params["remove"])(*args)


def run_no_grad(T: Any, function: Any, args: Any, params: Any) -> Any:
    with T.no_grad():
        return function(*args)


def run_enable_grad(T: Any, function: Any, args: Any, params: Any) -> Any:
    with T.enable_grad():
        return function(*args)


def run_checkpoint(T: Any, function: Any, args: Any, params: Any) -> Any:
    return T.utils.checkpoint.checkpoint(function, *args, use_reentrant=False)


def same_value(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    return body(*args)


def no_grad_oracle(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    with oracle.recording(False):
        return body(*args)


def enable_grad_oracle(oracle: Oracle, body: Body, args: Any, params: Any) -> Array:
    with oracle.recording(True):
        return body(*args)


def draw_remove(rng: Any, shapes: Sequence[Shape]) -> dict[str, Any]:
    return {"remove": ("mutations", "mutations_and_views")[int(rng.integers(2))]}


add("functionalize", run_functionalize, same_value, draw_remove, weight=2)
add("no_grad", run_no_grad, no_grad_oracle, is_quiet=True)
add("enable_grad", run_enable_grad, enable_grad_oracle, weight=0.4)
add("checkpoint", run_checkpoint, same_value, weight=0.5)


# -- programs --------------------------------------------------------------------------------------


def execute(T: Any, program: Program, inputs: Sequence[Any], captured: Sequence[Any] = ()) -> Any:
    registers = [*inputs, *captured]
    for step in program.steps:
        args = [registers[i] for i in step.args]
        if step.body is None:
            registers.append(OPS[step.name].run(T, *args, **step.params))
            continue
        held = [registers[i] for i in step.captures]

        def function(*a: Any, body: Program = step.body, held: Any = held) -> Any:
            return execute(T, body, a, held)

        registers.append(TRANSFORMS[step.name].run(T, function, args, step.params))
    return registers[program.output]


@dataclass
class Scope:
    """What the writer of a program knows of its registers."""

    arrays: list[Array]
    owned: set[int] = field(default_factory=set)  # memories that writes may change
    is_quiet: bool = False

    def freeze(self, array: Array) -> None:
        self.owned.discard(id(array.memory))


@dataclass
class Writer:
    """Draws programs. Every step is tried on the oracle first, so that all of them have a value."""

    rng: np.random.Generator
    depth: int
    order: int = 3
    samples: int = 9

    def program(
        self, inputs: list[Array], captured: list[Array], steps: int, is_quiet: bool
    ) -> Program:
        scope = Scope([*inputs, *captured], is_quiet=is_quiet)
        done: list[Step] = []
        tries = 0
        while len(done) < steps and tries < 40 * steps:
            tries += 1
            step = self.transform(scope) if self.rng.random() < 0.35 else self.plain(scope)
            if step is None:
                continue
            done.append(step)
        if done and self.rng.random() < 0.85:
            self.collect(scope, done, len(inputs))
        return Program(len(inputs), len(captured), tuple(done), len(scope.arrays) - 1)

    def collect(self, scope: Scope, done: list[Step], inputs: int) -> None:
        """A last step that reads the inputs and every register that no step has read."""
        last = len(scope.arrays) - 1
        used = {i for step in done for i in (*step.args, *step.captures)}
        loose = [i for i in range(last) if i < inputs or i not in used]
        step = Step("collect", (last, *loose), {})
        if self.admit(scope, step):
            done.append(step)

    def pick(self, scope: Scope, count: int) -> tuple[int, ...]:
        """Registers, the latest ones more often."""
        return tuple(int(len(scope.arrays) * np.sqrt(self.rng.random())) for _ in range(count))

    def weighted(self, choices: list[Any]) -> Any:
        at = np.cumsum([one.weight for one in choices])
        return choices[int(np.searchsorted(at, self.rng.random() * at[-1], side="right"))]

    def plain(self, scope: Scope) -> Step | None:
        op = self.weighted(list(OPS.values()))
        for _ in range(15 if op.count > 1 else 5):
            chosen = self.pick(scope, op.count)
            args = [scope.arrays[i] for i in chosen]
            if op.kind == "write" and not self.is_writable(scope, args):
                continue
            params = op.draw(self.rng, *[one.index.shape for one in args])
            if params is not None:
                step = Step(op.name, chosen, params)
                return step if self.admit(scope, step) else None
        return None

    def is_writable(self, scope: Scope, args: list[Array]) -> bool:
        written = args[0]
        return id(written.memory) in scope.owned and all(
            one.memory is not written.memory for one in args[1:]
        )

    def transform(self, scope: Scope) -> Step | None:
        if not self.depth:
            return None
        names = [
            t for t in TRANSFORMS.values() if t.order <= self.order and t.samples <= self.samples
        ]
        chosen = self.weighted(names)
        args = self.pick(scope, int(self.rng.integers(1, 3)))
        captures = self.pick(scope, int(self.rng.integers(0, 3)))
        given = [scope.arrays[i].read() for i in args]
        params = chosen.draw(self.rng, [one.shape for one in given])
        inner = replace_writer(self, chosen)
        held = [Array.of(scope.arrays[i].read()) for i in captures]
        body = inner.program(
            [Array.of(one) for one in given],
            held,
            int(self.rng.integers(1, 4)),
            scope.is_quiet or chosen.is_quiet,
        )
        if not body.steps:
            return None
        step = Step(chosen.name, args, params, body, captures)
        return step if self.admit(scope, step) else None

    def admit(self, scope: Scope, step: Step) -> bool:
        """Run a step on the oracle and keep what is known of its result."""
        op = OPS.get(step.name)
        kind = "transform" if op is None else op.kind
        undo = scope.arrays[step.args[0]].memory.elements
        try:
            made = Oracle().step(step, scope.arrays)
            if kind != "write":
                Oracle().fresh(made.read())
        except (AtKinkError, UnfitError):
            return False
        value = made.read()
        is_large = value.positions().size > 36 or value.value.ndim > MOST_DIMS
        if is_large or not (np.abs(value.value) < LARGEST).all():
            scope.arrays[step.args[0]].memory.elements = undo
            return False
        if op is None or op.saves:
            # A write saves what it replaces by itself; its other operands must stay.
            kept = step.args[1:] if kind == "write" else step.args
            for i in (*kept, *step.captures):
                scope.freeze(scope.arrays[i])
        if kind in ("reshape", "detach") or (kind == "view" and scope.is_quiet):
            scope.freeze(scope.arrays[step.args[0]])
        if kind in ("pure", "factory") and not op.keeps:
            scope.owned.add(id(made.memory))
        if kind == "write" and op.keeps:
            scope.freeze(made)
        scope.arrays.append(made)
        return True


def replace_writer(writer: Writer, chosen: Transform) -> Writer:
    return replace(
        writer,
        depth=writer.depth - 1,
        order=writer.order - chosen.order,
        samples=writer.samples // chosen.samples,
    )


# The last one is a Function that calls them.
REVERSE = {"grad", "vjp", "jacrev", "hessian", "Inner"}

# -- cases -----------------------------------------------------------------------------------------

OUTSIDE = ("plain", "plain", "plain", "no_grad", "inference", "autocast", "leaves", "dual")


@dataclass(frozen=True)
class Case:
    number: int
    program: Program
    inputs: tuple[np.ndarray, ...]
    outside: str

    @functools.cached_property
    def expected(self) -> np.ndarray:
        oracle = Oracle()
        arrays = [Array.of(jet(one)) for one in self.inputs]
        if self.outside == "dual":

            def result(*a: Array) -> Array:
                return oracle.call(self.program, a, ())

            return jvp_oracle(oracle, result, arrays, self.tangents()).read().value
        if self.outside != "leaves":
            return oracle.call(self.program, arrays, ()).read().value

        def scalar(*a: Array) -> Array:
            return Array.of(total_jet(oracle.call(self.program, a, ()).read(), 0.5))

        with oracle.tag(True) as tag:
            return linearized(oracle, scalar, arrays, range(len(arrays)), tag)[1].value

    def tangents(self) -> dict[str, Any]:
        return {"tangents": [np.cos(one) for one in self.inputs], "form": 0}

    def found(self, T: Any) -> Any:
        inputs = [constant(T, one) for one in self.inputs]
        if self.outside == "leaves":
            leaves = [one.requires_grad_() for one in inputs]
            result = total(T, execute(T, self.program, leaves), 0.5)
            if not result.requires_grad:
                return T.cat([T.zeros_like(one).reshape(-1) for one in leaves])
            found = T.autograd.grad(result, leaves, allow_unused=True, materialize_grads=True)
            return T.cat([one.reshape(-1) for one in found])
        if self.outside == "dual":
            forward_ad = T.autograd.forward_ad
            with forward_ad.dual_level():
                directions = tangents_of(T, inputs, self.tangents())
                pairs = zip(inputs, directions, strict=True)
                duals = [forward_ad.make_dual(x, t) for x, t in pairs]
                result, pushed = forward_ad.unpack_dual(execute(T, self.program, duals))
                return T.zeros_like(result) if pushed is None else pushed
        contexts = {
            "plain": contextlib.nullcontext,
            "no_grad": T.no_grad,
            "inference": T.inference_mode,
            "autocast": lambda: T.autocast("cpu", dtype=T.bfloat16),
        }
        with contexts[self.outside]():
            return execute(T, self.program, inputs)

    def __str__(self) -> str:
        inputs = [f"r{i} = {short(one)}" for i, one in enumerate(self.inputs)]
        return "\n".join([f"case {self.number}, {self.outside}", *inputs, *self.program.lines()])


def hooks_meet_reverse_mode(program: Program) -> bool:
    """torch: reverse-mode transforms refuse the hooks of a checkpoint around them."""
    return any(
        (step.name == "checkpoint" and bool(step.body.names() & REVERSE))
        or hooks_meet_reverse_mode(step.body)
        for step in program.steps
        if step.body is not None
    )


def draw_case(number: int, seed: int = 0) -> Case:
    """The case of a number: always the same one."""
    for attempt in range(1000):
        rng = np.random.default_rng([seed, number, attempt])
        rows, columns = (int(i) for i in rng.integers(1, 4, size=2))
        shapes: list[Shape] = [(), (rows,), (columns,), (rows, columns), (rows, rows), (columns,)]
        some = [shapes[int(i)] for i in rng.integers(1, len(shapes), size=int(rng.integers(1, 4)))]
        inputs = tuple(rng.normal(size=shape) for shape in some)
        writer = Writer(rng, depth=int(rng.integers(1, 5)), order=3 + int(rng.random() < 0.2))
        program = writer.program(
            [Array.of(jet(one)) for one in inputs], [], int(rng.integers(2, 9)), False
        )
        case = Case(number, program, inputs, OUTSIDE[int(rng.integers(len(OUTSIDE)))])
        if program.names() & TRANSFORMS.keys() and not hooks_meet_reverse_mode(program):
            with contextlib.suppress(AtKinkError, UnfitError):
                assert case.expected is not None
                return case
    raise AssertionError(f"no program for case {number}")


# -- verdicts --------------------------------------------------------------------------------------

# What the package may refuse: the words of the error, and the steps that make it right to.
REFUSALS: dict[str, Callable[[set[str]], bool]] = {
    r"is not possible because there exists a Tensor `other`": lambda names: bool(
        names & {"vmap", "jacfwd", "jacrev", "hessian", "vjp"}
    ),
    r"You tried to vmap over Exponential": lambda names: "Exponential" in names,
    r"You must implement the jvp function for custom autograd.Function": lambda names: (
        "Exponential" in names
    ),
    # torch: so it is with a view that a function makes without grad mode and returns.
    r"does not require grad and does not have a grad_fn": lambda names: "no_grad" in names,
}


@dataclass(frozen=True)
class Verdict:
    state: str  # right, refused, wrong, raised
    words: str = ""


def judge(case: Case, T: Any) -> Verdict:
    expected = case.expected
    try:
        found = case.found(T)
        shape, values = tuple(found.shape), np.array(found.detach().tolist())
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        for pattern, is_right in REFUSALS.items():
            if re.search(pattern, words) and is_right(case.program.names()):
                return Verdict("refused", pattern)
        return Verdict("raised", words)
    if shape != expected.shape:
        return Verdict("wrong", f"shape {shape} instead of {expected.shape}")
    if found.dtype != T.float64:
        return Verdict("wrong", f"dtype {found.dtype}")
    limit = TOLERANCE * max(1.0, float(np.abs(expected).max(initial=0)))
    if not np.allclose(values, expected, rtol=0, atol=limit):
        return Verdict("wrong", f"found {short(values)}\nexpected {short(expected)}")
    return Verdict("right")
