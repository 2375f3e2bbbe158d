"""aot_function and its kin: the compiled function is the eager one, seen from outside."""

from collections import Counter

import pytest

import rushlight as torch
from rushlight.aot import config
from rushlight.aot.api import (
    aot_function,
    aot_module,
    aot_module_simplified,
    get_aot_compilation_context,
)
from rushlight.aot.compilers import (
    make_boxed_compiler,
    make_boxed_func,
    memory_efficient_fusion,
    nnc_jit,
    nop,
)
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition

F = torch.nn.functional


class Seen:
    """A compiler that keeps the graphs it is given."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph

    def text(self, place=0):
        return self.graphs[place].code.strip()

    def counts(self, place):
        graph = self.graphs[place].graph
        inputs = sum(node.op == "placeholder" for node in graph.nodes)
        return inputs, len(graph.output_node().args[0])


def gradients(f, *inputs):
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    out = f(*leaves)
    total = sum(o.sum() for o in (out if isinstance(out, (tuple, list)) else [out]))
    total.backward()
    return out, [x.grad for x in leaves if x.is_floating_point()]


# -- training and inference ------------------------------------------------------------------------


def test_forward_and_backward_graphs():
    seen = Seen()
    x, w, b = torch.ones(5, 3), torch.ones(4, 3), torch.ones(4)
    f = aot_function(lambda x, w, b: F.linear(x, w, b), seen)
    out, grads = gradients(f, x, w, b)
    expected, wanted = gradients(F.linear, x, w, b)
    assert torch.equal(out, expected)
    assert all(torch.equal(a, b) for a, b in zip(grads, wanted))
    assert "CompiledFunctionBackward" in type(out.grad_fn).__name__
    assert seen.text() == (
        "def forward(self, primals_1, primals_2, primals_3):\n"
        "    t = torch.ops.aten.t.default(primals_2);  primals_2 = None\n"
        "    addmm = torch.ops.aten.addmm.default(primals_3, primals_1, t);  primals_3 = None\n"
        "    return [addmm, primals_1, t]"
    )


def test_without_gradients_there_is_one_graph():
    seen, training = Seen(), Seen()
    f = aot_function(lambda x: x.sin(), training, inference_compiler=seen)
    assert torch.equal(f(torch.ones(2)), torch.ones(2).sin())
    assert seen.text().startswith("def forward(self, arg0_1):")
    assert seen.text().endswith("return (sin,)")
    assert training.graphs == []


def test_backward_compiles_when_it_is_first_needed():
    forward, backward = Seen(), Seen()
    f = aot_function(lambda x: x.sin(), forward, backward)
    out = f(torch.ones(2, requires_grad=True))
    assert (len(forward.graphs), len(backward.graphs)) == (1, 0)
    out.sum().backward()
    assert len(backward.graphs) == 1


def test_structure_of_arguments_and_results():
    def f(a, d, scale=1):
        return {"sum": a[0] + d["x"] * scale, "same": d["x"], "number": 7}

    x, y = torch.ones(2), torch.full((2,), 3.0)
    result = aot_function(f, nop)([x], {"x": y}, scale=2)
    assert result["sum"].tolist() == [7.0, 7.0]
    assert result["same"] is y
    assert result["number"] == 7


def test_numbers_are_baked_in():
    f = aot_function(lambda x, n: x * n, nop)
    assert f(torch.ones(1), 3).item() == 3
    assert f(torch.ones(1), 4).item() == 3


def test_double_backward_is_refused():
    x = torch.ones(2, requires_grad=True)
    out = aot_function(lambda x: x.sin(), nop)(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        g.sum().backward()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 0.7, 1.0])
def test_random_numbers_are_those_of_an_eager_run(p):
    found = []
    f = lambda x: F.dropout(x, p)  # noqa: E731
    for run in (f, aot_function(f, nop)):
        x = torch.linspace(-2, 2, 20).requires_grad_()
        torch.manual_seed(5)
        result = run(x)
        result.sum().backward()
        found.append((result.tolist(), result.signbit().tolist(), x.grad.tolist()))
    assert found[0] == found[1] or p == 1
    assert (found[0][0], found[0][2]) == (found[1][0], found[1][2])


def test_dropout_in_a_graph_is_never_its_operand():
    # torch: an eager dropout that drops nothing gives back its operand.
    def f(x, train):
        y = F.dropout(x, 0.0 if train else 0.5, train)
        y.add_(1)
        return y

    for train in (False, True):
        seen, x = Seen(), torch.ones(2)
        assert aot_function(lambda x, t=train: f(x, t), seen)(x).tolist() == [2.0, 2.0]
        assert x.tolist() == [1.0, 1.0]
        assert "clone = torch.ops.aten.clone.default(arg0_1)" in seen.text(0)
    seen = Seen()
    aot_function(lambda x: F.dropout(x, 0.5), seen)(torch.ones(2))
    assert "native_dropout.default(arg0_1, 0.5, True)" in seen.text(0)


def test_grad_mode_changes_are_carried_out():
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    compiled = aot_function(f, nop)
    try:
        compiled(torch.ones(2))
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_inner_gradients_are_traced_through():
    x = torch.ones(2, requires_grad=True)
    f = aot_function(lambda x: torch.autograd.grad(x.exp().sum(), x)[0], nop)
    assert torch.equal(f(x), x.exp().detach())


def test_other_types_are_refused():
    with pytest.raises(AssertionError, match="Expected inputs to be tensors"):
        aot_function(lambda x, y: x, nop)(torch.ones(1), object())


# -- writes and aliases ----------------------------------------------------------------------------


def test_written_inputs_are_written_back():
    seen = Seen()

    def f(a):
        a.mul_(2)
        return a * 3

    compiled = aot_function(f, seen)
    a, b = (torch.ones(2, requires_grad=True).add(1) for _ in range(2))
    out, expected = compiled(a), f(b)
    assert torch.equal(out, expected)
    assert torch.equal(a, b)
    assert seen.text() == (
        "def forward(self, primals_1):\n"
        "    clone = torch.ops.aten.clone.default(primals_1);  primals_1 = None\n"
        "    mul = torch.ops.aten.mul.Tensor(clone, 2);  clone = None\n"
        "    mul_1 = torch.ops.aten.mul.Tensor(mul, 3)\n"
        "    return [mul, mul_1]"
    )


def test_writes_may_stay_in_the_graph():
    seen = Seen()

    def f(buffer, x):
        buffer.add_(1)
        return x * buffer

    buffer = torch.zeros(2)
    compiled = aot_function(f, seen, keep_inference_input_mutations=True)
    out = compiled(buffer, torch.ones(2, requires_grad=True))
    assert buffer.tolist() == [1.0, 1.0]
    assert out.tolist() == [1.0, 1.0]
    assert "copy_ = torch.ops.aten.copy_.default(primals_1, add)" in seen.text()


def test_geometry_changes_are_applied():
    def f(a):
        a.t_()
        return a + 1

    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
    out = aot_function(f, nop)(a)
    assert torch.equal(out, f(b))
    assert (a.shape, a.stride()) == (b.shape, b.stride())


def test_views_of_inputs_are_views_of_the_callers_tensors():
    x = torch.ones(2, 2, requires_grad=True).clone()
    out = aot_function(lambda x: x.view(-1), nop)(x)
    assert out._base is x
    assert out.grad_fn.name() == "ViewBackward0"
    out.mul_(2)
    assert x.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_views_of_one_intermediate_stay_views_of_one_another():
    seen = Seen()

    def f(x):
        y = x * 2
        return y.view(-1), y.t()

    x = torch.ones(2, 2, requires_grad=True)
    first, second = aot_function(f, seen)(x)
    assert first._base is second._base
    assert seen.counts(0) == (1, 3)
    (first.sum() * 3 + second.sum()).backward()
    assert x.grad.tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_results_without_gradient_next_to_results_with_one():
    x = torch.ones(2, requires_grad=True)
    out, detached = aot_function(lambda x: (x * 2, (x * 3).detach()), nop)(x)
    assert out.requires_grad
    assert not detached.requires_grad


# -- partitioners ----------------------------------------------------------------------------------


def test_default_partition_saves_what_is_used():
    seen = Seen()
    x, w, b = torch.ones(4, 3), torch.ones(3), torch.ones(3)
    f = lambda x, w, b: F.layer_norm(x, (3,), w, b)  # noqa: E731
    gradients(aot_function(f, seen, partition_fn=default_partition), x, w, b)
    assert seen.counts(0) == (3, 6)
    assert seen.counts(1) == (6, 3)


def test_minimum_cut_recomputes_what_is_cheap():
    seen = Seen()
    f = lambda x: x.cos().cos().cos()  # noqa: E731
    part = min_cut_rematerialization_partition
    _, grads = gradients(aot_function(f, seen, partition_fn=part), torch.ones(50))
    assert seen.counts(0) == (1, 2)
    assert seen.counts(1) == (2, 1)
    assert torch.allclose(grads[0], gradients(f, torch.ones(50))[1][0])


def test_minimum_cut_saves_one_sum_rather_than_four_terms():
    seen = Seen()
    f = lambda a, b, c, d: (a + b + c + d).cos().cos()  # noqa: E731
    inputs = [torch.ones(50) for _ in range(4)]
    part = min_cut_rematerialization_partition
    gradients(aot_function(f, seen, partition_fn=part), *inputs)
    assert seen.counts(0) == (4, 2)
    assert seen.counts(1) == (2, 4)


@pytest.mark.parametrize("numbers", [(0.0, -0.0), (-0.0, 0.0), (1, 1.0), (float("nan"),) * 2])
def test_minimum_cut_merges_no_different_numbers(numbers):
    part = min_cut_rematerialization_partition
    f = lambda x: tuple(1 / (x * number) for number in numbers)  # noqa: E731
    x = torch.tensor([1.0, 2.0])
    compiled = aot_function(f, Seen(), partition_fn=part)(x.requires_grad_())
    for found, expected in zip(compiled, f(x), strict=True):
        assert torch.equal(found.signbit(), expected.signbit())
        assert found.tolist() == expected.tolist() or found.isnan().all()


def test_random_values_are_never_recomputed():
    seen = Seen()
    part = min_cut_rematerialization_partition
    x = torch.ones(30, requires_grad=True)
    torch.manual_seed(0)
    out = aot_function(lambda x: F.dropout(x.sin(), 0.5), seen, partition_fn=part)(x)
    out.sum().backward()
    assert "native_dropout.default" not in seen.text(1)
    assert torch.equal(x.grad == 0, out == 0)


@pytest.mark.parametrize("part", [default_partition, min_cut_rematerialization_partition])
def test_sizes_are_saved_rather_than_tensors(part):
    pytest.importorskip("sympy")
    seen = Seen()
    f = aot_function(lambda x: x.sum(1), seen, partition_fn=part, dynamic=True)
    x = torch.ones(3, 4, requires_grad=True)
    f(x).sum().backward()
    assert [n.name for n in seen.graphs[0].graph.output_node().args[0]][1:] == [
        "sym_size_int",
        "sym_size_int_1",
    ]
    y = torch.ones(5, 6, requires_grad=True)
    f(y).sum().backward()
    assert y.grad.shape == (5, 6)


# -- modules, compilers ----------------------------------------------------------------------------


def test_modules():
    layer = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    seen = Seen()
    compiled = aot_module(layer, seen)
    x = torch.ones(2, 3)
    assert torch.equal(compiled(x), layer(x))
    compiled(x).sum().backward()
    assert next(name for name, _ in compiled.named_parameters()) == "orig_module.0.weight"
    assert layer[0].weight.grad is not None


def test_flat_modules():
    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x):
            return (self.linear(x), x + 1)

    module = Pair()
    x = torch.ones(3, 2)
    compiled = aot_module_simplified(module, (x,), nop)
    assert all(torch.equal(a, b) for a, b in zip(compiled(x), module(x)))
    assert [n for n, _ in compiled.named_parameters()] == ["linear.weight", "linear.bias"]
    with pytest.raises(RuntimeError, match=r"Graph output must be a \(\)"):
        aot_module_simplified(module.linear, (x,), nop)


def test_boxed_functions_take_one_list():
    taken = []

    def compiler(graph, inputs):
        def run(args):
            taken.append(type(args))
            result = graph(*args)
            args.clear()
            return result

        run._boxed_call = True
        return run

    f = aot_function(lambda x: x * 2, compiler)
    assert f(torch.ones(1)).item() == 2
    assert taken == [list]
    assert make_boxed_func(lambda a, b: a + b)([1, 2]) == 3
    assert make_boxed_compiler(lambda g, i: g)(lambda a: a, None)._boxed_call


def test_compilers_are_told_which_graph_they_have():
    names = []

    def compiler(graph, inputs):
        names.append(get_aot_compilation_context()[0][0].split("_")[1])
        return graph

    aot_function(lambda x: x.sin(), compiler)(torch.ones(2, requires_grad=True)).sum().backward()
    aot_function(lambda x: x.sin(), compiler)(torch.ones(2))
    assert names == ["forward", "backward", "inference"]


def test_compilers_are_told_how_many_graphs_came_before():
    told = []

    def compiler(graph, inputs):
        told.append(get_aot_compilation_context()[2])
        return graph

    before = get_aot_compilation_context()
    assert before[0] == []
    aot_function(lambda x: x.sin(), compiler)(torch.ones(2, requires_grad=True)).sum().backward()
    assert told == [before[2], before[2] + 1]
    assert get_aot_compilation_context() == ([], "model", before[2] + 2)


def test_threads_compile_graphs_of_their_own():
    from threading import Barrier, Thread

    both, names = Barrier(2, timeout=60), []

    def compiler(graph, inputs):
        both.wait()
        names.extend(get_aot_compilation_context()[0])
        both.wait()
        return graph

    def compile_one():
        aot_function(lambda x: x.sin(), compiler)(torch.ones(2))

    threads = [Thread(target=compile_one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 2


# -- switches --------------------------------------------------------------------------------------


def call_counts(graph):
    return Counter(node.name.rstrip("_0123456789") for node in graph.graph.nodes)


def test_common_subexpressions_are_merged_where_the_switch_says_so():
    for merges, expected in ((True, 1), (False, 2)):
        seen = Seen()
        f = aot_function(
            lambda x: x.sin() + x.sin(), seen, partition_fn=min_cut_rematerialization_partition
        )
        with config.patch(cse=merges):
            gradients(f, torch.ones(3))
        assert call_counts(seen.graphs[0])["sin"] == expected


def test_views_are_saved_or_computed_again():
    for again in (False, True):
        seen = Seen()
        f = aot_function(
            lambda x: torch.mm(x, x).t().sin().mm(x).exp().t().cos(),
            seen,
            partition_fn=min_cut_rematerialization_partition,
        )
        with config.patch(recompute_views=again):
            _, grads = gradients(f, torch.ones(3, 3) / 8)
        saved = seen.graphs[0].graph.output_node().args[0][1:]
        assert any(node.name in ("t", "permute") for node in saved) is not again
        wanted = gradients(
            lambda x: torch.mm(x, x).t().sin().mm(x).exp().t().cos(), torch.ones(3, 3) / 8
        )[1]
        torch.testing.assert_close(grads, wanted)


def test_aliases_are_rebuilt_by_their_views_or_by_strides():
    names = []
    for replays in (True, False):
        f = aot_function(lambda x: (x * 2, x.view(-1)), nop)
        with config.patch(view_replay_for_aliased_outputs=replays):
            names.append(f(torch.ones(2, 3, requires_grad=True))[1].grad_fn.name())
    assert names == ["ViewBackward0", "AsStridedBackward0"]


def losing_gradients(joint, inputs, *, num_fwd_outputs):
    forward, backward = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)
    output = backward.graph.output_node()
    output.args = (list(output.args[0])[1:],)
    backward.recompile()
    return forward, backward


def writing_inputs(joint, inputs, *, num_fwd_outputs):
    graph = joint.graph
    first = next(iter(graph.nodes))
    with graph.inserting_before(graph.output_node()):
        graph.call_function(torch.ops.aten.copy_.default, (first, first))
    joint.recompile()
    return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (losing_gradients, "backward graph .* expected 1 results, found 0"),
        (writing_inputs, r"forward graph .* expected writes of the inputs \[\], found \[0\]"),
    ],
)
def test_graphs_that_break_the_facts_are_refused(partition, message):
    f = aot_function(lambda x: x.sin(), nop, partition_fn=partition)
    with config.patch(debug_assert=True), pytest.raises(AssertionError, match=message):
        f(torch.ones(2, requires_grad=True))


def test_inputs_that_require_gradients_only_later_are_refused():
    plain, wanting = torch.ones(2), torch.ones(2, requires_grad=True)
    for checks in (True, False):
        f = aot_function(lambda x, y: x + y, nop)
        with config.patch(debug_assert=checks):
            f(wanting, plain)
        if checks:
            with pytest.raises(AssertionError, match="input 1 would not require grad"):
                f(wanting, wanting)
        else:
            f(wanting, wanting)


def test_ready_made_compilers():
    assert torch.equal(nnc_jit(torch.sin)(torch.ones(2)), torch.ones(2).sin())
    layer = torch.nn.Linear(2, 2)
    fused = memory_efficient_fusion(layer)
    assert torch.equal(fused(torch.ones(1, 2)), layer(torch.ones(1, 2)))


@pytest.mark.parametrize("keep", [False, True])
def test_running_statistics_are_updated(keep):
    mine, theirs = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    seen = Seen()
    compiled = aot_module(mine, seen, keep_inference_input_mutations=keep)
    for _ in range(3):
        x = torch.randn(4, 3)
        assert torch.allclose(compiled(x), theirs(x))
    assert torch.allclose(mine.running_mean, theirs.running_mean)
    assert torch.allclose(mine.running_var, theirs.running_var)
    assert mine.num_batches_tracked == 3
    assert ("copy_" in seen.text()) == keep


@pytest.mark.parametrize(
    ("partition", "saved"),
    [
        (default_partition, "primals_4 cat mm view sym_size_int sym_size_int_1 sym_size_int_2 add"),
        (
            min_cut_rematerialization_partition,
            "t t_1 t_2 t_3 sym_size_int sym_size_int_1 sym_size_int_2",
        ),
    ],
)
def test_numbers_are_saved_and_joined_tensors_not_made_again(partition, saved):
    def joined(a, b, c, d):
        cat = torch.cat([a.expand(b.size(0) + c.size(0), a.size(0)), b, c])
        mm = torch.mm(cat, d)
        return cat, torch.mm(mm, a.view(mm.size(1), a.size(0)))

    graphs = []

    def keep(module, _):
        graphs.append(module.graph)
        return module

    shapes = ((10,), (3, 10), (2, 10), (10, 1))
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    results = aot_function(joined, keep, keep, partition_fn=partition, dynamic=True)(*inputs)
    sum(result.sum() for result in results).backward()
    assert [node.name for node in graphs[0].output_node().args[0][2:]] == saved.split()
