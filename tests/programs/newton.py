"""Newton's method with a Hessian from gradients of gradients."""

import torch

torch.set_default_dtype(torch.float64)


def rosenbrock(p):
    x, y = p
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def hessian(function, point):
    value = function(point)
    (gradient,) = torch.autograd.grad(value, point, create_graph=True)
    rows = [torch.autograd.grad(entry, point, retain_graph=True)[0] for entry in gradient]
    return value, gradient, torch.stack(rows)


def solve(matrix, right):
    """Gaussian elimination with pivoting, on tensors."""
    a = torch.cat([matrix, right[:, None]], 1)
    n = len(right)
    for column in range(n):
        pivot = column + a[column:, column].abs().argmax().item()
        a[[column, pivot]] = a[[pivot, column]]
        a[column] /= a[column, column].clone()
        for row in range(n):
            if row != column:
                a[row] -= a[row, column].clone() * a[column]
    return a[:, n]


point = torch.tensor([-1.2, 1.0], requires_grad=True)
for iteration in range(8):
    value, gradient, matrix = hessian(rosenbrock, point)
    print(f"{iteration} {value.item():.6e} {gradient.norm().item():.6e}")
    if gradient.norm() < 1e-10:
        break
    step = solve(matrix, gradient.detach())
    point = (point - step).detach().requires_grad_()
print(point, matrix)

x = torch.tensor([0.5, 1.5, 2.5], requires_grad=True)
y = (x**3).sum() * x.prod()
(g,) = torch.autograd.grad(y, x, create_graph=True)
v = torch.tensor([1.0, 0.0, -1.0])
(hv,) = torch.autograd.grad(g @ v, x)
print("Hessian-vector product", hv)
third = torch.autograd.grad(
    torch.autograd.grad(
        torch.autograd.grad((x**4).sum(), x, create_graph=True)[0].sum(), x, create_graph=True
    )[0].sum(),
    x,
)[0]
print(third)
torch.set_default_dtype(torch.float32)
