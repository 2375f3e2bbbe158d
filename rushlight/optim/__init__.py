"""Optimisers: torch's public names."""

from __future__ import annotations

from typing import Any

from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.sgd import SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

# Those that few programs use, by module.
OTHERS = {
    "ASGD": "asgd", "LBFGS": "lbfgs", "Adadelta": "adadelta", "Adafactor": "adafactor",
    "Adagrad": "adagrad", "Adamax": "adamax", "Muon": "muon", "NAdam": "nadam", "RAdam": "radam",
    "RMSprop": "rmsprop", "Rprop": "rprop", "SparseAdam": "sparse_adam",
}  # fmt: skip
SUBMODULES = ("lr_scheduler", "swa_utils")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in SUBMODULES:
        return import_module(f"rushlight.optim.{name}")
    if name not in OTHERS:
        raise AttributeError(f"module 'rushlight.optim' has no attribute '{name}'")
    found = getattr(import_module(f"rushlight.optim.{OTHERS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
