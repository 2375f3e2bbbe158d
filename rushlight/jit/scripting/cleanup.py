"""What a compiled graph goes through when its variables are values: its final form."""

from __future__ import annotations

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.types import BOOL, INT, TensorType
from rushlight.jit.passes.folding import propagate_constants
from rushlight.jit.passes.simple import pool_constants
from rushlight.jit.settings import Settings

ENDLESS = 2**63 - 1

# Names that mean the same, by the one that graphs use.
SAME = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctanh": "atanh", "clip": "clamp", "concat": "cat", "concatenate": "cat",
    "det": "linalg_det", "divide": "div", "fix": "trunc", "ger": "outer", "greater": "gt",
    "greater_equal": "ge", "inverse": "linalg_inv", "less": "lt", "less_equal": "le",
    "linalg_matmul": "matmul", "matrix_exp": "linalg_matrix_exp", "moveaxis": "movedim",
    "multiply": "mul", "negative": "neg", "not_equal": "ne", "orgqr": "linalg_householder_product",
    "row_stack": "vstack", "subtract": "sub", "swapaxes": "transpose", "swapdims": "transpose",
    "true_divide": "div", "special_erf": "erf", "special_erfc": "erfc", "special_erfinv": "erfinv",
    "special_exp2": "exp2", "special_expit": "sigmoid", "special_expm1": "expm1",
    "special_gammaln": "lgamma", "special_i0": "i0", "special_log1p": "log1p",
    "special_log_softmax": "log_softmax", "special_logit": "logit",
    "special_logsumexp": "logsumexp", "special_psi": "digamma", "special_round": "round",
    "special_sinc": "sinc", "special_softmax": "softmax", "special_xlogy": "xlogy",
    "special_digamma": "digamma", "special_polygamma": "polygamma",
    "special_multigammaln": "mvlgamma", "linalg_tensorsolve": "linalg_tensorsolve",
}  # fmt: skip


def clean_up(graph: Graph) -> None:
    canonicalize_loops(graph.block())
    normalize_ops(graph.block())
    if Settings.inline_everything:
        from rushlight.jit.passes.inlining import inline_calls

        inline_calls(graph)
    lower_simple_tuples(graph.block())
    propagate_constants(graph, keep_mutable=True)
    pool_constants(graph)
    order_outputs(graph)


# -- loops -----------------------------------------------------------------------------------------


def canonicalize_loops(block: Block) -> None:
    """A loop that counts and may also stop early counts by itself: it becomes a `while`."""
    for node in block.nodes():
        for inner in node.blocks():
            canonicalize_loops(inner)
        if node.kind() == "prim::Loop" and counts_and_stops(node):
            count_inside(node)


def counts_and_stops(node: Node) -> bool:
    count, condition = node.inputs()[:2]
    goes_on = node.blocks()[0].outputs()[0]
    always = condition.toIValue() is True and goes_on.toIValue() is True
    return not always and count.toIValue() != ENDLESS


def count_inside(node: Node) -> None:
    graph, body = node.graph, node.blocks()[0]
    count, started = node.inputs()[:2]
    with graph.insert_point_guard(node):
        zero, one = graph.insertConstant(0), graph.insertConstant(1)
        condition = graph.insert("aten::gt", count, zero, type=BOOL)
        node.replaceInput(0, graph.insertConstant(ENDLESS))
        if started.toIValue() is not True:
            condition = graph.insert("aten::__and__", condition, started, type=BOOL)
        node.replaceInput(1, condition)
    node.addOutput(INT)
    node.addInput(zero)
    number = body.addInput().setType(INT)
    old = body.inputs()[0]
    old.setDebugName("")
    old.replaceAllUsesWith(number)
    with graph.insert_point_guard(body):
        following = graph.insert("aten::add", number, one, type=INT)
        body.registerOutput(following)
        is_less = graph.insert("aten::lt", following, count, type=BOOL)
        goes_on = graph.insert("aten::__and__", is_less, body.outputs()[0], type=BOOL)
        body.replaceOutput(0, goes_on)


# -- names of operators ----------------------------------------------------------------------------


def normalize_ops(block: Block) -> None:
    """One name for operators that have several."""
    for node in list(block.nodes()):
        for inner in node.blocks():
            normalize_ops(inner)
        kind = node.kind()
        name = kind.removeprefix("aten::")
        base = name.removesuffix("_")
        if kind in ("aten::__is__", "aten::__isnot__"):
            if all([value.type() is BOOL for value in node.inputs()]):
                rename(node, "aten::eq" if kind == "aten::__is__" else "aten::ne")
        elif kind == "aten::rsub" and isinstance(node.inputsAt(1).type(), TensorType):
            renamed = rename(node, "aten::sub")
            first, second = renamed.inputs()[:2]
            renamed.replaceInput(0, second)
            renamed.replaceInput(1, first)
        elif kind.startswith("aten::") and base in SAME:
            rename(node, f"aten::{SAME[base]}{'_' if name.endswith('_') else ''}")


def rename(node: Node, kind: str) -> Node:
    made = node.graph.create(kind, node.inputs(), 0).copyMetadata(node).insertBefore(node)
    for output in node.outputs():
        value = made.addOutput(output.type())
        name = output.debugName() if output.has_name() else ""
        output.replaceAllUsesWith(value)
        if name:
            output.setDebugName("")
            value.setDebugName(name)
    node.destroy()
    return made


# -- tuples ----------------------------------------------------------------------------------------


def lower_simple_tuples(block: Block) -> None:
    """Reading a tuple that was made in sight gives what it was made of."""
    for node in list(block.nodes()):
        lower_node(node)
        for inner in node.blocks():
            lower_simple_tuples(inner)


def lower_node(node: Node) -> None:
    kind = node.kind()
    if kind not in ("prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice"):
        return
    made = node.inputs()[0].node()
    if made.kind() != "prim::TupleConstruct":
        return
    items = made.inputs()
    if kind == "prim::TupleUnpack":
        for output, item in zip(node.outputs(), items):
            output.replaceAllUsesWith(item)
    elif kind == "prim::TupleIndex":
        number = node.inputs()[1].toIValue()
        if not isinstance(number, int) or not -len(items) <= number < len(items):
            return
        node.output().replaceAllUsesWith(items[number])
    else:
        return
    node.destroy()


# -- the order of outputs --------------------------------------------------------------------------


def order_outputs(graph: Graph) -> None:
    """Outputs of Ifs and Loops stand in the order in which they are first used."""
    order_block(graph.block())


def order_block(block: Block) -> None:
    for node in list(block.reversed_nodes()):
        if node.kind() == "prim::If":
            order_if(node)
        elif node.kind() == "prim::Loop":
            order_loop(node)
        for inner in node.blocks():
            order_block(inner)


def first_use(value: Value) -> Node | None:
    found: Node | None = None
    for use in value.uses():
        if found is None or (use.user is not found and use.user.isBefore(found)):
            found = use.user
    return found


def use_order(values: list[Value]) -> list[int]:
    """The places of values by their first use; what is not used comes last, in its order."""
    from functools import cmp_to_key

    uses = [(first_use(value), value) for value in values]

    def compare(a: int, b: int) -> int:
        one, other = uses[a][0], uses[b][0]
        if one is None or other is None:
            return (one is None) - (other is None)
        if one is other:
            first = min([use.offset for use in uses[a][1].uses() if use.user is one])
            second = min([use.offset for use in uses[b][1].uses() if use.user is one])
            return first - second
        return -1 if one.isBefore(other) else 1

    return sorted(range(len(values)), key=cmp_to_key(compare))


def order_if(node: Node) -> None:
    order = use_order(node.outputs())
    permute_outputs(node, order)
    for block in node.blocks():
        block.returnNode().permuteInputs(order)


def order_loop(node: Node) -> None:
    body = node.blocks()[0]
    carried = list(zip(node.outputs(), body.inputs()[1:]))
    # What is used after the loop decides; what is not, by its use inside.
    order = use_order([outer for outer, _ in carried])
    permute_outputs(node, order)
    node.permuteInputs([0, 1, *[place + 2 for place in order]])
    body.returnNode().permuteInputs([0, *[place + 1 for place in order]])
    permute_outputs(body.entry, [0, *[place + 1 for place in order]])


def permute_outputs(node: Node, order: list[int]) -> None:
    outputs = node._outputs
    outputs[:] = [outputs[place] for place in order]
    node.number_outputs(0)
