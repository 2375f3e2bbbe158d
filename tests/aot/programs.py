"""Random programs of views and writes, as data.

A `Program` says how its arguments are made, which ops run and what is returned. It runs with any
namespace that has the operators (`execute`), eagerly or traced; `generate` makes one from a
number, and `shrink` looks for a smaller one that still fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

# (step, which of its results); arguments are the results of step -1.
Ref = tuple[int, int]


@dataclass(frozen=True)
class Argument:
    """How an argument is made.

    `leaf`: leaf number `source` itself. `value`: the leaf times one, which others share. `view`:
    views of that value, `quiet view`: the same without grad mode. `same`: argument number
    `source` again. `pair`: a wrapper subclass of two tensors.
    """

    form: str
    source: int
    views: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True)
class Step:
    """One op: its name, operands, other arguments, and whether it runs without grad mode."""

    name: str
    operands: tuple[Ref, ...]
    arguments: tuple[Any, ...] = ()
    quiet: bool = False

    @property
    def written(self) -> int:
        """Which operand it writes, if it does."""
        return len(self.operands) - 1 if self.name.endswith("_out") else 0


@dataclass(frozen=True)
class Program:
    """Leaves are (shape, whether it requires a gradient)."""

    leaves: tuple[tuple[tuple[int, ...], bool], ...]
    arguments: tuple[Argument, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Ref, ...]

    def __str__(self) -> str:
        lines = [f"leaf {i}: {shape}, grad {needs}" for i, (shape, needs) in enumerate(self.leaves)]
        lines += [f"arg {i}: {a.form} {a.source} {a.views}" for i, a in enumerate(self.arguments)]
        for number, step in enumerate(self.steps):
            operands = ", ".join([ref_name(ref) for ref in step.operands])
            quiet = "  # no_grad" if step.quiet else ""
            lines.append(f"s{number} = {step.name}({operands}; {step.arguments}){quiet}")
        return "\n".join([*lines, f"return {', '.join([ref_name(ref) for ref in self.outputs])}"])


def ref_name(ref: Ref) -> str:
    return f"arg{ref[1]}" if ref[0] < 0 else f"s{ref[0]}.{ref[1]}"


def comes_from(program: Program, ref: Ref, names: set[str]) -> bool:
    """Whether one of these ops led to a value."""
    if ref[0] < 0:
        return False
    step = program.steps[ref[0]]
    return step.name in names or any([comes_from(program, r, names) for r in step.operands])


# -- operators -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """How an op runs, how its other arguments are chosen for its first operand, how many operands
    it has, how often it is taken."""

    run: Callable[..., Any]
    choose: Callable[[random.Random, Any], tuple[Any, ...] | None]
    operands: int = 1
    weight: int = 1
    writes: bool = False


OPS: dict[str, Op] = {}


def op(name: str, run: Any, choose: Any = lambda rng, x: (), **options: Any) -> None:
    OPS[name] = Op(run, choose, **options)


def has_dims(least: int, choose: Any) -> Any:
    return lambda rng, x: choose(rng, x) if x.dim() >= least else None


def any_dim(rng: random.Random, x: Any) -> int:
    return rng.randrange(x.dim())


def place(rng: random.Random, x: Any) -> tuple[int, int] | None:
    dim = any_dim(rng, x)
    return (dim, rng.randrange(x.shape[dim])) if x.shape[dim] else None


def span(rng: random.Random, x: Any) -> tuple[int, ...] | None:
    dim = any_dim(rng, x)
    if x.shape[dim] < 2:
        return None
    start = rng.randrange(x.shape[dim] - 1)
    stop = rng.randint(start + 1, x.shape[dim])
    return dim, start, stop, rng.choice([1, 1, 2])


def two_dims(rng: random.Random, x: Any) -> tuple[int, int]:
    return any_dim(rng, x), any_dim(rng, x)


def shapes_like(rng: random.Random, x: Any) -> tuple[int, ...]:
    sizes, count = list(x.shape), x.numel()
    return tuple(rng.choice([[-1], sizes, [1, *sizes], [count], sizes[::-1], [*sizes, 1]]))


def strides_within(rng: random.Random, x: Any) -> tuple[Any, ...] | None:
    """Sizes, strides and an offset that stay inside the first elements of `x`."""
    if not x.is_contiguous() or x.numel() < 4:
        return None
    start = x.storage_offset()
    choices = [((2,), (1,), start), ((2,), (2,), start + 1), ((2, 2), (1, 1), start)]
    choices += [((2, 2), (2, 1), start), ((2,), (1,), start + 2)]
    return rng.choice(choices)


def smaller_shape(rng: random.Random, x: Any) -> tuple[int, ...] | None:
    """A shape that the memory of `x` has room for."""
    shape = rng.choice([(2,), (1, 2), tuple(x.shape), (x.numel(),), (2, 2), (5,), (0,)])
    count = 1
    for size in shape:
        count *= size
    room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    return shape if count <= room else None


def of_complex(rng: random.Random, x: Any) -> tuple[Any, ...] | None:
    return () if x.is_complex() else None


def flipped(rng: random.Random, x: Any) -> tuple[int, ...]:
    return tuple(rng.sample(range(x.dim()), x.dim()))


def slices(dim: int, start: int, stop: int, step: int) -> tuple[slice, ...]:
    return (*[slice(None)] * dim, slice(start, stop, step))


op("view", lambda t, x, *shape: x.view(shape), shapes_like, weight=4)
op("alias", lambda t, x: x.view(x.shape))
op("transpose", lambda t, x, a, b: x.transpose(a, b), has_dims(1, two_dims), weight=2)
op("t", lambda t, x: x.t(), lambda rng, x: () if x.dim() <= 2 else None)
op("permute", lambda t, x, *dims: x.permute(dims), has_dims(1, flipped))
op("select", lambda t, x, d, i: x.select(d, i), has_dims(1, place), weight=3)
op("slice", lambda t, x, *s: x[slices(*s)], has_dims(1, span), weight=3)
op("unsqueeze", lambda t, x, d: x.unsqueeze(d), lambda rng, x: (rng.randint(0, x.dim()),))
op("squeeze", lambda t, x: x.squeeze())
op("squeeze_dim", lambda t, x, d: x.squeeze(d), has_dims(1, lambda r, x: (any_dim(r, x),)))
op("expand", lambda t, x: x.expand(2, *x.shape))
op("diagonal", lambda t, x: x.diagonal(), has_dims(2, lambda rng, x: ()))
op("unfold", lambda t, x, d: x.unfold(d, 2, 1),
   has_dims(1, lambda r, x: (x.dim() - 1,) if x.shape[-1] > 1 else None))  # fmt: skip
op("as_strided", lambda t, x, *g: x.as_strided(*g), strides_within)
op("detach", lambda t, x: x.detach(), weight=3)
op("data", lambda t, x: x.data)
op("narrow", lambda t, x, d, i: x.narrow(d, i, 1), has_dims(1, place))
op("movedim", lambda t, x, a, b: x.movedim(a, b), has_dims(1, two_dims))
op("flatten", lambda t, x: x.flatten())
op("expand_as", lambda t, x, y: x.expand_as(y), operands=2)
op("tensor_split", lambda t, x: x.tensor_split(2), has_dims(1, lambda r, x: ()))
op("as_complex", lambda t, x: t.view_as_complex(x),
   lambda r, x: () if not x.is_complex() and x.dim() and x.shape[-1] == 2 else None)  # fmt: skip
op("as_real", lambda t, x: t.view_as_real(x.resolve_conj()), of_complex, weight=2)
op("real", lambda t, x: x.real, of_complex, weight=2)
op("imag", lambda t, x: x.imag, of_complex, weight=2)
op("conj", lambda t, x: x.conj(), of_complex, weight=2)
op("unbind", lambda t, x: x.unbind(0), has_dims(1, lambda r, x: () if x.shape[0] else None))
op("split", lambda t, x: x.split(1), has_dims(1, lambda r, x: () if x.shape[0] else None))
op("chunk", lambda t, x: x.chunk(2), has_dims(1, lambda r, x: () if x.shape[0] else None))

op("mul", lambda t, x, y: x * y, operands=2)
op("add", lambda t, x, y: x + y, operands=2)
op("double", lambda t, x: x * 2)
op("sin", lambda t, x: x.sin())
op("clone", lambda t, x: x.clone())
op("contiguous", lambda t, x: x.contiguous())
op("reshape", lambda t, x, *shape: x.reshape(shape), shapes_like)
op("sum", lambda t, x: x.sum())
op("cat", lambda t, x, y: t.cat([x, y]), operands=2)
op("zeros", lambda t, x: t.zeros(x.shape, dtype=x.dtype))
op("new_ones", lambda t, x: x.new_ones(2, 2))
op("where", lambda t, x, y: t.where(x > 0, x, y), operands=2)

op("complex", lambda t, x: t.complex(x, x * 2), lambda r, x: None if x.is_complex() else ())
op("index", lambda t, x: x[t.tensor([0, 0])], has_dims(1, lambda r, x: () if x.shape[0] else None))
op("to_int", lambda t, x: x.detach().real.to(t.int64))
op("hooked", lambda t, x: hooked(x))
op("checkpointed", lambda t, x: t.utils.checkpoint.checkpoint(squared, x, use_reentrant=False))

op("mul_", lambda t, x: x.mul_(2), weight=6, writes=True)
op("add_", lambda t, x, y: x.add_(y), operands=2, weight=4, writes=True)
op("sin_", lambda t, x: x.sin_(), weight=2, writes=True)
op("zero_", lambda t, x: x.zero_(), writes=True)
op("fill_", lambda t, x: x.fill_(3), writes=True)
op("copy_", lambda t, x, y: x.copy_(y), operands=2, weight=3, writes=True)
op("addcmul_", lambda t, x, y: x.addcmul_(y, y), operands=2, writes=True)
op("masked_fill_", lambda t, x: x.masked_fill_(x > 1, 0.5), writes=True)
op("clamp_", lambda t, x: x.clamp_(0.3, 1.5), writes=True)
op("add_scaled_", lambda t, x, y: x.add_(y, alpha=3), operands=2, writes=True)
op("sub_product_", lambda t, x, y: x.sub_(y * x), operands=2, writes=True)
op("index_add_", lambda t, x: x.index_add_(0, t.tensor([0, 0]), x[:1].expand(2, *x.shape[1:]) * 2),
   has_dims(1, lambda r, x: () if x.shape[0] else None), writes=True)  # fmt: skip
op("scatter_", lambda t, x: x.scatter_(0, t.zeros(1, *x.shape[1:], dtype=t.int64), 1.25),
   has_dims(1, lambda r, x: () if x.shape[0] else None), writes=True)  # fmt: skip
op("put_rows", lambda t, x, y: x.index_put_((t.tensor([0, 0]),), y, accumulate=True),
   has_dims(1, lambda r, x: () if x.shape[0] else None), operands=2, writes=True)  # fmt: skip
op("each_mul_", lambda t, x: t._foreach_mul_([x, x[:1]], 2), has_dims(1, lambda r, x: ()),
   writes=True)  # fmt: skip
op("custom_", lambda t, x: custom_write(t)(x), writes=True, weight=2)
op("t_", lambda t, x: x.t_(), lambda rng, x: () if x.dim() <= 2 else None, weight=2, writes=True)
op("transpose_", lambda t, x, a, b: x.transpose_(a, b), has_dims(1, two_dims), writes=True)
op("unsqueeze_", lambda t, x, d: x.unsqueeze_(d), lambda r, x: (r.randint(0, x.dim()),),
   writes=True)  # fmt: skip
op("squeeze_", lambda t, x: x.squeeze_(), writes=True)
op("as_strided_", lambda t, x, *g: x.as_strided_(*g), strides_within, writes=True)
op("detach_", lambda t, x: x.detach_(), writes=True)
op("put", lambda t, x, *s: x.__setitem__(slices(*s), 1.5), has_dims(1, span), writes=True)
op("put_row", lambda t, x, d, i: x.__setitem__((*[slice(None)] * d, i), 2.5), has_dims(1, place),
   writes=True)  # fmt: skip
op("put_mask", lambda t, x: x.__setitem__(x > 1, 0.25), has_dims(1, lambda r, x: ()), writes=True)
op("put_index", lambda t, x: x.__setitem__(t.tensor([0, 0]), 4.0),
   has_dims(1, lambda r, x: () if x.shape[0] else None), writes=True)  # fmt: skip
op("put_tensor", lambda t, x, y: x.__setitem__(0, y), has_dims(1, lambda r, x: ()), operands=2,
   writes=True)  # fmt: skip
op("sin_out", lambda t, x, y: t.sin(x.detach(), out=y), operands=2, writes=True)
op("add_out", lambda t, x, y, z: t.add(x.detach(), y.detach(), out=z), operands=3, writes=True)
op("set_", lambda t, x, y: x.set_(y), operands=2, writes=True)
op("resize_", lambda t, x, *shape: x.resize_(shape), smaller_shape, writes=True)
op("grow", lambda t, x: x.resize_(x.numel() + 2).fill_(1), writes=True)
op("release", lambda t, x: t.ops.inductor.resize_storage_bytes_(x, 0),
   lambda r, x: () if x.numel() else None, writes=True)  # fmt: skip
op("requires_grad_", lambda t, x: x.requires_grad_(), writes=True)
op("write_late", lambda t, x, y: functions(t).WritesLate.apply(x, y), operands=2, writes=True)
op("write_saved", lambda t, x: functions(t).WritesSaved.apply(x), writes=True)
op("own_view", lambda t, x: functions(t).View.apply(x))
op("own_write", lambda t, x: functions(t).Write.apply(x), writes=True)

# Ops that rarely fit with others: programs hold them now and then, not all at once.
RARE = (
    "set_", "resize_", "grow", "release", "write_late", "write_saved", "own_view", "own_write",
    "requires_grad_", "detach_", "data", "as_strided_", "complex", "as_complex", "each_mul_",
    "custom_", "hooked", "checkpointed", "index_add_", "scatter_", "put_rows",
)  # fmt: skip
VIEWS = ("view", "transpose", "t", "select", "slice", "unsqueeze", "diagonal", "detach", "chunk")
USES = ("mul", "add", "double", "sin", "clone", "cat", "where")
WRITES = (
    "mul_", "add_", "copy_", "put", "put_tensor", "sin_out", "add_out", "t_", "unsqueeze_",
    "as_strided_",
)  # fmt: skip


def squared(x: Any) -> Any:
    return (x * x).sin()


def hooked(x: Any) -> Any:
    """A value whose gradient is doubled on its way."""
    made = x * 3
    if made.requires_grad:
        made.register_hook(lambda grad: grad * 2)
    return made


CUSTOM: dict[int, Any] = {}


def custom_write(t: Any) -> Any:
    """An operator of the user that writes to its argument."""
    if id(t) not in CUSTOM:

        def write(x: t.Tensor) -> None:
            x.mul_(2).add_(1)

        write.__annotations__ = {"x": t.Tensor, "return": None}
        name = "alias_programs::write"
        CUSTOM[id(t)] = t.library.custom_op(name, write, mutates_args=("x",))
    return CUSTOM[id(t)]


class Functions:
    """Autograd Functions over a namespace: they write in the forward or in the backward."""

    def __init__(self, t: Any) -> None:
        class WritesLate(t.autograd.Function):
            """The backward writes to an operand that has no gradient here."""

            @staticmethod
            def forward(ctx: Any, x: Any, other: Any) -> Any:
                ctx.other = other
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                with t.no_grad():
                    ctx.other.mul_(3)
                return grad * 2, None

        class WritesSaved(t.autograd.Function):
            """The backward writes to a saved operand."""

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * 3

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                (x,) = ctx.saved_tensors
                with t.no_grad():
                    x.mul_(2)
                return grad * 3

        class View(t.autograd.Function):
            """A view by a Function of the user."""

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.shape = x.shape
                return x.view(-1)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad.reshape(ctx.shape)

        class Write(t.autograd.Function):
            """An in-place op by a Function of the user."""

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * 2

        self.WritesLate, self.WritesSaved, self.View, self.Write = (
            WritesLate, WritesSaved, View, Write,
        )  # fmt: skip


FUNCTIONS: dict[int, Functions] = {}
PAIRS: dict[int, Any] = {}


def functions(t: Any) -> Functions:
    if id(t) not in FUNCTIONS:
        FUNCTIONS[id(t)] = Functions(t)
    return FUNCTIONS[id(t)]


def pair_class(t: Any) -> Any:
    """A wrapper subclass over a namespace: every op runs on both of its tensors."""
    if id(t) in PAIRS:
        return PAIRS[id(t)]
    modules = {"rushlight": "rushlight.core.modes", "torch": "torch.utils._python_dispatch"}
    correct = import_module(modules[t.__name__]).return_and_correct_aliasing

    class Pair(t.Tensor):
        @staticmethod
        def __new__(cls: Any, a: Any, b: Any) -> Any:
            return t.Tensor._make_wrapper_subclass(
                cls, a.shape, strides=a.stride(), storage_offset=a.storage_offset(),
                dtype=a.dtype, requires_grad=a.requires_grad,
            )  # fmt: skip

        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

        def __tensor_flatten__(self) -> Any:
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(parts: Any, note: Any, size: Any, stride: Any) -> Any:
            return Pair(parts["a"], parts["b"])

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            runs = [
                func(*parts_of(args, name), **parts_of(kwargs or {}, name)) for name in ("a", "b")
            ]
            return correct(func, args, kwargs or {}, joined(*runs))

    def parts_of(value: Any, name: str) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([parts_of(item, name) for item in value])
        if isinstance(value, dict):
            return {key: parts_of(item, name) for key, item in value.items()}
        return getattr(value, name) if isinstance(value, Pair) else value

    def joined(a: Any, b: Any) -> Any:
        if isinstance(a, (list, tuple)):
            return type(a)([joined(x, y) for x, y in zip(a, b, strict=True)])
        return Pair(a, b) if isinstance(a, t.Tensor) else a

    PAIRS[id(t)] = Pair
    return Pair


# -- running ---------------------------------------------------------------------------------------


def make_arguments(t: Any, program: Program) -> tuple[list[Any], list[Any]]:
    """(leaves, arguments); the same numbers in them every time."""
    leaves, values, args = [], {}, []
    for number, (shape, needs) in enumerate(program.leaves):
        count = 1
        for size in shape:
            count *= size
        numbers = t.arange(count, dtype=t.float64).view(shape) * 0.25 + number
        leaves.append(numbers.requires_grad_(needs))
    for argument in program.arguments:
        source = argument.source
        if argument.form == "leaf":
            args.append(leaves[source])
            continue
        if argument.form == "same":
            args.append(args[source])
            continue
        if source not in values:
            values[source] = leaves[source] * 1
        value = values[source]
        if argument.form == "pair":
            part = leaves[source].detach().clone()
            value = pair_class(t)(part, part * 10)
            if leaves[source].requires_grad:
                value.requires_grad_()
                leaves[source] = value
        with t.no_grad() if argument.form == "quiet view" else nullcontext():
            for name, *rest in argument.views:
                value = OPS[name].run(t, value, *rest)
        args.append(value)
    return leaves, args


def execute(t: Any, program: Program, args: Sequence[Any]) -> list[Any]:
    """Run the steps."""
    values: dict[int, list[Any]] = {-1: list(args)}
    for number, step in enumerate(program.steps):
        values[number] = run_step(t, step, values)
    return [values[where][which] for where, which in program.outputs]


def run_step(t: Any, step: Step, values: dict[int, list[Any]]) -> list[Any]:
    operands = [values[where][which] for where, which in step.operands]
    with t.no_grad() if step.quiet else nullcontext():
        result = OPS[step.name].run(t, *operands, *step.arguments)
    if isinstance(result, (list, tuple)):
        return list(result)
    return [operands[0] if result is None else result]


@dataclass(frozen=True)
class Uses:
    """What one step does to arguments, eagerly."""

    step: Step
    # Of each operand, the arguments over whose memory it is before the step: that which they came
    # with, or have now.
    operands: list[set[int]]
    # Arguments whose version it raises.
    raises: set[int]

    @property
    def target(self) -> set[int]:
        """The arguments over whose memory the op writes, if it does."""
        return self.operands[self.step.written]


def uses_of(t: Any, program: Program) -> list[Uses]:
    """The steps of a program, as far as it runs."""
    values: dict[int, list[Any]] = {-1: make_arguments(t, program)[1]}
    args = values[-1]
    # Alive, so that memory given up is not taken for another's.
    storages = [value.untyped_storage() for value in args]
    given = [memory_of(t, value) for value in args]
    found: list[Uses] = []
    for number, step in enumerate(program.steps):
        memory = [{one, memory_of(t, value)} for one, value in zip(given, args, strict=True)]
        operands = [memory_of(t, values[where][which]) for where, which in step.operands]
        versions = [value._version for value in args]
        try:
            values[number] = run_step(t, step, values)
        except Exception:
            break
        found.append(
            Uses(
                step,
                [{i for i, ones in enumerate(memory) if one in ones} for one in operands],
                {i for i, value in enumerate(args) if value._version != versions[i]},
            )
        )
    del storages
    return found


# -- what a caller sees ----------------------------------------------------------------------------


def numbers_of(t: Any, value: Any) -> Any:
    """The values of a tensor; of a wrapper, those of its parts."""
    if isinstance(value, pair_class(t)):
        return numbers_of(t, value.a), numbers_of(t, value.b)
    if value.numel() and value.untyped_storage().nbytes() == 0:
        return "no memory"
    try:
        value = value.detach()
    except RuntimeError:
        return "less memory"
    if value.is_complex():
        value = t.view_as_real(value.resolve_conj())
    numbers = value.reshape(-1).tolist()
    if value.dtype is t.float32:
        # What comes of whole numbers: native code may round its last bits otherwise.
        return [float(f"{number:.4g}") for number in numbers]
    return [round(number, 9) for number in numbers]


def memory_of(t: Any, value: Any) -> int:
    if isinstance(value, pair_class(t)):
        return memory_of(t, value.a)
    storage = value.untyped_storage()
    return int(getattr(storage, "_cdata", id(storage)))


def answer(question: Callable[[], Any]) -> Any:
    """What asking gives, or the class of the error it raises."""
    try:
        return question()
    except Exception as failure:
        return type(failure).__name__


def look_of(t: Any, value: Any) -> dict[str, Any]:
    return {
        "values": numbers_of(t, value),
        "shape": tuple(value.shape),
        "stride": value.stride(),
        "requires_grad": value.requires_grad,
        "leaf": answer(lambda: value.grad_fn is None),
        "class": type(value).__name__,
    }


def place_of(value: Any, known: list[Any]) -> int | str:
    """The first place in `known` that holds this very object."""
    return next((place for place, other in enumerate(known) if other is value), "other")


def observe(t: Any, program: Program, function: Callable[..., Any]) -> dict[str, Any]:
    """All that a caller can see of one run, and of its backward."""
    leaves, args = make_arguments(t, program)
    # Alive, so that memory given up is not taken for another's.
    before = [a.untyped_storage() for a in args]
    versions = [a._version for a in args]
    try:
        outputs = list(function(*args))
    except Exception as failure:
        code = getattr(failure, "code", None)
        return {"error": type(failure).__name__, "text": str(failure), "code": code}
    tensors = [*args, *outputs]
    memory = [memory_of(t, value) for value in tensors]
    found = {
        "args": [look_of(t, value) for value in args],
        "outputs": [look_of(t, value) for value in outputs],
        "written": [a._version != v for a, v in zip(args, versions, strict=True)],
        "same": [place_of(value, tensors) for value in tensors],
        "memory": [memory.index(one) for one in memory],
        "views": [v._is_view() for v in outputs],
        "backward": backward(t, tensors),
        "grads": [None if v.grad is None else numbers_of(t, v.grad) for v in leaves],
        "after": [numbers_of(t, value) for value in tensors],
    }
    del before
    return found


def backward(t: Any, tensors: list[Any]) -> str:
    """Run it for all that requires a gradient; its error, if it fails."""
    needing = [
        (place + 1, value)
        for place, value in enumerate(tensors)
        if value.requires_grad and (value.untyped_storage().nbytes() or not value.numel())
    ]
    if not needing:
        return "nothing"
    try:
        losses = [(value * weight).sum() for weight, value in needing]
        t.autograd.backward([each.real if each.is_complex() else each for each in losses])
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"
    return "done"


# -- generating ------------------------------------------------------------------------------------

SHAPES = ((4,), (2, 2), (2, 3), (3,), (1, 4), (2, 2, 2), (), (4, 2), (0,), (2, 0))
ARGUMENT_VIEWS = ("view", "select", "slice", "transpose", "alias", "diagonal", "unsqueeze")


def generate(t: Any, number: int) -> Program:
    """The program with this number: it runs eagerly while it grows, so that most steps fit."""
    rng = random.Random(number)
    count = rng.randint(1, 2)
    leaves = tuple([(rng.choice(SHAPES), rng.random() < 0.6) for _ in range(count)])
    program = Program(leaves, (), (), ())
    program = with_arguments(t, rng, program)
    names, weights = choose_ops(rng)
    values: dict[int, list[Any]] = {-1: make_arguments(t, program)[1]}
    steps: list[Step] = []
    wanted = rng.randint(2, 8)
    for _ in range(4 * wanted):
        if len(steps) == wanted:
            break
        step = choose_step(rng, names, weights, values)
        if step is None:
            continue
        try:
            result = run_step(t, step, values)
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            # Now and then the failure itself is what is compared.
            if rng.random() < 0.02:
                steps.append(step)
                break
            # It may have written something before it failed.
            values = rerun(t, replace(program, steps=tuple(steps)))
            continue
        values[len(steps)] = result
        steps.append(step)
    refs = all_refs(values)
    outputs = rng.choices(refs, k=rng.randint(1, 4))
    return replace(program, steps=tuple(steps), outputs=tuple(outputs))


def choose_ops(rng: random.Random) -> tuple[list[str], list[int]]:
    """The ops that a program may hold, and how often each is taken: most of them, or a few, which
    then meet one another."""
    if rng.random() < 0.4:
        few = rng.sample(RARE, 2)
        for kind in (VIEWS, USES, WRITES):
            few += rng.sample(kind, 2)
        return few, [1] * len(few)
    rare = rng.sample(RARE, 2) if rng.random() < 0.6 else []
    names = [name for name in OPS if name not in RARE or name in rare]
    return names, [OPS[name].weight * (6 if name in rare else 1) for name in names]


def rerun(t: Any, program: Program) -> dict[int, list[Any]]:
    values: dict[int, list[Any]] = {-1: make_arguments(t, program)[1]}
    for number, step in enumerate(program.steps):
        values[number] = run_step(t, step, values)
    return values


def all_refs(values: dict[int, list[Any]]) -> list[Ref]:
    return [(where, which) for where, found in values.items() for which in range(len(found))]


def with_arguments(t: Any, rng: random.Random, program: Program) -> Program:
    forms = ["leaf", "value", "value", "view", "view", "view", "quiet view", "same"]
    if rng.random() < 0.06:
        forms = ["pair", "pair", "value"]
    found: list[Argument] = []
    for place in range(rng.randint(1, 3)):
        form = rng.choice(forms)
        if form == "same":
            if place:
                found.append(Argument("same", rng.randrange(place)))
                continue
            form = "value"
        source = rng.randrange(len(program.leaves))
        views: list[tuple[Any, ...]] = []
        value = t.zeros(program.leaves[source][0])
        for _ in range(rng.randint(1, 2) if form.endswith("view") else 0):
            name = rng.choice(ARGUMENT_VIEWS)
            arguments = OPS[name].choose(rng, value)
            if arguments is None:
                continue
            try:
                value = OPS[name].run(t, value, *arguments)
            except RuntimeError:
                continue
            views.append((name, *arguments))
        found.append(Argument(form, source, tuple(views)))
    return replace(program, arguments=tuple(found))


def choose_step(
    rng: random.Random, names: list[str], weights: list[int], values: dict[int, list[Any]]
) -> Step | None:
    (name,) = rng.choices(names, weights)
    refs = all_refs(values)
    operands = tuple(rng.choices(refs, k=OPS[name].operands))
    found = [values[where][which] for where, which in operands]
    if any([value.untyped_storage().nbytes() == 0 and value.numel() for value in found]):
        # Its memory was given up.
        return None
    if name == "set_" and type(found[0]) is not type(found[1]):
        return None
    arguments = OPS[name].choose(rng, found[0])
    if arguments is None:
        return None
    return Step(name, operands, tuple(arguments), rng.random() < 0.2)


# -- shrinking -------------------------------------------------------------------------------------


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A smaller program that still fails."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in reductions(program):
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program


def reductions(program: Program) -> Iterator[Program]:
    for number in reversed(range(len(program.steps))):
        yield without_step(program, number)
    if len(program.outputs) > 1:
        for place in range(len(program.outputs)):
            kept = (*program.outputs[:place], *program.outputs[place + 1 :])
            yield replace(program, outputs=kept)
    for place in range(len(program.arguments)):
        if len(program.arguments) > 1 and not is_used(program, place):
            yield without_argument(program, place)
        argument = program.arguments[place]
        for view in range(len(argument.views)):
            views = (*argument.views[:view], *argument.views[view + 1 :])
            yield with_argument(program, place, replace(argument, views=views))
        if argument.form in ("view", "quiet view") and not argument.views:
            yield with_argument(program, place, replace(argument, form="value"))
    for place, (shape, needs) in enumerate(program.leaves):
        if needs:
            leaves = (*program.leaves[:place], (shape, False), *program.leaves[place + 1 :])
            yield replace(program, leaves=leaves)
    for number, step in enumerate(program.steps):
        if step.quiet:
            steps = list(program.steps)
            steps[number] = replace(step, quiet=False)
            yield replace(program, steps=tuple(steps))


def with_argument(program: Program, place: int, argument: Argument) -> Program:
    arguments = list(program.arguments)
    arguments[place] = argument
    return replace(program, arguments=tuple(arguments))


def is_used(program: Program, place: int) -> bool:
    refs = [ref for step in program.steps for ref in step.operands] + list(program.outputs)
    return (-1, place) in refs or any(
        [a.form == "same" and a.source == place for a in program.arguments]
    )


def renamed(program: Program, change: Callable[[Ref], Ref]) -> Program:
    steps = [
        replace(step, operands=tuple([change(ref) for ref in step.operands]))
        for step in program.steps
    ]
    outputs = tuple([change(ref) for ref in program.outputs])
    return replace(program, steps=tuple(steps), outputs=outputs)


def without_argument(program: Program, place: int) -> Program:
    arguments = [
        replace(a, source=a.source - 1) if a.form == "same" and a.source > place else a
        for i, a in enumerate(program.arguments)
        if i != place
    ]

    def change(ref: Ref) -> Ref:
        return (-1, ref[1] - 1) if ref[0] == -1 and ref[1] > place else ref

    return renamed(replace(program, arguments=tuple(arguments)), change)


def without_step(program: Program, number: int) -> Program:
    """What used its results uses its first operand."""
    first = program.steps[number].operands[0]

    def change(ref: Ref) -> Ref:
        if ref[0] == number:
            return first
        return (ref[0] - 1, ref[1]) if ref[0] > number else ref

    steps = (*program.steps[:number], *program.steps[number + 1 :])
    return renamed(replace(program, steps=steps), change)
