"""Programs to packages: code for each target, state as bytes, checks of inputs as plain data."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.base.errors import error
from rushlight.base.treetexts import treespec_dumps
from rushlight.core.tensor import Tensor, storage_of
from rushlight.deploy.container import write_package
from rushlight.deploy.image import Image
from rushlight.deploy.targets import find_target
from rushlight.deploy.units import Units
from rushlight.export.checks import records_of
from rushlight.export.program import ExportedProgram
from rushlight.export.signature import InputKind, OutputKind
from rushlight.export.unlift import write_back
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.nn.module import Module
from rushlight.symbolic.guards import python_text

__all__ = ["DEFAULT_TARGETS", "flat_module", "package"]

# The best first: all that this machine can do, and what every x86-64 can.
DEFAULT_TARGETS = ("host", "x86-64-v3", "x86-64")
WEIGHTS = "weights.bin"
ALIGNMENT = 64


def package(
    program: ExportedProgram, path: Any, *, targets: Sequence[str] = DEFAULT_TARGETS
) -> str:
    """Write a program as a package that runs without compiler: a folder, or one file where the
    path ends in `.pt2` or `.zip`. `targets` are sets of instructions to make code for, the best
    first; loading takes the first that the machine has."""
    if not isinstance(program, ExportedProgram):
        raise TypeError(
            f"package() takes an ExportedProgram, got {type(program).__name__}; "
            "torch.export.export(module, args) makes one"
        )
    made = program.run_decompositions({})
    units = Units([find_target(name) for name in targets])
    units.add(flat_module(made))
    files: dict[str, Any] = {}
    state, weights = written_state(made)
    files[WEIGHTS] = weights
    manifest = {
        **facts_of(made),
        "system": sys.platform,
        "state": state,
        "units": units.facts,
        "targets": [
            {
                "name": name,
                "features": list(find_target(name).features),
                "images": written_images(units, at, files, f"code/{at}-{name}"),
            }
            for at, name in enumerate(targets)
        ],
    }
    if units.calls_heavy:
        add_kernels(manifest, units, files)
    write_package(path, manifest, files)
    return str(os.fspath(path))


def written_images(units: Units, at: int, files: dict[str, Any], stem: str) -> list[Any]:
    """The code of each unit for one target: what is said of it, None where there is none."""
    found: list[Any] = []
    for number, images in enumerate(units.images):
        if not images:
            found.append(None)
            continue
        found.append(written_image(images[at], files, f"{stem}-{number}.bin"))
    return found


def add_kernels(manifest: dict[str, Any], units: Units, files: dict[str, Any]) -> None:
    """The kernels of heavy ops, for those that call them."""
    shared, images = units.kernel_images()
    manifest["pool"] = written_image(shared, files, "code/pool.bin")
    for at, (entry, image) in enumerate(zip(manifest["targets"], images, strict=True)):
        entry["kernels"] = written_image(image, files, f"code/{at}-{entry['name']}-kernels.bin")


def written_image(image: Image, files: dict[str, Any], name: str) -> dict[str, Any]:
    files[name] = bytes(image.data)
    return {"file": name, **image.facts()}


def facts_of(program: ExportedProgram) -> dict[str, Any]:
    """What a call takes and gives."""
    in_spec, out_spec = program.call_spec
    assert in_spec is not None
    assert out_spec is not None
    specs = program.graph_signature.input_specs
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    users = [n for n, spec in zip(nodes, specs) if spec.kind is InputKind.USER_INPUT]
    return {
        "in_spec": treespec_dumps(in_spec),
        "out_spec": treespec_dumps(out_spec),
        "inputs": records_of(users, program.range_constraints, python_text),
    }


def flat_module(program: ExportedProgram) -> GraphModule:
    """A program's graph with writes in it: inputs are the state, in the signature's order, then
    the leaves of a call."""
    signature, source = program.graph_signature, program.graph_module
    for spec in signature.input_specs:
        if spec.kind is InputKind.CUSTOM_OBJ:
            raise error("RL1586", NotImplementedError, what=f"the object {spec.target!r}")
    graph = Graph()
    values: dict[Node, Node] = {}
    outputs = graph.graph_copy(source.graph, values)
    by_name = {n.name: values[n] for n in source.graph.nodes if n.op == "placeholder"}
    state = {
        spec.target: by_name[spec.arg.name]
        for spec in signature.input_specs
        if spec.target is not None
    }
    results = write_back(graph, signature, outputs, by_name, state)
    kept = [s for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
    assert len(results) == len(kept)
    graph.output(results)
    root = Module()
    for node in source.graph.nodes:
        if node.op == "get_attr":
            setattr(root, str(node.target), getattr(source, str(node.target)))
    return GraphModule(root, graph)


def written_state(program: ExportedProgram) -> tuple[list[dict[str, Any]], Any]:
    """The tensors that the graph takes before a call's leaves, and their bytes: each storage once,
    so that what shares memory still does."""
    found: list[dict[str, Any]] = []
    places: dict[int, tuple[int, int]] = {}
    parts: list[Any] = []
    end = 0
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            continue
        if spec.kind is InputKind.TOKEN:
            found.append({"name": None})
            continue
        value = program._value_of(spec.target)
        plain = isinstance(value, Tensor) and value.layout.name == "strided"
        if not plain or value.device.type != "cpu" or value.is_conj() or value.is_neg():
            raise error("RL1586", NotImplementedError, what=f"the state {spec.target!r}")
        storage = storage_of(value)
        if id(storage) not in places:
            data = np.frombuffer(storage.buffer, np.uint8)
            places[id(storage)] = end, len(data)
            parts += [data, np.zeros(-len(data) % ALIGNMENT, np.uint8)]
            end += len(data) + len(parts[-1])
        start, size = places[id(storage)]
        found.append(
            {
                "name": spec.target,
                "kind": spec.kind.name.lower(),
                "dtype": value.dtype.name,
                "shape": list(value.shape),
                "strides": list(value.stride()),
                "offset": value.storage_offset(),
                "place": [start, size],
            }
        )
    return found, np.concatenate([np.zeros(0, np.uint8), *parts])
