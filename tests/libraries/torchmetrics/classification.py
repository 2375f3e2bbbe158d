"""Metrics of classes: updated in steps, in collections, and as functions."""

import torch
import torchmetrics
from showing import show
from torchmetrics import functional as F

torch.manual_seed(0)
many = torchmetrics.MetricCollection({
    "accuracy": torchmetrics.classification.MulticlassAccuracy(5),
    "precision": torchmetrics.classification.MulticlassPrecision(5, average="macro"),
    "recall": torchmetrics.classification.MulticlassRecall(5, average="weighted"),
    "f1": torchmetrics.classification.MulticlassF1Score(5),
    "auroc": torchmetrics.classification.MulticlassAUROC(5),
    "average": torchmetrics.classification.MulticlassAveragePrecision(5),
    "confusion": torchmetrics.classification.MulticlassConfusionMatrix(5),
    "kappa": torchmetrics.classification.MulticlassCohenKappa(5),
    "calibration": torchmetrics.classification.MulticlassCalibrationError(5),
    "matthews": torchmetrics.classification.MulticlassMatthewsCorrCoef(5),
})  # fmt: skip
for _ in range(3):
    many.update(torch.randn(40, 5).softmax(1), torch.randint(0, 5, (40,)))
show(**many.compute())
scores, truth = torch.rand(50), torch.randint(0, 2, (50,))
show(auroc=F.auroc(scores, truth, task="binary"), jaccard=F.jaccard_index(scores, truth, "binary"))
show(curve=list(F.roc(scores, truth, task="binary", thresholds=5)))
tracker = torchmetrics.MeanMetric()
show(mean=[tracker(torch.tensor(value)) for value in (1.0, 4.0, 2.5)], all=tracker.compute())
