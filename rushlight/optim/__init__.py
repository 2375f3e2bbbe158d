"""Optimisers: torch's public names. All classes are there from the start, for programs that look
through `torch.optim.__dict__`."""

from __future__ import annotations

from rushlight.base.lazy import namespace
from rushlight.optim import lr_scheduler as lr_scheduler
from rushlight.optim.adadelta import Adadelta
from rushlight.optim.adafactor import Adafactor
from rushlight.optim.adagrad import Adagrad
from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.adamax import Adamax
from rushlight.optim.asgd import ASGD
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.muon import Muon
from rushlight.optim.nadam import NAdam
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.radam import RAdam
from rushlight.optim.rmsprop import RMSprop
from rushlight.optim.rprop import Rprop
from rushlight.optim.sgd import SGD
from rushlight.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

__getattr__, __dir__ = namespace(__name__, modules=("swa_utils",))
