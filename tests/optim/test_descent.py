"""Steps of SGD taken by native code in one call: the bits of the operations one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.codegen.kernels import available

SIZES = [(70000,), (3, 5, 7), (16,), (1,), (300, 300), (17,), *[(2, 3)] * 12]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "weight_decay": 1e-4, "nesterov": True},
    {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.3},
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """What native code said to each step that it was asked to take."""
    if available() is None:
        pytest.skip("nothing compiles native code here")
    from rushlight.codegen.kernels import calls

    found: list[bool] = []
    taken = calls.descend

    def descend(*args: Any) -> bool:
        found.append(taken(*args))
        return found[-1]

    monkeypatch.setattr(calls, "descend", descend)
    yield found


def after_steps(options: dict[str, Any], **settings: Any) -> list[bytes]:
    """Parameters and buffers after some steps, among whose gradients are NaN and -0.0."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(size).astype(np.float32) for size in SIZES]
    params = [torch.from_numpy(value).requires_grad_() for value in values]
    optimizer = torch.optim.SGD(params, lr=0.1, **options)
    with config.patch(**settings):
        for number in range(4):
            for param in params:
                grad = rng.standard_normal(param.shape).astype(np.float32)
                if number == 2:
                    grad.reshape(-1)[0] = np.nan if param.numel() > 20 else -0.0
                param.grad = torch.from_numpy(grad)
            optimizer.step()
    assert [param._version for param in params] == [4] * len(params)
    buffers = [s["momentum_buffer"] for s in optimizer.state.values() if "momentum_buffer" in s]
    return [tensor.detach().numpy().tobytes() for tensor in (*params, *buffers)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_bits(options: dict[str, Any], calls: list[bool]) -> None:
    expected = after_steps(options, eager_native=False)
    assert not calls
    before = torch.get_num_threads()
    try:
        for threads, level in ((1, ""), (2, "avx2"), (5, "baseline")):
            torch.set_num_threads(threads)
            assert after_steps(options, cpu_level=level) == expected
    finally:
        torch.set_num_threads(before)
    # The first step makes the buffers, op by op.
    assert calls == [True] * 3 * (3 if "momentum" in options else 4)


def test_memory_in_common(calls: list[bool]) -> None:
    memory = torch.zeros(1 << 18)
    first, second = memory[: 1 << 17], memory[1 << 16 : 3 << 16]
    for param in (first, second):
        param.requires_grad_().grad = torch.ones(1 << 17)
    torch.optim.SGD([first, second], lr=1.0, weight_decay=1.0).step()
    assert calls == [False]
    # The second reads what the first wrote: 1 less, and no decay of it.
    assert memory[0] == -1 and memory[1 << 16] == -1 and memory[1 << 17] == -1


def test_what_it_does_not_take(calls: list[bool]) -> None:
    half, lying = torch.zeros(1 << 18, dtype=torch.float64), torch.zeros(512, 1024).T
    few = torch.zeros(8)
    for param in (half, lying, few):
        param.requires_grad_().grad = torch.ones_like(param)
        torch.optim.SGD([param], lr=1.0, weight_decay=0.5).step()
        assert float(param.detach().min()) == float(param.detach().max()) == -1
    assert not calls
