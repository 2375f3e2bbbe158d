"""Programs as ONNX models: checked by the `onnx` package and run in ONNX Runtime."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.onnx.building import TABLE
from rushlight.onnx.messages import Graph, Info, Model, Node, Weight
from rushlight.onnx.programs import NEWEST, OLDEST
from rushlight.onnx.protobuf import float_field, int_field, ints_field, text_field, varint
from tests.export import exported_models as models
from tests.export.zoo import ZOO, dims
from tests.export.zoo_more import MORE

EXPECTED = json.loads(
    (Path(__file__).parent.parent / "reference" / "export" / "results.json").read_text()
)
WORDS = "install the `onnx` extra: models are neither checked nor run"


@pytest.fixture
def onnx():
    return pytest.importorskip("onnx", reason=WORDS)


@pytest.fixture
def runtime():
    pytest.importorskip("onnx", reason=WORDS)
    return pytest.importorskip("onnxruntime", reason=WORDS)


def leaves(expected):
    """Recorded results, one list of numbers for each tensor."""
    if isinstance(expected, dict):
        return [leaf for value in expected.values() for leaf in leaves(value)]
    if expected and isinstance(expected[0], (list, dict)):
        return [leaf for value in expected for leaf in leaves(value)]
    return [expected]


def exported(name, **options):
    case = models.CASES[name]()
    return case, torch.onnx.export(
        case.module, case.args, kwargs=case.kwargs, dynamic_shapes=case.dynamic_shapes(), **options
    )


# ONNX Runtime multiplies no bfloat16 on CPUs.
RUN = sorted(models.CASES.keys() - {"casting"})


@pytest.mark.parametrize("name", RUN)
def test_models_give_what_pytorch_gives(name, onnx, runtime):
    case, program = exported(name)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for args, expected in zip((case.args, case.other), EXPECTED[name], strict=False):
        found = [models.plain(result) for result in program(*args, **case.kwargs)]
        assert models.close(found, leaves(expected))


@pytest.mark.parametrize("name", sorted(ZOO))
def test_models_at_other_sizes(name, onnx, runtime):
    check_sizes(ZOO[name], onnx)


def check_sizes(entry, onnx):
    torch.manual_seed(0)
    model = entry.build()
    twin = copy.deepcopy(model)
    program = torch.onnx.export(model, entry.inputs(4, 6), dynamic_shapes=entry.shapes(*dims()))
    onnx.checker.check_model(program.model_proto, full_check=True)
    for sizes in ((4, 6), (7, 11)):
        args = entry.inputs(*sizes)
        with torch.no_grad():
            expected = pytree.tree_leaves(copy.deepcopy(twin)(*copy.deepcopy(args)))
        tensors = [each for each in expected if isinstance(each, torch.Tensor)]
        for found, wanted in zip(program(*args), tensors, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, check_stride=False)


@pytest.mark.parametrize("opset", range(OLDEST, NEWEST + 1))
def test_versions_of_the_operators(opset, onnx, runtime):
    for name in ("attention", "shuffle", "branches", "reductions"):
        case, program = exported(name, opset_version=opset)
        onnx.checker.check_model(program.model_proto, full_check=True)
        found = [models.plain(result) for result in program(*case.args, **case.kwargs)]
        assert models.close(found, leaves(EXPECTED[name][0]))


@pytest.mark.parametrize("name", sorted(MORE))
def test_more_models_at_other_sizes(name, onnx, runtime):
    check_sizes(MORE[name], onnx)


def check_recurrent(model, example, other, dims, runtime):
    program = torch.onnx.export(models.filled(model), (example,), dynamic_shapes=(dims,))
    with torch.no_grad():
        expected = pytree.tree_leaves(model(other))
    for found, wanted in zip(program(other), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    return [node.op for node in program.model.graph.nodes]


def test_lstm_over_sequences_of_any_length(runtime):
    model = torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True)
    dims = {0: torch.export.Dim("length", min=2), 1: torch.export.Dim("batch", min=2)}
    ops = check_recurrent(model, models.row(5, 2, 4), models.row(8, 3, 4), dims, runtime)
    assert ops.count("LSTM") == 2


@pytest.mark.parametrize(
    "model",
    [
        lambda: torch.nn.RNN(4, 3, nonlinearity="relu", bias=False),
        lambda: torch.nn.RNN(4, 3, bidirectional=True, batch_first=True),
        lambda: torch.nn.GRU(4, 3, num_layers=2, bidirectional=True),
    ],
)
def test_recurrent_layers(model, runtime):
    ops = check_recurrent(model(), models.row(5, 2, 4), models.row(5, 2, 4) * 2, None, runtime)
    assert {"RNN", "GRU"} & set(ops)


def test_sizes_have_names():
    _, program = exported("attention")
    (info,) = program.model.graph.inputs
    assert info.dims == ("batch", "length", 8)
    (info,) = program.model.graph.outputs
    assert info.dims == ("batch", "length", 8)
    _, program = exported("sizes")
    assert program.model.graph.outputs[1].dims == ("2*rows + 1",)


def test_names_of_inputs_and_outputs():
    _, program = exported("mlp", input_names=["picture"], output_names=["scores"])
    assert [info.name for info in program.model.graph.inputs] == ["picture"]
    assert [info.name for info in program.model.graph.outputs] == ["scores"]


def test_weights_beside_the_model(tmp_path, onnx, runtime):
    path = tmp_path / "model.onnx"
    case, _ = exported("convnet", f=path, external_data=True)
    assert (tmp_path / "model.onnx.data").stat().st_size > 2000
    onnx.checker.check_model(str(path), full_check=True)
    session = runtime.InferenceSession(str(path))
    (found,) = session.run(None, {"x": case.args[0].numpy()})
    assert models.close(found.astype(float).reshape(-1).tolist(), leaves(EXPECTED["convnet"][0])[0])


def test_weights_in_the_model(tmp_path, runtime):
    path = tmp_path / "model.onnx"
    case, _ = exported("convnet", f=path, external_data=False)
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]
    (found,) = runtime.InferenceSession(str(path)).run(None, {"x": case.args[0].numpy()})
    assert models.close(found.astype(float).reshape(-1).tolist(), leaves(EXPECTED["convnet"][0])[0])


def test_programs_that_were_exported_before(runtime):
    case = models.CASES["mlp"]()
    program = torch.export.export(case.module, case.args, dynamic_shapes=case.dynamic_shapes())
    found = torch.onnx.export(program)(*case.other)
    assert models.close([models.plain(each) for each in found], leaves(EXPECTED["mlp"][1]))


def test_a_model_is_verified_on_request(runtime):
    exported("mobile", verify=True)


def test_weights_that_nothing_uses_are_left_out():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used = torch.nn.Parameter(torch.ones(3))
            self.unused = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.used

    program = torch.onnx.export(Model(), (torch.ones(3),))
    assert [weight.name for weight in program.model.graph.weights] == ["used"]


def test_tensors_that_nothing_varies_are_constants(runtime):
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * torch.hann_window(8), torch.tril_indices(3, 3)

    program = torch.onnx.export(Model(), (torch.ones(8),))
    window, places = program(torch.ones(8))
    torch.testing.assert_close(window, torch.hann_window(8))
    assert places.equal(torch.tril_indices(3, 3))


class Factor(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x)


def test_ops_without_a_translation_are_named():
    with pytest.raises(
        torch.onnx.OnnxExporterError, match=r"aten\.linalg_cholesky_ex\.default"
    ) as caught:
        torch.onnx.export(Factor(), (torch.eye(3),))
    assert caught.value.code == "RL1570"


def test_what_onnx_cannot_say():
    class Turned(torch.nn.Module):
        def forward(self, x):
            return torch.complex(x, x).conj()

    class Nothing(torch.nn.Module):
        def forward(self, x):
            return x.shape[0]

    for model in (Turned(), Nothing()):
        with pytest.raises(torch.onnx.OnnxExporterError) as caught:
            torch.onnx.export(model, (torch.ones(3),))
        assert caught.value.code in ("RL1570", "RL1571")
    with pytest.raises(torch.onnx.OnnxExporterError, match="opset 17"):
        torch.onnx.export(models.CASES["mlp"]().module, (models.row(3, 6),), opset_version=17)


def test_options_that_are_refused():
    for options in ({"dynamo": False}, {"export_params": False}):
        with pytest.raises(NotImplementedError):
            torch.onnx.export(Factor(), (torch.eye(3),), **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        torch.onnx.export(Factor(), (torch.eye(3),), colour=True)


# -- samples of ops -----------------------------------------------------------------------------

# Their values are nobody's promise, or no tensors.
WITHOUT_VALUES = frozenset(
    (
        *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"),
        *("new_empty_strided", "item", "_local_scalar_dense"),
        *("rand", "rand_like", "randn", "randn_like"),
    )
)
# ONNX Runtime refuses a reflection as wide as the picture.
TOO_WIDE = frozenset(("reflection_pad3d",))


def translated_ops():
    from rushlight.onnx.exporting import has_op
    from rushlight.opset.registry import packet

    names = sorted({name.partition(".")[0] for name in TABLE})
    return [name for name in names if has_op(name) and name not in WITHOUT_VALUES and packet(name)]


@pytest.mark.slow
@pytest.mark.parametrize("name", translated_ops())
def test_samples_of_translated_ops(name, runtime):
    from rushlight.opset.registry import packet

    for overload in packet(name).overloads():
        op = getattr(packet(name), overload)
        if f"{name}.{overload}" in TABLE or name in TABLE:
            compare_samples(op, runtime)


def compare_samples(op, runtime):
    from rushlight.core.dtype import bool_, float32, int64
    from rushlight.opset.samples.maker import samples_of

    if op._schema.is_mutable or "out" in op.overload:
        return
    for dtype in (float32, int64, bool_):
        for sample in samples_of(op, dtype)[:2]:
            compare_sample(op, sample, runtime)


def compare_sample(op, sample, runtime):
    given, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    tensors = [each.detach() for each in given if isinstance(each, torch.Tensor)]
    if any(each.is_complex() for each in tensors):
        return

    class Model(torch.nn.Module):
        def forward(self, *values):
            left = iter(values)
            args, kwargs = pytree.tree_unflatten(
                [next(left) if isinstance(each, torch.Tensor) else each for each in given], spec
            )
            return op(*args, **kwargs)

    try:
        with torch.no_grad():
            wanted = Model()(*tensors)
    except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError):
        return
    try:
        program = torch.onnx.export(Model(), tuple(tensors))
    except torch.onnx.OnnxExporterError:
        return
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        program.session = runtime.InferenceSession(program.model.data(), options)
        results = program(*tensors)
    except Exception:
        if op.base_name in TOO_WIDE:
            return
        raise
    expected = [each for each in pytree.tree_leaves(wanted) if isinstance(each, torch.Tensor)]
    for found, each in zip(results, expected, strict=True):
        assert found.dtype == each.dtype
        np.testing.assert_allclose(
            found.numpy().astype(np.float64),
            each.numpy().astype(np.float64),
            rtol=1e-4,
            atol=1e-4,
            err_msg=str(op),
        )


class Spectra(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x):
        found = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        again = torch.istft(found * 2, 16, 4, window=self.window)
        return found.abs() ** 2, torch.view_as_real(found), again


class Transforms(torch.nn.Module):
    def forward(self, x):
        waves = torch.fft.rfft(x, dim=0)
        both = torch.complex(x, x * 2) + 1 - torch.complex(x, x)
        joined = torch.cat([both, both.conj()]).resolve_conj()
        return (
            waves.abs(),
            torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x).conj()),
            torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), norm="ortho"),
            torch.fft.ifft(torch.fft.fft(x, norm="ortho")).real,
            (both * 2j).real,
            (-both / 2).imag,
            joined.angle(),
            torch.fft.irfft(waves[:, :4], 7),
        )


def test_complex_numbers_and_transforms_in_between(runtime):
    x = torch.randn(2, 64)
    program = torch.onnx.export(Spectra(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    for rows in (2, 5):
        x = torch.randn(rows, 64)
        for found, wanted in zip(program(x), Spectra()(x)):
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    x = torch.randn(4, 6)
    for found, wanted in zip(torch.onnx.export(Transforms(), (x,))(x), Transforms()(x)):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_complex_results_and_transforms_of_any_size_are_refused():
    class Wave(torch.nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x)

    class Power(torch.nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x).abs()

    x = torch.randn(2, 8)
    with pytest.raises(torch.onnx.OnnxExporterError, match="complex"):
        torch.onnx.export(Wave(), (x,))
    with pytest.raises(torch.onnx.OnnxExporterError, match="size that varies"):
        torch.onnx.export(Power(), (x,), dynamic_shapes=({1: torch.export.Dim("n")},))


def test_writes_at_indices_of_a_later_dim(runtime):
    class Writes(torch.nn.Module):
        def forward(self, x, places):
            rows = torch.arange(6.0).reshape(2, 3)
            wide = torch.arange(12.0).reshape(3, 2, 2)
            return (
                x[:, :, 0].index_put((None, places), rows, accumulate=True),
                x.index_put((None, places, places), rows),
                x.transpose(0, 1).index_put((places,), wide),
                x.index_put((None, places), torch.ones(2)),
            )

    args = torch.randn(2, 5, 2), torch.tensor([0, 1, 1])
    for found, wanted in zip(torch.onnx.export(Writes(), args)(*args), Writes()(*args)):
        torch.testing.assert_close(found, wanted)


def test_numbers_are_drawn_anew(runtime):
    class Noise(torch.nn.Module):
        def forward(self, x):
            noise = torch.randn_like(x), torch.rand(x.shape[0], 50)
            return noise[0], noise[1] + x[:, :50], torch.rand_like(x), torch.randn(7, 100)

    x = torch.zeros(40, 50)
    program = torch.onnx.export(Noise(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    for rows in (40, 60):
        first, second = program(torch.zeros(rows, 50)), program(torch.zeros(rows, 50))
        assert not torch.equal(first[0], second[0])
        for found, mean, spread in zip(first, (0, 0.5, 0.5, 0), (1, 12**-0.5, 12**-0.5, 1)):
            assert abs(float(found.mean()) - mean) < 0.2
            assert abs(float(found.std()) - spread) < 0.2
        assert first[1].min() >= 0 and first[1].max() <= 1 and len(first[2]) == rows


def test_models_that_round_as_if_quantised(runtime):
    class Rounds(torch.nn.Module):
        def forward(self, x):
            scales, zeros = torch.tensor([0.1, 0.3]), torch.tensor([1, 0], dtype=torch.int32)
            one = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127)
            return one, torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -8, 7)

    x = torch.randn(5, 2) * 3
    program = torch.onnx.export(Rounds(), (x,))
    for found, wanted in zip(program(x), Rounds()(x)):
        torch.testing.assert_close(found, wanted)


def test_counts_of_what_there_is_and_joined_masks(runtime):
    class Counts(torch.nn.Module):
        def forward(self, x):
            found, places, counts = torch.unique(x, return_inverse=True, return_counts=True)
            return found, places, counts, torch.cat([x[x > 2], x[x <= 2]])

    x = torch.tensor([[3, 1, 2], [2, 2, 7]])
    program = torch.onnx.export(Counts(), (x,))
    for found, wanted in zip(program(x), Counts()(x)):
        torch.testing.assert_close(found, wanted)


# -- bytes --------------------------------------------------------------------------------------


def test_numbers_of_protocol_buffers():
    assert varint(0) == b"\0"
    assert varint(300) == b"\xac\x02"
    assert varint(-1) == b"\xff" * 9 + b"\x01"
    assert int_field(1, 150) == b"\x08\x96\x01"
    assert text_field(2, "testing") == b"\x12\x07testing"
    assert ints_field(4, [3, 270, 86942]) == b"\x22\x06\x03\x8e\x02\x9e\xa7\x05"
    assert float_field(2, 1.0) == b"\x15\x00\x00\x80\x3f"


def test_a_model_by_its_bytes(onnx):
    float32 = torch.float32
    graph = Graph(
        "g",
        [Node("Add", ["x", "w"], ["y"], {}, "n"), Node("Elu", ["y"], ["z"], {"alpha": 0.5}, "m")],
        [Weight("w", float32, np.ones((1, 2), np.float32))],
        [Info("x", float32, ("rows", 2))],
        [Info("z", float32, ("rows", 2))],
    )
    found = onnx.load_model_from_string(Model(graph, 18, "p", "1").data())
    onnx.checker.check_model(found)
    assert found.opset_import[0].version == 18
    assert [node.op_type for node in found.graph.node] == ["Add", "Elu"]
    assert found.graph.node[1].attribute[0].f == 0.5
    assert found.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert onnx.numpy_helper.to_array(found.graph.initializer[0]).tolist() == [[1, 1]]
