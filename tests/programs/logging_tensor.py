"""Tensor subclasses that log calls: by __torch_function__ and as a mode."""

import torch
from torch.overrides import TorchFunctionMode


class Logged(torch.Tensor):
    names = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


x = torch.arange(6.0).reshape(2, 3).as_subclass(Logged)
y = (x + 1).mul(2).sum(dim=0)
z = torch.cat([y, y]).max()
print(type(y).__name__, type(z).__name__, Logged.names)
Logged.names.clear()
print(y, x.shape, x[0, 1].item())
print([name for name in Logged.names if name in ("__getitem__", "item")])


class Counter(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        self.seen[name] = self.seen.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


with Counter() as counter:
    a = torch.ones(3)
    b = torch.exp(a) + a
    c = torch.nn.functional.relu(b)
print(counter.seen)


class Scaled:
    """A duck-typed operand that takes over functions."""

    def __init__(self, factor):
        self.factor = factor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.factor if isinstance(a, cls) else a for a in args]
        return f"{func.__name__}{tuple(type(a).__name__ for a in args)}", func(*plain)


print(torch.add(torch.ones(2), Scaled(3)))
w = torch.nn.Parameter(torch.ones(2))
print(w, isinstance(w * 1, torch.nn.Parameter), type(w.data).__name__)
