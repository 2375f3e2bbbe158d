"""From a call's arguments to a schema's: generated binders and the errors they give.

`compile_binder(op)` makes a Python function with the schema's own parameters, which checks and
normalises each value and returns them as a tuple in schema order. It raises `Mismatch` when a
value does not fit, so that the next overload can be tried.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rushlight.base.schema import parameter_name
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import ports
from rushlight.core.source import compile_source
from rushlight.core.state import PROCESS, active_tracer, warn_once
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.base.schema import Argument, Type
    from rushlight.core.op import OpOverload, OpOverloadPacket
    from rushlight.core.protocols import Args, Function, Kwargs

__all__ = ["Mismatch", "bind_packet", "compile_binder", "mismatch_error"]

NUMBERS = frozenset((int, float, bool, complex))
# Spellings that calls may use for a schema's argument names.
KEYWORD_ALIASES = {
    "input": "self",
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "self",
    "x1": "self",
    "x2": "other",
    "axes": "dims",
    "a": "self",
    "tensor": "self",
    "split_size_or_sections": "split_size",
}


class Mismatch(TypeError):
    """The arguments do not fit this overload."""


def as_tensor(value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value
    raise Mismatch


def is_symbolic(value: object) -> bool:
    """Whether a value is a symbolic number: it carries a `node`, as graph proxies do too."""
    return hasattr(value, "node") and not hasattr(type(value), "__torch_function__")


def as_tensor_or_number(value: object) -> Any:
    if type(value) in NUMBERS or isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return value.item()
    if is_symbolic(value):
        return value
    raise Mismatch


def as_tensor_list(value: object) -> list[Tensor]:
    if isinstance(value, (list, tuple)):
        for item in value:
            if type(item) is not Tensor and not isinstance(item, Tensor):
                raise Mismatch
        return list(value)
    raise Mismatch


def as_optional_tensor_list(value: object) -> list[Tensor | None]:
    if isinstance(value, (list, tuple)):
        for item in value:
            if item is not None and not isinstance(item, Tensor):
                raise Mismatch
        return list(value)
    raise Mismatch


def as_int(value: Any) -> Any:
    if type(value) is int:
        return value
    if type(value) is bool or isinstance(value, (float, complex, str)):
        raise Mismatch
    if is_symbolic(value):
        return value
    if isinstance(value, Tensor):
        if not holds_int(value):
            raise Mismatch
        if PROCESS.special:
            tracer = active_tracer()
            # An element that nobody knows is a symbol.
            return value.item() if tracer is None else tracer.number(value)
    try:
        return operator.index(value)
    except TypeError:
        raise Mismatch from None


def holds_int(value: Tensor) -> bool:
    """Whether a tensor may stand for an int: a number, or the one integer of any shape."""
    category = value._dtype.category
    return category <= 1 if value.dim() == 0 else category == 1 and value.numel() == 1


def as_plain_int(value: object) -> int:
    """An int where no symbol will do: a symbolic one is pinned to its value."""
    if isinstance(value, Tensor) and value.dim() != 0:
        raise Mismatch
    found = as_int(value)
    return found if isinstance(found, int) else int(found)


def as_plain_int_list(value: Any, size: int | None = None) -> tuple[int, ...]:
    found = as_int_list(value, size)
    for item in found:
        if not isinstance(item, int):
            return tuple([int(entry) for entry in found])
    return found


def as_int_list(value: Any, size: int | None = None) -> tuple[Any, ...]:
    if type(value) is tuple or type(value) is list or isinstance(value, (list, tuple)):
        for item in value:
            if type(item) is not int:
                return tuple([as_int(item) for item in value])
        return tuple(value)
    if size is not None:
        return (as_int(value),) * size
    if isinstance(value, (str, dict, set, Tensor)) or not hasattr(value, "__iter__"):
        raise Mismatch
    return tuple([as_int(item) for item in value])


def as_bool(value: object) -> bool:
    if type(value) is bool:
        return value
    if isinstance(value, np.bool_) or type(value).__name__ == "SymBool":
        return bool(value)
    raise Mismatch


def as_bool_list(value: object, size: int | None = None) -> tuple[bool, ...]:
    if isinstance(value, (list, tuple)):
        return tuple([as_bool(item) for item in value])
    raise Mismatch


def as_float(value: Any) -> Any:
    cls = type(value)
    if cls is float:
        return value
    if cls is int or isinstance(value, (np.integer, np.floating, int, float)):
        return float(value)
    if isinstance(value, Tensor) and value.dim() == 0 and value._dtype.category < 3:
        if value._requires_grad:
            # Its gradient would be lost.
            raise Mismatch
        if PROCESS.special and (tracer := active_tracer()) is not None:
            return tracer.number(value)
        return value.item()
    if is_symbolic(value):
        return value
    raise Mismatch


def as_float_list(value: object, size: int | None = None) -> tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        return tuple([as_float(item) for item in value])
    if size is not None:
        return (as_float(value),) * size
    raise Mismatch


def as_scalar(value: object) -> Any:
    if type(value) in NUMBERS:
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return value.item()
    if isinstance(value, Tensor):
        if (
            value.dim() == 0
            and not value._requires_grad
            and (value._array is not None or type(value).handling_layer)
            and not hasattr(value, "_owner")
        ):
            if PROCESS.special and (tracer := active_tracer()) is not None:
                return tracer.number(value)
            return value.item()
        raise Mismatch
    if is_symbolic(value):
        return value
    if isinstance(value, (int, float, complex)):
        return value
    raise Mismatch


def as_scalar_list(value: object, size: int | None = None) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [as_scalar(item) for item in value]
    raise Mismatch


PYTHON_DTYPES: dict[type, dtypes.dtype] = {
    float: dtypes.float64,
    int: dtypes.int64,
    bool: dtypes.bool_,
    complex: dtypes.complex128,
}


def as_dtype(value: object) -> dtypes.dtype:
    if isinstance(value, dtypes.dtype):
        return value
    found = PYTHON_DTYPES.get(value) if isinstance(value, type) else None
    if found is None:
        raise Mismatch
    return found


def as_device(value: object) -> devices.device:
    if isinstance(value, devices.device):
        return value
    if isinstance(value, (str, int)) and type(value) is not bool:
        return devices.device(value)
    raise Mismatch


def as_layout(value: object) -> devices.layout:
    if isinstance(value, devices.layout):
        return value
    raise Mismatch


def as_memory_format(value: object) -> devices.memory_format:
    if isinstance(value, devices.memory_format):
        return value
    raise Mismatch


def as_str(value: object) -> str:
    if isinstance(value, str):
        return value
    raise Mismatch


def as_generator(value: object) -> Any:
    if hasattr(value, "initial_seed"):
        return value
    raise Mismatch


def as_storage(value: Any) -> Any:
    if isinstance(getattr(value, "_untyped_storage", value), Storage):
        return value
    raise Mismatch


def as_any(value: Any) -> Any:
    return value


CONVERTERS: dict[str, Any] = {
    "Tensor": as_tensor,
    "int": as_plain_int,
    "SymInt": as_int,
    "bool": as_bool,
    "SymBool": as_bool,
    "float": as_float,
    "SymFloat": as_float,
    "Scalar": as_scalar,
    "ScalarType": as_dtype,
    "Device": as_device,
    "Layout": as_layout,
    "MemoryFormat": as_memory_format,
    "str": as_str,
    "Generator": as_generator,
    "Storage": as_storage,
}
LIST_CONVERTERS: dict[str, Any] = {
    "int": as_plain_int_list,
    "SymInt": as_int_list,
    "bool": as_bool_list,
    "float": as_float_list,
    "Scalar": as_scalar_list,
}
# `type(x) is T` accepts the common case without a call.
QUICK = {"Tensor": "Tensor", "int": "int", "SymInt": "int", "bool": "bool", "float": "float"}


def default_value(argument: Argument) -> Any:
    """A schema default as the value kernels see."""
    value = argument.default
    if value is None:
        return None
    kind = argument.type.kind
    if kind == "MemoryFormat" and isinstance(value, int):
        return devices.MEMORY_FORMATS[value]
    if kind == "ScalarType" and isinstance(value, int):
        return next(found for found in dtypes.ALL if found.code == value)
    if kind == "Layout":
        return devices.strided
    if kind == "Device" and isinstance(value, str):
        return devices.device(value)
    if kind == "float" and isinstance(value, int):
        return float(value)
    if kind == "List":
        if argument.type.size is not None and not isinstance(value, (list, tuple)):
            return (value,) * argument.type.size
        return tuple(value)
    return value


def compile_binder(op: OpOverload) -> Function:
    """Generate the binder of one overload."""
    scope: dict[str, Any] = {"Tensor": Tensor, "Mismatch": Mismatch}
    parameters: list[str] = []
    # Tensors first: a tensor that stands for a number is asked for it only where the rest fits.
    tensors: list[str] = []
    others: list[str] = []
    starred = False
    accepts_numbers = op.options.get("numbers", False)
    for position, argument in enumerate(op._schema.arguments):
        name = argument.name
        spelled = parameter_name(name)
        if argument.kwarg_only and not starred:
            parameters.append("*")
            starred = True
        if argument.has_default:
            scope[f"default_{position}"] = default_value(argument)
            parameters.append(f"{spelled}=default_{position}")
        else:
            parameters.append(spelled)
        kind = argument.type
        if kind.kind == "List":
            element: Any = kind.element
            if element.kind == "Tensor":
                scope[f"as_{position}"] = (
                    as_optional_tensor_list if element.optional else as_tensor_list
                )
                call = f"as_{position}({spelled})"
            else:
                scope[f"as_{position}"] = LIST_CONVERTERS.get(element.kind, as_any_list)
                call = f"as_{position}({spelled}, {kind.size})"
        else:
            converter = CONVERTERS.get(kind.kind, as_any)
            if (
                kind.kind == "Tensor"
                and accepts_numbers
                and (position > 0 or accepts_numbers == "any")
            ):
                converter = as_tensor_or_number
            scope[f"as_{position}"] = converter
            call = f"as_{position}({spelled})"
        tests = []
        body = tensors if kind.kind == "Tensor" else others
        if kind.kind == "List" and argument.default == ():
            # torch: None stands for a list that is empty unless given.
            body.append(f"    if {spelled} is None: {spelled} = default_{position}")
        if kind.optional:
            tests.append(f"{spelled} is not None")
        quick = QUICK.get(kind.kind)
        if quick is not None:
            tests.append(f"type({spelled}) is not {quick}")
        line = f"{spelled} = {call}"
        body.append(f"    if {' and '.join(tests)}: {line}" if tests else f"    {line}")
    names = ", ".join(parameter_name(a.name) for a in op._schema.arguments)
    source = "\n".join(
        [
            f"def bind({', '.join(parameters)}):",
            *tensors,
            *others,
            f"    return ({names}{',' if names else ''})",
        ]
    )
    compile_source(source + "\n", f"binder of {op.name()}", scope)
    return cast("Function", scope["bind"])


def as_any_list(value: object, size: int | None = None) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        return value
    raise Mismatch


def bind_packet(
    packet: OpOverloadPacket, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """The first overload that takes these arguments, with its bound argument tuple."""
    if "out" in kwargs:
        if kwargs["out"] is None:
            kwargs = {key: value for key, value in kwargs.items() if key != "out"}
        else:
            return bind_out(packet, args, kwargs)
    varargs = packet.varargs
    if varargs is not None and len(args) > varargs and not isinstance(args[varargs], (tuple, list)):
        first = args[varargs]
        alone = not hasattr(first, "__iter__") or (isinstance(first, Tensor) and holds_int(first))
        if len(args) > varargs + 1 or (alone and not packet.takes_one):
            args = gather_varargs(args, varargs)
    candidates = packet.candidates
    if len(candidates) > 1 and packet.tensors_first is not None:
        for value in (*args[1:], *kwargs.values()):
            if isinstance(value, Tensor):
                candidates = packet.tensors_first
                break
    for op in candidates:
        try:
            return op, op.bind(*args, **kwargs)
        except TypeError:
            continue
    if packet.former and (found := bind_former(packet, args, kwargs)) is not None:
        return found
    renamed = rename_keywords(packet, kwargs)
    if renamed is not None:
        return bind_packet(packet, args, renamed)
    raise Mismatch


def bind_former(
    packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any] | None:
    """A call whose positional arguments stand as they did of old: `add(x, 2, y)` for x + 2 * y."""
    for order in packet.former:
        if len(args) + len(kwargs) != len(order):
            continue
        named = dict(zip(order, args, strict=False)) | kwargs
        for op in packet.candidates:
            try:
                bound = op.bind(**named)
            except TypeError:
                continue
            name = packet.base_name
            warn_once(
                f"former {name}",
                f"{name}({', '.join(order)}) is an order of arguments of old and deprecated: "
                f"give {order[1] if order[0] == 'self' else order[0]} by keyword",
            )
            return op, bound
    return None


def gather_varargs(args: tuple[Any, ...], start: int) -> tuple[Any, ...]:
    """`f(x, 2, 3)` as `f(x, (2, 3))`."""
    first = args[start]
    if isinstance(first, dtypes.dtype) or (isinstance(first, Tensor) and not holds_int(first)):
        return args
    return (*args[:start], args[start:])


def bind_out(
    packet: OpOverloadPacket, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    out = kwargs["out"]
    rest = {key: value for key, value in kwargs.items() if key != "out"}
    op, bound = bind_packet(packet, args, rest)
    variant = ports.out_overload(op)
    if variant is None:
        # The first overload that fits has no such form: a later one may.
        variant, bound = later_out(packet, op, args, rest)
    outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(outs) != len(variant.out_positions) or not all(isinstance(o, Tensor) for o in outs):
        raise Mismatch
    return variant, (*bound, *outs)


def later_out(
    packet: OpOverloadPacket, op: OpOverload, args: tuple[Any, ...], rest: Kwargs
) -> tuple[Any, Any]:
    """The out= form of the next overload that takes the arguments and has one."""
    for other in packet.candidates[packet.candidates.index(op) + 1 :]:
        variant = ports.out_overload(other)
        if variant is not None:
            try:
                return variant, other.bind(*args, **rest)
            except TypeError:
                continue
    raise Mismatch


def rename_keywords(packet: OpOverloadPacket, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Keyword arguments in the schema's spelling, or None when nothing changes."""
    changed = False
    known = {argument.name for op in packet.candidates for argument in op._schema.arguments}
    renamed: dict[str, Any] = {}
    for key, value in kwargs.items():
        target = KEYWORD_ALIASES.get(key)
        if key in known and parameter_name(key) != key:
            renamed[parameter_name(key)] = value
            changed = True
        elif target is not None and key not in known and target in known:
            renamed[target] = value
            changed = True
        else:
            renamed[key] = value
    return renamed if changed else None


def mismatch_error(
    packet: OpOverloadPacket, args: tuple[Any, ...], kwargs: dict[str, Any], method: bool = False
) -> TypeError:
    """What the user reads when no overload fits; a method's own tensor is not counted."""
    name = packet.base_name
    start = packet.varargs
    if start is not None and len(args) > start and type(args[start]) is int:
        args = gather_varargs(args, start)
    kwargs = rename_keywords(packet, kwargs) or kwargs
    records = distinct(packet.candidates)
    count = len(args) + len(kwargs)
    likely = records if len(records) == 1 else [op for op in records if takes(op, count)]
    found = {explain(op, args, kwargs, method) for op in likely}
    # A value of the wrong type tells more than an overload that was not meant.
    found = {r for r in found if r is not None and r.startswith(("argument", "expected"))} or found
    if len(found) == 1 and (reason := found.pop()) is not None:
        if reason.startswith("expected Tensor as element"):
            return TypeError(reason)
        return TypeError(f"{name}(){': ' if reason.startswith('argument') else ' '}{reason}")
    shown = args[1:] if method else args
    given = [describe(value) for value in shown] + [f"{k}={describe(v)}" for k, v in kwargs.items()]
    head = f"{name}() received an invalid combination of arguments - got ({', '.join(given)})"
    if len(records) == 1:
        return TypeError(f"{head}, but expected {signature(records[0], method)}")
    lines = [f"{head}, but expected one of:"]
    for op in records:
        lines.append(f" * {signature(op, method)}")
        if op in likely and not any(key not in op.argument_names for key in kwargs):
            marked = ", ".join(marked_types(op, args, kwargs, method))
            lines.append(
                f"      didn't match because some of the arguments have invalid types: ({marked})"
            )
    return TypeError("\n".join(lines))


def distinct(records: Iterable[OpOverload]) -> list[Any]:
    """The overloads less those that differ only in taking a number where another takes both."""
    kept: list[Any] = []
    for op in records:
        names = op.argument_names
        wide = [other for other in kept if other.options.get("numbers")]
        if not any(other.argument_names == names for other in wide):
            kept.append(op)
    return kept


def takes(op: OpOverload, count: int) -> bool:
    """Whether an overload may be called with this many arguments (`out` is one of them)."""
    arguments = op._schema.arguments
    required = len([a for a in arguments if not a.has_default])
    return required <= count <= len(arguments) + (ports.out_overload(op) is not None)


def marked_types(op: OpOverload, args: Args, kwargs: dict[str, Any], method: bool) -> list[str]:
    """The types of the values given, those that do not fit between exclamation marks."""
    positional = [a for a in op._schema.arguments if not a.kwarg_only]
    found = []
    for argument, value in list(zip(positional, args, strict=False))[method:]:
        shown = describe(value)
        found.append(shown if fits(argument, value, op) else f"!{shown}!")
    found += [f"!{describe(value)}!" for value in args[len(positional) :]]
    named = {a.name: a for a in op._schema.arguments}
    for key, value in kwargs.items():
        fitting = fits(named[key], value, op)
        found.append(f"{key}={describe(value)}" if fitting else f"!{key}={describe(value)}!")
    return found


def overload_error(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError:
    """What the user reads when the arguments do not fit an overload called by itself."""
    schema = op._schema
    head, declared = f"{schema.name}()", f"Declaration: {schema}"
    arguments = schema.arguments
    positional = [argument for argument in arguments if not argument.kwarg_only]
    count = len(args) + len(kwargs)
    if count > len(arguments):
        return RuntimeError(
            f"{head} expected at most {len(arguments)} argument(s) but received "
            f"{count} argument(s). {declared}"
        )
    if len(args) > len(positional):
        return RuntimeError(
            f"{head} takes {len(positional)} positional argument(s) but {len(args)} was/were given."
            f"  {declared}"
        )
    given = dict(zip([a.name for a in positional], args, strict=False)) | kwargs
    for position, argument in enumerate(arguments):
        name = argument.name
        if name not in given:
            if not argument.has_default:
                return RuntimeError(f"{head} is missing value for argument '{name}'. {declared}")
        elif not fits(argument, given[name], op):
            value = given[name]
            return RuntimeError(
                f"{head} Expected a value of type '{argument.type}' for argument '{name}' but "
                f"instead found type '{type(value).__name__}'.\nPosition: {position}\n"
                f"Value: {value}\n{declared}"
            )
    unknown = next((key for key in kwargs if key not in op.argument_names), None)
    if unknown is not None:
        return RuntimeError(
            f"Unknown keyword argument '{unknown}' for operator '{schema.name}'. {declared}"
        )
    return RuntimeError(f"{head}: the arguments do not fit the schema. {declared}")


def explain(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], method: bool
) -> str | None:
    """Why one overload does not take these arguments; None when no single cause is found."""
    arguments = op._schema.arguments
    positional = [argument for argument in arguments if not argument.kwarg_only]
    if len(args) > len(positional):
        most, got = len(positional) - method, len(args) - method
        least = len([a for a in positional if not a.has_default]) - method
        if method and len(arguments) == 1:
            return f"takes no arguments ({got} given)"
        span = f"{most}" if least == most else f"from {least} to {most}"
        return (
            f"takes {span} positional argument{'s' if most != 1 else ''} "
            f"but {got} {'were' if got != 1 else 'was'} given"
        )
    for key in kwargs:
        if key not in op.argument_names and (key != "out" or ports.out_overload(op) is None):
            return f"got an unexpected keyword argument '{key}'"
    given = dict(zip([a.name for a in positional], args, strict=False)) | kwargs
    missing = [a.name for a in arguments if not a.has_default and a.name not in given]
    if missing:
        quoted = ", ".join(f'"{"input" if name == "self" else name}"' for name in missing)
        return f"missing {len(missing)} required positional arguments: {quoted}"
    for position, argument in enumerate(arguments):
        if argument.name in given and not fits(argument, given[argument.name], op):
            value = given[argument.name]
            if (reason := explain_element(argument, value, position - method)) is not None:
                return reason
            name = "input" if argument.name == "self" else argument.name
            where = f" (position {position + 1 - method})" if position < len(args) else ""
            class_name = type(value).__name__
            return f"argument '{name}'{where} must be {expected(argument.type)}, not {class_name}"
    if "out" in kwargs:
        return f"argument 'out' must be Tensor, not {type(kwargs['out']).__name__}"
    return None


def explain_element(argument: Argument, value: object, position: int) -> str | None:
    """Which item of a list argument does not fit."""
    if argument.type.kind != "List" or not isinstance(value, (list, tuple)):
        return None
    element: Any = argument.type.element
    for at, item in enumerate(value):
        if element.kind == "Tensor":
            if not isinstance(item, Tensor) and not (item is None and element.optional):
                class_name = type(item).__name__
                return (
                    f"expected Tensor as element {at} in argument {position}, but got {class_name}"
                )
            continue
        try:
            LIST_CONVERTERS.get(element.kind, as_any_list)([item], None)
        except TypeError:
            return (
                f"argument '{argument.name}' failed to unpack the object at pos {at + 1} with "
                f'error "type must be {expected(argument.type)},but got {type(item).__name__}"'
            )
    return None


def fits(argument: Argument, value: object, op: OpOverload) -> bool:
    if value is None:
        return bool(argument.type.optional)
    kind = argument.type
    try:
        if kind.kind == "List":
            element: Any = kind.element
            if element.kind == "Tensor":
                (as_optional_tensor_list if element.optional else as_tensor_list)(value)
            else:
                LIST_CONVERTERS.get(element.kind, as_any_list)(value, kind.size)
        elif kind.kind == "Tensor" and op.options.get("numbers") and argument.name != "self":
            as_tensor_or_number(value)
        else:
            CONVERTERS.get(kind.kind, as_any)(value)
    except TypeError:
        return False
    return True


TYPE_NAMES = {
    "SymInt": "int",
    "Scalar": "Number",
    "ScalarType": "torch.dtype",
    "Device": "torch.device",
    "Layout": "torch.layout",
    "MemoryFormat": "torch.memory_format",
    "Generator": "torch.Generator",
    "Storage": "torch.Storage",
}


def expected(kind: Type) -> str:
    if kind.kind == "List" and kind.element is not None:
        return f"tuple of {expected(kind.element)}s"
    return TYPE_NAMES.get(kind.kind, str(kind.kind))


def describe(value: object) -> str:
    if isinstance(value, (list, tuple)) and value:
        inner = ", ".join(describe(item) for item in value[:3])
        return f"{type(value).__name__} of ({inner}{', ...' if len(value) > 3 else ''})"
    return type(value).__name__


def signature(op: OpOverload, method: bool = False) -> str:
    shown = []
    starred = False
    for argument in op._schema.arguments[method:]:
        if argument.kwarg_only and not starred:
            shown.append("*")
            starred = True
        name = "input" if argument.name == "self" else argument.name
        text = f"{expected(argument.type)} {name}"
        if argument.has_default:
            text += f" = {argument.default}"
        shown.append(text)
    if ports.out_overload(op) is not None and not method:
        shown += ["Tensor out = None"] if starred else ["*", "Tensor out = None"]
    return f"({', '.join(shown)})"
