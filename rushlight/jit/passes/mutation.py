"""Passes about writing in place: `remove_inplace_ops` and `remove_mutation`."""

from __future__ import annotations

from rushlight.jit.ir.aliasing import Aliases, written_values
from rushlight.jit.ir.graph import Block, Graph, Node
from rushlight.jit.ir.operators import overloads

# torch: those whose plain forms take the same arguments, as its exporter rewrites them.
REWRITTEN = frozenset(
    f"aten::{name}_" for name in ("add", "sub", "mul", "div", "bitwise_not", "copy", "zero", "fill")
)


def remove_inplace_ops(graph: Graph) -> None:
    """Arithmetic in place becomes plain, and later uses of what was written use the result."""
    rewrite_block(graph.top)


def rewrite_block(block: Block) -> None:
    for node in block.nodes():
        for inner in node.blocks():
            rewrite_block(inner)
        if node.kind() in REWRITTEN and has_plain_form(node):
            make_plain(node)


def remove_mutation(graph: Graph, only: frozenset[str] | None = None) -> bool:
    """Writes to what was made inside, and is seen by nobody else, become plain operators."""
    return remove_in(graph.top, Aliases(graph), only)


def remove_in(block: Block, aliases: Aliases, only: frozenset[str] | None) -> bool:
    changed = False
    for node in block.nodes():
        for inner in node.blocks():
            changed = remove_in(inner, aliases, only) or changed
        wanted = only is None or node.kind() in only
        if wanted and has_plain_form(node) and is_private(node, aliases):
            make_plain(node)
            changed = True
    return changed


def has_plain_form(node: Node) -> bool:
    kind = node.kind()
    return kind.endswith("_") and not kind.endswith("__") and bool(overloads(kind[:-1]))


def is_private(node: Node, aliases: Aliases) -> bool:
    """Whether what a node writes was made in its block and has no other name."""
    written = written_values(node)
    if len(written) != 1 or aliases.is_outside(written[0]):
        return False
    maker = written[0].node()
    if maker.owningBlock() is not node.owningBlock() or maker.kind() == "prim::Param":
        return False
    operator = maker.matched()
    fresh = operator is not None and all(
        [result.alias_info is None for result in operator.schema.returns]
    )
    return fresh or (maker.kind().endswith("_") and not maker.kind().endswith("__"))


def make_plain(node: Node) -> None:
    """The node's plain form in its place; what comes later uses its result."""
    graph = node.graph
    plain = graph.create(node.kind()[:-1], node.inputs())
    plain.copyMetadata(node)
    plain.insertBefore(node)
    plain.output().setType(node.output().type())
    written = node.inputs()[0]
    node.output().replaceAllUsesWith(plain.output())
    written.replaceAllUsesAfterNodeWith(node, plain.output())
    node.destroy()
