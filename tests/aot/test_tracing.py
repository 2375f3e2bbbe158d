"""make_fx: what is recorded, how it is named, and that it runs."""

import pytest

import rushlight as torch
from rushlight.aot.tracing import is_sym_node, make_fx
from rushlight.core.fake import FakeTensor
from rushlight.core.recording import Recorder
from rushlight.graph.graph import Graph
from rushlight.symbolic import GuardOnDataDependentSymNode


def text(module):
    return module.code.strip()


def test_functions_print_as_python_and_run_on_new_data():
    graph = make_fx(lambda x: x.sin() * 2)(torch.ones(3))
    assert text(graph) == (
        "def forward(self, x_1):\n"
        "    sin = torch.ops.aten.sin.default(x_1);  x_1 = None\n"
        "    mul = torch.ops.aten.mul.Tensor(sin, 2);  sin = None\n"
        "    return mul"
    )
    new = torch.arange(5.0)
    assert torch.equal(graph(new), new.sin() * 2)


def test_nested_inputs_and_outputs_keep_their_structure():
    def f(x, d):
        return {"sum": x + d["w"], "kept": 3}

    graph = make_fx(f)(torch.ones(2), {"w": torch.ones(2), "v": torch.ones(1)})
    assert "x_1, d_1, d_2, = fx_pytree.tree_flatten_spec([x, d], self._in_spec)" in graph.code
    result = graph(torch.ones(2), {"w": torch.full((2,), 4.0), "v": torch.ones(1)})
    assert result["sum"].tolist() == [5.0, 5.0]
    assert result["kept"] == 3


def test_parameters_without_names_are_numbered():
    graph = make_fx(lambda *args: args[0] + args[1])(torch.ones(2), torch.ones(2))
    assert [n.name for n in graph.graph.nodes if n.op == "placeholder"] == ["arg0_1", "arg1_1"]


def test_gradient_formulas_are_recorded():
    def f(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(x.sin().sum(), x)[0]

    names = [node.name for node in make_fx(f)(torch.ones(3)).graph.nodes]
    assert names[-5:] == ["ones_like", "expand", "cos", "mul", "output"]


def test_tensors_from_outside_become_attributes():
    weight = torch.nn.Parameter(torch.ones(2))
    other = torch.full((2,), 2.0)
    graph = make_fx(lambda x: x * weight + other * other)(torch.ones(2))
    assert graph._param_constant0 is weight
    assert graph._tensor_constant0.tolist() == [2.0, 2.0]
    assert graph(torch.ones(2)).tolist() == [5.0, 5.0]


def test_constants_come_out_fresh_each_time():
    def f(x):
        counter = torch.tensor(0.0)
        counter.add_(1)
        return x + counter

    graph = make_fx(f)(torch.ones(1))
    assert graph(torch.ones(1)).item() == 2
    assert graph(torch.ones(1)).item() == 2


def test_writes_stay_in_place():
    def f(x):
        y = x.clone()
        y[0] = 5
        return y

    graph = make_fx(f)(torch.zeros(2))
    assert "copy_" in graph.code or "fill_" in graph.code
    assert graph(torch.ones(2)).tolist() == [5.0, 1.0]


def test_decompositions_replace_ops():
    aten = torch.ops.aten
    table = {aten.silu.default: lambda x: x * x.sigmoid()}
    graph = make_fx(torch.nn.functional.silu, table)(torch.ones(2))
    targets = [n.target for n in graph.graph.nodes if n.op == "call_function"]
    assert targets == [aten.sigmoid.default, aten.mul.Tensor]


def test_several_results_are_taken_apart():
    graph = make_fx(lambda x: torch.max(x, 0))(torch.ones(2, 2))
    names = [node.name for node in graph.graph.nodes]
    assert names == ["x_1", "max_1", "getitem", "getitem_1", "output"]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_nodes_carry_geometry(mode):
    graph = make_fx(lambda x: x.t() @ x, tracing_mode=mode)(torch.ones(3, 2))
    node = next(n for n in graph.graph.nodes if n.name == "mm")
    assert isinstance(node.meta["val"], FakeTensor)
    assert tuple(map(int, node.meta["val"].shape)) == (2, 2)
    assert tuple(map(int, node.meta["tensor_meta"].stride)) == (2, 1)
    assert torch.equal(graph(torch.ones(3, 2)), torch.full((2, 2), 3.0))


def test_values_cannot_be_read():
    def f(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(f)(torch.ones(2))
    with pytest.raises(GuardOnDataDependentSymNode):
        make_fx(f, tracing_mode="symbolic")(torch.ones(2))


def test_sizes_become_nodes_only_where_they_are_used():
    graph = make_fx(lambda x: x * 2, tracing_mode="symbolic")(torch.ones(3, 4))
    assert not any(is_sym_node(node) for node in graph.graph.nodes)
    graph = make_fx(lambda x: x.new_zeros(x.shape[0] * 2, 3), tracing_mode="symbolic")(
        torch.ones(4, 5)
    )
    assert "sym_size_int = torch.ops.aten.sym_size.int(x_1, 0)" in graph.code
    assert graph(torch.ones(7, 5)).shape == (14, 3)


def test_data_dependent_sizes_are_symbols():
    graph = make_fx(lambda x: x.nonzero() + 1, tracing_mode="symbolic")(torch.ones(3))
    assert graph(torch.tensor([0.0, 1.0, 0.0, 2.0])).tolist() == [[2], [4]]


def test_real_tensors_in_fake_traces_need_leave():
    weight = torch.ones(3)
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors"):
        make_fx(lambda x: x + weight, tracing_mode="fake")(torch.ones(3))
    graph = make_fx(lambda x: x + weight, tracing_mode="fake", _allow_non_fake_inputs=True)(
        torch.ones(3)
    )
    assert graph._tensor_constant0 is weight


def test_unknown_modes_are_refused():
    with pytest.raises(AssertionError, match="tracing_mode"):
        make_fx(lambda x: x, tracing_mode="dreamt")


def test_vmap_leaves_ordinary_ops():
    graph = make_fx(torch.vmap(torch.sin))(torch.ones(3))
    targets = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert targets == ["aten.sin.default"]


def test_tracing_leaves_no_state_behind():
    from rushlight.core.state import LOCAL, PROCESS

    before = PROCESS.special
    with pytest.raises(ZeroDivisionError):
        make_fx(lambda x: x / (1 / 0), tracing_mode="fake")(torch.ones(1))
    assert PROCESS.special == before
    assert (LOCAL.state.proxy, LOCAL.state.fake) == (None, None)


def test_sizes_are_results_of_the_graph():
    def shapes(a, b):
        return torch.broadcast_shapes(a.shape, b.shape), a.shape

    graph = make_fx(lambda a, b: torch.broadcast_shapes(a.shape, b.shape), tracing_mode="symbolic")(
        torch.ones(3, 1), torch.ones(1, 4)
    )
    assert graph(torch.ones(5, 1), torch.ones(1, 6)) == (5, 6)
    graph = make_fx(shapes, tracing_mode="symbolic")(torch.ones(3, 1), torch.ones(1, 4))
    assert graph(torch.ones(5, 1), torch.ones(1, 6)) == ((5, 6), (5, 1))


def test_constants_are_found_without_a_search():
    constants = [torch.full((1,), float(n)) for n in range(300)]
    looked = 0

    class Watched(dict):
        def items(self):
            nonlocal looked
            looked += 1
            return super().items()

        def __iter__(self):
            nonlocal looked
            looked += 1
            return super().__iter__()

    recorder = Recorder(Graph())
    recorder.attributes = Watched()
    for constant in (*constants, *constants):
        recorder.constant(constant)
    assert looked == 0
    assert len(recorder.attributes) == 300
    assert recorder.attributes["_tensor_constant299"] is constants[-1]


def test_output_nodes_say_nothing_of_a_value():
    graph = make_fx(lambda x: (x + 1, x))(torch.ones(2)).graph
    assert "val" not in graph.output_node().meta
    assert all(node.meta["val"].shape == (2,) for node in graph.nodes if "val" in node.meta)


def test_the_active_recorder_and_how_to_do_without():
    from rushlight.aot.proxy import (
        ProxyTorchDispatchMode,
        disable_proxy_modes_tracing,
        get_proxy_mode,
        maybe_disable_fake_tensor_mode,
    )

    def f(x):
        assert isinstance(get_proxy_mode(), ProxyTorchDispatchMode)
        with disable_proxy_modes_tracing(), maybe_disable_fake_tensor_mode():
            assert get_proxy_mode() is None
            number = torch.ones(3).sum().item()
        return x + number

    assert get_proxy_mode() is None
    graph = make_fx(f, tracing_mode="fake")(torch.ones(2))
    assert "add = torch.ops.aten.add.Tensor(x_1, 3.0)" in graph.code


# -- numbers are recorded as they are computed -----------------------------------------------------


def symbolic_text(function, *inputs):
    lines = make_fx(function, tracing_mode="symbolic")(*inputs).code.strip().split("\n")[1:-1]
    return [line.split(";")[0].strip().replace("torch.ops.aten.", "") for line in lines]


def test_size_arithmetic_prints_as_executed():
    x = torch.ones(7, 5)
    assert symbolic_text(lambda x: x.new_zeros(x.shape[0] * 2, 1 + x.shape[1]), x)[:4] == [
        "sym_size_int = sym_size.int(x_1, 0)",
        "mul = sym_size_int * 2",
        "sym_size_int_1 = sym_size.int(x_1, 1)",
        "add = 1 + sym_size_int_1",
    ]
    assert symbolic_text(lambda x: x.new_zeros(-x.shape[0] + 20, 3), x)[1:3] == [
        "neg = -sym_size_int",
        "add = neg + 20",
    ]
    assert symbolic_text(lambda x: x.sum() * (x.shape[0] * 3 - 1), x)[2:4] == [
        "mul = sym_size_int * 3",
        "sub = mul - 1",
    ]
    assert symbolic_text(lambda x: x.new_zeros(x.shape[1] // 2, x.shape[1] % 3 + 1), x)[1:4] == [
        "floordiv = sym_size_int // 2",
        "mod = sym_size_int % 3",
        "add = mod + 1",
    ]


def test_each_computation_is_a_node():
    def f(x):
        return x.new_zeros(x.shape[0] * 2), x.new_ones(x.shape[0] * 2)

    found = symbolic_text(f, torch.ones(7, 5))
    assert [line for line in found if "*" in line] == [
        "mul = sym_size_int * 2",
        "mul_1 = sym_size_int * 2",
    ]


def test_equal_sizes_of_an_input_are_nodes_of_their_own():
    found = symbolic_text(lambda x: x.new_zeros(x.shape[1], x.shape[0]), torch.ones(10, 10))
    assert found[:2] == [
        "sym_size_int = sym_size.int(x_1, 1)",
        "sym_size_int_1 = sym_size.int(x_1, 0)",
    ]


def test_numbers_that_shape_rules_compute_are_rebuilt():
    def f(x):
        joined = torch.cat([x, x])
        return joined.new_zeros(joined.shape[0])

    graph = make_fx(f, tracing_mode="symbolic")(torch.ones(7, 5))
    assert graph(torch.ones(4, 5)).shape == (8,)


def test_computed_numbers_have_the_trace_of_where_they_were_computed():
    from rushlight.fx import traceback

    def f(x):
        with traceback.preserve_node_meta():
            traceback.set_stack_trace(["here"])
            doubled = x.shape[0] * 2
            traceback.set_stack_trace(["there"])
            return x.new_zeros(doubled)

    graph = make_fx(f, tracing_mode="symbolic")(torch.ones(7))
    traces = {node.name: node.meta.get("stack_trace") for node in graph.graph.nodes}
    assert traces["mul"] == "here" and traces["new_zeros"] == "there"


# -- constants that are written --------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize(
    ("make", "count"),
    [
        # How many nodes PyTorch 2.13 has, without those of its profiler; the detach of the
        # first momentum is seen twice, as up to 2.5.
        (lambda p: torch.optim.SGD([p], lr=0.1), 5),
        (lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9), 10),
        (lambda p: torch.optim.Adam([p]), 23),
        (lambda p: torch.optim.AdamW([p]), 25),
    ],
)
def test_steps_of_optimisers_are_traced(make, count, mode):
    def f(p, g):
        p.grad = g
        optimizer = make(p)
        optimizer.step()
        optimizer.step()
        return p

    graph = make_fx(f, tracing_mode=mode)(torch.ones(3), torch.ones(3))
    assert len(graph.graph.nodes) == count
    expected = f(torch.ones(3), torch.full((3,), 2.0))
    for _ in range(2):  # what a run writes does not reach the constants
        assert torch.equal(graph(torch.ones(3), torch.full((3,), 2.0)), expected)


def test_numbers_of_written_constants_are_known():
    def f(x):
        count = torch.tensor(1.0)
        count += 2
        view = count[None]
        view.mul_(2)
        return x * count.item()

    for mode in ("real", "fake", "symbolic"):
        assert torch.equal(
            make_fx(f, tracing_mode=mode)(torch.ones(2))(torch.ones(2)), f(torch.ones(2))
        )


def test_numbers_of_constants_written_with_inputs_are_not_known():
    def f(x):
        total = torch.tensor(1.0)
        total += x.sum()
        return x * total.item()

    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(f)(torch.ones(2))
    graph = make_fx(f, tracing_mode="symbolic")(torch.ones(2))
    assert torch.equal(graph(torch.ones(3)), torch.full((3,), 4.0))


def halves_where(x, mask):
    x[mask, 0] = x[mask, 0] / 2
    x[mask] = x[mask] - 1
    return x


MASK = torch.tensor([True, False, True])


@pytest.mark.parametrize(
    "f, inputs",
    [
        (lambda x: torch.arange(0, x), [torch.tensor(4)]),
        (lambda x: torch.zeros([x, 2]), [torch.tensor(4)]),
        (lambda x: torch.full((2,), x), [torch.tensor(1.5)]),
        (lambda x: x.new_full((2,), x[0]), [torch.ones(3)]),
        (lambda: torch.full((2,), torch.tensor(3.0)), []),
        (lambda x: x.new_zeros([2, *torch.tensor([3, 4])]), [torch.ones(1)]),
        (lambda x: torch.tensor(3.0) / x.shape[0], [torch.ones(4)]),
        (lambda x: x * (torch.tensor(3.0) / x.shape[0]).item(), [torch.ones(4)]),
        (lambda x: x[[0, x.shape[0] - 1]], [torch.arange(4.0)]),
        (halves_where, [torch.arange(6.0).reshape(3, 2), MASK]),
    ],
)
def test_numbers_that_tensors_tell_are_arguments(f, inputs):
    copies = [value.clone() for value in inputs]
    graph = make_fx(f, tracing_mode="symbolic")(*copies)
    expected = f(*[value.clone() for value in inputs])
    assert torch.equal(graph(*[value.clone() for value in inputs]), expected)


def test_parts_of_constants_are_constants():
    def f():
        (first,) = torch.tensor([2]).unbind()
        return first.item()

    for mode in ("fake", "symbolic"):
        assert make_fx(f, tracing_mode=mode)()() == 2


MOVES = {
    "transpose_": lambda x: x.transpose_(1, 0),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "resize_": lambda x: x.resize_(4),
    "twice": lambda x: x.t_().unsqueeze_(2),
    "out": lambda x: torch.sin(torch.ones(5), out=x.resize_(0)),
}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", MOVES)
def test_sizes_are_those_from_before_a_tensor_moved(name, mode):
    def f(x):
        before = x.size(0)
        MOVES[name](x)
        return x.new_zeros(before, *x.shape)

    graph = make_fx(f, tracing_mode=mode)(torch.ones(2, 3))
    for sizes in [(2, 3), (5, 4)] if mode == "symbolic" and name != "resize_" else [(2, 3)]:
        assert graph(torch.ones(sizes)).shape == f(torch.ones(sizes)).shape


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_writes_to_data_are_recorded(mode, pre_dispatch):
    def f(x):
        made = x * 2
        made.data.mul_(3)
        x.data.add_(1)
        return made, made.data

    graph = make_fx(f, tracing_mode=mode, pre_dispatch=pre_dispatch)(torch.ones(2))
    assert not [n for n in graph.graph.nodes if n.op == "get_attr"]
    x = torch.tensor([1.0, 5.0])
    made, data = graph(x)
    assert made.tolist() == data.tolist() == [6, 30]
    assert x.tolist() == [2, 6]
