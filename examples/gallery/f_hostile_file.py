"""A checkpoint that would run a command.

Files are read without importing or calling anything that they name.
"""

import os

import torch


class Trap:
    def __reduce__(self):
        return os.system, ("echo the trap was run > trapped",)


torch.save({"weight": torch.zeros(2), "extra": Trap()}, "model.pt")

try:
    torch.load("model.pt")
except Exception as error:
    print(type(error).__name__)
    print(str(error).splitlines()[0])
print("the trap was run:", os.path.exists("trapped"))
os.remove("model.pt")
