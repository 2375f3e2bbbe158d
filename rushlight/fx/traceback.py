"""What the node being run says of itself, for nodes that running it makes.

Nothing is kept unless someone asked with `preserve_node_meta`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

current_meta: dict[str, Any] = {}
should_preserve_node_meta = False


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Within it, nodes made while a node runs inherit that node's meta."""
    global should_preserve_node_meta, current_meta
    former, former_meta = should_preserve_node_meta, current_meta
    should_preserve_node_meta = enable
    current_meta = dict(former_meta)
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = former, former_meta


def has_preserved_node_meta() -> bool:
    """Whether meta is inherited now."""
    return should_preserve_node_meta


def set_stack_trace(stack: list[str]) -> None:
    """Give the nodes made from now on this stack trace."""
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Say that what is made from now on belongs to this backward node."""
    if should_preserve_node_meta:
        current_meta.setdefault("grad_fn_seq_nr", []).append(seq_nr)
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """End what `set_grad_fn_seq_nr` began."""
    if should_preserve_node_meta and current_meta.get("in_grad_fn"):
        current_meta["in_grad_fn"] -= 1
        current_meta["grad_fn_seq_nr"].pop()


def format_stack() -> list[str]:
    """The stack trace of the node being run, or else of the Python program."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    import traceback

    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Within it, `node` is the node being run."""
    global current_meta
    if not should_preserve_node_meta or not node.meta:
        yield
        return
    former = current_meta
    current_meta = dict(node.meta)
    try:
        yield
    finally:
        current_meta = former


def get_current_meta() -> dict[str, Any]:
    """The meta that new nodes inherit."""
    return current_meta
