"""Optimisers: torch's public names."""

from __future__ import annotations

from rushlight.base.lazy import namespace
from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.sgd import SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

# Those that few programs use, by module.
OTHERS = {
    "ASGD": ".asgd", "LBFGS": ".lbfgs", "Adadelta": ".adadelta", "Adafactor": ".adafactor",
    "Adagrad": ".adagrad", "Adamax": ".adamax", "Muon": ".muon", "NAdam": ".nadam",
    "RAdam": ".radam", "RMSprop": ".rmsprop", "Rprop": ".rprop", "SparseAdam": ".sparse_adam",
}  # fmt: skip

__getattr__, __dir__ = namespace(__name__, OTHERS, ("lr_scheduler", "swa_utils"))
