"""Evolution by EvoTorch: SNES, CEM, XNES, CMA-ES, PGPE on a function and on a network."""

import logging

import torch
from evotorch import Problem
from evotorch.algorithms import CEM, CMAES, GeneticAlgorithm, PGPE, SNES, XNES
from evotorch.operators import GaussianMutation, OnePointCrossOver

from showing import show

logging.disable(logging.CRITICAL)


def rastrigin(x):
    return 10 * x.shape[-1] + (x.square() - 10 * torch.cos(2 * torch.pi * x)).sum(-1)


def problem():
    return Problem(
        "min",
        rastrigin,
        solution_length=4,
        initial_bounds=(-3, 3),
        vectorized=True,
        seed=1,
        dtype=torch.float64,
    )


for name, make in {
    "snes": lambda p: SNES(p, stdev_init=1.0), "xnes": lambda p: XNES(p, stdev_init=1.0),
    "cem": lambda p: CEM(p, popsize=20, parenthood_ratio=0.5, stdev_init=1.0),
    "cmaes": lambda p: CMAES(p, stdev_init=1.0, popsize=12),
    "pgpe": lambda p: PGPE(p, popsize=20, center_learning_rate=0.1, stdev_learning_rate=0.1, stdev_init=1.0),
    "ga": lambda p: GeneticAlgorithm(p, popsize=20, operators=[OnePointCrossOver(p, tournament_size=4), GaussianMutation(p, stdev=0.1)]),
}.items():  # fmt: skip
    torch.manual_seed(0)
    search = make(problem())
    search.run(5)
    show(**{name: float(search.status["best_eval"]), f"{name}_best": search.status["best"].values})
