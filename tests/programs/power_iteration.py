"""The leading eigenpairs of a symmetric matrix by power iteration and deflation."""

import torch

torch.set_default_dtype(torch.float64)
n = 6
i = torch.arange(n, dtype=torch.get_default_dtype())
matrix = 1 / (1 + (i[:, None] - i[None, :]).abs()) + torch.diag(i / 2)
print(matrix)
rest = matrix.clone()
vectors = []
for number in range(3):
    v = torch.ones(n) + 0.1 * i
    for _ in range(500):
        w = rest @ v
        w = w / w.norm()
        if torch.dist(v, w) < 1e-13:
            break
        v = w
    value = torch.dot(v, rest.mv(v))
    rest = rest - value * torch.outer(v, v)
    vectors.append(v * v.sum().sign())
    print(f"{number} {value.item():.8f} {((matrix @ v - value * v).norm() < 1e-6).item()}")
basis = torch.stack(vectors)
print((basis @ basis.T).round(decimals=6).abs())
print(torch.einsum("ai,ij,bj->ab", basis, matrix, basis).round(decimals=5).abs())
print(matrix.trace(), matrix.tril().sum(), torch.diagonal(matrix, 1))
torch.set_default_dtype(torch.float32)
