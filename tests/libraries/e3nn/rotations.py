"""e3nn: spherical harmonics, irreducible parts, tensor products and gates."""

import torch
from e3nn import nn, o3
from showing import gradients, show

torch.manual_seed(0)
vectors = torch.randn(6, 3)
show(harmonics=o3.spherical_harmonics([0, 1, 2, 3], vectors, normalize=True))
irreps = o3.Irreps("4x0e + 3x1o + 2x2e")
angles = o3.rand_angles(2)
show(matrix=irreps.D_from_angles(*angles), wigner=o3.wigner_3j(1, 2, 1), angles=list(angles))
linear = o3.Linear(irreps, "3x0e + 2x1o")
x = irreps.randn(5, -1)
out = linear(x)
out.square().sum().backward()
show(linear=out, linear_gradients=gradients(linear))
product = o3.FullyConnectedTensorProduct(irreps, "1x0e + 1x1o", "2x0e + 2x1o")
out = product(x, o3.Irreps("1x0e + 1x1o").randn(5, -1))
out.square().sum().backward()
show(product=out, product_gradients=gradients(product))
gate = nn.Gate("4x0e", [torch.tanh], "3x0e", [torch.sigmoid], "3x1o")
show(gate=gate(gate.irreps_in.randn(2, -1)), norm=o3.Norm(irreps)(x))
