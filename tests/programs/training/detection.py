"""Boxes on a grid: focal and IoU losses, anchors, non-maximum suppression, masks, indexing."""

import torch
import torch.nn.functional as F
from torch import nn


def area(boxes):
    return (boxes[:, 2:] - boxes[:, :2]).prod(1)


def iou(a, b):
    top_left = torch.maximum(a[:, None, :2], b[None, :, :2])
    bottom_right = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    overlap = (bottom_right - top_left).clamp(min=0).prod(2)
    return overlap / (area(a)[:, None] + area(b)[None] - overlap + 1e-6)


def nms(boxes, scores, threshold):
    order, keep = scores.argsort(descending=True), []
    while order.numel():
        first = order[0]
        keep.append(first.item())
        rest = order[1:]
        order = rest[iou(boxes[first][None], boxes[rest])[0] <= threshold]
    return keep


def focal(logits, targets, gamma=2.0, alpha=0.25):
    p = logits.sigmoid()
    raw = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = torch.where(targets > 0.5, p, 1 - p)
    weight = torch.where(targets > 0.5, alpha, 1 - alpha)
    return (weight * (1 - p_t) ** gamma * raw).sum()


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1),
            nn.InstanceNorm2d(8, affine=True),
            nn.Hardswish(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8),
            nn.PReLU(8),
            nn.Conv2d(8, 16, 1),
            nn.PixelUnshuffle(2),
            nn.Conv2d(64, 16, 3, padding=2, dilation=2),
            nn.Softsign(),
        )
        self.score = nn.Conv2d(16, 1, 1)
        self.box = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        h = self.backbone(x)
        return self.score(h).flatten(1), self.box(h).flatten(2).transpose(1, 2)


size, stride = 24, 4
corners = torch.tensor([[2.0, 3, 9, 11], [12, 10, 21, 20], [5, 13, 11, 21]])
image = torch.zeros(1, 1, size, size)
for k, (x0, y0, x1, y1) in enumerate(corners.int().tolist()):
    image[..., y0:y1, x0:x1] = 0.5 + 0.2 * k
image += (torch.arange(size * size) * 1.23).sin().view_as(image) * 0.1
centers = (torch.arange(size // stride) + 0.5) * stride
cy, cx = torch.meshgrid(centers, centers, indexing="ij")
anchors = torch.stack([cx - 4, cy - 4, cx + 4, cy + 4], dim=-1).view(-1, 4)
overlap = iou(anchors, corners)
best, which = overlap.max(dim=1)
positive = best > 0.4
positive[overlap.argmax(dim=0)] = True
print("positive", positive.nonzero().squeeze(1).tolist())
targets = corners[which]

model = Detector()
with torch.no_grad():
    for k, (name, p) in enumerate(model.named_parameters()):
        if p.dim() > 1:
            p.copy_(
                (torch.arange(p.numel()) * 0.57 + k).sin().view_as(p) * (2 / p[0].numel()) ** 0.5
            )
        elif name.endswith("bias"):
            p.fill_(-2.0 if name == "score.bias" else 0.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(20):
    scores, offsets = model(image)
    boxes = anchors + 4 * offsets[0]
    matched = iou(boxes[positive], targets[positive]).diagonal()
    box_loss = F.smooth_l1_loss(boxes[positive], targets[positive], beta=2.0) + (1 - matched).mean()
    loss = focal(scores[0], positive.float()) / positive.sum() + box_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f} iou {matched.mean().item():.4f}")
kept = nms(corners.repeat(2, 1) + torch.arange(6.0)[:, None] / 10, torch.linspace(0.9, 0.3, 6), 0.5)
print("kept", kept)
found = torch.zeros(5, dtype=torch.long).index_add_(0, which[:5], torch.ones(5, dtype=torch.long))
print(
    found.tolist(),
    torch.topk(best, 3).indices.tolist()[:1],
    torch.unique(which, return_counts=True),
)
