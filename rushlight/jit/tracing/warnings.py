"""`TracerWarning`: what a trace cannot follow."""

from __future__ import annotations

import warnings

from rushlight.jit.tracing.frames import calling_frame

DATAFLOW = (
    " might cause the trace to be incorrect. We can't record the data flow of Python values, so "
    "this value will be treated as a constant in the future. This means that the trace might not "
    "generalize to other inputs!"
)
CONSTRUCTOR = (
    " results are registered as constants in the trace. You can safely ignore this warning if you "
    "use this function to create tensors out of constant variables that would be the same every "
    "time you call this function. In any other case, this might cause the trace to be incorrect."
)
STRICT = (
    " might cause the trace to be incorrect, this is only valid if the container structure does "
    "not change based on the module's inputs. Consider using a constant container instead (e.g. "
    "for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely "
    "need this and know the side effects, pass strict=False to trace() to allow this behavior."
)


class TracerWarning(Warning):
    """Something that a trace cannot follow, which may make it wrong for other inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing that the library itself does is warned about."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=r"rushlight\.(?!jit)")


TracerWarning.ignore_lib_warnings()


def warn(message: str) -> None:
    """Warns at the line that called into the library."""
    frame = calling_frame()
    if frame is None:
        warnings.warn(message, TracerWarning, stacklevel=2)
        return
    if (frame.f_globals.get("__name__") or "").startswith("rushlight."):
        # What the library does with shapes and values is its own affair.
        return
    warnings.warn_explicit(
        message,
        TracerWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__") or "<unknown>",
        frame.f_globals.setdefault("__warningregistry__", {}),
    )
