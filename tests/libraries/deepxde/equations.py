"""Equations solved by networks, by Adam and L-BFGS, with a sought constant."""

import os

os.environ["DDE_BACKEND"] = "pytorch"
import numpy as np
import torch

import deepxde as dde
from showing import show

dde.config.set_random_seed(0)
geom = dde.geometry.Interval(-1, 1)


def pde(x, y):
    return dde.grad.hessian(y, x) + np.pi**2 * torch.sin(np.pi * x)


bc = dde.icbc.DirichletBC(geom, lambda x: 0, lambda x, on: on)
data = dde.data.PDE(geom, pde, bc, 12, 2, solution=lambda x: np.sin(np.pi * x), num_test=20)
net = dde.nn.FNN([1] + [12] * 2 + [1], "tanh", "Glorot uniform")
model = dde.Model(data, net)
model.compile("adam", lr=0.01, metrics=["l2 relative error"])
h, s = model.train(iterations=30, display_every=10, verbose=0)
show(
    losses=[list(map(float, l)) for l in h.loss_train],
    pred=torch.tensor(model.predict(np.linspace(-1, 1, 5)[:, None])),
)
model.compile("L-BFGS")
dde.optimizers.config.set_LBFGS_options(maxiter=15)
model.compile("L-BFGS")
h, s = model.train(verbose=0, display_every=10)
show(final=float(h.loss_train[-1][0]) < 10)
geomt = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
D = dde.Variable(2.0)


def heat(x, y):
    return dde.grad.jacobian(y, x, i=0, j=1) - D * dde.grad.hessian(y, x, i=0, j=0)


ic = dde.icbc.IC(geomt, lambda x: np.sin(np.pi * x[:, 0:1]), lambda _, on: on)
data = dde.data.TimePDE(geomt, heat, [ic], num_domain=20, num_boundary=4, num_initial=6)
m = dde.Model(data, dde.nn.FNN([2, 10, 10, 1], "sin", "Glorot normal"))
m.compile("adam", lr=0.005, external_trainable_variables=D)
h, s = m.train(iterations=15, display_every=5, verbose=0)
show(heat=[list(map(float, l)) for l in h.loss_train], D=D)
