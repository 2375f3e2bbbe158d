"""Entering operators and their kernels, shapes and rules in the tables.

Invariant: what a `Library` entered, its `_destroy` takes out again.
"""

from __future__ import annotations

import functools
import re
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from rushlight.base.errors import MissingFeature, error
from rushlight.base.schema import Schema
from rushlight.core import keys
from rushlight.core.dispatch import torch_arguments
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.state import LAYER_FAKE, LOCAL, changed
from rushlight.library import gradients
from rushlight.opset import custom, registry

RESERVED = frozenset(("prim",))


def fallthrough_kernel() -> None:
    """Stands for "this key does nothing" where a kernel is registered."""
    # torch: the words.
    raise NotImplementedError("fallthrough_kernel() should never be called.")


# It is there to be named: nothing calls it.
vars(fallthrough_kernel)["__refusal__"] = None


# -- finding ops ----------------------------------------------------------------------------------


def parse_qualname(qualname: str) -> tuple[str, str]:
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The '
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    return parts[0], parts[1]


def find_op(name: Any, namespace: str | None = None, caller: str = "") -> OpOverload:
    """The overload meant by an OpOverload, a CustomOpDef, "ns::name" or "name.overload"."""
    if isinstance(name, OpOverload):
        return name
    defined = getattr(name, "_opoverload", None)
    if isinstance(defined, OpOverload):
        return defined
    if isinstance(name, OpOverloadPacket):
        return default_of(name)
    if not isinstance(name, str):
        raise ValueError(f"{caller}({name}): got unexpected type for op: {type(name)}")
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
    # Schemas are read on first use; a wrong one is told here.
    check_types(head)
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


# C++'s names of types -> what schemas say.
FOREIGN_TYPES = {"int64_t": "`SymInt` or `int`", "double": "`float`"}


def check_types(schema: Schema) -> None:
    """Refuse type variables, for which operators of users have no use."""
    pending = [entry.type for entry in schema.arguments]
    pending += [entry.type for entry in schema.returns]
    while pending:
        found = pending.pop(0)
        if found.element is not None:
            pending.append(found.element)
        pending += found.params
        if found.kind != "Var":
            continue
        if found.name in FOREIGN_TYPES:
            raise RuntimeError(
                f"Use {FOREIGN_TYPES[found.name]} instead of `{found.name}` in an operator's "
                f"schema string: {schema}"
            )
        raise error("RL0101", found=found.name, text=str(schema))


def check_keywords(op: OpOverload, caller: str) -> None:
    """Refuse rules for operators with tensors that are keywords only."""
    if any([a.kwarg_only and a.type.is_tensor_like for a in op._schema.arguments]):
        raise NotImplementedError(  # torch: Functions know of positional ones
            f"{caller} with kwarg-only Tensor args. In the original definition of the op, please "
            f"make your tensors not kwarg-only. Got: {op._schema}"
        )


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
    """A set of registrations in one namespace. `kind` is "DEF", "FRAGMENT" or "IMPL".

    What it registered is undone when it is destroyed or no longer referred to.
    """

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
        self.entries = Entries(ns, kind)
        weakref.finalize(self, self.entries.undo)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def check_alive(self) -> None:
        if self.entries.is_undone:
            raise AssertionError("Library object has been destroyed")

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its schema, without the namespace; returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        self.check_alive()
        if self.dispatch_key:
            raise RuntimeError(
                f"dispatch_key must be empty for define, got {self.dispatch_key!r}. Make another "
                "Library for definitions."
            )
        if self.kind == "IMPL":
            name = schema.partition("(")[0]
            raise RuntimeError(
                f'def("{name}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block. '
                "Make the Library with the kind 'DEF' or 'FRAGMENT'."
            )
        listed = tags if isinstance(tags, (tuple, list)) else (tags,)
        record = register_schema(self.ns, schema, listed, manual=True)
        self.entries.defined.append(record)
        name = record.base_name + (f".{record.overload}" if record.overload else "")
        for entries, wait in AWAITED.pop((self.ns, name), ()):
            if not entries.is_undone:
                wait(record)
        return name

    def find(self, op_name: Any, caller: str) -> OpOverload | None:
        """The operator of this library's namespace; None where it is not defined yet."""
        found: OpOverload | None
        if isinstance(op_name, OpOverload):
            namespace, found = op_name.namespace, op_name
        elif isinstance(op_name, str):
            name = op_name
            namespace, name = parse_qualname(op_name) if "::" in op_name else (self.ns, op_name)
            found = find_op(name, namespace) if is_defined(namespace, name) else None
        else:
            raise RuntimeError(
                f"{caller} should be passed either a name or an OpOverload object as the first "
                f"argument, got {type(op_name)}"
            )
        if namespace != self.ns:
            label = op_name if found is None else found.name()
            raise RuntimeError(
                f'{caller}("{label}", ...): Explicitly provided namespace ({namespace}) in '
                "operator name does not match namespace of enclosing TORCH_LIBRARY_"
                f"{self.kind} block ({self.ns})."
            )
        return found

    def impl(
        self,
        op_name: Any,
        fn: Any,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register a kernel for an operator and a dispatch key."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        self.check_alive()
        given = dispatch_key or self.dispatch_key
        key = custom.SYNONYMS.get(given, given)
        keys.parse_key(key)

        def enter(op: OpOverload) -> None:
            if not allow_override and INSTALLED.get((op, key)):
                raise RuntimeError(
                    "This is not allowed since there's already a kernel registered from python "
                    f"overriding {op.base_name}'s behavior for {given} dispatch key and {self.ns} "
                    "namespace."
                )
            if fn is fallthrough_kernel:
                kernel = custom.fall_through(op, key)
            else:
                kernel = custom.with_keywords(op, fn, key if with_keyset else None)
            self.entries.install(op, key, kernel)

        op = self.find(op_name, "impl")
        if op is None:
            name = op_name.partition("::")[2] or op_name
            AWAITED.setdefault((self.ns, name), []).append((self.entries, enter))
            return
        if key == "Meta" and op.body is not None and not op.autograd_only:
            raise RuntimeError(
                f"We should not register a meta kernel directly to the operator '{op_name}', "
                "because it has a CompositeImplicitAutograd kernel in core. Instead we should let "
                "the operator decompose, and ensure that we have meta kernels for the base ops "
                "that it decomposes into."
            )
        enter(op)

    def fallback(self, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Refused: a kernel for every operator. A TorchDispatchMode sees every call."""
        if self.ns != "_":
            raise RuntimeError(
                'Fallback can only be registered using library fragment on the global namespace "_"'
                f" but it is {self.ns}"
            )
        raise MissingFeature(f"fallbacks of the dispatch key {dispatch_key}", code="RL0311")

    def _register_fake(
        self, op_name: Any, fn: Any, _stacklevel: int = 1, *, allow_override: bool = True
    ) -> None:
        def enter(op: OpOverload) -> None:
            kernel = custom.with_keywords(op, with_context(op, fn))
            self.entries.install(op, "Meta", kernel)

        op = self.find(op_name, "register_fake")
        if op is None:
            AWAITED.setdefault((self.ns, op_name), []).append((self.entries, enter))
        else:
            enter(op)

    def _register_torch_dispatch_rule(self, op_name: Any, cls: type, fn: Any) -> None:
        self.entries.state(find_op(op_name, self.ns), "torch_dispatch", cls, fn)

    @property
    def m(self) -> Entries:
        """What was registered; deleting it takes it out again."""
        self.check_alive()
        return self.entries

    @m.deleter
    def m(self) -> None:
        self._destroy()

    def _destroy(self) -> None:
        """Undo every registration of this library."""
        self.entries.undo()


class Entries:
    """What one library entered in the tables, and how to take it out again."""

    def __init__(self, namespace: str, kind: str) -> None:
        self.namespace = namespace
        self.kind = kind
        self.defined: list[OpOverload] = []
        self.kernels: list[tuple[OpOverload, str]] = []
        self.facts: list[tuple[OpOverload, str, Any]] = []
        self.is_undone = False

    def install(self, op: OpOverload, key: str, kernel: Any) -> None:
        custom.install(op, key, kernel)
        INSTALLED.setdefault((op, key), []).append((self, kernel))
        self.kernels.append((op, key))

    def state(self, op: OpOverload, option: str, case: Any, value: Any) -> None:
        """An entry in a table of the op's options."""
        op.options.setdefault(option, {})[case] = value
        self.facts.append((op, option, case))

    def undo(self) -> None:
        for op, key in self.kernels:
            stack = INSTALLED.get((op, key), [])
            stack[:] = [(owner, kernel) for owner, kernel in stack if owner is not self]
            if stack:
                # Another library's kernel was overridden: it is in force again.
                custom.install(op, key, stack[-1][1])
            else:
                INSTALLED.pop((op, key), None)
                custom.remove(op, key)
        for op, option, case in self.facts:
            op.options.get(option, {}).pop(case, None)
        for record in self.defined:
            forget(record)
        self.kernels, self.facts, self.defined = [], [], []
        if self.kind == "DEF" and not self.is_undone:
            DEFINED.discard(self.namespace)
        self.is_undone = True


DEFINED: set[str] = {"aten"}
# (namespace, name) -> what registers kernels that came before their operator was defined.
AWAITED: dict[tuple[str, str], list[tuple[Entries, Callable[[OpOverload], None]]]] = {}
# Kernels by op and key, the one in force last.
INSTALLED: dict[tuple[OpOverload, str], list[tuple[Entries, Any]]] = {}
# Libraries made by the functions below; they live as long as the process.
KEPT: dict[str, Library] = {}


def kept_library(namespace: str) -> Library:
    found = KEPT.get(namespace)
    if found is None:
        found = KEPT[namespace] = Library(namespace, "FRAGMENT")
    return found


def library_for(lib: Library | None, op: Any) -> Library:
    """The library given, or the one that keeps what is registered without one."""
    if lib is not None:
        return lib
    if isinstance(op, str):
        return kept_library(parse_qualname(op)[0])
    return kept_library(find_op(op).namespace)


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


def define(
    qualname: Any, schema: Any, alias_analysis: str = "", *, lib: Any = None, tags: Any = ()
) -> Any:
    """Define an operator: `define("mylib::f", "(Tensor x) -> Tensor")`. With a Library in the first
    place, a decorator whose function is the operator's composite kernel."""
    if isinstance(qualname, Library):
        library = qualname
        name = library.define(schema, alias_analysis, tags=tags)

        def register(function: Any) -> Any:
            library.impl(name, function)
            return function

        return register
    if not isinstance(qualname, str):
        raise ValueError(
            "define(qualname, schema): expected qualname to be instance of str, got "
            f"{type(qualname)}"
        )
    namespace, name = parse_qualname(qualname)
    if re.fullmatch(r"\(.*\) -> .*", schema) is None:
        raise ValueError(
            "define(qualname, schema, ...): expected schema to look like e.g. "
            f'"(Tensor x) -> Tensor" but got "{schema}"'
        )
    (lib or kept_library(namespace)).define(name + schema, alias_analysis="", tags=tags)
    return None


def key_of_device(device_type: str | None) -> str:
    """The dispatch key of a device type; None and "default" stand for all."""
    if device_type in (None, "default"):
        return custom.EXPLICIT
    assert device_type is not None
    return keys.DEVICE_NAMES.get(device_type, "") or parse_device(device_type)


def parse_device(device_type: str) -> str:
    from rushlight.core.device import device

    return keys.DEVICE_NAMES.get(device(device_type).type, "PrivateUse1")


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register a kernel for the device types named; also a decorator. With a Library in the first
    place: `@impl(lib, "f", "CPU")`."""
    if isinstance(qualname, Library):
        key = func or ""

        def attach(function: Any) -> Any:
            qualname.impl(types, function, key)
            return function

        return attach

    listed = (types,) if isinstance(types, str) or types is None else tuple(types)
    named = [
        entry if entry in keys.DispatchKey.__members__ else key_of_device(entry) for entry in listed
    ]

    def register(function: Any) -> Any:
        library = library_for(lib, qualname)
        for key in dict.fromkeys(named):
            library.impl(qualname, function, key)
        return function

    return register if func is None else register(func) and None


def register_fake(
    op: Any,
    func: Any = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: Any = True,
) -> Any:
    """Register what an operator does to tensors without values; also a decorator."""
    if not isinstance(op, (str, OpOverload)) and not hasattr(op, "_opoverload"):
        raise ValueError(f"register_fake({op}): got unexpected type for op: {type(op)}")

    def register(function: Any) -> Any:
        if hasattr(op, "_opoverload"):
            return op.register_fake(function)
        record = op
        if isinstance(op, str):
            # The operator may be defined later.
            record = parse_qualname(op)[1]
        library_for(lib, op)._register_fake(record, function, allow_override=allow_override)
        return function

    return register if func is None else register(func)


def impl_abstract(qualname: Any, func: Any = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """The old name of `register_fake`."""
    warnings.warn(
        "torch.library.impl_abstract was renamed to torch.library.register_fake. Please use that "
        "instead; we will remove torch.library.impl_abstract in a future version of PyTorch.",
        FutureWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """Register an operator's gradient: `setup_context` saves, `backward(ctx, *grads)` answers."""
    record = find_op(op, caller="register_autograd")
    if record._schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {op} with schema "
            f"{record._schema}. Please create a functional operator and register an autograd "
            "formula for that."
        )
    check_keywords(record, "register_autograd")
    kernel = gradients.autograd_kernel(record, backward, setup_context)
    library_for(lib, record).entries.install(record, "Autograd", kernel)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register how an operator runs on batches: `func(info, in_dims, *args)`."""
    record = find_op(op, caller="register_vmap")
    check_keywords(record, "register_vmap")

    def register(function: Any) -> Any:
        def rule(info: Any, in_dims: Any, *values: Any) -> Any:
            positional, keywords = torch_arguments(record, values)
            return function(info, tuple(in_dims[: len(positional)]), *positional, **keywords)

        def kernel(*args: Any) -> Any:
            values = [list(value) if isinstance(value, tuple) else value for value in args]
            return LOCAL.state.transforms[-1].user_rule(rule, tuple(values))

        library_for(lib, record).entries.install(record, "FuncTorchBatched", kernel)
        return function

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Register the dtype to which autocast brings an operator's floating inputs."""
    record = find_op(op, caller="register_autocast")
    if device_type not in ("cpu", "cuda", "xpu"):
        parse_device(device_type)
        raise ValueError(f"Device type '{device_type}' does not support autocast.")
    library_for(lib, record).entries.state(record, "autocast_dtypes", device_type, cast_inputs)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None
) -> Any:
    """Register what a mode or subclass does with an operator, instead of its own rule."""
    record = find_op(op, caller="register_torch_dispatch")

    def register(function: Any) -> Any:
        entries = library_for(lib, record).entries
        entries.state(record, "torch_dispatch", torch_dispatch_class, function)
        return function

    return register if func is None else register(func)


class KernelFunction:
    """A kernel that was looked up: `call_boxed(keys, *args, **kwargs)` runs it."""

    def __init__(self, op: OpOverload, key: str, function: Callable[..., Any]) -> None:
        self.op = op
        self.key = key
        self.function = function

    def __repr__(self) -> str:
        return f"SafeKernelFunction({self.op.name()}, {self.key})"

    def call_boxed(self, keys: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.op.bind(*args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_boxed(None, *args, **kwargs)


def get_kernel(op: Any, dispatch_key: Any) -> KernelFunction:
    """The kernel that a call with a dispatch key runs."""
    record = find_op(op, caller="get_kernel")
    name = keys.parse_key(dispatch_key)
    key = custom.SYNONYMS.get(name, name)
    found = custom.kernels_of(record).get(key) if "kernels" in record.options else None
    if found is None and keys.has_kernel(record, key):
        found = record.body if key == custom.IMPLICIT else record.backend
    if found is None:
        raise error("RL0303", op=record.name(), key=name)
    return KernelFunction(record, name, found)


# -- fake implementations --------------------------------------------------------------------------


class FakeContext:
    """What `get_ctx()` gives inside a fake implementation."""

    def __init__(self, op: OpOverload) -> None:
        self.op = op

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that depends on values, as a symbol of the active shape environment."""
        if not isinstance(min, int) or not isinstance(max, (int, type(None))):
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, max={max}): expected min and max to be "
                "statically known ints but got SymInt. This is not supported."
            )
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal "
                "to 0: this API can only create non-negative sizes."
            )
        mode = LOCAL.state.fake
        if mode is None:
            raise RuntimeError(
                f"{self.op.name()}: You're trying to run this operator with meta Tensors (as "
                "opposed to FakeTensors), but this operator may return an output Tensor with "
                "data-dependent shape. Meta Tensors don't support operators with outputs that "
                "have data-dependent shapes but FakeTensors do."
            )
        environment = mode.shape_env
        if environment is None:
            from rushlight.core.fake import DynamicOutputShapeException

            raise DynamicOutputShapeException(self.op)
        from rushlight.symbolic import constrain_range_for_size

        size = environment.create_unbacked_symint()
        constrain_range_for_size(size, min=min, max=max)
        return size

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:
        """The old name of `new_dynamic_size`."""
        warnings.warn(
            "create_unbacked_symint is deprecated, please use new_dynamic_size instead",
            stacklevel=2,
        )
        return self.new_dynamic_size(min=min, max=max)


RUNNING = threading.local()


def with_context(op: OpOverload, function: Any) -> Any:
    """A fake implementation that finds its context with `get_ctx`. What it makes of nothing is
    fake as well, where there is a fake mode."""

    @functools.wraps(function)
    def fake(*args: Any, **kwargs: Any) -> Any:
        before, state = get_ctx(), LOCAL.state
        RUNNING.context = FakeContext(op)
        excluded = state.excluded if state.fake is None else state.excluded & ~LAYER_FAKE
        try:
            with changed(excluded=excluded):
                return function(*args, **kwargs)
        finally:
            RUNNING.context = before

    return fake


def get_ctx() -> FakeContext | None:
    """The context of the fake implementation that is running; None outside of one."""
    return getattr(RUNNING, "context", None)


# -- kernels in Triton -----------------------------------------------------------------------------


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any, schema: Any = None) -> Any:
    """Refused: operators made of Triton kernels."""
    raise MissingFeature("torch.library.triton_op", code="RL0312")


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Refused: Triton kernels in operators."""
    raise MissingFeature("torch.library.wrap_triton", code="RL0312")


# -- classes of scripts ----------------------------------------------------------------------------


def register_fake_class(qualname: str, fake_class: Any = None) -> Any:
    """Refused: stand-ins for classes of compiled scripts."""
    raise MissingFeature("torch._library.register_fake_class", code="RL0312")


def deregister_fake_class(qualname: str) -> None:
    """Nothing was registered."""


def has_fake_class(full_qualname: str) -> bool:
    return False
