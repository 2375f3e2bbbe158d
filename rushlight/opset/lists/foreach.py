"""Ops on lists of tensors: `_foreach_add` and its kin, each derived from the op on one tensor.

A row of a table names a family member and the op that it maps over its lists. Gradients are those
of that op, one node for each tensor; below autograd the whole list is one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from rushlight.core import dispatch, history
from rushlight.core.dtype import unsupported
from rushlight.core.functional import map_tensors
from rushlight.core.node import needs_grad
from rushlight.core.op import OpOverload
from rushlight.core.state import BELOW_FUNCTIONAL, LOCAL, PROCESS, excluding
from rushlight.core.tensor import Tensor
from rushlight.opset import registry
from rushlight.opset.kinds import OPAQUE

# Loaded for their ops.
from rushlight.opset.pointwise import arithmetic, elementary, special  # noqa: F401
from rushlight.opset.registry import find, op, register
from rushlight.opset.rules import sample

__all__ = ["foreach", "writes_lists"]

Entries = list[tuple[Any, ...]]


def each(op: Any, args: tuple[Any, ...]) -> list[tuple[OpOverload, tuple[Any, ...]]]:
    """The calls that a call on lists stands for."""
    return cast("list[tuple[OpOverload, tuple[Any, ...]]]", op.options["each"](op, args))


def zipped(op: Any, args: tuple[Any, ...]) -> Entries:
    """One tuple of arguments for each tensor; what is no list goes to every one."""
    kinds = [argument.type for argument in op._schema.arguments]
    lists = [place for place, kind in enumerate(kinds) if kind.kind == "List"]
    tensors = [place for place in lists if kinds[place].is_tensor_like]
    count = len(args[tensors[0]])
    if not count:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for place in lists:
        if len(args[place]) == count:
            continue
        if place not in tensors:
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {count} and {len(args[place])}"
        )
    return [
        tuple([value[number] if place in lists else value for place, value in enumerate(args)])
        for number in range(count)
    ]


def anything_needs_grad(args: tuple[Any, ...]) -> bool:
    for value in args:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor) and needs_grad(tensor):
                return True
    return False


def is_apart() -> bool:
    """Whether transforms or forward mode are active, which know single tensors only."""
    if not PROCESS.special:
        return False
    state = LOCAL.state
    return bool(state.transforms) or state.forward_level >= 0


def run_below(op: Any, args: tuple[Any, ...]) -> Any:
    if PROCESS.special or dispatch.layers_of(op, args):
        return dispatch.run_below(op, args, LOCAL.state)
    return op.backend(*args)


def records_gradients(args: tuple[Any, ...]) -> bool:
    return (not PROCESS.special or LOCAL.state.grad) and anything_needs_grad(args)


def autograd_layer(op: Any) -> Callable[..., Any]:
    """What an op on lists does above its backend."""

    traced = op.options.get("traced")

    def layer(*args: Any) -> Any:
        apart = is_apart()
        unknown = traced is not None and args[-1]._array is None
        if unknown and (apart or records_gradients(args)):
            return traced(*args)
        if apart:
            return [dispatch.call(base, rest) for base, rest in each(op, args)]
        if not records_gradients(args):
            return run_below(op, args)
        calls = each(op, args)
        nodes = [
            base.grad_rule.make_node(*rest)
            if base.grad_rule is not None and anything_needs_grad(rest)
            else None
            for base, rest in calls
        ]
        results = run_below(op, args)
        for (base, _), node, result in zip(calls, nodes, results, strict=True):
            if node is not None:
                history.attach(base, node, result)
        return results

    def writing_layer(*args: Any) -> None:
        if is_apart() or records_gradients(args):
            for base, rest in each(op, args):
                dispatch.call(base, rest)
            return
        write_quietly(op, args)

    return writing_layer if op._schema.is_mutable else layer


def write_quietly(op: Any, args: tuple[Any, ...]) -> Any:
    """A write that no gradient follows: checks, the backend, one more version each."""
    targets = written(op, args)
    for target in targets:
        history.check_inplace(target, False, False)
    result = run_below(op, args)
    state = LOCAL.state if PROCESS.special else None
    for target in targets:
        history.bump_version(target, state)
    return result


def written(op: Any, args: tuple[Any, ...]) -> list[Any]:
    """The tensors that an op writes to, those in lists one by one."""
    found: list[Any] = []
    for position in op.mutated_positions:
        value = args[position]
        found += value if isinstance(value, (list, tuple)) else [value]
    return found


def is_in_turn(mode: Any, op: Any, args: tuple[Any, ...]) -> bool:
    """Whether one entry of the lists writes what another one has too: the order counts."""
    entries: dict[int, set[int]] = {}
    for position in (*op.list_positions, *op.tensor_positions):
        value = args[position]
        listed = isinstance(value, (list, tuple))
        for number, tensor in enumerate(value if listed else [value]):
            if mode.is_own(tensor):
                place = number if listed else -1
                entries.setdefault(id(tensor.functional_storage), set()).add(place)
    targets = [target for target in written(op, args) if mode.is_own(target)]
    return any([len(entries[id(target.functional_storage)]) > 1 for target in targets])


def functionalized(mode: Any, op: Any, args: tuple[Any, ...]) -> Any:
    """The write as a function of values, whose results the written tensors take over."""
    if "each" in op.options and is_in_turn(mode, op, args):
        for base, rest in each(op, args):
            mode.process(base, rest)
        return None
    values = map_tensors(op, args, mode.value_of)
    with excluding(BELOW_FUNCTIONAL):
        result = dispatch.below_autograd(op.functional, tuple(values))
    flat: list[Any] = []
    for value in result if isinstance(result, (list, tuple)) else [result]:
        flat += value if isinstance(value, (list, tuple)) else [value]
    for target, value in zip(written(op, args), flat, strict=True):
        mode.replace(target, value)
    return args[op.mutated_positions[0]] if op._schema.returns else None


def writes_lists(record: OpOverload, functional: OpOverload) -> None:
    """Make `record` the in-place form of `functional`, which returns what is written."""
    record.functional = functional
    record.rules["functionalized"] = functionalized
    record.autograd_only = True


# -- makers ----------------------------------------------------------------------------------------


def completed(base: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of `base` with its defaults for those not given."""
    rest = base._schema.arguments[len(args) :]
    return (*args, *[argument.default for argument in rest])


def mapped(name: str, overload: str) -> Callable[[Any, tuple[Any, ...]], Any]:
    """`each` for an op whose arguments are those of `name.overload`, one by one."""

    def each(record: Any, args: tuple[Any, ...]) -> Any:
        base = find(name, overload)
        return [(base, completed(base, entry)) for entry in zipped(record, args)]

    return each


def map_over(record: OpOverload) -> None:
    """Give an op on lists the rules of those that it stands for."""
    record.options["takes_tensors"] = True

    @record.shape
    def _(*args: Any) -> Any:
        return [base.kind.run_shape(base, rest) for base, rest in each(record, args)]

    @record.kernel
    def _(*args: Any) -> Any:
        results = [base.backend(*rest) for base, rest in each(record, args)]
        return None if record._schema.is_mutable else results


def foreach(
    schema: str, each: Callable[[Any, tuple[Any, ...]], Any], samples: Any, **options: Any
) -> OpOverload:
    record = op(schema, kind=OPAQUE, method=False, out=False, each=each, **options)
    map_over(record)
    record.body, record.autograd_only = autograd_layer(record), True
    record.samples = samples
    return record


def in_place(base: OpOverload, each: Callable[[Any, tuple[Any, ...]], Any]) -> OpOverload:
    """The form that writes into the tensors of its first list."""
    name, _, overload = base._schema.text.partition("(")[0].partition(".")
    inside = base._schema.text.split("(", 1)[1].rsplit(") -> ", 1)[0]
    inside = inside.replace("Tensor[] self", "Tensor(a!)[] self", 1)
    head = f"{name}_{'.' if overload else ''}{overload}"
    record = OpOverload(f"{head}({inside}) -> ()", OPAQUE, method=False, out=False, each=each)
    map_over(record)
    record.body = autograd_layer(record)
    writes_lists(record, base)
    register(record)
    return record


def pair(schema: str, name: str, overload: str, samples: Any) -> None:
    """An op on lists after `name.overload`, and its in-place form."""
    in_place(foreach(schema, mapped(name, overload), samples), mapped(f"{name}_", overload))


# -- samples ---------------------------------------------------------------------------------------


def lists(make: Any, count: int, **domain: Any) -> list[list[Any]]:
    """`count` lists of three tensors with the same sizes."""
    return [
        [make(2, 3, **domain), make.strided(3, 2, **domain), make(**domain)] for _ in range(count)
    ]


def list_samples(count: int, *rest: Any, **domain: Any) -> Callable[[Any], Any]:
    def samples(make: Any) -> Any:
        yield sample(*lists(make, count, **domain), *rest)
        yield sample(*[[make(2, 0, **domain)] for _ in range(count)], *unlisted(rest))

    return samples


def unlisted(rest: tuple[Any, ...]) -> list[Any]:
    """The arguments after the lists, for one tensor instead of three."""
    return [value[:1] if isinstance(value, list) else value for value in rest]


# -- one operand -----------------------------------------------------------------------------------

for record in registry.registered():
    if record.options.get("on_lists"):
        name = record.base_name
        low, high = record.options.get("domain", (None, None))
        limits = {"low": low, "high": high}
        domain = {side: value for side, value in limits.items() if value is not None}
        pair(
            f"_foreach_{name}(Tensor[] self) -> Tensor[]",
            name,
            "default",
            list_samples(1, **domain),
        )

# -- two operands ----------------------------------------------------------------------------------

# name -> (op with a number, op with a tensor, what follows the second operand)
BINARY = {
    "add": (("add", "Scalar"), ("add", "Tensor"), ", *, Scalar alpha=1"),
    "sub": (("sub", "Scalar"), ("sub", "Tensor"), ", *, Scalar alpha=1"),
    "mul": (("mul", "Scalar"), ("mul", "Tensor"), ""),
    "div": (("div", "Scalar"), ("div", "Tensor"), ""),
    "clamp_max": (("clamp_max", "default"), ("clamp_max", "Tensor"), ""),
    "clamp_min": (("clamp_min", "default"), ("clamp_min", "Tensor"), ""),
    "maximum": (("clamp_min", "default"), ("maximum", "default"), ""),
    "minimum": (("clamp_max", "default"), ("minimum", "default"), ""),
}
NUMBERS = [1.5, 2, 0.5]


def binary(name: str, number: tuple[str, str], tensor: tuple[str, str], alpha: str) -> None:
    head = f"_foreach_{name}"
    # Off the values of the operands, where maximum and minimum have kinks.
    bound = 1.2345
    pair(
        f"{head}.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]", *number, list_samples(1, bound)
    )
    domain = {"low": 0.5} if name == "div" else {}

    def two_lists(make: Any) -> Any:
        first = lists(make, 1)[0]
        second = lists(make, 1, **domain)[0]
        if name not in ("add", "sub", "mul", "div"):
            second = [make.distinct(2, 3), make.distinct(3, 2).t().t(), make(low=7, high=9)]
        yield first, second
        if alpha:
            yield sample(first, second, alpha=2)

    schema = f"{head}.List(Tensor[] self, Tensor[] other{alpha}) -> Tensor[]"
    ways = [mapped(f"{tensor[0]}{mark}", tensor[1]) for mark in ("", "_")]
    if tensor[0] in ("maximum", "minimum"):
        # There is no `maximum_`: the in-place form writes a clamp, which is the same.
        clamp = number[0]
        ways = [of_real(name, ways[0]), of_real(name, mapped(f"{clamp}_", "Tensor"))]
    in_place(foreach(schema, ways[0], two_lists), ways[1])
    pair(
        f"{head}.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
        *number,
        list_samples(1, NUMBERS),
    )
    if name not in ("add", "mul", "div"):
        return
    functional, writing = (with_one_tensor(f"{tensor[0]}{mark}") for mark in ("", "_"))
    made = foreach(
        f"{head}.Tensor(Tensor[] self, Tensor other{alpha}) -> Tensor[]",
        functional,
        lambda make: [(lists(make, 1)[0], make(low=1, high=3))],
    )
    made.errors = lambda make: [(RuntimeError, sample([make(2)], make(2)))]
    in_place(made, writing)


def of_real(kernel: str, each: Callable[[Any, tuple[Any, ...]], Any]) -> Any:
    """`each` that refuses complex tensors."""

    def checked(record: Any, args: tuple[Any, ...]) -> Any:
        for tensor in args[0]:
            if tensor.is_complex():
                raise unsupported(f"{kernel}_cpu", tensor._dtype)
        return each(record, args)

    return checked


def with_one_tensor(name: str) -> Callable[[Any, tuple[Any, ...]], Any]:
    """`each` for lists that meet one tensor of dimension 0."""
    plain = mapped(name, "Tensor")

    def each(record: Any, args: tuple[Any, ...]) -> Any:
        other = args[1]
        if other.dim() != 0:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and "
                f"{other.numel()} elements."
            )
        return plain(record, args)

    return each


for name, row in BINARY.items():
    binary(name, *row)

rest: Any
for overload, text, base, rest in (
    ("List", "Tensor[] exponent", "Tensor_Tensor", None),
    ("Scalar", "Scalar exponent", "Tensor_Scalar", 2),
    ("ScalarList", "Scalar[] exponent", "Tensor_Scalar", NUMBERS),
):
    pair(
        f"_foreach_pow.{overload}(Tensor[] self, {text}) -> Tensor[]",
        "pow",
        base,
        list_samples(2, low=0.5, high=2.0) if rest is None else list_samples(1, rest, low=0.5),
    )
foreach(
    "_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]",
    mapped("pow", "Scalar"),
    lambda make: [(2.5, lists(make, 1)[0])],
)

for overload, text, base, rest in (
    ("List", "Tensor[] weights", "Tensor", None),
    ("Scalar", "Scalar weight", "Scalar", 0.25),
    ("ScalarList", "Scalar[] weight", "Scalar", [0.25, 0.75, 2.0]),
):
    pair(
        f"_foreach_lerp.{overload}(Tensor[] self, Tensor[] tensors1, {text}) -> Tensor[]",
        "lerp",
        base,
        list_samples(3) if rest is None else list_samples(2, rest),
    )

# -- three operands --------------------------------------------------------------------------------


def with_factors(name: str) -> Callable[[Any, tuple[Any, ...]], Any]:
    """`each` for lists with one factor per tensor, in a tensor."""

    def each(record: Any, args: tuple[Any, ...]) -> Any:
        base, scalars = find(name), args[3]
        if scalars.dim() != 1:
            raise RuntimeError(
                f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead."
            )
        count = len(args[0])
        if scalars.shape[0] != count:
            raise RuntimeError(
                f"Expected length of scalars to match input of length {count} but got "
                f"{scalars.shape[0]} instead."
            )
        # Without values a shape rule still sees numbers of the right kind.
        dtype = scalars._dtype
        unknown = 1j if dtype.is_complex else 1.0 if dtype.is_floating_point else 1
        numbers = [unknown] * count if scalars._array is None else scalars._array.tolist()
        return [
            (base, (*rest[:3], number))
            for rest, number in zip(zipped(record, args), numbers, strict=True)
        ]

    return each


def with_unknown_factors(name: str) -> Callable[..., Any]:
    """The same for factors that have no values while a graph is traced."""

    def traced(self: Any, tensor1: Any, tensor2: Any, scalars: Any) -> Any:
        factors = [scalars.detach().select(0, number) for number in range(len(self))]
        each = zip(self, tensor1, tensor2, factors, strict=True)
        if name == "addcmul":
            return [value + first * second * factor for value, first, second, factor in each]
        return [value + first / second * factor for value, first, second, factor in each]

    return traced


for name in ("addcmul", "addcdiv"):
    head = f"_foreach_{name}"
    inputs = "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2"
    domain = {"low": 0.5} if name == "addcdiv" else {}
    pair(
        f"{head}.Scalar({inputs}, Scalar value=1) -> Tensor[]",
        name,
        "default",
        list_samples(3, 2, **domain),
    )
    pair(
        f"{head}.ScalarList({inputs}, Scalar[] scalars) -> Tensor[]",
        name,
        "default",
        list_samples(3, NUMBERS, **domain),
    )
    made = foreach(
        f"{head}.Tensor({inputs}, Tensor scalars) -> Tensor[]",
        with_factors(name),
        lambda make, domain=domain: [(*lists(make, 3, **domain), make(3, low=1, high=3))],
        traced=with_unknown_factors(name),
    )
    in_place(made, with_factors(f"{name}_"))

# -- others ----------------------------------------------------------------------------------------


def norms(record: Any, args: tuple[Any, ...]) -> Any:
    base = find("linalg_vector_norm")
    return [
        (base, (self, order, None, False, dtype)) for self, order, dtype in zipped(record, args)
    ]


foreach(
    "_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
    norms,
    lambda make: [
        (lists(make, 1, low=0.5)[0],),
        (lists(make, 1, low=0.5)[0], 1),
        ([make.distinct(2, 3)], float("inf")),
    ],
)
foreach(
    "_foreach_max(Tensor[] self) -> Tensor[]",
    mapped("max", "default"),
    lambda make: [([make.distinct(2, 3), make.distinct(4)],)],
)
foreach(
    "_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]",
    mapped("mm", "default"),
    lambda make: [([make(2, 3), make(1, 2)], [make(3, 2), make.strided(2, 2)])],
)
foreach(
    "_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]",
    mapped("clone", "default"),
    list_samples(1),
)
in_place(
    foreach(
        "_foreach_zero(Tensor[] self) -> Tensor[] self_out",
        mapped("zero", "default"),
        list_samples(1),
        function=False,
    ),
    mapped("zero_", "default"),
)
in_place(
    foreach(
        "_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[] self_out",
        mapped("copy", "default"),
        list_samples(2),
        function=False,
    ),
    mapped("copy_", "default"),
)
