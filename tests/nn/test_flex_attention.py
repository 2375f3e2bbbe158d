"""`flex_attention` and block masks: values and texts as torch gives them, gradients, graphs."""

import math

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.tracing import make_fx
from rushlight.core.fake import FakeTensorMode
from rushlight.func import functionalize, grad, jvp, vmap
from rushlight.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

hop = torch.ops.higher_order


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def operands(heads=4):
    q = (torch.arange(2 * heads * 24).reshape(2, heads, 6, 4) * 0.37).sin()
    k = (torch.arange(2 * 2 * 24).reshape(2, 2, 6, 4) * 0.51).cos()
    return q, k, (torch.arange(2 * 2 * 18).reshape(2, 2, 6, 3) * 0.23).sin()


def test_values_are_torchs():
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i > 0), None, None, 6, 6, BLOCK_SIZE=2)
    result, sums = flex_attention(
        *operands(),
        lambda score, b, h, i, j: score * 1.5 - (i - j) * 0.1 * h,
        mask,
        enable_gqa=True,
        return_lse=True,
    )
    expected = [0.0, -2.5169, -0.4457, 0.8351, 3.005, 3.4291]
    expected += [0.0, 5.8788, 5.2276, 3.6247, 2.1008, 0.0872]
    assert torch.allclose(result.sum((1, 3)).flatten(), torch.tensor(expected), atol=1e-4)
    expected = [-math.inf, 2.2425, 1.1679, 2.3831, 1.7623, 2.6085]
    assert torch.allclose(sums[0, 1], torch.tensor(expected), atol=1e-4)


def test_a_block_mask_knows_its_blocks():
    mask = create_block_mask(causal, 1, 2, 500, 300)
    assert mask.shape == (1, 2, 500, 300)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1, 3]] * 2]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2, 0]] * 2]
    assert mask.kv_indices[0, 0].tolist() == [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 1, 2]]
    assert mask.q_num_blocks[0, 0].tolist() == [2, 2, 2]
    assert mask.full_q_num_blocks[0, 0].tolist() == [2, 1, 0]
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert str(mask) == (
        "BlockMask(shape=(1, 2, 500, 300), sparsity=1.70%, \n"
        "(0, 0)\n██    \n████  \n██████\n██████\n\n(0, 1)\n██    \n████  \n██████\n██████\n)"
    )
    assert "    full_q_indices=torch.Size([1, 2, 3, 4]),\n" in repr(mask)
    assert mask[0, 1].shape == (1, 1, 500, 300)
    smaller = mask._adjust(200, 200)
    assert (smaller.shape, smaller.kv_num_blocks.tolist()) == ((1, 2, 200, 200), [[[1, 1]] * 2])
    assert mask.to("cpu").as_tuple(flatten=False)[0] == (500, 300)
    drawn = create_block_mask(causal, 2, 3, 4, 4, BLOCK_SIZE=2).to_string(grid_size=1, limit=1)
    assert drawn.startswith("(0, 0)\n░░\n\n...")


def test_masks_combine():
    band = and_masks(causal, lambda b, h, i, j: i - j < 2)
    assert create_mask(band, None, None, 3, 3)[0, 0].int().tolist() == [
        *([1, 0, 0], [1, 1, 0], [0, 1, 1]),
    ]
    either = or_masks(lambda b, h, i, j: i == j, lambda b, h, i, j: j == 0)
    assert create_mask(either, None, None, 2, 3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0]]
    scores = create_mask(lambda s, b, h, i, j: torch.where(i > j, s, -math.inf), 1, 1, 2, 2)
    assert scores[0, 0].int().tolist() == [[0, 0], [1, 0]]
    assert create_mask(noop_mask, 1, 1, 2, 2).all()


def attention(q, k, v, bias):
    mask = create_block_mask(causal, None, None, 6, 6)
    return flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i - j], mask)


def plain(q, k, v, bias):
    positions = torch.arange(6)
    scores = q @ k.transpose(-2, -1) / 2 + bias[:, positions[:, None] - positions]
    mask = positions[:, None] >= positions
    return torch.softmax(torch.where(mask, scores, -math.inf), -1) @ v


def inputs():
    bias = (torch.arange(24.0).reshape(2, 12) * 0.7).sin()
    return [*operands(2), bias]


TRANSFORMS = (
    lambda f: f(*inputs()),
    lambda f: grad(lambda q: f(q, *inputs()[1:]).square().sum())(inputs()[0]),
    lambda f: grad(lambda bias: f(*inputs()[:3], bias).square().sum())(inputs()[3]),
    lambda f: jvp(lambda k: f(inputs()[0], k, *inputs()[2:]), (inputs()[1],), (inputs()[0],))[1],
    lambda f: vmap(f, in_dims=(None, None, 0, None))(
        *inputs()[:2], *[torch.stack([inputs()[2]] * 2)], inputs()[3]
    ),
    lambda f: functionalize(f)(*inputs()),
)


@pytest.mark.parametrize("number", range(len(TRANSFORMS)))
def test_it_is_the_attention_written_out_at_every_level(number):
    transform = TRANSFORMS[number]
    expected = transform(plain)
    assert torch.allclose(transform(attention), expected, atol=1e-5)
    traced = make_fx(lambda: transform(attention))()
    assert torch.allclose(traced(), expected, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_reach_what_score_mod_closes_over(compiled):
    f = aot_function(attention, nop) if compiled else attention
    results = []
    for run in (f, plain):
        given = [value.requires_grad_() for value in inputs()]
        run(*given).square().sum().backward()
        results.append([value.grad for value in given])
    for got, expected in zip(*results, strict=True):
        assert torch.allclose(got, expected, atol=1e-5)


def test_gradients_of_operands_and_further_buffers():
    mask = (
        *BlockMask.from_kv_blocks(
            torch.ones(1, 1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 1, dtype=torch.int32)
        ).as_tuple()[:-1],
        causal,
    )

    def f(q, k, v, bias):
        return hop.flex_attention(
            *(q, k, v, lambda s, b, h, i, j, bias: s + bias[h, i - j], mask, 0.5, {}),
            (bias,),
        )[0]

    results = []
    kept = []

    def keep(graph, given):
        kept.append(graph)
        return graph

    for run in (aot_function(f, keep), f, plain):
        given = [value.requires_grad_() for value in inputs()]
        run(*given).square().sum().backward()
        results.append([value.grad for value in given])
    for got in results[:2]:
        for one, expected in zip(got, results[2], strict=True):
            assert torch.allclose(one, expected, atol=1e-5)
    assert any(node.target is hop.flex_attention for node in kept[0].graph.nodes)


def test_a_graph_keeps_the_functions():
    graph = make_fx(attention)(*inputs())
    call = next(node for node in graph.graph.nodes if node.target is hop.flex_attention)
    assert (str(call.args[3]), str(call.args[4][-1])) == ("sdpa_score0", "sdpa_mask0")
    # The bias is an operand of the first.
    assert len(call.args[7]) == 1
    assert torch.allclose(graph(*inputs()), plain(*inputs()), atol=1e-5)
    with FakeTensorMode() as mode:
        got = attention(*[mode.from_tensor(value) for value in inputs()])
    assert got.shape == plain(*inputs()).shape


def test_further_results_are_named():
    q, k, v = operands(2)
    _, aux = flex_attention(q, k, v, return_aux=AuxRequest(max_scores=True))
    assert aux.lse is None
    assert torch.allclose(aux.max_scores, (q @ k.transpose(-2, -1) / 2).amax(-1))


WRONG = (
    (lambda q, k, v: flex_attention(q[0], k, v), "4D"),
    (lambda q, k, v: flex_attention(q[..., :2], k, v), "embedding dimension"),
    (lambda q, k, v: flex_attention(q[:, :1], k, v), "number of heads"),
    (lambda q, k, v: flex_attention(q[:, :1], k, v, enable_gqa=True), "multiple of kv heads"),
    (lambda q, k, v: flex_attention(q[:1], k, v), "same batch size"),
    (
        lambda q, k, v: flex_attention(q, k, v, return_lse=True, return_aux=AuxRequest()),
        "Cannot specify both",
    ),
    (
        lambda q, k, v: flex_attention(
            q, k, v, block_mask=create_block_mask(causal, None, None, 5, 6)
        ),
        "smaller length",
    ),
    (
        lambda q, k, v: flex_attention(
            q, k, v, block_mask=create_block_mask(causal, None, None, 9, 6)
        ),
        "larger length",
    ),
    (
        lambda q, k, v: flex_attention(
            q, k, v, block_mask=create_block_mask(causal, 1, 1, 6, 6)[0]
        ),
        "sliced BlockMask",
    ),
    (lambda q, k, v: and_masks(causal, 3), "callable"),
    (lambda q, k, v: create_block_mask(lambda s, b, h, i, j: s, 1, 1, 2, 2), "mask_mod"),
    (lambda q, k, v: BlockMask((1, 1), torch.ones(1), torch.ones(1)), "at least 2"),
    (lambda q, k, v: BlockMask((1, 1), torch.ones(1), torch.ones(1, 1), q), "both provided"),
)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_calls_are_named(number):
    call, words = WRONG[number]
    with pytest.raises((ValueError, RuntimeError, AssertionError), match=words):
        call(*operands(2))
