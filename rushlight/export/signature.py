"""What the inputs and outputs of an exported graph stand for.

One spec per placeholder and per output, in the graph's order; everything else is derived from
these two lists, so renaming a node is done in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from rushlight.base.pytree import TreeSpec

__all__ = [
    "ArgumentSpec", "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature",
    "ExportGraphSignature", "InputKind", "InputSpec", "ModuleCallEntry", "ModuleCallSignature",
    "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument",
    "TensorArgument", "TokenArgument",
]  # fmt: skip


@dataclass
class TensorArgument:
    """A node that is a tensor."""

    name: str


@dataclass
class TokenArgument:
    """A node that orders effects."""

    name: str


@dataclass
class SymIntArgument:
    """A node that is an integer known when the graph runs."""

    name: str


@dataclass
class SymFloatArgument:
    """A node that is a float known when the graph runs."""

    name: str


@dataclass
class SymBoolArgument:
    """A node that is a truth value known when the graph runs."""

    name: str


@dataclass
class CustomObjArgument:
    """A node that is an object of a class that ops know."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclass
class ConstantArgument:
    """A Python value; an output that is one has no node and an empty name."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)


class InputKind(Enum):
    """What an input stands for."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output stands for."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclass
class InputSpec:
    """An input; `target` is the dotted name of the state that it is lifted from."""

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{shown_argument(self.arg)}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """An output; `target` names the state or the input that takes its value."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{shown_argument(self.arg)}: {self.kind.name}{target}"


def shown_argument(arg: ArgumentSpec) -> str:
    return arg.name or (str(arg.value) if isinstance(arg, ConstantArgument) else "")


@dataclass
class ExportBackwardSignature:
    """What the results of a graph with a backward in it are."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class ExportGraphSignature:
    """The specs of a graph's inputs and outputs, and views of them.

    >>> tensor = TensorArgument("p_weight")
    >>> specs = [InputSpec(InputKind.PARAMETER, tensor, "weight")]
    >>> ExportGraphSignature(specs, []).inputs_to_parameters
    {'p_weight': 'weight'}
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    # -- inputs ------------------------------------------------------------------------------------

    def targets(self, kind: InputKind) -> tuple[str, ...]:
        """The dotted names that inputs of one kind are lifted from."""
        return tuple(
            [s.target for s in self.input_specs if s.kind is kind and s.target is not None]
        )

    def by_input(self, kind: InputKind) -> Mapping[str, str]:
        """Name of an input of one kind -> the dotted name that it is lifted from."""
        return {
            spec.arg.name: spec.target
            for spec in self.input_specs
            if spec.kind is kind and spec.target is not None
        }

    @property
    def parameters(self) -> Sequence[str]:
        return self.targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> Sequence[str]:
        return self.targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> Sequence[str]:
        return tuple(
            [
                spec.target
                for spec in self.input_specs
                if spec.kind is InputKind.BUFFER and spec.persistent is False and spec.target
            ]
        )

    @property
    def lifted_tensor_constants(self) -> Sequence[str]:
        return self.targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> Sequence[str]:
        return self.targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> Sequence[Any]:
        """Names of the inputs of the call; where one is a constant, its value."""
        return tuple(
            [
                value_or_name(spec.arg)
                for spec in self.input_specs
                if spec.kind is InputKind.USER_INPUT
            ]
        )

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        return self.by_input(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return self.by_input(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        return self.by_input(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        return self.by_input(InputKind.CUSTOM_OBJ)

    @property
    def input_tokens(self) -> Sequence[str]:
        return tuple([s.arg.name for s in self.input_specs if s.kind is InputKind.TOKEN])

    # -- outputs -----------------------------------------------------------------------------------

    def by_output(self, kind: OutputKind) -> Mapping[str, str]:
        """Name of an output of one kind -> the name of what takes its value."""
        return {
            spec.arg.name: spec.target
            for spec in self.output_specs
            if spec.kind is kind and spec.target is not None
        }

    @property
    def user_outputs(self) -> Sequence[Any]:
        """Names of the results of the call; where one is a constant, its value."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple([value_or_name(s.arg) for s in self.output_specs if s.kind in kinds])

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        return self.by_output(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        return self.by_output(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        return self.by_output(OutputKind.USER_INPUT_MUTATION)

    @property
    def output_tokens(self) -> Sequence[str]:
        return tuple([s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN])

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        loss = [s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT]
        if not loss:
            return None
        return ExportBackwardSignature(
            dict(self.by_output(OutputKind.GRADIENT_TO_PARAMETER)),
            dict(self.by_output(OutputKind.GRADIENT_TO_USER_INPUT)),
            loss[-1],
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        return None

    # -- renaming ----------------------------------------------------------------------------------

    def replace_all_uses(self, old: str, new: str) -> None:
        """Let another node be the one that specs name: the outputs, and the inputs written."""
        for output in self.output_specs:
            if output.arg.name == old:
                output.arg.name = new
            if output.kind is OutputKind.USER_INPUT_MUTATION and output.target == old:
                output.target = new

    def replace_inputs(self, old: str, new: str) -> None:
        """Let an input have another name."""
        for spec in self.input_specs:
            if spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[[Any, str, Any], None]:
        """A hook for a graph's replacements of nodes that keeps this signature true."""

        def replace(old: Any, new: str, user: Any) -> None:
            if user.op == "output":
                self.replace_all_uses(old.name, new)
            if replace_inputs and old.op == "placeholder":
                self.replace_inputs(old.name, new)

        return replace

    def __str__(self) -> str:
        inputs = "\n".join([str(spec) for spec in self.input_specs])
        outputs = "\n".join([str(spec) for spec in self.output_specs])
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def value_or_name(arg: ArgumentSpec) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclass
class ModuleCallSignature:
    """How a module was called: its arguments and results as nodes, and their structures."""

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original: Any, new: Any) -> None:
        """Let another node be the one that this signature names."""
        for arg in (*self.inputs, *self.outputs):
            if arg.name == original.name:
                arg.name = new.name


@dataclass
class ModuleCallEntry:
    """A module of the hierarchy; the signature is there where it was asked to be kept."""

    fqn: str
    signature: ModuleCallSignature | None = None
