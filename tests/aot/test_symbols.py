"""Graphs with symbolic sizes on disk: guards are data, and an entry is found where they hold."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.aot import api, cache, config
from rushlight.aot.api import aot_module_simplified
from rushlight.aot.cache import BypassAOTAutogradCache
from rushlight.aot.compilers import nop
from rushlight.aot.encoding import Damaged, Unencodable
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from rushlight.aot.symbols import Symbols
from rushlight.core.fake import FakeTensorMode
from rushlight.symbolic import expressions as ex
from rushlight.symbolic.numbers import sym_float, sym_ite, sym_max, sym_min, sym_not, sym_sqrt
from rushlight.symbolic.shapeenv import ShapeEnv
from tests.aot.caching import HIT, MISS, counts, entries
from tests.aot.test_subclasses import Pair, pair

pytestmark = pytest.mark.usefixtures("folder")


class Slices(torch.nn.Module):
    """Asks whether there are five rows."""

    def forward(self, x, y):
        y.mul_(2)
        return x.sin()[:5] * x.shape[0], x.view(-1), torch.cat([x, y])


class Views(torch.nn.Module):
    """Rows in pairs, aliases of an argument and of an intermediate."""

    def forward(self, x, y):
        t = (x * 3).view(x.shape[0] // 2, 2, -1)
        return t, t.view(-1), y.t(), x[1:], t.sum(1).expand(3, -1, -1)


class Layer(torch.nn.Module):
    """Parameters, a buffer that is written, a matrix product."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))
        with torch.no_grad():
            for p in self.layer.parameters():
                p.copy_(torch.linspace(-1, 1, p.numel()).view(p.shape))

    def forward(self, x, y):
        self.calls.add_(1)
        h = torch.nn.functional.relu(self.layer(x))
        return h.mean(0), h @ h.t(), (y / y.shape[0]).softmax(0)


class Broadcasts(torch.nn.Module):
    """Whether sizes are equal is asked."""

    def forward(self, x, y):
        return x.sum(1) * 2 + y.sum(1)[: x.shape[0]].sum(), torch.where(x > 0, x, -x).cumsum(0)


PROGRAMS = [Slices, Views, Layer, Broadcasts]
SIZES = [(2, 3), (4, 4), (4, 5), (5, 5), (6, 3), (6, 6), (8, 3), (8, 8), (10, 9), (12, 3), (7, 2)]


def examples(rows, others):
    x = torch.linspace(-1, 1, rows * 4).view(rows, 4)
    x[0, 0] = -0.0
    y = torch.linspace(1, -2, others * 4).view(others, 4)
    y[-1, 0] = -0.0
    return [x.requires_grad_(), y]


def symbolic(args, env=None, prepare=None):
    """Fakes of the arguments, whose sizes are symbols of one environment."""
    mode = FakeTensorMode(shape_env=env or ShapeEnv())
    fakes = [
        mode.from_tensor(value, source=f"args[{place}]") if isinstance(value, torch.Tensor) else
        mode.shape_env.create_symintnode(
            mode.shape_env.create_symbol(value, f"args[{place}]"), hint=value
        )
        for place, value in enumerate(args)
    ]  # fmt: skip
    if prepare is not None:
        prepare(fakes)
    return fakes, mode.shape_env


def bits(values):
    return [
        (tuple(v.shape), v.stride(), v.detach().contiguous()._array.tobytes())
        if isinstance(v, torch.Tensor)
        else v
        for v in values
    ]


def outcome(program, sizes, compiler=nop, **options):
    """What a program compiled for symbolic sizes gives for these sizes, and its guards."""
    net = program()
    args = examples(*sizes)
    fakes, env = symbolic(args)
    f = aot_module_simplified(fx.symbolic_trace(net), fakes, compiler, **options)
    results = f(*args)
    total = sum([value.abs().sum() for value in results if value.requires_grad])
    total.backward()
    gradients = [p.grad for p in net.parameters()]
    found = bits([*results, *args, args[0].grad, *gradients, *net.buffers()])
    return found, [str(guard) for guard in env.get_guards()]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "partition", [default_partition, min_cut_rematerialization_partition], ids=["all", "min-cut"]
)
def test_on_and_off_are_equal_for_all_sizes(program, partition):
    sizes = [pair for pair in SIZES if program is not Views or pair[0] % 2 == 0]
    hits = 0
    for pair_ in (*sizes, *reversed(sizes)):
        with config.patch(enable_autograd_cache=False):
            expected = outcome(program, pair_, partition_fn=partition)
        assert counts() == {}
        got = outcome(program, pair_, partition_fn=partition)
        found = counts()
        assert found in (MISS, HIT)
        hits += found == HIT
        # The guards of an entry are those of the sizes that it was made for.
        assert got[0] == expected[0]
        assert got[1] == expected[1] or found == HIT
    # The second time around nothing is traced, and not everything was the first time.
    assert len(sizes) < hits < 2 * len(sizes)


def test_an_entry_serves_other_sizes(monkeypatch, folder):
    outcome(Slices, (6, 3))
    assert counts() == MISS
    # Another number of rows under the guards; they are noted as tracing would have.
    monkeypatch.setattr(api, "trace_flat", lambda *args: pytest.fail("traced again"))
    _, guards = outcome(Slices, (9, 3))
    assert counts() == HIT
    assert guards == ["s0 >= 5"]
    monkeypatch.undo()
    # Fewer rows: a second entry under the same key, and both are found.
    _, guards = outcome(Slices, (2, 3))
    assert guards == ["s0 < 5"]
    assert counts() == MISS
    assert len(entries(folder)) == 2
    for rows in (2, 3, 7, 11):
        outcome(Slices, (rows, 5 if rows == 3 else 3))
        assert counts() == HIT


def test_graphs_are_as_traced():
    seen = []

    def show(graph, inputs):
        metas = [(n.name, str(n.meta.get("tensor_meta")), n.meta["val"]) for n in graph.graph.nodes
                 if "val" in n.meta]  # fmt: skip
        described = [(name, meta, str(value)) for name, meta, value in metas]
        seen.append((graph.code, graph.print_readable(print_output=False), described, str(inputs)))
        return graph

    for _ in range(2):
        outcome(Layer, (6, 3), show)
    assert counts() == {"miss": 1, "saved": 1, "hit": 1}
    assert len(seen) == 4
    assert seen[:2] == seen[2:]


def test_what_was_known_before_is_part_of_the_key():
    """An entry has no guard for what tracing needed not ask."""
    module = fx.symbolic_trace(Slices())

    def compile_for(rows, prepare):
        args = examples(rows, 3)
        fakes, env = symbolic(args, prepare=prepare)
        return aot_module_simplified(module, fakes, nop)(*args), env.get_guards()

    def ask(fakes):
        assert bool(fakes[0].shape[0] >= 5)

    compile_for(7, ask)
    assert counts() == MISS
    results, guards = compile_for(2, None)
    assert counts() == MISS
    assert results[0].shape == (2, 4)
    assert [str(guard) for guard in guards] == ["s0 < 5"]
    compile_for(9, ask)
    assert counts() == HIT
    # A range that was stated, and no guard.

    def state(fakes):
        fakes[0].fake_mode.shape_env.constrain_range(fakes[0].shape[0].node.expr, 5, 100)

    compile_for(9, state)
    assert counts() == MISS


def test_settings_of_the_environment_are_part_of_the_key():
    module = fx.symbolic_trace(Layer())
    for options in ({}, {"duck_shape": False}, {"specialize_zero_one": False}):
        fakes, _ = symbolic(examples(6, 3), ShapeEnv(**options))
        aot_module_simplified(module, fakes, nop)
        assert counts() == MISS


def test_overlap_is_decided_for_the_sizes_of_the_example():
    def build(x, y):
        x.mul_(2)
        return (x.sum() + y * 1,)

    module = fx.symbolic_trace(Wrapped(build))

    def run(rows):
        base = torch.arange(12.0)
        args = [base[:rows], base[6 : 6 + rows]]
        fakes, _ = symbolic(args)
        (result,) = aot_module_simplified(module, fakes, nop)(*args)
        return result.tolist(), base.tolist()

    for rows in (4, 4, 6):
        got = run(rows)
        with config.patch(enable_autograd_cache=False):
            assert run(rows) == got
    assert counts() == {"miss": 2, "saved": 2, "hit": 1}


class Wrapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def test_numbers_may_be_arguments():
    module = fx.symbolic_trace(Wrapped(lambda x, n: (x * n, x.new_zeros(n // 2 + 1), n * n)))
    for number, expected in ((4, MISS), (7, HIT), (9, HIT)):
        x = torch.arange(3.0)
        fakes, _ = symbolic([x, number])
        product, zeros, square = aot_module_simplified(module, fakes, nop)(x, number)
        assert counts() == expected
        assert product.tolist() == [0.0, number, 2.0 * number]
        assert (zeros.shape[0], square) == (number // 2 + 1, number * number)


def test_subclasses_with_symbolic_sizes():
    module = fx.symbolic_trace(Wrapped(lambda x, y: (x * 2 + y,)))
    for count, expected in ((3, MISS), (5, HIT)):
        numbers = [float(i) for i in range(count)]
        args = [pair(*numbers, needs=True), torch.ones(count)]
        fakes, _ = symbolic(args)
        (result,) = aot_module_simplified(module, fakes, nop)(*args)
        assert counts() == expected
        assert type(result) is Pair
        assert result.b.tolist() == [20 * n + 1 for n in numbers]


def test_sizes_that_depend_on_data_are_not_kept(folder):
    module = fx.symbolic_trace(Wrapped(lambda x, y: (x.nonzero(), y)))
    fakes, _ = symbolic(examples(3, 2))
    with pytest.raises(BypassAOTAutogradCache, match="depends on data"):
        aot_module_simplified(module, fakes, nop)
    assert counts() == {"miss": 1, "bypass": 1}
    fakes, env = symbolic(examples(3, 2))
    env.freeze()
    with pytest.raises(BypassAOTAutogradCache, match="notes no guards"):
        aot_module_simplified(module, fakes, nop)
    assert counts() == {"bypass": 1}
    assert entries(folder) == []


def test_a_key_has_so_many_entries(monkeypatch, folder):
    monkeypatch.setattr(cache, "ENTRIES_PER_KEY", 2)

    module = fx.symbolic_trace(Wrapped(lambda x, y: (x.unbind(0)[-1], y)))

    def count_for(rows):
        args = examples(rows, 3)
        fakes, _ = symbolic(args)
        result, _ = aot_module_simplified(module, fakes, nop)(*args)
        assert torch.equal(result, args[0][-1])
        return counts()

    assert [count_for(rows) for rows in (5, 6, 7, 8)] == [MISS] * 4
    assert len(entries(folder)) == 2
    # The last one gives way to another.
    assert [count_for(rows) for rows in (5, 8, 6, 6, 8)] == [HIT, HIT, MISS, HIT, MISS]


# -- any program ---------------------------------------------------------------------------------


STEPS = [
    lambda draw, a: a.sin(),
    lambda draw, a: -a,
    lambda draw, a: a.reshape(-1),
    lambda draw, a: a.sum(0, keepdim=True),
    lambda draw, a: a.sum(-1, keepdim=True),
    lambda draw, a: a[: draw.randint(1, 7)],
    lambda draw, a: a[1:],
    lambda draw, a: a[: a.shape[0] // 2 + 1],
    lambda draw, a: a * a.shape[0],
    lambda draw, a: a.unsqueeze(0),
    lambda draw, a: a.flatten().unsqueeze(1).t(),
    lambda draw, a: a.softmax(-1),
    lambda draw, a: a.flip(0).cumsum(0),
    lambda draw, a: a.clone().mul_(3),
]
JOINTS = [
    lambda a, b: torch.cat([a.reshape(-1), b.reshape(-1)]),
    lambda a, b: a + b.sum(),
    lambda a, b: a.reshape(-1, 1) * b.reshape(1, -1)[:, :3],
]


def random_program(number):
    """A module of some steps, with views, writes to an argument, and several results."""

    def run(x, y):
        draw = random.Random(number)
        values = [x, y]
        for _ in range(draw.randint(2, 6)):
            choice = draw.random()
            if choice < 0.25:
                values.append(draw.choice(JOINTS)(draw.choice(values), draw.choice(values)))
            elif choice < 0.4:
                y.add_(1)
            else:
                values.append(draw.choice(STEPS)(draw, draw.choice(values)))
        return (*values[2:][-3:], x * 1)

    return Wrapped(run)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_are_equal_with_the_cache_and_without(part):
    def values(number, sizes):
        try:
            return outcome(lambda: random_program(number), sizes)[0]
        except RuntimeError as problem:
            # What a gradient needs was written.
            return str(problem)

    seen = Counter()
    for number in range(part * 6, part * 6 + 6):
        for sizes in ((6, 3), (9, 5), (2, 2), (12, 12), (11, 4)):
            with config.patch(enable_autograd_cache=False):
                expected = values(number, sizes)
            assert values(number, sizes) == expected
            seen.update(counts())
    assert seen["hit"] > 6
    assert set(seen) == {"hit", "miss", "saved"}


# -- expressions -----------------------------------------------------------------------------------


def numbers(env):
    sizes = [
        env.create_symintnode(env.create_symbol(value, f"n{place}"), hint=value)
        for place, value in enumerate((6, 4, 9))
    ]
    a, b, c = sizes
    yield from (a, b + c, a * b - 3, a // b, (a + 1) % c, a**3, -a, abs(b - c))
    yield from (sym_max(a, b), sym_min(a + 2, c), sym_float(a) / 3, a / b, sym_sqrt(sym_float(c)))
    yield from (sym_float(a) * 0.1, (a // 2) * b, 2**a, sym_ite(a > b, c, b + 1))
    yield from (a > b, a * 2 <= c, sym_not(a >= c), (a > 2) & (b > 7), (a > 2) | (b != c))


def test_expressions_come_back_with_their_values():
    env, other = ShapeEnv(), ShapeEnv()
    made, again = list(numbers(env)), list(numbers(other))
    writer, reader = Symbols(env), Symbols(other)
    data = [writer.number(value) for value in made]
    for value in again:
        reader.number(value)
    for value, written, same in zip(made, data, again, strict=True):
        read = reader.read_number(json.loads(json.dumps(written)))
        assert type(read) is type(value)
        assert read.node.expr == same.node.expr
        assert read.node.hint == value.node.hint
        assert Symbols.number(reader, read) == written


@pytest.mark.parametrize(
    "data",
    [
        "s0",
        None,
        [],
        ["eval", 1],
        ["__class__"],
        {"symbol": 7},
        {"symbol": -1},
        {"symbol": "s0"},
        {"float": "nonsense", "symbol": 0},
        ["Pow", 10, 10**9],
        ["Add", ["Mul", {"symbol": 0}, "x"]],
    ],
)
def test_what_is_no_expression_is_refused(data):
    env = ShapeEnv()
    symbols = Symbols(env)
    symbols.number(next(numbers(env)))
    with pytest.raises(Damaged):
        symbols.read(data)


def test_numbers_of_others_are_refused():
    env, other = ShapeEnv(), ShapeEnv()
    first, second, *_ = itertools.chain(itertools.islice(numbers(env), 2))
    symbols = Symbols(other)
    with pytest.raises(Unencodable, match="another environment"):
        symbols.number(first)
    symbols = Symbols(env)
    symbols.number(first)
    symbols.known()
    with pytest.raises(Unencodable, match="no argument has"):
        symbols.number(second)
    with pytest.raises(Unencodable, match="depends on data"):
        symbols.number(env.create_unbacked_symint())
    assert ex.plain(symbols.read(symbols.expression(ex.Integer(3)))) == 3


# -- other processes -------------------------------------------------------------------------------

OTHER_PROCESS = """
    import sys
    import rushlight as torch
    from rushlight import fx
    from rushlight.aot import api, config
    from rushlight.aot.compilers import nop
    from rushlight.base.counters import counters
    from rushlight.core.fake import FakeTensorMode
    from rushlight.symbolic.shapeenv import ShapeEnv

    net = torch.nn.Linear(3, 4)
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net
        def forward(self, x):
            y = self.net(x)[:5]
            return y, y.view(-1)
    for rows in map(int, sys.argv[1:]):
        counters["aot_autograd"].clear()
        mode = FakeTensorMode(shape_env=ShapeEnv())
        x = torch.linspace(0, 1, 3 * rows).view(rows, 3)
        with config.patch(enable_autograd_cache=True, strict_autograd_cache=True):
            f = api.aot_module_simplified(fx.symbolic_trace(Net()), [mode.from_tensor(x)], nop)
        found, view = f(x)
        assert torch.equal(found, net(x)[:5])
        net.zero_grad()
        found.sum().backward()
        assert net.bias.grad.tolist() == [min(rows, 5)] * 4
        guards = mode.shape_env.get_guards()
        event = [name.removeprefix("autograd_cache_") for name in counters["aot_autograd"]]
        print(rows, event[0], guards[-1])
"""


def test_another_process_finds_entries_whose_guards_hold(tmp_path, folder):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(OTHER_PROCESS))
    root = str(Path(torch.__file__).parents[1])
    variables = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(folder), "PYTHONPATH": root}
    said = []
    for rows in (["7"], ["9", "2", "11", "4"]):
        run = subprocess.run(
            [sys.executable, str(script), *rows],
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.stderr == ""
        said += run.stdout.splitlines()
    assert said == [
        "7 miss s0 >= 5",
        "9 hit s0 >= 5",
        "2 miss s0 < 5",
        "11 hit s0 >= 5",
        "4 hit s0 < 5",
    ]
