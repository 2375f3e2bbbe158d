"""Families outside the foundation: what they define is in the index and arrives when asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(code: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_index_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "tools/write_op_index.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


PROMISES = """
import rushlight as torch
from rushlight.opset import families, where
from rushlight.opset.exposure import PromisedAttribute

before = dict(vars(torch.Tensor))
promised = {name for name, value in before.items() if isinstance(value, PromisedAttribute)}
assert promised == set(families.ATTRIBUTES)
families.load_all()
assert vars(torch.Tensor).keys() == before.keys()
# An import keeps promises without touching Tensor; a look-up does.
assert all(vars(torch.Tensor)[name] is before[name] for name in promised)
for name in promised:
    getattr(torch.Tensor, name)
    assert not isinstance(vars(torch.Tensor)[name], PromisedAttribute), name
for name in families.OPS:
    torch.ops.aten.__getattr__(name)
for name in families.FUNCTIONS:
    getattr(torch, name)
"""


def test_every_name_of_the_index_is_there():
    run(PROMISES)


LATE = """
import rushlight as torch

x = torch.ones(2, 2)
assert x.to_sparse().layout is torch.sparse_coo
assert torch.einsum("ij->i", x).tolist() == [2.0, 2.0]
assert not hasattr(x, "no_such_method")
assert torch.special.softmax(x, 0).tolist() == [[0.5, 0.5], [0.5, 0.5]]
"""


def test_names_arrive_when_asked_for():
    run(LATE)


SET_FIRST = """
import rushlight as torch

z = torch.tensor([1 + 2j])
z.imag = torch.tensor([7.0])
assert z.tolist() == [1 + 7j] and not vars(z)
x = torch.ones(2)
x.flip = 3
assert x.flip == 3 and torch.ones(2).flip(0).tolist() == [1.0, 1.0]
"""


def test_a_property_may_be_set_before_it_is_read():
    run(SET_FIRST)


MISSING = """
import sys
import rushlight as torch

before = set(sys.modules)
assert not hasattr(torch, "nope")
assert not hasattr(torch.ops.aten, "nope_")
assert not hasattr(torch.special, "nope")
assert not hasattr(torch.ones(1), "nope")
added = {name for name in set(sys.modules) - before if "opset" in name}
assert not added, added
"""


def test_a_missing_name_imports_nothing():
    run(MISSING)


ALONE = """
import sys
import rushlight as torch

before = set(sys.modules)
assert torch.arange(3).tolist() == [0, 1, 2]
families = {name for name in set(sys.modules) - before if name.startswith("rushlight.opset.")}
assert families == {"rushlight.opset.creation.series"}, families
"""


def test_a_name_imports_its_module_alone():
    run(ALONE)


GENERATOR = """
import sys
import rushlight as torch
from rushlight.core.rng import Generator

state = Generator().manual_seed(3).get_state()
assert state.dtype is torch.uint8
assert Generator().set_state(state).initial_seed() == 3
assert "rushlight.opset.creation.random" not in sys.modules
"""


def test_the_state_of_a_generator_needs_no_random_op():
    run(GENERATOR)


SPARSE = """
import rushlight as torch
from rushlight.opset.sparse.coo import make_coo

sparse = make_coo(torch.tensor([[0, 1]]), torch.tensor([1.0, 2.0]), (3,), True)
assert (sparse + sparse).to_dense().tolist() == [2.0, 4.0, 0.0]
assert sparse.mul_(2).to_dense().tolist() == [2.0, 4.0, 0.0]
assert torch.zeros(2, layout=torch.sparse_coo).to_dense().tolist() == [0.0, 0.0]
"""


def test_sparse_operands_bring_their_rules():
    run(SPARSE)


# First uses by many threads at once: (expression, its value).
FIRST_USES = """
import random, sys, threading
import rushlight as torch
import rushlight.nn.functional as F
from rushlight.utils.data import DataLoader

sys.setswitchinterval(1e-5)
eye = [[1.0, 0.0], [0.0, 1.0]]
CASES = [
    ("torch.linalg.det(x * 2).item()", 4.0),
    ("torch.linalg.inv(x).tolist()", eye),
    ("torch.linalg.eigvalsh(x).tolist()", [1.0, 1.0]),
    ("torch.linalg.vector_norm(x * 3, 1).item()", 6.0),
    ("torch._foreach_add([x], 1)[0].tolist()", [[2.0, 1.0], [1.0, 2.0]]),
    ("torch._foreach_mul([x], [x])[0].tolist()", eye),
    ("torch.arange(4).cumsum(0).tolist()", [0, 1, 3, 6]),
    ("x.softmax(0).sum().item()", 2.0),
    ("x.clone().tril_().tolist()", eye),
    ("x.sort(0).values.tolist()", [[0.0, 0.0], [1.0, 1.0]]),
    ("x.norm(1).item()", 2.0),
    ("x.var(0).tolist()", [0.5, 0.5]),
    ("x.to_sparse().to_dense().tolist()", eye),
    ("(x.to_sparse() + x.to_sparse()).to_dense().sum().item()", 4.0),
    ("x.unique().tolist()", [0.0, 1.0]),
    ("x.polygamma(1).shape", (2, 2)),
    ("x.lu()[0].tolist()", eye),
    ("x.is_xla", False),
    ("x.clone().uniform_(2, 2).tolist()", [[2.0, 2.0], [2.0, 2.0]]),
    ("torch.einsum('ij,jk->ik', x, x).tolist()", eye),
    ("torch.tensordot(x, x, 1).tolist()", eye),
    ("torch.eye(2).tolist()", eye),
    ("torch.manual_seed(0) is torch.default_generator", True),
    ("torch.Generator().get_state().numel()", 5056),
    ("torch.fft.fft(torch.ones(2)).real.tolist()", [2.0, 0.0]),
    ("torch.special.erf(x * 0).tolist()", [[0.0, 0.0], [0.0, 0.0]]),
    ("torch.special.log_softmax(x[0] * 0, 0).shape", (2,)),
    ("torch.bincount(torch.tensor([1, 1])).tolist()", [0, 2]),
    ("F.cross_entropy(x * 0, torch.tensor([0, 1])).item() > 0.69", True),
    ("F.conv1d(torch.ones(1, 1, 3), torch.ones(1, 1, 2)).tolist()", [[[2.0, 2.0]]]),
    ("F.max_pool1d(torch.ones(1, 1, 4), 2).tolist()", [[[1.0, 1.0]]]),
    ("F.layer_norm(x, (2,)).shape", (2, 2)),
    ("F.embedding(torch.tensor([1]), x).tolist()", [[0.0, 1.0]]),
    ("F.pad(x, (1, 0)).tolist()", [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ("F.scaled_dot_product_attention(x, x, x).shape", (2, 2)),
    ("F.dropout(x, 0.0).tolist()", eye),
    ("torch.ops.aten.scatter_add(x, 0, torch.tensor([[0, 0]]), x).tolist()", [[2.0, 0.0], eye[1]]),
    ("[b.tolist() for b in DataLoader(torch.arange(4), batch_size=2)]", [[0, 1], [2, 3]]),
    ("loaded()", [[0.0, 1.0], [4.0, 9.0]]),
    ("torch.utils.data.random_split(range(4), [3, 1])[1].__len__()", 1),
    ("trained()", [[0.5, 0.0], [0.0, 0.5]]),
    ("torch.vmap(torch.linalg.det)(torch.eye(2).expand(3, 2, 2)).tolist()", [1.0, 1.0, 1.0]),
    ("torch.nn.utils.clip_grad_norm_([weight()], 1.0).item()", 2.0),
]


class Squares:
    def __len__(self):
        return 4

    def __getitem__(self, position):
        return torch.linalg.multi_dot([torch.full((1, 1), float(position))] * 2).trace()


def loaded():
    batches = DataLoader(Squares(), batch_size=2, num_workers=2, worker_kind="thread")
    return [batch.tolist() for batch in batches]


def weight():
    made = torch.zeros(2, 2, requires_grad=True)
    made.sum().backward()
    return made


def trained():
    w = torch.tensor(eye, requires_grad=True)
    (w * w).sum().mul(0.5).backward()
    torch.optim.Adagrad([w], lr=0.5).step()
    return w.detach().mul(2).round().div(2).tolist()


failures, start = [], threading.Barrier(8)


def work(seed):
    order = CASES[:]
    random.Random(seed).shuffle(order)
    x = torch.tensor(eye)
    start.wait()
    for text, expected in order:
        try:
            found = eval(text, globals(), {"x": x})
            if found != expected:
                failures.append(f"{text}: {found}")
        except BaseException as error:
            failures.append(f"{text}: {error!r}")


base = int(sys.argv[1]) * 8
threads = [threading.Thread(target=work, args=(base + i,)) for i in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
sys.exit("\\n".join(failures) or None)
"""


def first_uses(rounds: range) -> None:
    for number in rounds:
        run(FIRST_USES, str(number))


def test_threads_may_use_names_for_the_first_time_at_once():
    first_uses(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10, 210, 10))
def test_threads_may_use_names_for_the_first_time_at_once_many_times(first: int):
    first_uses(range(first, first + 10))
