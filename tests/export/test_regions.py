"""Blocks of grad mode and of autocast inside programs."""

import copy
import io

import pytest

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.export import export, export_for_training

X = torch.arange(9.0).reshape(3, 3) / 7


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3, 3))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x).relu()
            self.seen.add_((x @ x).float())
        return y.float() + 1, y


class Nested(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ x
            b = a.sin()
            with torch.autocast("cpu", enabled=False):
                c = x @ b.float()
            d = c @ x
        with torch.no_grad(), torch.autocast("cpu"):
            e = d @ x.bfloat16()
        return a, d, e


class Written(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, 3))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.seen.copy_(x @ x)
        return x + 1


class Branches(torch.nn.Module):
    def forward(self, x):
        def casts(x):
            with torch.autocast("cpu"):
                return (x @ x).float()

        with torch.autocast("cpu", dtype=torch.float16):
            y = torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: (x + 1) @ x, (x,))
        return torch.cond(x.sum() > 0, casts, lambda x: x + 1, (x,)), y


class Interleaved(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad(), torch.autocast("cpu", cache_enabled=False):
            a = self.fc(x)
            with torch.enable_grad():
                b = self.fc(x)
                with torch.autocast("cpu", enabled=False):
                    c = self.fc(x)
            d = self.fc(x)
        return a, b, c, d


@pytest.mark.parametrize("make", [export, export_for_training])
@pytest.mark.parametrize("cls", [Linear, Nested, Written, Branches, Interleaved])
def test_blocks_of_autocast_become_regions(cls, make):
    module = cls()
    program = make(module, (X,))
    assert "wrap_with_autocast" in program.graph_module.print_readable(False)
    want = copy.deepcopy(module)(X)
    core = program.run_decompositions()
    assert "autocast" not in core.graph_module.print_readable(False)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    runs = [program, torch.export.load(file), torch.export.export(program.module(), (X,))]
    for made in [torch.export.unflatten(program), *[run.module() for run in runs]]:
        found = made(X)
        torch.testing.assert_close(found, want)
        as_tuple = found if isinstance(found, tuple) else (found,)
        expected = want if isinstance(want, tuple) else (want,)
        assert [t.requires_grad for t in as_tuple] == [t.requires_grad for t in expected]
    torch.testing.assert_close(core.module()(X), want)


def test_the_text_of_regions_is_torchs():
    code = export(Nested(), (X,)).graph_module.print_readable(False)
    called = "torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16"
    assert f"wrap_with_autocast = {called}, True, False, " in code
    assert f"{called}, False, False, submod_3, sin, x)" in code
    assert 'matmul_2: "bf16[3, 3]" = wrap_with_autocast[0]' in code
    assert 'matmul: "bf16[3, 3]" = wrap_with_autocast[1]' in code
    assert 'matmul: "bf16[3, 3]" = torch.ops.aten.matmul.default(x, x)' in code


def test_a_program_keeps_the_casts_of_the_autocast_it_was_exported_under():
    class Products(torch.nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                y = x @ x
            return x @ x, y

    module = Products()
    with torch.autocast("cpu"):
        program = export(module, (X,))
        want = module(X)
    found = program.module()(X)
    assert [t.dtype for t in found] == [torch.bfloat16, torch.float32]
    torch.testing.assert_close(found, want)


def test_a_block_that_raises_is_closed():
    class Caught(torch.nn.Module):
        def forward(self, x):
            try:
                with torch.autocast("cpu"):
                    y = x @ x
                    raise KeyError
            except KeyError:
                return y, x @ x

    found = export(Caught(), (X,)).module()(X)
    assert [t.dtype for t in found] == [torch.bfloat16, torch.float32]


def test_graphs_above_autograd_have_the_switches():
    def forward(x):
        with torch.autocast("cpu"):
            y = x @ x
            with torch.autocast("cpu", enabled=False):
                return y, x @ x

    graph = make_fx(forward, pre_dispatch=True)(X)
    assert [line.strip().partition(";")[0] for line in graph.code.strip().splitlines()[1:-1]] == [
        "_enter_autocast = torch.amp.autocast_mode._enter_autocast("
        "'cpu', torch.bfloat16, True, False)",
        "matmul = torch.ops.aten.matmul.default(x_1, x_1)",
        "_enter_autocast_1 = torch.amp.autocast_mode._enter_autocast("
        "'cpu', torch.bfloat16, False, False)",
        "matmul_1 = torch.ops.aten.matmul.default(x_1, x_1)",
        "_exit_autocast = torch.amp.autocast_mode._exit_autocast(_enter_autocast_1)",
        "_exit_autocast_1 = torch.amp.autocast_mode._exit_autocast(_enter_autocast)",
    ]
    found = graph(X)
    assert [t.dtype for t in found] == [torch.bfloat16, torch.float32]
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("cls", [Linear, Nested, Written, Branches, Interleaved])
def test_tables_that_keep_composites_write_out_the_casts(cls):
    module = cls()
    program = export(module, (X,))
    table = torch.export.default_decompositions()
    del table[torch.ops.aten.linear.default], table[torch.ops.aten.matmul.default]
    core = program.run_decompositions(table)
    text = core.graph_module.print_readable(False)
    assert "autocast" not in text and "set_grad" not in text
    assert ("aten.linear" in text) == hasattr(module, "fc")
    torch.testing.assert_close(core.module()(X), copy.deepcopy(module)(X))


def test_constants_in_regions_are_inputs_of_the_program(tmp_path):
    class Literals(torch.nn.Module):
        def forward(self, x, y):
            with torch.no_grad():
                z = torch.tensor(4) + x + y
            with torch.autocast("cpu", dtype=torch.bfloat16):
                w = torch.tensor([1.0, 2.0]) + (x[None].T @ y[None])[:2, :2]
            return z * z + torch.tensor(5), w

    module, args = Literals(), (torch.randn(4), torch.randn(4))
    program = export(module, args)
    assert list(program.constants) == [f"lifted_tensor_{number}" for number in range(3)]
    assert [value.dim() for value in program.constants.values()] == [0, 1, 0]
    torch.export.save(program, tmp_path / "program.pt2")
    for each in (
        program,
        torch.export.load(tmp_path / "program.pt2"),
        program.run_decompositions(),
    ):
        for found, expected in zip(each.module()(*args), module(*args), strict=True):
            assert torch.equal(found, expected)
