"""What the node being run says of itself, for nodes that running it makes.

Nothing is kept unless someone asked with `preserve_node_meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from rushlight.core.state import LOCAL, changed

__all__ = [
    "annotate",
    "annotate_fn",
    "follow_backward",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Within it, nodes made while a node runs inherit that node's meta."""
    with changed(node_meta=dict(LOCAL.state.node_meta or {}) if enable else None):
        yield


def has_preserved_node_meta() -> bool:
    """Whether meta is inherited now."""
    return LOCAL.state.node_meta is not None


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Within it, nodes carry these entries in `meta["custom"]`, and those of blocks around it."""
    meta = LOCAL.state.node_meta or {}
    custom = {**meta.get("custom", {}), **annotation_dict}
    with changed(node_meta={**meta, "custom": custom}):
        yield


def annotate_fn(
    annotation_dict: dict[str, Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: nodes that the function makes are annotated."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


def set_stack_trace(stack: list[str]) -> None:
    """Give the nodes made from now on this stack trace."""
    meta = LOCAL.state.node_meta
    if meta is not None and stack:
        LOCAL.state.node_meta = {**meta, "stack_trace": "".join(stack)}


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Say that what is made from now on belongs to this backward node."""
    meta = LOCAL.state.node_meta
    if meta is not None:
        numbers = (*meta.get("grad_fn_seq_nr", ()), seq_nr)
        LOCAL.state.node_meta = {**meta, "grad_fn_seq_nr": numbers, "in_grad_fn": len(numbers)}


def reset_grad_fn_seq_nr() -> None:
    """End what `set_grad_fn_seq_nr` began."""
    meta = LOCAL.state.node_meta
    if meta is not None and meta.get("in_grad_fn"):
        numbers = meta["grad_fn_seq_nr"][:-1]
        LOCAL.state.node_meta = {**meta, "grad_fn_seq_nr": numbers, "in_grad_fn": len(numbers)}


def format_stack() -> list[str]:
    """The stack trace of the node being run, or else of the Python program."""
    meta = LOCAL.state.node_meta
    if meta is not None:
        return [meta.get("stack_trace", "")]
    import traceback

    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Within it, `node` is the node being run."""
    if LOCAL.state.node_meta is None or not node.meta:
        yield
        return
    with changed(node_meta=dict(node.meta)):
        yield


def get_current_meta() -> dict[str, Any]:
    """The meta that new nodes inherit."""
    return LOCAL.state.node_meta or {}


def follow_backward(roots: Iterable[Any]) -> None:
    """Let the nodes that a backward from these roots makes inherit what the forward's had."""
    waiting = [root for root in roots if root is not None]
    seen: set[Any] = set(waiting)
    while waiting:
        node = waiting.pop()
        own = node.metadata.get("node_meta")
        if own is not None:
            node.register_prehook(inheriting(own, node.sequence_nr))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def inheriting(meta: dict[str, Any], number: int) -> Callable[[Any], None]:
    def before(grads: Any) -> None:
        if LOCAL.state.node_meta is not None:
            LOCAL.state.node_meta = {**meta, "grad_fn_seq_nr": (number,), "in_grad_fn": 1}

    return before
