"""Images with their channels last inside graphs: the layout that native convolutions read.

Sizes and the strides of what goes in and out stay as they are; in between, results of convolutions
and of what is computed from them element by element have their channels last. Where an op might see
the difference, a copy in the usual order stands between.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

from rushlight.aot.partition import simplified_partition
from rushlight.codegen.steps import last_strides, lies_last
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import channels_last, contiguous_format
from rushlight.core.fake import FakeTensor
from rushlight.core.op import OpOverload, find_overload
from rushlight.core.tensor import Tensor, shell
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.opset.heavy import LEAST

__all__ = ["in_partitions", "put_channels_last"]

CONVOLUTION = "aten.convolution.default"
CONVOLUTION_BACKWARD = "aten.convolution_backward.default"
NORMS = (
    "aten._native_batch_norm_legit_functional.default",
    "aten._native_batch_norm_legit_no_training.default",
)
NORM_BACKWARD = "aten.native_batch_norm_backward.default"
ALIASES = ("aten.detach.default", "aten.alias.default")
# Which of an op's arguments have to have their channels last for its native form.
NEEDS = {CONVOLUTION: (0,), CONVOLUTION_BACKWARD: (0, 1), NORM_BACKWARD: (0, 1)} | {
    norm: (0,) for norm in NORMS
}


def in_partitions(joint: GraphModule, *args: Any, **kwargs: Any) -> Any:
    """Forward and backward of a joint graph, channels last inside both and between them."""
    put_channels_last(joint)
    return simplified_partition(joint, *args, **kwargs)


def put_channels_last(module: GraphModule) -> None:
    """Change a graph of functional ops whose nodes carry `meta["val"]`."""
    nodes = module.graph.nodes
    works = [work_of(n) for n in nodes if name_of(n) in (CONVOLUTION, CONVOLUTION_BACKWARD)]
    if works and min(works) > 0 and max(works) >= LEAST:
        Layout(module).run()


def name_of(node: Node) -> str:
    return str(node.target) if isinstance(node.target, OpOverload) else ""


def facts(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(value.shape), tuple(value.stride())


def is_known(numbers: Iterable[Any]) -> bool:
    """Whether no call says what they are."""
    return all([type(number) is int for number in numbers])


def is_image(value: Any) -> bool:
    """Whether a value may be given other strides: it has rows behind one another."""
    if not isinstance(value, Tensor) or value.layout.name != "strided" or value.dim() != 4:
        return False
    shape, strides = facts(value)
    if not is_known((*shape, *strides)) or 0 in shape or value.device.type != "cpu":
        return False
    is_plain = strides == geometry.contiguous_strides(shape)
    return is_plain and shape[1] > 1 and shape[2] * shape[3] > 1


def is_last(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.dim() == 4
        and is_known((*value.shape, *value.stride()))
        and lies_last(*facts(value))
    )


def work_of(node: Node) -> int:
    """The multiplications of a convolution that native kernels compute with channels last; 0 for
    another."""
    first = 0 if name_of(node) == CONVOLUTION else 1
    input, weight = [node.args[first + at].meta.get("val") for at in range(2)]  # type: ignore
    *_, transposed, _, groups = node.args[: 9 if first == 0 else 10]
    if transposed or groups != 1:
        return 0
    result = node.meta["val"] if first == 0 else node.args[0].meta["val"]  # type: ignore
    for value in (input, weight, result):
        if value.dim() != 4 or value.dtype is not dtypes.float32 or not is_known(value.shape):
            return 0
    return math.prod([*result.shape, *weight.shape[1:]])


class Layout:
    """One graph while it is changed."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.graph = module.graph
        self.nodes = list(module.graph.nodes)
        # Nodes whose value has its channels last now, and had not.
        self.changed: set[Node] = set()
        self.copies: dict[tuple[Node, bool], Node] = {}

    def run(self) -> None:
        for node in self.nodes:
            if node.op == "call_function" and self.becomes_last(node):
                self.change(node)
        for node in self.nodes:
            self.settle_operands(node)
        self.graph.lint()
        self.module.recompile()

    def lies_last(self, node: Any) -> bool:
        return isinstance(node, Node) and (node in self.changed or is_last(first_of(node)))

    def becomes_last(self, node: Node) -> bool:
        if not is_image(first_of(node)):
            return False
        name = name_of(node)
        if node.target is operator.getitem:
            return node.args[1] == 0 and node.args[0] in self.changed
        if name == CONVOLUTION:
            return True
        if name == CONVOLUTION_BACKWARD:
            return is_image(value_of(node.args[1])) or self.lies_last(node.args[1])
        if name == NORM_BACKWARD:
            return self.lies_last(node.args[1])
        if name in NORMS or name in ALIASES:
            return self.lies_last(node.args[0])
        if not is_elementwise(node.target):
            return False
        shape = first_of(node).shape
        return any([self.lies_last(x) and first_of(x).shape == shape for x in node.all_input_nodes])

    def change(self, node: Node) -> None:
        self.changed.add(node)
        value = node.meta["val"]
        if isinstance(value, (tuple, list)):
            node.meta["val"] = type(value)([turned(value[0]), *value[1:]])
        else:
            node.meta["val"] = turned(value)
        node.meta.pop("tensor_meta", None)

    def settle_operands(self, node: Node) -> None:
        """Copies in front of a node of what it has to have in another order."""
        op = node.target
        needs = NEEDS.get(name_of(node), ()) if node in self.changed or self.is_native(node) else ()
        for place in needs:
            given = node.args[place]
            if isinstance(given, Node) and not self.lies_last(given) and is_image(value_of(given)):
                node.update_arg(place, self.copy(given, True))
        if op is operator.getitem or node in self.changed or is_elementwise(op) or folds(op):
            return
        for given in node.all_input_nodes:
            if given in self.changed and not self.reads_last(node, given):
                node.replace_input_with(given, self.copy(given, False))

    def is_native(self, node: Node) -> bool:
        """Whether a node without an image as its result runs natively with channels last."""
        name = name_of(node)
        return name == CONVOLUTION_BACKWARD or (
            name == NORM_BACKWARD and self.lies_last(node.args[1])
        )

    def reads_last(self, node: Node, given: Node) -> bool:
        needs = NEEDS.get(name_of(node), ())
        return self.is_native(node) and all(
            [place in needs for place, x in enumerate(node.args) if x is given]
        )

    def copy(self, node: Node, is_last: bool) -> Node:
        """A copy of a value right behind it, with channels last or in the usual order."""
        key = node, is_last
        if key not in self.copies:
            value = node.meta["val"]
            format = channels_last if is_last else contiguous_format
            after = node
            if node.op == "placeholder":
                *_, after = [n for n in self.nodes if n.op == "placeholder"]
            with self.graph.inserting_after(after):
                copy = self.graph.call_function(
                    find_overload("aten", "clone", "default"), (node,), {"memory_format": format}
                )
            copy.meta.update(
                {name: fact for name, fact in node.meta.items() if name not in ("val", "desc")}
            )
            copy.meta.pop("tensor_meta", None)
            copy.meta["val"] = turned(value, is_last)
            self.copies[key] = copy
        return self.copies[key]


def value_of(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else None


def first_of(node: Node) -> Any:
    """A node's value, or the first of its values."""
    value = node.meta.get("val")
    return value[0] if isinstance(value, (tuple, list)) and value else value


def turned(value: Any, is_last: bool = True) -> Any:
    """A value without memory in the other order."""
    shape = tuple(value.shape)
    strides = last_strides(shape) if is_last else geometry.contiguous_strides(shape)
    made = shell(shape, strides, value.dtype, value.device)
    return FakeTensor(value.fake_mode, made, value.device) if type(value) is FakeTensor else made


def is_elementwise(op: Any) -> bool:
    return isinstance(op, OpOverload) and op.rule("lower") == "text"


def folds(op: Any) -> bool:
    return isinstance(op, OpOverload) and op.rule("lower") == "folded"
