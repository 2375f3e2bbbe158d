"""Graphs to native code: functional graph, loop IR, fusion, LLVM IR, machine code.

`lower(module, example_inputs)` compiles a GraphModule of ops whose nodes carry `meta["val"]`.
"""

from __future__ import annotations

from rushlight.codegen.driver import Compiled, lower

__all__ = ["Compiled", "lower"]
