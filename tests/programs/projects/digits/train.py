"""`python -m digits.train [--model NAME] [--steps N]`"""

import argparse
import sys

import torch
from torch.utils.data import DataLoader

from . import __version__, models
from .config import Config
from .data import Compose, Noise, Normalize, Segments
from .engine import evaluate, initialise, train


def parse(argv=None):
    parser = argparse.ArgumentParser(prog="digits.train")
    parser.add_argument("--model", choices=models.names(), default=Config.model)
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--lr", type=float, default=Config.lr)
    return Config(**vars(parser.parse_args(argv)))


def main(argv=None):
    config = parse(argv)
    print(f"digits {__version__}: {config.describe()}")
    print(__name__, __package__, sys.argv[0].rpartition("/")[2])
    model = models.build(config.model, config)
    initialise(model)
    print(model)
    loader = DataLoader(Segments(4, Compose(Noise(0.3), Normalize())), batch_size=20)
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr, momentum=0.9)
    for step, loss in train(model, loader, optimizer, config.steps):
        print(f"step {step} loss {loss:.5f}")
    held_out = DataLoader(Segments(1, Compose(Noise(0.1), Normalize())), batch_size=5)
    print(f"accuracy {evaluate(model, held_out):.2f}")


if __name__ == "__main__":
    main()
