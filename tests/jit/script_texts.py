"""Texts of scripted programs, without what two runs may tell apart."""

from __future__ import annotations

import warnings

from texts import normalised


def function_text(torch, function, keep_names=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(function)
    return normalised(str(scripted.graph), keep_names)


def module_text(torch, cls, keep_names=False):
    """The graphs of a scripted module's methods, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(cls())
    parts = []
    for name in sorted(scripted._c._method_names()):
        graph = scripted._c._get_method(name).graph
        parts.append(f"{name}\n{normalised(str(graph), keep_names)}")
    return "".join(parts)
