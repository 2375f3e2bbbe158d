"""NumPy's calls in captured code: nodes that run as they are, between compiled parts."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.capture import ndarrays
from rushlight.capture.exc import Unsupported
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounterWithBackend
from tests.capture.profiles import called

TABLE = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def clean():
    TABLE[:] = np.arange(6.0).reshape(2, 3)
    yield
    compiling.reset()


def elementwise(x, a):
    b = np.maximum(np.sin(x.numpy()) * 2, a) ** 2
    return torch.from_numpy(b) + x, b.dtype == np.float32, b.shape


def promotion(x, a):
    b = x.numpy()
    return b * np.float64(2), b * 2.0, b + np.int64(1), b.astype("int8") + 1, np.float32(2) * b


def views(x, a):
    b = x.numpy()
    b[0] = 7
    c = b.T
    c[0, 0] += 1
    return x + 1, torch.from_numpy(c).stride(), b is c, c.base is None


def reductions(x, a):
    b = x.numpy()
    return b.sum(), b.mean(axis=1), np.max(b, axis=0, keepdims=True), b.argmax(), b.std(ddof=1)


def shapes(x, a):
    b = x.numpy()
    parts = np.split(b, 3, axis=1)
    return np.stack([b, a]), np.concatenate((a, b), axis=1), parts[1], b.reshape(-1)[::2], len(b)


def outside(x, a):
    return torch.from_numpy(TABLE) * x, TABLE + a, TABLE


def in_place(x, a):
    a += 1
    a *= x.numpy()
    a.fill(3) if a.shape[0] == 9 else None
    return a, torch.from_numpy(a) + x


def mixed(x, a):
    y = (x.relu() + 1).detach()
    b = np.sqrt(y.numpy())
    z = torch.from_numpy(b) * y
    return torch.as_tensor(np.exp(z.numpy()), dtype=torch.float64).sum(), torch.tensor(b) + 1


def made(x, a):
    b = np.zeros((2, 3), dtype=np.float32)
    b[:, 1] = np.arange(2)
    return b, torch.from_numpy(b) + x, np.linspace(0, 1, 3), np.eye(2)


def unpacked(x, a):
    first, second = x.numpy()
    return [torch.from_numpy(row * i) for i, row in enumerate((second, first))], sum(a)


def caught(x, a):
    try:
        return x.numpy() @ a
    except ValueError:
        return np.dot(x.numpy(), a.T)


def mask(x, a):
    b = x.numpy()
    return torch.from_numpy(b[b > 0.5]) + 1, np.unique(a), np.where(b > 0)[0]


def isinstances(x, a):
    return isinstance(a, np.ndarray), type(x.numpy()) is np.ndarray, a is a, a is TABLE


def linalg(x, a):
    return np.linalg.norm(x.numpy(), axis=1), np.einsum("ij,kj->ik", x.numpy(), a)


def of_a_tensor(x, a):
    b, c = np.asarray(x), np.array(x)
    b[0, 0] = 9
    return c, x + 1


GRAPHS = [
    elementwise, promotion, views, reductions, shapes, outside, in_place, mixed, made, unpacked,
    isinstances, linalg, of_a_tensor,
]  # fmt: skip


def shown(value):
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.stride(), value.tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, str(value.dtype), value.strides, value.tolist()
    return value


def inputs(kind):
    x = torch.arange(6.0).reshape(2, 3) / 4 + 0.25
    a = np.linspace(1, 2, 6, dtype=np.float32).reshape(2, 3)
    if kind == "transposed":
        x, a = x.t().contiguous().t(), np.asfortranarray(a)
    if kind == "double":
        x, a = x.double(), a.astype(np.float64)
    if kind == "reversed":
        a = a[::-1, ::-1]
    if kind == "integers":
        x, a = x.int(), a.astype(np.int32)
    return x, a


def outcome(f, kind):
    x, a = inputs(kind)
    try:
        found = f(x, a)
        same = [value is a or value is TABLE for value in found]
        return shown(found), same, shown(x), shown(a), shown(TABLE)
    except Exception as problem:
        return type(problem).__name__, str(problem)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [*GRAPHS, caught, mask], ids=lambda f: f.__name__)
def test_numpy_gives_what_numpy_gives(program, backend):
    compiled = torch.compile(program, backend=backend)
    for kind in ("plain", "transposed", "double", "reversed", "integers", "plain"):
        TABLE[:] = np.arange(6.0).reshape(2, 3) * len(kind)
        assert outcome(compiled, kind) == outcome(program, kind), kind


@pytest.mark.parametrize("program", GRAPHS, ids=lambda f: f.__name__)
def test_numpy_is_in_the_graph(program):
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(program, backend=counter, fullgraph=True)
    assert outcome(compiled, "plain") == outcome(program, "plain")
    assert counter.frame_count == (program is not isinstances)
    x, a = inputs("plain")
    with called(__file__) as codes:
        compiled(x, a)
    assert [code.co_name for code in codes] == [program.__name__]


def test_sizes_that_data_decide_are_not_captured():
    for f in (
        lambda a: np.repeat(TABLE[0], a),
        lambda a: a[a > 1],
        lambda a: np.unique(a),
        lambda a: np.zeros(a),
        lambda a: np.arange(a[0]),
        lambda a: np.nonzero(a),
    ):
        compiled = torch.compile(f, backend="eager")
        for numbers in ([1, 2, 3], [3, 0, 2]):
            a = np.array(numbers)
            assert shown(compiled(a)) == shown(f(a))
        with pytest.raises(Unsupported):
            torch.compile(f, backend="eager", fullgraph=True)(np.array([1, 2, 3]))


def test_zeros_lie_as_the_array_does():
    base = np.ones((4, 6), dtype=np.float32)
    for a in (base, base.T, base[::2, ::-1], base[:0], base[1:3, 2], base[:, :1], np.array(2.0)):
        made = ndarrays.zeros(a.shape, a.strides, a.dtype)
        assert (made.shape, made.strides, made.dtype) == (a.shape, a.strides, a.dtype)
        assert not made.any()


def test_numbers_of_numpy_are_guarded():
    def f(x, k):
        return x * k, np.copysign(np.float32(1), k)

    compiled = torch.compile(f, backend="eager")
    x = torch.ones(2)
    for k in (np.float32(2), np.float64(2), np.float32(0.0), np.float32(-0.0), np.int64(2)):
        assert shown(compiled(x, k)) == shown(f(x, k))
