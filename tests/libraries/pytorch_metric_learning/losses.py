"""pytorch-metric-learning: losses, miners, distances and accuracies."""

import torch
from pytorch_metric_learning import distances, losses, miners, reducers
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from showing import show

torch.manual_seed(0)
x = torch.randn(16, 8, requires_grad=True)
labels = torch.arange(16) % 4
NAMES = (
    "TripletMarginLoss ContrastiveLoss NTXentLoss SupConLoss MultiSimilarityLoss CircleLoss "
    "NPairsLoss LiftedStructureLoss AngularLoss FastAPLoss IntraPairVarianceLoss"
)
for name in NAMES.split():
    loss = getattr(losses, name)()(x, labels)
    (grad,) = torch.autograd.grad(loss, x)
    show(**{name: loss, f"{name}_grad": grad})
for name in ("ArcFaceLoss", "CosFaceLoss", "ProxyAnchorLoss", "NormalizedSoftmaxLoss"):
    torch.manual_seed(1)
    show(**{name: getattr(losses, name)(4, 8)(x, labels)})
pairs = miners.MultiSimilarityMiner(epsilon=0.1)(x, labels)
triplets = miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")(x, labels)
show(pairs=[len(p) for p in pairs], triplets=[len(t) for t in triplets])
mined = losses.TripletMarginLoss(
    distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(0.1)
)
show(mined=mined(x, labels, triplets), lp=distances.LpDistance()(x))
