import torch


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, picture, index):
        for step in self.steps:
            picture = step(picture, index)
        return picture


class Noise:
    def __init__(self, strength):
        self.strength = strength

    def __call__(self, picture, index):
        noise = (torch.arange(picture.numel()) * 1.9 + index).sin().view_as(picture)
        return picture + self.strength * noise


class Normalize:
    def __call__(self, picture, index):
        return (picture - picture.mean()) / picture.std()
