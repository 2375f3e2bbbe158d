"""What the rules of higher-order ops share: functions run, functionalized and traced as graphs.

Invariant: a function given to an op never changes its operands, nor returns one of them or a
view of one, when it is part of a graph: `check_pure` refuses. A tensor of the surrounding graph
that a function closes over becomes an operand, as do its sizes.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core import ports
from rushlight.core.batching import BatchedTensor
from rushlight.core.functional import (
    FunctionalLevel,
    FunctionalMode,
    FunctionalTensor,
    from_functional,
    to_functional,
)
from rushlight.core.levels import LevelTensor
from rushlight.core.recording import Recorder
from rushlight.core.state import (
    LAYER_AUTOCAST,
    LAYER_AUTOGRAD,
    LAYER_FUNCTIONAL,
    LAYER_MODES,
    LAYER_PRE_FUNCTIONAL,
    LAYER_SUBCLASS,
    LAYER_TRANSFORMS,
    LOCAL,
    changed,
)
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.symbolic.numbers import SymInt

if TYPE_CHECKING:
    from rushlight.symbolic.numbers import SymNumber

__all__ = ["Functionalized", "Subgraphs", "is_integer", "is_traced", "trace_functions", "unwrapped"]

Function = Callable[..., Any]


def is_traced(args: Any) -> bool:
    """Whether somebody records the call or runs it by shapes, so that branches must stay."""
    state = LOCAL.state
    if state.pre_functional is not None or state.pre_proxy is not None:
        return True
    if state.functional is not None or state.proxy is not None or state.fake is not None:
        return True
    return any([is_handled(value) for value in pytree.tree_leaves(args)])


def is_handled(value: Any) -> bool:
    """Whether a tensor, or what it wraps for a level, belongs to a layer below autograd."""
    while isinstance(value, (BatchedTensor, LevelTensor)):
        value = value._value
    return isinstance(value, Tensor) and bool(value.handling_layer)


# -- functionalization -----------------------------------------------------------------------------


def unwrapped(values: Any) -> Any:
    return pytree.tree_map(from_functional, values)


class BranchMode(FunctionalMode):
    """Functionalization inside a function of an op: only what was made inside may be written."""

    @classmethod
    def inside(cls, mode: FunctionalMode) -> FunctionalMode:
        """The same as a mode does for ops, for what a function does that an op of its calls."""
        if isinstance(mode, FunctionalLevel):
            # A level is one of the stack of transforms, and what it wraps is its own.
            return cls(mode.slot == "pre_functional")
        made = copy.copy(mode)
        made.tokens = {}
        made.finds_tokens, made.make_token = True, None
        if not isinstance(mode, cls):
            made.__class__ = branch_class(type(mode))
        return made

    def replace(self, target: FunctionalTensor, value: Tensor) -> None:
        if target.functional_storage.mode is not self:
            raise error("RL0731", op="a higher-order op")
        super().replace(target, value)


@functools.cache
def branch_class(cls: type[FunctionalMode]) -> type[FunctionalMode]:
    bases = (BranchMode,) if cls is FunctionalMode else (BranchMode, cls)
    return type(f"Branch{cls.__name__}", bases, {})


# What stands above a rule and is open again for the functions that it runs.
ABOVE = LAYER_TRANSFORMS | LAYER_AUTOCAST | LAYER_AUTOGRAD | LAYER_MODES | LAYER_SUBCLASS


def reopened(layers: int = 0) -> changed:
    return changed(excluded=LOCAL.state.excluded & ~(ABOVE | layers))


class Functionalized:
    """A function on values, with its own writes and views followed; it must leave its operands
    alone."""

    def __init__(self, mode: FunctionalMode, op: str, function: Function) -> None:
        self.mode = mode
        self.above = mode.slot == "pre_functional"
        self.op = op
        self.function = function

    def __call__(self, *args: Any) -> Any:
        if any([isinstance(value, BatchedTensor) for value in args]):
            # An op vectorizes the function below this layer, and vmap follows writes itself.
            return self.function(*args)
        branch = BranchMode.inside(self.mode)
        inputs = [to_functional(v, branch) if isinstance(v, Tensor) else v for v in args]
        for value in inputs:
            if isinstance(value, Tensor):
                value._requires_grad = False
        with reopened(LAYER_PRE_FUNCTIONAL if self.above else LAYER_FUNCTIONAL), branch:
            outputs = self.function(*inputs)
        check_pure(self.op, inputs, outputs)
        return pytree.tree_map(from_functional, outputs)


class Watched:
    """A function that must not close over tensors that require a gradient: an op's gradient is
    taken with respect to its operands alone."""

    def __init__(self, op: str, function: Function) -> None:
        self.op = op
        self.function = function

    def __call__(self, *args: Any) -> Any:
        needing = any([isinstance(v, Tensor) and v.requires_grad for v in args])
        with changed(grad=True):
            outputs = self.function(*args)
        if not needing:
            for value in pytree.tree_leaves(outputs):
                if isinstance(value, Tensor) and value.requires_grad:
                    raise error("RL0734", op=self.op)
        return outputs


def check_pure(op: str, inputs: Sequence[Any], outputs: Any) -> None:
    storages = set()
    for value in inputs:
        if isinstance(value, FunctionalTensor):
            if value.functional_storage.writes or value.moves:
                raise error("RL0731", op=op)
            storages.add(id(value.functional_storage))
    for value in pytree.tree_leaves(outputs):
        if isinstance(value, FunctionalTensor) and id(value.functional_storage) in storages:
            raise error("RL0732", op=op)


def apart(outputs: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Outputs, as copies where they share memory with an input: a sum passes its gradient on."""
    storages = {id(v.functional_storage) for v in inputs if isinstance(v, FunctionalTensor)}
    return tuple(
        value.clone()
        if isinstance(value, FunctionalTensor) and id(value.functional_storage) in storages
        else value
        for value in outputs
    )


# -- graphs ----------------------------------------------------------------------------------------


class SubgraphRecorder(Recorder):
    """Records a function of a higher-order op; what the surrounding recorder knows is lifted."""

    def __init__(self, parent: Recorder) -> None:
        super().__init__(None, parent.decompositions, parent.pre_dispatch)
        self.parent = parent
        self.describe_origin = parent.describe_origin
        # Tensors and numbers.
        self.lifted: list[Any] = []

    def constant(self, tensor: Tensor) -> Any:
        if self.parent.known(tensor) is None and not self.is_above(tensor):
            return super().constant(tensor)
        return self.lift(tensor)

    def is_fixed(self, tensor: Tensor) -> bool:
        found = self.known(tensor)
        # What recorders further out know is no constant of this graph.
        return self.parent.is_fixed(tensor) if found is None else found.fixed

    def lift(self, value: Any) -> Any:
        self.lifted.append(value)
        node = self.graph.create_node("get_attr", f"lifted_{len(self.lifted)}")
        self.track(value, node)
        return node

    def number_node(self, number: SymNumber) -> Any:
        symbols = number.node.expr.free_symbols
        if all([symbol in self.numbers for symbol in symbols]):
            return super().number_node(number)
        return self.numbers.get(number.node.expr) or self.lift(number)

    def is_above(self, tensor: Tensor) -> bool:
        """Whether a recorder further out knows the tensor."""
        parent = self.parent
        return isinstance(parent, SubgraphRecorder) and (
            parent.parent.known(tensor) is not None or parent.is_above(tensor)
        )


class Subgraphs:
    """Traced functions and the operands that all of them take."""

    def __init__(self, modules: list[Any], outputs: list[Any], lifted: list[Any]) -> None:
        self.modules = modules
        # What each function returned while it was traced.
        self.outputs = outputs
        # What is closed over, further operands of every graph.
        self.lifted = lifted


def trace_functions(
    recorder: Recorder, functions: Sequence[Function], args: Sequence[Any]
) -> Subgraphs:
    """Each function as a graph of the operands and of what any of them closes over."""
    lifted: list[Any] = []
    while True:
        found: list[Any] = []
        modules, outputs = [], []
        for function in functions:
            module, output, more = trace_one(recorder, function, args, lifted)
            modules.append(module)
            outputs.append(output)
            found += [v for v in more if not any(v is known for known in found)]
        if not found:
            return Subgraphs(modules, outputs, lifted)
        lifted = [*lifted, *found]


def trace_one(
    parent: Recorder, function: Function, args: Sequence[Any], lifted: Sequence[Any]
) -> tuple[Any, Any, list[Any]]:
    recorder = SubgraphRecorder(parent)
    args = distinct(parent, args)
    for position, value in enumerate((*args, *lifted)):
        node = recorder.graph.create_node("placeholder", f"arg{position}_1")
        if not isinstance(value, (bool, int, float, str, type(None))):
            recorder.track(value, node)
    with reopened(), recorder:
        outputs = function(*args)
    if recorder.lifted:
        return None, outputs, recorder.lifted
    module = ports.graph_module(recorder, outputs, "<lambda>")
    return module, outputs, []


def distinct(recorder: Recorder, args: Sequence[Any]) -> list[Any]:
    """The arguments, a tensor that is given twice as two: each is an input of its own."""
    found: list[Any] = []
    for value in args:
        if isinstance(value, Tensor) and any(value is other for other in found):
            with recorder.below():
                value = value.detach()
        found.append(value)
    return found


# -- comparing branches ----------------------------------------------------------------------------


def is_integer(value: Any) -> bool:
    return isinstance(value, (int, SymInt)) and not isinstance(value, bool)


def likeness(value: Any, with_strides: bool) -> Any:
    if not isinstance(value, Tensor):
        return int if is_integer(value) else type(value)
    strides = strides_of(value) if with_strides else None
    return sizes_of(value), strides, value._dtype, value.device


def check_alike(
    op: str, first: Sequence[Any], second: Sequence[Any], with_strides: bool = False
) -> None:
    """Refuse two functions, or a function and what it carries, that differ in their tensors."""
    if len(first) != len(second):
        raise error("RL0733", op=op, first=len(first), second=len(second))
    for one, other in zip(first, second, strict=True):
        found, expected = likeness(one, with_strides), likeness(other, with_strides)
        if found != expected:
            raise error("RL0733", op=op, first=found, second=expected)
