"""timm's optimisers, schedules, losses, mixing and averages in one training loop."""

import timm
import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import torch
from showing import show
from timm.utils import ModelEmaV3, accuracy

for name in ("adamw", "lamb", "lion", "nadam", "adabelief", "madgrad", "sgdp", "adafactor"):
    torch.manual_seed(0)
    model = timm.create_model("test_resnet", num_classes=4)
    optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-3, weight_decay=0.05)
    schedule, _ = timm.scheduler.create_scheduler_v2(
        optimizer, "cosine", num_epochs=4, warmup_epochs=1
    )
    average = ModelEmaV3(model, decay=0.9)
    loss_of = timm.loss.LabelSmoothingCrossEntropy(0.1)
    pictures, labels = torch.rand(6, 3, 32, 32), torch.randint(0, 4, (6,))
    losses = []
    for step in range(3):
        schedule.step(step + 1)
        optimizer.zero_grad()
        loss = loss_of(model(pictures), labels)
        loss.backward()
        optimizer.step()
        average.update(model)
        losses.append(loss.item())
    show(**{name: losses})
torch.manual_seed(1)
show(top=accuracy(torch.randn(8, 4), torch.randint(0, 4, (8,)), (1, 2)))
