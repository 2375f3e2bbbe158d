"""What surrounds compiled graphs: saved tensors, freed inputs, threads."""

from __future__ import annotations

import threading
import time
import tracemalloc
import weakref

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function, make_options
from rushlight.aot.compilation import compile_flat, get_aot_compilation_context
from rushlight.aot.compilers import nop
from rushlight.compiler import compile_graph


def halves():
    leaf = torch.ones(4, requires_grad=True)
    x = leaf * 1
    return leaf, x[0:2], x[2:4]


def write_first(a, b):
    a.mul_(3)
    return b.sin()


def write_first_quietly(a, b):
    with torch.no_grad():
        a.mul_(3)
    return b.sin()


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("function", [write_first, write_first_quietly])
class TestDisjointViews:
    """Two inputs share a version counter but no element; one is written, the other saved."""

    def test_saved_input_stays_valid(self, function, keep):
        leaf, a, b = halves()
        aot_function(function, nop, keep_inference_input_mutations=keep)(a, b).sum().backward()
        cosine = torch.ones(1).cos().item()
        assert leaf.grad.tolist() == [0.0, 0.0, cosine, cosine]

    def test_later_writes_are_found(self, function, keep):
        _, a, b = halves()
        y = aot_function(function, nop, keep_inference_input_mutations=keep)(a, b)
        with torch.no_grad():
            b.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_saved_input_beside_a_written_group_stays_valid():
    """Two inputs overlap and are written as parts of their base; the third lies outside of both."""

    def write(a, whole, b):
        a.mul_(3)
        return b.sin() + whole.sum()

    grads = []
    for run in (write, aot_function(write, nop)):
        leaf = torch.ones(5, requires_grad=True)
        x = leaf * 1
        y = run(x[0:2], x[0:3], x[3:5])
        y.sum().backward()
        grads.append(leaf.grad.tolist())
        leaf = torch.ones(5, requires_grad=True)
        x = leaf * 1
        b = x[3:5]
        y = run(x[0:2], x[0:3], b)
        with torch.no_grad():
            b.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    assert grads[0] == grads[1]


def test_saved_input_that_a_later_call_overlaps_is_lost():
    compiled = aot_function(write_first, nop)
    _, a, b = halves()
    compiled(a, b)
    x = torch.ones(4, requires_grad=True) * 1
    # Compiled for disjoint arguments; there are no guards.
    y = compiled(x[1:3], x[2:4])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_boxed_inputs_are_freed_during_the_call():
    alive = []

    def compiler(graph, inputs):
        def run(args):
            references = [weakref.ref(value) for value in args]
            total = args[0] + args[1]
            args.clear()
            alive.append([reference() is not None for reference in references])
            return (total,)

        run._boxed_call = True
        return run

    args = [torch.ones(3), torch.ones(3), torch.ones(3)]
    run = compile_flat(lambda a, b, c: (a + b,), args, make_options(compiler), 0)
    assert run(args)[0].tolist() == [2.0, 2.0, 2.0]
    assert alive == [[False, False, False]]


def test_duplicates_do_not_keep_boxed_inputs():
    alive = []

    def compiler(graph, inputs):
        def run(args):
            reference = weakref.ref(args[1])
            result = args[0] * 2
            del args[1]
            alive.append(reference() is not None)
            return result, args[0] * 3

        run._boxed_call = True
        return run

    def double(a, b, c):
        a.mul_(2)
        return (b * 1.5,)

    x = torch.ones(3)
    args = [x, x, torch.ones(3)]
    run = compile_flat(double, args, make_options(compiler), 0)
    assert run(args)[0].tolist() == [3.0, 3.0, 3.0]
    assert x.tolist() == [2.0, 2.0, 2.0]
    assert alive == [False]


def test_a_chain_needs_memory_for_two_values_at_a_time():
    def chain(x):
        for _ in range(20):
            x = x.sin()
        return x

    x = torch.zeros(1 << 20)
    size = x.nbytes
    compiled = aot_function(chain, nop)
    with torch.no_grad():
        compiled(x)
        tracemalloc.start()
        compiled(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2.1 * size


def peak_of(function, *args):
    """The most memory that a call needs beyond what there was, after one that compiles."""
    function(*args)
    torch.compiler.reset()
    tracemalloc.start()
    function(*args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def compile_native(graph, inputs):
    pytest.importorskip("llvmlite")
    return compile_graph(graph, inputs)


def boxed_chain(compiler, x):
    """A chain of products, compiled, of a list that alone holds its input."""
    weight = torch.eye(x.shape[1])

    def chain(x, weight):
        for _ in range(10):
            x = (x @ weight).sin()
        return (x,)

    run = compile_flat(chain, [x, weight], make_options(compiler), 0)
    return lambda: run([x.clone(), weight])


@pytest.mark.parametrize("compiler", [nop, compile_native], ids=["graph", "native"])
def test_a_chain_frees_its_boxed_input(compiler):
    x = torch.ones(1 << 14, 32)
    with torch.no_grad():
        run = boxed_chain(compiler, x)
        # Two values at a time, the input being one of them at first.
        assert peak_of(run) < 2.2 * x.nbytes


@pytest.mark.parametrize("compiler", [nop, compile_native], ids=["graph", "native"])
def test_a_backward_frees_what_was_saved(compiler):
    def chain(x, weight):
        for _ in range(10):
            x = (x @ weight).sin()
        return x

    x, weight = torch.ones(1 << 14, 32, requires_grad=True), torch.eye(32)
    compiled = aot_function(chain, compiler)
    found = []

    def step():
        y = compiled(x, weight)
        # Held back, so that only the backward's own memory counts.
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        torch.autograd.grad(y, x, torch.ones_like(y))
        found.append(tracemalloc.get_traced_memory()[1] - before)

    tracemalloc.start()
    step()
    torch.compiler.reset()
    step()
    tracemalloc.stop()
    # A gradient and what it is computed from; what was saved has gone by then.
    assert found[-1] < 2.2 * x.nbytes


def test_a_retained_graph_runs_twice():
    compiled = aot_function(lambda x: (x.sin() * x).sum(), nop)
    x = torch.ones(3, requires_grad=True)
    loss = compiled(x)
    first = torch.autograd.grad(loss, x, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(loss, x)[0], first)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, x)


def test_a_boxed_graph_module_is_what_it_is_now():
    seen = []

    def compiler(graph, inputs):
        modules.append(graph)
        return graph

    modules = []
    compiled = aot_function(lambda x: x.sin(), compiler)
    with torch.no_grad():
        x = torch.ones(2)
        assert torch.equal(compiled(x), x.sin())
        (module,) = modules
        module.register_forward_hook(lambda *_: seen.append("hook"))
        compiled(x)
        assert seen == ["hook"]
        node = next(n for n in module.graph.nodes if n.op == "call_function")
        node.target = torch.ops.aten.cos.default
        assert torch.equal(compiled(x), x.sin())
        module.recompile()
        assert torch.equal(compiled(x), x.cos())


def test_two_threads_compile_once():
    compiled_in = []

    def compiler(graph, inputs):
        compiled_in.append(get_aot_compilation_context()[0])
        time.sleep(0.05)
        return graph

    f = aot_function(lambda x: x.sin(), compiler)
    x = torch.ones(3, requires_grad=True)
    results = []

    def work():
        y = f(x)
        results.append(torch.autograd.grad(y.sum(), x)[0].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled_in) == 2
    assert len(results) == 4
    assert all(result == results[0] for result in results)
