"""Programs as JSON, with their tensors beside it: `serialize` and `deserialize`."""

from __future__ import annotations

from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

from rushlight.base.errors import CheckpointError, MissingExtra
from rushlight.base.pytree import tree_map
from rushlight.export.program import ExportedProgram
from rushlight.export.serde import schema
from rushlight.export.serde.absent import pickled, present, unpickled
from rushlight.export.serde.reading import GraphReader, custom_metadata
from rushlight.export.serde.schema import checked, parse_json, refuse
from rushlight.export.serde.specs import (
    CallGraphWriter,
    read_call_graph,
    read_signature,
    written_signature,
)
from rushlight.export.serde.writing import GraphWriter, json_bytes
from rushlight.export.verifier import load_verifier
from rushlight.version import FOLLOWED

__all__ = ["SerializedArtifact", "deserialize", "read_program", "serialize", "written_program"]

DEFAULT_PROTOCOL = 2
# torch's number for the version of its ops.
OPSET_VERSION = 10


@dataclass
class SerializedArtifact:
    """A program as four parts."""

    exported_program: bytes
    state_dict: bytes
    constants: bytes
    example_inputs: bytes


# -- writing ------------------------------------------------------------------------------------


def bound(value: float) -> int | None:
    return int(value) if abs(value) != float("inf") else None


def written_program(
    program: ExportedProgram, opset_version: dict[str, int] | None = None
) -> tuple[bytes, dict[str, Any]]:
    """(JSON of a program, its constants by name: tensors and objects)."""
    program.validate()
    graphs, calls = GraphWriter(), CallGraphWriter()
    graph = graphs.written(program.graph_module)
    metadata = {}
    if program.graph_module.meta.get("custom"):
        metadata["custom"] = json_bytes(program.graph_module.meta["custom"]).decode()
    data = {
        "graph_module": {
            "graph": graph,
            "signature": written_signature(program.graph_signature),
            "module_call_graph": calls.written(program.module_call_graph),
            "metadata": metadata,
            "treespec_namedtuple_fields": calls.fields,
        },
        "opset_version": {"aten": OPSET_VERSION, **(opset_version or {})},
        "range_constraints": {
            str(symbol): {"min_val": bound(range_.lower), "max_val": bound(range_.upper)}
            for symbol, range_ in program.range_constraints.items()
        },
        "schema_version": {
            "major": schema.SCHEMA_VERSION[0],
            "minor": schema.SCHEMA_VERSION[1],
        },
        "verifiers": [verifier.dialect for verifier in program.verifiers],
        "torch_version": FOLLOWED,
        "guards_code": list(getattr(program, "_guards_code", ())),
    }
    return json_bytes(data), {**graphs.objects, **program.constants}


def written_examples(program: ExportedProgram, protocol: int) -> bytes:
    """The example inputs of a program; b"" where they are of classes that have no name."""
    try:
        return pickled(program.example_inputs, protocol) if program.example_inputs else b""
    except (PicklingError, AttributeError, TypeError):
        return b""


def serialize(
    exported_program: ExportedProgram,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    *,
    serialize_state_dict: bool = True,
    serialize_constants: bool = True,
    serialize_example_inputs: bool = True,
) -> SerializedArtifact:
    """A program as bytes: its graph as JSON, and its tensors as checkpoints."""
    data, constants = written_program(exported_program, opset_version)
    state = exported_program.state_dict
    return SerializedArtifact(
        data,
        pickled(state, pickle_protocol) if serialize_state_dict else b"",
        pickled(constants, pickle_protocol) if serialize_constants else b"",
        written_examples(exported_program, pickle_protocol) if serialize_example_inputs else b"",
    )


# -- reading ------------------------------------------------------------------------------------


def read_values(data: Any, what: str) -> dict[str, Any]:
    """Tensors by name. Objects of classes that are not known are refused."""
    if isinstance(data, dict):
        return data
    if not data:
        return {}
    found, unknown = unpickled(data)
    if unknown:
        raise refuse(f"its {what} are of classes that are not known: {unknown}")
    if not isinstance(found, dict) or not all(type(key) is str for key in found):
        raise refuse(f"its {what} are not values by name")
    return found


def read_examples(data: Any) -> Any:
    """The inputs that a program was exported with; None where they are of unknown classes."""
    if not data:
        return None
    if isinstance(data, tuple):
        return data
    found, unknown = unpickled(data)
    if unknown:
        return None
    if type(found) is not tuple or len(found) != 2 or type(found[0]) is not tuple:
        raise refuse("its example inputs are not (args, kwargs)")
    return found


def read_program(
    data: bytes,
    state_dict: Any,
    constants: Any,
    example_inputs: Any = None,
    _unsafe_skip_version_check: bool = False,
) -> ExportedProgram:
    """The program of a JSON text and its tensors; whatever is wrong is a `CheckpointError`."""
    try:
        found = checked(parse_json(data, "program"), "ExportedProgram")
        version = found.schema_version
        if not _unsafe_skip_version_check and version.major not in (0, schema.SCHEMA_VERSION[0]):
            raise refuse(
                f"it is of version {version.major}.{version.minor} of the schema; "
                f"{schema.SCHEMA_VERSION[0]} is read"
            )
        objects = read_values(constants, "constants")
        state = read_values(state_dict, "weights")
        return assembled(found, state, objects, read_examples(example_inputs))
    except CheckpointError:
        raise
    except RecursionError:
        raise refuse("it is nested too deeply") from None
    except Exception as failure:
        text = str(failure)[:300]
        raise refuse(f"{type(failure).__name__}: {text}") from failure


def symbols_of(ranges: dict[str, Any]) -> Any:
    """What makes the symbols of a file: simpler ones where sympy is not installed."""
    try:
        from rushlight.export.serde.symbols import FileSymbols
    except MissingExtra:
        from rushlight.export.serde.plain import PlainSymbols

        return PlainSymbols(ranges)
    return FileSymbols(ranges)


def assembled(
    found: Any, state: dict[str, Any], constants: dict[str, Any], examples: Any
) -> ExportedProgram:
    module = found.graph_module
    symbols = symbols_of(found.range_constraints)
    signature = read_signature(module.signature)
    if len(signature.input_specs) != len(module.graph.inputs):
        raise refuse("its signature is of another graph")
    reader = GraphReader(symbols, constants)
    # Values that the file does not have are fakes of the graph's mode.
    for values in (state, constants):
        for name in values:
            values[name] = present(values[name], reader.tensor)
    examples = tree_map(lambda leaf: present(leaf, reader.tensor), examples)
    names = [spec.arg.name for spec in signature.input_specs]
    graph_module = reader.read(module.graph, names)
    if "custom" in module.metadata:
        graph_module.meta["custom"] = custom_metadata(module.metadata["custom"])
    program = ExportedProgram(
        root=graph_module,
        graph=graph_module.graph,
        graph_signature=signature,
        state_dict=state,
        range_constraints=symbols.constraints(),
        module_call_graph=read_call_graph(module.module_call_graph),
        example_inputs=examples,
        constants=constants,
        verifiers=[load_verifier(name) for name in found.verifiers] or None,
    )
    # Conditions on the inputs in the words of torch: kept for files, never run.
    program._guards_code = found.guards_code  # type: ignore[attr-defined]
    return program


def deserialize(
    artifact: SerializedArtifact,
    expected_opset_version: dict[str, int] | None = None,
    *,
    _unsafe_skip_version_check: bool = False,
) -> ExportedProgram:
    """The program that `serialize` wrote."""
    if not isinstance(artifact.exported_program, bytes):
        raise TypeError(
            f"the program of an artifact is bytes, not {type(artifact.exported_program).__name__}"
        )
    return read_program(
        artifact.exported_program,
        artifact.state_dict,
        artifact.constants,
        artifact.example_inputs,
        _unsafe_skip_version_check,
    )
