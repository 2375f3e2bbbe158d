"""Layers, activations and losses."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "BCELoss",
    "BCEWithLogitsLoss",
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
        self.weight = Parameter(functions.empty((out_features, in_features), **place))
        if bias:
            self.bias = Parameter(functions.empty((out_features,), **place))
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


class Embedding(Module):
    """A table of vectors looked up by index."""

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
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            made = functions.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Embedding:
        """A module over a given table, which is not trained unless `freeze=False`."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze, **options)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            from rushlight.autograd.grad_mode import no_grad

            with no_grad():
                self.weight[self.padding_idx].fill_(0)  # type: ignore[index]

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
        shown = f"{self.num_embeddings}, {self.embedding_dim}"
        return shown if self.padding_idx is None else f"{shown}, padding_idx={self.padding_idx}"


class EmbeddingBag(Module):
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
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            made = functions.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(made)
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            from rushlight.autograd.grad_mode import no_grad

            with no_grad():
                self.weight[self.padding_idx].fill_(0)  # type: ignore[index]

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

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, **options: Any) -> Any:
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        made = cls(rows, width, _weight=embeddings, **options)
        made.weight.requires_grad = not freeze
        return made

    def extra_repr(self) -> str:
        shown = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            shown += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            shown += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            shown += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        shown += f", mode={self.mode!r}"
        return shown if self.padding_idx is None else f"{shown}, padding_idx={self.padding_idx}"


class Dropout(Module):
    """Zeroes elements at random while training."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


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
    """A module that is a function and the defaults of its options."""

    function: Any
    options: tuple[tuple[str, Any], ...] = ()

    def chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The options with what the constructor was given."""
        names = [name for name, _ in self.options]
        if set(kwargs) - set(names) or len(args) > len(names):
            raise TypeError(
                f"{type(self).__name__}.__init__() takes the arguments {names}, got "
                f"{len(args)} positional and {sorted(kwargs)}"
            )
        return dict(self.options) | dict(zip(names, args, strict=False)) | kwargs


class Elementwise(FunctionModule):
    """An activation; its options print in order of their definition."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        for name, value in self.chosen(args, kwargs).items():
            setattr(self, name, value)

    def forward(self, input: Any) -> Any:
        return type(self).function(input, *[getattr(self, name) for name, _ in self.options])

    def extra_repr(self) -> str:
        shown = [
            f"{name}={getattr(self, name)}"
            for name, default in self.options
            if name != "inplace" or getattr(self, name)
        ]
        return ", ".join(shown)


def activation(name: str, function: Any, doc: str, **options: Any) -> Any:
    """An activation module from a function and the defaults of its options."""
    return type(
        name,
        (Elementwise,),
        {
            "function": staticmethod(function),
            "options": tuple(options.items()),
            "__doc__": doc,
            "__module__": __name__,
        },
    )


def op_call(name: str) -> Any:
    return lambda input, *args: getattr(functions, name)(input, *args)


def inplace_call(name: str) -> Any:
    """An op with an `inplace` option as its last argument."""

    def run(input: Any, *args: Any) -> Any:
        *rest, inplace = args
        found = name + "_" if inplace else name
        return getattr(input, found)(*rest) if inplace else getattr(functions, name)(input, *rest)

    return run


ReLU = activation("ReLU", inplace_call("relu"), "max(x, 0).", inplace=False)
ReLU6 = activation("ReLU6", lambda x, inplace: x.clamp(0, 6), "min(max(x, 0), 6).", inplace=False)
Sigmoid = activation("Sigmoid", op_call("sigmoid"), "1 / (1 + exp(-x)).")
Tanh = activation("Tanh", op_call("tanh"), "Hyperbolic tangent.")
GELU = activation(
    "GELU",
    lambda x, approximate: functions.gelu(x, approximate=approximate),
    "x Φ(x).",
    approximate="none",
)
SiLU = activation("SiLU", inplace_call("silu"), "x · sigmoid(x).", inplace=False)
ELU = activation(
    "ELU", lambda x, alpha, inplace: functions.elu(x, alpha), "Exponential linear unit.",
    alpha=1.0, inplace=False,
)  # fmt: skip
SELU = activation("SELU", inplace_call("selu"), "Scaled exponential linear unit.", inplace=False)
LeakyReLU = activation(
    "LeakyReLU", inplace_call("leaky_relu"), "x, or a fraction of it when negative.",
    negative_slope=0.01, inplace=False,
)  # fmt: skip
Softplus = activation(
    "Softplus", op_call("softplus"), "log(1 + exp(beta x)) / beta.", beta=1.0, threshold=20.0
)
Hardtanh = activation(
    "Hardtanh", inplace_call("hardtanh"), "x clamped to a range.",
    min_val=-1.0, max_val=1.0, inplace=False,
)  # fmt: skip


class Threshold(Module):
    """A fixed value where the input is not above the threshold."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class Softmax(Module):
    """exp(x) normalised along a dim."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """The logarithm of `Softmax`."""

    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim)


class Loss(FunctionModule):
    """A loss of (input, target) with a reduction; the options in `tensors` are buffers."""

    tensors: tuple[str, ...] = ()

    def __init__(
        self,
        *args: Any,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        for name, value in self.chosen(args, kwargs).items():
            if name in self.tensors:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self.reduction = reduction

    def forward(self, input: Any, target: Any) -> Any:
        options = {name: getattr(self, name) for name, _ in self.options}
        return type(self).function(input, target, reduction=self.reduction, **options)


def loss(name: str, function: Any, doc: str, tensors: Any = (), **options: Any) -> Any:
    return type(
        name,
        (Loss,),
        {
            "function": staticmethod(function),
            "options": tuple(options.items()),
            "tensors": tuple(tensors),
            "__doc__": doc,
            "__module__": __name__,
        },
    )


MSELoss = loss("MSELoss", F.mse_loss, "Mean squared difference.")
L1Loss = loss("L1Loss", F.l1_loss, "Mean absolute difference.")
SmoothL1Loss = loss(
    "SmoothL1Loss", F.smooth_l1_loss, "Quadratic near zero, linear beyond.", beta=1.0
)
HuberLoss = loss("HuberLoss", F.huber_loss, "Quadratic near zero, linear beyond.", delta=1.0)
KLDivLoss = loss("KLDivLoss", F.kl_div, "Kullback-Leibler divergence.", log_target=False)
BCELoss = loss("BCELoss", F.binary_cross_entropy, "Binary cross entropy.", ("weight",), weight=None)
BCEWithLogitsLoss = loss(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, "Binary cross entropy of logits.",
    ("weight", "pos_weight"), weight=None, pos_weight=None,
)  # fmt: skip
NLLLoss = loss(
    "NLLLoss", F.nll_loss, "Negative log likelihood.", ("weight",), weight=None, ignore_index=-100
)
CrossEntropyLoss = loss(
    "CrossEntropyLoss", F.cross_entropy, "Cross entropy of logits and classes.", ("weight",),
    weight=None, ignore_index=-100, label_smoothing=0.0,
)  # fmt: skip
