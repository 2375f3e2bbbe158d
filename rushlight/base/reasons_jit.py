"""The refusals of `jit`: see `reasons`."""

from __future__ import annotations

from rushlight.base.errors import Reason

__all__ = ["JIT_REASONS"]

JIT_REASONS: dict[str, Reason] = {
    "RL1401": Reason(
        "A value cannot be called {name!r}",
        "Numbers are the names of values that have none.",
        "Give it a name that is not a number.",
    ),
    "RL1402": Reason(
        "There is no argument named {name!r} in {schema}",
        remedy="Use one of the names of the schema.",
    ),
    "RL1403": Reason(
        "A node of kind {kind} has no attribute {name!r}",
        remedy="node.attributeNames() lists those it has.",
    ),
    "RL1404": Reason(
        "The attribute {name!r} of a node of kind {kind} is read by {actual}(), not {expected}()",
        remedy="node.kindOf(name) says what an attribute is.",
    ),
    "RL1405": Reason(
        "%{value} belongs to another graph than the node of kind {kind}",
        "A graph uses only what is made in it.",
        "Copy the node with createClone().",
    ),
    "RL1406": Reason(
        "%{value} of a node of kind {kind} is still used and cannot be taken away",
        remedy="Replace its uses first: replaceAllUsesWith().",
    ),
    "RL1407": Reason(
        "The node of kind {kind} stands in a block already",
        remedy="Use moveBefore() or moveAfter().",
    ),
    "RL1408": Reason(
        "function '{name}' is called recursively. Recursive calls are not supported",
        "The type of its result is not known before its body is compiled.",
    ),
    "RL1409": Reason("method '{name}' already defined.", remedy="Give the function another name."),
    "RL1410": Reason(
        "expected {expected} in line {line} of the graph: {text}",
        remedy="The text is what str(graph) prints.",
    ),
    "RL1411": Reason(
        "The text does not hold the tensor {text}",
        "Only tensors of up to ten elements are written out.",
        "parse_ir(text, parse_tensor_constants=True) makes random ones.",
    ),
    "RL1413": Reason(
        'A strategy of fusing is a list of ("STATIC" or "DYNAMIC", int), not {given!r}',
        remedy='For example [("STATIC", 2), ("DYNAMIC", 10)].',
    ),
    "RL1412": Reason(
        "This graph is not sound: {what}\n{graph}",
        "Something changed it in a way that its methods do not.",
    ),
    "RL1420": Reason(
        "No operator takes the inputs of this node: {node}",
        "An operator follows from the kind of a node and the types of its inputs.",
        "Give the inputs the types that one of the operator's schemas asks for.",
    ),
    "RL1460": Reason(
        "{layer} cannot be compiled",
        "Layers of the package are compiled from typed forms, and this one has none.",
        "Trace it, or call it in a method marked with @torch.jit.ignore.",
    ),
    "RL1490": Reason(
        "Could not write {what} as Python", "The language has loops of one kind or the other."
    ),
    "RL1491": Reason(
        "Could not export Python function call '{name}'. Remove calls to Python functions before "
        "export. Did you forget to add @script or @script_method annotation? If this is a "
        "nn.ModuleList, add it to __constants__",
        "A file holds graphs, and the function is Python.",
    ),
    "RL1492": Reason(
        "A value of type {type} cannot be saved",
        "Archives hold tensors, numbers, strings, containers of them, and objects of classes that "
        "are compiled.",
    ),
    "RL1493": Reason(
        "jit.save takes what jit.trace or jit.script gives, not a {type}",
        remedy="Trace or script it first, or use torch.save for a state_dict.",
    ),
    "RL1494": Reason(
        "This file cannot be read as TorchScript: {what}",
        "Only programs that jit.save writes are read; nothing in a file is run.",
    ),
}
