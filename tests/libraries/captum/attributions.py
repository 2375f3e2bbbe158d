"""Captum: attributions of inputs, layers and neurons by many methods."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    KernelShap,
    LayerConductance,
    LayerGradCam,
    LRP,
    NeuronConductance,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)
from showing import show

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 3)
).eval()
x = torch.rand(2, 1, 6, 6)
for method in (IntegratedGradients, Saliency, InputXGradient, DeepLift, GuidedBackprop):
    show(**{method.__name__: method(model).attribute(x.clone().requires_grad_(), target=1)})
show(ablation=FeatureAblation(model).attribute(x, target=0))
show(occlusion=Occlusion(model).attribute(x, (1, 3, 3), target=2))
torch.manual_seed(1)
show(
    noise=NoiseTunnel(Saliency(model)).attribute(x.clone().requires_grad_(), nt_samples=3, target=0)
)
show(cam=LayerGradCam(model, model[0]).attribute(x, 1))
show(layer=LayerConductance(model, model[1]).attribute(x, target=1, n_steps=8))
show(neuron=NeuronConductance(model, model[1]).attribute(x, (0, 1, 1), target=1, n_steps=8))
flat = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
rows = torch.randn(3, 5)
show(lrp=LRP(torch.nn.Sequential(flat[0], torch.nn.ReLU(), flat[2])).attribute(rows, target=1))
torch.manual_seed(2)
show(sampling=ShapleyValueSampling(flat).attribute(rows, target=0, n_samples=4))
value, delta = IntegratedGradients(flat).attribute(rows, target=1, return_convergence_delta=True)
show(integrated=value, small=bool((delta.abs() < 1e-2).all()))
