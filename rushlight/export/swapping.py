"""Programs with other modules in place of some: their trees, with what was exchanged.

A module can be exchanged where the program says how it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rushlight.base.errors import error
from rushlight.export.unflattening import UnflattenedModule, unflatten

if TYPE_CHECKING:
    from rushlight.export.program import ExportedProgram
    from rushlight.nn.module import Module

__all__ = ["swap_modules"]


def swap_modules(ep: ExportedProgram, modules_to_swap: Mapping[str, Module]) -> UnflattenedModule:
    """The tree of a program, with other modules at some paths.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    >>> x = (torch.zeros(2),)
    >>> ep = torch.export.export(model, x, preserve_module_call_signature=("1",))
    >>> swap_modules(ep, {"1": torch.nn.Sigmoid()})(*x)
    tensor([0.5000, 0.5000])
    """
    kept = {entry.fqn for entry in ep.module_call_graph if entry.fqn and entry.signature}
    for path in modules_to_swap:
        if path not in kept:
            raise error("RL1504", RuntimeError, path=path)
    tree = unflatten(ep)
    for path, module in modules_to_swap.items():
        tree.set_submodule(path, module)
    return tree
