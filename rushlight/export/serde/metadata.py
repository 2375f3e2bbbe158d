"""What nodes say about where they come from, as the texts that files have."""

from __future__ import annotations

import json
import re
from types import FunctionType
from typing import Any

from rushlight.export.serde.schema import refuse
from rushlight.graph.names import qualified_name, resolve

__all__ = ["read_metadata", "written_metadata"]

BETWEEN = ";"
# Functions of the library, methods of tensors, and classes of modules.
LIBRARY_NAME = re.compile(
    r"torch\.((Tensor|functional|nn\.functional|_C\._nn|nn\.modules\.[a-z_]+)\.)?[a-zA-Z_]\w*\Z"
)


def written_metadata(meta: dict[str, Any]) -> dict[str, str]:
    """The part of a node's metadata that files keep."""
    found: dict[str, str] = {}
    if meta.get("stack_trace"):
        found["stack_trace"] = str(meta["stack_trace"])
    if meta.get("nn_module_stack"):
        found["nn_module_stack"] = BETWEEN.join(
            [f"{key},{path},{kind}" for key, (path, kind) in meta["nn_module_stack"].items()]
        )
    if meta.get("source_fn_stack"):
        found["source_fn_stack"] = BETWEEN.join(
            [f"{name},{function_name(target)}" for name, target in meta["source_fn_stack"]]
        )
    if meta.get("torch_fn"):
        found["torch_fn"] = BETWEEN.join([str(part) for part in meta["torch_fn"]])
    if meta.get("custom"):
        try:
            found["custom"] = json.dumps(meta["custom"])
        except (TypeError, ValueError) as failure:
            raise refuse(f"custom metadata cannot be written ({failure})") from None
    return found


def function_name(target: Any) -> str:
    return target if isinstance(target, str) else qualified_name(target)


def read_metadata(data: dict[str, str]) -> dict[str, Any]:
    """A node's metadata. Of functions and classes those of the library are found by their names;
    others stay names. Nothing is imported or called."""
    found: dict[str, Any] = {}
    if data.get("stack_trace"):
        found["stack_trace"] = data["stack_trace"]
    if data.get("nn_module_stack"):
        found["nn_module_stack"] = dict(
            [module_entry(item) for item in data["nn_module_stack"].split(BETWEEN)]
        )
    if data.get("source_fn_stack"):
        found["source_fn_stack"] = [
            source_entry(item) for item in data["source_fn_stack"].split(BETWEEN)
        ]
    if data.get("torch_fn"):
        found["torch_fn"] = tuple(data["torch_fn"].split(BETWEEN))
    if data.get("custom"):
        try:
            found["custom"] = json.loads(data["custom"])
        except (ValueError, RecursionError):
            raise refuse("the custom metadata of a node is no JSON") from None
    return found


def source_entry(text: str) -> tuple[str, Any]:
    """`name,function`."""
    name, _, target = text.partition(",")
    known = resolve(target) if LIBRARY_NAME.match(target) else None
    return name, known if isinstance(known, (FunctionType, type)) else target


def module_entry(text: str) -> tuple[str, tuple[str, str]]:
    """`key,path,class`, where commas within brackets do not count."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    if len(parts) != 3:
        raise refuse(f"{text[:80]!r} is no entry of a module stack")
    return parts[0], (parts[1], parts[2])
