"""What the graph of a program may hold: a check for each dialect, run whenever one is made.

A dialect is a subclass of `Verifier` with a name of its own; files name the dialect they are in.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from rushlight.base.pytree import TreeSpec
from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.op import OpOverload
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.export.signature import (
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    InputSpec,
    OutputKind,
    TensorArgument,
    TokenArgument,
)
from rushlight.fx.graph_module import GraphModule
from rushlight.symbolic import numbers

if TYPE_CHECKING:
    from rushlight.export.program import ExportedProgram
    from rushlight.graph.node import Node

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]

BUILTINS = (
    operator.getitem, operator.add, operator.mul, operator.sub, operator.truediv, operator.ge,
    operator.le, operator.gt, operator.lt, operator.eq, operator.ne, operator.floordiv,
    operator.mod, operator.and_, operator.or_, operator.not_, operator.pow, operator.neg,
    operator.abs, operator.lshift, operator.rshift, math.ceil, math.floor, math.trunc, round,
)  # fmt: skip
VALUES = (int, float, str, Tensor, device, dtype, layout, memory_format, CustomObjArgument)


class SpecViolationError(Exception):
    """A program whose graph, or whose signature, is not what its dialect says."""


def torch_functions() -> tuple[Any, ...]:
    """Functions that are no ops and yet may be called: of numbers, and switches of modes."""
    from rushlight.autograd.grad_mode import set_grad_enabled, write_grad
    from rushlight.func import nesting

    return (
        nesting.add_batch_dim, nesting.lazy_load_decompositions, nesting.remove_batch_dim,
        nesting.vmap_decrement_nesting, nesting.vmap_increment_nesting,
        numbers.sym_float, numbers.sym_int, numbers.sym_ite, numbers.sym_max, numbers.sym_min,
        numbers.sym_not, numbers.sym_sqrt, numbers.sym_sum, set_grad_enabled, write_grad,
    )  # fmt: skip


class Verifier:
    """The dialect of `export`: functional ops, higher-order ops and arithmetic of sizes."""

    dialect: ClassVar[str] = "ATEN"
    registry: ClassVar[dict[str, type[Verifier]]] = {}

    def __init_subclass__(cls) -> None:
        if "dialect" not in vars(cls) or cls.dialect == "ATEN":
            raise AssertionError(f"{cls.__name__} must define a dialect other than 'ATEN'")
        if "check" in vars(cls):
            raise SyntaxError("Overriding method check is not allowed.")
        Verifier.registry[cls.dialect] = cls

    def allowed_builtin_ops(self) -> list[Any]:
        return list(BUILTINS)

    def allowed_op_types(self) -> tuple[type[Any], ...]:
        return (OpOverload, HigherOrderOperator)

    def allowed_getattr_types(self) -> tuple[type[Any], ...]:
        return (GraphModule, TreeSpec)

    def allowed_getattr_types_for_subgm(self) -> tuple[type[Any], ...]:
        return (GraphModule, Tensor, TreeSpec)

    def check_valid_op(self, op: Any) -> None:
        """A dialect's own check of an op."""

    def check_additional(self, gm: GraphModule) -> None:
        """A dialect's own check of a graph."""

    def check(self, ep: ExportedProgram) -> None:
        """Raise SpecViolationError where a program is not of this dialect."""
        self._check_graph_module(ep.graph_module)
        check_call_graph(ep)
        check_signature(ep)

    def _check_graph_module(self, gm: GraphModule) -> None:
        for module in gm.modules():
            if not isinstance(module, GraphModule):
                continue
            module.graph.lint()
            attributes = (
                self.allowed_getattr_types()
                if module is gm
                else self.allowed_getattr_types_for_subgm()
            )
            for node in module.graph.nodes:
                self.check_node(module, node, attributes)
        self.check_additional(gm)

    def check_node(
        self, module: GraphModule, node: Node, attributes: tuple[type[Any], ...]
    ) -> None:
        if node.op in ("call_module", "call_method"):
            raise SpecViolationError(f"{node.op} is not valid: got '{node.target}' ")
        if node.op == "call_function":
            check_value(node)
            self.check_op(node.target)
        elif node.op == "placeholder":
            check_value(node)
        elif node.op == "get_attr":
            held = attribute_at(module, str(node.target))
            if not isinstance(held, attributes):
                raise SpecViolationError(
                    f"Invalid get_attr type {type(held)} on target {node.target}. \n"
                    f"Valid get_attr types: {attributes}"
                )

    def check_op(self, op: Any) -> None:
        types = self.allowed_op_types()
        if not isinstance(op, types):
            builtin, functions = self.allowed_builtin_ops(), torch_functions()
            if op not in builtin and op not in functions:
                raise SpecViolationError(
                    f"Operator '{op}' is not an allowed operator type: {types}\n"
                    f"Valid builtin ops: {builtin}Valid torch functions: {functions}"
                )
        if isinstance(op, OpOverload) and op._schema.is_mutable and self.dialect != "TRAINING":
            raise SpecViolationError(f"operator '{op}' is not functional")
        self.check_valid_op(op)


Verifier.registry["ATEN"] = Verifier


class TrainingIRVerifier(Verifier):
    """The dialect that writes in place."""

    dialect = "TRAINING"


def load_verifier(dialect: str) -> type[Verifier]:
    """The verifier of a dialect; an unknown dialect is taken for that of `export`."""
    return Verifier.registry.get(dialect, Verifier)


def attribute_at(module: Any, target: str) -> Any:
    held = module
    for part in target.split("."):
        if not hasattr(held, part):
            raise SpecViolationError(f"Node referenced nonexistent target {target}")
        held = getattr(held, part)
    return held


def check_value(node: Node) -> None:
    """A node says what its value is like, unless its op has no results."""
    if "val" not in node.meta:
        target = node.target
        if isinstance(target, OpOverload) and not target._schema.returns:
            return
        if node.op == "call_function" and target in torch_functions():
            return
        raise SpecViolationError(f"Node.meta {node.name} is missing val field.")
    value = node.meta["val"]
    if not is_describable(value):
        raise SpecViolationError(f"Node.meta {node.name} has invalid val field {value}")


def is_describable(value: Any) -> bool:
    if value is None or isinstance(value, (*VALUES, *numbers.NUMBERS)):
        return True
    return isinstance(value, Iterable) and all([is_describable(part) for part in value])


def check_call_graph(ep: ExportedProgram) -> None:
    names = {node.name for node in ep.graph.nodes}
    for entry in ep.module_call_graph:
        if entry.signature is None:
            continue
        for what, args in (("Input", entry.signature.inputs), ("Output", entry.signature.outputs)):
            for arg in args:
                if arg.name and arg.name not in names:
                    raise SpecViolationError(f"{what} {arg.name} does not exist in the graph.")


def check_signature(ep: ExportedProgram) -> None:
    """The specs stand for the placeholders and outputs, and state is where they say."""
    signature = ep.graph_signature
    placeholders = [node.name for node in ep.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(signature.input_specs):
        raise SpecViolationError(
            f"Number of graph inputs ({len(placeholders)}) does not match number of inputs in the "
            f"graph signature ({len(signature.input_specs)})"
        )
    for name, spec in zip(placeholders, signature.input_specs):
        if spec.arg.name != name:
            raise SpecViolationError(
                f"Input spec name {spec.arg.name} does not match node name {name}"
            )
        check_lifted(ep, spec)
    check_outputs(ep, placeholders)


def check_lifted(ep: ExportedProgram, spec: InputSpec) -> None:
    kind, target = spec.kind, spec.target
    if kind is InputKind.USER_INPUT:
        return
    expected: type[Any] = TensorArgument
    if kind is InputKind.CUSTOM_OBJ:
        expected = CustomObjArgument
    elif kind is InputKind.TOKEN:
        expected = TokenArgument
    if not isinstance(spec.arg, expected):
        raise SpecViolationError(
            f"{kind.name} {spec.arg.name} is not a {expected.__name__}. Found {spec.arg} instead."
        )
    if kind is InputKind.TOKEN:
        return
    if target is None:
        raise SpecViolationError(f"InputSpec for {spec.arg.name} has no target.")
    persistent = kind is InputKind.PARAMETER or (kind is InputKind.BUFFER and spec.persistent)
    if persistent and target not in ep.state_dict:
        raise SpecViolationError(f"{kind.name} {target} is not in the state dict.")
    if not persistent and target not in ep.constants:
        raise SpecViolationError(f"{kind.name} {target} is not in the constants dictionary.")
    if kind is InputKind.PARAMETER and not isinstance(ep.state_dict[target], Parameter):
        raise SpecViolationError(
            f"State dict entry for parameter {target} is not an instance of torch.nn.Parameter."
        )
    if kind is InputKind.BUFFER and not spec.persistent and target in ep.state_dict:
        raise SpecViolationError(
            f"Non-persistent buffer {target} is in the state dict, it should not be."
        )


def check_outputs(ep: ExportedProgram, placeholders: list[str]) -> None:
    signature = ep.graph_signature
    outputs = ep.graph.output_node().args[0]
    if not isinstance(outputs, (tuple, list)) or len(outputs) != len(signature.output_specs):
        raise SpecViolationError(
            f"Number of output nodes {outputs} is different than that of output specs "
            f"{signature.output_specs}"
        )
    named = {
        OutputKind.BUFFER_MUTATION: set(signature.buffers),
        OutputKind.PARAMETER_MUTATION: set(signature.parameters),
        OutputKind.USER_INPUT_MUTATION: set(placeholders),
    }
    for value, spec in zip(outputs, signature.output_specs):
        if isinstance(spec.arg, ConstantArgument):
            if hasattr(value, "name") or value != spec.arg.value:
                raise SpecViolationError(f"Output {value} is not the constant {spec.arg.value!r}")
        elif getattr(value, "name", None) != spec.arg.name:
            raise SpecViolationError(
                f"Output {value} is not the output {spec.arg.name} of its spec"
            )
        if spec.kind in named and spec.target not in named[spec.kind]:
            raise SpecViolationError(
                f"{spec.kind.name} output {spec.arg.name} does not point to an input that exists: "
                f"{spec.target!r}"
            )
