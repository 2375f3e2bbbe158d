"""Where tangents are kept: the level of forward mode, and each tensor's slot in it.

A slot is valid for the level it was made in, and leaving the level empties all of its slots, so a
dual tensor that outlives its level is a plain one. A view without a slot of its own has the same
view of its base's tangent; `make_dual` and `unpack_dual` end the way to the base (`DualView`).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from rushlight.core import dispatch, history
from rushlight.core import node as nodes
from rushlight.core.extras import PartInfo, ViewInfo
from rushlight.core.node import autograd_state, recorded_node
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.protocols import Function

__all__ = ["DualLevel", "DualView", "base_of", "keep_tangent", "tangent_of"]


class TangentSlot:
    """The tangent of one tensor at one level."""

    __slots__ = ("__weakref__", "level", "tangent")

    def __init__(self, level: DualLevel, tangent: Tensor | None) -> None:
        self.level = level
        self.tangent = tangent


class DualLevel:
    """One stretch of forward mode. `depth` is the number of transforms it was entered under: at
    that depth its tangents are pushed, and below it tensors count as plain."""

    __slots__ = ("depth", "slots")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.slots: weakref.WeakSet[TangentSlot] = weakref.WeakSet()

    def close(self) -> None:
        for slot in list(self.slots):
            slot.tangent = None
        self.slots.clear()


class DualView(PartInfo):
    """The view record of an alias whose tangent is its own, not its base's."""

    __slots__ = ("owner",)

    def __init__(self, tensor: Tensor) -> None:
        recorded_node(tensor)
        view: Any = tensor._view
        super().__init__(view.base, view.op, view.args, view.parent, view.kind, view.version)
        self.number = view.number
        self.owner = weakref.ref(tensor)


def end_view(tensor: Tensor) -> None:
    """Cut an alias off from its base's tangent."""
    if tensor._view is not None:
        tensor._view = DualView(tensor)


def base_of(tensor: Tensor) -> tuple[Any, list[ViewInfo]]:
    """(the tensor whose tangent a view's is a part of, the links that lead from there)."""
    links: list[ViewInfo] = []
    link = tensor._view
    while link is not None:
        if isinstance(link, DualView):
            return (link.owner() if links else None), links[::-1]
        links.append(link)
        if link.parent is None:
            return link.base, links[::-1]
        link = link.parent
    return None, []


def replay_links(links: list[ViewInfo], base: Any) -> Any:
    for link in links:
        base = dispatch.call(link.op, (base, *link.args))
        if isinstance(base, (list, tuple)):
            base = base[link.number]
    return base


def owner_of(tensor: Any) -> Any:
    """The jvp level that a tensor belongs to; None for plain forward mode."""
    if type(tensor) is nodes.LEVEL_TENSOR and tensor._owner.duals is not None:
        return tensor._owner
    return None


def lowered(value: Any) -> Any:
    """What the jvp level of a tensor computes with."""
    if isinstance(value, (list, tuple)):
        return type(value)([lowered(item) for item in value])
    return value if owner_of(value) is None else value._value


def tangent_of(tensor: Any) -> Any:
    """The tangent of a tensor at the current level, or None."""
    if not isinstance(tensor, Tensor):
        return None
    owner = None
    if type(tensor) is nodes.LEVEL_TENSOR and (level := tensor._owner.duals) is not None:
        owner = tensor._owner
    elif (level := LOCAL.state.duals) is None:
        return None
    state = tensor._autograd
    if state is not None and state.tangent is not None and state.tangent.level is level:
        return state.tangent.tangent
    if tensor._view is None or not history.is_differentiable(tensor):
        return None
    base, links = base_of(tensor)
    if base is None or not history.is_differentiable(base):
        return None
    found = tangent_of(base)
    if found is None:
        return None
    if owner is None:
        own = without_tangents(replay_links, links, found)
    else:
        own = owner.run(replay_links, links, found)
    keep_tangent(tensor, own)
    return own


def keep_tangent(tensor: Tensor, tangent: Tensor | None) -> None:
    """Store a tangent as it is; None forgets the one there was."""
    if tangent is None:
        if tensor._autograd is not None:
            tensor._autograd.tangent = None
        return
    owner = owner_of(tensor)
    level = LOCAL.state.duals if owner is None else owner.duals
    slot = TangentSlot(level, tangent)
    level.slots.add(slot)
    autograd_state(tensor).tangent = slot


def without_tangents(function: Function, *args: Any) -> Any:
    """Call a function whose ops push no tangents."""
    if LOCAL.state.forward_level < 0:
        return function(*args)
    with changed(forward_level=-1):
        return function(*args)
