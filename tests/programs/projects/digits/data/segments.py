import torch
from torch.utils.data import Dataset

from .transforms import Normalize

LIT = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
CELLS = {
    "a": [(0, 1), (0, 2)],
    "b": [(1, 3), (2, 3)],
    "c": [(4, 3), (5, 3)],
    "d": [(6, 1), (6, 2)],
    "e": [(4, 0), (5, 0)],
    "f": [(1, 0), (2, 0)],
    "g": [(3, 1), (3, 2)],
}


class Segments(Dataset):
    def __init__(self, copies, transform=None):
        self.copies = copies
        self.transform = transform or Normalize()

    def __len__(self):
        return 10 * self.copies

    def __getitem__(self, index):
        digit = index % 10
        picture = torch.zeros(1, 7, 4)
        for segment in LIT[digit]:
            for row, column in CELLS[segment]:
                picture[0, row, column] = 1.0
        return self.transform(picture, index), digit
