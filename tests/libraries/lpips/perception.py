"""LPIPS over a network with weights of its seed."""

import lpips
import torch
from showing import show

torch.manual_seed(0)
measure = lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False).eval()
one = (torch.rand(2, 3, 64, 64) * 2 - 1).requires_grad_()
distance = measure(one, torch.rand(2, 3, 64, 64) * 2 - 1)
distance.sum().backward()
show(distance=distance, grad=one.grad, same=measure(one, one))
