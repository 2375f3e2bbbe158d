"""What is no number: expansion, subclasses, validation, caches, dispatch of divergences, names."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any

import pytest

import rushlight as torch
from rushlight import distributions as dist
from rushlight.aot.tracing import make_fx
from rushlight.distributions import constraints, kl
from rushlight.distributions.utils import (
    broadcast_all,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)


def test_numbers_make_scalars_of_the_default_dtype() -> None:
    d = dist.Normal(0, 1)
    assert d.batch_shape == ()
    assert d.loc.dtype is torch.float32
    assert d.sample().shape == ()
    assert d.sample((2, 3)).shape == (2, 3)
    assert repr(d) == "Normal(loc: 0.0, scale: 1.0)"
    wide = dist.Normal(torch.zeros(2, 1, dtype=torch.float64), 2)
    assert wide.scale.dtype is torch.float64
    assert repr(wide) == "Normal(loc: torch.Size([2, 1]), scale: torch.Size([2, 1]))"


def test_expand_takes_no_memory() -> None:
    d = dist.Normal(torch.zeros(3), torch.ones(3)).expand((4, 3))
    assert d.batch_shape == (4, 3)
    assert d.loc.stride() == (0, 1)


def test_expanding_a_subclass_with_its_own_init_is_refused() -> None:
    class Standard(dist.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    class Renamed(dist.Normal):
        pass

    with pytest.raises(NotImplementedError, match="Subclass Standard of Normal that defines a cus"):
        Standard().expand((2,))
    assert type(Renamed(0.0, 1.0).expand((2,))) is Renamed


def test_validation_is_switched_per_instance_and_for_all() -> None:
    quiet = dist.Normal(torch.tensor(0.0), torch.tensor(-1.0), validate_args=False)
    assert quiet.log_prob(torch.tensor(0.0)).isnan()
    assert not quiet.expand((2,))._validate_args
    try:
        dist.Distribution.set_default_validate_args(False)
        dist.Normal(torch.tensor(0.0), torch.tensor(-1.0))
    finally:
        dist.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="to satisfy the constraint GreaterThan"):
        dist.Normal(torch.tensor(0.0), torch.tensor(-1.0))


def test_distributions_that_say_nothing_about_themselves_warn() -> None:
    class Bare(dist.Distribution):
        def rsample(self, sample_shape: Any = ()) -> Any:
            return torch.zeros(sample_shape)

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare()
    with pytest.warns(UserWarning, match="does not define `support`"):
        bare._validate_sample(torch.zeros(()))
    with pytest.warns(FutureWarning, match="Use `sample"):
        assert bare.sample_n(3).shape == (3,)
    with pytest.raises(NotImplementedError, match="does not implement mode"):
        bare.mode


def test_lazy_properties_keep_their_value_and_gradients() -> None:
    probs = torch.tensor([0.2, 0.8], requires_grad=True)
    d = dist.Bernoulli(probs)
    assert "logits" not in d.__dict__
    with torch.no_grad():
        logits = d.logits
    assert logits.requires_grad
    assert d.logits is logits
    assert isinstance(dist.Bernoulli.logits, lazy_property)


def test_perplexity_and_enumeration() -> None:
    d = dist.Categorical(torch.ones(2, 4))
    assert torch.allclose(d.perplexity(), torch.tensor([4.0, 4.0]))
    assert d.enumerate_support(expand=False).shape == (4, 1)
    assert dist.OneHotCategorical(torch.ones(2, 4)).enumerate_support().shape == (4, 2, 4)


@pytest.mark.parametrize("name", ["Normal", "LogNormal", "Independent", "Bernoulli"])
def test_pickling_and_copying(name: str) -> None:
    d: Any = {
        "Normal": dist.Normal(torch.zeros(2), 1.0),
        "LogNormal": dist.LogNormal(torch.zeros(2), 1.0),
        "Independent": dist.Independent(dist.Normal(torch.zeros(2), 1.0), 1),
        "Bernoulli": dist.Bernoulli(torch.tensor([0.5, 0.2])),
    }[name]
    value = torch.ones(2)
    for other in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d)):
        assert torch.equal(other.log_prob(value), d.log_prob(value))


# -- transforms ------------------------------------------------------------------------------------


def test_the_cache_gives_back_the_very_argument() -> None:
    cached = dist.SigmoidTransform(cache_size=1)
    x = torch.tensor([50.0])
    assert cached.inv(cached(x)) is x
    plain = dist.SigmoidTransform()
    assert plain.inv(plain(x)) is not x
    assert plain.with_cache()._cache_size == 1
    assert plain.with_cache(0) is plain
    assert plain.inv.inv is plain


def test_transforms_are_equal_by_what_they_do() -> None:
    affine = dist.AffineTransform
    assert dist.ExpTransform() == dist.ExpTransform()
    assert dist.ExpTransform() != dist.TanhTransform()
    assert dist.ExpTransform().inv == dist.ExpTransform().inv
    assert affine(1.0, 2.0) == affine(torch.tensor(1.0), 2.0)
    assert affine(1.0, 2.0) != affine(1.0, 3.0)
    assert dist.PowerTransform(torch.tensor(2.0)) == dist.PowerTransform(torch.tensor(2.0))
    assert dist.ComposeTransform([affine(0, 1)]) == dist.ComposeTransform([affine(0, 1)])


def test_one_transform_may_stand_twice_in_a_composition() -> None:
    double = dist.AffineTransform(0.0, 2.0)
    both = dist.ComposeTransform([double, double])
    x = torch.tensor([1.0, 3.0])
    assert torch.equal(both(x), 4 * x)
    assert torch.allclose(both.log_abs_det_jacobian(x, both(x)).exp(), torch.tensor(4.0))


@pytest.mark.parametrize(
    "transform",
    [
        dist.StickBreakingTransform(),
        dist.CorrCholeskyTransform(),
        dist.TanhTransform(),
        dist.SoftplusTransform(),
        dist.ComposeTransform([dist.AffineTransform(0.3, -2.0), dist.SigmoidTransform()]),
    ],
)
def test_jacobians_are_those_of_autograd(transform: Any) -> None:
    x = torch.tensor([0.3, -0.8, 1.1], dtype=torch.float64, requires_grad=True)
    y = transform(x)
    free = tril_matrix_to_vec(y, -1) if y.dim() == 2 else y[:3]
    rows = [torch.autograd.grad(entry, x, retain_graph=True)[0] for entry in free]
    jacobian = torch.stack(rows)
    found = transform.log_abs_det_jacobian(x, y).sum()
    assert torch.allclose(found, torch.linalg.slogdet(jacobian)[1])


def test_triangles_as_vectors() -> None:
    vec = torch.arange(1.0, 7)
    for diag, n in ((0, 3), (-1, 4)):
        mat = vec_to_tril_matrix(vec, diag)
        assert mat.shape == (n, n)
        assert torch.equal(tril_matrix_to_vec(mat, diag), vec)
    with pytest.raises(ValueError, match="cannot be expressed as the lower triangular part"):
        vec_to_tril_matrix(torch.ones(5))
    with pytest.raises(ValueError, match=r"diag \(4\) provided is outside \[-3, 2\]"):
        tril_matrix_to_vec(torch.ones(3, 3), 4)


def test_broadcast_all_wants_numbers_or_tensors() -> None:
    with pytest.raises(ValueError, match="Input arguments must all be instances of Number"):
        broadcast_all([1.0])
    first, second = broadcast_all(torch.ones(2, 1, dtype=torch.float64), 3)
    assert second.dtype is torch.float64
    assert first.shape == second.shape == (2, 1)


def test_registries_take_constraints_of_the_user() -> None:
    class Even(constraints.Constraint):
        pass

    registry = dist.constraint_registry.ConstraintRegistry()
    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        registry(Even())
    registry.register(Even, lambda constraint: dist.ExpTransform())
    assert registry(Even()) == dist.ExpTransform()


# -- divergences -----------------------------------------------------------------------------------


def test_the_most_special_form_is_taken_and_ambiguity_warned_of() -> None:
    class Base(dist.Normal):
        pass

    class Special(Base):
        pass

    known = dict(kl._KL_REGISTRY)
    try:
        dist.register_kl(Base, Base)(lambda p, q: "base")
        p, q = Special(0.0, 1.0), Base(0.0, 1.0)
        assert dist.kl_divergence(p, q) == "base"
        dist.register_kl(Special, dist.Normal)(lambda p, q: "left")
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Special, Base\). Pleas"):
            assert dist.kl_divergence(p, q) == "left"
        dist.register_kl(Special, Base)(lambda p, q: "both")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dist.kl_divergence(p, q) == "both"
            assert dist.kl_divergence(q, q) == "base"
    finally:
        kl._KL_REGISTRY.clear()
        kl._KL_REGISTRY.update(known)
        kl._KL_MEMOIZE.clear()
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        dist.register_kl(3, dist.Normal)


def test_divergences_of_exponential_families_agree_with_the_closed_forms() -> None:
    form = kl._KL_REGISTRY[dist.ExponentialFamily, dist.ExponentialFamily]
    make = torch.tensor
    pairs = [
        (dist.Normal(make(0.5), make(1.5)), dist.Normal(make(-1.0), make(0.7))),
        (dist.Gamma(make(2.0), make(1.5)), dist.Gamma(make(1.0), make(0.7))),
        (dist.Beta(make(2.0), make(1.5)), dist.Beta(make(1.0), make(0.7))),
        (dist.Dirichlet(make([2.0, 1.5])), dist.Dirichlet(make([1.0, 0.7]))),
        (dist.Exponential(make(2.0)), dist.Exponential(make(0.7))),
        (dist.Bernoulli(make(0.2)), dist.Bernoulli(make(0.7))),
    ]
    for p, q in pairs:
        assert torch.allclose(form(p, q), dist.kl_divergence(p, q), atol=1e-5)


def test_divergences_that_are_not_finite() -> None:
    zero, half = torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5])
    certain, fair = dist.Bernoulli(zero), dist.Bernoulli(half)
    assert dist.kl_divergence(fair, certain).tolist() == [float("inf")] * 2
    assert torch.allclose(dist.kl_divergence(certain, fair), torch.tensor(2.0).log())
    p, q = dist.Categorical(half), dist.Categorical(zero)
    assert dist.kl_divergence(p, q).item() == float("inf")
    assert dist.kl_divergence(dist.Uniform(0.0, 2.0), dist.Uniform(0.0, 1.0)) == float("inf")


def test_divergences_of_composed_distributions_add_up() -> None:
    p = dist.Independent(dist.Normal(torch.zeros(3), 1.0), 1)
    q = dist.Independent(dist.Normal(torch.ones(3), 1.0), 1)
    assert dist.kl_divergence(p, q).item() == pytest.approx(1.5)
    first, second = dist.LogNormal(0.0, 1.0), dist.LogNormal(1.0, 1.0)
    assert dist.kl_divergence(first, second).item() == pytest.approx(0.5)


# -- beside the rest -------------------------------------------------------------------------------


def test_densities_under_vmap() -> None:
    loc, value = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.5, 0.5, 0.5])

    def score(loc: Any, value: Any) -> Any:
        return dist.Normal(loc, 1.0, validate_args=False).log_prob(value)

    wanted = dist.Normal(loc, 1.0).log_prob(value)
    assert torch.allclose(torch.vmap(score)(loc, value), wanted)


def test_draws_and_matrices_under_vmap() -> None:
    counts = torch.tensor([[1.0, 2.0], [3.0, 0.5], [2.0, 2.0]], requires_grad=True)

    def draw(counts: Any) -> Any:
        return dist.Dirichlet(counts, validate_args=False).rsample()

    drawn = torch.vmap(draw, randomness="different")(counts)
    assert torch.allclose(drawn.sum(-1), torch.ones(3))
    drawn[:, 0].sum().backward()
    assert counts.grad[:, 0].gt(0).all()
    assert counts.grad[:, 1].lt(0).all()
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    transform = dist.CorrCholeskyTransform()
    assert torch.allclose(torch.vmap(transform)(x), transform(x))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_tracing(mode: str) -> None:
    def program(factor: Any, value: Any) -> Any:
        d = dist.MultivariateNormal(value, scale_tril=factor, validate_args=False)
        spread = dist.Gamma(value.exp(), 1.0, validate_args=False)
        return d.log_prob(value + 1) + spread.log_prob(spread.mean).sum(-1) + spread.entropy().sum()

    factor, value = torch.eye(3) * 2, torch.linspace(0, 1, 6).reshape(2, 3)
    traced = make_fx(program, tracing_mode=mode)(factor, value)
    assert torch.allclose(traced(factor + 0.5, value), program(factor + 0.5, value))


def test_wide_batches_of_normal_vectors() -> None:
    factor = torch.tensor([[1.0, 0.0], [0.5, 2.0]]).expand(4, 1, 2, 2)
    d = dist.MultivariateNormal(torch.zeros(3, 2), scale_tril=factor)
    assert d.batch_shape == (4, 3)
    value = torch.linspace(-1, 1, 5 * 4 * 3 * 2).reshape(5, 4, 3, 2)
    one = dist.MultivariateNormal(torch.zeros(2), scale_tril=factor[0, 0])
    wanted = torch.stack([one.log_prob(v) for v in value.reshape(-1, 2)]).reshape(5, 4, 3)
    assert torch.allclose(d.log_prob(value), wanted, atol=1e-6)
    assert d.entropy().shape == (4, 3)
    assert d.covariance_matrix.shape == d.precision_matrix.shape == (4, 3, 2, 2)


def test_names_under_torch() -> None:
    program = """
import rushlight.compat; rushlight.compat.install()
import torch
from torch.distributions.normal import Normal
from torch.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.utils import _standard_normal, _sum_rightmost, lazy_property
from torch.distributions.kl import _kl_expfamily_expfamily, kl_divergence
from torch.distributions.transforms import _InverseTransform
import torch.distributions.constraints as constraints
assert Normal is torch.distributions.Normal is torch.distributions.normal.Normal
assert constraints.positive is torch.distributions.constraints.positive
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert dist.studentT.StudentT is dist.StudentT
    with pytest.raises(AttributeError, match="has no attribute 'Norm'"):
        dist.Norm


def test_distributions_over_matrices_are_traced():
    def entropy(mean, covariance):
        return torch.distributions.MultivariateNormal(mean, covariance).entropy()

    given = torch.zeros(2), torch.eye(2)
    traced = torch.jit.trace(entropy, given)
    assert traced(torch.zeros(2), 4 * torch.eye(2)) == entropy(torch.zeros(2), 4 * torch.eye(2))
