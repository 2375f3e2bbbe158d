"""Names and numbers that files use for dtypes, layouts, devices and operators.

Operators are found in tables: nothing is imported or looked up because a file names it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from keyword import iskeyword
from typing import Any

from rushlight.core import device as places
from rushlight.core import dtype as dtypes
from rushlight.core.device import device
from rushlight.core.hop import HOPS
from rushlight.core.op import OpOverload
from rushlight.export.serde.schema import Record, refuse
from rushlight.graph.names import qualified_name
from rushlight.higher_order import find_op
from rushlight.opset import families, registry
from rushlight.symbolic import numbers

__all__ = [
    "DTYPES", "LAYOUTS", "MEMORY_FORMATS", "SYM_OPS", "check_identifier", "check_levels",
    "check_path", "coded", "decoded", "device_data", "find_target", "is_level_function",
    "is_sym_op", "made_device", "sym_arguments", "target_name",
]  # fmt: skip

DTYPES: dict[int, Any] = {
    code: dtypes.BY_NAME[name]
    for code, name in (
        (1, "uint8"), (2, "int8"), (3, "int16"), (4, "int32"), (5, "int64"), (6, "float16"),
        (7, "float32"), (8, "float64"), (9, "complex32"), (10, "complex64"), (11, "complex128"),
        (12, "bool"), (13, "bfloat16"), (28, "uint16"), (29, "float8_e4m3fn"),
        (30, "float8_e5m2"), (31, "float8_e4m3fnuz"), (32, "float8_e5m2fnuz"),
        (33, "float8_e8m0fnu"), (34, "uint32"), (35, "uint64"),
    )
    if name in dtypes.BY_NAME
}  # fmt: skip
LAYOUTS: dict[int, Any] = {
    code: getattr(places, name)
    for code, name in (
        (1, "sparse_coo"), (2, "sparse_csr"), (3, "sparse_csc"), (4, "sparse_bsr"),
        (5, "sparse_bsc"), (7, "strided"),
    )
}  # fmt: skip
MEMORY_FORMATS: dict[int, Any] = {
    code: getattr(places, name)
    for code, name in (
        (1, "contiguous_format"), (2, "channels_last"), (3, "channels_last_3d"),
        (4, "preserve_format"),
    )
}  # fmt: skip
DEVICE_TYPES = frozenset(("cpu", "cuda", "meta", "mps", "xpu"))

# Functions of numbers that a graph may call, by name, with the names of their arguments.
SYM_OPS: dict[str, Any] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            *("eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "floordiv"),
            *("mod", "pow", "truediv", "and_", "or_", "lshift", "rshift", "abs"),
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("trunc", "floor", "ceil")},
    **{
        f"torch.{name}": getattr(numbers, name)
        for name in (
            *("sym_not", "sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_sqrt"),
        )
    },
    "torch._sym_sqrt": numbers.sym_sqrt,
    "builtins.abs": abs,
    "builtins.round": round,
}
# Functions that programs of torch call where they vectorize.
LEVELS = "torch._functorch.predispatch."
LEVEL_FUNCTIONS = (
    "_add_batch_dim", "_remove_batch_dim", "_vmap_decrement_nesting", "_vmap_increment_nesting",
    "lazy_load_decompositions",
)  # fmt: skip
ARGUMENT_NAMES = {"torch.sym_ite": ("b", "t", "f"), "math": ("x",)}
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,999}\Z", re.ASCII)
# What stands in code between quotes, if it is no identifier.
PATH_PART = re.compile(r"[^\s.'\"\\]{1,1000}\Z")


def coded(table: dict[int, Any], value: Any, what: str) -> int:
    """The number that files have for a value."""
    for code, known in table.items():
        if known is value:
            return code
    raise refuse(f"{value} has no number in files; {what} is one of {list(table.values())}")


def decoded(table: dict[int, Any], code: int, what: str) -> Any:
    """The value that a number of a file stands for."""
    found = table.get(code)
    if found is None:
        raise refuse(f"{code} is no {what}")
    return found


def device_data(place: device) -> dict[str, Any]:
    return {"type": place.type, "index": place.index}


def made_device(record: Record) -> device:
    if record.type not in DEVICE_TYPES:
        raise refuse(f"{record.type[:40]!r} is no type of device")
    if record.index is not None and not 0 <= record.index < 128:
        raise refuse(f"a device has the index {record.index}")
    return device(record.type) if record.index is None else device(record.type, record.index)


def check_identifier(name: str) -> str:
    """A name of a file as it may stand in a graph's code, where `self` is the module."""
    is_free = not iskeyword(name) and not name.startswith("__") and name != "self"
    if IDENTIFIER.match(name) is None or not is_free:
        raise refuse(f"{name[:80]!r} is no name")
    return name


def check_path(path: str) -> str:
    """A dotted name of an attribute; those that Python itself uses are refused."""
    for part in path.split("."):
        if PATH_PART.match(part) is None or part.startswith("__"):
            raise refuse(f"{path[:80]!r} is no name of an attribute")
    return path


# -- operators ----------------------------------------------------------------------------------


def is_sym_op(target: Any) -> bool:
    return any(known is target for known in SYM_OPS.values())


def level_function(name: str) -> Any:
    """A function of levels of transforms, by its name in files; None for others."""
    from rushlight.func import nesting

    last = name.removeprefix(LEVELS)
    return getattr(nesting, last.lstrip("_")) if last in LEVEL_FUNCTIONS else None


def is_level_function(target: Any) -> bool:
    return any([level_function(name) is target for name in LEVEL_FUNCTIONS])


def check_levels(nodes: Iterable[Any]) -> None:
    """Refuse a graph that leaves levels open, or that speaks of one that is not."""
    opened, closed, *users = [
        level_function(name)
        for name in (
            *("_vmap_increment_nesting", "_vmap_decrement_nesting"),
            *("_add_batch_dim", "_remove_batch_dim"),
        )
    ]
    depth = 0
    for node in nodes:
        depth += (node.target is opened) - (node.target is closed)
        places = [users.index(node.target)] if node.target in users else []
        level = [node.args[2 - place] if len(node.args) > 2 else 0 for place in places]
        if depth < 0 or any([type(each) is not int or not 1 <= each <= depth for each in level]):
            raise refuse("it calls a level of vmap that is not open")
    if depth:
        raise refuse("it leaves a level of vmap open")


def sym_arguments(name: str, count: int) -> tuple[str, ...]:
    """The names that files give the arguments of a function of numbers."""
    home = name.partition(".")[0]
    return ARGUMENT_NAMES.get(name) or ARGUMENT_NAMES.get(home) or ("a", "b")[:count]


def target_name(target: Any) -> str:
    """The name that files have for an operator or function."""
    if isinstance(target, OpOverload):
        return qualified_name(target)
    for name, known in HOPS.items():
        if known is target:
            return f"torch.ops.higher_order.{name}"
    for name, known in SYM_OPS.items():
        if known is target:
            return name
    for name in LEVEL_FUNCTIONS:
        if level_function(name) is target:
            return LEVELS + name
    raise refuse(f"a program that calls {target} cannot be written")


def find_target(name: str) -> Any:
    """The operator that a file names; None for one that nobody has registered."""
    found = SYM_OPS.get(name)
    if found is not None:
        return found
    if name.startswith(LEVELS):
        return level_function(name)
    parts = name.split(".")
    if parts[:2] != ["torch", "ops"] or not 4 <= len(parts) <= 5:
        return None
    if parts[2] == "higher_order":
        return find_op(parts[3]) if len(parts) == 4 else None
    families.load_namespace(parts[2])
    try:
        packet = registry.packet(parts[3], parts[2])
    except KeyError:
        return None
    overload = parts[4] if len(parts) == 5 else "default"
    return getattr(packet, overload, None) if overload.isidentifier() else None
