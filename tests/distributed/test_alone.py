"""Process groups of one process, which need no MPI; stores; what is told where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

import rushlight as torch
import rushlight.distributed as dist
from rushlight.base.errors import MissingFeature
from rushlight.distributed import mpi
from rushlight.distributed.dtensor import DTensor
from rushlight.distributed.mesh import init_device_mesh
from rushlight.distributed.placements import Replicate, Shard
from rushlight.distributed.statedict import StateDictOptions, get_model_state_dict, get_state_dict
from rushlight.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).parents[2]


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_one_process(alone):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    values = torch.arange(3.0)
    work = dist.all_reduce(values, async_op=True)
    assert work.wait() and work.result()[0] is values and values.tolist() == [0.0, 1.0, 2.0]
    dist.all_reduce(values, op=dist.ReduceOp.AVG)
    into = [torch.zeros(3)]
    dist.all_gather(into, values)
    out = torch.zeros(3)
    dist.reduce_scatter_tensor(out, values)
    assert torch.equal(into[0], values) and torch.equal(out, values)
    told = [None]
    dist.all_gather_object(told, "me")
    assert told == ["me"]
    dist.barrier()
    dist.monitored_barrier()
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo", rank=0, world_size=1)
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.all_reduce(values)


def test_what_is_asked_of_the_environment(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="environment variable RANK expected, but not set"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="rank parameter missing"):
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", world_size=2)
    with pytest.raises(RuntimeError, match="No rendezvous handler for smoke://"):
        dist.init_process_group("gloo", init_method="smoke://", rank=0, world_size=2)
    with pytest.raises(ValueError, match="backend 'pigeons' is not there"):
        dist.init_process_group("pigeons")
    assert not dist.is_initialized()


def test_without_mpi_one_error_names_the_commands(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('No module named mpi4py')")
    program = (
        "import rushlight.distributed as dist\n"
        "assert not dist.is_mpi_available()\n"
        f"dist.init_process_group('gloo', init_method='file://{tmp_path}/meeting', rank=0, "
        "world_size=2)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "pip install 'rushlight[mpi]'" in done.stderr and "apt install" in done.stderr
    assert "RL0020" in done.stderr


def test_doctor_describes_mpi():
    found = mpi.describe()
    assert found["mpi4py"] == "(absent)" or {"library", "mpirun"} <= set(found)


def test_programs_beside_one_another_share_no_memory():
    """MPI names what processes share after what their manager calls them."""
    from rushlight.distributed.pmi import Manager

    said = {Manager(2).answer(None, "cmd=get_my_kvsname") for _ in range(3)}
    assert len(said) == 3 and all([each.startswith("cmd=my_kvsname kvsname=") for each in said])


# -- stores ----------------------------------------------------------------------------------------


def make_store(kind, tmp_path):
    if kind == "hash":
        return dist.HashStore()
    if kind == "file":
        return dist.FileStore(str(tmp_path / "store"), 1)
    served = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, timeout=timedelta(seconds=5))
    return dist.PrefixStore("deep", served) if kind == "prefix" else served


@pytest.mark.parametrize("kind", ["hash", "file", "tcp", "prefix"])
def test_stores(kind, tmp_path):
    store = make_store(kind, tmp_path)
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    assert store.get("a") == b"1" and store.get("b") == b"\x00\xff"
    assert store.add("n", 5) == 5 and store.add("n", -2) == 3 and store.get("n") == b"3"
    store.append("a", "2")
    assert store.get("a") == b"12"
    assert store.compare_set("a", "no", "never") == b"12"
    assert store.compare_set("a", "12", "new") == b"new"
    assert store.check(["a", "b"]) and not store.check(["a", "z"])
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.multi_get(["x", "y"]) == [b"1", b"2"]
    assert store.delete_key("x") and not store.delete_key("x")
    store.queue_push("q", "first")
    store.queue_push("q", "second")
    assert store.queue_len("q") == 2 and store.queue_pop("q") == b"first"
    assert store.queue_pop("q") == b"second"
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", block=False)
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: never"):
        store.wait(["never"], timedelta(milliseconds=50))
    threading.Timer(0.1, lambda: store.set("late", "x")).start()
    assert store.get("late") == b"x"


def test_a_store_that_nobody_serves():
    with pytest.raises(dist.DistNetworkError, match="timed out after 100ms"):
        dist.TCPStore("127.0.0.1", 1, timeout=timedelta(milliseconds=100))


def test_a_server_survives_noise():
    import socket

    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, timeout=timedelta(seconds=5))
    for noise in (b"\xff" * 64, b"\x00\x00\x00\x02{]", b"\x00\x00\x00\x01"):
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            stranger.sendall(noise)
    store.set("still", "here")
    assert store.get("still") == b"here"
    store.close()


def test_state_has_the_names_of_the_model_that_wrappers_hold(alone):
    inner = torch.nn.Sequential()
    inner.module = torch.nn.Linear(2, 2)
    assert list(get_model_state_dict(inner)) == ["module.weight", "module.bias"]
    wrapped = torch.nn.Sequential(DistributedDataParallel(inner))
    assert list(get_model_state_dict(wrapped)) == ["0.module.weight", "0.module.bias"]
    optimiser = torch.optim.Adam(wrapped.parameters())
    _, told = get_state_dict(DistributedDataParallel(wrapped), optimiser)
    assert list(told["state"]) == ["0.module.weight", "0.module.bias"]


def test_options_of_state_that_nothing_would_follow_are_refused():
    assert StateDictOptions(full_state_dict=True, cpu_offload=True, strict=False).strict is False
    for option in ("ignore_frozen_params", "flatten_optimizer_state_dict"):
        with pytest.raises(MissingFeature, match=option):
            StateDictOptions(**{option: True})
    with pytest.raises(MissingFeature, match="submodules"):
        get_model_state_dict(torch.nn.Linear(2, 2), submodules=set())


def test_options_that_would_change_something_are_refused(alone):
    layer = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="device_ids"):
        DistributedDataParallel(layer, device_ids=[0])
    for option in ("mixed_precision", "skip_all_reduce_unused_params"):
        with pytest.raises(MissingFeature, match=option):
            DistributedDataParallel(layer, **{option: True})
    with pytest.raises(MissingFeature, match="group"):
        dist.new_subgroups(1, group=dist.group.WORLD)
    mesh = init_device_mesh("cpu", (1,))
    with pytest.raises(MissingFeature, match="grad_placements"):
        DTensor.from_local(torch.ones(2), mesh, [Shard(0)], grad_placements=[Shard(0)])
    whole = DTensor.from_local(torch.ones(2), mesh, [Shard(0)])
    with pytest.raises(MissingFeature, match="forward_dtype"):
        whole.redistribute(placements=[Replicate()], forward_dtype=torch.bfloat16)
    assert whole.redistribute(mesh, [Replicate()]).to_local().tolist() == [1.0, 1.0]


def test_rendezvous_gives_a_store_once(tmp_path):
    place = f"file://{tmp_path / 'meeting'}?rank=0&world_size=1"
    meetings = dist.rendezvous(place)
    store, rank, size = next(meetings)
    store.set("key", "value")
    assert (rank, size, store.get("key")) == (0, 1, b"value")
    with pytest.raises(RuntimeError, match="Unable to perform rerendezvous using file:// method"):
        next(meetings)
    with pytest.raises(RuntimeError, match="`url` must be a string"):
        dist.rendezvous(3)
    with pytest.raises(RuntimeError, match="No rendezvous handler for smoke://"):
        next(dist.rendezvous("smoke://"))


def test_handlers_of_other_schemes(tmp_path):
    def handler(url, timeout=None, **options):
        assert url == "whistle://here?rank=0&world_size=1"
        yield dist.FileStore(str(tmp_path / "file"), 1), 0, 1

    dist.register_rendezvous_handler("whistle", handler)
    try:
        dist.init_process_group("gloo", init_method="whistle://here", rank=0, world_size=1)
        assert dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="Rendezvous handler for whistle:// already registered"):
        dist.register_rendezvous_handler("whistle", handler)


def test_stores_keep_texts_and_bytes():
    store = dist.HashStore()
    with pytest.raises(TypeError, match="a store keeps str or bytes, got int"):
        store.set("key", 3)
    with pytest.raises(dist.DistStoreError, match="as many values as keys"):
        store.multi_set(["a"], ["b", "c"])


def test_lists_of_another_dtype(alone):
    with pytest.raises(ValueError, match="tensors with different dtypes"):
        dist.all_gather([torch.zeros(1, dtype=torch.int64)], torch.zeros(1))


def test_meshes_are_joined_by_name(alone):
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    assert mesh.mesh.dtype is torch.int32
    flat = mesh["data", "model"]._flatten()
    assert flat.mesh_dim_names == ("data_model",) and flat.get_group().size() == 1
    assert mesh["data_model"] is flat is mesh._flatten()
    assert mesh["data"]._flatten() == mesh["data"]
    with pytest.raises(ValueError, match="model already exists as a dim"):
        mesh._flatten("model")
    with pytest.raises(RuntimeError, match="Device type with index is not supported"):
        init_device_mesh("cpu:0", (1,))


def test_layouts_that_cannot_be(alone):
    mesh = init_device_mesh("cpu", (1,))
    with pytest.raises(RuntimeError, match="Sharding dim 3 greater than tensor ndim 1"):
        DTensor.from_local(torch.ones(2), mesh, [Shard(3)])
    with pytest.raises(RuntimeError, match="Sharding dim -2 greater than tensor ndim 1"):
        DTensor.from_local(torch.ones(2), mesh, [Shard(-2)])
