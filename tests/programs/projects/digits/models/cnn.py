from torch import nn

from ..config import Config
from .registry import register


@register("cnn")
class CNN(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        first, second = config.channels
        self.conv1 = nn.Conv2d(1, first, 3, padding=1)
        self.conv2 = nn.Conv2d(first, second, 3, padding=1, groups=2)
        self.act = nn.ReLU()
        self.pool = nn.AdaptiveMaxPool2d((3, 2))
        self.head = nn.Linear(second * 6, 10)

    def forward(self, x):
        x = self.act(self.conv1(x))
        x = self.pool(self.act(self.conv2(x)))
        return self.head(x.flatten(1))
