"""Losses and distances. Those that are a function with stored options come from tables."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise
from typing import Any, NamedTuple

from rushlight.nn import functional as F
from rushlight.nn.containers import ModuleList, Sequential
from rushlight.nn.functional.loss import legacy_reduction
from rushlight.nn.functionmodule import FunctionModule, function_module
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = [
    "AdaptiveLogSoftmaxWithLoss", "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss",
    "CosineSimilarity", "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss",
    "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
    "PairwiseDistance", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class Loss(FunctionModule):
    """A loss of (input, target) with a reduction; options that are tensors are buffers."""

    tensors = ("weight", "pos_weight")
    options = (("size_average", None), ("reduce", None), ("reduction", "mean"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        options = self.chosen(args, kwargs)
        older = options.pop("size_average", None), options.pop("reduce", None)
        if older != (None, None):
            options["reduction"] = legacy_reduction(*older)
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


class WeightedLoss(Loss):
    """A loss with a weight for each class."""

    options = (("weight", None), *Loss.options)


def loss(name: str, function: Any, doc: str, options: str, **defaults: Any) -> Any:
    """A loss module; `options` names the constructor's arguments in order."""
    known = {"size_average": None, "reduce": None, "reduction": "mean", "weight": None}
    known |= defaults
    pairs = tuple([(option, known[option]) for option in options.split()])
    has_weights = options.startswith("weight ") and "pos_weight" not in defaults
    base = WeightedLoss if has_weights else Loss
    return function_module(name, __name__, base, function, doc, options=pairs)


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


class OfThree(Loss):
    """A loss of three tensors."""

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return type(self).function(input1, input2, target, **self.stored())


def of_three(name: str, function: Any, doc: str, **options: Any) -> Any:
    pairs = (*options.items(), ("size_average", None), ("reduce", None), ("reduction", "mean"))
    return function_module(name, __name__, OfThree, function, doc, options=pairs)


SoftMarginLoss = loss("SoftMarginLoss", F.soft_margin_loss, "log(1 + exp(-y x)).", REDUCED)
MultiLabelMarginLoss = loss(
    "MultiLabelMarginLoss", F.multilabel_margin_loss, "Margin between right and wrong classes.",
    REDUCED,
)  # fmt: skip
MultiLabelSoftMarginLoss = loss(
    "MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, "Binary cross entropy by class.",
    f"weight {REDUCED}",
)  # fmt: skip
HingeEmbeddingLoss = loss(
    "HingeEmbeddingLoss", F.hinge_embedding_loss, "Distances, or what they lack of a margin.",
    f"margin {REDUCED}", margin=1.0,
)  # fmt: skip
CosineEmbeddingLoss = of_three(
    "CosineEmbeddingLoss", F.cosine_embedding_loss, "Angles of pairs.", margin=0.0
)
MarginRankingLoss = of_three(
    "MarginRankingLoss", F.margin_ranking_loss, "Order of pairs.", margin=0.0
)


class NLLLoss2d(NLLLoss):
    """torch: the older name of `NLLLoss`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement and see https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more "
            "details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class PoissonNLLLoss(Loss):
    """Likelihood of counts."""

    function = staticmethod(F.poisson_nll_loss)
    options = (
        ("log_input", True), ("full", False), ("size_average", None), ("eps", 1e-8),
        ("reduce", None), ("reduction", "mean"),
    )  # fmt: skip

    def forward(self, log_input: Any, target: Any) -> Any:
        return super().forward(log_input, target)


class MultiMarginLoss(Loss):
    """What the right class lacks of a margin over the others."""

    function = staticmethod(F.multi_margin_loss)
    options = (
        ("p", 1), ("margin", 1.0), ("weight", None), ("size_average", None), ("reduce", None),
        ("reduction", "mean"),
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if self.weight is not None and self.weight.dim() != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, got "
                f"{self.weight.dim()}D instead"
            )


class TripletMarginLoss(OfThree):
    """How much farther an anchor is from its like than from another, beyond a margin."""

    function = staticmethod(F.triplet_margin_loss)
    options = (
        ("margin", 1.0), ("p", 2.0), ("eps", 1e-6), ("swap", False), ("size_average", None),
        ("reduce", None), ("reduction", "mean"),
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_margin(self)

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return super().forward(anchor, positive, negative)


def check_margin(module: Any) -> None:
    if module.margin <= 0:
        raise ValueError(
            f"{type(module).__name__}: expected margin to be greater than 0, got {module.margin} "
            "instead"
        )


class TripletMarginWithDistanceLoss(OfThree):
    """`TripletMarginLoss` with a distance of the caller's."""

    function = staticmethod(F.triplet_margin_with_distance_loss)
    options = (
        ("distance_function", None), ("margin", 1.0), ("swap", False), ("reduction", "mean"),
    )  # fmt: skip

    def __init__(
        self,
        *,
        distance_function: Any = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        distance = PairwiseDistance() if distance_function is None else distance_function
        super().__init__(distance, margin, swap, reduction)
        check_margin(self)

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return super().forward(anchor, positive, negative)


class GaussianNLLLoss(OfThree):
    """Likelihood of targets under normal distributions."""

    function = staticmethod(F.gaussian_nll_loss)
    options = (("full", False), ("eps", 1e-6), ("reduction", "mean"))

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(full, eps, reduction)

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        return super().forward(input, target, var)


class LinearCrossEntropyLoss(Loss):
    """A linear layer and the cross entropy of its logits."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__()
        self.register_buffer("weight", weight)
        self.reduction = reduction
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        outputs = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Any, target: Any) -> Any:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        names = ("num_classes", "out_features", "reduction", "ignore_index", "label_smoothing")
        shown = [f"{name}={getattr(self, name)}" for name in (*names, "options")]
        shown.insert(0, f"in_features={self.linear.in_features}")
        shown.insert(3, f"bias={self.linear.bias is not None}")
        return ", ".join(shown)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dim."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        return functions.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference of vectors."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        return functions.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class _ASMoutput(NamedTuple):
    """Log probabilities of the targets, and their mean, negated."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax over many classes: rare ones lie in clusters with projections of their own."""

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Any,
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(cutoff) != cutoff for cutoff in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(pairwise(self.cutoffs), 1):
            width = int(in_features // div_value**number)
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **place),
                    Linear(width, high - low, bias=False, **place),
                )
            )

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in projection:
                layer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        batched = check_targets(input_, target_)
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        result = input.new_zeros(target.shape[0])
        column = target.clone()
        used = int((target.ge(0) & (target < self.shortlist_size)).sum())
        for number, (low, high) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            values = F.log_softmax(self.tail[number](input.index_select(0, rows)), 1)
            local = values.gather(1, (target.index_select(0, rows) - low).unsqueeze(1))
            column = column.index_fill(0, rows, self.shortlist_size + number)
            result = result.index_copy(0, rows, local.squeeze(1))
            used += rows.numel()
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), 1)
        result = result + head.gather(1, column.unsqueeze(1)).squeeze(1)
        return _ASMoutput(result if batched else result.squeeze(0), (-result).mean())

    def from_head(self, input: Any, head_output: Any) -> Any:
        """Log probabilities of all classes."""
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for number, projection in enumerate(self.tail):
            chosen = head[:, self.shortlist_size + number].unsqueeze(1)
            parts.append(F.log_softmax(projection(input), 1) + chosen)
        return functions.cat(parts, 1)

    def log_prob(self, input: Any) -> Any:
        return self.from_head(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The likeliest class of each row; clusters are looked into only where they win."""
        head_output = self.head(input)
        result = head_output.argmax(1)
        rows = (result >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel() == 0:
            return result
        full = self.from_head(input.index_select(0, rows), head_output.index_select(0, rows))
        return result.index_copy(0, rows, full.argmax(1))


def check_targets(input: Any, target: Any) -> bool:
    """Whether they are a batch; complains about sizes that do not fit."""
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() and input.shape[0] != target.shape[0]:
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with size {input.size()}"
        )
    return target.dim() > 0
