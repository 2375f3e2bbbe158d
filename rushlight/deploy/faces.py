"""Packages under torch's names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.base.errors import error
from rushlight.deploy.loading import LoadedPackage, load_package
from rushlight.export.driver import export
from rushlight.export.program import ExportedProgram
from rushlight.nn.module import Module

__all__ = [
    "aot_compile",
    "aot_load",
    "aoti_compile_and_package",
    "aoti_load_package",
    "compile_graph_ahead",
]

# Settings of torch's code generator that say where a package goes and what it is called.
WHERE = ("aot_inductor.output_path", "aot_inductor.package")
TARGETS = "aot_inductor.targets"


def targets_in(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of `package()` among settings; others are refused, for none is read."""
    found = dict(options or {})
    unknown = sorted(set(found) - {TARGETS, *WHERE})
    if unknown:
        raise error("RL1593", ValueError, names=", ".join(unknown), known=TARGETS)
    return {"targets": tuple(found[TARGETS])} if TARGETS in found else {}


def aoti_compile_and_package(
    exported_program: ExportedProgram,
    _deprecated_unused_args: Any = None,
    _deprecated_unused_kwargs: Any = None,
    *,
    package_path: Any = None,
    inductor_configs: Mapping[str, Any] | None = None,
) -> str:
    """Write a program as a package of machine code, in one file; gives its path.

    The settings `aot_inductor.targets` name sets of instructions, the best first.
    """
    from rushlight.deploy.writing import package

    if not isinstance(exported_program, ExportedProgram):
        raise ValueError(
            "aoti_compile_and_package() takes an ExportedProgram, got "
            f"{type(exported_program).__name__}; torch.export.export(module, args) makes one"
        )
    path = fresh_path() if package_path is None else os.fspath(package_path)
    if not path.endswith(".pt2"):
        raise ValueError(f"Expect package path to end with .pt2, got {path!r}")
    return package(exported_program, path, **targets_in(inductor_configs))


def fresh_path() -> str:
    handle, path = tempfile.mkstemp(suffix=".pt2")
    os.close(handle)
    return path


def aoti_load_package(
    path: Any, run_single_threaded: bool = False, device_index: int = -1, num_runners: int = 1
) -> LoadedPackage:
    """The function of a package. Load only what you would run."""
    return load_package(path)


def aot_compile(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    options: Mapping[str, Any] | None = None,
    remove_runtime_assertions: bool = False,
    disable_constraint_solver: bool = False,
    same_signature: bool = True,
) -> str:
    """Export a module or function and write it as a package; gives its path."""
    if remove_runtime_assertions or disable_constraint_solver or not same_signature:
        raise error("RL1593", ValueError, names="of torch's tracer", known=TARGETS)
    module = f if isinstance(f, Module) else FunctionModule(f)
    program = export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    path = (options or {}).get("aot_inductor.output_path") or fresh_path()
    return aoti_compile_and_package(program, package_path=path, inductor_configs=options)


def compile_graph_ahead(
    gm: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> str:
    """`torch._inductor.aot_compile`: a module of a graph, for inputs of these sizes."""
    return aot_compile(gm, args, kwargs, options=options)


def aot_load(so_path: str, device: str) -> LoadedPackage:
    """The function of a package that `aot_compile` wrote."""
    if device != "cpu":
        raise error("RL1586", NotImplementedError, what=f"code for the device {device!r}")
    return load_package(so_path)


class FunctionModule(Module):
    """A function as a module to export."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        vars(self)["forward"] = function
