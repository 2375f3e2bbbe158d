"""Factorising a matrix, and Gaussian processes that learn their own length scale."""

import math

import torch
from torch import nn

torch.set_printoptions(precision=4, sci_mode=False)
n, m, rank = 12, 9, 3
left = (torch.arange(n * rank) * 0.71).sin().view(n, rank)
right = (torch.arange(m * rank) * 1.31).cos().view(m, rank)
ratings = left @ right.T
u, s, vh = torch.linalg.svd(ratings, full_matrices=False)
print("singular values", [f"{v:.4f}" for v in s[:rank].tolist()], bool(s[rank:].max() < 1e-5))
print(
    "rebuilt",
    torch.allclose(u * s @ vh, ratings, atol=1e-5),
    torch.linalg.matrix_rank(ratings).item(),
)
q, r = torch.linalg.qr(left)
print("orthonormal", torch.allclose(q.T @ q, torch.eye(rank), atol=1e-6))
print("triangular", torch.equal(r, r.triu()), f"{r.diagonal().abs().prod().item():.4f}")
solved = torch.linalg.lstsq(left, ratings).solution
print("least squares", torch.allclose(solved, right.T, atol=1e-4))

rows = nn.Embedding(n, rank)
columns = nn.Embedding(m, rank)
with torch.no_grad():
    rows.weight.copy_((torch.arange(n * rank) * 0.37).sin().view(n, rank))
    columns.weight.copy_((torch.arange(m * rank) * 0.59).cos().view(m, rank))
known = torch.cartesian_prod(torch.arange(n), torch.arange(m))
known = known[(known.sum(1) % 3) != 0]
optimizer = torch.optim.Adagrad([*rows.parameters(), *columns.parameters()], lr=0.3)
for step in range(20):
    optimizer.zero_grad()
    guess = (rows(known[:, 0]) * columns(known[:, 1])).sum(1)
    loss = (guess - ratings[known[:, 0], known[:, 1]]).square().mean()
    loss.backward()
    optimizer.step()
    print(f"factors {step} loss {loss.item():.5f}")

x = torch.linspace(-2, 2, 15)
y = torch.sin(2 * x) + 0.1 * torch.cos(9 * x)
log_scale, log_height, log_noise = (torch.tensor(v, requires_grad=True) for v in (0.0, 0.0, -1.0))


def kernel(a, b):
    squared = torch.cdist(a[:, None], b[:, None], compute_mode="donot_use_mm_for_euclid_dist") ** 2
    return log_height.exp() * torch.exp(-squared / (2 * log_scale.exp() ** 2))


def factor():
    return torch.linalg.cholesky(kernel(x, x) + log_noise.exp() * torch.eye(len(x)))


optimizer = torch.optim.Adam([log_scale, log_height, log_noise], lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    lower = factor()
    weights = torch.cholesky_solve(y[:, None], lower)
    fit = 0.5 * (y @ weights).squeeze()
    loss = fit + lower.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)
    loss.backward()
    optimizer.step()
    print(f"gp {step} loss {loss.item():.4f} scale {log_scale.exp().item():.4f}")
with torch.no_grad():
    lower = factor()
    fresh = torch.tensor([-1.5, 0.1, 1.3])
    across = kernel(x, fresh)
    mean = across.T @ torch.cholesky_solve(y[:, None], lower).squeeze(1)
    half = torch.linalg.solve_triangular(lower, across, upper=False)
    variance = kernel(fresh, fresh).diagonal() - half.square().sum(0)
    print([f"{v:.3f}" for v in mean.tolist()], [f"{v:.3f}" for v in variance.sqrt().tolist()])

matrix = torch.diag(torch.arange(2.0, 6.0)) + 0.1 * (torch.arange(16.0) * 0.7).sin().view(4, 4)
matrix.requires_grad_()
loss = torch.logdet(matrix) + torch.linalg.solve(matrix, torch.ones(4)).sum()
loss = (
    loss + torch.linalg.eigvalsh(matrix @ matrix.T).log().sum() + torch.linalg.norm(matrix, "nuc")
)
loss.backward()
print(f"{loss.item():.4f}", f"{matrix.grad.norm().item():.4f}")
