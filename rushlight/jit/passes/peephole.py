"""`peephole`: short ways for common pairs of nodes, and facts that types already tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.dtype import BY_NAME
from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.types import INT, NONE, ListType, OptionalType, TensorType, UnionType
from rushlight.jit.passes.dce import eliminate_dead_code

RULES: dict[str, Callable[[Node, bool], Value | None]] = {}


def rule(*kinds: str) -> Callable[[Any], Any]:
    """A rule gives what a node's only output can be replaced by, or None."""

    def take(function: Any) -> Any:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return take


def optimize_peepholes(graph: Graph, disable_shape_peepholes: bool = False) -> bool:
    """Replaces what is known in a shorter way; `disable_shape_peepholes`: not by shapes."""
    changed = in_block(graph.top, not disable_shape_peepholes)
    if changed:
        eliminate_dead_code(graph)
    return changed


def in_block(block: Block, by_shape: bool) -> bool:
    changed = False
    for node in block.nodes():
        for inner in node._blocks:
            changed = in_block(inner, by_shape) or changed
        find = RULES.get(node._kind)
        found = find(node, by_shape) if find is not None else None
        if found is not None and found is not node._outputs[0]:
            node._outputs[0].replaceAllUsesWith(found)
            changed = True
    return changed


def constant(node: Node, value: Any) -> Value:
    with node.graph.insert_point_guard(node):
        return node.graph.insertConstant(value)


def tensor_facts(value: Value) -> TensorType | None:
    type_ = value.type()
    return type_ if isinstance(type_, TensorType) else None


@rule("aten::t")
def _(node: Node, by_shape: bool) -> Value | None:
    maker = node._inputs[0]._node
    return maker._inputs[0] if maker._kind == "aten::t" else None


@rule("aten::expand")
def _(node: Node, by_shape: bool) -> Value | None:
    facts = tensor_facts(node._inputs[0])
    sizes = node._inputs[1].toIValue()
    if not by_shape or facts is None or sizes is None:
        sizes_node = node._inputs[1]._node
        if facts is not None and sizes_node._kind == "aten::size" and by_shape:
            origin = tensor_facts(sizes_node._inputs[0])
            if origin is not None and origin.sizes() == facts.sizes() is not None:
                return node._inputs[0]
        return None
    return node._inputs[0] if facts.sizes() == sizes else None


@rule("aten::size")
def _(node: Node, by_shape: bool) -> Value | None:
    facts = tensor_facts(node._inputs[0])
    sizes = facts.sizes() if facts is not None and by_shape else None
    if sizes is None:
        return None
    if len(node._inputs) == 1:
        return constant(node, sizes)
    dim = node._inputs[1].toIValue()
    return constant(node, sizes[dim]) if dim is not None else None


@rule("aten::dim", "prim::dtype", "prim::device", "prim::is_cuda", "aten::is_floating_point")
def _(node: Node, by_shape: bool) -> Value | None:
    facts = tensor_facts(node._inputs[0])
    if facts is None or not by_shape:
        return None
    if node._kind == "aten::dim":
        dim = facts.dim()
        return None if dim is None else constant(node, dim)
    if node._kind in ("prim::dtype", "aten::is_floating_point"):
        if facts.dtype_name is None:
            return None
        dtype = BY_NAME[facts.dtype_name]
        floating = node._kind == "aten::is_floating_point"
        return constant(node, dtype.is_floating_point if floating else dtype)
    device = facts.device()
    if device is None:
        return None
    return constant(node, device if node._kind == "prim::device" else device.type == "cuda")


@rule("aten::__is__", "aten::__isnot__")
def _(node: Node, by_shape: bool) -> Value | None:
    """Whether something is None, where its type tells."""
    sure = [certainty(value) for value in node._inputs]
    if None in sure or not any(sure):
        return None
    same = all(sure)
    return constant(node, same if node._kind == "aten::__is__" else not same)


def certainty(value: Value) -> bool | None:
    """Whether a value is None; None where the type leaves it open."""
    if value.mustBeNone():
        return True
    type_ = value.type()
    is_open = isinstance(type_, OptionalType | UnionType) or type_.kind() == "AnyType"
    return None if is_open else type_ is NONE


@rule("prim::unchecked_unwrap_optional", "prim::unchecked_cast", "aten::_unwrap_optional")
def _(node: Node, by_shape: bool) -> Value | None:
    given, wanted = node._inputs[0].type(), node._outputs[0].type()
    return node._inputs[0] if given == wanted else None


@rule(
    "aten::Int", "aten::Float", "aten::IntImplicit", "aten::FloatImplicit", "aten::ScalarImplicit"
)
def _(node: Node, by_shape: bool) -> Value | None:
    maker = node._inputs[0]._node
    if maker._kind == "prim::NumToTensor" and maker._inputs[0].type() == node._outputs[0].type():
        return maker._inputs[0]
    return None


@rule("aten::len")
def _(node: Node, by_shape: bool) -> Value | None:
    maker = node._inputs[0]._node
    if maker._kind == "prim::ListConstruct" and len(maker._outputs[0]._uses) == 1:
        return constant(node, len(maker._inputs))
    facts = tensor_facts(node._inputs[0])
    sizes = facts.sizes() if facts is not None and by_shape else None
    return constant(node, sizes[0]) if sizes else None


@rule("aten::__getitem__")
def _(node: Node, by_shape: bool) -> Value | None:
    maker, index = node._inputs[0]._node, node._inputs[1].toIValue()
    if maker._kind != "prim::ListConstruct" or not isinstance(index, int):
        return None
    type_ = maker._outputs[0].type()
    single = len(maker._outputs[0]._uses) == 1
    if single and isinstance(type_, ListType) and -len(maker._inputs) <= index < len(maker._inputs):
        return maker._inputs[index]
    return None


@rule("aten::mul", "aten::div")
def _(node: Node, by_shape: bool) -> Value | None:
    """One is a factor that changes nothing where both are ints."""
    left, right = node._inputs[:2]
    if left.type() is INT and right.toIValue() == 1 and node._outputs[0].type() is INT:
        return left
    return None
