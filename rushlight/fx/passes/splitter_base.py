"""Parts of splitting a graph between an accelerator and the CPU: which nodes the one can take."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.autograd.grad_mode import no_grad
from rushlight.fx.passes.tools_common import is_node_output_tensor

__all__ = [
    "FxNetAccNodesFinder", "FxNetSplitterInternalError", "NodeEvent", "NodeEventTracker",
    "SplitResult", "Subgraph", "generate_inputs_for_submodules",
]  # fmt: skip


CALLABLE_NODE_OPS = frozenset(("call_module", "call_function", "call_method"))


class FxNetSplitterInternalError(Exception):
    """A split that went wrong."""


@dataclass
class Subgraph:
    """Nodes that run together, on the accelerator or not."""

    is_acc: bool
    nodes: list[Any]
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """The module after a split, the inputs of its parts, and how those of the CPU are called."""

    split_module: Any
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


class NodeEvent:
    """That something was decided of a node, and because of which other one."""

    def __init__(self, source: Any, desc: str, dep: Any = None) -> None:
        self.source = source
        self.desc = desc
        self.dep = dep

    def to_str(self) -> str:
        return f"{self.source.name}: {self.desc} {self.dep.name if self.dep else '#'}"


class NodeEventTracker:
    """What was decided of nodes, in order. `dump` writes it to files of a prefix: nothing in mode
    0, all from mode 1 on, and the nodes of several events with their causes in mode 3."""

    def __init__(self, tracker_mode: int, dump_prefix: str) -> None:
        self.tracker_mode = tracker_mode
        self.dump_prefix = dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}
        self.writer: Callable[[str], Any] = print

    def add(self, node: Any, desc: str, dep: Any = None) -> None:
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(
        self, node_name: str, recursive: bool = False, tab: str = "", writer: Any = None
    ) -> None:
        """Writes what was decided of a node, and of the nodes that it was decided by."""
        writer = writer or self.writer
        for number in self.node_events.get(node_name, []):
            event = self.events[number]
            writer(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, True, "| " + tab, writer)

    def to_dict(self) -> dict[str, list[str]]:
        return {
            name: [self.events[number].to_str() for number in numbers]
            for name, numbers in self.node_events.items()
        }

    def print_all(self, writer: Any = None) -> None:
        writer = writer or self.writer
        for name in self.node_events:
            writer(f"Node: {name}:")
            self.print_node(name, tab="  ", writer=writer)

    def dump(self) -> None:
        if self.tracker_mode >= 1:
            with open(f"{self.dump_prefix}_all.txt", "w", encoding="utf-8") as file:
                self.print_all(lambda line: file.write(line + "\n"))
        if self.tracker_mode == 3:
            several = [name for name, events in self.node_events.items() if len(events) > 1]
            with open(f"{self.dump_prefix}_nodes.txt", "w", encoding="utf-8") as file:
                for name in several:
                    file.write(f"===== Tracking node {name} =====\n")
                    self.print_node(name, True, "|-", lambda line: file.write(line + "\n"))
                    file.write(f"===== End of tracking node {name} =====\n")


class FxNetAccNodesFinder:
    """Finds the nodes that the accelerator takes: those it supports, without any that would take
    from a node of the CPU, or give it, what is no tensor (unless `allow_non_tensor`)."""

    def __init__(self, module: Any, operator_support: Any, allow_non_tensor: bool) -> None:
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: set[Any] = set()
        self.tracker = NodeEventTracker(0, "node_tracker")

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: list[Any]) -> None:
        """Takes out the users of nodes that went to the CPU, and theirs, while no tensor passes."""
        while cpu_worklist:
            node = cpu_worklist.pop(0)
            for user in node.users:
                if user not in self.acc_nodes:
                    continue
                self.acc_nodes.remove(user)
                self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                if not is_node_output_tensor(user):
                    self.tracker.add(user, "new_cpu_node|non_tensor_output")
                    cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        outside = [
            node
            for node in self.module.graph.nodes
            if node.op in CALLABLE_NODE_OPS
            and node not in self.acc_nodes
            and not is_node_output_tensor(node)
        ]
        for node in outside:
            self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
        self.reduce_acc_nodes_non_tensor_input_helper(outside)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        while True:
            leaving = []
            for node in self.acc_nodes:
                user = next((user for user in node.users if user not in self.acc_nodes), None)
                if user is not None and not is_node_output_tensor(node):
                    self.tracker.add(node, "acc_del|non_tensor_output_with_cpu_user", user)
                    leaving.append(node)
            if not leaving:
                return
            self.acc_nodes.difference_update(leaving)
            self.reduce_acc_nodes_non_tensor_input_helper(leaving)

    def __call__(self) -> set[Any]:
        modules = dict(self.module.named_modules())
        self.acc_nodes = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                self.tracker.add(node, "init_cpu|not_callable")
            elif not self.operator_support.is_node_supported(modules, node):
                self.tracker.add(node, "init_cpu|operator_support")
            else:
                self.tracker.add(node, "init_acc|callable_and_operator_supported")
                self.acc_nodes.add(node)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes


def generate_inputs_for_submodules(
    model: Any, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """What submodules are called with while a model runs on `inputs`, by their paths."""
    wanted = set(target_submodules)
    found: dict[str, Any] = {}
    handles = []
    for name, module in model.named_modules():
        if name in wanted:

            def note(module: Any, given: Any, name: str = name) -> None:
                found[name] = copy.deepcopy(given) if deepcopy else given

            handles.append(module.register_forward_pre_hook(note))
    try:
        with no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
