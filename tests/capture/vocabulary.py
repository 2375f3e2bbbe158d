"""What random programs call beside Python itself: generators that are sent to or closed,
copies, objects with methods of every kind; with tensors also NumPy, hooks, modes, subclasses,
gradients."""

from __future__ import annotations

import copy
import functools
from typing import Any

__all__ = ["EXPRESSIONS", "NAMES", "STATEMENTS", "TENSOR_EXPRESSIONS", "tensor_names"]


def echo(x: Any, a: Any) -> Any:
    def running() -> Any:
        total = x
        while True:
            k = yield total
            total = total * k

    it = running()
    next(it)
    it.send(2)
    return it.send(a)


def closed(x: Any, log: Any) -> Any:
    def steps() -> Any:
        try:
            yield x
            yield x + 1
        finally:
            log.append("closed")

    it = steps()
    found = next(it)
    it.close()
    return found


def thrown(x: Any, log: Any) -> Any:
    def steps() -> Any:
        while True:
            try:
                yield x
            except ValueError as error:
                log.append(str(error))
                yield x + 2
                return

    it = steps()
    next(it)
    found = it.throw(ValueError("thrown"))
    return next(it, found)


def delegated(x: Any, a: Any) -> Any:
    def inner() -> Any:
        got = yield x
        return (got or 1) + a

    def middle() -> Any:
        k = yield from inner()
        yield x * k

    return sum(middle(), x)


def marked(x: Any, a: Any) -> Any:
    @functools.wraps(echo)
    def f(v: Any) -> Any:
        return v * f.k  # type: ignore[attr-defined]

    f.k = a  # type: ignore[attr-defined]
    return f(x) + len(f.__name__)


class Node:
    def __new__(cls, value: Any, k: Any = 1) -> Any:
        made = super().__new__(cls)
        made.made_with = k
        return made

    def __init__(self, value: Any, k: Any = 1) -> None:
        self.value, self.items = value, [k]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]


class Scaled:
    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = "_" + name

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return getattr(owner, self.name)

    def __set__(self, owner: Any, value: Any) -> None:
        setattr(owner, self.name, value * 2)


class Gauge:
    level = Scaled()

    def __init__(self, level: Any) -> None:
        self.level = level


def copied(x: Any, a: Any) -> Any:
    first = Node(x, a)
    second, third = copy.copy(first), copy.deepcopy(Node(a, a))
    second.items.append(a)
    third.items.append(7)
    return x * len(first.items) + third.value + len(third.items)


def compared(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if Node(x, a) != Node(x, b) else x * first_of((x, a, b))


def first_of(value: Any) -> Any:
    match value:
        case (_, int(a), b) if a > b:
            return a
        case [_, *rest]:
            return len(rest)
    return 0


def gauged(x: Any, a: Any) -> Any:
    gauge = Gauge(x)
    gauge.level = gauge.level + a
    return gauge.level


def extended(x: Any, y: Any) -> Any:
    items = [x]
    alias = items
    items += (y, x)
    items += (v * 2 for v in (x, y))
    return alias[-1] + len(alias)


EXPRESSIONS = (
    "echo(x, a)", "closed(x, log)", "thrown(x, log)", "delegated(y, a)",
    "marked(x, b)", "copied(x, a)", "compared(y, a, b)", "gauged(x, a)", "extended(x, y)",
)  # fmt: skip
# Lines that stand one after another.
STATEMENTS = (
    ("box.extra = a", "del box.extra"), ("del box.last", "box.last = y"), ("del box.last",),
    ("box.extra = x", "x = box.extra + 1"),
    ("L += (y,)",), ("L += reversed([x, y])",), ("D['g'] = [*pairs(x, 2)]",),
)  # fmt: skip
NAMES: dict[str, Any] = {
    f.__name__: f
    for f in (echo, closed, thrown, delegated, marked, copied, compared, gauged, extended)
}

TENSOR_EXPRESSIONS = (
    "torch.from_numpy(x.numpy() * 2)", "torch.from_numpy(np.sin(y.numpy()) + x.numpy())",
    "torch.from_numpy(np.where(x.numpy() > 0, y.numpy(), 1)) + y", "raised(x)", "shifted(x)",
    "doubled(y) + x", "stepped(x)", "hooked(y, log)", "hooked_later(x, a)", "counted(x, log)",
    "x + float(y.numpy().sum())", "tagged(x, a)", "torch.from_numpy(x.numpy()[::1].copy()) - y",
)  # fmt: skip


def tensor_names() -> dict[str, Any]:
    """The same of tensors; made where there is NumPy."""
    import numpy as np

    import rushlight as torch

    weight = torch.nn.Parameter(torch.full((2, 2), 0.5))

    class Shift(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = f(*args, **(kwargs or {}))
            return found + 1 if f is torch.neg else found

    class Doubled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = super().__torch_function__(f, types, args, kwargs or {})
            return found * 2 if f is torch.add else found

    def raised(x: Any) -> Any:
        z = x.clone()
        numbers = z.numpy()
        numbers += 1
        return z

    def shifted(x: Any) -> Any:
        with Shift():
            return torch.neg(x)

    def doubled(y: Any) -> Any:
        return torch.add(y.as_subclass(Doubled), 1).as_subclass(torch.Tensor)

    def stepped(x: Any) -> Any:
        weight.grad = None
        (weight * x.detach()).sum().backward()
        return weight.grad * 2

    def hooked(y: Any, log: Any) -> Any:
        weight.grad = None
        z = weight * y.detach()
        handle = z.register_hook(lambda g: log.append(tuple(g.shape)))
        z.sum().backward()
        handle.remove()
        found = weight.grad.clone()
        weight.grad = None
        return found

    def hooked_later(x: Any, a: Any) -> Any:
        weight.grad = None
        z = weight * 2
        z.register_hook(lambda g: g * a)
        (z * x.detach()).sum().backward()
        return weight.grad + x

    def counted(x: Any, log: Any) -> Any:
        class_ = Shift()
        with class_ as mode:
            log.append(mode is class_)
            return torch.neg(torch.neg(x))

    def tagged(x: Any, a: Any) -> Any:
        z = x * 2
        z.tag = a
        return z + z.tag

    found = (raised, shifted, doubled, stepped, hooked, hooked_later, counted, tagged)
    return {"np": np, **{f.__name__: f for f in found}}
