"""Threads of native kernels: the same bits on any number, forks, nested calls, the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config
from rushlight.codegen.kernels import convolution, pool, pooltext

pytest.importorskip("llvmlite")

ROOT = Path(__file__).parent.parent.parent
COUNTS = (1, 2, 5)


@pytest.fixture(autouse=True)
def given_threads() -> Iterator[None]:
    before = rushlight.get_num_threads()
    yield
    rushlight.set_num_threads(before)


def operands(*shape: int, outputs: int = 24, kernel: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    return x, rng.standard_normal((outputs, shape[1], kernel, kernel)).astype(np.float32)


def passes(x: Any, w: Any, stride: int) -> list[bytes]:
    options = (stride, stride), (1, 1), (1, 1), 1
    result = convolution.forward(x, w, None, *options)
    grad = np.cos(result)
    return [
        found.tobytes()
        for found in (
            result,
            convolution.input_gradient(grad, w, None, x.shape[2:], *options),
            convolution.weight_gradient(x, grad, w.shape[2:], *options),
        )
    ]


@pytest.mark.parametrize(("shape", "stride"), [((6, 24, 30, 29), 1), ((3, 24, 30, 29), 2),
                                               ((1, 24, 80, 60), 2)])  # fmt: skip
def test_bits_do_not_depend_on_threads(shape: Any, stride: int) -> None:
    x, w = operands(*shape)
    found = []
    for count in COUNTS * 2:
        rushlight.set_num_threads(count)
        found += [passes(x, w, stride) for _ in range(3)]
    assert all([each == found[0] for each in found])


def test_the_pool_has_as_many_threads_as_are_set() -> None:
    x, w = operands(6, 24, 30, 29)
    made = pool.pool()
    if not isinstance(made, pool.Pool):
        pytest.skip("no threads on this machine")
    for count in (3, 2, 1, 4):
        rushlight.set_num_threads(count)
        passes(x, w, 2)
        assert made.live() == count - 1 if count > 1 else True
        assert rushlight.get_num_threads() == count


def test_calls_from_several_threads_at_once() -> None:
    rushlight.set_num_threads(2)
    x, w = operands(4, 24, 30, 29)
    expected = passes(x, w, 2)
    wrong: list[Any] = []

    def work() -> None:
        wrong.extend([number for number in range(10) if passes(x, w, 2) != expected])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        rushlight.set_num_threads(number % 3 + 1)
        passes(x, w, 2)
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_children_compute_and_parents_go_on() -> None:
    rushlight.set_num_threads(3)
    x, w = operands(4, 24, 30, 29)
    expected = passes(x, w, 2)
    for _ in range(10):
        child = os.fork()
        if not child:
            os._exit(0 if passes(x, w, 2) == expected else 1)
        assert passes(x, w, 2) == expected
        assert os.waitpid(child, 0)[1] == 0


PROGRAM = """
import threading, rushlight as torch
torch.set_num_threads(3)
layer = torch.nn.Conv2d(24, 24, 3, stride=2)
x = torch.randn(4, 24, 30, 30)
layer(x)
def forever():
    while True:
        layer(x)
threading.Thread(target=forever, daemon=True).start()
print("end")
"""


def test_the_end_comes_while_a_kernel_runs() -> None:
    settings = {**os.environ, "RUSHLIGHT_CACHE_DIR": config.cache_dir}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=120,
        env=settings,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_loaders_workers_compute() -> None:
    rushlight.set_num_threads(2)
    layer = rushlight.nn.Conv2d(16, 16, 3)
    images = rushlight.randn(4, 16, 40, 40)
    with rushlight.no_grad():
        expected = [layer(image) for image in images]

    class Images(rushlight.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(images)

        def __getitem__(self, place: int) -> Any:
            with rushlight.no_grad():
                return layer(images[place])

    loader = rushlight.utils.data.DataLoader(Images(), num_workers=2)
    for found, image in zip(loader, expected, strict=True):
        assert rushlight.equal(found[0], image)


@pytest.mark.parametrize("sleep", ["futex", "condition", "serial"])
def test_texts_are_modules(sleep: str) -> None:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(pooltext.pool_text(sleep))
    module.verify()
    assert "rl_parallel_for" in [function.name for function in module.functions]
