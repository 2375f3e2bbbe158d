"""Watched graphs as graphs of quantised numbers.

Each observer becomes a step to integers and one back to floats. A call whose operands come back
from integers and whose result goes to them is then done by what computes with integers, and the
steps around it are no longer needed.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.core.construct import tensor
from rushlight.quantization import mappings
from rushlight.quantization.converting import swap_module
from rushlight.quantization.graphs import table
from rushlight.quantization.graphs.customs import (
    ConvertCustomConfig,
    options_of,
    refuse_others,
)
from rushlight.quantization.graphs.preparing import is_dynamic, modules_of
from rushlight.quantization.observers import QINT8, QUINT8, is_watching
from rushlight.quantization.static import operator
from rushlight.subclasses.quantized import quantize_per_tensor

__all__ = ["convert_fx", "convert_to_reference_fx"]


SCALED = ("output_scale", "output_zero_point")


class Lowering:
    """The graph while it is changed."""

    def __init__(self, model: Any) -> None:
        self.model, self.graph = model, model.graph
        self.modules = modules_of(model)
        # Node that quantises -> (its scale's node, its zero point's, the observer).
        self.steps: dict[Any, Any] = {}
        self.watched: dict[Any, Any] = {}
        # What was there before, for modules that several nodes call: the last call's scale stays.
        self.originals: dict[str, Any] = {}

    def value(self, prefix: str, number: Any) -> Any:
        """A node that reads a new buffer."""
        count = 0
        while hasattr(self.model, f"{prefix}{count}"):
            count += 1
        name = f"{prefix}{count}"
        self.model.register_buffer(name, number)
        return self.graph.create_node("get_attr", name, (), {}, name)

    def prefix_of(self, node: Any, observer: Any) -> str:
        """How the scale of a node's result is called: by the module it is of, or of its user."""
        own = node.op.startswith("call_")
        module = self.modules.get(node.target) if node.op == "call_module" else None
        if own and not (module is not None and getattr(module, "qconfig", None) is None):
            return node.target if node.op == "call_module" else ""
        for user in observer.users:
            if user.op == "call_module":
                return f"{user.target}_input"
        return "_input"

    # -- observers -----------------------------------------------------------------------------

    def replace_observers(self) -> None:
        for node in list(self.graph.nodes):
            observer = self.modules.get(node.target) if node.op == "call_module" else None
            if not is_watching(observer):
                continue
            source = node.args[0]
            delattr(self.model, node.target)
            if observer.dtype not in (QINT8, QUINT8) or getattr(observer, "is_dynamic", False):
                node.replace_all_uses_with(source)
                self.graph.erase_node(node)
                continue
            scale, zero_point = observer.calculate_qparams()
            prefix = self.prefix_of(source, node).replace(".", "_")
            with self.graph.inserting_before(node):
                parts = [
                    self.value(f"{prefix}_scale_", tensor(float(scale))),
                    self.value(f"{prefix}_zero_point_", tensor(int(zero_point))),
                ]
                made = self.graph.call_function(
                    quantize_per_tensor, (source, *parts, observer.dtype)
                )
                back = self.graph.call_method("dequantize", (made,))
            node.replace_all_uses_with(back)
            self.graph.erase_node(node)
            self.steps[made], self.watched[source] = parts, observer

    # -- calls ---------------------------------------------------------------------------------

    def integers_of(self, value: Any) -> Any:
        """The quantised node that a float one comes back from; None for other floats."""
        if getattr(value, "op", "") == "call_method" and value.target == "dequantize":
            return value.args[0]
        return None

    def step_after(self, node: Any) -> Any:
        """The one user, where that quantises."""
        users = list(node.users)
        return users[0] if len(users) == 1 and users[0] in self.steps else None

    def lower(self, node: Any) -> None:
        kind = table.kind_of(node, self.modules)
        if kind is None:
            return
        if node.op == "call_module" and node.target in self.originals:
            self.modules[node.target] = self.originals[node.target]
            kind = type(self.modules[node.target])
        module = self.modules[node.target] if node.op == "call_module" else None
        if is_dynamic(getattr(module, "qconfig", None)):
            self.swap(node, mappings.get_default_dynamic_quant_module_mappings())
            return
        if kind in table.JOINING:
            self.join(node)
            return
        name = table.quantised_op(node)
        if name is not None and node.op == "call_function":
            self.by_scale(node, name)
            return
        if kind not in table.OWN | table.SHARED | table.FIXED or not node.args:
            return
        source, after = self.integers_of(node.args[0]), self.step_after(node)
        if source is None or after is None:
            return
        node.args = (source, *node.args[1:])
        if kind in table.OWN:
            self.modules[node.target].activation_post_process = self.watched[node]
            self.swap(node, mappings.get_default_static_quant_module_mappings())
        self.take_place(after, node)

    def swap(self, node: Any, mapping: Any) -> None:
        outer, _, leaf = node.target.rpartition(".")
        before = self.originals.setdefault(node.target, self.modules[node.target])
        made = swap_module(before, mapping, {})
        setattr(self.model.get_submodule(outer), leaf, made)
        self.modules[node.target] = made

    def take_place(self, after: Any, node: Any) -> None:
        """What went to integers after a call is the call's own result."""
        after.replace_all_uses_with(node)
        parts = self.steps.pop(after)
        self.graph.erase_node(after)
        for part in parts:
            if not part.users:
                self.graph.erase_node(part)
                delattr(self.model, part.target)

    def join(self, node: Any) -> None:
        sources = [self.integers_of(each) for each in node.args[0]]
        after = self.step_after(node)
        if after is None or any(each is None for each in sources):
            return
        node.args = (sources, *node.args[1:])
        self.take_place(after, node)

    def by_scale(self, node: Any, name: str) -> None:
        """A function with a quantised form: that takes the scale of its result."""
        following = next(iter(node.users)) if len(node.users) == 1 else None
        last = node
        is_pair = following is not None and table.is_relu(following, self.modules)
        if name in ("add", "mul") and is_pair:
            last, name = following, f"{name}_relu"
        after = self.step_after(last)
        count = 2 if name.partition("_")[0] in ("add", "mul", "matmul") else 1
        given = list(node.args[:count])
        sources = [self.integers_of(each) if hasattr(each, "users") else each for each in given]
        if after is None or any(each is None for each in sources):
            return
        numbers = [each for each in sources if not hasattr(each, "users")]
        parts = () if numbers else tuple(self.steps[after])
        if numbers and not hasattr(sources[0], "users"):
            sources.reverse()
        with self.graph.inserting_before(after):
            made = self.graph.call_function(
                operator(name), *self.arguments(name, node, sources, parts)
            )
        after.replace_all_uses_with(made)
        stored = self.steps.pop(after)
        for each in (after, last, *([node] if last is not node else [])):
            self.graph.erase_node(each)
        for part in stored:
            if not part.users:
                self.graph.erase_node(part)
                delattr(self.model, part.target)

    def arguments(self, name: str, node: Any, sources: Any, parts: Any) -> Any:
        rest, named = list(node.args[len(sources) :]), dict(node.kwargs)
        if name in ("add", "mul", "add_relu", "mul_relu", "matmul"):
            return (*sources, *parts), {}
        if name == "leaky_relu":
            slope = rest[0] if rest else named.get("negative_slope", 0.01)
            given = {"negative_slope": slope, "inplace": False}
            return (*sources,), {**given, **dict(zip(SCALED, parts, strict=True))}
        if name == "hardswish":
            return (*sources,), dict(zip(SCALED, parts, strict=True))
        if name == "elu":
            return (*sources, *parts, rest[0] if rest else named.get("alpha", 1.0)), {}
        if name == "dropout":
            return (*sources, *parts), {}
        if name == "layer_norm":
            values = dict(zip(("normalized_shape", "weight", "bias", "eps"), rest, strict=False))
            values = {"weight": None, "bias": None, "eps": 1e-5, **values, **named}
            ordered = [values[key] for key in ("normalized_shape", "weight", "bias", "eps")]
            return (*sources, *ordered, *parts), {}
        values = {"weight": None, "bias": None, "eps": 1e-5, **named}
        return (*sources, values["weight"], values["bias"], values["eps"], *parts), {}

    def finish(self) -> Any:
        for node in reversed(list(self.graph.nodes)):
            unused = not node.users and node.op in ("call_method", "call_function", "get_attr")
            steps = node in self.steps or self.integers_of(node) is not None
            if unused and (steps or node.op == "get_attr"):
                self.graph.erase_node(node)
        used = {node.target for node in self.graph.nodes if node.op == "get_attr"}
        for name in list(self.model._buffers):
            if ("_scale_" in name or "_zero_point_" in name) and name not in used:
                delattr(self.model, name)
        self.graph.lint()
        self.model.recompile()
        self.model.delete_all_unused_submodules()
        for module in self.model.modules():
            vars(module).pop("qconfig", None)
        return self.model


def convert_fx(
    graph_module: Any, convert_custom_config: Any = None, _remove_qconfig: bool = True,
    qconfig_mapping: Any = None, backend_config: Any = None, keep_original_weights: bool = False,
) -> Any:  # fmt: skip
    """The graph of a watched model, of quantised numbers."""
    refuse_others(
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
        keep_original_weights=keep_original_weights,
    )
    # The model is changed in place, so that attributes stay.
    options_of(convert_custom_config, ConvertCustomConfig)
    lowering = Lowering(graph_module)
    lowering.replace_observers()
    for node in list(lowering.graph.nodes):
        lowering.lower(node)
    return lowering.finish()


def convert_to_reference_fx(graph_module: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused: there are no reference modules."""
    raise MissingFeature("convert_to_reference_fx", "Use convert_fx.", code="RL0012")
