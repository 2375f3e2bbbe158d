"""Graphs of models with observers: what is fused, who is watched, and by which configuration."""

from __future__ import annotations

import re
from typing import Any

from rushlight import nn
from rushlight.base.errors import MissingFeature
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.tracing import Tracer
from rushlight.quantization import functionals, fusing, mappings
from rushlight.quantization.converting import swap_module
from rushlight.quantization.fakes import FixedQParamsFakeQuantize
from rushlight.quantization.graphs import table
from rushlight.quantization.graphs.customs import (
    FuseCustomConfig,
    PrepareCustomConfig,
    options_of,
    refuse_others,
)
from rushlight.quantization.intrinsic import _FusedModule, type_of
from rushlight.quantization.observers import (
    QINT8,
    QUINT8,
    FixedQParamsObserver,
    ReuseInputObserver,
    is_watching,
)
from rushlight.quantization.qconfig_mapping import QConfigMapping

__all__ = ["QuantizationTracer", "fuse_fx", "modules_of", "prepare_fx", "prepare_qat_fx"]

PREFIX = "activation_post_process_"


class QuantizationTracer(Tracer):
    """Traces a model down to the modules that have quantised forms; others may be left whole."""

    def __init__(self, skipped_module_names: Any = (), skipped_module_classes: Any = ()) -> None:
        super().__init__()
        self.skipped_module_names = skipped_module_names
        self.skipped_module_classes = tuple(skipped_module_classes)

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        whole = m.__class__.__module__.startswith(("rushlight.quantization", "torch.ao."))
        return (
            super().is_leaf_module(m, module_qualified_name)
            or (whole and not isinstance(m, functionals.FXFloatFunctional))
            or module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
            or isinstance(m, _FusedModule)
        )


def modules_of(model: Any) -> dict[str, Any]:
    return dict(model.named_modules(remove_duplicate=False))


def traced(model: Any, config: Any) -> tuple[Any, dict[str, Any]]:
    """The graph of a model, and where in it each node was."""
    if isinstance(model, GraphModule):
        return model, {}
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, functionals.FloatFunctional):
                module._modules[name] = functionals.FXFloatFunctional()
    options = options_of(config, PrepareCustomConfig)
    names, classes = options.non_traceable_module_names, options.non_traceable_module_classes
    tracer = QuantizationTracer(names, classes)
    graph = tracer.trace(model)
    made = GraphModule(model, graph)
    made.train(model.training)
    for name in options.preserved_attributes:
        setattr(made, name, getattr(model, name))
    return made, dict(tracer.node_name_to_scope)


# -- fusing ----------------------------------------------------------------------------------------


def only_user(node: Any) -> Any:
    return next(iter(node.users)) if len(node.users) == 1 else None


def chains(node: Any, modules: dict[str, Any]) -> list[list[Any]]:
    """Nodes in a row from this one that may be one layer, the longest first."""
    row = [node]
    while len(row) < 3:
        following = only_user(row[-1])
        if following is None or following.args[:1] != (row[-1],):
            break
        is_layer = following.op == "call_module" and following.target in modules
        if not is_layer and not table.is_relu(following, modules):
            break
        row.append(following)
    return [row[:count] for count in range(len(row), 1, -1)]


def fuse(model: Any, is_qat: bool) -> Any:
    """The graph with layers in a row as one module, under the first one's name."""
    modules = modules_of(model)
    for node in list(model.graph.nodes):
        if node.op != "call_module":
            continue
        for row in chains(node, modules):
            parts = [
                modules[each.target] if each.op == "call_module" else nn.ReLU() for each in row
            ]
            kinds = tuple(map(type_of, parts))
            if kinds not in fusing.METHODS:
                continue
            for part in parts:
                part.training = parts[0].training
            made = fusing.METHODS[kinds](is_qat, *parts)
            outer, _, leaf = node.target.rpartition(".")
            setattr(model.get_submodule(outer), leaf, made)
            modules[node.target] = made
            row[-1].replace_all_uses_with(node)
            for each in reversed(row[1:]):
                model.graph.erase_node(each)
                used = {other.target for other in model.graph.nodes}
                if each.op == "call_module" and each.target not in used:
                    model.delete_submodule(each.target)
            break
    model.graph.lint()
    model.recompile()
    model.delete_all_unused_submodules()
    return model


def fuse_fx(model: Any, fuse_custom_config: Any = None, backend_config: Any = None) -> Any:
    """The graph of a model in evaluation, with layers in a row as one."""
    refuse_others(backend_config=backend_config)
    kept = options_of(fuse_custom_config, FuseCustomConfig).preserved_attributes
    config = PrepareCustomConfig().set_preserved_attributes(kept)
    return fuse(traced(model, config)[0], is_qat=False)


# -- configurations --------------------------------------------------------------------------------


class Configurations:
    """Which configuration each node has: by its place, a pattern of names, its kind, or none."""

    def __init__(self, mapping: Any, model: Any, scopes: dict[str, Any]) -> None:
        if isinstance(mapping, dict):
            mapping = QConfigMapping.from_dict(mapping)
        self.mapping, self.scopes = mapping, scopes
        self.counts: dict[Any, int] = {}
        modules = modules_of(model)
        self.found = {
            node.name: self.of_node(node, modules)
            for node in model.graph.nodes
            if node.op.startswith("call_")
        }

    def of_node(self, node: Any, modules: dict[str, Any]) -> Any:
        mapping = self.mapping
        kind = table.kind_of(node, modules)
        if node.op == "call_module":
            path = node.target
            module = modules[path]
            kinds = [kind]
            if isinstance(module, _FusedModule):
                kinds += [type(part) for part in module.children()][:1]
            around = path.rpartition(".")[0]
        else:
            path, cls = self.scopes.get(node.name, ("", None))
            kinds, around = [kind, cls], path
        found = mapping.global_qconfig
        for each in reversed(kinds):
            found = mapping.object_type_qconfigs.get(each, found)
        for pattern, qconfig in mapping.module_name_regex_qconfigs.items():
            if re.match(pattern, path):
                found = qconfig
                break
        prefix = path
        while prefix:
            if prefix in mapping.module_name_qconfigs:
                found = mapping.module_name_qconfigs[prefix]
                break
            prefix = prefix.rpartition(".")[0]
        number = self.counts.get((around, kind), 0)
        self.counts[around, kind] = number + 1
        ordered = mapping.module_name_object_type_order_qconfigs
        return ordered.get((around, kind, number), found)


def watches_integers(qconfig: Any) -> bool:
    """Whether results of what has this configuration become bytes by a scale chosen before."""
    if qconfig is None or qconfig.activation is None:
        return False
    watching = qconfig.activation()
    if isinstance(watching, ReuseInputObserver):
        return True
    known = getattr(watching, "dtype", None) in (QINT8, QUINT8)
    return known and not getattr(watching, "is_dynamic", False)


def is_dynamic(qconfig: Any) -> bool:
    return qconfig is not None and bool(getattr(qconfig.activation(), "is_dynamic", False))


# -- watching --------------------------------------------------------------------------------------


class Watching:
    """Puts observers into a graph, each behind the node whose result it is of."""

    def __init__(self, model: Any, configs: Configurations) -> None:
        self.model, self.configs = model, configs
        self.modules = modules_of(model)
        self.count = 0

    def observer_of(self, node: Any) -> Any:
        """The node of the observer through which this one's result passes, or None."""
        if node.op == "call_module" and is_watching(self.modules.get(node.target)):
            return node
        for user in node.users:
            if user.op == "call_module" and is_watching(self.modules.get(user.target)):
                return user
        return None

    def put(self, node: Any, observer: Any) -> Any:
        name = f"{PREFIX}{self.count}"
        self.count += 1
        self.model.add_submodule(name, observer)
        self.modules[name] = observer
        with self.model.graph.inserting_after(node):
            made = self.model.graph.create_node("call_module", name, (node,), {}, name)
        return made

    def watch_operand(self, user: Any, operand: Any, qconfig: Any) -> Any:
        """The observed operand; other users of it stay as they are."""
        found = self.observer_of(operand)
        if found is None:
            found = self.put(operand, qconfig.activation())
        if found is not operand:
            user.replace_input_with(operand, found)
        return found

    def share(self, target: Any, observer: Any) -> None:
        """An observer node uses the observer of another."""
        setattr(self.model, target, observer)
        self.modules[target] = observer

    def operands(self, node: Any, kind: Any) -> list[Any]:
        """What of a node's arguments is watched."""
        if kind in table.JOINING:
            return [each for each in node.args[0] if hasattr(each, "users")]
        count = 2 if kind in table.SUMS | table.PRODUCTS | table.MATRICES else 1
        return [each for each in node.args[:count] if hasattr(each, "users")]

    def visit(self, node: Any) -> None:
        kind = table.kind_of(node, self.modules)
        qconfig = self.configs.found.get(node.name)
        if kind in table.FUNCTIONS_WITH_WEIGHTS and watches_integers(qconfig):
            raise MissingFeature(
                f"{node.target.__name__} as a function in quantize_fx",
                "Use the module, or set its qconfig to None.",
                code="RL0012",
            )
        if is_dynamic(qconfig) and kind in table.LINEAR:
            self.watch_operand(node, node.args[0], qconfig)
            return
        if not watches_integers(qconfig) or kind not in table.OWN | table.SHARED | table.FIXED:
            return
        fixed = kind in table.FIXED
        if fixed and not isinstance(
            qconfig.activation(), (FixedQParamsObserver, FixedQParamsFakeQuantize)
        ):
            return
        operands = self.operands(node, kind)
        if not operands:
            return
        behind = self.of_pattern(node, kind)
        if behind is None:
            return
        reuse = isinstance(qconfig.activation(), ReuseInputObserver)
        if reuse and self.observer_of(operands[0]) is None:
            return
        observed = [self.watch_operand(node, each, qconfig) for each in operands]
        of_numbers = kind in table.SUMS | table.PRODUCTS and len(operands) == 1
        if kind in table.SHARED or of_numbers or reuse:
            first = self.modules[observed[0].target]
            for each in observed[1:]:
                self.share(each.target, first)
            made = self.put(behind, first)
        else:
            made = self.put(behind, qconfig.activation())
        behind.replace_all_uses_with(made)
        made.args = (behind,)

    def of_pattern(self, node: Any, kind: Any) -> Any:
        """Whose result is watched: the ReLU's after a sum; None for that ReLU itself."""
        sums = table.SUMS | table.PRODUCTS
        if kind in sums:
            following = only_user(node)
            if following is not None and table.is_relu(following, self.modules):
                return following
        if kind in table.RELU and node.args and hasattr(node.args[0], "op"):
            before = node.args[0]
            if table.kind_of(before, self.modules) in sums and only_user(before) is node:
                return None
        return node


def prepared(model: Any, qconfig_mapping: Any, config: Any, is_qat: bool) -> Any:
    model, scopes = traced(model, config)
    fuse(model, is_qat)
    configs = Configurations(qconfig_mapping, model, scopes)
    modules = modules_of(model)
    for node in model.graph.nodes:
        if node.op == "call_module":
            module = modules[node.target]
            module.qconfig = configs.found[node.name]
            for part in module.children() if isinstance(module, _FusedModule) else ():
                part.qconfig = module.qconfig
    if is_qat:
        learn(model, modules)
    watching = Watching(model, configs)
    for node in list(model.graph.nodes):
        if node.op.startswith("call_"):
            watching.visit(node)
    model.graph.lint()
    model.recompile()
    return model


def learn(model: Any, modules: dict[str, Any]) -> None:
    """Modules that round their weights, for those in the graph that have such forms."""
    mapping = mappings.get_default_qat_module_mappings()
    for node in model.graph.nodes:
        if node.op == "call_module":
            made = swap_module(modules[node.target], mapping, {})
            outer, _, leaf = node.target.rpartition(".")
            setattr(model.get_submodule(outer), leaf, made)


def prepare_fx(
    model: Any, qconfig_mapping: Any, example_inputs: Any, prepare_custom_config: Any = None,
    _equalization_config: Any = None, backend_config: Any = None,
) -> Any:  # fmt: skip
    """The graph of a model in evaluation, with observers: call it with data, then convert it."""
    refuse_others(_equalization_config=_equalization_config, backend_config=backend_config)
    return prepared(model, qconfig_mapping, prepare_custom_config, is_qat=False)


def prepare_qat_fx(
    model: Any, qconfig_mapping: Any, example_inputs: Any, prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> Any:  # fmt: skip
    """The graph of a model with rounded weights and results: train it, then convert it."""
    refuse_others(backend_config=backend_config)
    return prepared(model, qconfig_mapping, prepare_custom_config, is_qat=True)
