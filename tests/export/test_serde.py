"""Programs as files: PyTorch's read here, ours written and read again, and damaged ones."""

from __future__ import annotations

import copy
import io
import json
import math
import random
import struct
import sys
import time
import zipfile
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.base.errors import CheckpointError
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.export.serde import SerializedArtifact, deserialize, serialize
from rushlight.export.serde.expressions import ExpressionReader, expression_text
from rushlight.export.serde.plain import PlainSymbols
from rushlight.export.serde.schema import SerializeError, checked
from rushlight.export.signature import InputKind, OutputKind
from rushlight.symbolic import expressions as ex
from tests.export import exported_models as models

HOME = Path(__file__).parent.parent / "reference" / "export"
EXPECTED = json.loads((HOME / "results.json").read_text())


def file_of(name):
    return str(HOME / f"{name}.pt2")


def run(program, args, kwargs):
    """What a program's graph gives; a write to a buffer is done in place or is a result."""
    given = iter(pytree.tree_leaves((args, kwargs)))
    values = [
        next(given)
        if spec.kind is InputKind.USER_INPUT
        else program.state_dict.get(spec.target, program.constants.get(spec.target))
        for spec in program.graph_signature.input_specs
    ]
    results = program.graph_module(*values)
    users = [
        result
        for result, spec in zip(results, program.graph_signature.output_specs, strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    return pytree.tree_unflatten(users, program.call_spec.out_spec)


def given_by(program, name):
    case = models.CASES[name.removeprefix("core_")]()
    found = [models.plain(run(program, case.args, case.kwargs))]
    if case.other is not None:
        found.append(models.plain(run(program, case.other, case.kwargs)))
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_programs_of_pytorch_give_what_they_gave(name):
    assert models.close(given_by(torch.export.load(file_of(name)), name), EXPECTED[name])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_programs_of_pytorch_written_again(name, tmp_path):
    program = torch.export.load(file_of(name))
    path = tmp_path / "again.pt2"
    torch.export.save(program, path)
    again = torch.export.load(path)
    assert str(again) == str(program)
    assert models.close(given_by(again, name), EXPECTED[name])


@pytest.mark.parametrize("name", sorted(models.CASES))
def test_our_programs_written_and_read(name):
    case = models.CASES[name]()
    program = torch.export.export(
        case.module, case.args, case.kwargs, dynamic_shapes=case.dynamic_shapes()
    )
    again = saved(program)
    assert again.graph_signature == program.graph_signature
    assert again.range_constraints.keys() == program.range_constraints.keys()
    assert described(again) == described(program)
    assert models.close(models.results(again.module(), models.CASES[name]()), EXPECTED[name])


def described(program):
    """The nodes of a graph; files do not say where the reads of graphs within it stand."""
    return [
        (node.op, str(node.target), node.name)
        for node in program.graph.nodes
        if node.op != "get_attr"
    ]


def saved(program):
    """A program that was written and read."""
    file = io.BytesIO()
    torch.export.save(program, file)
    return torch.export.load(file)


def test_serialize_and_deserialize():
    program = torch.export.load(file_of("attention"))
    artifact = serialize(program)
    assert json.loads(artifact.exported_program)["schema_version"]["major"] == 8
    again = deserialize(artifact)
    assert models.close(given_by(again, "attention"), EXPECTED["attention"])
    case = models.CASES["attention"]()
    assert again.example_inputs[0][0].equal(case.args[0])


def test_what_is_written_is_what_pytorch_wrote():
    """The JSON of a program that was read and written again is the JSON that was read."""
    for name in ("branches", "nested", "sizes", "tied"):
        with zipfile.ZipFile(file_of(name)) as archive:
            theirs = json.loads(archive.read(f"{name}/models/model.json"))
        ours = json.loads(serialize(torch.export.load(file_of(name))).exported_program)
        for program in (theirs, ours):
            program.pop("torch_version")
        assert ours == theirs


def test_weights_that_share_memory_still_do():
    program = torch.export.load(file_of("tied"))
    first, second = program.state_dict["first.weight"], program.state_dict["second.weight"]
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    file = io.BytesIO()
    torch.export.save(program, file)
    state = torch.export.load(file).state_dict
    with torch.no_grad():
        state["first.weight"].fill_(3)
    assert state["second.weight"][0, 0] == 3


def test_texts_beside_a_program():
    file = io.BytesIO()
    program = torch.export.load(file_of("mlp"))
    torch.export.save(program, file, extra_files={"notes/a.txt": "grüß"})
    found = {}
    torch.export.load(file, extra_files=found)
    assert found == {"notes/a.txt": "grüß"}


def test_only_programs_are_saved():
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram', got 'Linear'"):
        torch.export.save(torch.nn.Linear(2, 2), io.BytesIO())


def test_former_layout():
    """Archives of PyTorch 2.7 and before have four files and no folder."""
    artifact = serialize(torch.export.load(file_of("mlp")))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("version", "8.8")
        archive.writestr("serialized_exported_program.json", artifact.exported_program)
        archive.writestr("serialized_state_dict.pt", artifact.state_dict)
        archive.writestr("serialized_constants.pt", artifact.constants)
        archive.writestr("serialized_example_inputs.pt", artifact.example_inputs)
        archive.writestr("extra_files/note", "text")
    file.seek(0)
    found = {}
    program = torch.export.load(file, extra_files=found)
    assert models.close(given_by(program, "mlp"), EXPECTED["mlp"])
    assert found == {"note": "text"}


def test_aliases_of_pytorch_s_names():
    from rushlight.compat.aliases import ALIASES

    assert ALIASES["torch._export.serde.serialize"]["serialize"] == ".export.serde:serialize"


# -- expressions --------------------------------------------------------------------------------


def symbols_of(text):
    known = {}

    def symbol(name, assumptions):
        return known.setdefault(name, ex.Symbol(name, integer=True, positive=True))

    return ExpressionReader(symbol).read(text), known


@pytest.mark.parametrize(
    "text, value",
    [
        ("Add(Integer(1), Mul(Integer(2), Symbol('s0', positive=True, integer=True)))", 15),
        ("2*s0 + 1", 15),
        ("-(s0 - 3)**2", -16),
        ("s0//2 + s0 % 4", 6),
        ("FloorDiv(s0, 2)*PythonMod(s0, 3)", 3),
        ("Max(s0, 9) - Min(1, s0)", 8),
        ("CeilDiv(s0, 2)", 4),
        ("Piecewise(ExprCondPair(s0, s0 > 9), ExprCondPair(Integer(4), true))", 4),
        ("IntTrueDiv(s0, 2)", 3.5),
        ("Where(s0 <= 7, 1, 2)", 1),
        ("FloorToInt(FloatTrueDiv(ToFloat(s0), 2.0))", 3),
        ("Rational(1, 2)*2*s0", 7),
        ("RShift(LShift(s0, 3), 1)", 28),
        ("ModularIndexing(s0, 2, 2)", 1),
    ],
)
def test_expressions_of_files(text, value):
    expr, known = symbols_of(text)
    assert ex.evaluate(expr, {known["s0"]: 7}) == value
    again, names = symbols_of(expression_text(expr))
    assert ex.evaluate(again, {names["s0"]: 7}) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "s0.__class__",
        "Lambda(s0, s0)",
        "lambda: 0",
        "[1 for x in y]",
        "10**10**10",
        "2**99999999",
        "Pow(Integer(2), Integer(100000))",
        "(" * 5000 + "s0" + ")" * 5000,
        "-" * 5000 + "s0",
        "Add(" + "s0," * 100000 + "s0)",
        "1" * 5000,
        "FloorDiv(s0, 0)",
        "s0 +",
        "Symbol(3)",
        "Symbol('a b')",
        "And(s0, s0)",
        "ExprCondPair(s0, true)",
        "LShift(1, 100000)",
        "'s0'",
        "",
        "factorial(100000)",
    ],
)
def test_texts_that_are_no_expressions(text):
    start = time.perf_counter()
    with pytest.raises(SerializeError) as caught:
        symbols_of(text)
    assert caught.value.code == "RL1560"
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("text", ["__import__('os')", "s0.x", "(" * 999, "10**10**10", "1" * 999])
def test_texts_that_are_no_expressions_without_sympy(text):
    start = time.perf_counter()
    with pytest.raises(SerializeError):
        PlainSymbols({}).read(text).value({"s0": 4})
    assert time.perf_counter() - start < 1


# -- damaged and hostile files ------------------------------------------------------------------


def parts_of(name):
    with zipfile.ZipFile(file_of(name)) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def packed(parts, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    file.seek(0)
    return file


def refused(file):
    modules = set(sys.modules)
    start = time.perf_counter()
    with pytest.raises(CheckpointError) as caught:
        torch.export.load(file)
    assert caught.value.code.startswith("RL")
    assert time.perf_counter() - start < 5
    brought = {name for name in set(sys.modules) - modules if not name.startswith("rushlight")}
    assert "os.path" in sys.modules and not brought & {"antigravity", "this", "turtle"}
    return caught.value


def changed(name, change):
    """A file whose program `change` has altered."""
    parts = parts_of(name)
    label = f"{name}/models/model.json"
    data = json.loads(parts[label])
    result = change(data)
    parts[label] = json.dumps(data if result is None else result).encode()
    return packed(parts)


def graph_of(data):
    return data["graph_module"]["graph"]


def first_tensor(data):
    return next(iter(graph_of(data)["tensor_values"].values()))


def calls_of(data):
    return data["graph_module"]["module_call_graph"]


def node_of(data, place=0):
    return graph_of(data)["nodes"][place]


def in_spec_of(keyword):
    leaf = {"type": None, "context": None, "children_spec": []}
    args = {"type": "builtins.tuple", "context": "null", "children_spec": []}
    kwargs = {
        "type": "builtins.dict",
        "context": json.dumps([keyword]),
        "children_spec": [leaf],
    }
    both = {"type": "builtins.tuple", "context": "null", "children_spec": [args, kwargs]}
    return json.dumps([1, both])


CHANGES = {
    "an operator nobody has": lambda d: node_of(d).update(target="torch.ops.aten.nothing.default"),
    "a function of Python": lambda d: node_of(d).update(target="os.system"),
    "a function of torch": lambda d: node_of(d).update(target="torch.hub.load"),
    "a private function": lambda d: node_of(d).update(target="torch.ops.__class__.x.y"),
    "eval": lambda d: node_of(d).update(target="builtins.eval"),
    "a name that is code": lambda d: node_of(d).update(name="x=__import__('os');y"),
    "the module's name": lambda d: node_of(d).update(name="self"),
    "no signature of the call": lambda d: d["graph_module"]["module_call_graph"][0].pop(
        "signature"
    ),
    "a keyword": lambda d: node_of(d).update(name="import"),
    "a value nobody made": lambda d: graph_of(d)["outputs"].append({"as_tensor": {"name": "no"}}),
    "two tags": lambda d: graph_of(d)["outputs"].append({"as_int": 1, "as_bool": True}),
    "an unknown tag": lambda d: graph_of(d)["outputs"].append({"as_code": "1"}),
    "no tag": lambda d: graph_of(d)["outputs"].append({}),
    "a number for a list": lambda d: graph_of(d).update(nodes=3),
    "a text for a number": lambda d: graph_of(d)["outputs"].append({"as_int": "1"}),
    "a boolean for a number": lambda d: graph_of(d)["outputs"].append({"as_int": True}),
    "a huge number": lambda d: graph_of(d)["outputs"].append({"as_int": 1 << 80}),
    "an unknown dtype": lambda d: first_tensor(d).update(dtype=99),
    "an unknown layout": lambda d: first_tensor(d).update(layout=0),
    "no sizes": lambda d: first_tensor(d).pop("sizes"),
    "another version": lambda d: d["schema_version"].update(major=99),
    "no graph": lambda d: d.pop("graph_module"),
    "a list": lambda d: [],
    "an empty range": lambda d: d.update(range_constraints={"s0": {"min_val": 5, "max_val": 1}}),
    "an argument too many": lambda d: node_of(d)["inputs"].append(
        {"name": "extra", "arg": {"as_int": 1}, "kind": 1}
    ),
    "an argument too few": lambda d: node_of(d).update(inputs=[]),
    "a value made twice": lambda d: graph_of(d)["nodes"].append(dict(node_of(d))),
    "a parameter nobody has": lambda d: d["graph_module"]["signature"]["input_specs"][0][
        "parameter"
    ].update(parameter_name="other"),
    "a parameter of Python's": lambda d: d["graph_module"]["signature"]["input_specs"][0][
        "parameter"
    ].update(parameter_name="__class__"),
    "a parameter that is code": lambda d: d["graph_module"]["signature"]["input_specs"][0][
        "parameter"
    ].update(parameter_name='a"),print("b'),
    "a module that is code": lambda d: d["graph_module"]["module_call_graph"][0].update(
        fqn='a"),print("b'
    ),
    "a keyword that is code": lambda d: d["graph_module"]["module_call_graph"][0][
        "signature"
    ].update(in_spec=in_spec_of("x': print('y'), 'z")),
    "a parameter of the call that is code": lambda d: d["graph_module"]["module_call_graph"][0][
        "signature"
    ].update(forward_arg_names=["x=print()"]),
    "an input too few": lambda d: graph_of(d)["inputs"].pop(),
    "a tree of unknown classes": lambda d: d["graph_module"]["module_call_graph"][0][
        "signature"
    ].update(in_spec='[1, {"type": "os.system", "context": null, "children_spec": []}]'),
    "a tree that calls": lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update(
        in_spec=json.dumps(
            [
                1,
                {
                    "type": "collections.defaultdict",
                    "context": {
                        "default_factory_module": "os",
                        "default_factory_name": "abort",
                        "dict_context": [],
                    },
                    "children_spec": [],
                },
            ]
        )
    ),
    "an expression that calls": lambda d: first_tensor(d).update(
        sizes=[{"as_expr": {"expr_str": "__import__('this')"}}]
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_programs_that_are_wrong(what):
    refused(changed("mlp", CHANGES[what]))


def called(data, name):
    (node, *_) = [n for n in graph_of(data)["nodes"] if n["target"].endswith(name)]
    return node


LEVELS = {
    "a level left open": lambda d: graph_of(d)["nodes"].remove(called(d, "_decrement_nesting")),
    "a level that is not open": lambda d: graph_of(d)["nodes"].remove(
        called(d, "_increment_nesting")
    ),
    "a dim of another level": lambda d: called(d, "_add_batch_dim")["inputs"][2].update(
        arg={"as_int": 7}
    ),
    "no level": lambda d: called(d, "_remove_batch_dim")["inputs"].pop(),
    "another function": lambda d: called(d, "_add_batch_dim").update(
        target="torch._functorch.predispatch.load"
    ),
}


@pytest.mark.parametrize("what", LEVELS)
def test_levels_of_vmap_that_are_wrong(what):
    refused(changed("vectorized", LEVELS[what]))


def test_an_unknown_operator_is_named():
    failure = refused(changed("mlp", CHANGES["an operator nobody has"]))
    assert failure.code == "RL1561"
    assert "aten.nothing.default" in str(failure)


def test_graphs_nested_too_deeply():
    def deepen(data):
        inner = node_of(data, -1)
        for _ in range(40):
            graph = {**graph_of(data), "nodes": [inner]}
            inner = {
                "target": "torch.ops.higher_order.cond",
                "inputs": [{"name": "", "arg": {"as_graph": {"name": "g", "graph": graph}}}],
                "outputs": [],
                "metadata": {},
            }
        graph_of(data)["nodes"].append(inner)

    refused(changed("counter", deepen))


def test_json_nested_too_deeply():
    parts = parts_of("mlp")
    parts["mlp/models/model.json"] = b"[" * 200_000
    refused(packed(parts))
    parts["mlp/models/model.json"] = b'{"graph_module": ' + b'{"a":' * 100_000
    refused(packed(parts))


def test_weights_larger_than_their_bytes():
    for change in (
        {"sizes": [{"as_int": 1 << 40}], "strides": [{"as_int": 1}]},
        {"storage_offset": {"as_int": 1 << 40}},
        {"strides": [{"as_int": -4}, {"as_int": 1}]},
        {"sizes": [{"as_int": -8}, {"as_int": 6}]},
        {"dtype": 0},
        {"device": {"type": "cuda", "index": 0}},
        {"device": {"type": "os", "index": 0}},
    ):
        parts = parts_of("mlp")
        label = "mlp/data/weights/model_weights_config.json"
        data = json.loads(parts[label])
        next(iter(data["config"].values()))["tensor_meta"].update(change)
        parts[label] = json.dumps(data).encode()
        refused(packed(parts))


def test_weights_without_bytes_take_no_memory():
    parts = parts_of("mlp")
    parts["mlp/data/weights/weight_0"] = b""
    label = "mlp/data/weights/model_weights_config.json"
    data = json.loads(parts[label])
    name, entry = next(iter(data["config"].items()))
    entry["tensor_meta"].update(
        sizes=[{"as_int": 1 << 20}, {"as_int": 1 << 20}],
        strides=[{"as_int": 1 << 20}, {"as_int": 1}],
    )
    parts[label] = json.dumps(data).encode()
    program = torch.export.load(packed(parts))
    assert isinstance(program.state_dict[name], FakeTensor)
    assert program.state_dict[name].shape == (1 << 20, 1 << 20)


def test_programs_of_fake_weights_and_inputs():
    with FakeTensorMode():
        model, args = torch.nn.Linear(3, 2), (torch.ones(4, 3),)
        program = torch.export.export(model, args, strict=False)
    for again in (deserialize(serialize(program)), saved(program)):
        weight = again.state_dict["weight"]
        assert isinstance(weight, FakeTensor) and isinstance(weight, torch.nn.Parameter)
        assert again.example_inputs[0][0].shape == (4, 3)
        assert again.graph_signature == program.graph_signature


def test_programs_on_the_meta_device():
    model = torch.nn.Linear(3, 2, device="meta")
    program = torch.export.export(model, (torch.ones(4, 3, device="meta"),))
    again = saved(program)
    assert again.state_dict["weight"].device.type == "meta"
    assert again.module()(torch.ones(4, 3, device="meta")).shape == (4, 2)


def test_payloads_outside_of_their_folder():
    for path in ("../../models/model.json", "/etc/passwd", ".."):
        parts = parts_of("mlp")
        label = "mlp/data/weights/model_weights_config.json"
        data = json.loads(parts[label])
        next(iter(data["config"].values()))["path_name"] = path
        parts[label] = json.dumps(data).encode()
        refused(packed(parts))


class Evil:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/rushlight_was_here",)


def test_pickles_that_name_functions():
    import pickle

    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": Evil()}))
        archive.writestr("archive/version", "3\n")
    parts = parts_of("tied")
    label = "tied/data/constants/model_constants_config.json"
    data = json.loads(parts[label])
    next(iter(data["config"].values())).update(use_pickle=True, path_name="tensor_9")
    parts[label] = json.dumps(data).encode()
    parts["tied/data/constants/tensor_9"] = body.getvalue()
    refused(packed(parts))
    artifact = serialize(torch.export.load(file_of("tied")))
    with pytest.raises(CheckpointError):
        deserialize(
            SerializedArtifact(artifact.exported_program, body.getvalue(), artifact.constants, b"")
        )
    assert not Path("/tmp/rushlight_was_here").exists()


def test_example_inputs_of_unknown_classes_are_left_out():
    import pickle

    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(((Evil(),), {})))
        archive.writestr("archive/version", "3\n")
    parts = parts_of("mlp")
    parts["mlp/data/sample_inputs/model.pt"] = body.getvalue()
    assert torch.export.load(packed(parts)).example_inputs is None
    assert not Path("/tmp/rushlight_was_here").exists()


def test_archives_that_are_no_archives():
    refused(io.BytesIO(b""))
    refused(io.BytesIO(b"no zip file at all"))
    refused(io.BytesIO(b"PK\x03\x04" + bytes(100)))
    refused(packed({"a/archive_format": b"other", "a/archive_version": b"0"}))
    refused(packed({"a/archive_format": b"pt2", "a/archive_version": b"7"}))
    refused(packed({"a/archive_format": b"pt2", "a/archive_version": b"0"}))
    refused(packed({"a/archive_format": b"pt2", "b/archive_version": b"0"}))
    refused(packed({**parts_of("mlp"), "mlp/byteorder": b"middle"}))


def test_archives_that_unpack_to_more_than_they_are():
    parts = parts_of("mlp")
    parts["mlp/data/weights/weight_0"] = bytes(1 << 20)
    refused(packed(parts, zipfile.ZIP_DEFLATED))
    parts = parts_of("mlp")
    parts["mlp/models/model.json"] = b" " * (65 << 20)
    refused(packed(parts, zipfile.ZIP_DEFLATED))


def test_archives_cut_off_anywhere():
    whole = Path(file_of("nested")).read_bytes()
    for length in range(0, len(whole), 397):
        refused(io.BytesIO(whole[:length]))


def test_archives_with_changed_bytes():
    """A file with changed bytes is read, or is refused in the same way as all others."""
    whole = Path(file_of("nested")).read_bytes()
    rng = random.Random(3)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 3, 20))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            torch.export.load(io.BytesIO(bytes(damaged)))
        except CheckpointError as failure:
            assert failure.code.startswith("RL")


def test_programs_with_changed_values():
    """Random changes of the JSON: whatever comes of it, no other error and no other time."""
    parts = parts_of("branches")
    label = "branches/models/model.json"
    rng = random.Random(5)
    values = [None, True, -1, 1 << 40, 0.5, "", "x", "Integer(3)", [], {}, [[]], {"as_none": True}]
    start = time.perf_counter()
    for _ in range(200):
        data = json.loads(parts[label])
        for _ in range(rng.choice((1, 2))):
            mutate(data, rng, values)
        try:
            torch.export.load(packed({**parts, label: json.dumps(data).encode()}))
        except CheckpointError as failure:
            assert failure.code.startswith("RL")
    assert time.perf_counter() - start < 60


def mutate(data, rng, values):
    """Replaces or removes one part of a JSON value."""
    while True:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(data[key], (dict, list)) and data[key] and rng.random() < 0.85:
            data = data[key]
        elif rng.random() < 0.2:
            del data[key]
            return
        else:
            data[key] = copy.deepcopy(rng.choice(values))
            return


def test_zip_entries_that_overlap():
    whole = bytearray(Path(file_of("nested")).read_bytes())
    end = whole.rfind(b"PK\x05\x06")
    directory = struct.unpack_from("<I", whole, end + 16)[0]
    second = whole.find(b"PK\x01\x02", directory + 4)
    struct.pack_into("<I", whole, second + 42, struct.unpack_from("<I", whole, directory + 42)[0])
    refused(io.BytesIO(bytes(whole)))


def test_numbers_that_json_has_not():
    assert math.isinf(checked({"as_float": "-Infinity"}, "Argument").value)
    assert math.isnan(checked({"as_float": "NaN"}, "Argument").value)
    with pytest.raises(SerializeError):
        checked({"as_float": "infinite"}, "Argument")
