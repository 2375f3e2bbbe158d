"""Quantum circuits as layers and as functions, by backpropagation and shifts."""

import torch

import pennylane as qml
from showing import gradients, show

dev = qml.device("default.qubit", wires=3)


@qml.qnode(dev, interface="torch", diff_method="backprop")
def circuit(inputs, weights):
    qml.AngleEmbedding(inputs, wires=range(3))
    qml.StronglyEntanglingLayers(weights, wires=range(3))
    return [qml.expval(qml.PauliZ(i)) for i in range(3)]


torch.manual_seed(0)
lay = qml.qnn.TorchLayer(circuit, {"weights": (2, 3, 3)})
net = torch.nn.Sequential(torch.nn.Linear(4, 3), lay, torch.nn.Linear(3, 2))
opt = torch.optim.Adam(net.parameters(), 0.05)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 1])
for _ in range(3):
    opt.zero_grad()
    l = torch.nn.functional.cross_entropy(net(x), y)
    l.backward()
    opt.step()
    show(l=l, g=gradients(net))


@qml.qnode(dev, interface="torch", diff_method="parameter-shift")
def c2(w):
    qml.RX(w[0], 0)
    qml.CNOT([0, 1])
    qml.RY(w[1], 1)
    return qml.expval(qml.PauliZ(1)), qml.probs(wires=0)


w = torch.tensor([0.3, 0.7], requires_grad=True, dtype=torch.float64)
a, b = c2(w)
(a + b[0]).backward()
show(a=a, b=b, g=w.grad, j=torch.autograd.functional.jacobian(lambda w: c2(w)[0], w))
