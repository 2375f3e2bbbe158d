"""The state of a module while it is traced: what is lifted, and what tracing must not change.

Invariant: after `Held.placed` the module has the tensors and the attributes that it had before,
whatever its forward did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.func.stateless import replaced
from rushlight.nn.module import Module

__all__ = ["Held", "constant_attributes", "persistent_names"]

CONTAINERS = (dict, list, set)
OWN = ("_parameters", "_buffers", "_modules")


class Held:
    """Parameters and buffers of a module, under every name that they have."""

    def __init__(self, module: Module, may_assign: bool = False) -> None:
        self.module = module
        # Whether plain attributes may be given other tensors; the program forgets these.
        self.may_assign = may_assign
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        self.buffers = dict(module.named_buffers(remove_duplicate=False))
        # Names that are not lifted -> those of the same tensors that are.
        self.others: dict[str, str] = {}
        self.left_out = set(self.buffers) - persistent_names(module)

    @property
    def names(self) -> list[str]:
        return [*self.parameters, *self.buffers]

    @property
    def tensors(self) -> list[Any]:
        return [*self.parameters.values(), *self.buffers.values()]

    def drop(self, others: dict[str, str]) -> None:
        """Do not lift these: they are other names of what is lifted, and of its value."""
        self.others = others
        for table in (self.parameters, self.buffers):
            for name in others.keys() & set(table):
                del table[name]

    def place_aliases(self, values: dict[str, Any]) -> None:
        """Give plain attributes that are lifted tensors the values of these."""
        lifted = {id(tensor): name for name, tensor in zip(self.names, self.tensors)}
        for member in self.module.modules():
            for attributes in tables_of(member):
                for name, value in list(attributes.items()):
                    if isinstance(value, Tensor) and id(value) in lifted:
                        attributes[name] = values[lifted[id(value)]]

    @contextmanager
    def placed(self, values: dict[str, Any]) -> Iterator[None]:
        """Inside, the module has these tensors in place of its own."""
        restore = snapshot_attributes(self.module, list(values.values()))
        try:
            every = {**values, **{name: values[one] for name, one in self.others.items()}}
            with replaced(self.module, every, tie_weights=False, strict=False):
                self.place_aliases(values)
                yield
        finally:
            assigned = restore()
        if assigned and not self.may_assign:
            names = ", ".join([f"self.{name}" for name in assigned])
            raise ValueError(
                f"The tensor attribute{'s' if len(assigned) > 1 else ''} {names} "
                f"{'were' if len(assigned) > 1 else 'was'} assigned during export. "
                "Such attributes must be registered as buffers using the `register_buffer` API "
                "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_buffer)."
            )


def tables_of(member: Module) -> list[dict[str, Any]]:
    """Where a module keeps its attributes: compiled ones have an object beside their dictionary."""
    attributes = vars(member)
    instance = getattr(attributes.get("_c"), "instance", None)
    return [attributes] if instance is None else [attributes, instance.values]


def snapshot_attributes(module: Module, placed: list[Any]) -> Callable[[], list[str]]:
    """A function that gives all modules the attributes back that they have now, and says which
    tensors among them were assigned, but for the `placed` ones. Containers get back what they
    hold."""
    own = {id(value) for value in placed}
    kept = [
        (prefix, member, table, dict(table), members_of(table, prefix))
        for path, member in module.named_modules()
        for prefix in (f"{path}." if path else "",)
        for table in tables_of(member)
    ]

    def is_assigned(before: Any, now: Any) -> bool:
        is_tensor = isinstance(before, Tensor) and isinstance(now, Tensor)
        return is_tensor and now is not before and id(now) not in own

    def restore() -> list[str]:
        assigned = []
        for prefix, member, now, attributes, contents in kept:
            for name, value in now.items():
                if name in OWN or name in member._parameters or name in member._buffers:
                    continue
                if is_assigned(attributes.get(name), value):
                    assigned.append(prefix + name)
            for path, container, content in contents:
                for key, before, value in common_items(content, container):
                    if is_assigned(before, value):
                        assigned.append(f"{path}[{key!r}]")
            if not is_same(now, attributes):
                now.clear()
                now.update(attributes)
            for _, container, content in contents:
                refill(container, content)
        return assigned

    return restore


def common_items(content: Any, container: Any) -> list[tuple[Any, Any, Any]]:
    """What a container held and holds under the same key."""
    if isinstance(content, dict):
        return [(key, content[key], container[key]) for key in content if key in container]
    if isinstance(content, list):
        return [(place, *pair) for place, pair in enumerate(zip(content, container))]
    return []


def is_same(now: dict[str, Any], before: dict[str, Any]) -> bool:
    return len(now) == len(before) and all([now.get(k) is v for k, v in before.items()])


def members_of(attributes: dict[str, Any], prefix: str) -> list[tuple[str, Any, Any]]:
    """The containers among attributes, and in them, by path, with copies of what they hold."""
    found: list[tuple[str, Any, Any]] = []
    seen: set[int] = set()

    def visit(value: Any, path: str) -> None:
        if type(value) is tuple:
            for place, item in enumerate(value):
                visit(item, f"{path}[{place}]")
        if type(value) not in CONTAINERS or id(value) in seen:
            return
        seen.add(id(value))
        found.append((path, value, value.copy()))
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            visit(item, f"{path}[{key!r}]")

    for name, value in attributes.items():
        if name not in OWN:
            visit(value, prefix + name)
    return found


def refill(container: Any, content: Any) -> None:
    if isinstance(container, dict):
        container.clear()
        container.update(content)
    elif isinstance(container, list):
        container[:] = content
    else:
        container.clear()
        container |= content


def persistent_names(module: Module) -> set[str]:
    """The names of buffers that state dicts hold."""
    found = set()
    for path, member in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        left_out = member._non_persistent_buffers_set
        found |= {prefix + name for name in member._buffers if name not in left_out}
    return found


def constant_attributes(module: Module) -> dict[int, tuple[Any, list[str]]]:
    """Tensors that modules have as plain attributes: identity -> tensor, dotted names."""
    found: dict[int, tuple[Any, list[str]]] = {}
    for path, member in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for table in tables_of(member):
            for name, value in table.items():
                if name in member._parameters or name in member._buffers:
                    continue
                if isinstance(value, Tensor) and not isinstance(value, Parameter):
                    found.setdefault(id(value), (value, []))[1].append(prefix + name)
    return found
