"""Forward mode: levels, the layout of tangents, views, writing, and the way through vmap."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD


def dual(values: list, tangents: list) -> torch.Tensor:
    return fwAD.make_dual(torch.tensor(values), torch.tensor(tangents))


# -- levels ----------------------------------------------------------------------------------------


def test_levels() -> None:
    x = torch.ones(2)
    assert fwAD._current_level == -1
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(x, x)
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fwAD.exit_dual_level()
    with fwAD.dual_level() as level:
        assert level == 0 and fwAD._current_level == 0
        old = fwAD.make_dual(x, x)
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fwAD.enter_dual_level()
        with pytest.raises(RuntimeError, match="not the last one that was created"):
            fwAD.exit_dual_level(level=3)
    assert fwAD._current_level == -1
    assert fwAD.unpack_dual(old).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(old).tangent is None


def test_leaving_frees_tangents() -> None:
    t = torch.ones(2)
    seen = weakref.ref(t)
    with fwAD.dual_level():
        kept = fwAD.make_dual(torch.ones(2), t)
        product = kept * 2
        del t
        assert seen() is not None
    gc.collect()
    assert seen() is None
    assert kept.shape == product.shape


def test_a_level_belongs_to_its_thread() -> None:
    found = []

    def work() -> None:
        with fwAD.dual_level():
            x = dual([2.0], [3.0])
            barrier.wait()
            found.append(fwAD.unpack_dual(x * x).tangent.item())
            barrier.wait()

    barrier = threading.Barrier(2, timeout=20)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12.0, 12.0]


# -- making duals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda x: (x.long(), x), ValueError, "Expected primal to be floating point or complex"),
        (lambda x: (x, x.long()), ValueError, "Expected tangent to be floating point or complex"),
        (lambda x: (x, x[0]), RuntimeError, "a forward gradient that has a different size"),
        (lambda x: (fwAD.make_dual(x, x), x), RuntimeError, "already has a forward gradient"),
        (lambda x: (x, fwAD.make_dual(x, x)), RuntimeError, "itself has a forward gradient"),
        (lambda x: (x[:1].expand(2, 2), x), RuntimeError, "single memory location"),
    ],
)
def test_refused_duals(make: object, error: type, text: str) -> None:
    with fwAD.dual_level(), pytest.raises(error, match=text):
        fwAD.make_dual(*make(torch.ones(2, 2)))  # type: ignore[operator]


def test_a_tangent_that_lies_alike_is_kept_as_it_is() -> None:
    x = torch.randn(3, 4)
    with fwAD.dual_level():
        t = torch.randn(3, 4)
        assert fwAD.unpack_dual(fwAD.make_dual(x, t)).tangent is t
        t = torch.randn(3, 4)
        other = fwAD.unpack_dual(fwAD.make_dual(x.t(), t.t())).tangent
        assert other.stride() == (1, 4)
        crossed = torch.randn(4, 3).t()
        found = fwAD.unpack_dual(fwAD.make_dual(x, crossed)).tangent
        assert found is not crossed and found.stride() == (4, 1) and torch.equal(found, crossed)
        part = torch.randn(5)[:4]
        found = fwAD.unpack_dual(fwAD.make_dual(part, torch.ones(4))).tangent
        assert found.untyped_storage().nbytes() == 20


def test_unpacked_parts_alias_the_dual() -> None:
    with fwAD.dual_level():
        x = torch.ones(2)
        d = fwAD.make_dual(x, torch.ones(2))
        primal, tangent = fwAD.unpack_dual(d)
        assert primal is not d and fwAD.unpack_dual(primal).tangent is None
        primal.mul_(3)
        tangent.mul_(5)
        assert torch.equal(x, torch.full((2,), 3.0))
        assert torch.equal(fwAD.unpack_dual(d).tangent, torch.full((2,), 5.0))
        assert "tangent=" in repr(d) and "tangent=" not in repr(x)


# -- propagation -----------------------------------------------------------------------------------


def test_modes() -> None:
    with fwAD.dual_level():
        x = dual([2.0], [1.0])
        with torch.no_grad():
            assert fwAD.unpack_dual(x * x).tangent.item() == 4.0
        with torch.inference_mode():
            assert fwAD.unpack_dual(x * x).tangent is None
        with fwAD._set_fwd_grad_enabled(False):
            assert fwAD.unpack_dual(x * x).tangent is None
        assert fwAD.unpack_dual(x.detach()).tangent is None
        assert fwAD.unpack_dual(x > 1).tangent is None
        for out in (
            lambda: torch.add(x, 1, out=torch.ones(1)),
            lambda: torch.neg(x.detach(), out=x),
        ):
            with pytest.raises(NotImplementedError, match="because it is an out= function"):
                out()
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with igamma"):
            torch.igamma(x, x)


def test_a_result_does_not_share_its_operands_tangent() -> None:
    with fwAD.dual_level():
        x = dual([2.0], [1.0])
        y = x + torch.ones(1)
        y.mul_(10)
        assert fwAD.unpack_dual(x).tangent.item() == 1.0
        assert fwAD.unpack_dual(y).tangent.item() == 10.0


def test_backward_of_a_dual() -> None:
    x = torch.tensor([0.5], requires_grad=True)
    for f, second in ((torch.exp, torch.exp), (torch.sin, lambda v: -torch.sin(v))):
        with fwAD.dual_level():
            d = fwAD.make_dual(x, torch.ones(1))
            (slope,) = torch.autograd.grad(f(d), x, create_graph=True)
            curvature = fwAD.unpack_dual(slope).tangent
        assert torch.allclose(curvature, second(x))


def test_gradient_of_a_tangent() -> None:
    x = torch.tensor([0.5], requires_grad=True)
    t = torch.ones(1, requires_grad=True)
    with fwAD.dual_level():
        pushed = fwAD.unpack_dual(torch.sin(fwAD.make_dual(x, t))).tangent
    by_x, by_t = torch.autograd.grad(pushed, (x, t))
    assert torch.allclose(by_x, -torch.sin(x)) and torch.allclose(by_t, torch.cos(x))


# -- views and writing -----------------------------------------------------------------------------


def test_writing_a_dual_to_a_view_gives_the_base_a_tangent() -> None:
    with fwAD.dual_level():
        base = torch.zeros(2, 3)
        view = base.t()[1:]
        early = base[1]
        view.copy_(fwAD.make_dual(torch.ones(2, 2), torch.full((2, 2), 7.0)))
        whole = fwAD.unpack_dual(base).tangent
        assert torch.equal(whole, torch.tensor([[0.0, 7, 7], [0, 7, 7]]))
        part = fwAD.unpack_dual(view).tangent
        assert part._base is whole
        assert torch.equal(fwAD.unpack_dual(early).tangent, whole[1])
        view.mul_(2)
        assert torch.equal(whole, torch.tensor([[0.0, 14, 14], [0, 14, 14]]))


def test_the_original_of_a_dual_stays_plain() -> None:
    with fwAD.dual_level():
        x = torch.zeros(2)
        d = fwAD.make_dual(x, torch.ones(2))
        d[0].mul_(3)
        assert torch.equal(fwAD.unpack_dual(d).tangent, torch.tensor([3.0, 1.0]))
        assert fwAD.unpack_dual(x).tangent is None
        primal = fwAD.unpack_dual(d).primal
        primal[1:].add_(dual([1.0], [4.0]))
        assert fwAD.unpack_dual(x).tangent is None
        assert torch.equal(fwAD.unpack_dual(primal).tangent, torch.tensor([0.0, 4.0]))


def test_in_place_views_turn_the_tangent_too() -> None:
    with fwAD.dual_level():
        d = fwAD.make_dual(torch.zeros(2, 3), torch.arange(6.0).reshape(2, 3)).clone()
        d.transpose_(0, 1).unsqueeze_(0)
        tangent = fwAD.unpack_dual(d).tangent
        assert torch.equal(tangent, torch.arange(6.0).reshape(2, 3).t()[None])


# -- vmap ------------------------------------------------------------------------------------------


def test_under_vmap_with_plain_and_batched_primals() -> None:
    from rushlight.func import vmap

    x = torch.tensor([0.5, 1.5])
    tangents = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])

    def push(t: torch.Tensor) -> torch.Tensor:
        with fwAD.dual_level():
            d = fwAD.make_dual(x, t)
            y = torch.cumsum(d.sin(), 0).prod()
            z = d.clone()
            z[0].mul_(z[1])
            return fwAD.unpack_dual(y).tangent + fwAD.unpack_dual(z).tangent.sum()

    expected = torch.stack([push(t) for t in tangents])
    assert torch.allclose(vmap(push)(tangents), expected)

    def both(a: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        with fwAD.dual_level():
            d = fwAD.make_dual(a, t)
            return fwAD.unpack_dual((d * d).logsumexp(0) * d.amax()).tangent

    points = torch.tensor([[0.1, 0.2], [0.3, 0.1], [1.0, 2.0]])
    expected = torch.stack([both(a, t) for a, t in zip(points, tangents)])
    assert torch.allclose(vmap(both)(points, tangents), expected)


def test_vmap_inside_a_level() -> None:
    from rushlight.func import vmap

    with fwAD.dual_level():
        d = fwAD.make_dual(torch.arange(6.0).reshape(2, 3), torch.ones(2, 3))
        mapped = vmap(lambda a: (a * a).sum())(d)
        assert torch.equal(
            fwAD.unpack_dual(mapped).tangent, 2 * torch.arange(6.0).reshape(2, 3).sum(1)
        )
