"""Distributions, transforms and pairs whose numbers are recorded, written once for any `torch`.

`numbers(torch)` gives every quantity that a case can tell, by name; PyTorch's are in recorded.json.
Needs float64 as the default dtype.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

# Constructor by keyword tensors -> the values at which densities are taken.
REAL = [-1.7, -0.3, 0.0, 0.8, 2.5]
POSITIVE = [0.05, 0.4, 1.0, 2.3, 6.0]
UNIT = [0.02, 0.3, 0.5, 0.72, 0.97]
COUNTS = [0.0, 1.0, 2.0, 3.0, 5.0]
LOC, SCALE = [0.5, -1.0, 0.0, 2.0, 0.3], [1.5, 0.7, 1.0, 0.2, 3.0]
SHAPE, RATE = [0.3, 1.0, 2.5, 7.0, 0.9], [1.2, 0.4, 2.0, 1.0, 3.0]
PROBS, LOGITS = [0.1, 0.35, 0.4999, 0.8, 0.93], [-2.0, -0.5, 0.0, 0.7, 3.0]
WEIGHTS = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
SCORES = [[0.4, -1.0, 2.0], [0.0, 0.3, -0.7]]
SIMPLEX = [[0.2, 0.3, 0.5], [0.05, 0.9, 0.05]]
VECTORS = [[0.5, -0.2, 1.0], [1.5, 0.0, -2.0]]
MATRIX = [[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.1]]
FACTOR = [[1.2, 0.0, 0.0], [0.4, 0.9, 0.0], [-0.3, 0.5, 1.4]]
LOW_RANK = [[0.5, 0.1], [-0.3, 0.8], [0.2, 0.4]]
CORRELATION = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.64, 0.6]]

# name, class, parameters, values; `fixed` ones are no tensors and have no gradients
SIMPLE: list[tuple[str, str, dict[str, Any], Any]] = [
    ("Normal", "Normal", {"loc": LOC, "scale": SCALE}, REAL),
    ("LogNormal", "LogNormal", {"loc": LOC, "scale": SCALE}, POSITIVE),
    ("HalfNormal", "HalfNormal", {"scale": SCALE}, POSITIVE),
    ("HalfCauchy", "HalfCauchy", {"scale": SCALE}, POSITIVE),
    (
        "Uniform",
        "Uniform",
        {"low": [-2.0, -1.0, 0.0, 0.5, 2.0], "high": [1.0, 1.0, 3.0, 0.9, 4.5]},
        REAL,
    ),
    ("Laplace", "Laplace", {"loc": LOC, "scale": SCALE}, REAL),
    ("Cauchy", "Cauchy", {"loc": LOC, "scale": SCALE}, REAL),
    ("Gumbel", "Gumbel", {"loc": LOC, "scale": SCALE}, REAL),
    (
        "StudentT",
        "StudentT",
        {"df": [0.7, 1.5, 3.0, 8.0, 40.0], "loc": LOC, "scale": SCALE},
        REAL,
    ),
    ("Exponential", "Exponential", {"rate": RATE}, POSITIVE),
    ("Gamma", "Gamma", {"concentration": SHAPE, "rate": RATE}, POSITIVE),
    ("InverseGamma", "InverseGamma", {"concentration": SHAPE, "rate": RATE}, POSITIVE),
    ("Chi2", "Chi2", {"df": SHAPE}, POSITIVE),
    (
        "FisherSnedecor",
        "FisherSnedecor",
        {"df1": [1.0, 3.0, 5.0, 2.0, 9.0], "df2": [1.5, 3.0, 6.0, 10.0, 4.5]},
        POSITIVE,
    ),
    ("Weibull", "Weibull", {"scale": SCALE, "concentration": [0.6, 1.0, 1.5, 3.0, 5.0]}, POSITIVE),
    (
        "Pareto",
        "Pareto",
        {"scale": [0.02, 0.3, 0.9, 1.5, 4.0], "alpha": [0.5, 1.5, 2.5, 4.0, 9.0]},
        POSITIVE,
    ),
    (
        "GeneralizedPareto",
        "GeneralizedPareto",
        {"loc": [0.0] * 5, "scale": SCALE, "concentration": [0.3, 0.0, -0.2, 0.7, 1.5]},
        [0.05, 0.4, 1.0, 0.3, 6.0],
    ),
    ("Kumaraswamy", "Kumaraswamy", {"concentration1": RATE, "concentration0": SHAPE}, UNIT),
    ("Beta", "Beta", {"concentration1": RATE, "concentration0": SHAPE}, UNIT),
    ("ContinuousBernoulli", "ContinuousBernoulli", {"probs": PROBS}, UNIT),
    ("ContinuousBernoulli.logits", "ContinuousBernoulli", {"logits": LOGITS}, UNIT),
    ("VonMises", "VonMises", {"loc": LOC, "concentration": RATE}, REAL),
    ("Bernoulli", "Bernoulli", {"probs": PROBS}, [0.0, 1.0, 0.0, 1.0, 1.0]),
    ("Bernoulli.logits", "Bernoulli", {"logits": LOGITS}, [0.0, 1.0, 0.0, 1.0, 0.0]),
    ("Binomial", "Binomial", {"fixed_total_count": 6, "probs": PROBS}, COUNTS),
    ("Binomial.logits", "Binomial", {"fixed_total_count": 5, "logits": LOGITS}, COUNTS),
    ("Geometric", "Geometric", {"probs": PROBS}, COUNTS),
    ("Geometric.logits", "Geometric", {"logits": LOGITS}, COUNTS),
    ("Poisson", "Poisson", {"rate": RATE}, COUNTS),
    ("NegativeBinomial", "NegativeBinomial", {"total_count": RATE, "probs": PROBS}, COUNTS),
    (
        "NegativeBinomial.logits",
        "NegativeBinomial",
        {"total_count": RATE, "logits": LOGITS},
        COUNTS,
    ),
    ("Categorical", "Categorical", {"probs": WEIGHTS}, [2, 0]),
    ("Categorical.logits", "Categorical", {"logits": SCORES}, [1, 2]),
    ("OneHotCategorical", "OneHotCategorical", {"probs": WEIGHTS}, [[0.0, 0, 1], [1, 0, 0]]),
    (
        "OneHotCategoricalStraightThrough",
        "OneHotCategoricalStraightThrough",
        {"logits": SCORES},
        [[0.0, 1, 0], [1, 0, 0]],
    ),
    (
        "Multinomial",
        "Multinomial",
        {"fixed_total_count": 4, "probs": WEIGHTS},
        [[1.0, 1, 2], [4, 0, 0]],
    ),
    ("Dirichlet", "Dirichlet", {"concentration": [[0.5, 0.6, 0.2], [2.0, 4.0, 1.5]]}, SIMPLEX),
    ("LogisticNormal", "LogisticNormal", {"loc": [0.3, -0.4], "scale": [1.0, 0.5]}, SIMPLEX),
    ("RelaxedBernoulli", "RelaxedBernoulli", {"temperature": [0.7] * 5, "probs": PROBS}, UNIT),
    (
        "RelaxedOneHotCategorical",
        "RelaxedOneHotCategorical",
        {"temperature": 1.3, "logits": SCORES},
        SIMPLEX,
    ),
    (
        "MultivariateNormal",
        "MultivariateNormal",
        {"loc": [1.0, 0.0, -1.0], "covariance_matrix": MATRIX},
        VECTORS,
    ),
    (
        "MultivariateNormal.precision",
        "MultivariateNormal",
        {"loc": VECTORS, "precision_matrix": MATRIX},
        [VECTORS, VECTORS[::-1]],
    ),
    (
        "MultivariateNormal.factor",
        "MultivariateNormal",
        {"loc": [1.0, 0.0, -1.0], "scale_tril": [[FACTOR], [CORRELATION]]},
        VECTORS,
    ),
    (
        "LowRankMultivariateNormal",
        "LowRankMultivariateNormal",
        {"loc": VECTORS, "cov_factor": LOW_RANK, "cov_diag": [0.5, 1.0, 0.8]},
        [1.0, 0.0, -1.0],
    ),
    ("Wishart", "Wishart", {"df": 5.5, "covariance_matrix": MATRIX}, [MATRIX]),
    ("Wishart.factor", "Wishart", {"df": [4.0, 7.0], "scale_tril": FACTOR}, MATRIX),
    (
        "LKJCholesky",
        "LKJCholesky",
        {"fixed_dim": 3, "concentration": [0.5, 1.0, 4.0]},
        CORRELATION,
    ),
]

QUANTITIES = ("mean", "variance", "stddev", "mode")

PAIRS = (
    "Bernoulli Beta Binomial Categorical Cauchy ContinuousBernoulli Dirichlet Exponential Gamma "
    "Geometric Gumbel HalfNormal Laplace LogNormal LowRankMultivariateNormal MultivariateNormal "
    "Normal OneHotCategorical Pareto Poisson Uniform Wishart"
)

TRANSFORMS: list[tuple[str, Any]] = [
    ("ExpTransform()", REAL),
    ("PowerTransform(torch.tensor(1.7))", POSITIVE),
    ("PowerTransform(torch.tensor(-1.0))", POSITIVE),
    ("SigmoidTransform()", REAL),
    ("TanhTransform()", REAL),
    ("SoftplusTransform()", REAL),
    ("AbsTransform()", REAL),
    ("AffineTransform(0.5, -2.0)", REAL),
    ("AffineTransform(torch.tensor([0.5, 1.0]), torch.tensor([2.0, -3.0]), event_dim=1)", [[1, 2]]),
    ("SoftmaxTransform()", VECTORS),
    ("StickBreakingTransform()", VECTORS),
    ("LowerCholeskyTransform()", MATRIX),
    ("PositiveDefiniteTransform()", MATRIX),
    ("CorrCholeskyTransform()", [[0.3, -0.5, 1.0], [0.0, 2.0, -1.0]]),
    ("ReshapeTransform((3,), (1, 3))", VECTORS),
    ("IndependentTransform(TanhTransform(), 1)", VECTORS),
    ("ComposeTransform([AffineTransform(1.0, 2.0), TanhTransform(), ExpTransform()])", REAL),
    ("ComposeTransform([AffineTransform(1.0, 2.0), StickBreakingTransform()])", VECTORS),
    ("ExpTransform().inv", POSITIVE),
    ("CatTransform([ExpTransform(), TanhTransform()], dim=-1, lengths=[1, 2])", VECTORS),
    ("StackTransform([ExpTransform(), TanhTransform()], dim=0)", VECTORS),
    ("CumulativeDistributionTransform(Normal(0.5, 2.0))", REAL),
    ("biject_to(constraints.interval(-1.0, 3.0))", REAL),
    ("biject_to(constraints.simplex)", VECTORS),
    ("transform_to(constraints.less_than(2.0))", REAL),
    ("transform_to(constraints.greater_than_eq(2.0))", REAL),
    ("transform_to(constraints.real_vector)", VECTORS),
]


def built(torch: Any, kind: str, parameters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The distribution, and its parameters that can have gradients."""
    leaves, given = {}, {}
    for name, value in parameters.items():
        if name.startswith("fixed_"):
            given[name.removeprefix("fixed_")] = value
        else:
            leaves[name] = given[name] = torch.tensor(value).requires_grad_()
    return getattr(torch.distributions, kind)(**given), leaves


def slopes(torch: Any, result: Any, leaves: dict[str, Any]) -> dict[str, Any]:
    """The gradients of a result's finite entries, each weighted differently."""
    if not result.requires_grad:
        return {}
    flat = result.reshape(-1)
    weights = torch.arange(1, flat.shape[0] + 1) * 0.25
    total = (flat * weights)[torch.isfinite(flat)].sum()
    try:
        grads = torch.autograd.grad(
            total, list(leaves.values()), allow_unused=True, retain_graph=True
        )
    except (NotImplementedError, RuntimeError):  # gammainc by its first argument
        return {}
    return {
        f"d/d{name}": grad
        for name, grad in zip(leaves, grads)
        if grad is not None and bool(torch.isfinite(grad).all())
    }


def asked(torch: Any, name: str, ask: Any, leaves: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    try:
        result = ask()
    except NotImplementedError:
        yield name, "NotImplementedError"
        return
    yield name, result
    for leaf, grad in slopes(torch, result, leaves).items():
        yield f"{name} {leaf}", grad


def of_distributions(torch: Any) -> Iterator[tuple[str, Any]]:
    for title, kind, parameters, values in SIMPLE:
        d, leaves = built(torch, kind, parameters)
        value = torch.tensor(values)
        # The dtype of numbers that are written without a point.
        value = value if kind == "Categorical" else value.double()
        if kind == "Uniform":
            value = d.low + (d.high - d.low) * torch.tensor(UNIT)
            value = value.detach()
        if kind == "Pareto":
            value = (d.scale + value).detach()
        questions = {
            "log_prob": lambda d=d, value=value: d.log_prob(value),
            "cdf": lambda d=d, value=value: d.cdf(value),
            "icdf": lambda d=d: d.icdf(torch.tensor(UNIT)),
            "entropy": lambda d=d: d.entropy(),
            "bregman": lambda d=d: torch.distributions.ExponentialFamily.entropy(d),
            "enumerate_support": lambda d=d: d.enumerate_support(),
            **{name: lambda d=d, name=name: getattr(d, name) for name in QUANTITIES},
        }
        if not isinstance(d, torch.distributions.ExponentialFamily):
            del questions["bregman"]
        if d.event_shape:
            del questions["icdf"]
        for name, ask in questions.items():
            yield from asked(torch, f"{title}.{name}", ask, leaves)
        wide = d.expand(torch.Size((2, *d.batch_shape)))
        yield f"{title}.expand", wide.log_prob(value)
        yield f"{title}.shapes", str((d.batch_shape, d.event_shape, wide.batch_shape))
        yield f"{title}.repr", repr(d)
        wanted = {name: repr(region) for name, region in d.arg_constraints.items()}
        yield (
            f"{title}.facts",
            str((sorted(wanted.items()), repr(d.support), d.has_rsample, d.has_enumerate_support)),
        )
        region = getattr(torch.distributions, kind).support
        yield f"{title}.support", f"{region.is_discrete} {region.event_dim}"


def of_mixtures(torch: Any) -> Iterator[tuple[str, Any]]:
    t = torch.distributions
    weights = torch.tensor([0.2, 0.5, 0.3]).requires_grad_()
    loc = torch.tensor([-1.0, 0.5, 2.0]).requires_grad_()
    leaves = {"weights": weights, "loc": loc}
    scalar = t.MixtureSameFamily(t.Categorical(weights), t.Normal(loc, torch.tensor(0.7)))
    vectors = t.MixtureSameFamily(
        t.Categorical(logits=torch.tensor(SCORES)),
        t.Independent(t.Normal(torch.ones(2, 3, 2) * loc.unsqueeze(-1), torch.ones(2, 3, 2)), 1),
    )
    values = torch.tensor(REAL)
    yield from asked(torch, "mixture.log_prob", lambda: scalar.log_prob(values), leaves)
    yield from asked(torch, "mixture.cdf", lambda: scalar.cdf(values), leaves)
    points = torch.tensor([[0.5, 1.0], [2.0, -1.0]])
    yield from asked(torch, "mixtures.log_prob", lambda: vectors.log_prob(points), {"loc": loc})
    for name in ("mean", "variance"):
        yield f"mixture.{name}", getattr(scalar, name)
        yield f"mixtures.{name}", getattr(vectors, name)
    yield "mixture.expand", scalar.expand([2]).log_prob(torch.tensor([0.1, 0.2]))
    yield "mixture.repr", repr(scalar)
    yield "mixture.support", repr(scalar.support)
    block = t.Independent(t.Normal(torch.tensor(VECTORS), torch.tensor([1.0, 2.0, 3.0])), 1)
    yield "independent.log_prob", block.log_prob(torch.zeros(3))
    yield "independent.entropy", block.entropy()
    yield "independent.repr", repr(block)
    parts = [t.AffineTransform(1.0, -2.0), t.SigmoidTransform()]
    turned = t.TransformedDistribution(t.Normal(loc, torch.tensor(1.0)), parts)
    unit = torch.tensor([0.2, 0.5, 0.9])
    for name in ("log_prob", "cdf", "icdf"):
        ask = getattr(turned, name)
        yield from asked(torch, f"transformed.{name}", lambda ask=ask: ask(unit), {"loc": loc})


def of_pairs(torch: Any) -> Iterator[tuple[str, Any]]:
    rows = {title: (kind, parameters) for title, kind, parameters, _ in SIMPLE}
    divergence = torch.distributions.kl_divergence
    for first in PAIRS.split():
        for second in PAIRS.split():
            p, leaves = built(torch, *rows[first])
            kind, parameters = rows[second]
            moved = {
                name: value if name.startswith("fixed_") or kind == "Wishart" else reversed_(value)
                for name, value in parameters.items()
                if name not in ("covariance_matrix", "cov_factor")
            }
            q, others = built(torch, kind, {**parameters, **moved})
            leaves = {
                **{f"p.{name}": value for name, value in leaves.items()},
                **{f"q.{name}": value for name, value in others.items()},
            }
            if p.batch_shape != q.batch_shape and not {first, second} <= {
                "LowRankMultivariateNormal",
                "MultivariateNormal",
            }:
                continue
            yield from asked(
                torch, f"kl({first}, {second})", lambda p=p, q=q: divergence(p, q), leaves
            )


def reversed_(value: Any) -> Any:
    return value[::-1] if isinstance(value, list) and not isinstance(value[0], list) else value


def of_transforms(torch: Any) -> Iterator[tuple[str, Any]]:
    for text, values in TRANSFORMS:
        transform = eval(text, {"torch": torch, **vars(torch.distributions)})
        x = torch.tensor(values).double().requires_grad_()
        y = transform(x)
        yield f"{text}", y
        yield f"{text} d/dx", slopes(torch, y, {"x": x})["d/dx"]
        yield f"{text} inverse", transform.inv(y.detach())
        yield from asked(
            torch,
            f"{text} jacobian",
            lambda transform=transform, x=x, y=y: transform.log_abs_det_jacobian(x, y),
            {"x": x},
        )
        yield f"{text} repr", repr(transform)
        ends = transform.domain, transform.codomain
        if "Normal" not in text:
            yield f"{text} ends", repr([e if "object" not in repr(e) else 0 for e in ends])
        for name in ("bijective", "sign", "event_dim"):
            try:
                yield f"{text} {name}", str(getattr(transform, name))
            except (NotImplementedError, ValueError) as error:
                yield f"{text} {name}", type(error).__name__
        yield (
            f"{text} shapes",
            str((transform.forward_shape(x.shape), transform.inverse_shape(y.shape))),
        )


OF_NUMBERS = (
    "real positive nonnegative unit_interval boolean nonnegative_integer positive_integer "
    "greater_than(0.5) greater_than_eq(0.5) less_than(0.5) interval(-1,1) "
    "half_open_interval(-1,1) integer_interval(-1,1) _IntegerLessThan(1) "
    "cat([real,positive],0,[4,4]) stack([real,positive]*4)"
)
OF_VECTORS = "simplex one_hot multinomial(2) real_vector independent(positive,1)"
OF_MATRICES = (
    "lower_triangular lower_cholesky corr_cholesky square symmetric positive_semidefinite "
    "positive_definite independent(real,2)"
)


def of_constraints(torch: Any) -> Iterator[tuple[str, Any]]:
    c = torch.distributions.constraints
    numbers = torch.tensor([-1.5, -1.0, 0.0, 0.5, 1.0, 2.0, float("nan"), float("inf")])
    rows = torch.tensor([[0.5, 0.5, 0.0], [1, 0, 0], [1, 1, 0], [-1, 1, 1], [1, 2, 1]])
    square = torch.tensor([MATRIX, FACTOR, CORRELATION, [[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]])
    for text in OF_NUMBERS.split():
        found = eval(text, vars(c))
        yield f"{text}.check", found.check(numbers).double()
        yield text, f"{found!r} {found.is_discrete} {found.event_dim}".partition(" object")[0]
    for text in OF_VECTORS.split():
        found = eval(text, vars(c))
        yield f"{text}.check", found.check(rows).double()
        yield text, f"{found!r} {found.is_discrete} {found.event_dim}"
    for text in OF_MATRICES.split():
        found = eval(text, vars(c))
        yield f"{text}.check", torch.stack([found.check(m) for m in square]).double()
        yield text, f"{found!r} {found.is_discrete} {found.event_dim}"
    yield "square.check wide", c.square.check(rows).double()
    yield "dependent", repr(c.dependent)


def of_errors(torch: Any) -> Iterator[tuple[str, Any]]:
    t = torch.distributions
    one, two = torch.ones(1), torch.ones(2)
    for text in (
        "Normal(one, -one)",
        "Normal(0.0, float('nan'))",
        "Normal('a', one)",
        "Normal(one, one).log_prob('x')",
        "Normal(two, two).log_prob(torch.ones(3))",
        "Beta(one, one).log_prob(two)",
        "Dirichlet(two).log_prob(torch.ones(3) / 3)",
        "Dirichlet(torch.tensor(1.0))",
        "Bernoulli()",
        "Bernoulli(probs=one, logits=one)",
        "Bernoulli(2 * one)",
        "Bernoulli(one).rsample()",
        "Categorical(torch.tensor(1.0))",
        "Categorical(logits=torch.tensor(1.0))",
        "Categorical(-two)",
        "Categorical(two).log_prob(torch.tensor(3))",
        "Binomial(torch.tensor([1, 2]), two / 2).entropy()",
        "Binomial(torch.tensor([1, 2]), two / 2).enumerate_support()",
        "Geometric(0 * one)",
        "Multinomial(one, two / 2)",
        "MultivariateNormal(torch.tensor(1.0), torch.eye(2))",
        "MultivariateNormal(two)",
        "MultivariateNormal(two, two)",
        "MultivariateNormal(two, scale_tril=two)",
        "MultivariateNormal(two, -torch.eye(2))",
        "LowRankMultivariateNormal(two, two, two)",
        "LowRankMultivariateNormal(two, torch.ones(3, 1), two)",
        "LowRankMultivariateNormal(two, torch.ones(2, 1), torch.ones(3))",
        "Wishart(0.5, torch.eye(2))",
        "Wishart(3.0)",
        "LKJCholesky(1)",
        "Independent(Normal(one, one), 2)",
        "TransformedDistribution(Normal(one, one), 3)",
        "TransformedDistribution(Normal(one, one), [3])",
        "TransformedDistribution(Normal(0.0, 1.0), StickBreakingTransform())",
        "MixtureSameFamily(Normal(one, one), Normal(one, one))",
        "MixtureSameFamily(Categorical(two), 3)",
        "MixtureSameFamily(Categorical(two), Normal(torch.ones(3), 1.0))",
        "MixtureSameFamily(Categorical(torch.ones(2, 2)), Normal(torch.ones(3, 2), 1.0))",
        "Distribution()",
        "Distribution(validate_args=False).sample()",
        "ReshapeTransform((3,), (2,))",
        "ReshapeTransform((3,), (1, 3)).forward_shape((2,))",
        "ReshapeTransform((3,), (1, 3)).forward_shape(())",
        "ExpTransform(2)",
        "CatTransform([3])",
        "CatTransform([ExpTransform()], lengths=[1, 2])",
        "CatTransform([ExpTransform()])(two)",
        "CatTransform([ExpTransform()], 3)(two)",
        "StackTransform([ExpTransform()])(two)",
        "CorrCholeskyTransform().forward_shape((2,))",
        "CorrCholeskyTransform().inverse_shape((2, 3))",
        "IndependentTransform(ExpTransform(), 1)(torch.tensor(1.0))",
        "PowerTransform(one).log_abs_det_jacobian(two, two) and CorrCholeskyTransform().sign",
        "StickBreakingTransform().event_dim and ReshapeTransform((2,), (1, 2)).event_dim",
        "transform_to(constraints.boolean)",
        "transform_to.register(3, 4)",
        "constraints.dependent.check(one)",
        "constraints.dependent.event_dim",
        "constraints.independent(3, 1)",
        "constraints.independent(constraints.real, -1)",
        "constraints.independent(constraints.real, 1).check(torch.tensor(1.0))",
        "constraints.cat([3])",
        "kl_divergence(Normal(0.0, 1.0), Bernoulli(0.5))",
        "kl_divergence(Normal(0.0, 1.0), Categorical(two))",
        "kl_divergence(Binomial(1, one / 2), Binomial(2, one / 2))",
        "Poisson(one).entropy()",
        "Uniform(two, one)",
        "Uniform(one, 2 * two).cdf(3 * two)",
        "Gamma(one, one).log_prob(-one)",
    ):
        names = {"torch": torch, "one": one, "two": two, **vars(t)}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                eval(text, names)
        except Exception as error:
            yield text, f"{type(error).__name__}: {error}".replace("torch.distributions.", "")
        else:
            yield text, "no error"


def numbers(torch: Any) -> dict[str, Any]:
    """Everything the cases tell: nested lists of numbers, and texts."""
    found: dict[str, Any] = {}
    for group in (
        of_distributions, of_mixtures, of_pairs, of_transforms, of_constraints, of_errors,
    ):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for name, value in group(torch):
                assert name not in found, name
                found[name] = value if isinstance(value, str) else value.detach().tolist()
    return found
