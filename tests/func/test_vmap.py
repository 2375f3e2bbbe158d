"""vmap: how arguments, results, levels, randomness and refusals behave."""

from __future__ import annotations

import functools

import pytest

import rushlight as torch
from rushlight.core import batching, state
from rushlight.core.batching import VmapLevel
from rushlight.func import vmap


def rows() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


# -- arguments and results -------------------------------------------------------------------------


def test_in_dims_and_out_dims() -> None:
    x, y = rows(), torch.arange(12.0).reshape(3, 4)
    found = vmap(lambda a, b: a @ b, in_dims=(0, None))(x, y)
    assert torch.equal(found, x @ y)
    found = vmap(torch.dot, in_dims=(1, 1))(x, x + 1)
    assert torch.equal(found, (x * (x + 1)).sum(0))
    assert torch.equal(vmap(lambda a: a * 2, out_dims=1)(x), (x * 2).t())
    assert torch.equal(vmap(lambda a: a * 2, in_dims=-1, out_dims=-1)(x), x * 2)


def test_nested_structures() -> None:
    x = rows()
    given = {"a": x, "b": [x + 1, 5.0]}

    def f(d: dict) -> dict:
        return {"sum": d["a"].sum() + d["b"][0].sum() + d["b"][1], "all": (d["a"], d["b"][0])}

    in_dims = ({"a": 0, "b": [0, None]},)
    found = vmap(f, in_dims=in_dims, out_dims={"sum": 0, "all": (0, 1)})(given)
    assert torch.equal(found["sum"], x.sum(1) + (x + 1).sum(1) + 5)
    assert torch.equal(found["all"][0], x)
    assert torch.equal(found["all"][1], (x + 1).t())


def test_keywords_and_unbatched_results() -> None:
    x = rows()
    assert torch.equal(vmap(lambda a, *, b: a + b)(x, b=torch.ones(3)), x + 1)
    assert torch.equal(vmap(lambda a: torch.ones(2))(x), torch.ones(2, 2))
    assert torch.equal(vmap(lambda a: torch.ones(2), out_dims=None)(x), torch.ones(2))


def test_levels_nest() -> None:
    x, y = rows(), torch.arange(4.0)
    outer = vmap(lambda a: vmap(lambda b: a.sum() * b)(y))(x)
    assert torch.equal(outer, x.sum(1)[:, None] * y)
    pairs = vmap(vmap(torch.add, in_dims=(None, 0)), in_dims=(0, None))(y, y)
    assert torch.equal(pairs, y[:, None] + y)
    assert torch.equal(vmap(vmap(lambda a: a.sin()))(x), x.sin())


def test_chunks() -> None:
    x = torch.arange(10.0).reshape(5, 2)
    seen = []

    def f(a: torch.Tensor) -> tuple:
        seen.append(1)
        return a.sum(), a

    total, same = vmap(f, out_dims=(0, 1), chunk_size=2)(x)
    assert len(seen) == 3
    assert torch.equal(total, x.sum(1))
    assert torch.equal(same, x.t())
    with pytest.raises(ValueError, match="chunk_size should be None or greater than 0"):
        vmap(f, chunk_size=0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: vmap(lambda: 1)(), "got no inputs"),
        (lambda x: vmap(lambda a: a, in_dims=None)(x), "expected `in_dims` to be int or a"),
        (lambda x: vmap(lambda a, b: a, in_dims=(0,))(x, x), "not compatible with the structure"),
        (lambda x: vmap(lambda a: a, in_dims=(0.5,))(x), "must be either an integer dimension"),
        (lambda x: vmap(lambda a: a, in_dims=(2,))(x), "-2 <= in_dim < 2"),
        (lambda x: vmap(lambda a, b: a)(x, 3), "We cannot vmap over non-Tensor arguments"),
        (lambda x: vmap(lambda a: a, in_dims=(None,))(x), "at least one Tensor to vmap over"),
        (lambda x: vmap(lambda a, b: a)(x, x.t()), r"got sizes \[2, 3\]"),
        (lambda x: vmap(lambda a: 3)(x), "must only return Tensors, got type <class 'int'>"),
        (lambda x: vmap(lambda a: a, out_dims=None)(x), "can not return a BatchedTensor"),
        (lambda x: vmap(lambda a: (a, a), out_dims=(0,))(x), "structure of `outputs`"),
        (lambda x: vmap(lambda a: a, out_dims="z")(x), "`out_dims` must be an int, None or"),
        (lambda x: vmap(functools.partial(max, 1))(), r"vmap\(functools.partial\(max, ...\)\)"),
    ],
)
def test_refused_arguments(make: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make(rows())  # type: ignore[operator]


# -- what a sample looks like ----------------------------------------------------------------------


def test_a_sample_shows_its_own_geometry() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        assert tuple(a.shape) == (2,) and a.dim() == 1 and a.numel() == 2
        assert a.stride() == (3,) and not a.is_contiguous()
        assert repr(a).startswith("BatchedTensor(lvl=1, bdim=1, value=")
        assert len(list(a)) == 2
        return a

    vmap(f, in_dims=1)(rows())


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda a: a.sum().item(), r"calling .item\(\) on a Tensor"),
        (lambda a: float(a.sum()), r"calling .item\(\) on a Tensor"),
        (lambda a: a if a.sum() > 0 else -a, "data-dependent control flow"),
        (lambda a: a.numpy(), "Cannot access data pointer"),
        (lambda a: a.tolist(), "Cannot access data pointer"),
        (lambda a: a.nonzero(), "output dynamic shape. Attempted to vmap over aten::nonzero"),
        (lambda a: a[a > 1], "indexing with a boolean mask"),
        (lambda a: a.masked_select(a > 1), "vmap over `mask`"),
        (lambda a: torch.equal(a, a), "Batching rule not implemented for aten::equal"),
        (lambda a: torch.allclose(a, a), "vmap over torch.allclose"),
        (lambda a: a.requires_grad_(), "attempting to call Tensor.requires_grad_"),
        (lambda a: a.data, "accessing `data` under vmap"),
        (lambda a: a.sum().backward(), "called inside a functorch transform"),
        (lambda a: a.as_strided((4,), (1,)), "can access memory outside of `tensor`"),
        (lambda a: a.as_strided((1,), (1, 1)), "size and stride must have the same length"),
        (lambda a: torch.zeros(3).copy_(a), "vmapped over but `self` not being vmapped over"),
    ],
)
def test_refused_inside(f: object, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        vmap(f)(rows())  # type: ignore[arg-type]


def test_a_tensor_that_escapes_is_of_no_use() -> None:
    kept = []
    vmap(lambda a: (kept.append(a), a)[1])(rows())
    with pytest.raises(RuntimeError, match="may have escaped"):
        kept[0] + 1


# -- ops -------------------------------------------------------------------------------------------


def test_promotion_is_that_of_a_sample() -> None:
    wide = torch.ones(2, dtype=torch.float64)
    narrow = torch.ones(2, 3)
    assert vmap(torch.add)(wide, narrow).dtype is torch.float32
    assert vmap(torch.add)(narrow, wide).dtype is torch.float32
    unbatched = torch.tensor(1.0, dtype=torch.float64)
    assert vmap(lambda a: a + unbatched)(torch.ones(2)).dtype is torch.float64
    whole = torch.ones(2, dtype=torch.int64)
    assert vmap(lambda a: a * 2.5)(whole).dtype is torch.float32
    assert vmap(torch.mul)(whole, torch.ones(2, 3, dtype=torch.int8)).dtype is torch.int8


def test_writing_reaches_the_batch() -> None:
    x = torch.zeros(2, 3)

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1).mul_(b)
        a[0] = 9
        a[1:].clamp_(max=2)
        return a

    found = vmap(f)(x, torch.tensor([1.0, 5.0]))
    assert torch.equal(x, torch.tensor([[9.0, 1.0, 1.0], [9.0, 2.0, 2.0]]))
    assert torch.equal(found, x)


def test_views_in_place_change_the_sample_only() -> None:
    x = torch.arange(12.0).reshape(2, 2, 3)

    def f(a: torch.Tensor) -> torch.Tensor:
        b = a * 1
        b.transpose_(0, 1)
        assert tuple(b.shape) == (3, 2)
        return b.unsqueeze_(0)

    assert torch.equal(vmap(f)(x), x.transpose(1, 2).unsqueeze(1))


@pytest.mark.parametrize("where", ["self", "index", "both"])
def test_indexing(where: str) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    index = torch.tensor([[0, 2], [1, 1]])
    dims = {"self": (0, None), "index": (None, 0), "both": (0, 0)}[where]
    for f in (
        lambda a, i: a[i],
        lambda a, i: a[:, i],
        lambda a, i: a[i, i + 1],
        lambda a, i: a[i, :, None],
        lambda a, i: a.index_select(1, i),
        lambda a, i: a.new_zeros(3, 4).index_put((i,), a.new_ones(4)),
        lambda a, i: a.gather(0, i.unsqueeze(1)),
        lambda a, i: a.scatter(1, i.unsqueeze(0), 5.0),
        lambda a, i: a.index_add(0, i, a[:2]),
        lambda a, i: torch.nn.functional.embedding(i, a),
    ):
        a = x if dims[0] == 0 else x[0]
        i = index if dims[1] == 0 else index[0]
        found = vmap(f, in_dims=dims)(a, i)
        expected = [f(a[n] if dims[0] == 0 else a, i[n] if dims[1] == 0 else i) for n in range(2)]
        assert torch.equal(found, torch.stack(expected))


def test_indices_apart_give_their_dims_first() -> None:
    x = torch.arange(48.0).reshape(2, 2, 3, 4)
    i = torch.tensor([0, 1])
    found = vmap(lambda a: a[i, :, i])(x)
    assert torch.equal(found, torch.stack([a[i, :, i] for a in x]))


def test_an_empty_batch() -> None:
    assert vmap(lambda a: (a * 2).sum(-1).exp())(torch.ones(0, 3)).shape == (0,)
    assert vmap(lambda a: a.t() @ a)(torch.ones(0, 3, 2)).shape == (0, 2, 2)


def test_gradients_flow_through() -> None:
    x = rows().requires_grad_()
    w = torch.ones(3, requires_grad=True)
    vmap(lambda a: (a * w).sin().sum())(x).sum().backward()
    y = rows().requires_grad_()
    v = torch.ones(3, requires_grad=True)
    (y * v).sin().sum().backward()
    assert torch.allclose(x.grad, y.grad) and torch.allclose(w.grad, v.grad)


# -- randomness ------------------------------------------------------------------------------------


def test_randomness() -> None:
    x = torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match="while in randomness error mode"):
        vmap(lambda a: a + torch.rand(4))(x)
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        vmap(lambda a: a, randomness="some")
    for draw in (torch.rand_like, lambda a: a + torch.rand(4), lambda a: a.clone().normal_()):
        same = vmap(draw, randomness="same")(x)
        assert torch.equal(same[0], same[1]) and torch.equal(same[0], same[2])
        different = vmap(draw, randomness="different")(x)
        assert not torch.equal(different[0], different[1])
    with pytest.raises(RuntimeError, match="Cannot ask for different inplace randomness"):
        vmap(lambda a: torch.zeros(4).normal_() + a, randomness="different")(x)


# -- custom Functions ------------------------------------------------------------------------------


class Doubled(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: object, inputs: tuple, output: object) -> None:
        pass

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def test_functions() -> None:
    x = rows().requires_grad_()
    found = vmap(Doubled.apply)(x)
    assert torch.equal(found, x * 2)
    found.sum().backward()
    assert torch.equal(x.grad, torch.full((2, 3), 2.0))

    class Without(Doubled):
        generate_vmap_rule = False

    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Without.apply)(rows())

    class Ruled(Without):
        @staticmethod
        def vmap(info: object, in_dims: tuple, x: torch.Tensor) -> tuple:
            assert (info.batch_size, info.randomness) == (2, "error")
            assert in_dims == (1,)
            return Ruled.apply(x), in_dims[0]

    assert torch.equal(vmap(Ruled.apply, in_dims=1)(rows().t()), rows() * 2)

    class Both(Ruled):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="to avoid ambiguity"):
        vmap(Both.apply)(rows())

    class Unsplit(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        vmap(Unsplit.apply)(rows())


def test_assignment_through_a_mask_of_several_dims():
    mask = torch.ones(3, 3).tril(-1) > 0

    def lower(values):
        matrix = torch.zeros(3, 3) + values.sum() * 0
        matrix[..., mask] = values
        return matrix

    values = torch.arange(6.0).reshape(2, 3)
    expected = torch.stack([lower(entry) for entry in values])
    assert torch.equal(torch.vmap(lower)(values), expected)


def test_the_older_vmap() -> None:
    from rushlight.func.vmap import former_vmap, plain_vmap

    x = torch.arange(3.0)
    with pytest.warns(FutureWarning, match="Please use `torch.vmap` instead of"):
        assert former_vmap(torch.square)(x).tolist() == [0.0, 1.0, 4.0]
    assert plain_vmap(lambda a: (a, None), allow_none_pass_through=True)(x)[1] is None
    with pytest.raises(ValueError, match="must only return Tensors, got type"):
        plain_vmap(lambda a: (a, None))(x)


def test_gather_from_a_sample_without_dims():
    values, index = torch.tensor([1.0, 2.0]), torch.zeros(2, 1, dtype=torch.int64)

    def read(value, place):
        return torch.gather(value, 0, place)

    assert vmap(read)(values, index).tolist() == [[1.0], [2.0]]
    assert vmap(read, in_dims=(None, 0))(values[0], index).tolist() == [[1.0], [1.0]]
    assert vmap(read, in_dims=(0, None))(values, index[0]).tolist() == [[1.0], [2.0]]
    assert vmap(read, in_dims=(0, None))(values, index[0, 0]).tolist() == [1.0, 2.0]


def test_cat_with_an_empty_tensor_keeps_its_gradient():
    empty = torch.empty(2, 0, requires_grad=True)
    result = vmap(lambda a, b: torch.cat([a, b]))(empty, torch.ones(2, 3))
    assert result.requires_grad
    result.sum().backward()
    assert tuple(empty.grad.shape) == (2, 0)
    shared = torch.empty(0, requires_grad=True)
    result = vmap(lambda b: torch.cat([shared, b], 1))(torch.ones(2, 3, 4))
    assert result.requires_grad
    assert tuple(result.shape) == (2, 3, 4)


# -- one draw for the batch ------------------------------------------------------------------------

BATCH = torch.arange(12.0).reshape(4, 3) / 12
ROW = BATCH[1]
IMAGES = torch.ones(4, 2, 3, 2, 2)
WEIGHTS = torch.arange(24.0).reshape(4, 2, 3) + 1
# (function of a sample, the batch, what one draw of the whole batch is)
DRAWS = {
    "rand": (lambda _: torch.rand(3), BATCH, lambda: torch.rand(4, 3)),
    "rand of a sample without dims": (lambda _: torch.rand(()), BATCH, lambda: torch.rand(4)),
    "randn": (lambda _: torch.randn(3), BATCH, lambda: torch.randn(4, 3)),
    "randint": (lambda _: torch.randint(2, 50, (3,)), BATCH, lambda: torch.randint(2, 50, (4, 3))),
    "randperm": (
        lambda _: torch.randperm(5),
        BATCH,
        lambda: torch.stack([torch.randperm(5) for _ in range(4)]),
    ),
    "normal of numbers": (
        lambda _: torch.normal(0.0, 1.0, (3,)),
        BATCH,
        lambda: torch.normal(0.0, 1.0, (4, 3)),
    ),
    "normal of a mean": (lambda a: torch.normal(a, 1.0), BATCH, lambda: torch.normal(BATCH, 1.0)),
    "normal of a deviation": (
        lambda a: torch.normal(0.0, a),
        BATCH,
        lambda: torch.normal(0.0, BATCH),
    ),
    "normal of a shared mean": (
        lambda a: torch.normal(ROW, a),
        BATCH,
        lambda: torch.normal(ROW.expand(4, 3), BATCH),
    ),
    "normal of what is shared": (
        lambda _: torch.normal(ROW, 1.0),
        BATCH,
        lambda: torch.normal(ROW.expand(4, 3), 1.0),
    ),
    "bernoulli": (torch.bernoulli, BATCH, lambda: torch.bernoulli(BATCH)),
    "bernoulli with p": (
        lambda a: torch.bernoulli(a, 0.4),
        BATCH,
        lambda: torch.bernoulli(BATCH, 0.4),
    ),
    "bernoulli of what is shared": (
        lambda _: torch.bernoulli(ROW),
        BATCH,
        lambda: torch.bernoulli(ROW.expand(4, 3)),
    ),
    "bernoulli_": (
        lambda a: torch.zeros_like(a).bernoulli_(a),
        BATCH,
        lambda: torch.zeros(4, 3).bernoulli_(BATCH),
    ),
    "dropout": (
        torch.nn.functional.dropout,
        BATCH,
        lambda: torch.nn.functional.dropout(BATCH),
    ),
    "dropout of what is shared": (
        lambda _: torch.nn.functional.dropout(ROW),
        BATCH,
        lambda: torch.nn.functional.dropout(ROW.expand(4, 3)),
    ),
    "dropout2d": (
        torch.nn.functional.dropout2d,
        IMAGES,
        lambda: torch.nn.functional.dropout2d(IMAGES.flatten(0, 1)).unflatten(0, (4, 2)),
    ),
    "native_dropout": (
        lambda a: torch.native_dropout(a, 0.5, True)[0],
        BATCH,
        lambda: torch.native_dropout(BATCH, 0.5, True)[0],
    ),
    "multinomial": (
        lambda a: torch.multinomial(a, 2),
        WEIGHTS[:, 0],
        lambda: torch.multinomial(WEIGHTS[:, 0], 2),
    ),
    "multinomial of rows": (
        lambda a: torch.multinomial(a, 2),
        WEIGHTS,
        lambda: torch.multinomial(WEIGHTS.flatten(0, 1), 2).unflatten(0, (4, 2)),
    ),
    "multinomial of what is shared": (
        lambda _: torch.multinomial(WEIGHTS[0, 0], 2),
        BATCH,
        lambda: torch.multinomial(WEIGHTS[0, 0].expand(4, 3), 2),
    ),
    "rand_like": (torch.rand_like, BATCH, lambda: torch.rand(4, 3)),
    "randn_like": (torch.randn_like, BATCH, lambda: torch.randn(4, 3)),
    "randint_like": (
        lambda a: torch.randint_like(a, 2, 50),
        BATCH,
        lambda: torch.randint(2, 50, (4, 3), dtype=torch.float32),
    ),
    "rand_like of what is shared": (
        lambda _: torch.rand_like(ROW),
        BATCH,
        lambda: torch.rand(4, 3),
    ),
    "poisson": (torch.poisson, BATCH, lambda: torch.poisson(BATCH)),
    "binomial": (
        lambda a: torch.binomial(a * 0 + 9, a),
        BATCH,
        lambda: torch.binomial(BATCH * 0 + 9, BATCH),
    ),
    "a nested vmap": (
        lambda a: vmap(lambda _: torch.rand(2), randomness="different")(a),
        BATCH,
        lambda: torch.rand(4, 3, 2),
    ),
    "a nested vmap with shared numbers": (
        lambda a: vmap(lambda _: torch.rand(2), randomness="same")(a),
        BATCH,
        lambda: torch.rand(4, 1, 2).expand(4, 3, 2),
    ),
    "a gradient": (
        torch.func.grad(lambda a: (a * torch.rand(3)).sum()),
        BATCH,
        lambda: torch.rand(4, 3),
    ),
}
FILLERS = {
    "uniform_": (0.0, 2.0),
    "normal_": (1.0, 2.0),
    "exponential_": (),
    "cauchy_": (),
    "log_normal_": (),
    "geometric_": (0.3,),
    "random_": (2, 50),
}


@pytest.mark.parametrize("name", DRAWS)
def test_different_numbers_are_those_of_one_draw(name: str) -> None:
    function, batch, whole = DRAWS[name]
    torch.manual_seed(0)
    found = vmap(function, randomness="different")(batch)
    torch.manual_seed(0)
    assert torch.equal(found, whole())


@pytest.mark.parametrize("name", FILLERS)
def test_fillers_draw_once(name: str) -> None:
    def fill(sample: torch.Tensor) -> torch.Tensor:
        target = sample.clone()
        assert getattr(target, name)(*FILLERS[name]) is target
        assert target._version == 1
        return target

    def numbers(shape: tuple[int, ...]) -> torch.Tensor:
        torch.manual_seed(0)
        return getattr(torch.zeros(shape), name)(*FILLERS[name])

    torch.manual_seed(0)
    assert torch.equal(vmap(fill, randomness="different")(BATCH), numbers((4, 3)))
    torch.manual_seed(0)
    assert torch.equal(vmap(fill, randomness="same")(BATCH), numbers((3,)).expand(4, 3))


def test_the_same_numbers_for_samples_that_differ() -> None:
    torch.manual_seed(0)
    noise = torch.rand(3)
    for function in (torch.rand_like, lambda _: torch.rand(3)):
        torch.manual_seed(0)
        assert torch.equal(vmap(function, randomness="same")(BATCH), noise.expand(4, 3))
    for drop in (
        torch.nn.functional.dropout,
        lambda a: torch.native_dropout(a, 0.5, True)[0],
        lambda a: torch.nn.functional.dropout(a * ROW),
    ):
        dropped = vmap(drop, randomness="same")(torch.ones(4, 50, 3))
        assert torch.equal(dropped, dropped[:1].expand(4, 50, 3))
        assert 0 < (dropped == 0).sum() < dropped.numel()


@pytest.mark.parametrize(
    "function",
    [
        torch.bernoulli,
        lambda a: torch.bernoulli(a, 0.5),
        lambda a: a.clone().bernoulli_(a),
        lambda a: torch.zeros(3).bernoulli_(a),
        lambda a: torch.normal(a, 1.0),
        lambda a: torch.normal(0.0, a),
        lambda a: torch.multinomial(a + 1, 2),
        torch.poisson,
        lambda a: torch.binomial(a * 0 + 9, a),
        lambda a: torch._standard_gamma(a + 1),
    ],
)
def test_the_same_numbers_are_refused_where_their_distributions_differ(function: object) -> None:
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        vmap(function, randomness="same")(BATCH)


def test_batch_norm_does_not_share_statistics_it_writes() -> None:
    images = torch.arange(24.0).reshape(4, 3, 2)
    module = torch.nn.BatchNorm1d(2)
    with pytest.raises(RuntimeError, match="Batch norm got a batched tensor as input while the"):
        vmap(module)(images)
    module.eval()
    assert torch.equal(vmap(module)(images), module(images.flatten(0, 1)).unflatten(0, (4, 3)))
    means, variances = torch.zeros(4, 2), torch.ones(4, 2)

    def normalise(x: object, mean: object, variance: object) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, mean, variance, training=True)

    vmap(normalise)(images, means, variances)
    assert torch.allclose(means, images.mean(1) * 0.1)


def test_distributions_check_their_arguments() -> None:
    values = torch.tensor([1.0, 2.0])
    normal = torch.distributions.Normal
    found = vmap(lambda m: normal(m, m, validate_args=True).log_prob(m))(values)
    assert torch.equal(found, normal(values, values).log_prob(values))
    with pytest.raises(ValueError, match="Expected parameter scale"):
        vmap(lambda m: normal(m, -m, validate_args=True).log_prob(m))(values)
    drawn = vmap(lambda p: torch.distributions.Bernoulli(p).sample(), randomness="different")
    assert tuple(drawn(values / 3).shape) == (2,)


def test_a_function_with_both_rules_uses_them() -> None:
    used = []

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * ctx.saved_tensors[0].cos()

        @staticmethod
        def vmap(info, in_dims, x):
            used.append(info.batch_size)
            return Sine.apply(x), in_dims[0]

    x = rows()
    value, tangent = vmap(lambda a, t: torch.func.jvp(Sine.apply, (a,), (t,)))(x, x)
    assert torch.equal(value, x.sin())
    assert torch.equal(tangent, x * x.cos())
    assert used == [2]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, *, by=2):
        return x * by

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x, *, by=2):
        return x * by, 0 if isinstance(by, int) else (0,)


def test_rules_of_functions_get_keywords() -> None:
    x = rows()
    assert torch.equal(vmap(lambda s: Scaled.apply(s, by=7))(x), x * 7)
    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        vmap(lambda s: Scaled.apply(s, by=s))(x)
    for call in (Scaled.apply, lambda s, by: torch.func.grad(Scaled.apply)(s, by=by)):
        with pytest.raises(TypeError, match="unexpected keyword argument 'by'"):
            call(x, by=7)


def test_out_dims_of_rules_have_the_structure_of_their_outputs() -> None:
    with pytest.raises(RuntimeError, match="returned an incompatible"):
        vmap(lambda s: Scaled.apply(s, by=2.0))(rows())


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
def test_random_ops_have_no_results_to_write_to(randomness: str) -> None:
    with pytest.raises(RuntimeError, match="calling out variants of random operations"):
        vmap(lambda s: torch.randn(3, out=s), randomness=randomness)(rows())


def test_loops_are_refused_and_announced_as_asked(monkeypatch):
    halves = torch.arange(8.0, dtype=torch.float16).reshape(2, 4)
    count = vmap(lambda values: torch.histc(values, 2))
    monkeypatch.setattr(batching.LOOPS, "are_always_told", True)
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"aten::histc .*\(RL0612\)"):
            count(halves)
    monkeypatch.setattr(batching.LOOPS, "are_told", False)
    count(halves)
    monkeypatch.setattr(batching.LOOPS, "are_allowed", False)
    with pytest.raises(RuntimeError, match="aten::histc hit the vmap fallback which is currently"):
        count(halves)


def test_a_loop_is_announced_once_for_every_op(monkeypatch):
    monkeypatch.setattr(state, "WARNED", set())

    def sides(values):
        return torch.histc(values, 2)

    # Halves are counted one by one.
    values = torch.arange(8.0, dtype=torch.float16).reshape(2, 4)
    with pytest.warns(UserWarning, match=r"aten::histc .*\(RL0612\)") as caught:
        found = vmap(sides)(values)
        vmap(sides)(values)
    assert len(caught) == 1
    assert torch.equal(found, torch.full((2, 2), 2.0, dtype=torch.float16))


def test_statements_about_values_hold_for_every_sample():
    values = torch.tensor([[1.0, 2.0], [torch.inf, 0.0]])
    with pytest.raises(RuntimeError, match="range is not finite"):
        vmap(lambda row: torch.histc(row, 2))(values)
    with pytest.raises(RuntimeError, match="must not be zero"):
        vmap(lambda value: torch.ops.aten._assert_async.msg(value, "must not be zero"))(
            torch.tensor([1.0, 0.0])
        )
    weights = torch.randn(2, 4, 3)
    with pytest.raises(RuntimeError, match="valid range"):
        vmap(lambda table: torch.nn.functional.embedding_bag(torch.tensor([[4]]), table))(weights)


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0)])
def test_convolutions_run_once_for_all_samples(in_dims, monkeypatch):
    """Forward and backward, images and weights varying."""
    monkeypatch.setattr(VmapLevel, "loop", None)
    torch.manual_seed(0)
    images = torch.randn(3, 2, 4, 5, 5, dtype=torch.float64)
    weights = torch.randn(3, 6, 2, 2, 2, dtype=torch.float64)
    images, weights = (
        value if dim == 0 else value[0]
        for value, dim in zip((images, weights), in_dims, strict=True)
    )

    def loss(image, weight):
        return torch.nn.functional.conv2d(image, weight, padding=1, groups=2).square().sum()

    found = vmap(torch.func.grad(loss, (0, 1)), in_dims)(images, weights)
    for sample in range(3):
        image, weight = (
            value if dim is None else value[sample]
            for value, dim in zip((images, weights), in_dims, strict=True)
        )
        expected = torch.func.grad(loss, (0, 1))(image, weight)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one[sample], other)


def test_writes_by_batched_indices_stay_within_their_sample():
    rows = torch.zeros(2, 3)
    with pytest.raises((IndexError, RuntimeError)):
        vmap(lambda x, i: x.index_add(0, i, torch.ones(1)))(rows, torch.tensor([[3], [0]]))
    found = vmap(lambda x, i: x.index_add(0, i, torch.ones(1)))(rows, torch.tensor([[2], [0]]))
    assert torch.equal(found, torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
