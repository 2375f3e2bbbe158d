"""Attributes that backends need of modules: fetched by a table, and noted at the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base.naming import typename
from rushlight.fx.graph_module import GraphModule
from rushlight.nn.activation import ReLU
from rushlight.nn.conv import Conv2d
from rushlight.nn.linear import Linear
from rushlight.nn.norm import BatchNorm2d
from rushlight.nn.pooling import AdaptiveAvgPool2d, MaxPool2d

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """An attribute is called the same in every version."""
    return name


# The newest version of a module that is known, its attributes, and what they are called by version.
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    cls: (version, names.split(), default_matching)
    for cls, version, names in (
        (Linear, 1, "weight bias"),
        (Conv2d, 1, "weight bias kernel_size stride padding dilation groups padding_mode"),
        (BatchNorm2d, 2, "weight bias running_mean running_var eps"),
        (AdaptiveAvgPool2d, 1, ""),
        (MaxPool2d, 1, "kernel_size stride padding dilation return_indices ceil_mode"),
        (ReLU, 1, "inplace"),
    )
}


def extract_attrs_for_lowering(mod: Any) -> dict[str, Any]:
    """The name of a module's class, and the attributes that the table lists for it."""
    name = typename(mod)
    entry = module_fetch_book.get(type(mod))
    if entry is None:
        raise RuntimeError(f"{name} is not in the module_fetch_book yet, please add it there")
    version, attributes, matching = entry
    if version < mod._version:
        raise RuntimeError(
            f"Fetcher version {version} try to fetch {name} version {mod._version}, please upgrade "
            "the module_fetch_book"
        )
    found = {each: getattr(mod, matching(each, mod._version)) for each in attributes}
    return {"name": name, **found}


def lift_lowering_attrs_to_nodes(fx_module: Any) -> None:
    """Notes what modules have at the nodes that call them, within submodules too."""
    modules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        called = modules[node.target]
        if isinstance(called, GraphModule):
            lift_lowering_attrs_to_nodes(called)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(called)
