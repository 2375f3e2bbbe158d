"""Graphs to native code: functional graph, loop IR, fusion, LLVM IR, machine code.

`lower(module, example_inputs)` compiles a GraphModule of ops whose nodes carry `meta["val"]`.
Names are imported when they are first used: what compiled code needs to run is a small part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.base.lazy import namespace

if TYPE_CHECKING:
    from rushlight.codegen.driver import Compiled, lower

__all__ = ["Compiled", "lower"]

__getattr__, __dir__ = namespace(__name__, dict.fromkeys(("Compiled", "lower"), ".driver"))
