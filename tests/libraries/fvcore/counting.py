"""Operations, activations and parameters of a network, counted in its graph."""

import torch
from fvcore.nn import (
    ActivationCountAnalysis,
    FlopCountAnalysis,
    flop_count_table,
    parameter_count,
    sigmoid_focal_loss_jit,
)
from showing import show
from torchvision.models import resnet18

torch.manual_seed(0)
model, picture = resnet18().eval(), torch.randn(1, 3, 64, 64)
flops = FlopCountAnalysis(model, picture)
show(total=flops.total(), by_operator=dict(flops.by_operator()), layer=flops.by_module()["layer1"])
show(activations=ActivationCountAnalysis(model, picture).total())
show(parameters=parameter_count(model)["layer2"], row=flop_count_table(flops).splitlines()[4])
show(focal=sigmoid_focal_loss_jit(torch.randn(4, 3), torch.rand(4, 3).round(), reduction="sum"))
