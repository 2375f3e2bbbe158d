"""Texts of graphs without what two runs may tell apart: numbers of values, lines, mangled names."""

from __future__ import annotations

import re
import warnings

VALUE = re.compile(r"%[\w.]+")


def normalised(text, keep_names=False):
    """A graph's text with its values numbered as they appear; `keep_names`: where they have no
    name."""
    text = re.sub(r" # .*", "", text)
    text = re.sub(r"___torch_mangle_\d+\.", "", text)
    text = re.sub(r"__torch__\.(?:tests\.)?(?:jit\.)?programs_\w+\.", "__torch__.", text)
    text = re.sub(r'module="[^"]*"', 'module=""', text)
    names = {}

    def renamed(match):
        found = names.get(match[0])
        if found is None:
            plain = match[0][1:].partition(".")[0]
            if keep_names and not plain.isdigit():
                found = f"%{plain}"
            else:
                found = f"%{len(names)}"
            names[match[0]] = found
        return found

    return VALUE.sub(renamed, text)


def function_text(torch, build, keep_names=False):
    function, inputs = build(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(function, inputs, check_trace=False, strict=False)
    return normalised(str(traced.graph), keep_names)


def module_text(torch, build, keep_names=False):
    """The graphs of a traced module: its own, then those of its submodules, by path."""
    module, inputs = build(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module, inputs, check_trace=False, strict=False)
    parts = []
    for path, child in traced.named_modules():
        for name in sorted(child._c._method_names()):
            graph = child._c._get_method(name).graph
            parts.append(f"{path or '(self)'}.{name}\n{normalised(str(graph), keep_names)}")
    return "".join(parts)
