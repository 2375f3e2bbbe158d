"""Error classes, and exceptions that carry a code from the table of refusals (`base.reasons`).

A code's `what` is the exception's text, word for word; `why` and `remedy` travel as a note on it:
a text that compatibility fixes stays exactly as it is and still explains itself.
"""

from __future__ import annotations

# NumPy has imported it already.
from pickle import UnpicklingError
from typing import NoReturn, TypeVar

Raised = TypeVar("Raised", bound=Exception)


class Reason:
    """What a code says. Each field is a `str.format` template over the fields given to `fail`."""

    __slots__ = ("remedy", "what", "why")

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        self.what = what
        self.why = why
        self.remedy = remedy


class MissingFeature(NotImplementedError):
    """Something PyTorch has and Rushlight has not.

    `remedy` is a sentence on what to do instead, where more can be said than in the table.
    """

    def __init__(self, what: str, remedy: str = "", code: str = "RL0001") -> None:
        self.what = what
        self.code = code
        reason = reason_of(code)
        advice = remedy or reason.remedy
        super().__init__(reason.what.format(what=what) + (f" {advice}" if advice else ""))


class MissingExtra(ImportError):
    """An optional package is not installed; the text names the command that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        self.code = "RL0002"
        self.extra = extra
        super().__init__(message(self.code, module=module, extra=extra), name=module)


class OldExtra(MissingExtra):
    """An optional package is installed, of a version that is too old."""

    def __init__(self, module: str, extra: str, found: str, needed: str) -> None:
        self.code = "RL0008"
        self.extra = extra
        text = message(self.code, module=module, extra=extra, found=found, needed=needed)
        ImportError.__init__(self, text, name=module)


class LinAlgError(RuntimeError):
    """A matrix for which the requested factorisation or solution does not exist."""


# torch: the class has a private name, which tracebacks show.
_LinAlgError = LinAlgError
LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


class CheckpointError(UnpicklingError, RuntimeError):
    """A file that cannot be read: damaged, of another kind, or telling lies about itself.

    It is both of what torch raises for such files.
    """


class OutOfMemoryError(RuntimeError):
    """The device has no room for an allocation."""


class AcceleratorError(RuntimeError):
    """A device failed: never raised here, named in `except` clauses."""


class FatalError(RuntimeError):
    """An error that a program should not survive: never raised here."""


def reason_of(code: str) -> Reason:
    """What the table says of a code. The table is loaded when it is first needed."""
    from rushlight.base.reasons import REASONS

    return REASONS[code]


def message(code: str, **fields: object) -> str:
    """The exception text of `code`."""
    return reason_of(code).what.format(**fields)


def annotate(exception: Exception, code: str, **fields: object) -> None:
    """Gives an exception its code and, as a note, why and remedy."""
    reason = reason_of(code)
    exception.code = code  # type: ignore[attr-defined]
    advice = " ".join(part.format(**fields) for part in (reason.why, reason.remedy) if part)
    if advice:
        exception.add_note(f"{code}: {advice}")


def error(
    code: str,
    cls: type[Raised] = RuntimeError,  # type: ignore[assignment]
    **fields: object,
) -> Raised:
    """An exception of class `cls` for `code`; it carries `.code` and, as a note, why and remedy."""
    exception = cls(message(code, **fields))
    annotate(exception, code, **fields)
    return exception


def fail(code: str, cls: type[Exception] = RuntimeError, **fields: object) -> NoReturn:
    """Raises `error(code, cls, **fields)`."""
    raise error(code, cls, **fields)


def explain(code: str) -> str:
    """What the table knows of a code, its templates unfilled."""
    reason = reason_of(code)
    return "\n".join([f"{code}: {reason.what}", *filter(None, (reason.why, reason.remedy))])
