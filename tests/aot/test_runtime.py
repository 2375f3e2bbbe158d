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
