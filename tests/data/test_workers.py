"""Workers: batches through memory, seeds, failures, and that nothing is left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.data import crew, transport
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

ROOT = Path(__file__).parents[2]
FORK = "fork" in multiprocessing.get_all_start_methods()
pytestmark = pytest.mark.skipif(not FORK, reason="the tests' datasets are handed over by forking")
KINDS = ("process", "thread")


class Made(Dataset):
    """Samples made by a function of the index."""

    def __init__(self, make, count=6):
        self.make = make
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.make(index)


class Stream(IterableDataset):
    def __init__(self, count=10):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, self.count, info.num_workers))


def load(dataset, kind="process", workers=2, **options):
    if kind == "process":
        options.setdefault("multiprocessing_context", "fork")
    return DataLoader(dataset, num_workers=workers, worker_kind=kind, **options)


def open_files():
    return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                  if os.path.exists(f"/proc/self/fd/{fd}"))  # fmt: skip


def worker_threads():
    return [t for t in threading.enumerate() if t.name.startswith("rushlight-data")]


@pytest.fixture(scope="module", autouse=True)
def quick_collections():
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_is_left(quick_collections):
    """No process, thread, descriptor, mapping or named segment outlives a test."""
    gc.collect()
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    named = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert worker_threads() == []
    if files:
        assert len(os.listdir("/proc/self/fd")) <= files, open_files()
        assert "rushlight-batch" not in Path("/proc/self/maps").read_text()
        assert {n for n in os.listdir("/dev/shm") if n.startswith(("psm_", "torch"))} <= named
        with pytest.raises(ChildProcessError):  # no zombies
            os.waitpid(-1, os.WNOHANG)


# -------------------------------------------------------------------- batches


@pytest.mark.parametrize("kind", KINDS)
def test_batches_come_in_order(kind):
    def slow_start(index):
        time.sleep(0.03 if index < 2 else 0)
        return torch.full((2,), index)

    loader = load(Made(slow_start, 7), kind, batch_size=2)
    assert [b[:, 0].tolist() for b in loader] == [[0, 1], [2, 3], [4, 5], [6]]
    assert len(loader) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_batches_out_of_order(kind):
    def slow_start(index):
        time.sleep(0.2 if index == 0 else 0)
        return index

    found = [b.item() for b in load(Made(slow_start), kind, in_order=False)]
    assert sorted(found) == [0, 1, 2, 3, 4, 5] and found[0] != 0


@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_shared_out(kind):
    assert [b.tolist() for b in load(Stream(), kind, batch_size=2)] == [
        [0, 2], [1, 3], [4, 6], [5, 7], [8], [9],
    ]  # fmt: skip
    dropped = load(Stream(), kind, batch_size=2, drop_last=True)
    assert [b.tolist() for b in dropped] == [[0, 2], [1, 3], [4, 6], [5, 7]]


@pytest.mark.parametrize("kind", KINDS)
def test_worker_init_fn_changes_its_own_copy(kind):
    class Plain(IterableDataset):
        start = 0

        def __iter__(self):
            return iter(range(self.start, self.start + 2))

    def begin(worker):
        get_worker_info().dataset.start = 10 * worker

    data = Plain()
    assert [b.item() for b in load(data, kind, worker_init_fn=begin)] == [0, 10, 1, 11]
    assert data.start == 0 and get_worker_info() is None


@pytest.mark.parametrize("kind", KINDS)
def test_all_workers_are_told_who_they_are(kind):
    def told(index):
        info = get_worker_info()
        return info.id, info.num_workers, info.seed - info.id, info.worker_method

    generator = torch.Generator().manual_seed(3)
    base = torch.empty((), dtype=torch.int64).random_(generator=generator.clone_state()).item()
    loader = load(Made(told, 4), kind, batch_size=None, generator=generator)
    method = "multiprocessing" if kind == "process" else "thread"
    assert [tuple(b) for b in loader] == [(i % 2, 2, base, method) for i in range(4)]


def test_worker_processes_use_one_thread_for_products():
    here = torch.get_num_threads()
    assert [b.item() for b in load(Made(lambda index: torch.get_num_threads(), 2))] == [1, 1]
    assert torch.get_num_threads() == here


def test_large_and_small_tensors_arrive_writable_and_apart():
    large = torch.arange(60_000.0)

    def sample(index):
        return large + index, torch.tensor([index]), large.numpy()[:20_000] * index, "text"

    kept = []
    for big, small, array, text in load(Made(sample, 4), batch_size=2):
        row = kept and len(kept) * 2
        assert big.shape == (2, 60_000) and big[1, 5].item() == 6 + (row or 0)
        assert array.dtype is torch.float32 and array[1, 2].item() == 2 * small[1].item()
        assert text == ["text", "text"] or text == ("text", "text")
        big.add_(1)
        small.add_(1)
        kept.append(small)
    assert [s.flatten().tolist() for s in kept] == [[1, 2], [3, 4]]


def test_memory_is_given_back_with_the_batch():
    if not transport.SENDS_FILES:
        pytest.skip("batches are copied here")
    iterator = iter(load(Made(lambda i: torch.ones(100_000) * i, 3)))
    batch = next(iterator)
    assert "rushlight-batch" in Path("/proc/self/maps").read_text()
    assert not any("rushlight-batch" in name for name in open_files())
    row = batch[0]
    del batch
    assert row[0].item() == 0


@pytest.mark.parametrize("sends_files", [True, False])
def test_messages_through_a_connection(sends_files, monkeypatch):
    monkeypatch.setattr(transport, "SENDS_FILES", sends_files and transport.SENDS_FILES)
    base = torch.arange(100_000)
    message = {
        "view": base[10:20],
        "turned": base.reshape(100, 1000).t(),
        "half": torch.ones(50_000, dtype=torch.bfloat16),
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "empty": torch.ones(0, 3),
        "expanded": torch.ones(1).expand(5),
        "many": [torch.full((20_000,), float(i)) for i in range(150)],
        "conj": torch.tensor([1 + 2j]).conj(),
        "sparse": torch.eye(2).to_sparse(),
        "meta": torch.empty(3, device="meta"),
        "large text": "x" * 100_000,
    }
    near, far = multiprocessing.Pipe()
    sender = threading.Thread(target=transport.send, args=(near, (1, -2, 3), message))
    sender.start()
    head, data, buffers = transport.receive(far)
    found = transport.loads(data, buffers)
    sender.join()
    near.close()
    with pytest.raises(EOFError):
        transport.receive(far)
    far.close()
    assert head == (1, -2, 3)
    assert found["view"].tolist() == list(range(10, 20))
    assert found["view"].untyped_storage().nbytes() == 80
    assert found["turned"].stride() == (1, 1000) and torch.equal(found["turned"], message["turned"])
    assert found["half"].dtype is torch.bfloat16 and found["half"].float().sum().item() == 50_000
    assert type(found["parameter"]) is torch.nn.Parameter and found["parameter"].requires_grad
    assert found["empty"].shape == (0, 3) and found["expanded"].stride() == (0,)
    assert [t[-1].item() for t in found["many"]] == list(range(150))
    assert found["conj"].tolist() == [1 - 2j] and found["sparse"].to_dense().sum().item() == 2
    assert found["meta"].device.type == "meta" and len(found["large text"]) == 100_000


def test_views_of_one_memory_stay_so():
    base = torch.zeros(40_000)
    first, second = transport.loads(*transport.dumps((base[:20_000], base)))
    second[3] = 7
    assert first[3].item() == 7 and base[3].item() == 7  # nothing was copied on the way


# -------------------------------------------------------------------- seeds


def test_workers_draw_by_seed():
    import random

    import numpy as np

    def draw(index):
        return torch.rand(1).item(), random.random(), np.random.rand()

    def draws(seed):
        torch.manual_seed(seed)
        return [tuple(b) for b in load(Made(draw, 4), batch_size=None)]

    first = draws(1)
    assert draws(1) == first and draws(2) != first
    assert len({value for row in first for value in row}) == 12
    torch.manual_seed(1)
    base = torch.empty((), dtype=torch.int64).random_().item()
    torch.manual_seed(base + 1)
    words = [1, base & 0xFFFFFFFF, base >> 32, 0]
    np_seed = np.random.SeedSequence(words).generate_state(4)
    expected = (
        torch.rand(1).item(),
        random.Random(base + 1).random(),
        np.random.RandomState(np_seed).rand(),
    )
    assert first[1] == expected


def test_threads_have_streams_of_their_own():
    def draw(index):
        rng = get_worker_info().rng
        return (
            torch.rand(1, generator=rng.torch_generator).item(),
            rng.random_generator.random(),
            rng.numpy_generator.random(),
        )

    def draws():
        torch.manual_seed(1)
        return [tuple(b) for b in load(Made(draw, 4), "thread", batch_size=None)]

    assert draws() == draws() and len({v for row in draws() for v in row}) == 12


# -------------------------------------------------------------------- persistent workers


@pytest.mark.parametrize("kind", KINDS)
def test_persistent_workers(kind):
    def who(index):
        return index, os.getpid(), threading.get_ident()

    loader = load(Made(who), kind, batch_size=3, persistent_workers=True)
    seen = [set(zip(b[1].tolist(), b[2].tolist())) for _ in range(3) for b in loader]
    assert len(set.union(*seen)) == 2
    for _ in range(3):
        assert next(iter(loader))[0].tolist() == [0, 1, 2]  # left early, begun again
    assert [b[0].tolist() for b in loader] == [[0, 1, 2], [3, 4, 5]]


def test_persistent_streams_begin_again():
    loader = load(Stream(5), "process", persistent_workers=True)
    for _ in range(3):
        assert [b.item() for b in loader] == [0, 1, 2, 3, 4]


# -------------------------------------------------------------------- failures


def fail(index):
    if index == 1:
        raise ValueError(f"bad {index}")
    return index


@pytest.mark.parametrize("kind", KINDS)
def test_exceptions_carry_the_traceback(kind):
    iterator = iter(load(Made(fail, 4), kind))
    assert next(iterator).item() == 0
    with pytest.raises(ValueError) as caught:
        next(iterator)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"Caught ValueError in DataLoader worker {kind} 1."
    assert lines[1] == "Original Traceback (most recent call last):"
    assert "in fail" in str(caught.value) and lines[-1] == "ValueError: bad 1"
    assert [b.item() for b in iterator] == [2, 3]


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first)


@pytest.mark.parametrize(
    "error, kind, last",
    [
        (KeyError("k"), KeyError, "KeyError: 'k'"),
        (TwoArguments(1, 2), RuntimeError, "TwoArguments: 1"),
        (type("Local", (Exception,), {})("x"), RuntimeError, "Local: x"),
    ],
)
def test_exceptions_of_all_types(error, kind, last):
    def raise_it(index):
        raise error

    with pytest.raises(kind) as caught:
        list(load(Made(raise_it), workers=1))
    shown = str(caught.value)
    assert shown.startswith("Caught ") and shown.rstrip().endswith(last) and "\n" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_failing_init_fn(kind):
    def begin(worker):
        raise OSError("no disk")

    with pytest.raises(OSError, match="Caught OSError in DataLoader worker"):
        list(load(Made(abs), kind, worker_init_fn=begin))


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda i: lambda: i, "(?i)pickle"),
        (lambda i: torch.ones(1, requires_grad=True) * 2, "Cowardly refusing to serialize non-"),
    ],
)
def test_batches_that_cannot_be_sent(make, text):
    with pytest.raises(Exception, match=text) as caught:
        list(load(Made(make), batch_size=None))
    assert "in DataLoader worker process 0" in str(caught.value)


def refuse():
    raise LookupError("not here")


class Unreadable:
    def __reduce__(self):
        return refuse, ()


def test_batches_that_cannot_be_read():
    iterator = iter(load(Made(lambda i: i if i else Unreadable(), 3), batch_size=None))
    with pytest.raises(LookupError, match="while receiving from DataLoader worker process 0"):
        next(iterator)
    assert list(iterator) == [1, 2]


@pytest.mark.parametrize(
    "end, cause",
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed. "),
        (lambda: os._exit(7), "exited unexpectedly with exit code 7. Details are lost due to "
         "multiprocessing. Rerunning with num_workers=0 may give better error trace."),
    ],
)  # fmt: skip
def test_lost_processes_are_reported(end, cause):
    def die(index):
        if index == 2:
            end()
        return index

    iterator = iter(load(Made(die)))
    started = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        list(iterator)
    assert time.monotonic() - started < 3
    pid = iterator._workers[0].pid
    assert str(caught.value) == f"DataLoader worker (pid(s) {pid}) exited unexpectedly"
    assert str(caught.value.__cause__) == f"DataLoader worker (pid {pid}) {cause}"
    assert {3, 5} <= {b.item() for b in iterator} <= {0, 1, 3, 5}


def test_lost_persistent_process_stays_lost():
    def die(index):
        os._exit(1)

    loader = load(Made(die), workers=1, persistent_workers=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="exited unexpectedly"):
            next(iter(loader))


def test_lost_thread_is_reported():
    with pytest.raises(RuntimeError, match=r"worker \(thread 0\) exited unexpectedly(.|\n)*Exit"):
        list(load(Made(lambda i: sys.exit(3)), "thread", workers=1))


@pytest.mark.parametrize("kind", KINDS)
def test_timeout(kind):
    loader = load(Made(lambda i: time.sleep(0.6)), kind, workers=1, timeout=0.1)
    with pytest.raises(RuntimeError) as caught:
        list(loader)
    assert str(caught.value) == "DataLoader timed out after 0.1 seconds"


# -------------------------------------------------------------------- ending


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_early_ends_the_workers(kind):
    for batch in load(Made(lambda i: torch.ones(100_000), 50), kind, prefetch_factor=4):
        assert batch.shape == (1, 100_000)
        break


def test_workers_that_do_not_end_are_ended(monkeypatch):
    monkeypatch.setattr(crew, "PATIENCE", 0.1)

    def hang(index):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if index:
            time.sleep(60)
        return index

    iterator = iter(load(Made(hang)))
    next(iterator)
    processes = iterator._workers
    del iterator
    assert all(p.exitcode in (0, -signal.SIGKILL) for p in processes)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_ends_the_workers(kind):
    def interrupted():
        for _ in load(Made(lambda i: time.sleep(0.3) or i, 200), kind):
            pass

    # A job in the background starts with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        interrupted()
    except KeyboardInterrupt as error:
        error.__traceback__ = None
    else:
        pytest.fail("the interrupt was lost")
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_tasks_and_results_larger_than_a_pipe():
    wide = load(Made(lambda i: i, 200_000), batch_size=50_000, prefetch_factor=4, workers=1)
    assert [len(b) for b in wide] == [50_000] * 4
    words = load(Made(lambda i: "x" * 40_000, 40), prefetch_factor=20, workers=1)
    assert [len(b[0]) for b in words] == [40_000] * 40


def test_a_fork_leaves_the_workers_alone():
    iterator = iter(load(Made(abs, 8), prefetch_factor=1))
    next(iterator)
    pid = os.fork()
    if pid == 0:
        del iterator
        gc.collect()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert [b.item() for b in iterator] == list(range(1, 8))


SCRIPT = """
import os, signal, sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self): return 6
    def __getitem__(self, i): return torch.full((200, 200), float(i)), i

class Slow(Rows):
    def __getitem__(self, i): time.sleep(i > 1); return os.getpid()

if __name__ == "__main__":
    if sys.argv[1] == "die":
        for pid in DataLoader(Slow(), num_workers=2, prefetch_factor=1):
            print(pid.item(), os.getpid(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    for method in ("fork", "spawn"):
        loader = DataLoader(Rows(), 2, num_workers=2, multiprocessing_context=method)
        print(method, [b[0][:, 0, 0].tolist() for b in loader], torch.__name__)
"""


def run_script(tmp_path, *words):
    (tmp_path / "script.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "rushlight", "run", "script.py", *words], cwd=tmp_path, text=True,
        capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_scripts_with_forked_and_spawned_workers(tmp_path):
    done = run_script(tmp_path, "load")
    rows = "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] torch"
    assert (done.stdout, done.stderr) == (f"fork {rows}\nspawn {rows}\n", "")


def is_alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs /proc")
def test_workers_end_with_a_killed_loader(tmp_path):
    done = run_script(tmp_path, "die")
    pids = [int(word) for word in done.stdout.split()]
    assert done.returncode == -signal.SIGKILL and len(pids) == 2
    until = time.monotonic() + 5
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))
