"""ResNet-18: twenty steps of a narrow one, and a forward pass of the full width."""

import torch
import torch.nn as nn
from torch import Tensor


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


def conv3x3(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_planes, out_planes, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, layers, width=64, num_classes=1000):
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(width, layers[0])
        self.layer2 = self._make_layer(width * 2, layers[1], stride=2)
        self.layer3 = self._make_layer(width * 4, layers[2], stride=2)
        self.layer4 = self._make_layer(width * 8, layers[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width * 8, num_classes)

    def _make_layer(self, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(planes),
            )
        layers = [BasicBlock(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        layers.extend(BasicBlock(planes, planes) for _ in range(1, blocks))
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18(**options):
    return ResNet([2, 2, 2, 2], **options)


def initialise(model):
    for seed, module in enumerate(model.modules()):
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            weight = module.weight
            scale = (6 / weight[0].numel()) ** 0.5
            weight.data = values(weight.numel(), seed).view(weight.shape) * scale
            if module.bias is not None:
                module.bias.data.zero_()
        elif isinstance(module, BasicBlock):
            nn.init.constant_(module.bn2.weight, 0.2)


def accuracy(output, target, topk=(1,)):
    _, found = output.topk(max(topk), dim=1)
    hits = found.t().eq(target.view(1, -1).expand(max(topk), -1))
    return [hits[:k].reshape(-1).float().sum().item() for k in topk]


full = resnet18()
initialise(full)
print("parameters", sum(p.numel() for p in full.parameters()))
full.eval()
with torch.no_grad():
    logits = full(values(2 * 3 * 32 * 32, 5).view(2, 3, 32, 32))
print(tuple(logits.shape), f"{logits.std().item():.4e} {logits[0, 0].item():.4e}")
del full

model = resnet18(width=8, num_classes=4)
initialise(model)
images = values(8 * 3 * 32 * 32, 9).view(8, 3, 32, 32)
target = torch.arange(8) % 4
images += target.view(-1, 1, 1, 1) * 0.5
criterion = nn.CrossEntropyLoss()
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.SGD(
    [{"params": decay, "weight_decay": 5e-4}, {"params": rest}], lr=0.002, momentum=0.9
)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[10, 15], gamma=0.1)
for step in range(20):
    output = model(images)
    loss = criterion(output, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(f"step {step} loss {loss.item():.6f} lr {scheduler.get_last_lr()[0]:.4g}")
print("accuracy", accuracy(output, target, topk=(1, 2)))
