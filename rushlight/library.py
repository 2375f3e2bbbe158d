"""torch.library: define operators of one's own and give them kernels, shapes and gradients.

Registrations live in the same tables as the built-in operators, so a custom op is called, traced,
differentiated and overridden like any other. A `Library` undoes what it registered when destroyed.
"""

from __future__ import annotations

import functools
from typing import Any

from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.tensor import Tensor
from rushlight.opset import custom, registry

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]

RESERVED = frozenset(("prim",))


def fallthrough_kernel() -> None:
    """Stands for "this key does nothing" where a kernel is registered."""
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
    if isinstance(name, CustomOpDef):
        return name._opoverload
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
        raise RuntimeError(
            f"operator {namespace}::{name} does not exist. Define it first, with library.define or "
            "library.custom_op."
        ) from None


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
    registry.register(record)
    return record


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
            raise RuntimeError(f"could not parse dispatch key: {dispatch_key}")
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
            import warnings

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

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
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


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register a kernel for an operator on some device types."""
    if isinstance(op, CustomOpDef):
        return op.register_kernel(device_types, func)
    return impl(op, "default" if device_types is None else device_types, func, lib=lib)


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
    import warnings

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
    record.options["formula"] = autograd_kernel(record, backward, setup_context)
    custom.refresh(record)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register how an operator runs on batches: `func(info, in_dims, *args)`."""

    def register(function: Any) -> Any:
        find_op(op).batch = lambda level, op, *args: level.user_rule(function, args)
        return function

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Register the dtype to which autocast brings an operator's floating inputs."""
    find_op(op).options.setdefault("autocast", {})[device_type] = cast_inputs


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
        raise RuntimeError(f"{record.name()} has no kernel for dispatch key {dispatch_key}")
    return found


class FakeContext:
    """What `get_ctx()` gives inside a fake implementation."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        from rushlight.base.errors import MissingFeature

        raise MissingFeature(
            "sizes that depend on data while no shape environment is active",
            "Trace the program with symbolic shapes, or give the operator a size it can compute.",
        )

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:
        return self.new_dynamic_size(min=min, max=max)


def get_ctx() -> FakeContext:
    """The context of the fake implementation that is running."""
    return FakeContext()


# -- autograd -------------------------------------------------------------------------------------


def flatten(values: Any) -> tuple[list[Any], list[int | None]]:
    """Arguments with lists of tensors spread out, and the length of each list (None: no list)."""
    flat: list[Any] = []
    lengths: list[int | None] = []
    for value in values:
        if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
            flat += value
            lengths.append(len(value))
        else:
            flat.append(value)
            lengths.append(None)
    return flat, lengths


def regroup(flat: Any, lengths: list[int | None]) -> list[Any]:
    values: list[Any] = []
    start = 0
    for length in lengths:
        if length is None:
            values.append(flat[start])
            start += 1
        else:
            values.append(list(flat[start : start + length]))
            start += length
    return values


def autograd_kernel(op: OpOverload, backward: Any, setup_context: Any) -> Any:
    """The op's stand-in at the autograd layer, which records `backward`."""
    from rushlight.autograd.function import Function

    split = sum(not argument.kwarg_only for argument in op._schema.arguments)
    names = [argument.name for argument in op._schema.arguments[split:]]

    def forward(ctx: Any, call: Any, *flat: Any) -> Any:
        bound = tuple(regroup(flat, call.lengths))
        result = custom.below_autograd(op, bound)
        call.returns_list = isinstance(result, list)
        call.count = len(result) if isinstance(result, (list, tuple)) else 1
        ctx.call = call
        if setup_context is not None:
            keywords = dict(zip(names, bound[split:], strict=True))
            if names:
                setup_context(
                    ctx=ctx, inputs=bound[:split], keyword_only_inputs=keywords, output=result
                )
            else:
                setup_context(ctx=ctx, inputs=bound, output=result)
        return tuple(result) if isinstance(result, list) else result

    def run_backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.call
        given = (list(grads),) if call.returns_list else grads
        answers = backward(ctx, *given)
        answers = answers if isinstance(answers, (tuple, list)) else (answers,)
        if len(answers) != split:
            raise RuntimeError(
                f"Expected the backward of {op.name()} to return {split} gradients (one for each "
                f"positional argument) but got {len(answers)}"
            )
        spread: list[Any] = []
        for number, length in enumerate(call.lengths):
            answer = answers[number] if number < split else None
            if length is None:
                spread.append(answer)
            else:
                spread += [None] * length if answer is None else list(answer)
        return (None, *spread)

    class_name = f"GeneratedBackwardFor_{op.namespace}_{op.base_name}_{op._overloadname}"
    generated: Any = type(
        class_name,
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(run_backward)},
    )

    def kernel(*bound: Any) -> Any:
        if not custom.records_gradient(bound):
            result = custom.below_autograd(op, bound)
            custom.bump_written(op, bound)
            return result
        flat, lengths = flatten(bound)
        call = Call(lengths)
        result = generated.apply(call, *flat)
        return list(result) if call.returns_list else result

    return kernel


class Call:
    """What one recorded call of a custom op must remember to put its gradients in order."""

    __slots__ = ("count", "lengths", "returns_list")

    def __init__(self, lengths: list[int | None]) -> None:
        self.lengths = lengths
        self.returns_list = False
        self.count = 1


def no_formula(op: OpOverload) -> Any:
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"Trying to backward through {op} but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )

    return backward


# -- custom_op ------------------------------------------------------------------------------------


class CustomOpDef:
    """A function turned into an operator; call it like the function."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Any, tags: Any = None) -> None:
        self._namespace = namespace
        self._name = name
        self._schema = schema
        self._init_fn = fn
        self._lib = kept_library(namespace)
        found = registry.PACKETS.get(namespace, {}).get(name)
        if found is not None and "default" in found.table:
            # Running a definition twice (in a notebook, say) replaces the operator.
            forget(found.table["default"])
        self._opoverload = register_schema(namespace, name + schema, tags or ())
        self._opoverload.options["definition"] = self
        if not self._opoverload._schema.is_mutable:
            self._opoverload.options["formula"] = autograd_kernel(
                self._opoverload, no_formula(self._opoverload), None
            )
        self._disabled: dict[str | None, Any] = {}
        functools.update_wrapper(self, fn)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Add a kernel for some device types (None: for all)."""

        def register(function: Any) -> Any:
            types = device_types
            for entry in (types,) if isinstance(types, str) or types is None else types:
                key = custom.EXPLICIT if entry is None else DEVICE_KEYS.get(entry, entry.upper())
                custom.install(self._opoverload, key, checked(self._opoverload, function))
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Any, /) -> Any:
        """Add what the operator does to tensors without values."""
        custom.install(self._opoverload, "Meta", fn)
        return fn

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Add the operator's gradient."""
        register_autograd(self._opoverload, backward, setup_context=setup_context)

    def register_vmap(self, func: Any = None) -> Any:
        return register_vmap(self._opoverload, func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        register_autocast(self._opoverload, device_type, cast_inputs)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        return register_torch_dispatch(self._opoverload, torch_dispatch_class, fn)


def checked(op: OpOverload, function: Any) -> Any:
    """A kernel whose results are refused when they alias an input."""

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        given: list[Any] = []
        for value in (*args, *kwargs.values()):
            given += value if isinstance(value, (list, tuple)) else [value]
        for number, value in enumerate(results):
            if isinstance(value, Tensor) and any(value is other for other in given):
                raise RuntimeError(
                    f"{op.name()} (with implementation in {function.__module__}): The output of "
                    "this custom operator (1) must not also be an input to this custom operator "
                    "and (2) may not alias any inputs to this custom operator or other returns. "
                    "The most common way to trigger this error is if we have y = custom_op(x) and "
                    "y and x are the same Tensor. Please instead return a clone of the offending "
                    f"output tensor(s) (e.g. return x.clone()) or refactor the custom operator to "
                    f"not return y. (output {number})"
                )
        return result

    return kernel


def custom_op(
    name: str,
    fn: Any = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Turn a function into an operator: its schema is read off its type annotations."""

    def register(function: Any) -> CustomOpDef:
        text = schema
        if text is None:
            text = infer_schema(function, mutates_args=mutates_args)
        namespace, base = parse_qualname(name)
        made = CustomOpDef(namespace, base, text, function, tags)
        if schema is not None:
            written = {a.name for a in made._opoverload._schema.arguments if a.is_write}
            expected = set() if mutates_args == "unknown" else set(mutates_args)
            if written != expected:
                raise ValueError(
                    "Attempted to create a custom op with `mutates_args="
                    f"{set(mutates_args) or '{}'}` and `schema={schema}. The schema suggests that "
                    f"the op mutates {written or '{}'}which is different from what was provided to "
                    "us in `mutates_args`. Please make these consistent."
                )
        made.register_kernel(device_types)(function)
        return made

    return register if fn is None else register(fn)


# -- schemas from annotations ---------------------------------------------------------------------


def annotation_types() -> dict[Any, str]:
    from numbers import Number

    from rushlight.core import device, dtype

    return {
        Tensor: "Tensor",
        int: "SymInt",
        float: "float",
        bool: "bool",
        str: "str",
        int | float | bool: "Scalar",
        Number: "Scalar",
        dtype.dtype: "ScalarType",
        device.device: "Device",
    }


def schema_type(annotation: Any, known: dict[Any, str]) -> str | None:
    """A parameter annotation as a schema type; None when it has none."""
    import types
    import typing
    from collections import abc

    found = known.get(annotation)
    if found is not None:
        return found
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [entry for entry in inner if entry is not type(None)]
        if len(rest) < len(inner):
            chosen = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007
            base = schema_type(chosen, known)
            return None if base is None else f"{base}?"
        if set(rest) <= {int, float, bool}:
            return "Scalar"
        return None
    if origin in (list, abc.Sequence):
        element = schema_type(inner[0], known)
        return None if element is None else f"{element}[]"
    return None


def return_type(annotation: Any, known: dict[Any, str]) -> str | None:
    import typing

    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        parts = [schema_type(entry, known) for entry in typing.get_args(annotation)]
        return None if None in parts else f"({', '.join([str(part) for part in parts])})"
    return schema_type(annotation, known)


def default_text(value: Any) -> str:
    from rushlight.core import device, dtype

    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dtype.dtype):
        return str(value.name)
    if isinstance(value, device.device):
        return f'"{value}"'
    return str(value)


def infer_schema(
    prototype_function: Any, /, *, mutates_args: Any, op_name: str | None = None
) -> str:
    """The schema that a function's annotations describe.

    >>> def f(x: Tensor, n: int = 2) -> Tensor: ...
    >>> infer_schema(f, mutates_args=())
    '(Tensor x, SymInt n=2) -> Tensor'
    """
    import inspect
    import typing

    signature = inspect.signature(prototype_function)
    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError:
        hints = {}

    def refuse(text: str) -> None:
        raise ValueError(f"infer_schema(func): {text} Got func with signature {signature})")

    known = annotation_types()
    parts: list[str] = []
    starred = False
    unknown = mutates_args == "unknown"
    written = () if unknown else tuple(mutates_args)
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        kind = schema_type(hints.get(name, parameter.annotation), known)
        if kind is None:
            refuse(
                f"Parameter {name} has unsupported type {parameter.annotation}. The valid types "
                "are Tensor, int, float, bool, str, Number, dtype, device, and lists and optional "
                "forms of them."
            )
            continue
        if name in written or (unknown and kind.startswith("Tensor")):
            if not kind.startswith("Tensor"):
                refuse(
                    f"Parameter {name} is in mutates_args but only Tensors or collections of "
                    "Tensors can be mutated."
                )
            kind = kind.replace("Tensor", f"Tensor(a{number}!)", 1)
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            text += f"={default_text(parameter.default)}"
        parts.append(text)
    missing = set(written) - set(signature.parameters)
    if missing:
        refuse(
            f"mutates_args should contain the names of all args that the custom op mutates, but "
            f"{sorted(missing)} are not among the parameters."
        )
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    answer = return_type(hints.get("return", signature.return_annotation), known)
    if answer is None:
        refuse(
            f"Return has unsupported type {signature.return_annotation}. The valid types are "
            "Tensor, list[Tensor], int, float, bool, Number, None and tuples of them."
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {answer}"


# -- opcheck --------------------------------------------------------------------------------------


class OpCheckError(Exception):
    """A custom operator breaks a rule that `opcheck` looks at."""


def check_schema(op: OpOverload, args: Any, kwargs: Any) -> None:
    """The operator writes to what its schema marks, and to nothing else."""
    bound = op.bind(*args, **kwargs)
    copies = [value.clone() if isinstance(value, Tensor) else value for value in bound]
    op(*args, **kwargs)
    for position, (before, after) in enumerate(zip(copies, bound, strict=True)):
        argument = op._schema.arguments[position]
        if isinstance(after, Tensor) and not argument.is_write:
            same = before.detach().eq(after.detach()) | before.ne(before).detach()
            if not bool(same.all()):
                raise RuntimeError(
                    f"Argument {argument.name} is not defined to alias output but was changed by "
                    f"{op.name()}; mark it in mutates_args."
                )


def check_fake(op: OpOverload, args: Any, kwargs: Any) -> None:
    """The fake implementation answers shapes, dtypes and strides like the real one."""

    def meta(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().to("meta")
        if isinstance(value, (list, tuple)):
            return type(value)([meta(item) for item in value])
        return value

    real = op(*args, **kwargs)
    fake = op(*[meta(value) for value in args], **{k: meta(v) for k, v in kwargs.items()})
    pairs = zip(
        real if isinstance(real, (tuple, list)) else (real,),
        fake if isinstance(fake, (tuple, list)) else (fake,),
        strict=True,
    )
    for expected, found in pairs:
        if isinstance(expected, Tensor) and (
            expected.shape != found.shape
            or expected.dtype is not found.dtype
            or expected.stride() != found.stride()
        ):
            raise RuntimeError(
                f"{op.name()}: the fake implementation gives {found.dtype} of shape "
                f"{tuple(found.shape)} and strides {found.stride()}, the real one "
                f"{expected.dtype} of shape {tuple(expected.shape)} and strides "
                f"{expected.stride()}."
            )


def check_autograd_registration(op: OpOverload, args: Any, kwargs: Any) -> None:
    """Gradients go through the autograd layer, not through a kernel below it."""
    bound = op.bind(*args, **kwargs)
    if not custom.records_gradient(bound) or op.kind is not custom.CUSTOM:
        return
    if op.body is None:
        result = op(*args, **kwargs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        if any(isinstance(value, Tensor) and value.requires_grad for value in results):
            raise RuntimeError(
                f"{op.name()}: it is not registered with autograd, but its kernel for the backend "
                "records gradients itself. Use register_autograd, or register the function under "
                "CompositeImplicitAutograd."
            )


CHECKS = {
    "test_schema": check_schema,
    "test_autograd_registration": check_autograd_registration,
    "test_faketensor": check_fake,
}


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: Any = tuple(CHECKS),
    raise_exception: bool = True,
    atol: Any = None,
    rtol: Any = None,
) -> dict[str, Any]:
    """Check a custom operator on sample arguments; {check: "SUCCESS" or the error}."""
    record = find_op(op)
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    results: dict[str, Any] = {}
    for name in names:
        if name not in CHECKS:
            raise RuntimeError(
                f"opcheck(op, ...): `test_utils` must be a subset of {set(CHECKS)}, got {names}."
            )
        try:
            CHECKS[name](record, args, kwargs or {})
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
        else:
            results[name] = "SUCCESS"
    return results
