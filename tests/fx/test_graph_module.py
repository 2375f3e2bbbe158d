"""GraphModule, Interpreter and ShapeProp."""

import copy
import inspect
import operator
import pickle
import traceback
import types

import pytest

import rushlight as torch
import rushlight.fx as fx
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.shape_prop import ShapeProp


class Root(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("b", torch.full((2,), 3.0))
        self.sub = torch.nn.Module()
        self.sub.lin = torch.nn.Linear(2, 2)
        self.unused = torch.nn.Linear(1, 1)


def build(name="GraphModule"):
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.add, (x, g.get_attr("w")))
    c = g.call_module("sub.lin", (a,))
    d = g.call_function(torch.ops.aten.add.Tensor, (c, g.get_attr("b")), name="add")
    g.output((g.call_function(torch.nn.functional.gelu, (d,)), [d]))
    return GraphModule(Root(), g, name)


def expected(gm, x):
    d = gm.sub.lin(x + gm.w) + gm.b
    return torch.nn.functional.gelu(d), [d]


def same(left, right):
    return torch.equal(left[0], right[0]) and torch.equal(left[1][0], right[1][0])


def test_runs_and_takes_what_it_needs():
    gm, x = build("<lambda>"), torch.ones(2)
    assert same(gm(x), expected(gm, x))
    names = [name for name, _ in gm.named_parameters()]
    assert names == ["w", "sub.lin.weight", "sub.lin.bias"]
    assert sorted(gm.state_dict()) == ["b", "sub.lin.bias", "sub.lin.weight", "w"]
    assert not hasattr(gm, "unused")
    assert str(gm).startswith("<lambda>(\n")
    assert str(gm).endswith("# To see more debug info, please use `graph_module.print_readable()`")
    assert type(build()) is not type(gm)


def test_code_can_be_changed():
    gm = build()
    gm.graph.output_node().args = (gm.graph.find_nodes(op="get_attr", target="b"),)
    gm.recompile()
    assert gm.code.rstrip().endswith("return [b]")
    assert torch.equal(gm(torch.ones(2))[0], gm.b)
    gm.graph.eliminate_dead_code()
    gm.delete_all_unused_submodules()
    assert [name for name, _ in gm.named_modules()] == [""]


@pytest.mark.parametrize(
    "make", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies(make):
    gm, x = build(), torch.ones(2)
    made = make(gm)
    assert made.code == gm.code and same(made(x), gm(x))
    assert made.graph.owning_module is made
    assert type(made) is not type(gm)


def test_deepcopy_is_independent():
    gm = build()
    gm.meta["k"] = [1]
    made = copy.deepcopy(gm)
    assert made.w is not gm.w and made.meta == {"k": [1]} and made.meta["k"] is not gm.meta["k"]
    made.graph.erase_node(made.graph.output_node())
    assert gm.graph.output_node().op == "output"


def test_root_may_be_a_dict():
    g = fx.Graph()
    g.output(g.create_node("get_attr", "a.b"))
    gm = GraphModule({"a.b": torch.ones(1)}, g)
    assert dict(gm.named_buffers()).keys() == {"a.b"}
    with pytest.raises(RuntimeError, match="Node a_b referenced target a.b but that target was"):
        GraphModule({}, g)


def test_private_names_run():
    from rushlight.autograd.grad_mode import write_grad

    g = fx.Graph()
    x = g.placeholder("x")
    g.call_function(write_grad, (False,))
    y = g.call_function(torch.ops.aten.mul.Tensor, (x, 2))
    g.call_function(write_grad, (True,))
    g.output(y)
    gm = GraphModule({}, g)
    assert "torch._C._set_grad_enabled(False)" in gm.code
    assert not gm(torch.ones(1, requires_grad=True)).requires_grad


def test_errors_show_generated_lines(capsys):
    gm = build()
    with pytest.raises(TypeError) as caught:
        gm("text")
    shown = "".join(traceback.format_exception(caught.value))
    assert "add = torch.add(x, w);  x = w = None" in shown
    assert "generated forward function:" in capsys.readouterr().err


def test_print_readable():
    gm = build("<lambda>")
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.meta["val"] = torch.ones(2, 3)
    inner = build()
    gm.add_submodule("inner", inner)
    first, second = gm.graph.find_nodes(op="call_function", target=torch.add), None
    first[0].stack_trace = '  File "a.py", line 3, in f\n    return g(x)\n'
    second = gm.print_readable(print_output=False).split("\n")
    assert second[:12] == [
        "class <lambda>(torch.nn.Module):",
        "    def forward(self, x):",
        "        # No stacktrace found for following nodes",
        "        w = self.w",
        "        ",
        "        # File: a.py:3 in f, code: return g(x)",
        '        add: "f32[2, 3]" = torch.add(x, w);  x = w = None',
        "        ",
        "        # No stacktrace found for following nodes",
        "        sub_lin = self.sub.lin(add);  add = None",
        "        b = self.b",
        '        add_1: "f32[2, 3]" = torch.ops.aten.add.Tensor(sub_lin, b);  sub_lin = b = None',
    ]
    assert "    class inner(torch.nn.Module):" in second


def test_interpreter():
    gm, x = build(), torch.ones(2)
    runner = fx.Interpreter(gm)
    assert same(runner.run(x), gm(x))
    assert [node.op for node in runner.env] == ["output"]
    inputs = [x]
    assert same(fx.Interpreter(gm).boxed_run(inputs), gm(x)) and inputs == []
    with pytest.raises(RuntimeError, match="expected 1 arguments for placeholders but received 0"):
        fx.Interpreter(gm).boxed_run([])
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(gm).run()
    with pytest.raises(Exception, match=r"While executing %add : \[num_users=1\]"):
        fx.Interpreter(gm).run("text")


def test_interpreter_can_be_changed():
    class Neg(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if target is operator.add:
                target = operator.sub
            return super().call_function(target, args, kwargs)

    gm = fx.symbolic_trace(lambda x, y: x + y)
    assert Neg(gm).run(5, 2) == 3
    x = next(iter(gm.graph.nodes))
    assert fx.Interpreter(gm).run(2, initial_env={x: 40}) == 42


def test_shape_prop():
    gm = fx.symbolic_trace(lambda x: x.relu().sum(0))
    ShapeProp(gm).propagate(torch.ones(2, 3))
    metas = [node.meta["tensor_meta"] for node in gm.graph.nodes]
    assert [tuple(meta.shape) for meta in metas] == [(2, 3), (2, 3), (3,), (3,)]
    assert metas[0].memory_format is torch.contiguous_format and metas[0].stride == (3, 1)
    assert 'relu: "f32[2, 3]" = x.relu()' in gm.print_readable(print_output=False)


def test_to_folder(tmp_path, monkeypatch):
    import importlib

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(2, 3)
            self.p = torch.nn.Parameter(torch.randn(3))
            self.register_buffer("b", torch.randn(3))
            self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3))

        def forward(self, x):
            return self.inner(self.lin(x) * self.p + self.b)

    module = torch.fx.symbolic_trace(Whole())
    module.to_folder(tmp_path / "written_package", "Whole")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module("written_package").Whole()
    x = torch.randn(4, 2)
    torch.testing.assert_close(loaded(x), module(x))
    assert (
        "self.add_module('lin', Linear(in_features=2, out_features=3, bias=True))"
        in (tmp_path / "written_package" / "module.py").read_text()
    )


def test_forward_is_compiled_on_first_use():
    gm = fx.symbolic_trace(lambda x: x + 1)
    assert not isinstance(vars(type(gm))["forward"], types.FunctionType)
    # What runs is the code as of the last recompile.
    node = next(n for n in gm.graph.nodes if n.op == "call_function")
    node.args = (node.args[0], 2)
    assert gm(torch.ones(1)).item() == 2 and "x + 1" in gm.code
    assert isinstance(vars(type(gm))["forward"], types.FunctionType)
    gm.recompile()
    assert gm(torch.ones(1)).item() == 3
    assert list(inspect.signature(gm.forward).parameters) == ["x"]


def test_names_that_are_no_identifiers_stay_names():
    root = torch.nn.Module()
    name = 'a"), print("b'
    root.register_buffer(name, torch.ones(2))
    graph = fx.Graph()
    graph.output(graph.get_attr(name))
    gm = fx.GraphModule(root, graph)
    assert 'getattr(self, "a\\"), print(\\"b")' in gm.code
    assert gm().equal(torch.ones(2))


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Selves(torch.nn.Module):
    """A submodule is called `self`, and another is called after it."""

    def __init__(self):
        super().__init__()
        self.self = Doubled()
        self.after = Doubled()

    def forward(self, x):
        return self.after(self.self(x))


def test_a_submodule_may_be_called_self():
    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Doubled)

    model = Selves()
    graph = Leaves().trace(model)
    assert [node.name for node in graph.nodes] == ["x", "self", "after", "output"]
    traced = GraphModule(model, graph)
    assert "self_1 = self.self(x)" in traced.code
    assert traced(torch.ones(2)).tolist() == [4, 4]
    tree = torch.export.unflatten(torch.export.export(model, (torch.ones(2),)))
    assert tree(torch.ones(2)).tolist() == [4, 4]
