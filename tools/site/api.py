"""Pages of the API: modules by their public names, operators by their records."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any

from pages import Page, fenced, prose

from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.opset import audit

__all__ = ["pages"]

# Module, and what it is called under torch.
MODULES = {
    "rushlight": "torch",
    "rushlight.nn": "torch.nn",
    "rushlight.nn.functional": "torch.nn.functional",
    "rushlight.nn.init": "torch.nn.init",
    "rushlight.optim": "torch.optim",
    "rushlight.optim.lr_scheduler": "torch.optim.lr_scheduler",
    "rushlight.autograd": "torch.autograd",
    "rushlight.func": "torch.func",
    "rushlight.linalg": "torch.linalg",
    "rushlight.fft": "torch.fft",
    "rushlight.special": "torch.special",
    "rushlight.sparse": "torch.sparse",
    "rushlight.distributions": "torch.distributions",
    "rushlight.utils.data": "torch.utils.data",
    "rushlight.amp": "torch.amp",
    "rushlight.compiler": "torch.compiler",
    "rushlight.export": "torch.export",
    "rushlight.jit": "torch.jit",
    "rushlight.fx": "torch.fx",
    "rushlight.library": "torch.library",
    "rushlight.onnx": "torch.onnx",
    "rushlight.profiler": "torch.profiler",
    "rushlight.viz": "rushlight.viz",
}
FAMILIES = {
    "pointwise": "Elementwise",
    "reduction": "Reductions",
    "creation": "Creation and random numbers",
    "view": "Views",
    "moving": "Moving and joining",
    "indexing": "Indexing and sorting",
    "product": "Products",
    "linalg": "Linear algebra",
    "window": "Convolution and pooling",
    "network": "Normalisation, attention, losses",
    "fourier": "Fourier transforms",
    "sparse": "Sparse tensors",
    "lists": "Lists of tensors",
    "other": "Others",
}
# Lines of a formula that says what it is without its helpers.
LONGEST = 12
RULES = ("vjp", "jvp", "batch", "lower")
MEANINGS = {
    "vjp": "reverse mode",
    "jvp": "forward mode",
    "batch": "`vmap`",
    "lower": "compiled loops",
}


@cache
def pages() -> tuple[Page, ...]:
    return (*map(module_page, MODULES), *operator_pages())


def module_page(module: str) -> Page:
    name = MODULES[module]
    parts = [f"# {name}\n", prose(importlib.import_module(module).__doc__)]
    parts += [entry(name, short, value) for short, value in public(module)]
    if module == "rushlight":
        parts.insert(2, "Operators have pages of their own, by kind.\n")
    return Page(name, f"api/{name}.md", "\n".join(parts))


def public(module: str) -> Iterator[tuple[str, Any]]:
    """Classes and functions that are not operators."""
    held = importlib.import_module(module)
    for short in sorted(getattr(held, "__all__", dir(held)), key=str.lower):
        value = getattr(held, short, None)
        if short.startswith("_") or not callable(value) or not documented(value):
            continue
        yield short, value


def documented(value: Any) -> bool:
    text = getattr(value, "__doc__", None) or ""
    return bool(text) and not text.startswith("aten::")


def entry(place: str, short: str, value: Any) -> str:
    head = f"## {short}\n"
    call = f"{place}.{short}{signature(value)}"
    word = "class " if isinstance(value, type) else ""
    return "\n".join([head, fenced(word + wrapped(call), "python"), prose(own_doc(value))])


def own_doc(value: Any) -> str:
    """The docstring, if it is not one that a class inherits."""
    if isinstance(value, type):
        return vars(value).get("__doc__") or ""
    return value.__doc__ or ""


def signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(inspect.Signature(plain))


def wrapped(call: str) -> str:
    return "\n".join(textwrap.wrap(call, 96, subsequent_indent="    ", break_on_hyphens=False))


def operator_pages() -> Iterator[Page]:
    records = sorted(audit.records(), key=lambda op: (family_of(op), op.name()))
    for family, members in groupby(records, key=family_of):
        title = FAMILIES[family]
        parts = [
            f"# {title}\n",
            "Each operator with its schema, rules and gradient, as its record states them.\n",
        ]
        shown = [op for op in members if not op.packet.__name__.startswith("_")]
        for name, overloads in groupby(shown, key=lambda op: op.packet.__name__):
            parts.append(operator(name, list(overloads)))
        yield Page(title, f"api/operators/{family}.md", "\n".join(parts))


def family_of(op: OpOverload) -> str:
    return (op.family or "other").partition(".")[0]


def operator(name: str, overloads: list[OpOverload]) -> str:
    schemas = "\n".join(str(op._schema) for op in overloads)
    parts = [f"## {name}\n", fenced(schemas), where(name, overloads[0])]
    parts.append(rules(overloads[0]))
    for op in overloads:
        formula = gradient(op)
        if formula:
            parts.append(fenced(formula, "python"))
            break
    return "\n".join(parts)


def where(name: str, op: OpOverload) -> str:
    import rushlight

    places = [f"`torch.{name}`"] if hasattr(rushlight, name) else []
    places += [f"`Tensor.{form}`" for form in (name, f"{name}_") if hasattr(Tensor, form)]
    return f"{' · '.join(places) or f'`torch.ops.aten.{name}`'} — kind {op.kind}\n"


def rules(op: OpOverload) -> str:
    cells = audit.rules_of(op)
    told = [f"{MEANINGS[rule]}: {cells[rule].split(':')[0]}" for rule in RULES]
    return ", ".join(told) + "\n"


def gradient(op: OpOverload) -> str:
    """The text of a gradient's formula where it is short enough to say what it is."""
    rule = op.rules.get("vjp")
    rules_by_input = rule if isinstance(rule, dict) else {"": rule}
    found = []
    for name, formula in rules_by_input.items():
        text = source(formula)
        if text:
            found.append(f"# gradient{f' of {name}' if name else ''}\n{text}")
    return "\n".join(found)


def source(formula: Any) -> str:
    if not inspect.isfunction(formula):
        return ""
    try:
        lines, first = inspect.getsourcelines(formula)
    except OSError:
        return ""
    if len(lines) > LONGEST or not first:
        return ""
    text = textwrap.dedent("".join(lines)).strip()
    # A formula that stands among the arguments of its op.
    return text[text.find("lambda") :].rstrip(",") if "lambda" in text else text
