# mypy: ignore-errors
"""Losses of `nn.functional` and `nn` that are called less often, as they are compiled."""

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.library.functions import _reduction
from rushlight.jit.scripting.library.layers import forward_of

aten = torch.ops.aten


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    return torch.margin_ranking_loss(input1, input2, target, margin, _reduction(reduction))


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    return torch.hinge_embedding_loss(input, target, margin, _reduction(reduction))


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    return torch.cosine_embedding_loss(input1, input2, target, margin, _reduction(reduction))


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    return aten.soft_margin_loss(input, target, _reduction(reduction))


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    return torch.poisson_nll_loss(input, target, log_input, full, eps, _reduction(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return torch.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, _reduction(reduction)
    )


FUNCTIONS = (
    *(margin_ranking_loss, hinge_embedding_loss, cosine_embedding_loss, soft_margin_loss),
    *(poisson_nll_loss, triplet_margin_loss),
)
for _function in FUNCTIONS:
    _function._jit_override_qualname = f"__torch__.torch.nn.functional.{_function.__name__}"


@forward_of("MarginRankingLoss")
def margin_ranking(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
    return margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


@forward_of("HingeEmbeddingLoss")
def hinge_embedding(self, input: Tensor, target: Tensor) -> Tensor:
    return hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


@forward_of("CosineEmbeddingLoss")
def cosine_embedding(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
    return cosine_embedding_loss(
        input1, input2, target, margin=self.margin, reduction=self.reduction
    )


@forward_of("SoftMarginLoss")
def soft_margin(self, input: Tensor, target: Tensor) -> Tensor:
    return soft_margin_loss(input, target, reduction=self.reduction)


@forward_of("PoissonNLLLoss")
def poisson_nll(self, log_input: Tensor, target: Tensor) -> Tensor:
    return poisson_nll_loss(
        log_input,
        target,
        log_input=self.log_input,
        full=self.full,
        eps=self.eps,
        reduction=self.reduction,
    )


@forward_of("TripletMarginLoss")
def triplet_margin(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    return triplet_margin_loss(
        anchor,
        positive,
        negative,
        margin=self.margin,
        p=self.p,
        eps=self.eps,
        swap=self.swap,
        reduction=self.reduction,
    )


@forward_of("PairwiseDistance")
def pairwise_distance(self, x1: Tensor, x2: Tensor) -> Tensor:
    return torch.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@forward_of("ChannelShuffle")
def channel_shuffle(self, input: Tensor) -> Tensor:
    return torch.channel_shuffle(input, self.groups)


@forward_of("Softmax2d")
def softmax2d(self, input: Tensor) -> Tensor:
    if input.dim() not in (3, 4):
        raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
    return input.softmax(-3)


@forward_of("RNNCell")
def rnn_cell(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
    is_batched = input.dim() == 2
    if not is_batched:
        input = input.unsqueeze(0)
    if hx is None:
        hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
    elif not is_batched:
        hx = hx.unsqueeze(0)
    if self.nonlinearity == "tanh":
        result = torch.rnn_tanh_cell(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
    else:
        result = torch.rnn_relu_cell(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
    return result if is_batched else result.squeeze(0)
