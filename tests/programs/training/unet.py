"""A small U-Net finds discs: skip connections, both ways of upsampling, dice loss."""

import torch
import torch.nn.functional as F
from torch import nn


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Up(nn.Module):
    def __init__(self, inputs, outputs, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                nn.Conv2d(inputs, inputs // 2, 1),
            )
        else:
            self.up = nn.ConvTranspose2d(inputs, inputs // 2, kernel_size=2, stride=2)
        self.conv = double_conv(inputs, outputs)

    def forward(self, x, skip):
        x = self.up(x)
        down, right = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        x = F.pad(x, [right // 2, right - right // 2, down // 2, down - down // 2])
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    def __init__(self, bilinear, width=4):
        super().__init__()
        self.enter = double_conv(1, width)
        self.down1 = double_conv(width, 2 * width)
        self.down2 = double_conv(2 * width, 4 * width)
        self.up1 = Up(4 * width, 2 * width, bilinear)
        self.up2 = Up(2 * width, width, bilinear)
        self.out = nn.Conv2d(width, 1, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.enter(x)
        b = self.down1(self.pool(a))
        c = self.down2(self.pool(b))
        return self.out(self.up2(self.up1(c, b), a))


def dice_loss(logits, mask, eps=1.0):
    p = torch.sigmoid(logits).flatten(1)
    m = mask.flatten(1)
    overlap = (p * m).sum(1)
    return (1 - (2 * overlap + eps) / (p.sum(1) + m.sum(1) + eps)).mean()


def pictures(size=18):
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    images, masks = [], []
    for k in range(4):
        inside = ((rows - 5 - 2 * k) ** 2 + (columns - 11 + k) ** 2) < (3 + k % 3) ** 2
        noise = (rows * 1.7 + columns * 2.3 + k).sin() * 0.2
        images.append(inside * 0.7 + noise)
        masks.append(inside.float())
    return torch.stack(images).unsqueeze(1), torch.stack(masks).unsqueeze(1)


def initialise(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        n = module.weight.numel()
        with torch.no_grad():
            values = (torch.arange(n) * 0.37).sin() + (torch.arange(n) * 1.91).cos()
            module.weight.copy_(values.view_as(module.weight) * 0.25)
            if module.bias is not None:
                module.bias.zero_()


images, masks = pictures()
for bilinear in (False, True):
    model = UNet(bilinear).apply(initialise)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)
    for step in range(10):
        logits = model(images)
        loss = F.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print("bilinear" if bilinear else "transposed", step, f"{loss.item():.5f}")
    print("parameters", sum(p.numel() for p in model.parameters()))
