"""Entering operators and their kernels, shapes and rules in the tables.

Invariant: what a `Library` entered, its `_destroy` takes out again.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from rushlight.base.errors import MissingFeature, error
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.library import gradients
from rushlight.opset import custom, registry

RESERVED = frozenset(("prim",))


def fallthrough_kernel() -> None:
    """Stands for "this key does nothing" where a kernel is registered."""
    # torch: the words.
    raise NotImplementedError("fallthrough_kernel() should never be called.")


# -- finding ops ----------------------------------------------------------------------------------


def parse_qualname(qualname: str) -> tuple[str, str]:
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f"Expected `qualname` to be of the form `namespace::name`, but got {qualname}. The "
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    return parts[0], parts[1]


def find_op(name: Any, namespace: str | None = None) -> OpOverload:
    """The overload meant by an OpOverload, a CustomOpDef, "ns::name" or "name.overload"."""
    if isinstance(name, OpOverload):
        return name
    defined = getattr(name, "_opoverload", None)
    if isinstance(defined, OpOverload):
        return defined
    if isinstance(name, OpOverloadPacket):
        return next(iter(name.table.values()))
    if not isinstance(name, str):
        raise ValueError(f"expected an operator or its name, got {type(name).__name__}")
    if "::" in name:
        namespace, name = parse_qualname(name)
    base, _, overload = name.partition(".")
    try:
        packet = registry.packet(base, namespace or "aten")
        return getattr(packet, overload or "default") if overload else default_of(packet)
    except (KeyError, AttributeError):
        raise error("RL0302", name=f"{namespace}::{name}") from None


def is_defined(namespace: str, name: str) -> bool:
    try:
        find_op(name, namespace)
    except RuntimeError:
        return False
    return True


def default_of(packet: OpOverloadPacket) -> OpOverload:
    found = packet.table.get("default")
    return found if found is not None else next(iter(packet.table.values()))


def register_schema(
    namespace: str, schema: str, tags: Any = (), manual: bool = False
) -> OpOverload:
    """Make the record. `manual`: writes are checked and counted by what the kernel calls."""
    options = {"tags": tuple(tags), "out": False, "manual": manual}
    record = OpOverload(schema, custom.CUSTOM, namespace, **options)
    head = record._schema
    namespace = head.namespace
    table = registry.PACKETS.setdefault(namespace, {}).get(head.base_name)
    if table is not None and record._overloadname in table.table:
        raise RuntimeError(
            f"Tried to register an operator ({head}) with the same name and overload name multiple "
            "times. Each overload's schema should only be registered with a single call to def()."
        )
    if record._schema.is_mutable:
        record.rules["functionalized"] = functionalize_write
    registry.register(record)
    return record


def functionalize_write(mode: Any, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """An op that writes and whose values somebody follows becomes a call on copies."""
    from rushlight.higher_order import writes

    return writes.functionalize_write(mode, op, args)


def forget(record: OpOverload) -> None:
    table = registry.PACKETS.get(record.namespace, {})
    packet = table.get(record.base_name)
    if packet is None or packet.table.get(record._overloadname) is not record:
        return
    del packet.table[record._overloadname]
    packet.candidates = [op for op in packet.candidates if op is not record]
    packet.stubs.clear()
    if not packet.table:
        del table[record.base_name]


# -- Library --------------------------------------------------------------------------------------


class Library:
    """A set of registrations in one namespace. `kind` is "DEF", "FRAGMENT" or "IMPL"."""

    __module__ = "rushlight.library"

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        if kind == "DEF" and ns in DEFINED:
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please "
                "put all of your definitions in a single TORCH_LIBRARY block, or use a FRAGMENT."
            )
        if kind == "DEF":
            DEFINED.add(ns)
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self.defined: list[OpOverload] = []
        self.kernels: list[tuple[OpOverload, str]] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its schema, without the namespace; returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.dispatch_key:
            raise AssertionError(
                f"dispatch_key must be empty for define, got {self.dispatch_key!r}"
            )
        if self.kind == "IMPL":
            raise RuntimeError(
                "def(): Cannot define an operator inside of an IMPL library. Use kind 'FRAGMENT'."
            )
        listed = tags if isinstance(tags, (tuple, list)) else (tags,)
        record = register_schema(self.ns, schema, listed, manual=True)
        self.defined.append(record)
        name = record.base_name + (f".{record.overload}" if record.overload else "")
        for library, function, key in AWAITED.pop((self.ns, name), ()):
            library.impl(record, function, key)
        return name

    def impl(
        self,
        op_name: Any,
        fn: Any,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register a kernel for an operator and a dispatch key."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        key = custom.SYNONYMS.get(
            dispatch_key or self.dispatch_key, dispatch_key or self.dispatch_key
        )
        if key not in custom.KEYS:
            raise error("RL0304", key=dispatch_key, known=", ".join(sorted(custom.KEYS)))
        if isinstance(op_name, str):
            namespace, name = parse_qualname(op_name) if "::" in op_name else (self.ns, op_name)
            if not is_defined(namespace, name):
                AWAITED.setdefault((namespace, name), []).append((self, fn, key))
                return
        op = find_op(op_name, self.ns)
        if op.namespace != self.ns:
            raise RuntimeError(
                f"impl(): operator {op.name()} does not belong to the namespace {self.ns} of this "
                "library."
            )
        if (op, key) in INSTALLED and not allow_override:
            warnings.warn(
                f"Overriding a previously registered kernel for the operator {op.name()} and the "
                f"dispatch key {key}.",
                UserWarning,
                stacklevel=2,
            )
        if fn is fallthrough_kernel:
            return
        if with_keyset:
            fn = functools.partial(fn, None)
        custom.install(op, key, fn)
        INSTALLED.add((op, key))
        self.kernels.append((op, key))

    def _register_fake(self, op_name: Any, fn: Any, _stacklevel: int = 1) -> None:
        register_fake(find_op(op_name, self.ns), fn, lib=self)

    def _destroy(self) -> None:
        """Undo every registration of this library."""
        for op, key in self.kernels:
            custom.remove(op, key)
            INSTALLED.discard((op, key))
        for record in self.defined:
            forget(record)
        self.kernels, self.defined = [], []
        if self.kind == "DEF":
            DEFINED.discard(self.ns)


DEFINED: set[str] = {"aten"}
# (namespace, name) -> kernels that were registered before their operator was defined.
AWAITED: dict[tuple[str, str], list[tuple[Library, Any, str]]] = {}
INSTALLED: set[tuple[OpOverload, str]] = set()
# Libraries made by the functions below; they live as long as the process.
KEPT: dict[str, Library] = {}


def kept_library(namespace: str) -> Library:
    found = KEPT.get(namespace)
    if found is None:
        found = KEPT[namespace] = Library(namespace, "FRAGMENT")
    return found


class scoped_library:
    """A Library that undoes its registrations at the end of the block."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.arguments = (args, kwargs)

    def __enter__(self) -> Library:
        args, kwargs = self.arguments
        self.library = Library(*args, **kwargs)
        return self.library

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        self.library._destroy()


_scoped_library = scoped_library


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Define an operator: `define("mylib::f", "(Tensor x) -> Tensor")`."""
    if not isinstance(qualname, str):
        raise ValueError(
            "define(qualname, schema): expected qualname to be instance of str, got "
            f"{type(qualname)}"
        )
    namespace, name = parse_qualname(qualname)
    if not schema.lstrip().startswith("("):
        raise ValueError(
            "define(qualname, schema, ...): expected schema to look like e.g. "
            f'"(Tensor x) -> Tensor" but got "{schema}"'
        )
    (lib or kept_library(namespace)).define(name + schema, alias_analysis="", tags=tags)


DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "default": custom.EXPLICIT}


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register a kernel for the device types named; also a decorator."""

    def register(function: Any) -> Any:
        op = find_op(qualname)
        for entry in (types,) if isinstance(types, str) else types:
            key = DEVICE_KEYS.get(entry, entry)
            (lib or kept_library(op.namespace)).impl(op, function, key)
        return function

    return register if func is None else register(func) and None


def register_fake(
    op: Any,
    func: Any = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: Any = False,
) -> Any:
    """Register what an operator does to tensors without values; also a decorator."""

    def register(function: Any) -> Any:
        record = find_op(op)
        (lib or kept_library(record.namespace)).impl(
            record, function, "Meta", allow_override=allow_override
        )
        return function

    return register if func is None else register(func)


def impl_abstract(qualname: Any, func: Any = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """The old name of `register_fake`."""
    warnings.warn(
        "torch.library.impl_abstract was renamed to torch.library.register_fake. Please use that "
        "instead; we will remove torch.library.impl_abstract in a future version of PyTorch.",
        DeprecationWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """Register an operator's gradient: `setup_context` saves, `backward(ctx, *grads)` answers."""
    record = find_op(op)
    if record._schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {record} with schema "
            f"{record._schema}. Please create a functional operator and register an autograd "
            "formula for that."
        )
    record.options["formula"] = gradients.autograd_kernel(record, backward, setup_context)
    custom.refresh(record)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register how an operator runs on batches: `func(info, in_dims, *args)`."""

    def register(function: Any) -> Any:
        find_op(op).batch = lambda level, op, *args: level.user_rule(function, args)
        return function

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Register the dtype to which autocast brings an operator's floating inputs."""
    find_op(op).options.setdefault("autocast_dtypes", {})[device_type] = cast_inputs


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None
) -> Any:
    """Register what a mode or subclass does with an operator, instead of its own rule."""

    def register(function: Any) -> Any:
        find_op(op).options.setdefault("torch_dispatch", {})[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


def get_kernel(op: Any, dispatch_key: str) -> Any:
    """The kernel registered for a key, as a function of the operator's arguments."""
    record = find_op(op)
    key = custom.SYNONYMS.get(dispatch_key, dispatch_key)
    found = custom.kernels_of(record).get(key)
    if found is None:
        raise error("RL0303", op=record.name(), key=dispatch_key)
    return found


class FakeContext:
    """What `get_ctx()` gives inside a fake implementation."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        raise MissingFeature(
            "sizes that depend on data while no shape environment is active", code="RL0705"
        )

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:
        return self.new_dynamic_size(min=min, max=max)


def get_ctx() -> FakeContext:
    """The context of the fake implementation that is running."""
    return FakeContext()
