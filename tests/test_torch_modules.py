"""Modules under torch's names that say what there is, and small tools beside the tensor library."""

from __future__ import annotations

import datetime
import pickle

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.torch_version import TorchVersion

# -- devices that are not there --------------------------------------------------------------------


def test_questions_about_devices_are_answered_and_requests_refused():
    assert not torch.accelerator.is_available() and torch.accelerator.current_accelerator() is None
    assert not torch.xpu.is_available() and torch.mps.device_count() == 0
    assert torch.cuda.memory_allocated() == 0 and torch.cuda.default_generators == ()
    with torch.accelerator.device_index(None), torch.cuda.device_of(torch.ones(1)):
        pass
    with pytest.raises(RuntimeError, match="RL0011"):
        torch.accelerator.synchronize()
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.cuda.CUDAGraph()
    with pytest.raises(AssertionError, match="CUDA"):
        torch.cuda.nvtx.range_push("x")

    @torch.cuda.nvtx.range("named where it is written")
    def inside():
        pass

    with pytest.raises(AssertionError, match="CUDA"):
        inside()
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)


def test_switches_of_attention_are_those_that_attention_reads():
    x = torch.ones(1, 1, 2, 4)
    with torch.backends.cuda.sdp_kernel(enable_flash=False, enable_math=False):
        assert not torch.backends.cuda.math_sdp_enabled()
        with pytest.raises(RuntimeError, match="No viable backend"):
            F.scaled_dot_product_attention(x, x, x)
    assert torch.backends.cuda.math_sdp_enabled() and torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.preferred_linalg_library("magma") == "magma"
    with pytest.raises(RuntimeError, match="Unknown"):
        torch.backends.cuda.preferred_blas_library("mine")


def test_dtypes_that_can_only_be_named():
    assert torch.int4.itemsize == 1 and torch.qint32.itemsize == 4 and torch.bit is torch.uint1
    assert pickle.loads(pickle.dumps(torch.quint8)) is torch.quint8
    assert torch.per_tensor_affine is pickle.loads(pickle.dumps(torch.per_tensor_affine))
    for use in (
        lambda: torch.zeros(2, dtype=torch.int4), lambda: torch.ones(2).to(torch.quint8),
        lambda: torch.iinfo(torch.int4), lambda: torch.promote_types(torch.int4, torch.int8),
        lambda: torch.tensor([1], dtype=torch.bits8),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match="RL0018"):
            use()
    assert torch.ones(2, dtype=torch.float64).dequantize().dtype is torch.float32


# -- distributed -----------------------------------------------------------------------------------


def test_distributed_tells_the_truth(monkeypatch):
    import rushlight.distributed as dist
    from rushlight.distributed.tensor import Partial, Replicate, Shard

    assert dist.is_available() and not dist.is_initialized() and not dist.is_nccl_available()
    with pytest.raises(RuntimeError, match="RL0013"):
        dist.breakpoint()
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert dist.get_node_local_rank() == 3
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    assert Shard(0) == Shard(0) != Shard(1) and Shard(1).is_shard(1) and Replicate().is_replicate()
    assert str(Partial()) == "P(sum)" and not dist.supports_complex(dist.ReduceOp.MAX)


def test_policies_of_sharding_choose_modules():
    from rushlight.distributed import fsdp

    layer = torch.nn.Linear(2, 2)
    policy = fsdp.ModuleWrapPolicy({torch.nn.Linear})
    assert policy(layer, False) and not policy(torch.nn.ReLU(), False) and policy(layer, True)
    size = fsdp.size_based_auto_wrap_policy
    assert size(layer, False, 10, min_num_params=10) and not size(
        layer, False, 9, min_num_params=10
    )
    assert not size(torch.nn.ModuleList(), False, 10, min_num_params=10)
    with pytest.raises(RuntimeError, match="RL0013"):
        fsdp.FullyShardedDataParallel(layer)


# -- hub -------------------------------------------------------------------------------------------


def test_a_model_of_a_folder(tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "from helper import FACTOR\ndependencies = ['json']\n"
        "def model(width, bias=True):\n    'makes one'\n    return width * FACTOR, bias\n"
    )
    assert torch.hub.load(str(tmp_path), "model", 4, source="local", bias=False) == (12, False)
    with pytest.raises(RuntimeError, match="Cannot find callable other"):
        torch.hub.load(str(tmp_path), "other", source="local")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        torch.hub.load(str(tmp_path), "model", source="local")


def test_weights_are_fetched_once_and_checked(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "weights-0000.pt")
    url = (tmp_path / "weights-0000.pt").as_uri()
    folder = tmp_path / "kept"
    for _ in range(2):
        loaded = torch.hub.load_state_dict_from_url(url, str(folder), progress=False)
        assert loaded["w"].tolist() == [1, 1]
        (tmp_path / "weights-0000.pt").unlink(missing_ok=True)
    with pytest.raises(ConnectionError, match=r"RL1310"):
        torch.hub.download_url_to_file(url, str(tmp_path / "again.pt"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept"]


def test_a_wrong_checksum_leaves_no_file(tmp_path):
    (tmp_path / "source").write_bytes(b"data")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        torch.hub.download_url_to_file(
            (tmp_path / "source").as_uri(), str(tmp_path / "copy"), hash_prefix="00ff"
        )
    assert [p.name for p in tmp_path.iterdir()] == ["source"]


def test_code_of_strangers_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert torch.hub.get_dir() == str(tmp_path / "hub")
    with pytest.raises(PermissionError, match="RL1311"):
        torch.hub.load("somebody/something", "model")


# -- versions, events ------------------------------------------------------------------------------


def test_versions_compare_by_their_numbers():
    version = TorchVersion("2.13.0+rushlight0.1.0")
    assert version > "2.6" and version >= (2, 13) and version < (3,) and "2.13" in version
    assert TorchVersion("2.13.0") == "2.13" and TorchVersion("2.13.0a0") < "2.13"
    assert TorchVersion("2.1.dev3") < "2.1.0" < TorchVersion("2.1.post1")
    assert hash(version) == hash(str(version)) and TorchVersion("2.1") != "abc"


def test_a_stat_tells_of_the_window_that_ended(monkeypatch):
    from rushlight import monitor

    now = [100.0]
    monkeypatch.setattr(monitor.time, "time", lambda: now[0])
    told = []
    handle = monitor.register_event_handler(told.append)
    kinds = [monitor.SUM, monitor.MEAN, monitor.MAX, monitor.COUNT]
    stat = monitor.Stat("s", kinds, datetime.timedelta(seconds=10))
    stat.add(1)
    stat.add(3)
    assert stat.count == 2 and stat.get() == {}
    now[0] = 111.0
    assert stat.get() == {monitor.SUM: 4, monitor.MEAN: 2, monitor.MAX: 3, monitor.COUNT: 2}
    monitor.unregister_event_handler(handle)
    assert [event.data for event in told] == [
        {"s.sum": 4.0, "s.mean": 2.0, "s.max": 3.0, "s.count": 2}
    ]


# -- attention, products ---------------------------------------------------------------------------


def test_causal_biases_are_their_masks():
    from rushlight.nn.attention.bias import causal_lower_right, causal_upper_left

    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4)
    for make, diagonal in ((causal_upper_left, 0), (causal_lower_right, 2)):
        mask = torch.ones(3, 5, dtype=torch.bool).tril(diagonal)
        assert torch.equal(make(3, 5).materialize(), mask)
        found = F.scaled_dot_product_attention(q, k, k, make(3, 5))
        assert torch.allclose(found, F.scaled_dot_product_attention(q, k, k, mask), atol=1e-6)


def test_sequences_of_several_lengths_attend_to_themselves():
    from rushlight.nn.attention.varlen import AuxRequest, varlen_attn

    lengths = (2, 4)
    x = torch.randn(6, 2, 8, requires_grad=True)
    ends = torch.tensor([0, 2, 6], dtype=torch.int32)
    out, lse = varlen_attn(
        x, x, x, ends, ends, 4, 4, window_size=(-1, 0), return_aux=AuxRequest(lse=True)
    )
    assert lse.shape == (6, 2)
    parts = [each.transpose(0, 1) for each in x.split(lengths)]
    expected = [F.scaled_dot_product_attention(p, p, p, is_causal=True) for p in parts]
    assert torch.allclose(out, torch.cat([e.transpose(0, 1) for e in expected]), atol=1e-5)
    out.sum().backward()
    assert x.grad.isfinite().all()


def test_grouped_products():
    a, b = torch.randn(5, 3), torch.randn(2, 3, 4)
    offs = torch.tensor([2, 5], dtype=torch.int32)
    expected = torch.cat([a[:2] @ b[0], a[2:] @ b[1]])
    assert torch.allclose(F.grouped_mm(a, b, offs=offs), expected)
    left, right = torch.randn(4, 5), torch.randn(5, 6)
    stacked = F.grouped_mm(left, right, offs=offs)
    assert torch.allclose(stacked, torch.stack([left[:, :2] @ right[:2], left[:, 2:] @ right[2:]]))
    with pytest.raises(RuntimeError, match="offs"):
        F.grouped_mm(a, b)


# -- modules over devices --------------------------------------------------------------------------


def test_parts_of_a_batch_are_cut_and_put_together():
    from rushlight.nn.parallel import gather, parallel_apply, replicate, scatter, scatter_kwargs

    x = torch.arange(4.0).reshape(4, 1)
    parts = scatter((x, {"a": x, "n": 3}), ["cpu", "cpu"])
    assert [p[0].shape[0] for p in parts] == [2, 2] and parts[1][1]["n"] == 3
    args, kwargs = scatter_kwargs((x,), None, ["cpu", "cpu"])
    module = torch.nn.Linear(1, 1)
    outputs = parallel_apply(replicate(module, ["cpu"] * 2), list(args), list(kwargs))
    assert torch.allclose(gather(outputs, "cpu"), module(x))
    with pytest.raises(NotImplementedError, match="RL1201"):
        scatter(x, [0, 1])
    with pytest.raises(ValueError, match="no"):
        parallel_apply([lambda: 1, raising], [(), ()])


def raising():
    raise ValueError("no")


# -- small tools -----------------------------------------------------------------------------------


def test_a_timer_measures_and_compares():
    from rushlight.utils.benchmark import Compare, Measurement, Timer, select_unit

    timer = Timer("x + 1", globals={"x": torch.ones(2)}, label="sums", sub_label="two")
    found = timer.blocked_autorange(min_run_time=0.01)
    assert found.median > 0 and len(found.times) == len(found.raw_times)
    merged = Measurement.merge([found, timer.timeit(found.number_per_run)])
    assert len(merged) == 1 and len(merged[0].raw_times) == len(found.raw_times) + 1
    text = str(Compare([found]))
    assert "sums" in text and "two" in text and "seconds" in text
    assert select_unit(2e-3) == ("ms", 1e-3) and "Median" in repr(merged[0])
    with pytest.raises(NotImplementedError, match="RL0015"):
        Timer("x;", language="c++")


def test_one_holder_of_a_baton(tmp_path):
    from rushlight.utils.file_baton import FileBaton

    first, second = (FileBaton(str(tmp_path / "lock"), 0.01) for _ in range(2))
    assert first.try_acquire() and not second.try_acquire()
    first.release()
    second.wait()
    assert second.try_acquire()
    second.release()


def test_the_environment_is_told():
    from rushlight.utils.collect_env import get_env_info, get_pretty_env_info

    assert get_env_info().is_cuda_available == "False"
    assert "numpy==" in get_pretty_env_info()


def test_backwards_of_a_group_recompute_a_region_once():
    from rushlight.utils.checkpoint import GraphExecGroup, checkpoint

    runs = []

    def region(x):
        runs.append(1)
        y = x.sin()
        return y.exp(), x.cos()

    x = torch.ones(2, requires_grad=True)
    with GraphExecGroup():
        a, b = checkpoint(region, x, use_reentrant=False)
        a.sum().backward()
        b.sum().backward()
    assert len(runs) == 2
    expected = x.detach().cos() * x.detach().sin().exp() - x.detach().sin()
    assert torch.allclose(x.grad, expected)
