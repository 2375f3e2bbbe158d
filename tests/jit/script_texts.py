"""Texts of scripted programs, without what two runs may tell apart."""

from __future__ import annotations

import warnings

from texts import normalised


def graphs_text(text, keep_names):
    """A graph's text and those of the graphs inside, each with numbers of its own."""
    first, *inner = text.split("\nwith ")
    parts = [normalised(part, keep_names) for part in (first, *inner)]
    return "\nwith ".join(parts)


def function_text(torch, function, keep_names=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(function)
    return graphs_text(str(scripted.graph), keep_names)


def module_text(torch, cls, keep_names=False):
    """The graphs of a scripted module's methods, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(cls())
    parts = []
    for name in sorted(scripted._c._method_names()):
        graph = scripted._c._get_method(name).graph
        parts.append(f"{name}\n{graphs_text(str(graph), keep_names)}")
    return "".join(parts)
