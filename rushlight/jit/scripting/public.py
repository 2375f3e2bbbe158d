"""The names of `script` that `torch.jit` has."""

from typing import Final

from rushlight.jit.scripting.api import (
    Attribute,
    annotate,
    is_scripting,
    isinstance_,
    overload,
    overload_method,
    script,
    script_if_tracing,
    unwrap_optional,
)
from rushlight.jit.scripting.classes import interface
from rushlight.jit.scripting.ignoring import export, ignore, unused

isinstance = isinstance_
_overload = overload
_overload_method = overload_method
_unwrap_optional = unwrap_optional
_isinstance = isinstance_

__all__ = [
    "Attribute",
    "Final",
    "_isinstance",
    "_overload",
    "_overload_method",
    "_unwrap_optional",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "isinstance",
    "script",
    "script_if_tracing",
    "unused",
]
