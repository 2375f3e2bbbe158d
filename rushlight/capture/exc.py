"""Errors of compilation that reach the user, by torch's names."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "TorchDynamoException",
    "Unsupported",
    "UserError",
]


class TorchDynamoException(RuntimeError):
    pass


class InternalTorchDynamoError(TorchDynamoException):
    pass


class Unsupported(TorchDynamoException):
    """Something cannot be captured, and the whole function was to be one graph."""


class UserError(Unsupported):
    pass


class FailOnRecompileLimitHit(TorchDynamoException):
    pass


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
