"""Entry points that torch has under private names, at other altitudes than `export`'s."""

from __future__ import annotations

from typing import Any

from rushlight.capture.exc import UserError, UserErrorType
from rushlight.export.driver import export, export_module
from rushlight.export.program import ExportedProgram
from rushlight.export.signature import InputKind
from rushlight.fx.graph_module import GraphModule
from rushlight.nn.module import Module

__all__ = [
    "capture_pre_autograd_graph", "export_at", "export_for_inference", "export_for_training",
    "export_to_torch_ir", "get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer",
    "is_lifted_tensor_constant", "is_param",
]  # fmt: skip


def export_at(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
    pre_dispatch: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    allow_complex_guards_as_runtime_asserts: bool = False,
    _allow_complex_guards_as_runtime_asserts: bool = False,
    _disable_forced_specializations: bool = False,
) -> ExportedProgram:
    """`torch.export._trace._export`: the program at an altitude, with switches of the solver."""
    if _disable_forced_specializations and strict:
        raise UserError(
            UserErrorType.INVALID_INPUT,
            "_disable_forced_specializations can be only be specified in non-strict mode.",
        )
    return export_module(
        mod,
        args,
        kwargs,
        dynamic_shapes,
        strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        pre_dispatch=pre_dispatch,
        defer_guards=allow_complex_guards_as_runtime_asserts
        or _allow_complex_guards_as_runtime_asserts
        or prefer_deferred_runtime_asserts_over_guards,
        allow_constants=_disable_forced_specializations,
    )


def export_for_training(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """The program with its writes in place.

    >>> import rushlight as torch
    >>> class Count(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.add_(1)
    >>> print(export_for_training(Count(), (torch.ones(2),)).graph_module.code.strip())
    def forward(self, x):
        add_ = torch.ops.aten.add_.Tensor(x, 1);  x = None
        return (add_,)
    """
    return export_module(
        mod,
        args,
        kwargs,
        dynamic_shapes,
        strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        pre_dispatch=True,
        functional=False,
    )


def export_for_inference(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
    decomp_table: Any = None,
) -> ExportedProgram:
    """The program over core aten."""
    paths = preserve_module_call_signature
    program = export(
        mod,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        strict=strict,
        preserve_module_call_signature=paths,
    )
    return program.run_decompositions(decomp_table)


def capture_pre_autograd_graph(
    f: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> GraphModule:
    """The module of a program, with checks of its inputs."""
    return export(f, args, kwargs, dynamic_shapes=dynamic_shapes).module()


def export_to_torch_ir(
    f: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    preserve_module_call_signature: tuple[str, ...] = (),
    restore_fqn: bool = False,
) -> GraphModule:
    """A module whose state has flat names unless `restore_fqn`."""
    paths = preserve_module_call_signature
    program = export_for_training(
        f, args, kwargs, dynamic_shapes, preserve_module_call_signature=paths
    )
    module = program.module()
    if not restore_fqn:
        flatten_state(module)
    return module


def flatten_state(module: GraphModule) -> None:
    """Put all tensors of a module into itself, with `_` for the dots of their names."""
    from rushlight.export.unlift import place

    buffers = dict(module.named_buffers())
    values = {**dict(module.named_parameters()), **buffers}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            node.target = str(node.target).replace(".", "_")
    for name in {name.partition(".")[0] for name in values if "." in name}:
        delattr(module, name)
    for name, value in values.items():
        if "." in name:
            place(module, name.replace(".", "_"), value, True, name in buffers)
    module.recompile()


# -- what a placeholder stands for -----------------------------------------------------------------


def value_for(program: ExportedProgram, node: Any, kind: InputKind) -> Any:
    target = program.graph_signature.by_input(kind).get(node.name)
    return None if target is None else program._value_of(target)


def is_param(program: ExportedProgram, node: Any) -> bool:
    """Whether a node is the placeholder of a parameter."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program: ExportedProgram, node: Any) -> Any:
    """The parameter that a placeholder stands for; None where it stands for something else."""
    return value_for(program, node, InputKind.PARAMETER)


def is_buffer(program: ExportedProgram, node: Any) -> bool:
    """Whether a node is the placeholder of a buffer."""
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program: ExportedProgram, node: Any) -> Any:
    """The buffer that a placeholder stands for; None where it stands for something else."""
    return value_for(program, node, InputKind.BUFFER)


def is_lifted_tensor_constant(program: ExportedProgram, node: Any) -> bool:
    """Whether a node is the placeholder of a constant."""
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program: ExportedProgram, node: Any) -> Any:
    """The constant that a placeholder stands for; None where it stands for something else."""
    return value_for(program, node, InputKind.CONSTANT_TENSOR)
