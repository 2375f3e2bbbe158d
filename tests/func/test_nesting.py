"""Levels handled from outside: what torch's helpers say of tensors and of the stack."""

import pytest

import rushlight as torch
from rushlight.func import functionalize, grad, jvp, nesting, unwrapping, vmap

X = torch.ones(2, 3)


def facts(tensor):
    inner = nesting.find_innermost()
    return (
        unwrapping.level_of(tensor),
        unwrapping.batch_axis(tensor),
        nesting.current_level(),
        unwrapping.is_batched(tensor),
        unwrapping.is_tracking(tensor),
        tuple(unwrapping.unwrapped(tensor).shape),
        inner.level(),
        [level.key().name for level in nesting.list_levels()],
    )


# As torch 2.13 answers.
@pytest.mark.parametrize(
    "run, expected",
    [
        (lambda f: vmap(f, in_dims=1)(X), (1, 1, 1, True, False, (2, 3), 1, ["Vmap"])),
        (lambda f: vmap(grad(f))(X), (2, -1, 2, False, True, (3,), 2, ["Vmap", "Grad"])),
        (lambda f: jvp(f, (X,), (X,)), (1, -1, 1, False, True, (2, 3), 1, ["Jvp"])),
        (
            lambda f: functionalize(f)(X),
            (1, -1, 1, False, False, (2, 3), 1, ["Functionalize"]),
        ),
    ],
)
def test_what_a_level_shows(run, expected):
    seen = []

    def f(x):
        seen.append(facts(x))
        assert unwrapping.is_wrapped(x)
        return x.sum()

    run(f)
    assert seen == [expected]


def test_outside_of_all_levels():
    assert unwrapping.level_of(X) == unwrapping.batch_axis(X) == -1
    assert not unwrapping.is_wrapped(X)
    assert nesting.find_current_level() is nesting.find_innermost() is nesting.list_levels() is None
    with pytest.raises(RuntimeError, match="no current level"):
        nesting.current_level()
    with pytest.raises(RuntimeError, match="No wrappers present!"):
        unwrapping.unwrapped(X)


def test_tensors_of_levels_that_have_ended():
    kept = []
    grad(lambda x: (kept.append(x), x.sum())[1])(X)
    assert unwrapping.is_dead(kept[0])
    assert unwrapping.level_of(kept[0]) == -2
    assert [unwrapping.depth_of(tensor) for tensor in (kept[0], X)] == [-1, 0]
    assert unwrapping.unwrap_if_dead(kept[0]) is X
    assert unwrapping.unwrap_dead_wrappers([kept[0], 3]) == (X, 3)


def test_no_level_is_active_inside_of_without_levels():
    seen = []

    def f(x):
        with nesting.without_levels():
            seen.append((nesting.find_current_level(), torch.ones(2).sum().item()))
        return x.sum()

    assert torch.equal(grad(f)(X), torch.ones_like(X))
    assert seen == [(None, 2.0)]


def test_batches_by_hand():
    level = nesting.vmap_increment_nesting(2, "same")
    try:
        inner = nesting.find_innermost()
        assert (inner.batch_size(), inner.randomness()) == (2, nesting.RandomnessType.Same)
        batch = nesting.add_batch_dim(X, -2, level)
        assert tuple(batch.shape) == (3,)
        total = batch.sum()
        assert nesting.unwrap_batched(total, level)[1] == 0
        assert nesting.unwrap_batched(X, level) == (X, None)
        with pytest.raises(RuntimeError, match="the innermost transform is not a GradLevel"):
            nesting.grad_decrement_nesting()
    finally:
        assert nesting.vmap_decrement_nesting() == level
    assert nesting.remove_batch_dim(total, level, 2, 0).tolist() == [3.0, 3.0]
    assert nesting.remove_batch_dim(X, level, 4, 1).shape == (2, 4, 3)
    assert nesting.find_current_level() is None


@pytest.mark.parametrize("kind", ["grad", "jvp"])
def test_tracking_by_hand(kind):
    level = getattr(nesting, f"{kind}_increment_nesting")()
    try:
        tracked = nesting.wrap_for_grad(X, level)
        assert unwrapping.level_of(tracked) == level
        assert nesting.unwrap_for_grad(tracked, level) is X
        assert nesting.unwrap_for_grad(tracked, level + 1) is tracked
        assert nesting.unwrap_for_grad(X, level) is X
    finally:
        assert getattr(nesting, f"{kind}_decrement_nesting")() == level
    assert unwrapping.is_dead(tracked)
