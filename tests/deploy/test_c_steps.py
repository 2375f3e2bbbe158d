"""Steps of C libraries that are no loops: each computes what eager calls compute."""

from __future__ import annotations

import copy
import shutil
import subprocess

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.base import pytree
from rushlight.deploy import write_c_library
from rushlight.export import Dim, export
from tests.deploy.test_c_library import COMPILER, library, same
from tests.export.test_models import SIZES
from tests.export.zoo import ZOO, dims
from tests.export.zoo_more import MORE

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
BATCH = Dim("batch", min=2, max=40)
aten = torch.ops.aten


class Calls(torch.nn.Module):
    """Functions of the same inputs, one after the other."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions

    def forward(self, *args):
        return [function(*args) for function in self.functions]


def check(functions, examples, calls=None, shapes=None, folder=None, target="x86-64"):
    module = Calls(*functions)
    program = export(module, examples, dynamic_shapes=shapes and (shapes,))
    made = library(program, folder, target=target)
    for args in calls or [examples]:
        same(made(*copy.deepcopy(args)), module(*args))
    return made


def batches(*shape, dtype=torch.float32):
    return [(torch.randn(n, *shape, dtype=dtype),) for n in (2, 5)]


def image_weight(*shape):
    return torch.randn(*shape) / 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_convolutions(dtype, tmp_path):
    w, b = image_weight(6, 4, 3, 2).to(dtype), torch.randn(6).to(dtype)
    grouped, up = image_weight(8, 2, 3, 3).to(dtype), image_weight(4, 3, 3, 3).to(dtype)
    line, volume = image_weight(5, 4, 3).to(dtype), image_weight(3, 4, 2, 2, 3).to(dtype)
    functions = [
        lambda x: F.conv2d(x, w, b),
        lambda x: F.conv2d(x, w, b, (2, 1), (1, 2), (2, 1)),
        lambda x: F.conv2d(x, grouped, groups=2, padding=1),
        lambda x: F.conv2d(x, grouped[:4, :1], groups=4, stride=3),
        lambda x: F.conv2d(x.to(memory_format=torch.channels_last), w),
        lambda x: F.conv2d(x.transpose(2, 3), w),
        lambda x: F.conv2d(x[0], w),
        lambda x: F.conv_transpose2d(x, up, b[:3], 2, 1, 1),
        lambda x: F.conv_transpose2d(x, up[:, :2], None, (1, 3), 0, (0, 1), 2, (2, 1)),
        lambda x: F.conv1d(x[:, :, 0], line, None, 2, 4, 2),
        lambda x: F.conv3d(x.unsqueeze(2), volume, padding=(1, 0, 2)),
    ]
    calls = batches(4, 9, 10, dtype=dtype)
    check(functions, calls[0], calls, ({0: BATCH},), tmp_path)


def test_pooling(tmp_path):
    functions = [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), 2, ceil_mode=True, return_indices=True),
        lambda x: F.max_pool3d(x.unsqueeze(1), 2, ceil_mode=True, return_indices=True),
        lambda x: F.max_pool1d(x[:, :, 0], 3, 2),
        lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 3, 1, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5, ceil_mode=True),
        lambda x: F.avg_pool1d(x[:, :, 0], 4, 3, 1),
        lambda x: F.avg_pool3d(x.unsqueeze(1), 2, 1, 1),
        lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
        lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.adaptive_avg_pool3d(x.unsqueeze(1), (2, 3, 1)),
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
        lambda x: F.interpolate(x, (5, 17), mode="bilinear"),
        lambda x: F.interpolate(x, (5, 17), mode="bilinear", align_corners=True),
        lambda x: F.pad(x, (1, -2, 0, 3), value=1.5),
        lambda x: F.pad(x, (2, 2, 0, 1), mode="reflect"),
        lambda x: F.pad(x, (2, 12, 9, 1), mode="replicate"),
    ]
    calls = batches(4, 7, 8)
    special = torch.randn(2, 4, 7, 8)
    special[0, 1, 2, 3], special[1, 0, 0] = float("nan"), float("-inf")
    made = check(functions[:2], calls[0], calls, ({0: BATCH},), tmp_path / "maxima")
    found, wanted = made(special), Calls(*functions[:2])(special)
    for one, other in zip(found, [wanted[0], *wanted[1]]):
        torch.testing.assert_close(one, other, equal_nan=True)
    check(functions, calls[0], calls, ({0: BATCH},), tmp_path)


def ordered(x, y):
    return [
        *x.sort(dim=1),
        *x.sort(dim=0, descending=True),
        *y.sort(stable=True),
        *x.topk(3),
        *y.topk(2, 0, largest=False),
        x.argsort(dim=-1),
        x.argmax(),
        x.argmax(1, keepdim=True),
        y.argmin(0),
        *x.max(1),
        *y.min(0, keepdim=True),
        x.cumsum(1),
        y.cumsum(0),
        x.cumprod(0),
        *x[0, 0].sort(),
        *(x > 0).sort(),
    ]


def test_order(tmp_path):
    x, y = torch.randn(5, 6), torch.randint(-3, 3, (4, 5))
    ties = torch.tensor([[1.0, 2.0, 1.0, -0.0, 0.0, 2.0]] * 5)
    program = export(Calls(ordered), (x, y), dynamic_shapes=(({0: BATCH}, {0: Dim("rows")}),))
    made = library(program, tmp_path)
    for args in ((x, y), (ties, y), (torch.randn(9, 6), torch.randint(-3, 3, (7, 5)))):
        same(made(*args), ordered(*args))
    special = torch.tensor([[float("nan"), 2.0, float("inf"), float("nan"), -1.0, 0.0]] * 3)
    for one, other in zip(made(special, y), pytree.tree_leaves(ordered(special, y))):
        torch.testing.assert_close(one, other, equal_nan=True)


def choices(x, rows, columns):
    return [
        x.gather(1, columns),
        x.scatter(1, columns, 2.5),
        x.scatter(1, columns, x * 2),
        x.scatter_add(1, columns, x),
        x.index_select(1, rows.clamp(0, 3)),
        x[rows],
        x[:, rows],
        x[rows, rows],
        x.unsqueeze(1)[rows, :, rows],
        x.unsqueeze(1)[:, 0, rows.view(1, -1)],
        x.index_put((rows,), x[0], accumulate=True),
        x.index_put((rows, rows), torch.tensor(7.0)),
        x.index_add(0, rows.clamp(0, 1), torch.ones(3, 5)),
        x.index_copy(1, torch.tensor([1, 0]), x[:, :2] * 3),
        torch.cat([x, x.t()[:, :1].expand(5, 5)[:2], x], 0),
        torch.stack([x[:, 0], x[:, 1]], 1),
        F.one_hot(columns, 5),
        torch.arange(0.5, 3.0, 0.25) + x[0, 0],
        torch.arange(x.shape[0]) * 2,
        x.flip(1).roll(1, 0),
        F.embedding(columns, x[:5].t()),
        x.repeat_interleave(2, 1),
    ]


def test_choices_of_elements(tmp_path):
    x, rows = torch.randn(5, 5), torch.tensor([1, -2, 0])
    columns = torch.tensor([[0, 4, 2, 1, 3]] * 5)
    made = check([choices], (x, rows, columns), folder=tmp_path)
    for wrong in (5, -6):
        with pytest.raises(RuntimeError, match="outside of its dim"):
            made(x, torch.tensor([wrong, 0, 0]), columns)
    with pytest.raises(RuntimeError, match="outside of its dim"):
        made(x, rows, columns - 1)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True)
        self.gru = torch.nn.GRU(10, 3, bias=False, bidirectional=True)
        self.rnn = torch.nn.RNN(6, 4, nonlinearity="relu")
        self.tanh = torch.nn.RNN(4, 4)

    def forward(self, x):
        y, state = self.lstm(x)
        z, last = self.gru(y)
        return y, state, z, last, self.tanh(self.rnn(z)[0])


def test_recurrent_layers_of_any_length(tmp_path):
    torch.manual_seed(0)
    model = Recurrent()
    length = Dim("length", min=2, max=30)
    example = (torch.randn(3, 7, 4),)
    program = export(model, example, dynamic_shapes=({0: BATCH, 1: length},))
    made = library(program, tmp_path)
    for sizes in ((2, 2), (5, 13)):
        x = torch.randn(*sizes, 4)
        same(made(x), pytree.tree_map(lambda t: t.detach(), model(x)))


# Those that no C is written for: a branch, sizes that data tells, a size as a float.
NOT_IN_C = {
    "Branches": "a graph within the graph",
    "ThresholdDetector": "aten.nonzero",
    "ConvolutionalInTraining": "cannot hold",
}
SOME = ("ResidualNetwork", "Suppression", "Translator")
EVERY = {**ZOO, **MORE}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SOME else pytest.mark.slow) for n in EVERY]
)
def test_models(name, tmp_path):
    torch.manual_seed(0)
    entry = EVERY[name]
    program = export(entry.build(), entry.inputs(4, 6), dynamic_shapes=entry.shapes(*dims()))
    if name in NOT_IN_C:
        with pytest.raises(NotImplementedError, match=NOT_IN_C[name]):
            write_c_library(program, tmp_path, "model")
        return
    made, module = library(program, tmp_path), copy.deepcopy(program).module()
    for sizes in SIZES:
        args = entry.inputs(*sizes)
        leaves = pytree.tree_leaves(copy.deepcopy(args))
        same(made(*leaves), module(*copy.deepcopy(args)))


class Small(torch.nn.Module):
    """All kinds of kernels at once."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 6, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(6).eval()
        self.lstm = torch.nn.LSTM(6, 4)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        steps = y.flatten(2).permute(2, 0, 1)
        out = self.lstm(steps)[0]
        values, places = out[-1].sort(1)
        return torch.cat([values, F.avg_pool2d(y, 2).mean((1, 2, 3))[:, None]], 1), places


MAIN = r"""
#include <stdio.h>
#include "small.h"

int main(void) {
    float x[2 * 36];
    for (int at = 0; at < 72; at++) x[at] = (at % 7) * 0.5f - 1;
    int64_t sizes[] = {2, 1, 6, 6};
    rushlight_tensor inputs[SMALL_INPUTS] = {{x, RUSHLIGHT_FLOAT32, 4, sizes, NULL, NULL}};
    rushlight_tensor results[SMALL_RESULTS];
    if (small_run(inputs, results)) { puts(small_error()); return 1; }
    for (int at = 0; at < 10; at++) printf("%.9g\n", ((float *)results[0].data)[at]);
    for (int at = 0; at < 8; at++) printf("%lld\n", (long long)((int64_t *)results[1].data)[at]);
    for (int at = 0; at < SMALL_RESULTS; at++) small_free(&results[at]);
    return 0;
}
"""


@pytest.mark.parametrize("flags", [["-O2"], ["-fsanitize=address,undefined"]])
def test_a_program_in_c(flags, tmp_path):
    torch.manual_seed(0)
    model = Small().eval()
    program = export(model, (torch.randn(3, 1, 6, 6),), dynamic_shapes=({0: BATCH},))
    write_c_library(program, tmp_path, "small")
    (tmp_path / "main.c").write_text(MAIN)
    command = [shutil.which("cc"), "-Wall", "-Wextra", "-Werror", *flags, "-o", "main"]
    command += ["main.c", "small.c", "small.o", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if flags != ["-O2"] and done.returncode and "san" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [float(line) for line in done.stdout.splitlines()]
    values, places = model((torch.arange(72) % 7 * 0.5 - 1).view(2, 1, 6, 6))
    torch.testing.assert_close(torch.tensor(found[:10]).view(2, 5), values.detach())
    assert found[10:] == places.flatten().tolist()
