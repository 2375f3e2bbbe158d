"""Questions about the dispatcher: which kernels an operator has, which keys a call passes.

The answers are of this library: an operator of its own has a kernel for a key where its record
has the part that the key stands for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rushlight.base.schema import Schema
from rushlight.core import keys
from rushlight.core.batching import BatchedTensor
from rushlight.core.dispatch import dispatches
from rushlight.core.keys import (
    DispatchKey,
    DispatchKeySet,
    excluded_keys,
    included_keys,
    parse_key,
    registered_keys,
)
from rushlight.core.op import OpOverload
from rushlight.core.state import LAYER_AUTOGRAD, LOCAL
from rushlight.core.tensor import Tensor
from rushlight.library.registration import AWAITED, find_op, is_defined
from rushlight.library.schema_check import overlaps
from rushlight.opset import families, registry

ALIAS_KEYS = frozenset(keys.ALIASES) - {"Dense", "Quantized", "Sparse", "SparseCsr", "NestedTensor"}


def split_name(name: str) -> tuple[str, str]:
    namespace, _, rest = name.partition("::")
    return namespace, rest


def find(name: str) -> OpOverload:
    namespace, rest = split_name(name)
    if not is_defined(namespace, rest):
        raise RuntimeError(f"operator {name} does not exist")
    return find_op(rest, namespace)


def has_kernel(name: str) -> bool:
    """Whether an operator of that name has any kernel."""
    namespace, rest = split_name(name)
    if not is_defined(namespace, rest):
        return False
    op = find_op(rest, namespace)
    return bool(registered_keys(op))


def has_kernel_for_key(name: str, key: Any) -> bool:
    """Whether a kernel was registered for just this key."""
    return keys.has_kernel(find(name), key)


def has_kernel_for_any_key(name: str, given: DispatchKeySet) -> bool:
    return not registered_keys(find(name)).isdisjoint(given.names)


def computed_by(op: OpOverload, key: str) -> str | None:
    """The key whose kernel a call with this key runs; None where there is none."""
    present = registered_keys(op)
    if key in present:
        return key
    backend = key in keys.BACKEND_KEYS
    if backend and keys.EXPLICIT in present:
        return keys.EXPLICIT
    if keys.IMPLICIT in present and (backend or key.startswith("Autograd")):
        return keys.IMPLICIT
    if key.startswith("Autograd") and "Autograd" in present:
        return "Autograd"
    return None


def has_computed_kernel_for_key(name: str, key: Any) -> bool:
    return computed_by(find(name), parse_key(key)) is not None


def is_fallthrough(name: str, key: Any) -> bool:
    """Whether calls of the operator pass a layer's key as if it were not there."""
    op, wanted = find(name), parse_key(key)
    kernel = op.options.get("kernels", {}).get(wanted)
    if kernel is not None:
        return bool(kernel.__qualname__.startswith("fall_through."))
    return wanted in keys.LAYERS and computed_by(op, wanted) is None


def dump(name: str) -> str:
    """The operator and the kernels that were registered for it."""
    op = find(name)
    lines = [f"name: {op.name()}", f"schema: {op._schema}", "alias analysis kind: FROM_SCHEMA"]
    for key in [*reversed(keys.KEYS), *keys.ALIASES]:
        if key in registered_keys(op):
            mark = "[alias]" if key in ALIAS_KEYS else ""
            origin = "a user" if key in op.options.get("kernels", ()) else "the library"
            lines.append(f"{key}{mark}: registered by {origin}")
    return "\n".join(lines) + "\n"


def dump_table(name: str) -> str:
    """The kernel that a call with each key runs."""
    op = find(name)
    lines = []
    for key in keys.KEYS:
        source = computed_by(op, key)
        if source is not None:
            lines.append(f"{key}: {'kernel' if source == key else f'{source} kernel'}")
    return "\n".join(lines) + "\n"


def check_invariants(name: str) -> None:
    find(name)


def check_all_invariants() -> None:
    """Nothing can be broken here that a registration does not refuse."""


def find_dangling_impls() -> list[str]:
    """Kernels whose operators were not defined yet."""
    return [f"{namespace}::{name}" for namespace, name in AWAITED]


def all_op_names() -> list[str]:
    families.load_all()
    return [
        op.name()
        for table in registry.PACKETS.values()
        for packet in list(table.values())
        for op in list(packet.table.values())
    ]


def registrations_for_key(key: Any = "") -> list[str]:
    wanted = parse_key(key) if key else None
    return [
        name for name in all_op_names() if wanted is None or wanted in registered_keys(find(name))
    ]


def print_registrations_for_key(key: Any = "") -> None:
    print("\n".join(registrations_for_key(key)))


def keys_of_tensor(tensor: Tensor) -> DispatchKeySet:
    return keys.keys_of((tensor,))


def key_name(key: Any) -> str:
    return parse_key(key)


def key_parse(name: str) -> Any:
    return DispatchKey[parse_key(name)]


def key_set(key: Any) -> DispatchKeySet:
    return DispatchKeySet(key)


def keyset_to_string(given: DispatchKeySet) -> str:
    return repr(given)


def find_schema(name: str, overload: str) -> OpOverload:
    """The operator itself: its record is its handle."""
    return find(f"{name}.{overload}" if overload else name)


def keyset_full() -> DispatchKeySet:
    return keys.FULL


def num_backends() -> int:
    return len(keys.DEVICES)


def is_alias_key(key: Any) -> bool:
    return parse_key(key) in ALIAS_KEYS


def is_included_in_alias(key: Any, alias: Any) -> bool:
    name, wide = parse_key(key), parse_key(alias)
    if wide in ("Autograd", "AutogradFunctionality"):
        return name.startswith("Autograd")
    if wide.startswith("CompositeExplicit"):
        return name in keys.BACKEND_KEYS
    if wide == keys.IMPLICIT:
        return name in keys.BACKEND_KEYS or name.startswith("Autograd")
    return name == wide


def backend_keyset_from_autograd(key: Any) -> DispatchKeySet:
    return DispatchKeySet(parse_key(key).removeprefix("Autograd"))


def is_subclass_like(tensor: Tensor) -> bool:
    cls = type(tensor)
    return cls is BatchedTensor or bool(cls.handling_layer) or dispatches(cls)


def is_key_excluded(key: Any) -> bool:
    name = parse_key(key)
    if name in ("Autograd", "AutogradFunctionality"):
        return bool(LOCAL.state.excluded & LAYER_AUTOGRAD)
    return excluded_keys().has(name)


def is_key_included(key: Any) -> bool:
    return included_keys().has(key)


def set_key_excluded(key: Any, excluded: bool) -> None:
    """Let calls of this thread pass a key by, until it is set otherwise."""
    layer = keys.LAYERS.get(parse_key(key), 0)
    state = LOCAL.state
    state.excluded = state.excluded | layer if excluded else state.excluded & ~layer
    state.refresh()


def schemas_of(name: str) -> list[Schema]:
    """The schemas of all overloads of a name."""
    namespace, rest = split_name(name)
    try:
        packet = registry.packet(rest, namespace)
    except KeyError:
        return []
    return [op._schema for op in packet.table.values()]


def all_schemas() -> list[Schema]:
    return [find(name)._schema for name in all_op_names()]


def get_schema(name: str, overload: str) -> Schema:
    return find(f"{name}.{overload}" if overload else name)._schema


def parse_schema(text: str) -> Schema:
    made = Schema(text, "")
    _ = made.arguments, made.returns
    return made


def overlap(first: Any, second: Any) -> bool:
    """Whether tensors share memory."""
    for value in (first, second):
        if not isinstance(value, (Tensor, list, tuple)):
            raise RuntimeError(f"Cannot inspect value of type {type(value).__name__}")
    return overlaps(first, second)


@contextlib.contextmanager
def dl_open_guard() -> Iterator[None]:
    """Nothing: no compiled library is opened inside."""
    yield
