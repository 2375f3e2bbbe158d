"""Write rushlight/__init__.pyi: what editors and type checkers know of `import rushlight as torch`.

Names resolve lazily, which no checker can follow; here they are, from the registry. `--check` fails
where the file is out of date.
"""

from __future__ import annotations

import importlib
import inspect
import json
import keyword
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NAMES = ROOT / "rushlight" / "compat" / "public_names.json"
PAGE = ROOT / "rushlight" / "__init__.pyi"
HEAD = """# mypy: disable-error-code="overload-cannot-match,override,misc"
# Written by tools/write_types.py: the names that rushlight finds when they are first used.
import builtins
from collections.abc import Callable, Sequence
from typing import Any, overload

from rushlight.core.device import device as device
from rushlight.core.device import layout as layout
from rushlight.core.device import memory_format as memory_format
from rushlight.core.dtype import dtype as dtype
from rushlight.core.rng import Generator as Generator
from rushlight.core.size import Size as Size
from rushlight.core.tensor import Tensor as _Tensor

_Number = builtins.int | builtins.float | builtins.bool | builtins.complex
_Int = builtins.int
"""
KINDS = {
    "Tensor": "_Tensor", "int": "_Int", "SymInt": "_Int", "float": "builtins.float",
    "bool": "builtins.bool", "SymBool": "builtins.bool", "str": "builtins.str",
    "Scalar": "_Number", "ScalarType": "dtype", "Layout": "layout",
    "Device": "device | builtins.str", "MemoryFormat": "memory_format", "Generator": "Generator",
    "complex": "builtins.complex",
}  # fmt: skip


def type_text(kind: Any, is_result: bool = False) -> str:
    text = plain_text(kind, is_result)
    return f"{text} | None" if kind.optional and text != "Any" else text


def plain_text(kind: Any, is_result: bool) -> str:
    if kind.kind == "List":
        inner = type_text(kind.element, is_result)
        if is_result:
            return f"builtins.tuple[{inner}, ...]"
        single = f" | {inner}" if inner != "_Tensor" else ""
        return f"Sequence[{inner}]{single}"
    if is_result and kind.kind == "Tensor":
        return "Tensor"
    if kind.kind == "Tensor":
        return "_Tensor"
    return KINDS.get(kind.kind, "Any")


def argument_text(argument: Any, is_method: bool) -> str:
    name = argument.name
    if name == "self":
        if is_method:
            return "self"
        name = "input"
    if keyword.iskeyword(name):
        name += "_"
    # torch: a dim may be several, and the other operand a number, whichever overload says so.
    kind = "Any" if name == "other" else type_text(argument.type)
    default = " = ..." if argument.has_default else ""
    return f"{name}: {kind}{default}"


def first_of(schema: Any) -> Any:
    """The first argument after `self` that may be given in order."""
    rest = [each for each in schema.arguments if each.name != "self" and not each.kwarg_only]
    return rest[0] if len(rest) == 1 else None


def is_sizes(kind: Any) -> bool:
    """Whether a method takes such numbers one by one, as `x.reshape(2, 3)`."""
    return bool(kind.kind == "List" and kind.element.kind in ("int", "SymInt"))


def form_text(name: str, schema: Any, is_method: bool, takes_out: bool) -> str:
    parts, star = [], False
    sizes = not is_method and schema.arguments and schema.arguments[0].name == "size"
    for argument in schema.arguments:
        if argument.kwarg_only and not star:
            parts.append("*")
            star = True
        first = is_method and argument is first_of(schema) and is_sizes(argument.type)
        if first or (sizes and argument.name == "size"):
            parts.append(f"*{argument.name}: Any")
            star = True
            continue
        parts.append(argument_text(argument, is_method))
    if takes_out and not is_method and not any(a.name == "out" for a in schema.arguments):
        parts += ([] if star else ["*"]) + ["out: _Tensor | None = ..."]
    names = {argument.name for argument in schema.arguments}
    if not is_method and "dtype" in names and "requires_grad" not in names and sizes:
        parts.append("requires_grad: builtins.bool = ...")
    results = [type_text(each.type, is_result=True) for each in schema.returns]
    result = "None" if not results else results[0]
    if len(results) > 1:
        result = f"builtins.tuple[{', '.join(results)}]"
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


def forms(name: str, packet: Any, is_method: bool) -> list[str]:
    found = []
    for op in packet.candidates:
        if op._overloadname.endswith("out") or any(each.is_out for each in op._schema.arguments):
            continue
        if is_method and not any(each.name == "self" for each in op._schema.arguments):
            continue
        takes_out = bool(op.options.get("out", True)) and not op.is_view_op
        found.append(form_text(name, op._schema, is_method, takes_out))
    found = list(dict.fromkeys(found))
    return found if len(found) < 2 else [line for each in found for line in ("@overload", each)]


def imports(taken: set[str]) -> list[str]:
    """Modules, functions written in Python, and what the root imports itself."""
    import rushlight as torch
    from rushlight import _FUNCTIONS, _SUBMODULES
    from rushlight.core import dtype as dtypes

    lines = [f"from rushlight import {name} as {name}" for name in sorted(_SUBMODULES - taken)]
    taken.update(_SUBMODULES)
    for name in sorted(_FUNCTIONS.keys() - taken):
        home = importlib.import_module(_FUNCTIONS[name])
        known = name in vars(home)
        lines.append(f"from {home.__name__} import {name} as {name}" if known else f"{name}: Any")
    taken.update(_FUNCTIONS)
    for name, value in sorted(vars(torch).items()):
        if name.startswith("_") or name in taken or name in dtypes.BY_NAME:
            continue
        module = getattr(value, "__module__", "rushlight")
        if isinstance(value, float):
            lines.append(f"{name}: builtins.float")
        elif value is None:
            lines.append(f"{name}: None")
        elif module != "rushlight" and name in vars(importlib.import_module(module)):
            lines.append(f"from {module} import {name} as {name}")
        else:
            continue
        taken.add(name)
    return lines


def methods() -> list[str]:
    """What operators add to Tensor."""
    from rushlight.core.tensor import Tensor
    from rushlight.opset import registry

    packets = registry.PACKETS["aten"]
    lines = ["class Tensor(_Tensor):"]
    for name in json.loads(NAMES.read_text())["torch.Tensor"]:
        # Asked for once, a promise gives way to what it stands for.
        getattr(Tensor, name, None)
        found = inspect.getattr_static(Tensor, name, None)
        code = found.fget if isinstance(found, property) else found
        if code is None or getattr(code, "__module__", "") == "rushlight.core.tensor":
            continue
        if isinstance(found, property):
            lines += property_text(name, found)
            continue
        rows = forms(name, packets[name], is_method=True) if name in packets else []
        rows = rows or [f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."]
        lines += [f"    {row}" for row in rows]
    for name in OPERATORS.split():
        lines.append(f"    def __{name}__(self, other: Any) -> Tensor: ...")
    for name in ("neg", "pos", "invert", "abs"):
        lines.append(f"    def __{name}__(self) -> Tensor: ...")
    lines.append("    def __getitem__(self, index: Any) -> Tensor: ...")
    lines.append("    def __setitem__(self, index: Any, value: Any) -> None: ...")
    return lines


def property_text(name: str, found: property) -> list[str]:
    """A property that operators add, or one that asks a question; others have types already."""
    module = getattr(found.fget, "__self__", found.fget).__module__
    if name.startswith("is_"):
        kind = "builtins.bool"
    elif module.startswith(("rushlight.opset", "torch._ops")):
        kind = "Tensor"
    else:
        return []
    lines = ["    @property", f"    def {name}(self) -> {kind}: ..."]
    if found.fset is not None:
        lines += [f"    @{name}.setter", f"    def {name}(self, value: Any) -> None: ..."]
    return lines


def collect() -> str:
    from rushlight.core import dtype as dtypes
    from rushlight.opset import families, registry

    families.load_all()
    taken = {"device", "layout", "memory_format", "dtype", "Generator", "Size", "Tensor"}
    lines = [HEAD, "__version__: str", *imports(taken)]
    lines.append("def is_tensor(obj: object) -> builtins.bool: ...")
    taken.add("is_tensor")
    packets = registry.PACKETS["aten"]
    for name in sorted(packets.keys() - taken):
        if not name.startswith("_") and registry.public(name) is not None:
            lines += forms(name, packets[name], is_method=False)
    # Last: these shadow builtins.
    names = [f"{name}: dtype" for name in sorted(dtypes.BY_NAME)]
    return "\n".join([*lines, *methods(), *names]) + "\n"


OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod pow rpow matmul rmatmul "
    "and or xor lt le gt ge eq ne"
)


def main() -> int:
    written = collect()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == written else 1
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
