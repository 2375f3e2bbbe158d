"""`export`: a model, or a program, as an ONNX model on disk or in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.base.lazy import load
from rushlight.base.pytree import tree_leaves
from rushlight.core.tensor import Tensor
from rushlight.export.program import ExportedProgram
from rushlight.export.signature import InputKind
from rushlight.onnx.axes import (
    NamedSize,
    shapes_of_axes,
    split_keywords,
    with_named_sizes,
    with_room,
)
from rushlight.onnx.building import TABLE
from rushlight.onnx.messages import Model, Outside
from rushlight.onnx.programs import as_arrays, translated
from rushlight.opset.registry import packet
from rushlight.symbolic.numbers import SymNumber

__all__ = ["ONNXProgram", "export", "is_in_onnx_export"]

DEFAULT_OPSET = 18
# A message of protocol buffers is no larger.
LARGEST_MODEL = (1 << 31) - 1024


class ONNXProgram:
    """A model that `export` made. Calling it runs it in ONNX Runtime."""

    def __init__(self, model: Model, exported_program: ExportedProgram) -> None:
        self.model = model
        self.exported_program = exported_program
        self.session: Any = None

    @property
    def model_proto(self) -> Any:
        """The model as an object of the `onnx` package."""
        return load("onnx", extra="onnx").load_model_from_string(self.model.data())

    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model; with `external_data` its weights go to a file beside it.

        Without a word about it they do so where the model would be too large for one file.
        """
        if keep_initializers_as_inputs or not include_initializers:
            raise MissingFeature("ONNX models without their weights", code="RL1572")
        path = os.fspath(destination)
        if external_data is None:
            total = sum([weight.array.nbytes for weight in self.model.graph.weights])
            external_data = total >= LARGEST_MODEL
        outside = Outside(f"{os.path.basename(path)}.data") if external_data else None
        data = self.model.data(outside)
        with open(path, "wb") as file:
            file.write(data)
        if outside is not None and outside.length:
            with open(f"{path}.data", "wb") as file:
                file.writelines(outside.parts)

    def inputs_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arrays by the names of the inputs, for the arguments of a call."""
        names = [info.name for info in self.model.graph.inputs]
        found = [leaf for leaf in tree_leaves((args, kwargs)) if is_input(leaf)]
        given = dynamic_leaves(self.exported_program, found)
        return dict(zip(names, as_arrays(given), strict=True))

    def initialize_inference_session(self, initializer: Any = None) -> None:
        """Load the model into ONNX Runtime."""
        runtime = load("onnxruntime", extra="onnx")
        make = initializer or runtime.InferenceSession
        self.session = make(self.model.data())

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        from rushlight import from_numpy

        if self.session is None:
            self.initialize_inference_session()
        results = self.session.run(None, self.inputs_of(args, kwargs))
        return tuple([from_numpy(result) for result in results])

    def __repr__(self) -> str:
        graph = self.model.graph
        inputs = ", ".join([info.name for info in graph.inputs])
        outputs = ", ".join([info.name for info in graph.outputs])
        return (
            f"ONNXProgram(opset={self.model.opset}, {len(graph.nodes)} nodes, "
            f"inputs=({inputs}), outputs=({outputs}))"
        )


def is_input(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, int, float, bool))


def user_values(program: ExportedProgram) -> list[Any]:
    """What a program says of the leaves of its arguments."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    return [
        node.meta["val"]
        for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True)
        if spec.kind is InputKind.USER_INPUT
    ]


def dynamic_leaves(program: ExportedProgram, leaves: list[Any]) -> list[Any]:
    """The leaves that are inputs of the model: not those that are constants of the program."""
    users = user_values(program)
    kept = [like for like in users if like is not None and not isinstance(like, str)]
    return [
        leaf
        for leaf, like in zip(leaves, kept, strict=True)
        if isinstance(like, (Tensor, SymNumber))
    ]


def whole_ops() -> tuple[Any, ...]:
    """Ops that need not be taken apart although their bodies are known: ONNX has words for them."""
    from rushlight.export.decompositions import MAYBE_ALIASING, QUERIES, is_whole

    found = []
    for name in TABLE:
        base, _, overload = name.partition(".")
        if base in MAYBE_ALIASING or base in QUERIES or not has_op(base):
            continue
        for each in [overload] if overload else packet(base).overloads():
            op = getattr(packet(base), each, None)
            if op is not None and not op._schema.is_mutable and is_whole(op):
                found.append(op)
    return tuple(found)


def has_op(name: str) -> bool:
    try:
        packet(name)
    except KeyError:
        return False
    return True


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """The program without writes, over ops of core aten and those that ONNX has words for."""
    from rushlight.export.decompositions import default_decompositions

    whole = whole_ops()
    table = {op: rule for op, rule in default_decompositions().items() if not is_translated(op)}
    return program.run_decompositions(table, _preserve_ops=whole)


def is_translated(op: Any) -> bool:
    return op.namespace == "aten" and f"{op.base_name}.{op.overload or 'default'}" in TABLE


def export(
    model: Any,
    args: tuple[Any, ...] = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    export_params: bool = True,
    do_constant_folding: bool = True,
    dynamic_axes: Any = None,
    **others: Any,
) -> ONNXProgram:
    """Export a module, or a program that `torch.export` made, as an ONNX model.

    `dynamic_shapes` says which sizes may differ, by dims or by the names that the model shows for
    them; `dynamic_axes` says the same by the names of inputs. With a path `f` the model is written
    there, its large weights into a file beside it unless `external_data` is false.
    """
    if not dynamo:
        raise MissingFeature("torch.onnx.export(dynamo=False)", code="RL1572")
    refuse_options(export_params, custom_translation_table, others)
    program, names = model, {}
    if not isinstance(model, ExportedProgram):
        given, named = split_keywords(model, args if isinstance(args, tuple) else (args,), kwargs)
        shapes = with_named_sizes(model, dynamic_shapes, list(input_names or ()), given, named)
        if dynamic_axes and shapes is None:
            shapes = shapes_of_axes(model, dynamic_axes, list(input_names or ()), given, named)
        program, shapes = program_of(model, given, named, shapes)
        names = names_of_dims(model, given, named, shapes, program)
    made = translated(
        decomposed(program),
        DEFAULT_OPSET if opset_version is None else opset_version,
        list(input_names or ()),
        list(output_names or ()),
        names,
    )
    found = ONNXProgram(made, program)
    if verify:
        verify_program(found)
    if f is not None:
        found.save(f, external_data=None if not external_data else True)
    return found


def program_of(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any
) -> tuple[ExportedProgram, Any]:
    """The program of a module, and the shapes it is for: those that were given, or, where these do
    not hold of it, what the error suggests."""
    from rushlight.capture.exc import UserError
    from rushlight.export import export as export_program
    from rushlight.export import refine_dynamic_shapes_from_suggested_fixes as refine

    traced = with_room(model, args, kwargs, shapes)
    try:
        program = export_program(model, *traced, dynamic_shapes=shapes, strict=False)
    except UserError as error:
        if shapes is None or "Suggested fixes:" not in str(error):
            raise
        shapes = refine(str(error), shapes)
        program = export_program(model, *traced, dynamic_shapes=shapes, strict=False)
    program.example_inputs = args, kwargs
    return program, shapes


def names_of_dims(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, program: Any
) -> dict[str, str]:
    """Symbols of a program's inputs -> the names of the dims that they were declared as."""
    from rushlight.export.dimensions import Dim
    from rushlight.export.shapes import process

    if shapes is None:
        return {}
    found: dict[str, str] = {}
    leaves = process(model, args, kwargs, shapes).leaves
    for leaf, like in zip(leaves, user_values(program), strict=True):
        for size, entry in zip(getattr(like, "shape", ()), leaf.entries):
            name = entry.name if isinstance(entry, NamedSize) else getattr(entry, "__name__", None)
            if isinstance(entry, (Dim, NamedSize)) and name and not isinstance(size, int):
                found.setdefault(str(size), str(name))
    # An expression of another dim has that dim's name in it.
    return {symbol: name for symbol, name in found.items() if symbol.isidentifier()}


def refuse_options(export_params: bool, table: Any, others: Mapping[str, Any]) -> None:
    for name, value, default in (
        ("export_params", export_params, True),
        ("custom_translation_table", table, None),
    ):
        if value is not default:
            raise MissingFeature(f"torch.onnx.export({name}=...)", code="RL1572")
    known = {
        *("keep_initializers_as_inputs", "dump_exported_program", "artifacts_dir", "training"),
        *("operator_export_type", "custom_opsets", "export_modules_as_functions"),
        *("autograd_inlining", "fallback"),
    }
    for name, value in others.items():
        if name not in known:
            raise TypeError(f"export() got an unexpected keyword argument {name!r}")
        if value and name in ("keep_initializers_as_inputs", "custom_opsets"):
            raise MissingFeature(f"torch.onnx.export({name}=...)", code="RL1572")


def verify_program(program: ONNXProgram) -> None:
    """Compare the model with the program on the inputs it was exported with."""
    from rushlight.testing import assert_close

    examples = program.exported_program.example_inputs
    if examples is None:
        return
    expected = program.exported_program.module()(*examples[0], **examples[1])
    leaves = [leaf for leaf in tree_leaves(expected) if isinstance(leaf, Tensor)]
    for found, wanted in zip(program(*examples[0], **examples[1]), leaves, strict=True):
        assert_close(found, wanted.detach(), rtol=1e-3, atol=1e-4, check_stride=False)


def is_in_onnx_export() -> bool:
    """Whether an export is running that looks at a module's Python: none does."""
    return False
