"""Every setting of Rushlight: typed, documented, readable from the environment.

`config.anomaly` reads `RUSHLIGHT_ANOMALY` when first asked, unless it was assigned before.
Invariant: a setting exists only if it is declared here, with its type, default and meaning; no
other module reads one from the environment, and each has a reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.base.errors import fail


class Knob:
    """One setting; the type of `default` is the setting's type.

    Its variable is `RUSHLIGHT_` and its name, unless `variable` says otherwise.
    """

    __slots__ = ("default", "doc", "variable")

    def __init__(self, default: bool | int | str, doc: str, variable: str = "") -> None:
        self.default = default
        self.doc = doc
        self.variable = variable


KNOBS: dict[str, Knob] = {
    "anomaly": Knob(False, "Start every thread with autograd's anomaly detection switched on."),
    "backward_programs": Knob(True, "Run backward graphs met often as straight-line array code."),
    "cache_dir": Knob("", "Where compiled code is kept; empty for the user's cache folder."),
    "cpu_level": Knob(
        "", "What native kernels may use of the CPU: empty for all of it, avx2, or baseline."
    ),
    "eager_native": Knob(True, "Run eager calls on large tensors as native code."),
    "kept_memory": Knob(512, "How many MiB of large results' memory are kept for later ones."),
    "logs": Knob(
        "",
        "What torch.compile tells: graph_breaks, guards, recompiles, graph_code, kernel, fusion, "
        "memory.",
    ),
    # torch: the names of the two variables.
    "show_device": Knob(False, "Printed graphs tell devices.", "FX_GRAPH_SHOW_DEVICE"),
    "show_stride": Knob(False, "Printed graphs tell strides.", "FX_GRAPH_SHOW_STRIDE"),
    "show_stubs": Knob(
        False, "Print stubs, binders, gradient rules and backward programs to stderr when compiled."
    ),
}

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return KNOBS[name].variable or f"RUSHLIGHT_{name.upper()}"


def read_environment(name: str) -> Any:
    """The value that the environment gives to a setting, or its default."""
    default = KNOBS[name].default
    text = os.environ.get(variable(name))
    if text is None or isinstance(default, str):
        return default if text is None else text
    if isinstance(default, bool):
        word = text.strip().lower()
        if word in TRUE_WORDS or word in FALSE_WORDS:
            return word in TRUE_WORDS
        expected = "one of 1, true, yes, on, 0, false, no, off"
    else:
        try:
            return int(text)
        except ValueError:
            expected = "an integer"
    fail("RL0003", ValueError, variable=variable(name), value=text, expected=expected)


class Config:
    """The settings as attributes. Assigning one overrides the environment."""

    anomaly: bool
    backward_programs: bool
    cache_dir: str
    cpu_level: str
    eager_native: bool
    kept_memory: int
    logs: str
    show_device: bool
    show_stride: bool
    show_stubs: bool

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.require(name)
        value = self.__dict__[name] = read_environment(name)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        self.require(name)
        expected = type(KNOBS[name].default)
        if type(value) is not expected:
            fail("RL0005", TypeError, name=name, expected=expected.__name__, value=value)
        self.__dict__[name] = value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *KNOBS})

    @staticmethod
    def require(name: str) -> None:
        if name not in KNOBS:
            fail("RL0004", AttributeError, name=name, known=", ".join(sorted(KNOBS)))

    @contextmanager
    def patch(self, **values: bool | int | str) -> Iterator[None]:
        """Gives settings other values inside a `with` block."""
        for name in values:
            self.require(name)
        before = dict(self.__dict__)
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            for name in values:
                self.__dict__.pop(name, None)
                if name in before:
                    self.__dict__[name] = before[name]

    def describe(self) -> str:
        """Each setting with its variable, present value and meaning."""
        return "\n".join(
            f"{variable(name)}={getattr(self, name)!r}  {knob.doc}" for name, knob in KNOBS.items()
        )


config = Config()
