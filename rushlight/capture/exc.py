"""Errors of compilation that reach the user, by torch's names."""

from __future__ import annotations

import enum
from typing import Any

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "RecompileError",
    "TorchDynamoException",
    "UncapturedHigherOrderOpError",
    "Unsupported",
    "UserError",
    "UserErrorType",
]


class TorchDynamoException(RuntimeError):
    pass


class InternalTorchDynamoError(TorchDynamoException):
    pass


class Unsupported(TorchDynamoException):
    """Something cannot be captured, and the whole function was to be one graph."""


class UncapturedHigherOrderOpError(Unsupported):
    """A function that a higher-order call takes cannot be captured."""


class UserErrorType(enum.Enum):
    """What a `UserError` is about."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(Unsupported):
    """Something that the caller has to change: a wrong argument, a relation that does not hold."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None) -> None:
        super().__init__(msg)
        self.error_type = error_type
        self.msg = msg
        self.message = msg
        self.case_name = case_name


class FailOnRecompileLimitHit(TorchDynamoException):
    pass


class RecompileError(TorchDynamoException):
    """A function would be compiled again where that was to be an error."""


class InvalidBackend(TorchDynamoException):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for those that exist."
        )


class BackendCompilerFailed(TorchDynamoException):
    def __init__(self, backend: Any, inner: BaseException) -> None:
        name = getattr(backend, "__name__", type(backend).__name__)
        super().__init__(f"backend={name!r} raised:\n{type(inner).__name__}: {inner}")
        self.backend_name = name
        self.inner_exception = inner
