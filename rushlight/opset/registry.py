"""The registry: `op`, `pointwise`, `view`, `composite` make records; names lead to them.

A record is registered once, by its schema. In-place (`add_`) and `out=` overloads are derived
from the functional record on first use, Tensor methods and public functions too, so that an op
is written in one place and import does no work beyond keeping the records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from rushlight.core import op as records
from rushlight.core import ports
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.promotion import can_cast
from rushlight.core.stubs import make_stub
from rushlight.core.tensor import Tensor
from rushlight.opset import families
from rushlight.opset.derived import INPLACE, MUTATION, OUT, resize_out
from rushlight.opset.elementwise import POINTWISE
from rushlight.opset.kinds import OPAQUE, VIEW, Kind

__all__ = [
    "PACKETS", "alias", "composite", "find", "mutation", "op", "packet", "pointwise", "public",
    "view",
]  # fmt: skip

PACKAGE = "rushlight.opset."
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
    """Register one overload. Options named like a rule (kernel=, shape=, vjp=, jvp=, batch=,
    samples=, errors=) set that rule; the others are facts the kind or the binder reads:

    inplace, out      derive `name_` / `out=` forms (out: on unless the op is a view or in-place)
    inplace_vjp       the gradient of `name_` where it differs, with inplace_node_index
    inplace_check     refuses arguments of `name_` that the op itself takes
    out_check         refuses tensors that a composite's results could be written into
    method, function  whether it is a Tensor method / public function (both on)
                      (function=None: the function of that name is written in Python)
    numbers           tensor arguments after the first accept Python numbers
    node, node_index  the backward node's name, or the digit at its end
    differentiable, non_differentiable   argument names / output positions
    layout            result strides, see `kinds`
    invariants        function of the results: what of them does not depend on signs, phases or an
                      order that the algorithm may choose; comparisons look at that alone
    """
    rules = {name: options.pop(name) for name in records.RULES if name in options}
    record = OpOverload(schema, kind, namespace, **options)
    record.rules.update(rules)
    record.family = loading_family()
    register(record)
    return record


def loading_family() -> str:
    """The module of this package whose import is running; "" when there is none."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals["__name__"])
    return module.removeprefix(PACKAGE) if module.startswith(PACKAGE) else ""


def register(record: OpOverload) -> None:
    name = record.base_name
    table = PACKETS.setdefault(record.namespace, {})
    found = table.get(name)
    if found is None:
        found = table[name] = OpOverloadPacket(name, record.namespace)
        if record.namespace == "aten":
            expose(name, record)
    found.add(record)
    varargs = record.options.get("varargs")
    if varargs is not None:
        found.varargs = varargs


def expose(name: str, record: OpOverload) -> None:
    """Put Tensor methods in place; each becomes a stub on first access."""
    if record.options.get("method", True) and is_free(name):
        setattr(Tensor, name, LazyMethod(name))
    if record.options.get("inplace") and record.options.get("method", True):
        inplace = name + "_"
        if is_free(inplace):
            setattr(Tensor, inplace, LazyMethod(inplace))


def is_free(name: str) -> bool:
    """Whether Tensor has no such attribute yet, or only the promise of one."""
    return isinstance(Tensor.__dict__.get(name, PROMISED), LateAttribute)


class LateAttribute:
    """A Tensor attribute that a cold family defines: loads families until it is there.

    A descriptor rather than `Tensor.__getattr__`, which would slow down every attribute access.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        while Tensor.__dict__[self.name] is self:
            if not families.load_next():
                delattr(Tensor, self.name)
                raise AttributeError(f"'Tensor' object has no attribute '{self.name}'")
        return getattr(owner if instance is None else instance, self.name)


PROMISED = LateAttribute("")


def promise_attributes() -> None:
    """Put a LateAttribute in the place of everything that cold families add to Tensor."""
    for name in families.COLD_ATTRIBUTES:
        if name not in Tensor.__dict__:
            setattr(Tensor, name, LateAttribute(name))


class LazyMethod:
    """A Tensor method that does not exist until it is first looked up."""

    __slots__ = ("name", "packet_name")

    def __init__(self, name: str, packet_name: str | None = None) -> None:
        self.name = name
        self.packet_name = name if packet_name is None else packet_name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        stub = make_stub(packet(self.packet_name), self.name, method=True)
        setattr(Tensor, self.name, stub)
        return stub if instance is None else stub.__get__(instance, owner)


def method_alias(name: str, target: str) -> None:
    """Another name (often a dunder) for a method."""
    setattr(Tensor, name, LazyMethod(name, target))


def alias(name: str, target: str, *, method: bool = True) -> None:
    """A second public name for an op: `torch.concat` for `cat`."""
    ALIASES[name] = target
    if method and is_free(name):
        method_alias(name, target)


def packet(name: str, namespace: str = "aten") -> OpOverloadPacket:
    """The packet of a name; derives in-place packets. KeyError when there is none."""
    while True:
        found = known_packet(name, namespace)
        if found is not None:
            return found
        if namespace != "aten" or not families.load_next():
            raise KeyError(f"{namespace}::{name}")


def known_packet(name: str, namespace: str) -> OpOverloadPacket | None:
    """The packet of a name among the families loaded so far."""
    table = PACKETS.get(namespace, {})
    found = table.get(name)
    if found is None and namespace == "aten":
        found = table.get(ALIASES.get(name, ""))
    if found is None and name.endswith("_") and not name.endswith("__"):
        source = table.get(name[:-1])
        if source is None and name[:-1] in ALIASES:
            source = table.get(ALIASES[name[:-1]])
        if source is not None:
            found = derive_inplace(source)
            if found is not None:
                table[name] = found
    return found


def find(name: str, overload: str = "default", namespace: str = "aten") -> OpOverload:
    """One overload by name."""
    found: OpOverload = getattr(packet(name, namespace), overload)
    return found


def public(name: str) -> Any:
    """The public function of a name (`torch.add`), or None."""
    try:
        found = packet(name)
    except KeyError:
        return None
    first = found.candidates[0] if found.candidates else next(iter(found.table.values()))
    if not first.options.get("function", True):
        return None
    return make_stub(found, name, method=False)


# -- derived overloads -----------------------------------------------------------------------------


def derive_inplace(source: OpOverloadPacket) -> OpOverloadPacket | None:
    made = OpOverloadPacket(source.base_name + "_", source.namespace)
    made.varargs = source.varargs
    for base in source.candidates:
        if not base.options.get("inplace") or base._schema.arguments[0].type.kind != "Tensor":
            continue
        made.add(inplace_record(base))
    return made if made.table else None


def inplace_record(base: OpOverload) -> OpOverload:
    overload = base.overload
    head = base.base_name + "_" + (f".{overload}" if overload else "")
    inside = str(base._schema).split("(", 1)[1].rsplit(" -> ", 1)[0]
    first = base._schema.arguments[0].name
    inside = inside.replace(f"Tensor {first}", f"Tensor(a!) {first}", 1)
    record = OpOverload(
        f"{head}({inside} -> Tensor(a!)", INPLACE, base.namespace, **derived_options(base)
    )
    record.functional = base
    if base.body is not None:
        body = base.body
        # What the body saves for its gradient must survive the write.
        record.body = lambda self, *rest: self.copy_(
            body(self.clone() if self.requires_grad else self, *rest)
        )
    own = base.options.get("inplace_vjp")
    if own is not None:
        record.rules["vjp"] = own
        record.options["node_index"] = base.options.get("inplace_node_index", 1)
    return record


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
    record.rules.update({name: options.pop(name) for name in records.RULES if name in options})
    record.options.update(options)
    register(record)
    return record


def out_record(base: OpOverload) -> OpOverload | None:
    """The out= form of a functional overload; None for views and in-place ops."""
    if base._schema.is_mutable or base.is_view_op or not base.options.get("out", True):
        return None
    returns = base._schema.returns
    if any(entry.type.kind != "Tensor" for entry in returns) or not returns:
        return None
    packet_table = base.packet.table
    name = base.options.get("out_name")
    if name is None:
        plain = base.overload in ("", "Tensor")
        name = "out" if plain else f"{base.overload}_out"
    found: OpOverload | None = packet_table.get(name)
    if found is not None:
        return found
    inside = str(base._schema).split("(", 1)[1].rsplit(") -> ", 1)[0]
    names = ["out"] if len(returns) == 1 else [e.name or f"out{i}" for i, e in enumerate(returns)]
    marks = "abcdefgh"
    outs = ", ".join(f"Tensor({marks[i]}!) {n}" for i, n in enumerate(names))
    star = "" if any(a.kwarg_only for a in base._schema.arguments) else "*, "
    separator = ", " if inside else ""
    answer = ", ".join(f"Tensor({marks[i]}!)" for i in range(len(names)))
    answer = answer if len(names) == 1 else f"({answer})"
    record = OpOverload(
        f"{base.base_name}.{name}({inside}{separator}{star}{outs}) -> {answer}",
        OUT,
        base.namespace,
        **derived_options(base),
    )
    record.functional = base
    if base.body is not None:
        count = len(names)
        check = base.options.get("out_check")
        body = base.body

        def checked(*args: Any) -> Any:
            if check is not None:
                check(*args[-count:])
            return fill(args[-count:], body(*args[:-count]))

        record.body = checked
    base.packet.add(record)
    return record


def fill(outs: tuple[Tensor, ...], result: Any) -> Any:
    """Write a composite's results into the given tensors."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    for target, value in zip(outs, results, strict=True):
        if not can_cast(value.dtype, target.dtype):
            raise RuntimeError(
                f"result type {value.dtype.scalar_type_name} can't be cast to the desired output "
                f"type {target.dtype.scalar_type_name}"
            )
        if target.shape != value.shape:
            resize_out(target, value.shape)
        target.copy_(value)
    return outs[0] if len(outs) == 1 else outs


def derived_options(base: OpOverload) -> dict[str, Any]:
    kept = {k: v for k, v in base.options.items() if k in ("numbers", "tags", "varargs", "node")}
    return kept


def derive_named_out(source: OpOverloadPacket, overload: str) -> OpOverload | None:
    for base in list(source.candidates):
        record = out_record(base)
        if record is not None and record._overloadname == overload:
            return record
    return None


def find_packet(namespace: str, name: str) -> OpOverloadPacket:
    """The packet behind a pickled one."""
    return packet(name, namespace)


ports.fill(derive_overload=derive_named_out, find_packet=find_packet, out_overload=out_record)


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
