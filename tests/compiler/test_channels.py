"""Compiled graphs keep images with their channels last inside; nobody sees it from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.codegen import driver
from rushlight.codegen.reports import memory_report
from rushlight.codegen.steps import Native
from rushlight.compiler import compiling
from rushlight.compiler.graphcache import FxGraphCache

pytest.importorskip("llvmlite")

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Any) -> Iterator[None]:
    torch.manual_seed(0)
    with config.patch(cache_dir=str(tmp_path)):
        yield


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of native steps of graphs that are compiled."""
    compiling.reset()
    names: list[str] = []
    plain = driver.scheduled

    def noted(*args: Any) -> Any:
        program, schedule = plain(*args)
        names.extend([item.name for item in schedule if isinstance(item, Native)])
        return program, schedule

    monkeypatch.setattr(driver, "scheduled", noted)
    return names


class Block(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.shortcut = nn.Conv2d(into, out, 1, stride)

    def forward(self, x: Any) -> Any:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def network(*tail: Any) -> Any:
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), Block(16, 16, 1), Block(16, 32, 2), *tail)


def twins(make: Callable[[], Any]) -> tuple[Any, Any]:
    plain, other = make(), make()
    other.load_state_dict(plain.state_dict())
    return plain, torch.compile(other)


def same(found: Any, expected: Any) -> None:
    assert (found.shape, found.dtype, found.stride()) == (
        expected.shape,
        expected.dtype,
        expected.stride(),
    )
    if found.numel():
        assert (found - expected).abs().max() <= 1e-4 * expected.abs().max() + 1e-6


def compare_steps(plain: Any, compiled: Any, x: Any, steps: int = 3) -> None:
    for _ in range(steps):
        for model in (plain, compiled):
            model.zero_grad()
        given = [x.detach().requires_grad_(), x.detach().requires_grad_()]
        found = [model(copy) for model, copy in zip((compiled, plain), given, strict=True)]
        same(*found)
        weights = torch.randn_like(found[0])
        for result in found:
            (result * weights).sum().backward()
        same(given[0].grad, given[1].grad)
        pairs = zip(compiled.parameters(), plain.parameters(), strict=True)
        for mine, theirs in pairs:
            same(mine.grad, theirs.grad)
        for mine, theirs in zip(compiled.buffers(), plain.buffers(), strict=True):
            same(mine, theirs)


def test_training_of_a_residual_network(native: list[str]) -> None:
    plain, compiled = twins(
        lambda: network(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))
    )
    compare_steps(plain, compiled, torch.randn(4, 3, 15, 13), steps=12)
    assert native.count("convolution") == native.count("convolution_backward") == 7
    assert native.count("batch_norm_statistics") == native.count("native_batch_norm_backward") == 4


@pytest.mark.parametrize("is_last", [False, True], ids=["plain", "channels_last"])
def test_results_have_the_strides_of_eager(is_last: bool, native: list[str]) -> None:
    x = torch.randn(2, 3, 12, 14)
    if is_last:
        x = x.to(memory_format=torch.channels_last)
    plain, compiled = twins(network)
    compare_steps(plain, compiled, x)
    plain.eval(), compiled.eval()
    with torch.no_grad():
        same(compiled(x), plain(x))
    compare_steps(plain, compiled, x)
    assert native


def test_views_of_results() -> None:
    # Storages begin where results do, wherever memory that is aligned and used again begins.
    x = torch.randn(8, 3, 33, 31).to(memory_format=torch.channels_last)
    plain, compiled = twins(lambda: nn.Conv2d(3, 16, 3))
    for _ in range(8):
        found, expected = compiled(x), plain(x)
        for view in (lambda y: y.detach(), lambda y: y[1:, 2:5], lambda y: y.permute(2, 0, 3, 1)):
            same(view(found), view(expected))
        assert found.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
        assert (found.storage_offset(), found.detach().data_ptr()) == (0, found.data_ptr())


def test_inputs_that_are_views(native: list[str]) -> None:
    plain, compiled = twins(network)
    for x in (torch.randn(2, 14, 12, 3).permute(0, 3, 1, 2), torch.randn(2, 3, 24, 14)[:, :, ::2]):
        compare_steps(plain, compiled, x, steps=1)
    assert native


class Mixed(nn.Module):
    """Convolutions with ops between them that have an order of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 16, 3, 1, 1), nn.Conv2d(32, 8, 3, 1, 1)
        self.scale = nn.Parameter(torch.randn(16, 1, 1))

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        pooled = F.max_pool2d(y.sigmoid(), 3, 1, 1)
        z = torch.cat([pooled * self.scale, y.relu_()], 1)
        last = self.second(z)
        rows = last.flatten(1).softmax(-1)
        return last, rows.sum(1), (last > 0).float(), last.transpose(2, 3) + 1, y[:, 1:3], z.mean(1)


def test_ops_between_that_keep_their_order(native: list[str]) -> None:
    plain, compiled = twins(Mixed)
    for _ in range(3):
        x = torch.randn(2, 4, 17, 16)
        given = [x.clone().requires_grad_(), x.clone().requires_grad_()]
        found = [model(copy) for model, copy in zip((compiled, plain), given, strict=True)]
        for mine, theirs in zip(*found, strict=True):
            same(mine, theirs)
        for results in found:
            sum((part * part).sum() for part in results).backward()
        same(given[0].grad, given[1].grad)
        for mine, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
            same(mine.grad, theirs.grad)
    assert native


def test_hooks_see_what_was_saved(native: list[str]) -> None:
    plain, compiled = twins(network)
    seen = []

    def pack(tensor: Any) -> Any:
        seen.append(tuple(tensor.shape))
        return tensor.clone()

    compare_steps(plain, compiled, torch.randn(2, 3, 12, 12), steps=1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor * 1):
        compare_steps(plain, compiled, torch.randn(2, 3, 12, 12), steps=2)
    assert seen and native


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Conv2d(16, 32, 1)),
        lambda: nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.ConvTranspose2d(16, 8, 2, 2)),
        lambda: nn.Sequential(nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 8, 3, groups=4)),
        lambda: nn.Sequential(nn.Unflatten(2, (2, 6)), nn.Conv3d(16, 16, 2), nn.Flatten(2, 3)),
        lambda: nn.Sequential(nn.Flatten(2), nn.Conv1d(16, 16, 3), nn.BatchNorm1d(16)),
    ],
    ids=["depthwise", "transposed", "grouped", "volumes", "rows"],
)
def test_other_convolutions(make: Callable[[], Any]) -> None:
    plain, compiled = twins(make)
    compare_steps(plain, compiled, torch.randn(2, 16, 12, 12))


def test_other_dtypes_and_small_images(native: list[str]) -> None:
    plain, compiled = twins(lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)).double())
    compare_steps(plain, compiled, torch.randn(2, 4, 9, 9).double())
    plain, compiled = twins(lambda: nn.Conv2d(4, 4, 3))
    compare_steps(plain, compiled, torch.randn(1, 4, 3, 3))
    assert not native


def test_changing_sizes() -> None:
    plain, compiled = twins(network)
    for size in (10, 12, 9, 14):
        compare_steps(plain, compiled, torch.randn(3, 3, size, size + 1), steps=1)


def test_frozen_statistics_in_training(native: list[str]) -> None:
    plain, compiled = twins(network)
    plain.eval(), compiled.eval()
    compare_steps(plain, compiled, torch.randn(4, 3, 12, 12))
    assert "native_batch_norm_backward" in native


def test_threads_give_the_same_bits() -> None:
    before = torch.get_num_threads()
    answers = []
    try:
        for threads in (1, 2, 5):
            torch.manual_seed(0)
            torch.set_num_threads(threads)
            torch.compiler.reset()
            model = torch.compile(network())
            x = torch.randn(8, 3, 16, 16)
            for _ in range(2):
                model(x).square().sum().backward()
            answers.append([p.grad.numpy().tobytes() for p in model.parameters()])
    finally:
        torch.set_num_threads(before)
    assert answers[0] == answers[1] == answers[2]


class Turned(nn.Module):
    """A norm whose result goes on through views that name its dims anew."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 16, (3, 1), padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, (3, 1), bias=False)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.first(x)).permute(0, 2, 3, 1).permute(0, 3, 1, 2)
        return self.second(y * 1.5)


@pytest.mark.parametrize("trains", [False, True])
def test_gradients_that_come_through_views(trains: bool, native: list[str]) -> None:
    plain, compiled = twins(lambda: Turned().train(trains))
    x = torch.randn(5, 8, 13, 13).contiguous(memory_format=torch.channels_last)
    compare_steps(plain, compiled, x)
    assert "native_batch_norm_backward" in native


def step_of(model: Any, x: Any) -> list[bytes]:
    """The bits of a step: results, gradients and what was counted."""
    given = x.detach().requires_grad_()
    model.zero_grad()
    found = model(given)
    (found * found).sum().backward()
    grads = [parameter.grad for parameter in model.parameters()]
    return [t.detach().numpy().tobytes() for t in (found, given.grad, *grads, *model.buffers())]


def test_segments_run_steps_as_calls_of_them_do(monkeypatch: pytest.MonkeyPatch) -> None:
    make, x = lambda: network(nn.AdaptiveAvgPool2d(1)), torch.randn(4, 3, 12, 12)
    alone, together = make(), make()
    together.load_state_dict(alone.state_dict())
    before = torch.get_num_threads()
    prepared, prepare = [], Native.prepare

    def noted(*args: Any) -> bool:
        prepared.append(prepare(*args))
        return prepared[-1]

    def answers(model: Any, preparing: Callable[..., bool]) -> list[list[bytes]]:
        compiling.reset()
        FxGraphCache.forget()
        found = []
        with monkeypatch.context() as patch:
            patch.setattr(Native, "prepare", preparing)
            compiled = torch.compile(model)
            # Fewer threads, and more, than there were when it was compiled.
            for number in (2, 1, 2, 5):
                torch.set_num_threads(number)
                found.append(step_of(compiled, x))
        return found

    try:
        expected = answers(alone, lambda *_: False)
        assert answers(together, noted) == expected
    finally:
        torch.set_num_threads(before)
    assert prepared and all(prepared)


def test_several_threads_run_one_compiled_network() -> None:
    compiling.reset()
    network = torch.compile(nn.Sequential(nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU()).eval())
    given = [torch.randn(8, 16, 32, 32) for _ in range(4)]
    with torch.no_grad():
        expected = [network(x) for x in given]

        def run(x: Any) -> Any:
            with torch.no_grad():
                return network(x)

        with ThreadPoolExecutor(3) as pool:
            for _ in range(3):
                for found, known in zip(pool.map(run, given), expected, strict=True):
                    assert torch.equal(found, known)


def test_one_call_of_native_code() -> None:
    compiling.reset()
    FxGraphCache.forget()
    made: list[Any] = []
    plain = driver.Compiled.__init__

    def noted(self: Any, *args: Any) -> None:
        plain(self, *args)
        made.append(self)

    model = torch.compile(network(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.Compiled, "__init__", noted)
        model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert len(made) == 2
    for code in made:
        steps = [item for item in code.schedule if isinstance(item, Native)]
        assert steps and all([step.parts for step in steps])
        together = [items for items, _ in code.segments.values() if steps[0] in items]
        assert together and all([step in together[0] for step in steps])
        assert "aten::convolution" in memory_report(code)
