"""`SchemaCheckMode`: whether each operator writes to and shares memory with what its schema says.

`SchemaInfo` reads a schema together with the arguments of a call: an argument that shares memory
with a written one is written too.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

from rushlight.base.pytree import tree_leaves, tree_map
from rushlight.base.schema import Schema
from rushlight.core.device import strided
from rushlight.core.modes import TorchDispatchMode
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, storage_of

__all__ = ["Aliasing", "Mutation", "SchemaCheckMode", "SchemaInfo", "clone_inputs"]

# torch: schemas that leave out what these ops write while they train.
TRAINED = {"running_mean", "running_var"}
TRAINING = ("training", "train", "use_input_stats")
# Meant to hide that their results are views.
UNSAFE = ("aten::_unsafe_view", "aten::unsafe_split")
RETURN_INPUTS = ("aten::lift", "aten::lift_fresh")


class Mutation(NamedTuple):
    """A write that a schema allows."""

    op_name: str
    arg_name: str


class Aliasing(NamedTuple):
    """A result that shares memory with an argument, as its schema allows."""

    op_name: str
    arg_name: str
    output_number: str


def storages(value: Any) -> set[int]:
    return {
        id(storage_of(leaf))
        for leaf in tree_leaves(value)
        if isinstance(leaf, Tensor) and leaf.layout is strided
    }


def overlaps(first: Any, second: Any) -> bool:
    """Whether values share memory."""
    return not storages(first).isdisjoint(storages(second))


class SchemaInfo:
    """What a schema says of the call with the arguments that were added."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.values: dict[str, Any] = {}

    def add_argument_value(self, name: str, value: Any) -> None:
        self.values[name] = value

    def add_argument_values(self, values: dict[str, Any]) -> None:
        self.values.update(values)

    def is_mutable(self, argument: Any = None) -> bool:
        """Whether the operator, or the argument of a name or place, is written."""
        if argument is None:
            return bool(self.schema.is_mutable)
        arguments = self.schema.arguments
        if isinstance(argument, str):
            names = [entry.name for entry in arguments]
            if argument not in names:
                raise RuntimeError(f"Schema has no argument named {argument}")
            argument = names.index(argument)
        return any(self.is_written(arguments[place]) for place in self.sharing(argument))

    def is_written(self, argument: Any) -> bool:
        if argument.is_write:
            return True
        if argument.name not in TRAINED:
            return False
        # As the op is called without them, they default to training.
        return any(self.values.get(name, name in self.values) for name in TRAINING)

    def sharing(self, place: int) -> list[int]:
        """Places of the arguments that share memory with one, itself among them."""
        own = storages(self.values.get(self.schema.arguments[place].name))
        return [
            other
            for other, argument in enumerate(self.schema.arguments)
            if other == place or not own.isdisjoint(storages(self.values.get(argument.name)))
        ]

    def names_of_argument(self, place: int) -> set[str]:
        found: set[str] = set()
        for other in self.sharing(place):
            alias = self.schema.arguments[other].alias_info
            found |= set() if alias is None else set(alias.names)
        return found

    def names_of_return(self, place: int) -> set[str]:
        alias = self.schema.returns[place].alias_info
        return set() if alias is None else set(alias.names)

    def may_alias_argument(self, result: int, argument: int) -> bool:
        """Whether a result may share memory with an argument."""
        return meet(self.names_of_return(result), self.names_of_argument(argument))

    def may_alias_return(self, first: int, second: int) -> bool:
        """Whether two results may share memory: where they alias arguments that do."""
        names = self.names_of_return(second)
        for place in range(len(self.schema.arguments)):
            if self.may_alias_argument(second, place):
                names = names | self.names_of_argument(place)
        return meet(self.names_of_return(first), names)


def meet(first: set[str], second: set[str]) -> bool:
    return bool(first & second) or (bool(first and second) and "*" in first | second)


def clone_inputs(args: Any) -> list[Any]:
    """Arguments with their tensors copied."""
    return [
        tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf, value)
        for value in args
    ]


def unwrapped(value: Any) -> Any:
    """A tensor of a class of the program's own as what it wraps."""
    if isinstance(value, Tensor) and type(value) is not Tensor:
        return getattr(value, "elem", value)
    return value


class Snapshot:
    """A tensor as it was before a call."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.is_plain = type(tensor) is Tensor and tensor.layout is strided
        if self.is_plain:
            self.storage = storage_of(tensor)
            self.geometry = (tuple(tensor.shape), tensor.stride())
            self.values = None if tensor._array is None else tensor.detach().clone()

    def was_written(self) -> bool:
        if not self.is_plain:
            return False
        tensor = self.tensor
        if storage_of(tensor) is not self.storage:
            return True
        if (tuple(tensor.shape), tensor.stride()) != self.geometry:
            return True
        return self.values is not None and not same_values(self.values, tensor)


def same_values(before: Any, after: Any) -> bool:
    same = before.eq(after)
    if before.dtype.is_floating_point or before.dtype.is_complex:
        same = same | (before.ne(before) & after.ne(after))
    return bool(same.all())


class SchemaCheckMode(TorchDispatchMode):
    """Raises for an operator call that writes or aliases what its schema does not mark; keeps the
    names of ops, and the writes and aliases that are marked."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []
        self.mutated: list[Mutation] = []
        self.aliasing: list[Aliasing] = []

    def reset_cache(self) -> None:
        self.ops.clear()
        self.mutated.clear()
        self.aliasing.clear()

    def display_ops(self) -> None:
        print(*self.ops, sep=",")

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func._schema.name
        self.ops.append(name)
        bound = [tree_map(unwrapped, value) for value in func.bind(*args, **(kwargs or {}))]
        before = [
            [Snapshot(leaf) for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
            for value in bound
        ]
        info = SchemaInfo(func._schema)
        info.add_argument_values(dict(zip(func.argument_names, bound, strict=True)))
        # What aliases what is read before the call: an argument may be given other memory by it.
        written = [info.is_mutable(place) for place in range(len(bound))]
        out = func(*args, **(kwargs or {}))
        results = [tree_map(unwrapped, r) for r in (out if isinstance(out, tuple) else (out,))]
        for place, value in enumerate(bound):
            label = func.argument_names[place]
            label = "input" if label == "self" else label
            self.check_results(info, name, label, place, value, results, written[place])
            if any(snapshot.was_written() for snapshot in before[place]):
                if not written[place]:
                    raise RuntimeError(
                        f"Argument {label} is not defined as mutable but was mutated"
                    )
                self.mutated.append(Mutation(name, label))
        for first, second in combinations(range(len(func._schema.returns)), 2):
            if overlaps(results[first], results[second]) and not info.may_alias_return(
                first, second
            ):
                raise RuntimeError(f"Outputs {first} and {second} alias unexpectedly")
        return out

    def check_results(
        self,
        info: SchemaInfo,
        name: str,
        label: str,
        place: int,
        value: Any,
        results: list[Any],
        written: bool,
    ) -> None:
        """The results that share memory with one argument are those that the schema marks."""
        for number, result in enumerate(results[: len(info.schema.returns)]):
            if overlaps(result, value) and name not in UNSAFE:
                if not info.may_alias_argument(number, place):
                    raise RuntimeError(
                        f"Argument {label} is not defined to alias output but was aliasing"
                    )
                self.aliasing.append(Aliasing(name, label, f"output_{number}"))
            is_input = result is value and isinstance(value, Tensor)
            if is_input and not written and name not in RETURN_INPUTS:
                raise RuntimeError(
                    "Dispatcher operators below autograd are not allowed to directly return "
                    f"inputs.\nHowever, we found that `outputs[{number}] is {label}"
                )
