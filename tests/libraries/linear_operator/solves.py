"""Linear operators: products, solves, determinants and roots without dense matrices."""

import torch
from linear_operator import operators as L
from linear_operator import settings
from showing import show

torch.manual_seed(0)
a = torch.randn(6, 6)
dense = a @ a.T + 6 * torch.eye(6)
right = torch.randn(6, 2, requires_grad=True)
made = {
    "dense": L.to_linear_operator(dense),
    "diagonal": L.DiagLinearOperator(torch.arange(1.0, 7.0)),
    "low_rank": L.LowRankRootLinearOperator(torch.randn(6, 2)).add_diagonal(torch.tensor(0.5)),
    "toeplitz": L.ToeplitzLinearOperator(torch.tensor([4.0, 1.0, 0.5, 0.2, 0.1, 0.0])),
    "kronecker": L.KroneckerProductLinearOperator(
        L.to_linear_operator(dense[:2, :2]), L.to_linear_operator(dense[:3, :3])
    ),
    "block": L.BlockDiagLinearOperator(L.to_linear_operator(torch.stack([dense[:3, :3]] * 2))),
}
for name, operator in made.items():
    solved = operator.solve(right)
    (grad,) = torch.autograd.grad(solved.square().sum(), right)
    show(**{f"{name}_product": operator @ right, f"{name}_solved": solved, f"{name}_grad": grad})
    show(**{f"{name}_logdet": operator.logdet(), f"{name}_diagonal": operator.diagonal()})
with settings.max_cholesky_size(1), settings.cg_tolerance(1e-4):
    show(conjugate=made["dense"].solve(right))
show(root=made["dense"].cholesky().to_dense(), sum=(made["dense"] + made["diagonal"]).to_dense())
