"""kornia's augmentations with their own random numbers, and back again."""

import kornia.augmentation as K
import torch
from showing import show

torch.manual_seed(0)
x = torch.rand(3, 3, 20, 20)
boxes = torch.tensor([[[2.0, 3, 10, 12]]]).expand(3, 1, 4)
WAYS = {
    "flip": K.RandomHorizontalFlip(p=0.5), "affine": K.RandomAffine(20.0, (0.1, 0.1), p=1.0),
    "jitter": K.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0), "crop": K.RandomResizedCrop((12, 12)),
    "erase": K.RandomErasing(p=1.0), "perspective": K.RandomPerspective(0.4, p=1.0),
    "noise": K.RandomGaussianNoise(p=1.0), "blur": K.RandomGaussianBlur((3, 3), (0.5, 1.5), p=1.0),
}  # fmt: skip
for name, way in WAYS.items():
    torch.manual_seed(1)
    show(**{name: way(x)})
torch.manual_seed(2)
many = K.AugmentationSequential(
    K.RandomHorizontalFlip(p=1.0), K.RandomRotation(15.0, p=1.0), data_keys=["input", "bbox_xyxy"]
)
pictures, moved = many(x, boxes)
show(pictures=pictures, boxes=moved, matrix=many.transform_matrix)
