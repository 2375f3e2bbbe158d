"""The registry: `op`, `pointwise`, `view`, `composite` make records; names lead to them.

A record is registered once, by its schema. In-place (`add_`) and `out=` overloads are derived
from the functional record on first use (`derived`), Tensor methods (`exposure`) and public
functions too, so that an op is written in one place and import only keeps the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from rushlight.core import ports
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.stubs import make_stub
from rushlight.opset import families
from rushlight.opset.derived import (
    MUTATION,
    derive_inplace,
    derive_named_out,
    derived_options,
    inplace_record,
    out_record,
)
from rushlight.opset.elementwise import POINTWISE
from rushlight.opset.exposure import expose, is_free, method_alias
from rushlight.opset.kinds import OPAQUE, VIEW, Kind

__all__ = [
    "PACKETS", "alias", "composite", "find", "mutation", "op", "packet", "pointwise", "public",
    "view",
]  # fmt: skip

# namespace -> name -> packet
PACKETS: dict[str, dict[str, OpOverloadPacket]] = {"aten": {}}
# Public function name -> packet name, where they differ; and names that are methods only.
ALIASES: dict[str, str] = {}


def op(
    schema: str,
    *,
    kind: Kind = OPAQUE,
    namespace: str = "aten",
    **options: Any,
) -> OpOverload:
    """Register one overload. Options named like a rule (kernel=, shape=, vjp=, see `core.op.RULES`)
    set that rule; the others are facts, declared in `core.op.OPTIONS` or by the kind."""
    record = OpOverload(schema, kind, namespace, **options)
    register(record)
    return record


def register(record: OpOverload) -> None:
    name = record.base_name
    table = PACKETS.setdefault(record.namespace, {})
    found = table.get(name)
    if found is None:
        found = table[name] = OpOverloadPacket(name, record.namespace)
        if record.namespace == "aten" and record.options.get("method", True):
            expose(name, bool(record.options.get("inplace")))
    if record._overloadname in found.table:
        raise RuntimeError(f"{record.name()} is registered already; an op is written once")
    found.add(record)
    varargs = record.options.get("varargs")
    if varargs is not None:
        found.varargs = varargs
    former = record.options.get("former")
    if former is not None:
        found.former = former


def alias(name: str, target: str, *, method: bool = True) -> None:
    """A second public name for an op: `torch.concat` for `cat`."""
    ALIASES[name] = target
    if method and is_free(name):
        method_alias(name, target)


def packet(name: str, namespace: str = "aten") -> OpOverloadPacket:
    """The packet of a name; derives in-place packets. KeyError when there is none."""
    if namespace == "aten":
        families.load_op(name)
    elif name not in PACKETS.get(namespace, ()):
        families.load_namespace(namespace)
    table = PACKETS.get(namespace, {})
    found = table.get(name)
    if found is not None:
        return found
    if namespace == "aten" and name in ALIASES:
        return packet(ALIASES[name])
    if name.endswith("_") and not name.endswith("__"):
        functional = name[:-1]
        if namespace == "aten" and functional in ALIASES:
            return packet(ALIASES[functional] + "_")
        source = table.get(functional)
        made = None if source is None else derive_inplace(source)
        if made is not None:
            # One packet for all threads.
            return table.setdefault(name, made)
    raise KeyError(f"{namespace}::{name}")


def find(name: str, overload: str = "default", namespace: str = "aten") -> OpOverload:
    """One overload by name."""
    return cast(OpOverload, getattr(packet(name, namespace), overload))


def public(name: str) -> Any:
    """The public function of a name (`torch.add`), or None."""
    try:
        found = packet(name)
    except KeyError:
        return None
    return make_stub(found, name, method=False) if is_function(found) else None


def is_function(found: OpOverloadPacket) -> bool:
    """Whether an op is a public function too, not only a method or a name below `torch.ops`."""
    first = found.candidates[0] if found.candidates else next(iter(found.table.values()))
    return bool(first.options.get("function", True))


def public_names() -> list[str]:
    """The names that `public` answers, of all ops."""
    families.load_all()
    return [
        name
        for name, found in PACKETS["aten"].items()
        if not name.startswith("__") and is_function(found)
    ]


def registered(namespace: str = "aten") -> list[OpOverload]:
    """Every op that is written down in what was loaded; derived forms are left out."""
    return [
        record
        for found in list(PACKETS.get(namespace, {}).values())
        for record in list(found.table.values())
        if record.functional is None
    ]


def find_packet(namespace: str, name: str) -> OpOverloadPacket:
    """The packet behind a pickled one."""
    return packet(name, namespace)


def torch_tags(op: OpOverload) -> set[str]:
    """Read on first use: most programs ask for no tags."""
    from rushlight.opset.tags import tags_of

    return tags_of(op)


ports.fill(
    torch_tags=torch_tags,
    derive_overload=derive_named_out,
    find_packet=find_packet,
    out_overload=out_record,
    family_of=families.family_of,
)


# -- makers ----------------------------------------------------------------------------------------


def pointwise(schema: str, *, scalar: Callable[..., Any], **options: Any) -> OpOverload:
    """An elementwise op. `scalar(m, *arguments)` is its text over a math namespace."""
    options.setdefault("inplace", True)
    options.setdefault("numbers", True)
    return op(schema, kind=POINTWISE, scalar=scalar, **options)


def view(schema: str, **options: Any) -> OpOverload:
    """An op that aliases its first argument; see `kinds.View` for its shape rule."""
    return op(schema, kind=VIEW, **options)


def composite(schema: str, **options: Any) -> Callable[[Callable[..., Any]], OpOverload]:
    """An op that is its own definition in terms of other ops."""

    def attach(body: Callable[..., Any]) -> OpOverload:
        record = op(schema, **options)
        record.body = body
        return record

    return attach


def mutation(
    base: OpOverload, kernel: Callable[..., Any], schema: str | None = None, **options: Any
) -> OpOverload:
    """The in-place form of `base` with a kernel of its own, which writes into its first array."""
    if schema is None:
        record = inplace_record(base)
        record.kind = MUTATION
    else:
        record = OpOverload(schema, MUTATION, base.namespace, **derived_options(base))
        record.functional = base
    record.rules["kernel"] = kernel
    record.state(options)
    register(record)
    return record
