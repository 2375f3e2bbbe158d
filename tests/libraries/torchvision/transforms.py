"""transforms v2 on tensors, pictures, boxes and masks: what is exact, and what is drawn."""

import numpy
import torch
from PIL import Image
from showing import show
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

torch.manual_seed(0)
picture = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8)
image = tv_tensors.Image(picture)
boxes = tv_tensors.BoundingBoxes(
    [[5, 6, 20, 30], [10, 2, 40, 12]], format="XYXY", canvas_size=(40, 50)
)
mask = tv_tensors.Mask(torch.randint(0, 4, (40, 50)))

transform = v2.Compose([
    v2.RandomResizedCrop(24, antialias=True),
    v2.RandomHorizontalFlip(0.5),
    v2.ColorJitter(0.3, 0.3, 0.3, 0.1),
    v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
    v2.Normalize([0.5, 0.4, 0.3], [0.2, 0.2, 0.2]),
])  # fmt: skip
out = transform({"image": image, "boxes": boxes, "mask": mask})
show(**{name: value.as_subclass(torch.Tensor) for name, value in out.items()})
show(kinds=[type(value).__name__ for value in out.values()])

floats = picture.float() / 255
show(
    resized=F.resize(floats, [17, 23], antialias=True),
    nearest=F.resize(picture, [9, 9], antialias=False),
)
show(rotated=F.rotate(floats, 30.0), affine=F.affine(floats, 15, [2, 3], 1.1, [5.0, 2.0]))
show(
    perspective=F.perspective(
        floats, [[0, 0], [49, 0], [49, 39], [0, 39]], [[3, 2], [45, 1], [47, 37], [1, 38]]
    )
)
show(blurred=F.gaussian_blur(floats, [5, 5], [1.2, 1.2]), hue=F.adjust_hue(floats, 0.2))
show(gray=F.rgb_to_grayscale(picture), equal=F.equalize(picture), posted=F.posterize(picture, 3))
show(
    solar=F.solarize(picture, 128),
    contrast=F.autocontrast(picture),
    sharp=F.adjust_sharpness(picture, 1.7),
)
for cls in (v2.RandAugment, v2.TrivialAugmentWide, v2.AutoAugment):
    torch.manual_seed(4)
    show(**{cls.__name__: cls()(picture)})
torch.manual_seed(5)
batch, labels = v2.MixUp(num_classes=3)(floats.expand(4, 3, 40, 50), torch.tensor([0, 1, 2, 0]))
show(mixed=batch, labels=labels)
pil = Image.fromarray(numpy.arange(30 * 20 * 3, dtype=numpy.uint8).reshape(30, 20, 3))
show(
    from_pil=v2.functional.pil_to_tensor(F.resize(pil, [15, 10])),
    to_pil=F.to_pil_image(picture).size,
)
