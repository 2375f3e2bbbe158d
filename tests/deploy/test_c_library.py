"""Programs as C libraries: what C computes is what Python computes."""

from __future__ import annotations

import copy
import ctypes
import shutil
import subprocess

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.deploy import targets, write_c_library
from rushlight.deploy.csource import DTYPES
from rushlight.deploy.targets import LEVELS, Target
from rushlight.export import Dim, export

COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class CTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("memory", ctypes.c_void_p),
    )


class Library:
    """A C library, called through ctypes."""

    def __init__(self, path, name, results):
        found = ctypes.CDLL(str(path))
        self.run = getattr(found, f"{name}_run")
        self.free = getattr(found, f"{name}_free")
        self.error = getattr(found, f"{name}_error")
        self.error.restype = ctypes.c_char_p
        self.results = results

    def __call__(self, *tensors):
        given = (CTensor * max(len(tensors), 1))()
        for place, tensor in zip(given, tensors):
            count = tensor.dim()
            place.sizes = (ctypes.c_int64 * count)(*tensor.shape)
            place.strides = (ctypes.c_int64 * count)(*tensor.stride())
            place.data, place.ndim = tensor.data_ptr(), count
            place.dtype = DTYPES[tensor.dtype.name]
        found = (CTensor * max(self.results, 1))()
        if self.run(given, found):
            raise RuntimeError(self.error().decode())
        return [self.tensor(place) for place in found[: self.results]]

    def tensor(self, place):
        sizes, strides = place.sizes[: place.ndim], place.strides[: place.ndim]
        (name,) = [name for name, code in DTYPES.items() if code == place.dtype]
        dtype = getattr(torch, name)
        extent = 1 + sum([(n - 1) * step for n, step in zip(sizes, strides)])
        count = 0 if 0 in sizes else extent * dtype.itemsize
        held = torch.tensor(list(ctypes.string_at(place.data, count)), dtype=torch.uint8)
        self.free(ctypes.byref(place))
        if not count:
            return torch.empty(sizes, dtype=dtype)
        return held.view(dtype).as_strided(sizes, strides).clone()


def library(program, folder, name="model", target="x86-64"):
    path = write_c_library(program, folder, name, target=target)
    results = len(pytree.tree_leaves(program.graph_signature.user_outputs))
    return Library(path, name, results)


def same(found, expected):
    expected = pytree.tree_leaves(expected)
    assert len(found) == len(expected)
    for here, there in zip(found, expected):
        wanted = there if isinstance(there, torch.Tensor) else torch.tensor(there)
        torch.testing.assert_close(here, wanted, atol=1e-5, rtol=1e-5)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 33)
        self.norm = torch.nn.LayerNorm(33)
        self.last = torch.nn.Linear(33, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        hidden = torch.nn.functional.gelu(self.norm(self.first(x)))
        return self.last(hidden).softmax(-1) * self.calls, x.t(), hidden.view(-1), x.shape[0] * 2


class Attention(torch.nn.Module):
    """Products of batches, transposed operands, a mask, sizes of two symbols."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(12, 36)

    def forward(self, x):
        q, k, v = self.qkv(x).view(x.shape[0], x.shape[1], 3, 2, 6).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / 6**0.5
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)


class Writes(torch.nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        y.add_(x.sum(0))
        return (x - y, y[1:])


class Wholes(torch.nn.Module):
    def forward(self, x, y):
        return x // 3 + y, (x > y) & (y != 0), (x % 4).to(torch.float64).sum(0), x.sum()


class Texts(torch.nn.Module):
    """A language model: rows of a table, a mask, tied weights."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.qkv = torch.nn.Linear(16, 48)
        self.last = torch.nn.Linear(16, 11, bias=False)
        self.last.weight = self.table.weight

    def forward(self, numbers):
        x = self.norm(self.table(numbers))
        q, k, v = self.qkv(x).chunk(3, -1)
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        weights = (q @ k.transpose(1, 2) / 4).masked_fill(later, float("-inf")).softmax(-1)
        return self.last(x + weights @ v)


BATCH, LENGTH = Dim("batch", min=2, max=40), Dim("length", min=2, max=50)


def cases():
    row = [((torch.randn(n, 8),)) for n in (2, 5, 40)]
    yield Net(), (torch.randn(4, 8),), ({0: BATCH},), row
    both = ({0: BATCH, 1: LENGTH},)
    yield (
        Attention(),
        (torch.randn(2, 5, 12),),
        both,
        [(torch.randn(*size, 12),) for size in ((2, 2), (3, 50), (7, 4))],
    )
    pair = ({0: BATCH}, None)
    yield (
        Writes(),
        (torch.randn(4, 3), torch.randn(3)),
        pair,
        [(torch.randn(n, 3), torch.randn(3)) for n in (4, 9)],
    )
    wholes = ({0: BATCH}, {0: BATCH})
    yield (
        Wholes(),
        tuple(torch.randint(-20, 20, (2, 6))[:, :, None]),
        wholes,
        [tuple(torch.randint(-20, 20, (2, n))[:, :, None]) for n in (3, 30)],
    )


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_results_and_writes_are_those_of_the_module(at, target, tmp_path):
    if Target(target, LEVELS[target]).missing():
        pytest.skip("this CPU lacks instructions")
    torch.manual_seed(at)
    model, example, shapes, calls = list(cases())[at]
    program = export(model, example, dynamic_shapes=shapes)
    made, module = library(program, tmp_path, target=target), copy.deepcopy(program).module()
    for args in calls:
        one, other = copy.deepcopy(args), copy.deepcopy(args)
        same(made(*one), module(*other))
        same(list(one), other)


def test_strides_of_inputs(tmp_path):
    program = export(Attention(), (torch.randn(2, 5, 12),))
    x = torch.randn(12, 5, 2).permute(2, 1, 0)
    same(library(program, tmp_path)(x), copy.deepcopy(program).module()(x))
    program = export(Writes(), (torch.randn(4, 3), torch.randn(3)))
    with pytest.raises(RuntimeError, match="written"):
        library(program, tmp_path, "w")(torch.randn(3, 4).t(), torch.randn(3))


def test_what_a_call_gets_is_checked(tmp_path):
    model = Net()
    n = Dim("n", min=4, max=20)
    program = export(model, (torch.randn(10, 8),), dynamic_shapes=({0: 2 * n},))
    made = library(program, tmp_path)
    for x, text in (
        (torch.ones(8, 7), "size 1 of input 0 has to be 8, and is 7"),
        (torch.ones(50, 8), "<= 40"),
        (torch.ones(9, 8), "of the form 2[*]"),
        (torch.ones(8), "float32 of sizes"),
        (torch.ones(8, 8, dtype=torch.float64), "float32 of sizes"),
    ):
        with pytest.raises(RuntimeError, match=text):
            made(x)
    same(made(torch.ones(10, 8)), copy.deepcopy(program).module()(torch.ones(10, 8)))


PROGRAM = r"""
#include <stdio.h>
#include "net.h"

int main(void) {
    float x[3 * 8];
    for (int at = 0; at < 24; at++) x[at] = at * 0.25f - 2;
    int64_t sizes[] = {3, 8};
    rushlight_tensor inputs[NET_INPUTS] = {{x, RUSHLIGHT_FLOAT32, 2, sizes, NULL, NULL}};
    rushlight_tensor results[NET_RESULTS];
    if (net_run(inputs, results)) { puts(net_error()); return 1; }
    for (int at = 0; at < 12; at++) printf("%.9g\n", ((float *)results[0].data)[at]);
    printf("%lld %lld\n", (long long)results[1].sizes[0], (long long)results[1].sizes[1]);
    printf("%lld\n", (long long)*(int64_t *)results[3].data);
    for (int at = 0; at < NET_RESULTS; at++) net_free(&results[at]);
    sizes[1] = 7;
    if (!net_run(inputs, results)) return 2;
    puts(net_error());
    return 0;
}
"""


@pytest.mark.parametrize("flags", [[], ["-fsanitize=address,undefined"]])
def test_a_program_in_c(flags, tmp_path):
    torch.manual_seed(0)
    program = export(Net(), (torch.randn(4, 8),), dynamic_shapes=({0: BATCH},))
    write_c_library(program, tmp_path, "net")
    (tmp_path / "main.c").write_text(PROGRAM)
    sources = ["main.c", "net.c", "net.o"] if flags else ["main.c", "-L.", "-lnet", "-Wl,-rpath,."]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    command = [COMPILER, *warnings, *flags, "-o", "main", *sources, "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if flags and done.returncode and "san" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, sizes, double, refused = done.stdout.splitlines()
    x = (torch.arange(24) * 0.25 - 2).reshape(3, 8)
    expected = program.module()(x)
    torch.testing.assert_close(torch.tensor([float(row) for row in rows]), expected[0].view(-1))
    assert (sizes, double) == ("8 3", "6")
    assert refused == "size 1 of input 0 has to be 8, and is 7"


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_rows_of_a_table(kind, tmp_path):
    model = Texts()
    dtype = getattr(torch, kind)
    example = torch.randint(0, 11, (2, 5), dtype=dtype)
    program = export(model, (example,), dynamic_shapes=({0: BATCH, 1: LENGTH},))
    found = library(program, tmp_path)
    for sizes in ((2, 2), (3, 50), (7, 4)):
        numbers = torch.randint(0, 11, sizes, dtype=dtype)
        same(found(numbers), model(numbers).detach())
        same(found(numbers.t().contiguous().t()), model(numbers).detach())
    for wrong in (-1, 11):
        with pytest.raises(RuntimeError, match="outside of its table"):
            found(torch.full((2, 2), wrong, dtype=dtype))


def test_ops_without_loops_are_named(tmp_path):
    class Determinant(torch.nn.Module):
        def forward(self, x):
            return x.det()

    program = export(Determinant(), (torch.randn(4, 4),))
    with pytest.raises(NotImplementedError, match=r"aten\._linalg_det\.default") as found:
        write_c_library(program, tmp_path, "s")
    assert found.value.code == "RL1587"


def test_no_compiler_and_wrong_names(tmp_path, monkeypatch):
    program = export(Net(), (torch.randn(4, 8),))
    with pytest.raises(ValueError, match="name of C"):
        write_c_library(program, tmp_path, "my-net")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="no C compiler") as found:
        write_c_library(program, tmp_path, "net")
    assert found.value.code == "RL1588"


def test_a_compiler_that_fails_says_why(tmp_path, monkeypatch):
    program = export(Net(), (torch.randn(4, 8),))
    monkeypatch.setenv("CC", shutil.which("false"))
    with pytest.raises(RuntimeError, match="failed") as found:
        write_c_library(program, tmp_path, "net")
    assert found.value.code == "RL1589"


def test_targets_of_another_cpu_are_told_to_the_compiler(tmp_path):
    program = export(Net(), (torch.randn(4, 8),))
    write_c_library(program, tmp_path, "net", target="x86-64-v3")
    text = (tmp_path / "net.c").read_text()
    for feature in ("avx2", "fma", "bmi2"):
        assert f'__builtin_cpu_supports("{feature}")' in text
    assert LEVELS["x86-64"] == targets.BASELINE
