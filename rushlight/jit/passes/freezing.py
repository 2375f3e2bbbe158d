"""`freeze`: attributes of a module that nobody changes become constants of its graphs.

What a kept method writes to, by assignment or in place, stays an attribute; so does what the user
asks for. Calls are expanded first, so that a frozen module needs no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.aliasing import can_alias, written_values
from rushlight.jit.ir.graph import Graph, Node, Value, create_constant
from rushlight.jit.ir.types import ClassType
from rushlight.jit.passes.dce import eliminate_dead_code
from rushlight.jit.passes.folding import propagate_constants
from rushlight.jit.passes.inlining import inline_calls
from rushlight.jit.passes.peephole import optimize_peepholes
from rushlight.jit.passes.simple import pool_constants
from rushlight.jit.unit import Function, Instance

EXPECTED = (
    "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to "
    "script your 'nn.Module'."
)
NOT_EVALUATING = (
    "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your "
    "module before freezing."
)
# Values that graphs hold as constants.
HELD = (Tensor, list, tuple, dict, bool, int, float, complex, str, type(None))
FLAGS = (bool, int, float, complex, str, type(None))
CONVOLUTIONS = frozenset(("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution"))

Path = tuple[str, ...]


def freeze(
    mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> Any:
    """The module with everything that nobody changes written into its graphs.

    `preserved_attrs` names methods and attributes that stay. With `optimize_numerics` what can be
    computed now is, and batch norms become part of the convolutions before them.
    """
    from rushlight.jit.objects.modules import RecursiveScriptModule, ScriptModule

    if not isinstance(mod, ScriptModule):
        raise RuntimeError(EXPECTED)
    if mod.training:
        raise RuntimeError(NOT_EVALUATING)
    frozen = RecursiveScriptModule(frozen_instance(mod._c.instance, preserved_attrs or []))
    if optimize_numerics:
        run_frozen_optimizations(frozen, True, preserved_attrs)
    return frozen


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """Computes what is known, in the methods of a frozen module."""
    for function in mod._c.instance.type.methods.values():
        graph = function.graph
        remove_dropout(graph)
        optimize_peepholes(graph)
        propagate_constants(graph)
        if optimize_numerics:
            fold_batch_norms(graph)
            propagate_constants(graph)
        pool_constants(graph)
        eliminate_dead_code(graph)
        function._program = None


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """The module frozen and with everything computed that is known."""
    from rushlight.jit.objects.modules import ScriptModule

    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script "
            "or torch.jit.trace to script your 'nn.Module'."
        )
    if "training" in mod._c.instance.values:
        return freeze(mod.eval(), other_methods)
    run_frozen_optimizations(mod, True, other_methods)
    return mod


# -- which attributes stay -------------------------------------------------------------------------


def holds(instance: Instance, path: Path) -> bool:
    """Whether an attribute is there, of the module or of one within it."""
    *parents, name = path
    for parent in parents:
        inner = instance.values.get(parent)
        if not isinstance(inner, Instance):
            return False
        instance = inner
    return name in instance.values


def frozen_instance(instance: Instance, preserved: list[str]) -> Instance:
    old = instance.type
    attributes = [
        path for path in [tuple(n.split(".")) for n in preserved] if holds(instance, path)
    ]
    for name in preserved:
        if name not in old.methods and tuple(name.split(".")) not in attributes:
            raise RuntimeError(f"Unknown name: {name}")
    names = [name for name in ("forward", *preserved) if name in old.methods]
    graphs = {name: expanded(old.methods[name].graph) for name in dict.fromkeys(names)}
    kept: set[Path] = set(attributes)
    for graph in graphs.values():
        kept |= assigned_paths(graph)
    for graph in graphs.values():
        # What is switched off by a flag must not keep anything from being frozen.
        Freezing(instance, kept).replace_reads(graph, None, FLAGS)
        propagate_constants(graph)
    for graph in graphs.values():
        kept |= written_paths(graph)
    return Freezing(instance, kept).run(graphs)


def expanded(graph: Graph) -> Graph:
    copy = graph.copy()
    inline_calls(copy)
    return copy


def path_of(value: Value, graph: Graph) -> Path | None:
    """Which attribute of `self` a value is; None for anything else."""
    names: list[str] = []
    while value.node().kind() == "prim::GetAttr":
        names.append(value.node().attribute("name").value)
        value = value.node().inputs()[0]
    return tuple(reversed(names)) if value is graph.inputs()[0] else None


def assigned_paths(graph: Graph) -> set[Path]:
    """Attributes that a graph assigns to."""
    found: set[Path] = set()
    for node in graph.all_nodes():
        if node.kind() == "prim::SetAttr":
            owner = path_of(node.inputs()[0], graph)
            if owner is not None:
                found.add((*owner, node.attribute("name").value))
    return found


def written_paths(graph: Graph) -> set[Path]:
    """Attributes that a graph writes in place, or hands to somebody unknown."""
    found: set[Path] = set()
    for node in graph.all_nodes():
        if node.kind() != "prim::SetAttr":
            for value in written_values(node):
                found |= origins(value, graph)
    return {path for path in found if path}


def origins(value: Value, graph: Graph) -> set[Path]:
    """The attributes whose memory a value may be."""
    found: set[Path] = set()
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if each in seen or not can_alias(each.type()):
            continue
        seen.add(each)
        path = path_of(each, graph)
        if path is not None:
            found.add(path)
            continue
        waiting += each.node().inputs()
        for block in each.node().blocks():
            waiting += block.outputs()
    return found


class Freezing:
    """Makes a class with the attributes that stay, and graphs without the others."""

    def __init__(self, instance: Instance, kept: Iterable[Path]) -> None:
        self.instance = instance
        self.kept = set(kept)

    def stays(self, path: Path) -> bool:
        """Whether an attribute, one around it or one inside it is kept."""
        return any([path[: len(each)] == each or each[: len(path)] == path for each in self.kept])

    def run(self, graphs: dict[str, Graph]) -> Instance:
        root = self.shrunk(self.instance, ())
        for name, graph in graphs.items():
            graph.inputs()[0].setType(root.type)
            self.replace_reads(graph, root)
            eliminate_dead_code(graph)
            old = self.instance.type.methods[name].schema
            first, *rest = old.arguments
            arguments = (type(first)(first.name, root.type), *rest)
            root.type.methods[name] = Function(
                f"{root.type.dotted}.{name}", graph, old.with_arguments(arguments)
            )
        return root

    def shrunk(self, instance: Instance, path: Path) -> Instance:
        """An object of a new class that has only what stays."""
        from rushlight.jit.unit import PYTHON_UNIT

        old = instance.type
        cls = ClassType(PYTHON_UNIT.claim(old.dotted), old.is_module)
        PYTHON_UNIT.add_type(cls)
        made = Instance(cls)
        for name, type_ in old.attributes.items():
            place = (*path, name)
            if not self.stays(place):
                continue
            value = instance.values[name]
            if isinstance(value, Instance) and place not in self.kept:
                value = self.shrunk(value, place)
                type_ = value.type
            cls.attributes[name] = type_
            made.values[name] = value
            for table, names in ((cls.parameters, old.parameters), (cls.buffers, old.buffers)):
                if name in names:
                    table.add(name)
        return made

    def replace_reads(self, graph: Graph, root: Instance | None, held: Any = HELD) -> None:
        """Constants for attributes that do not stay; without `root` the class is as it was."""
        for node in list(graph.all_nodes()):
            if node.kind() != "prim::GetAttr":
                continue
            path = path_of(node.output(), graph)
            if path is None:
                continue
            if self.stays(path):
                if root is not None:
                    node.output().setType(type_at(root, path))
                continue
            value: Any = self.instance
            for name in path:
                value = value.values[name]
            if isinstance(value, held):
                self.replace(node, value, path)

    def replace(self, node: Node, value: Any, path: Path) -> None:
        if isinstance(value, Tensor):
            value = value.detach()
        constant = create_constant(node.graph, value)
        constant.insertBefore(node)
        if not isinstance(value, Tensor):
            constant.output().setType(node.output().type())
        else:
            constant.output().setDebugName(f"self.{'.'.join(path)}")
        node.output().replaceAllUsesWith(constant.output())
        node.destroy()


def type_at(root: Instance, path: Path) -> Any:
    owner: Any = root
    for name in path[:-1]:
        owner = owner.values[name]
    return owner.type.attributes[path[-1]]


# -- what a frozen graph does not need -------------------------------------------------------------


def remove_dropout(graph: Graph) -> None:
    """Dropouts that do nothing go."""
    for node in list(graph.all_nodes()):
        if node.kind() in ("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout") and (
            node.inputs()[2].toIValue() is False
        ):
            node.output().replaceAllUsesWith(node.inputs()[0])
            node.destroy()


def fold_batch_norms(graph: Graph) -> None:
    """A batch norm after a convolution of constants becomes part of its weight and bias."""
    for node in list(graph.all_nodes()):
        if node.kind() != "aten::batch_norm":
            continue
        conv = node.inputs()[0].node()
        # How many dims there are is the same before and after.
        others = [use.user for use in node.inputs()[0].uses() if use.user is not node]
        if conv.kind() not in CONVOLUTIONS or any([n.kind() != "aten::dim" for n in others]):
            continue
        if conv.kind() == "aten::_convolution" and conv.inputs()[6].toIValue() is not False:
            continue
        parts = [value.toIValue() for value in (*conv.inputs()[1:3], *node.inputs()[1:8])]
        weight, _, gamma, beta, mean, variance, training, _, epsilon = parts
        known = [value.node().kind() == "prim::Constant" for value in conv.inputs()[1:3]]
        if not all(known) or training is not False or mean is None or variance is None:
            continue
        with no_grad():
            folded = fold(weight, parts[1], gamma, beta, mean, variance, epsilon)
        for place, tensor in enumerate(folded, 1):
            constant = create_constant(graph, tensor)
            constant.insertBefore(conv)
            conv.replaceInput(place, constant.output())
        node.output().replaceAllUsesWith(conv.output())
        node.destroy()


def fold(
    weight: Any, bias: Any, gamma: Any, beta: Any, mean: Any, variance: Any, epsilon: float
) -> tuple[Any, Any]:
    """Weight and bias of a convolution that does what a batch norm did after it."""
    scale = (variance + epsilon).rsqrt()
    if gamma is not None:
        scale = scale * gamma
    shape = [-1] + [1] * (weight.dim() - 1)
    shifted = -mean if bias is None else bias - mean
    shifted = shifted * scale
    return weight * scale.reshape(shape), shifted if beta is None else shifted + beta
