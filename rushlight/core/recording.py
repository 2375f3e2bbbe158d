"""Proxy recording: the layer that writes each operator call into a graph.

A `Recorder` owns an `fx.Graph` and knows, by identity, which node made a tensor or a symbolic
number. A tensor that no node made is a constant: it becomes an attribute of the traced module.
Sizes and what is computed from them become nodes, as they were executed, where a call uses them.
Recorded calls run on below, by kernels or by shape rules.
"""

from __future__ import annotations

import copy
import operator
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.base.errors import error
from rushlight.core import dispatch, fake
from rushlight.core.device import channels_last, channels_last_3d, contiguous_format
from rushlight.core.op import OpOverload, find_overload
from rushlight.core.parameter import Parameter
from rushlight.core.state import (
    BELOW_PRE_PROXY,
    BELOW_PROXY,
    LAYER_PRE_PROXY,
    LAYER_PROXY,
    LOCAL,
    Occupant,
    changed,
)
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.symbolic import NUMBERS, SymInt
from rushlight.symbolic.numbers import Observer

if TYPE_CHECKING:
    from rushlight.core.protocols import Function
    from rushlight.symbolic.node import SymNode
    from rushlight.symbolic.numbers import SymNumber
    from rushlight.symbolic.protocols import Expr

# What a node inherits from the node, or the backward node, that is being run.
INHERITED = (
    "stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "original_aten", "recompute",
    "ac_graph_id", "has_backward_hook", "from_node", "quantization_tag", "custom",
    "partitioner_tag",
)  # fmt: skip


def inherit_meta(node: Node, meta: dict[str, Any] | None = None) -> None:
    """Give a new node what `fx.traceback` keeps for it, now or when it kept `meta`."""
    meta = LOCAL.state.node_meta if meta is None else meta
    if not meta:
        return
    for name in INHERITED:
        if name in meta:
            node.meta[name] = copy.copy(meta[name])
    if meta.get("in_grad_fn", 0) > 0:
        node.meta["seq_nr"] = meta["grad_fn_seq_nr"][-1]
        node.meta["autograd_backward"] = True
    elif "seq_nr" in meta:
        node.meta["seq_nr"] = meta["seq_nr"]


# A decomposition's own calls are recorded.
LAYER_PROXIES = LAYER_PRE_PROXY | LAYER_PROXY
# Ops that give a tensor's element as a number.
READS = ("_local_scalar_dense", "item")

__all__ = ["Recorder", "TensorMetadata", "bind_fresh_symbols", "inherit_meta", "tensor_metadata"]


# The format with channels last, by the number of dims.
CHANNELS_LAST = {4: channels_last, 5: channels_last_3d}


class TensorMetadata(NamedTuple):
    """The facts about a tensor that graph passes read."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: Any
    memory_format: Any
    is_quantized: bool = False
    qparams: Any = {}


def tensor_metadata(tensor: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    found, strides = None, ()
    if tensor._unusual is None:
        strides = strides_of(tensor)
        if include_contiguity:
            contiguous = tensor._is_contiguous
            found = contiguous_format if contiguous else format_of(tensor, len(strides))
    elif tensor.layout.name == "strided":
        strides = strides_of(tensor)
        if include_contiguity:
            # What is said of a value is no condition on its sizes.
            env = tensor.fake_mode.shape_env if isinstance(tensor, fake.FakeTensor) else None
            with nullcontext() if env is None else env.suppress_guards():
                found = format_of(tensor, len(strides))
    return TensorMetadata(tensor.shape, tensor._dtype, tensor.requires_grad, strides, found)


def format_of(tensor: Tensor, count: int) -> Any:
    if tensor.is_contiguous():
        return contiguous_format
    last = CHANNELS_LAST.get(count)
    return last if last and tensor.is_contiguous(memory_format=last) else None


class Tracked(NamedTuple):
    """A tensor's place in the graph."""

    tensor: Any
    node: Any
    # The value does not depend on the graph's inputs.
    fixed: bool


class Recorder(Occupant):
    """Records the operator calls made while it is active; with `pre_dispatch`, above autograd:
    composites whole, and the switches of grad mode."""

    slot = "proxy"
    covered = BELOW_PROXY

    def __init__(
        self,
        graph: Graph | None = None,
        decompositions: dict[Any, Callable[..., Any]] | None = None,
        pre_dispatch: bool = False,
    ) -> None:
        super().__init__()
        self.pre_dispatch = pre_dispatch
        if pre_dispatch:
            self.slot, self.covered = "pre_proxy", BELOW_PRE_PROXY
        self.graph = Graph() if graph is None else graph
        self.decompositions = decompositions or {}
        self.tensors: dict[int, Tracked] = {}
        # Expression -> its node, or what makes the node.
        self.numbers: dict[Any, Any] = {}
        # Identity of a SymNode -> itself, and its node or what makes the node.
        self.executed: dict[int, tuple[SymNode, Any]] = {}
        # Nodes of tensors whose geometry changes -> the call that changes it.
        self.moved: dict[Node, Node] = {}
        self.attributes: dict[str, Any] = {}
        # Of the tensors among them, which live as long as they do: identity -> name.
        self.constant_names: dict[int, str] = {}
        self.constant_counts: Counter[str] = Counter()
        # Whether checkpointed regions mark their nodes, for who cuts the graph into forward and
        # backward; and what the region that is being recorded says of a node.
        self.marks_regions = False
        self.marking: Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Any] | None = None
        # Writes on a new node where in the program it was made.
        self.describe_origin: Callable[[Node], None] | None = None

    # -- what is known -----------------------------------------------------------------------------

    def track(self, value: Any, node: Node, fixed: bool = False, binds_sizes: bool = True) -> None:
        """Note that `node` made this value; members of a sequence get nodes of their own. Unless
        it `binds_sizes`, the sizes of a tensor are to be had from other tensors."""
        describe(node, value)
        if isinstance(value, Tensor):
            key = id(value)
            reference = weakref.ref(value, lambda _: self.tensors.pop(key, None))
            self.tensors[key] = Tracked(reference, node, fixed)
            if binds_sizes:
                self.track_sizes(value, node)
        elif isinstance(value, NUMBERS):
            self.numbers[value.node.expr] = node
            self.executed[id(value.node)] = value.node, node
        elif isinstance(value, (list, tuple)):
            for position, item in enumerate(value):
                member = self.graph.call_function(operator.getitem, (node, position))
                self.place(member)
                self.track(item, member, fixed)

    def track_sizes(self, tensor: Tensor, node: Node) -> None:
        """Make symbolic sizes, strides and offsets known; their nodes are made on first use."""
        unusual: Any = tensor._unusual
        if unusual is None or unusual.sizes is None:
            return
        facts: list[Any] = [
            ("sym_size", "int", (axis,), size) for axis, size in enumerate(unusual.sizes)
        ]
        facts += [("sym_stride", "int", (axis,), step) for axis, step in enumerate(unusual.strides)]
        facts.append(("sym_storage_offset", "default", (), tensor._offset))
        for name, overload, rest, value in facts:
            if isinstance(value, SymInt):
                query = SizeNode(node, name, overload, rest, value)
                self.numbers.setdefault(value.node.expr, query)
                if node.op == "placeholder":
                    # Equal sizes of an input are numbers of their own.
                    self.executed.setdefault(id(value.node), (value.node, query))

    def track_alias(self, alias: Tensor, tensor: Tensor) -> None:
        """Let another object over the same tensor stand for the same node."""
        found = self.known(tensor)
        if found is not None:
            key = id(alias)
            reference = weakref.ref(alias, lambda _: self.tensors.pop(key, None))
            self.tensors[key] = Tracked(reference, found.node, found.fixed)

    def known(self, tensor: Tensor) -> Tracked | None:
        found = self.tensors.get(id(tensor))
        return found if found is not None and found.tensor() is tensor else None

    def node_of(self, value: Any) -> Any:
        """A call's argument as the graph has it."""
        if isinstance(value, Tensor):
            found = self.known(value)
            return self.constant(value) if found is None else found.node
        if isinstance(value, NUMBERS):
            return self.number_node(value)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            items = [self.node_of(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self.node_of(item) for key, item in value.items()}
        return value

    def number_node(self, number: SymNumber) -> Any:
        """The node of a symbolic number: the one that computed it, or one computed from known
        ones."""
        return self.node_of_symbolic(number.node)

    def node_of_symbolic(self, symbolic: SymNode) -> Any:
        expr, settled = symbolic.expr, symbolic.settled()
        if settled is not None:
            return settled
        _, found = self.executed.get(id(symbolic), (None, None))
        if isinstance(found, PendingNode):
            found = found.make(self)
            self.executed[id(symbolic)] = symbolic, found
        if found is not None:
            return found
        found = self.numbers.get(expr)
        if isinstance(found, PendingNode):
            found = self.numbers[expr] = found.make(self)
        if found is None:
            from rushlight.symbolic import build

            found = self.numbers[expr] = build(expr, self.symbol_node, self.apply_number)
            if hasattr(found, "meta"):
                describe(found, symbolic.wrapped())
        return found

    def note_number(self, function: Function, operands: tuple[Any, ...], result: SymNode) -> None:
        """A computation with symbols; its node is made where a call uses the result."""
        meta = LOCAL.state.node_meta
        self.executed[id(result)] = result, Computed(function, operands, result, meta)

    def symbol_node(self, symbol: Expr) -> Any:
        found = self.numbers.get(symbol)
        if isinstance(found, PendingNode):
            found = self.numbers[symbol] = found.make(self)
        if found is None:
            raise error("RL0711", symbol=symbol)
        return found

    def apply_number(self, function: Function, *operands: Any) -> Any:
        node = self.graph.call_function(function, operands)
        self.place(node)
        return node

    def submodule(self, prefix: str, module: Any, separator: str = "_") -> Node:
        """A graph that a higher-order op calls, as an attribute of the traced module."""
        number = 0
        while f"{prefix}{separator}{number}" in self.attributes:
            number += 1
        name = f"{prefix}{separator}{number}"
        self.attributes[name] = module
        node = self.graph.create_node("get_attr", name)
        inherit_meta(node)
        self.place(node)
        return node

    def place(self, node: Node) -> None:
        """Let a new node say where it comes from."""
        if self.describe_origin is not None:
            self.describe_origin(node)

    def call_node(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, name: str = ""
    ) -> Node:
        """The node of a higher-order op's call, on what the graph has for its arguments."""
        node = self.graph.create_node("call_function", op, args, kwargs or {}, name=name)
        inherit_meta(node)
        self.place(node)
        if self.marking is not None:
            node.meta.update(self.marking(op, args, kwargs or {}))
        return node

    def constant(self, tensor: Tensor) -> Node:
        """An attribute of the traced module for a tensor that comes from outside."""
        prefix = "_param_constant" if isinstance(tensor, Parameter) else "_tensor_constant"
        name = self.constant_names.get(id(tensor))
        if name is None:
            number = self.constant_counts[prefix]
            self.constant_counts[prefix] += 1
            name = self.constant_names[id(tensor)] = f"{prefix}{number}"
            self.attributes[name] = tensor
        return self.attribute_node(name, tensor)

    def attribute_node(self, name: str, tensor: Tensor) -> Node:
        node = self.graph.create_node("get_attr", name)
        self.track(tensor, node, fixed=True)
        return node

    # -- the layer ---------------------------------------------------------------------------------

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Record one call and run it below."""
        positional, keywords = dispatch.torch_arguments(op, args)
        rule = self.decompositions.get(op)
        if rule is not None:
            with changed(excluded=LOCAL.state.excluded | self.covered & ~LAYER_PROXIES):
                result = rule(*positional, **keywords)
            if result is not NotImplemented:
                return result
        operands = [args[position] for position in op.tensor_positions]
        for position in op.list_positions:
            operands += args[position] or ()
        tensors = [value for value in operands if isinstance(value, Tensor)]
        fixed = bool(tensors)
        for value in tensors:
            if not self.is_fixed(value):
                fixed = False
                break
        if op.base_name in READS and (fixed or not isinstance(tensors[0], fake.FakeTensor)):
            return self.read(op, args, fixed)
        inputs = [self.node_of(value) for value in positional]
        named = {name: self.node_of(value) for name, value in keywords.items()}
        target = op
        if op.base_name == "lift_fresh":
            # A constant must come out fresh each time the graph runs.
            target = find_overload("aten", "lift_fresh_copy", "default")
        node = self.graph.create_node(
            "call_function", target, tuple(inputs), named, name=target.base_name
        )
        inherit_meta(node)
        self.place(node)
        if self.marking is not None:
            node.meta.update(self.marking(op, positional, keywords))
        state = LOCAL.state
        excluded = state.excluded
        try:
            state.excluded = excluded | self.covered
            state.refresh()
            result = dispatch.go_on(target, args)
        except BaseException:
            self.graph.erase_node(node)
            raise
        finally:
            state.excluded = excluded
            state.refresh()
        # What is made of constants alone is one.
        stays = fixed and "nondeterministic_seeded" not in op.tags and small(result)
        stays = stays and not fake.holds_symbol(args)
        self.track(result, node, stays)
        bind_fresh_symbols(node, result)
        if op.mutated_positions:
            self.track_writes(op, args, result, node, stays)
            if op.out_positions or op.replayed_as is not None or op.options.get("manual"):
                for target in [*inputs, *named.values()]:
                    if isinstance(target, Node):
                        self.moved.setdefault(target, node)
        return result

    def track_writes(
        self, op: OpOverload, args: tuple[Any, ...], result: Any, node: Node, fixed: bool
    ) -> None:
        """Later uses of a written tensor depend on the write."""
        returned = result if isinstance(result, (list, tuple)) else (result,)
        for position in op.mutated_positions:
            target = args[position]
            if isinstance(target, Tensor) and not any(target is value for value in returned):
                known = self.known(target)
                self.track(target, node if known is None else known.node, fixed)

    def is_fixed(self, tensor: Tensor) -> bool:
        found = self.known(tensor)
        return found is None or found.fixed

    def note_switch(self, switch: Callable[..., Any], *args: Any) -> Node:
        """A switch of a mode as a node."""
        node = self.graph.call_function(switch, args)
        self.place(node)
        return node

    def read(self, op: OpOverload, args: tuple[Any, ...], fixed: bool) -> Any:
        """A number read out of a tensor while its values are at hand."""
        if not fixed:
            raise error("RL0712", op=op)
        with self.below():
            return dispatch.go_on(op, args)


def note_number(function: Function, operands: tuple[Any, ...], result: SymNode) -> None:
    """Tell recorders of a computation with symbols, unless it is made below them."""
    state = LOCAL.state
    for recorder, layer in ((state.pre_proxy, LAYER_PRE_PROXY), (state.proxy, LAYER_PROXY)):
        if recorder is not None and not state.excluded & layer:
            recorder.note_number(function, operands, result)


Observer.note = staticmethod(note_number)


class PendingNode:
    """A number that the graph does not need yet."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made: Any = None

    def make(self, recorder: Recorder) -> Any:
        """The node, the same each time."""
        if self.made is None:
            self.made = self.create(recorder)
        return self.made

    def create(self, recorder: Recorder) -> Any:
        raise NotImplementedError


class SizeNode(PendingNode):
    """A query of a size, stride or offset."""

    __slots__ = ("name", "node", "overload", "rest", "value")

    def __init__(
        self, node: Node, name: str, overload: str, rest: tuple[int, ...], value: SymInt
    ) -> None:
        super().__init__()
        self.node = node
        self.name = name
        self.overload = overload
        self.rest = rest
        self.value = value

    def create(self, recorder: Recorder) -> Any:
        op = find_overload("aten", self.name, self.overload)
        move = recorder.moved.get(self.node)
        # It is a size that the tensor had when it was made.
        with nullcontext() if move is None else recorder.graph.inserting_before(move):
            node = recorder.graph.create_node(
                "call_function", op, (self.node, *self.rest), name=f"{self.name}_{self.overload}"
            )
        describe(node, self.value)
        recorder.place(node)
        return node


class Computed(PendingNode):
    """A computation with numbers."""

    __slots__ = ("function", "meta", "operands", "result")

    def __init__(
        self,
        function: Function,
        operands: tuple[Any, ...],
        result: SymNode,
        meta: dict[str, Any] | None,
    ) -> None:
        super().__init__()
        self.function = function
        self.operands = operands
        self.result = result
        self.meta = meta

    def create(self, recorder: Recorder) -> Any:
        operands = [
            part if isinstance(part, (bool, int, float)) else recorder.node_of_symbolic(part)
            for part in self.operands
        ]
        node = recorder.graph.call_function(self.function, tuple(operands))
        inherit_meta(node, self.meta or {})
        describe(node, self.result.wrapped())
        recorder.place(node)
        return node


def bind_fresh_symbols(node: Node, result: Any) -> None:
    """Note on a node how the symbols for data that its call made are read from its value."""
    mode = LOCAL.state.fake
    env = None if mode is None else mode.shape_env
    if env is not None and env.pending_fresh_unbacked_symbols:
        from rushlight.symbolic import unbacked_bindings

        fresh, env.pending_fresh_unbacked_symbols = env.pending_fresh_unbacked_symbols, []
        found = unbacked_bindings(result, fresh)
        if found:
            node.meta["unbacked_bindings"] = found


def describe(node: Node, value: Any) -> None:
    """Put a value's geometry into its node's metadata."""
    if isinstance(value, Tensor):
        node.meta["val"] = fake.snapshot(value)
        node.meta["tensor_meta"] = tensor_metadata(value)
    elif isinstance(value, (list, tuple)):
        items = [fake.snapshot(item) for item in value]
        node.meta["val"] = items if isinstance(value, list) else tuple(items)
    elif value is not None:
        node.meta["val"] = value


def small(value: object) -> bool:
    """Whether a constant is small enough to be followed."""
    if isinstance(value, Tensor):
        sizes = sizes_of(value)
        return all(type(size) is int for size in sizes) and value.numel() <= fake.CONSTANT_LIMIT
    return True
