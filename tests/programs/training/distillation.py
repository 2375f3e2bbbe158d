"""A small student learns a frozen teacher's soft labels: KL divergence at a temperature."""

import torch
import torch.nn.functional as F
from torch import nn


def fill(module, step):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_((torch.arange(p.numel()) * step + k).sin().view_as(p) * (0.4 if k else 0.8))
    return module


teacher = fill(
    nn.Sequential(
        nn.Linear(5, 32), nn.ELU(), nn.Dropout(0.3), nn.Linear(32, 32), nn.ELU(), nn.Linear(32, 4)
    ),
    0.67,
).eval()
for p in teacher.parameters():
    p.requires_grad = False
student = fill(nn.Sequential(nn.Linear(5, 8), nn.Hardtanh(), nn.Linear(8, 4)), 0.31)
x = (torch.arange(30 * 5) * 0.77).sin().view(30, 5)
labels = teacher(x).argmax(1)
print("labels", labels.bincount(minlength=4).tolist())

temperature, alpha = 4.0, 0.7
kl = nn.KLDivLoss(reduction="batchmean")
cosine = nn.CosineEmbeddingLoss(margin=0.1)
optimizer = torch.optim.Adam(student.parameters(), lr=0.02, betas=(0.85, 0.99))
scheduler = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [
        torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=5),
        torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95),
    ],
    milestones=[5],
)
for step in range(20):
    with torch.inference_mode():
        soft = F.softmax(teacher(x) / temperature, dim=1)
    logits = student(x)
    distance = kl(F.log_softmax(logits / temperature, dim=1), soft.clone()) * temperature**2
    hard = F.nll_loss(F.log_softmax(logits, dim=1), labels)
    loss = alpha * distance + (1 - alpha) * hard
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    rate = optimizer.param_groups[0]["lr"]
    print(f"step {step} loss {loss.item():.5f} kl {distance.item():.5f} rate {rate:.6f}")
student.eval()
with torch.no_grad():
    print(f"agreement {(student(x).argmax(1) == labels).float().mean().item():.3f}")
    log_target = kl(student(x).log_softmax(1), soft)
    ours, theirs = student(x), teacher(x)
    print(f"{log_target.item():.5f} {cosine(ours, theirs, torch.ones(30)).item():.5f}")
    both = F.kl_div(ours.log_softmax(1), theirs.log_softmax(1), reduction="sum", log_target=True)
    print(f"{both.item():.5f}")
