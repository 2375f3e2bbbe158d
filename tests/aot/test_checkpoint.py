"""Checkpointed regions in graphs: both partitioners save what policies say, and no more."""

import functools

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from rushlight.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

hop = torch.ops.higher_order
partitioners = pytest.mark.parametrize(
    "partition", [default_partition, min_cut_rematerialization_partition]
)


def layer(x, w):
    return (x @ w).sin().exp()


def graphs_of(f, partition, *args):
    """(forward graph, backward graph), once the compiled gradients are seen to be right."""
    found = []

    def keep(graph, inputs):
        found.append(graph)
        return graph

    compiled = aot_function(f, keep, keep, partition_fn=partition)
    results = []
    for run in (compiled, f):
        given = [value.clone().requires_grad_() for value in args]
        run(*given).sum().backward()
        results.append([value.grad for value in given])
    for got, expected in zip(*results, strict=True):
        assert torch.allclose(got, expected)
    return found


def saved_names(forward):
    return [node.name for node in forward.graph.output_node().args[0]][1:]


def names(graph):
    return [node.name for node in graph.graph.nodes if node.op == "call_function"]


ARGS = (torch.arange(4.0).reshape(2, 2) * 0.1, torch.ones(2, 2) * 0.3)


@partitioners
@pytest.mark.parametrize(
    "wrapped",
    [
        functools.partial(checkpoint, layer, use_reentrant=False),
        functools.partial(hop.tag_activation_checkpoint, layer),
    ],
)
def test_only_inputs_of_a_region_are_saved(partition, wrapped):
    forward, backward = graphs_of(lambda x, w: wrapped(x, w) * 2, partition, *ARGS)
    assert sorted(saved_names(forward)) == ["primals_1", "primals_2"]
    assert "mm" in names(backward)


@partitioners
def test_a_policy_chooses_what_is_saved(partition):
    def policy(context, op, *args, **kwargs):
        if op is torch.ops.aten.mm.default:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.MUST_RECOMPUTE

    def f(x, w):
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(layer, x, w, use_reentrant=False, context_fn=contexts) * 2

    forward, backward = graphs_of(f, partition, *ARGS)
    assert "mm" in saved_names(forward)
    assert not {"sin", "exp"} & set(saved_names(forward))
    assert "mm" not in names(backward)
    assert {"sin", "exp"} <= set(names(backward))


@partitioners
def test_what_a_region_takes_from_another_is_saved(partition):
    def f(x, w):
        y = checkpoint(layer, x, w, use_reentrant=False)
        return checkpoint(layer, y, w, use_reentrant=False)

    forward, _ = graphs_of(f, partition, *ARGS)
    assert sorted(saved_names(forward)) == ["exp", "primals_1", "primals_2"]


@partitioners
def test_random_numbers_of_a_region_are_saved(partition):
    def noisy(x):
        return torch.nn.functional.dropout(x.sin(), 0.5, True).exp()

    found = []

    def keep(graph, inputs):
        found.append(graph)
        return graph

    compiled = aot_function(
        lambda x: checkpoint(noisy, x, use_reentrant=False), keep, keep, partition_fn=partition
    )
    x = torch.ones(8, requires_grad=True)
    y = compiled(x)
    y.sum().backward()
    kept = y.detach() != 1
    expected = torch.where(kept, 2 * y.detach() * x.detach().cos(), 0.0)
    assert torch.allclose(x.grad, expected)
    assert "native_dropout" not in names(found[1])


@partitioners
def test_members_of_a_tuple_belong_to_their_call(partition):
    def normed(x):
        return torch.nn.functional.layer_norm(x.exp(), (2,)).sin()

    forward, backward = graphs_of(
        lambda x: checkpoint(normed, x, use_reentrant=False), partition, ARGS[0]
    )
    assert saved_names(forward) == ["primals_1"]
    assert "native_layer_norm" in names(backward)


def test_higher_order_ops_are_recomputed_only_where_a_region_asks():
    def looped(x, w):
        return torch.while_loop(lambda x: x.sum() < 3, lambda x: (x.exp(),), (x * w,))[0].sin()

    def loops(graph):
        return sum(node.target is hop.while_loop for node in graph.graph.nodes)

    partition = min_cut_rematerialization_partition
    # The backward goes the steps back that a further loop in the forward has counted.
    assert [*map(loops, graphs_of(looped, partition, *ARGS))] == [2, 1]
    region = functools.partial(checkpoint, looped, use_reentrant=False)
    assert [*map(loops, graphs_of(region, partition, *ARGS))] == [2, 2]
