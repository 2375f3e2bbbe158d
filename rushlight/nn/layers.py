"""Layers, activations and losses."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.opset.creation import create

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "BCELoss",
    "BCEWithLogitsLoss",
    "Bilinear",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "Flatten",
    "Hardtanh",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "NLLLoss",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Tanh",
    "Threshold",
    "Unflatten",
]  # fmt: skip


class Identity(Module):
    """Returns its input; takes any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """x Wᵀ + b.

    >>> import rushlight as torch
    >>> torch.nn.Linear(3, 2)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        place = {"device": device, "dtype": dtype}
        self.weight = Parameter(create.empty((out_features, in_features), **place))
        if bias:
            self.bias = Parameter(create.empty((out_features,), **place))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        return functions.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """x₁ᵀ W x₂ + b.

    >>> import rushlight as torch
    >>> torch.nn.Bilinear(2, 3, 4)(torch.ones(5, 2), torch.ones(5, 3)).shape
    torch.Size([5, 4])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        place = {"device": device, "dtype": dtype}
        size = (out_features, in1_features, in2_features)
        self.weight = Parameter(create.empty(size, **place))
        shift = Parameter(create.empty((out_features,), **place)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.in1_features <= 0:
            raise ValueError(
                f"in1_features must be > 0, but got (in1_features={self.in1_features})"
            )
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        return functions.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Table(Module):
    """What `Embedding` and `EmbeddingBag` share: a weight of one row for each index."""

    # torch: spelt in two ways in messages.
    padding_name = "padding_idx"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = F.padding_row(padding_idx, num_embeddings, self.padding_name)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse

    def set_weight(self, weight: Any, freeze: bool, device: Any, dtype: Any) -> None:
        """Take a given table, or make one."""
        size = (self.num_embeddings, self.embedding_dim)
        if weight is None:
            made = create.empty(size, device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not freeze)
            self.reset_parameters()
            return
        if tuple(weight.shape) != size:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)  # type: ignore[index]

    def shown_options(self, *names: str) -> str:
        """The sizes, and those of the named options that are not at their defaults."""
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        for name in names:
            value = getattr(self, name)
            if value is not None and value is not False and (name, value) != ("norm_type", 2):
                shown.append(f"{name}={value}")
        return ", ".join(shown)


def size_of_table(embeddings: Any) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return rows, columns


class Embedding(Table):
    """A table of vectors looked up by index."""

    padding_name = "Padding_idx"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse,
        )  # fmt: skip
        self.set_weight(_weight, _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A module over a given table, which is not trained unless `freeze=False`."""
        return cls(
            *size_of_table(embeddings), padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, embeddings, freeze,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        return self.shown_options(
            "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"
        )


class EmbeddingBag(Table):
    """Sums, means or maxima of bags of rows of a table."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse,
        )  # fmt: skip
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.set_weight(_weight, False, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A module over a given table, which is not trained unless `freeze=False`."""
        made = cls(
            *size_of_table(embeddings), max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            embeddings, include_last_offset, padding_idx,
        )  # fmt: skip
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        shown = self.shown_options("max_norm", "norm_type", "scale_grad_by_freq")
        shown += f", mode={self.mode!r}"
        return shown if self.padding_idx is None else f"{shown}, padding_idx={self.padding_idx}"


class DropoutKind(Module):
    """What the kinds of dropout share: a function of (input, p, training, inplace)."""

    function: Any

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(DropoutKind):
    """Zeroes elements at random while training."""

    function = staticmethod(F.dropout)


class Flatten(Module):
    """Joins a range of dims."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits a dim into several."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class FunctionModule(Module):
    """A module that is a function and the defaults of its options, in order."""

    function: Any
    options: tuple[tuple[str, Any], ...] = ()

    def chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The options with what the constructor was given; complains as a signature would."""
        names = [name for name, _ in self.options]
        call = f"{type(self).__name__}.__init__()"
        if len(args) > len(names):
            takes = f"from 1 to {len(names) + 1}" if names else "1"
            takes += " positional arguments" if names else " positional argument"
            raise TypeError(f"{call} takes {takes} but {len(args) + 1} were given")
        given = dict(zip(names, args, strict=False))
        for name in kwargs:
            if name not in names:
                raise TypeError(f"{call} got an unexpected keyword argument '{name}'")
            if name in given:
                raise TypeError(f"{call} got multiple values for argument '{name}'")
        return dict(self.options) | given | kwargs


def function_module(name: str, base: type, function: Any, doc: str, **fields: Any) -> Any:
    """A subclass of `base` with a function of its own."""
    made = {"function": staticmethod(function), "__doc__": doc, "__module__": __name__}
    return type(name, (base,), made | fields)


class Elementwise(FunctionModule):
    """An activation; its options print in order of their definition."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        for name, value in self.chosen(args, kwargs).items():
            setattr(self, name, value)

    def forward(self, input: Any) -> Any:
        return type(self).function(input, *[getattr(self, name) for name, _ in self.options])

    def extra_repr(self) -> str:
        return shown_with_inplace(self, *[name for name, _ in self.options if name != "inplace"])


def shown_with_inplace(module: Any, *names: str) -> str:
    """Attributes as `name=value`; `inplace` only where it is set."""
    shown = [f"{name}={getattr(module, name)!r}" for name in names]
    if getattr(module, "inplace", False):
        shown.append("inplace=True")
    return ", ".join(shown)


def activation(name: str, function: Any, doc: str, **options: Any) -> Any:
    """An activation module from a function and the defaults of its options."""
    return function_module(name, Elementwise, function, doc, options=tuple(options.items()))


def op_call(name: str) -> Any:
    return lambda input, *args: getattr(functions, name)(input, *args)


ReLU = activation("ReLU", F.relu, "max(x, 0).", inplace=False)
Sigmoid = activation("Sigmoid", op_call("sigmoid"), "1 / (1 + exp(-x)).")
Tanh = activation("Tanh", op_call("tanh"), "Hyperbolic tangent.")
GELU = activation(
    "GELU",
    lambda x, approximate: functions.gelu(x, approximate=approximate),
    "x Φ(x).",
    approximate="none",
)
SiLU = activation("SiLU", F.silu, "x · sigmoid(x).", inplace=False)
ELU = activation("ELU", F.elu, "Exponential linear unit.", alpha=1.0, inplace=False)
SELU = activation("SELU", F.selu, "Scaled exponential linear unit.", inplace=False)
LeakyReLU = activation(
    "LeakyReLU", F.leaky_relu, "x, or a fraction of it when negative.",
    negative_slope=0.01, inplace=False,
)  # fmt: skip
Softplus = activation(
    "Softplus", op_call("softplus"), "log(1 + exp(beta x)) / beta.", beta=1.0, threshold=20.0
)


def older_option(old: str, given: Any, new: str, value: Any) -> Any:
    """torch: the value of an option that may have been given by its older name."""
    if given is None:
        return value
    warnings.warn(
        f"keyword argument `{old}` is deprecated and renamed to `{new}`",
        FutureWarning,
        stacklevel=3,
    )
    return given


class Hardtanh(Module):
    """x clamped to a range."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        min_val = older_option("min_value", min_value, "min_val", min_val)
        max_val = older_option("max_value", max_value, "max_val", max_val)
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return shown_with_inplace(self, "min_val", "max_val")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return shown_with_inplace(self)


class Threshold(Module):
    """A fixed value where the input is not above the threshold."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return shown_with_inplace(self, "threshold", "value")


class AlongDim(Module):
    """A function of (input, dim)."""

    function: Any

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return type(self).function(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(AlongDim):
    """exp(x) normalised along a dim."""

    function = staticmethod(F.softmax)


class LogSoftmax(AlongDim):
    """The logarithm of `Softmax`."""

    function = staticmethod(F.log_softmax)


class Loss(FunctionModule):
    """A loss of (input, target) with a reduction; options that are tensors are buffers."""

    tensors = ("weight", "pos_weight")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        options = self.chosen(args, kwargs)
        older = options.pop("size_average", None), options.pop("reduce", None)
        if older != (None, None):
            options["reduction"] = F.legacy_reduction(*older)
        for name, value in options.items():
            if name in self.tensors:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def stored(self) -> dict[str, Any]:
        """The options as the function takes them."""
        names = [name for name, _ in self.options if name not in ("size_average", "reduce")]
        return {name: getattr(self, name) for name in names}

    def forward(self, input: Any, target: Any) -> Any:
        return type(self).function(input, target, **self.stored())


def loss(name: str, function: Any, doc: str, options: str, **defaults: Any) -> Any:
    """A loss module; `options` names the constructor's arguments in order."""
    known = {"size_average": None, "reduce": None, "reduction": "mean", "weight": None}
    known |= defaults
    pairs = tuple([(option, known[option]) for option in options.split()])
    return function_module(name, Loss, function, doc, options=pairs)


REDUCED = "size_average reduce reduction"

MSELoss = loss("MSELoss", F.mse_loss, "Mean squared difference.", REDUCED)
L1Loss = loss("L1Loss", F.l1_loss, "Mean absolute difference.", REDUCED)
SmoothL1Loss = loss(
    "SmoothL1Loss", F.smooth_l1_loss, "Quadratic near zero, linear beyond.",
    f"{REDUCED} beta", beta=1.0,
)  # fmt: skip
HuberLoss = loss(
    "HuberLoss", F.huber_loss, "Quadratic near zero, linear beyond.", "reduction delta", delta=1.0
)
KLDivLoss = loss(
    "KLDivLoss", F.kl_div, "Kullback-Leibler divergence.", f"{REDUCED} log_target",
    log_target=False,
)  # fmt: skip
BCELoss = loss("BCELoss", F.binary_cross_entropy, "Binary cross entropy.", f"weight {REDUCED}")
BCEWithLogitsLoss = loss(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, "Binary cross entropy of logits.",
    f"weight {REDUCED} pos_weight", pos_weight=None,
)  # fmt: skip
NLLLoss = loss(
    "NLLLoss", F.nll_loss, "Negative log likelihood.",
    "weight size_average ignore_index reduce reduction", ignore_index=-100,
)  # fmt: skip
CrossEntropyLoss = loss(
    "CrossEntropyLoss", F.cross_entropy, "Cross entropy of logits and classes.",
    "weight size_average ignore_index reduce reduction label_smoothing", ignore_index=-100,
    label_smoothing=0.0,
)  # fmt: skip
