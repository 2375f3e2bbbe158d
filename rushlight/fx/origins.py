"""Where the nodes of a trace come from: the modules that were being called, and the source lines.

Both are read from the frames of the running program, so nothing is hooked. Nodes that a backward
makes get what the call had whose gradient is computed.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.state import LOCAL
from rushlight.nn.module import Module

if TYPE_CHECKING:
    from rushlight.graph.node import Node

__all__ = ["Origins"]

PACKAGE = str(Path(__file__).parents[1])
CALL = Module.__call__.__code__


class Origin(NamedTuple):
    modules: dict[str, tuple[str, Any]]
    stack: str


class Origins:
    """Writes `nn_module_stack` and `stack_trace` on nodes that are made below the frame `top`.

    Paths are those below `root`; a module that is called outside of it is named by its class.
    """

    def __init__(self, top: FrameType, root: object, modules: bool, stacks: bool) -> None:
        self.top = top
        self.modules = modules
        self.stacks = stacks
        # Outermost modules -> their name. Holding them keeps their identities from being reused.
        self.roots: dict[Module, str] = {root: ""} if isinstance(root, Module) else {}
        # Identity of a module -> its path.
        self.paths: dict[int, str] = {}
        for outermost in self.roots:
            self.name_members(outermost)
        # The number of an autograd node -> where the call was made that it differentiates.
        self.of_calls: dict[int, Origin] = {}

    def describe(self, node: Node) -> None:
        """Write on a new node where it comes from."""
        state = LOCAL.state
        running = state.tasks[-1].current if state.tasks else None
        if running is not None:
            node.meta["autograd_backward"] = True
            node.meta["seq_nr"] = running.sequence_nr
            origin = self.of_calls.get(running.sequence_nr)
        else:
            origin = self.current()
            number = node.meta.get("seq_nr")
            if number is not None:
                # The first node of a number is the call's; later ones have no gradient.
                self.of_calls.setdefault(number, origin)
        if origin is None:
            return
        if origin.modules:
            node.meta["nn_module_stack"] = dict(origin.modules)
        if origin.stack:
            node.stack_trace = origin.stack

    def current(self) -> Origin:
        """What the frames between here and `top` say."""
        called: list[FrameType] = []
        lines: list[tuple[FrameType, int]] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self.top:
            if frame.f_code is CALL:
                called.append(frame)
            elif self.stacks and not is_own(frame.f_code.co_filename):
                lines.append((frame, frame.f_lineno))
            frame = frame.f_back
        modules = self.stack_of(called[::-1]) if self.modules else {}
        summary = traceback.StackSummary.extract(reversed(lines)) if lines else []
        return Origin(modules, "".join(traceback.format_list(summary)).strip())

    def stack_of(self, called: list[FrameType]) -> dict[str, tuple[str, Any]]:
        """The modules of frames that call one, outermost first."""
        found: dict[str, tuple[str, Any]] = {}
        for frame in called:
            module = frame.f_locals["self"]
            if id(module) not in self.paths:
                self.adopt(module)
            path = self.paths[id(module)]
            found[path] = (path, type(module))
        return found

    def adopt(self, module: Module) -> None:
        """Name a module that no known one holds, and all below it."""
        name, number = type(module).__name__, 0
        taken = set(self.roots.values())
        while (path := f"{name}_{number}" if number else name) in taken:
            number += 1
        self.roots[module] = path
        self.name_members(module)

    def name_members(self, root: Module) -> None:
        for path, member in root.named_modules(prefix=self.roots[root]):
            self.paths.setdefault(id(member), path)


def is_own(filename: str) -> bool:
    """Whether code is Rushlight's: its files, and what it generates."""
    return filename.startswith((PACKAGE, "<rushlight"))
