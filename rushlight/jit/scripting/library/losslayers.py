# mypy: ignore-errors
"""Losses and distances of `nn` as they are compiled."""

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.library import losses as F
from rushlight.jit.scripting.library.layers import forward_of


@forward_of("CosineSimilarity")
def cosine_similarity(self, x1: Tensor, x2: Tensor) -> Tensor:
    return torch.cosine_similarity(x1, x2, self.dim, self.eps)


@forward_of("PairwiseDistance")
def pairwise_distance(self, x1: Tensor, x2: Tensor) -> Tensor:
    return torch.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@forward_of("CrossEntropyLoss")
def cross_entropy(self, input: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(
        input, target, weight=self.weight, ignore_index=self.ignore_index,
        reduction=self.reduction, label_smoothing=self.label_smoothing,
    )  # fmt: skip


@forward_of("NLLLoss")
def nll_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(
        input, target, weight=self.weight, ignore_index=self.ignore_index,
        reduction=self.reduction,
    )  # fmt: skip


@forward_of("MSELoss")
def mse_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(input, target, reduction=self.reduction)


@forward_of("L1Loss")
def l1_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.l1_loss(input, target, reduction=self.reduction)


@forward_of("SmoothL1Loss")
def smooth_l1_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


@forward_of("HuberLoss")
def huber_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


@forward_of("BCELoss")
def bce_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


@forward_of("BCEWithLogitsLoss")
def bce_with_logits(self, input: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(
        input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
    )


@forward_of("KLDivLoss")
def kl_div(self, input: Tensor, target: Tensor) -> Tensor:
    return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


@forward_of("CTCLoss")
def ctc_loss(
    self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
) -> Tensor:
    return F.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
        self.zero_infinity,
    )  # fmt: skip


@forward_of("PoissonNLLLoss")
def poisson_nll(self, log_input: Tensor, target: Tensor) -> Tensor:
    return F.poisson_nll_loss(
        log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
        reduction=self.reduction,
    )  # fmt: skip


@forward_of("GaussianNLLLoss")
def gaussian_nll(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
    return F.gaussian_nll_loss(
        input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
    )


@forward_of("HingeEmbeddingLoss")
def hinge_embedding(self, input: Tensor, target: Tensor) -> Tensor:
    return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


@forward_of("MultiLabelMarginLoss")
def multilabel_margin(self, input: Tensor, target: Tensor) -> Tensor:
    return F.multilabel_margin_loss(input, target, reduction=self.reduction)


@forward_of("SoftMarginLoss")
def soft_margin(self, input: Tensor, target: Tensor) -> Tensor:
    return F.soft_margin_loss(input, target, reduction=self.reduction)


@forward_of("MultiLabelSoftMarginLoss")
def multilabel_soft_margin(self, input: Tensor, target: Tensor) -> Tensor:
    return F.multilabel_soft_margin_loss(
        input, target, weight=self.weight, reduction=self.reduction
    )


@forward_of("MarginRankingLoss")
def margin_ranking(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
    return F.margin_ranking_loss(
        input1, input2, target, margin=self.margin, reduction=self.reduction
    )


@forward_of("CosineEmbeddingLoss")
def cosine_embedding(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
    return F.cosine_embedding_loss(
        input1, input2, target, margin=self.margin, reduction=self.reduction
    )


@forward_of("MultiMarginLoss")
def multi_margin(self, input: Tensor, target: Tensor) -> Tensor:
    return F.multi_margin_loss(
        input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
    )


@forward_of("TripletMarginLoss")
def triplet_margin(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    return F.triplet_margin_loss(
        anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps, swap=self.swap,
        reduction=self.reduction,
    )  # fmt: skip


@forward_of("TripletMarginWithDistanceLoss")
def triplet_margin_with_distance(
    self, anchor: Tensor, positive: Tensor, negative: Tensor
) -> Tensor:
    if anchor.dim() != positive.dim() or anchor.dim() != negative.dim():
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"  # noqa: E501
        )
    near = self.distance_function(anchor, positive)
    far = self.distance_function(anchor, negative)
    if self.swap:
        far = torch.minimum(far, self.distance_function(positive, negative))
    return F.reduced((self.margin + near - far).clamp_min(0), self.reduction)
