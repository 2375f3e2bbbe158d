"""Attacks on a classifier by foolbox, which computes with eagerpy."""

import random

import numpy
import torch

import foolbox as fb
from showing import show

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(4),
    torch.nn.Flatten(),
    torch.nn.Linear(128, 5),
).eval()
x = torch.rand(4, 3, 12, 12)
fm = fb.PyTorchModel(model, bounds=(0, 1))
y = model(x).argmax(1)
A = fb.attacks
for k, f in dict(
    fgsm=A.FGSM,
    pgd=lambda: A.LinfPGD(steps=4),
    l2=lambda: A.L2PGD(steps=4),
    bim=lambda: A.LinfBasicIterativeAttack(steps=3),
    cw=lambda: A.L2CarliniWagnerAttack(steps=5, binary_search_steps=2),
    df=lambda: A.L2DeepFoolAttack(steps=4),
    ddn=lambda: A.DDNAttack(steps=4),
    ead=lambda: A.EADAttack(steps=4, binary_search_steps=2),
    bb=lambda: A.L2BrendelBethgeAttack(steps=3),
    noise=A.L2AdditiveGaussianNoiseAttack,
    sp=lambda: A.SaltAndPepperNoiseAttack(steps=4),
    blur=A.GaussianBlurAttack,
    contrast=A.L2ContrastReductionAttack,
    hsj=lambda: A.HopSkipJumpAttack(steps=2, max_gradient_eval_steps=20),
    newton=lambda: A.NewtonFoolAttack(steps=3),
    fmn=lambda: A.L2FMNAttack(steps=4),
).items():
    torch.manual_seed(1)
    numpy.random.seed(1)
    random.seed(1)
    try:
        raw, clipped, ok = f()(fm, x, y, epsilons=[0.05, 0.5])
        out = [*clipped, ok]
    except Exception as e:
        out = f"{type(e).__name__} {str(e)[:100]}"
    show(**{k: out})
show(acc=fb.accuracy(fm, x, y))
