"""What strict export does beside tracing: the effects of a capture of bytecode.

One interface, so that a capture can take the place: checks before, errors during, and what is
dropped and said of inputs afterwards.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rushlight.capture.exc import Unsupported, UserError, UserErrorType
from rushlight.export.checks import InputCheck
from rushlight.export.inputs import CallInputs
from rushlight.export.signature import ExportGraphSignature, InputKind
from rushlight.fx.graph_module import GraphModule
from rushlight.nn.module import Module
from rushlight.symbolic.errors import ConstraintViolationError, GuardOnDataDependentSymNode

__all__ = [
    "DEFAULT_EXPORT_DYNAMO_CONFIG",
    "SILENCE",
    "ExportConfig",
    "check_module",
    "describe_inputs",
    "drop_unused",
    "note_dims",
    "translated_errors",
]


@dataclass
class ExportConfig:
    """What strict export lets through."""

    allow_rnn: bool = True
    reorderable_logging_functions: set[Any] = field(default_factory=set)


DEFAULT_EXPORT_DYNAMO_CONFIG = ExportConfig()
IN_OP = (
    "Tried to use data-dependent value in the subsequent computation. This can happen when a value "
    "that only data tells is used where its bounds matter. State them with "
)
LOGGING_METHODS = ("critical", "debug", "error", "exception", "info", "log", "warn", "warning")
DROPPED = (InputKind.PARAMETER, InputKind.BUFFER)


def check_module(mod: Module, inputs: CallInputs) -> None:
    """Refuse modules that strict export refuses."""
    if not DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn:
        from rushlight.nn.recurrent import RNNBase

        if any([isinstance(member, RNNBase) for member in mod.modules()]):
            raise Unsupported("TorchDynamo purposely graph breaks on RNN, GRU, LSTMs")
    for hook in mod._forward_pre_hooks.values():
        if isinstance(hook, InputCheck):
            hook(mod, inputs.args, inputs.kwargs)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Inside, what is wrong with sizes is a UserError."""
    try:
        yield
    except ConstraintViolationError as error:
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, str(error)) from error
    except GuardOnDataDependentSymNode as error:
        text = IN_OP if was_asked_by_op(error) else "Consider annotating your code using "
        raise UserError(UserErrorType.ANTI_PATTERN, f"{text}torch._check*(). {error}") from error


class Silence:
    """Makes what some threads log no part of their programs: loggers take any arguments and do
    nothing there. The methods of loggers are others as long as there are such threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.threads: Counter[int] = Counter()
        self.own: dict[str, Callable[..., Any]] = {}

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        thread = threading.get_ident()
        with self.lock:
            if not self.threads:
                self.own = {name: getattr(logging.Logger, name) for name in LOGGING_METHODS}
                for name, method in self.own.items():
                    setattr(logging.Logger, name, self.silenced(method))
            self.threads[thread] += 1
        try:
            yield
        finally:
            with self.lock:
                self.threads -= Counter([thread])
                if not self.threads:
                    for name, method in self.own.items():
                        setattr(logging.Logger, name, method)

    def silenced(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def log(logger: logging.Logger, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() in self.threads:
                return None
            # The record names the caller of this function.
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            return method(logger, *args, **kwargs)

        return log


SILENCE = Silence()


def was_asked_by_op(error: BaseException) -> bool:
    """Whether a question about data came up in an op and not in the module's own code."""
    is_inside = False
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        is_inside = name.startswith("rushlight.") and (
            is_inside or name.startswith(("rushlight.core.", "rushlight.opset."))
        )
        trace = trace.tb_next
    return is_inside


def drop_unused(module: GraphModule, signature: ExportGraphSignature) -> None:
    """Take away lifted state that the graph does not use."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    kept = []
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind in DROPPED and not node.users:
            module.graph.erase_node(node)
        else:
            kept.append(spec)
    signature.input_specs[:] = kept


def note_dims(module: GraphModule, plan: Any) -> None:
    """Let the graph say which sizes of its inputs may vary."""
    declaration = plan.declaration
    module.meta["input_shape_constraints"] = [] if declaration is None else list(declaration.dims)


def describe_inputs(module: GraphModule, signature: ExportGraphSignature) -> None:
    """Let lifted inputs say which function they are for: that of the last node that uses them."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            continue
        for user in node.users:
            if "source_fn_stack" in user.meta:
                node.meta["source_fn_stack"] = user.meta["source_fn_stack"]
