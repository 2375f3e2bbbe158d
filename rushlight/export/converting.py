"""Compiled modules and functions as programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.export.driver import export_module
from rushlight.nn.module import Module

if TYPE_CHECKING:
    from rushlight.export.program import ExportedProgram

__all__ = ["TS2EPConverter"]


class CompiledFunction(Module):
    """A module that does what a compiled function does."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        vars(self)["forward"] = function


class TS2EPConverter:
    """Makes a program of what was scripted or traced. Its loops and branches are decided as for
    the example.

    >>> import rushlight as torch
    >>> traced = torch.jit.trace(torch.nn.ReLU(), torch.ones(2))
    >>> TS2EPConverter(traced, (torch.ones(2),)).convert().module()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(
        self, ts_model: Any, sample_args: tuple[Any, ...], sample_kwargs: Any = None
    ) -> None:
        self.module = ts_model if isinstance(ts_model, Module) else CompiledFunction(ts_model)
        self.args = sample_args
        self.kwargs = sample_kwargs

    def convert(self) -> ExportedProgram:
        return export_module(self.module, self.args, self.kwargs, strict=False, pre_dispatch=True)
