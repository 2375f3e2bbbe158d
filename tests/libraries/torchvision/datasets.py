"""Datasets on files made here: folders of pictures, MNIST and CIFAR files, with a loader."""

import os
import pickle
import struct
import tempfile

import numpy
import torch
from PIL import Image
from showing import show
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.utils import draw_bounding_boxes, make_grid

random = numpy.random.RandomState(0)
with tempfile.TemporaryDirectory() as root:
    for label in ("cat", "dog"):
        os.makedirs(f"{root}/folder/{label}")
        for number in range(3):
            pixels = random.randint(0, 256, (20, 24, 3)).astype(numpy.uint8)
            Image.fromarray(pixels).save(f"{root}/folder/{label}/{number}.png")
    transform = transforms.Compose(
        [transforms.Resize(16), transforms.CenterCrop(12), transforms.ToTensor()]
    )
    folder = datasets.ImageFolder(f"{root}/folder", transform)
    torch.manual_seed(0)
    for pictures, labels in DataLoader(folder, batch_size=4, shuffle=True):
        show(pictures=pictures, labels=labels)
    show(classes=folder.classes)

    os.makedirs(f"{root}/MNIST/raw")
    for part, count in (("train", 6), ("t10k", 3)):
        images, labels = random.randint(0, 256, (count, 28, 28)), random.randint(0, 10, count)
        with open(f"{root}/MNIST/raw/{part}-images-idx3-ubyte", "wb") as file:
            file.write(
                struct.pack(">IIII", 2051, count, 28, 28) + images.astype(numpy.uint8).tobytes()
            )
        with open(f"{root}/MNIST/raw/{part}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 2049, count) + labels.astype(numpy.uint8).tobytes())
    digits = datasets.MNIST(root, train=True, transform=transforms.ToTensor())
    show(count=len(digits), digit=digits[2][0], label=digits[2][1])

torch.manual_seed(0)
fake = datasets.FakeData(4, (3, 16, 16), 3, transforms.ToTensor())
show(fake=fake[1][0])
grid = make_grid(torch.rand(5, 3, 8, 8), nrow=3)
drawn = draw_bounding_boxes(
    (grid * 255).to(torch.uint8), torch.tensor([[2.0, 3, 20, 15]]), colors="red"
)
show(grid=grid, drawn=drawn)
