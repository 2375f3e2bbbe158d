"""What nodes say of where they come from: module stack, source lines, torch function.

Modules are named by their path from the root; one that the root does not hold has no name. A node
that comes from a node of an earlier program says what that said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from rushlight.core.hop import HigherOrderOperator
from rushlight.core.modes import TorchFunctionMode
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.functional import NAMES as PYTHON_FUNCTIONS
from rushlight.fx.origins import Origins
from rushlight.nn.homes import torch_class_name
from rushlight.nn.module import Module
from rushlight.opset import registry

if TYPE_CHECKING:
    from rushlight.graph.node import Node

__all__ = ["FunctionNames", "ProgramOrigins"]

ROOT_KEY = "L__self__"
# Operators whose torch name is not that of their method.
OPERATORS = {"truediv": "div", "rtruediv": "div", "rsub": "rsub"}
DUNDER = re.compile(r"^__i?r?(add|sub|mul|truediv|matmul|pow|and|or|xor)__$")


class FunctionNames(TorchFunctionMode):
    """Knows which torch function is being called, and how many calls of it there were."""

    def __init__(self, is_sources: bool = False) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.current: tuple[str, str] | None = None
        # The functions as a strict trace names them.
        self.is_sources = is_sources
        self.source: tuple[str, Any] | None = None

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            # The functions that it runs are seen as they are.
            with self:
                return func.dispatch(*args, **(kwargs or {}))
        name, sort = function_name(func)
        outer = self.current, self.source
        self.counts[name] += 1
        number = self.counts[name]
        self.current = f"{name}_{number}", f"{sort}.{name}"
        if self.is_sources:
            self.source = name if number == 1 else f"{name}_{number - 1}", func
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.current, self.source = outer


def function_name(func: Any) -> tuple[str, str]:
    """A function's name and torch's word for what it is in Python."""
    name = getattr(func, "__name__", type(func).__name__)
    if getattr(Tensor, name, None) is func or hasattr(func, "__objclass__"):
        plain = DUNDER.match(name)
        if plain:
            return OPERATORS.get(plain[1], plain[1]), "method_descriptor"
        if name.startswith("__") and name.endswith("__"):
            return name, "wrapper_descriptor"
        return name, "method_descriptor"
    module = getattr(func, "__module__", "") or ""
    if module in ("rushlight", "torch") and name not in PYTHON_FUNCTIONS:
        return name, "builtin_function_or_method"
    if module.startswith(("rushlight.", "torch.")) and (name == "tensor" or is_op(module, name)):
        return name, "builtin_function_or_method"
    return name, type(func).__name__


def is_op(module: str, name: str) -> bool:
    """Whether a function of the library is an op as it is, also where nn.functional has it."""
    if module.startswith(("rushlight.opset", "torch._C")):
        return True
    try:
        found = registry.packet(name)
    except KeyError:
        return False
    return any([op.options.get("functional") for op in found.table.values()])


class ProgramOrigins(Origins):
    """Describes the nodes that are made below a frame, for programs."""

    def __init__(self, top: FrameType, root: Module, names: FunctionNames) -> None:
        super().__init__(top, None, modules=True, stacks=True)
        self.root = root
        self.names = names
        # Identity of a module -> its paths.
        self.all_paths: dict[int, list[str]] = {}
        for path, member in root.named_modules(remove_duplicate=False):
            self.all_paths.setdefault(id(member), []).append(path)
        # Calls that were seen: the frame is held so that its identity stays its own.
        self.calls: dict[int, tuple[FrameType, str, int]] = {}
        self.counts: Counter[str] = Counter()
        # Identity of a module -> the last name by which it was asked for.
        self.asked: dict[int, str] = {}

    @contextmanager
    def noting_names(self) -> Iterator[None]:
        """Inside, it is known by which name a module with several was asked for last."""
        if all([len(paths) == 1 for paths in self.all_paths.values()]):
            yield
            return
        cls: Any = Module
        original = cls.__getattr__

        def noting(module: Any, name: str) -> Any:
            value = original(module, name)
            if isinstance(value, Module):
                self.asked[id(value)] = name
            return value

        cls.__getattr__ = noting
        try:
            yield
        finally:
            cls.__getattr__ = original

    def describe(self, node: Node) -> None:
        inherited = LOCAL.state.node_meta or {}
        meta = node.meta
        if "nn_module_stack" not in meta or "stack_trace" not in meta:
            origin = self.current()
            if origin.modules and "nn_module_stack" not in meta:
                meta["nn_module_stack"] = dict(origin.modules)
            if origin.stack and "stack_trace" not in inherited:
                node.stack_trace = origin.stack
        if self.names.current is not None and "torch_fn" not in meta:
            meta["torch_fn"] = self.names.current
        if self.names.source is not None and "source_fn_stack" not in meta:
            meta["source_fn_stack"] = [self.names.source]

    def stack_of(self, called: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        outer = ""
        for frame in called:
            module = frame.f_locals["self"]
            if id(module) not in self.all_paths:
                continue
            path, number = self.call_of(frame, module, outer)
            key = ROOT_KEY + path + (f"@{number}" if number else "")
            found[key] = (path, torch_class_name(type(module)))
            outer = path
        return found

    def call_of(self, frame: FrameType, module: Module, outer: str) -> tuple[str, int]:
        """The path by which a module was called, and how many calls of it were before."""
        known = self.calls.get(id(frame))
        if known is None:
            path = self.path_of(module, outer)
            known = self.calls[id(frame)] = frame, path, self.counts[path]
            self.counts[path] += 1
        return known[1], known[2]

    def path_of(self, module: Module, outer: str) -> str:
        paths = self.all_paths[id(module)]
        if len(paths) == 1:
            return paths[0]
        prefix = f"{outer}." if outer else ""
        inside = [path for path in paths if path.startswith(prefix)] or paths
        name = self.asked.get(id(module))
        named = [path for path in inside if path.rpartition(".")[2] == name]
        return (named or inside)[0]
