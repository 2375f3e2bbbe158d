"""What is drawn for the recordings of torch: programs over `m`, which is torch or rushlight.

`CASES` maps a name to (draw(m, n, dtype), dtypes, sizes, scale). A scale of None asks for equal
bits. Otherwise the recipe has a transcendental function: values may differ by two units in the last
place of the value, or of `scale` where a shift cancels.
"""

from __future__ import annotations

import hashlib

import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")
WIDE = ("float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
COMPLEX = ("complex64", "complex128")
SIZES = (1, 15, 16, 17, 1000, 100003)
SMALL = SIZES[:-1]

CASES = {}


def case(name, draw, dtypes=WIDE, sizes=SIZES, scale=None):
    CASES[name] = (draw, dtypes, sizes, scale)


def turned(m, n, dtype):
    return m.empty(3, n, dtype=dtype).t()


def weights(m, n, dtype):
    return m.rand(n, dtype=dtype) + 0.01


case("rand", lambda m, n, d: m.rand(n, dtype=d), (*FLOATS, *COMPLEX))
case("rand_like", lambda m, n, d: m.rand_like(m.empty(n, dtype=d)), FLOATS)
case("rand_like turned", lambda m, n, d: m.rand_like(turned(m, n, d)), FLOATS, SMALL)
case(
    "rand_like channels_last",
    lambda m, n, d: m.rand_like(m.empty(2, 3, n, 2, dtype=d).to(memory_format=m.channels_last)),
    sizes=SMALL,
)
case("randn", lambda m, n, d: m.randn(n, dtype=d), (*FLOATS, *COMPLEX), scale=0.0)
case("randn_like", lambda m, n, d: m.randn_like(m.empty(n, dtype=d)), FLOATS, SMALL, 0.0)
case("randn_like turned", lambda m, n, d: m.randn_like(turned(m, n, d)), FLOATS, SMALL, 0.0)
case("randint", lambda m, n, d: m.randint(10, (n,), dtype=d), (*FLOATS, *INTEGERS))
case("randint low", lambda m, n, d: m.randint(-7, 120, (n,), dtype=d), INTEGERS[1:])
case("randint 2**28 - 1", lambda m, n, d: m.randint(2**28 - 1, (n,), dtype=d), ("int64", "int32"))
case("randint 2**28", lambda m, n, d: m.randint(2**28, (n,), dtype=d), ("int64", "int32"))
case("randint wide", lambda m, n, d: m.randint(-5, 2**40, (n,), dtype=d), ("int64", "float64"))
case("randint_like", lambda m, n, d: m.randint_like(turned(m, n, d), 100), ("int64",), SMALL)
case("randperm", lambda m, n, d: m.randperm(n, dtype=d), ("int64", "int32"))
case("random_", lambda m, n, d: m.empty(n, dtype=d).random_(), (*FLOATS, *INTEGERS, "bool"))
case("random_ to", lambda m, n, d: m.empty(n, dtype=d).random_(100), (*FLOATS, *INTEGERS))
case("random_ from", lambda m, n, d: m.empty(n, dtype=d).random_(3, None), ("uint8", "int32"))
case("random_ all", lambda m, n, d: m.empty(n, dtype=d).random_(-(2**63), None), ("int64",))
case("uniform_", lambda m, n, d: m.empty(n, dtype=d).uniform_(-0.3, 0.77), FLOATS)
case("uniform_ turned", lambda m, n, d: turned(m, n, d).uniform_(-1, 3), FLOATS, SMALL)
case("normal_", lambda m, n, d: m.empty(n, dtype=d).normal_(1.5, 0.3), FLOATS, scale=1.5)
case("normal_ turned", lambda m, n, d: turned(m, n, d).normal_(0.5, 2), FLOATS, SMALL, 0.5)
case("normal_ column", lambda m, n, d: m.empty(n, 2, dtype=d)[:, 1].normal_(), WIDE, SIZES, 0.0)
case("normal numbers", lambda m, n, d: m.normal(0.3, 0.7, (n,), dtype=d), FLOATS, SIZES, 0.3)
case("normal mean", lambda m, n, d: m.normal(m.ones(n, dtype=d), 0.7), FLOATS, SIZES, 1.0)
case("normal std", lambda m, n, d: m.normal(0.3, m.rand(n, dtype=d)), FLOATS, SIZES, 1.0)
case(
    "normal both",
    lambda m, n, d: m.normal(m.rand(n, dtype=d), m.rand(n, dtype=d)),
    FLOATS,
    SIZES,
    1.0,
)
case("bernoulli", lambda m, n, d: m.bernoulli(m.rand(n, dtype=d)), FLOATS)
case("bernoulli p", lambda m, n, d: m.bernoulli(m.empty(n, dtype=d), 0.7), (*WIDE, "int64"))
case("bernoulli_", lambda m, n, d: m.empty(n, dtype=d).bernoulli_(0.3), (*FLOATS, "bool", "int32"))
case("bernoulli_ turned", lambda m, n, d: turned(m, n, d).bernoulli_(0.5), sizes=SMALL)
case(
    "bernoulli_ tensor",
    lambda m, n, d: turned(m, n, d).bernoulli_(m.rand(n, 3, dtype=d)),
    FLOATS,
    SMALL,
)
case("exponential_", lambda m, n, d: m.empty(n, dtype=d).exponential_(1.5), FLOATS, scale=0.0)
case("cauchy_", lambda m, n, d: m.empty(n, dtype=d).cauchy_(0.5, 2.0), FLOATS, scale=0.5)
case("log_normal_", lambda m, n, d: m.empty(n, dtype=d).log_normal_(0.1, 0.5), FLOATS, scale=0.0)
case("geometric_", lambda m, n, d: m.empty(n, dtype=d).geometric_(0.3), (*FLOATS, *INTEGERS))
case("dropout", lambda m, n, d: m.nn.functional.dropout(m.ones(n, dtype=d), 0.3), FLOATS)
case(
    "dropout turned",
    lambda m, n, d: m.nn.functional.dropout(m.ones(3, n, dtype=d).t(), 0.3),
    sizes=SMALL,
)
case("native_dropout", lambda m, n, d: m.native_dropout(m.ones(n, dtype=d), 0.3, True)[0])
case("alpha_dropout", lambda m, n, d: m.alpha_dropout(m.ones(n, dtype=d), 0.3, True), scale=1.0)
case("dropout1d", lambda m, n, d: m.nn.functional.dropout1d(m.ones(2, n, 2, dtype=d), 0.3))
case(
    "rrelu",
    lambda m, n, d: m.nn.functional.rrelu(m.arange(n).to(d) - n // 2, training=True),
    ("float32", "float64", "bfloat16"),
)
case("poisson", lambda m, n, d: m.poisson(m.full((n,), 3.0, dtype=d)), FLOATS)
case("poisson large", lambda m, n, d: m.poisson(m.rand(n, dtype=d) * 60))
case("binomial", lambda m, n, d: m.binomial(m.full((n,), 9.0, dtype=d), m.rand(n, dtype=d)))
case("binomial large", lambda m, n, d: m.binomial(m.full((n,), 90.0, dtype=d), m.rand(n, dtype=d)))
case("gamma", lambda m, n, d: m._standard_gamma(m.rand(n, dtype=d) * 3), scale=0.0)
case("dirichlet", lambda m, n, d: m._sample_dirichlet(m.rand(n, 3, dtype=d) * 3), scale=0.0)
case("multinomial one", lambda m, n, d: m.multinomial(weights(m, n, d), 1))
case("multinomial many", lambda m, n, d: m.multinomial(weights(m, n, d), (n + 3) // 4), sizes=SMALL)
case("multinomial back", lambda m, n, d: m.multinomial(weights(m, 7, d), n, True), FLOATS)
case(
    "multinomial rows",
    lambda m, n, d: m.multinomial(weights(m, 5 * n, d).reshape(n, 5).t(), (n + 1) // 2),
    sizes=SMALL,
)


# Distributions: parameters are of the default dtype.
def distribution(name, make, scale=0.0, sizes=SMALL):
    def draw(m, n, dtype):
        def tensor(*values):
            return m.tensor(values, dtype=dtype)

        return make(m, m.distributions, tensor).sample((n,))

    case(name, draw, ("float32",), sizes, scale)


distribution("Normal", lambda m, d, t: d.Normal(t(0.1, 0.2), t(1.0, 2.0)), 1.0)
distribution("Uniform", lambda m, d, t: d.Uniform(t(0.0, 1.0), t(2.0, 3.0)), None)
distribution("Beta", lambda m, d, t: d.Beta(t(0.5, 2.0), t(1.5, 3.0)))
distribution("Gamma", lambda m, d, t: d.Gamma(t(0.5, 2.0), t(1.5, 3.0)))
distribution("Dirichlet", lambda m, d, t: d.Dirichlet(t(0.5, 2.0, 3.0)))
distribution("Bernoulli", lambda m, d, t: d.Bernoulli(t(0.3, 0.6)), None)
distribution("Binomial", lambda m, d, t: d.Binomial(10, t(0.3, 0.6)), None)
distribution("Categorical", lambda m, d, t: d.Categorical(t(0.3, 0.6, 0.1)), None)
distribution("Cauchy", lambda m, d, t: d.Cauchy(t(0.3, 0.6), t(1.0, 2.0)), 1.0)
distribution("Chi2", lambda m, d, t: d.Chi2(t(3.0, 4.0)))
distribution("Exponential", lambda m, d, t: d.Exponential(t(1.0, 2.0)))
distribution("Geometric", lambda m, d, t: d.Geometric(t(0.3, 0.6)), None)
distribution("HalfNormal", lambda m, d, t: d.HalfNormal(t(1.0, 2.0)))
distribution("Multinomial", lambda m, d, t: d.Multinomial(7, t(0.2, 0.3, 0.5)), None)
distribution("NegativeBinomial", lambda m, d, t: d.NegativeBinomial(t(3.0, 4.0), t(0.3, 0.6)), None)
distribution("Poisson", lambda m, d, t: d.Poisson(t(3.0, 40.0)), None)
distribution("OneHotCategorical", lambda m, d, t: d.OneHotCategorical(t(0.2, 0.8)), None)


def initial(name, fill, scale=None):
    case(name, lambda m, n, d: fill(m.nn.init, m.empty(n, 4, dtype=d)), FLOATS, SMALL, scale)


initial("init.uniform_", lambda init, t: init.uniform_(t, -1, 1))
initial("init.normal_", lambda init, t: init.normal_(t, 0.1, 0.5), 0.1)
initial("init.trunc_normal_", lambda init, t: init.trunc_normal_(t, std=1.5), 0.0)
initial("init.trunc_normal_ tail", lambda init, t: init.trunc_normal_(t, 0.0, 1.0, 3.0, 4.0))
initial("init.xavier_uniform_", lambda init, t: init.xavier_uniform_(t, 2.0))
initial("init.xavier_normal_", lambda init, t: init.xavier_normal_(t), 0.0)
initial("init.kaiming_uniform_", lambda init, t: init.kaiming_uniform_(t, 0.3))
initial("init.kaiming_normal_", lambda init, t: init.kaiming_normal_(t, mode="fan_out"), 0.0)
initial("init.sparse_", lambda init, t: init.sparse_(t, 0.3), 0.0)


# Every layer that has random parameters, as arguments of its class.
LAYERS = {
    "Linear": (7, 5), "Bilinear": (3, 4, 5), "Conv1d": (3, 4, 3), "Conv2d": (3, 6, 3),
    "Conv3d": (2, 3, 2), "ConvTranspose1d": (3, 4, 3), "ConvTranspose2d": (3, 6, 3),
    "ConvTranspose3d": (2, 3, 2), "Embedding": (11, 5, 2), "EmbeddingBag": (11, 5),
    "RNN": (5, 4, 2), "LSTM": (5, 4, 2), "GRU": (5, 4, 2), "RNNCell": (5, 4), "LSTMCell": (5, 4),
    "GRUCell": (5, 4), "MultiheadAttention": (8, 2), "TransformerEncoderLayer": (8, 2, 16),
    "TransformerDecoderLayer": (8, 2, 16), "Transformer": (8, 2, 1, 1, 16),
    "AdaptiveLogSoftmaxWithLoss": (8, 20, [4, 10]), "BatchNorm2d": (4,), "LayerNorm": (4,),
    "GroupNorm": (2, 4), "RMSNorm": (4,), "PReLU": (3,),
}  # fmt: skip


def layer_parameters(m, name):
    """The parameters of a layer made after seeding, one after another."""
    m.manual_seed(3)
    layer = getattr(m.nn, name)(*LAYERS[name])
    return m.cat([value.detach().float().reshape(-1) for value in layer.state_dict().values()])


def drawn(m, name, dtype, n):
    """(values, fingerprint of the state after the draw)."""
    m.manual_seed(7)
    m.randn(3)  # leaves a normal value behind
    values = CASES[name][0](m, n, getattr(m, dtype))
    return values, state_fingerprint(m)


def state_fingerprint(m):
    # The value that is kept back may differ in its last bit.
    raw = bytearray(m.get_rng_state().numpy().tobytes())
    raw[5024:5032] = bytes(8)
    return hashlib.sha256(raw).hexdigest()[:8]


def array_of(m, tensor):
    found = (tensor.float() if tensor.dtype == m.bfloat16 else tensor).detach().numpy()
    found = np.ascontiguousarray(found)
    return found.view(found.real.dtype) if found.dtype.kind == "c" else found


def bits_fingerprint(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def picked(array):
    """Some of the values, and their sum."""
    flat = array.reshape(-1).astype(np.float64)
    places = np.unique(np.linspace(0, flat.size - 1, 10).astype(int)) if flat.size else []
    return [*flat[places].tolist(), float(flat.sum())]
