"""geoopt: points on manifolds, distances, and Riemannian optimisers."""

import geoopt
import torch
from showing import show

torch.manual_seed(0)
MANIFOLDS = {
    "sphere": geoopt.Sphere(), "ball": geoopt.PoincareBall(c=1.0), "lorentz": geoopt.Lorentz(),
    "stiefel": geoopt.Stiefel(), "euclidean": geoopt.Euclidean(1), "positive": geoopt.SymmetricPositiveDefinite(),
}  # fmt: skip
for name, manifold in MANIFOLDS.items():
    raw = torch.randn(4, 3) * 0.3
    if name == "positive":
        raw = torch.randn(3, 3)
        raw = raw @ raw.T + torch.eye(3)
    point = manifold.projx(raw)
    vector = manifold.proju(point, torch.randn_like(raw) * 0.1)
    show(**{name: point, f"{name}_moved": manifold.retr(point, vector)})
    if name not in ("stiefel",):
        show(
            **{
                f"{name}_exp": manifold.expmap(point, vector),
                f"{name}_distance": manifold.dist(point, manifold.expmap(point, vector)),
            }
        )
for optimizer_of in (geoopt.optim.RiemannianAdam, geoopt.optim.RiemannianSGD):
    torch.manual_seed(1)
    ball = geoopt.PoincareBall()
    goal = ball.projx(torch.randn(5, 2) * 0.4)
    points = geoopt.ManifoldParameter(ball.projx(torch.randn(5, 2) * 0.1), manifold=ball)
    optimizer = optimizer_of([points], lr=0.1)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = ball.dist(points, goal).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    show(**{optimizer_of.__name__: losses, f"{optimizer_of.__name__}_points": points})
