"""What only a tensor out of the ordinary carries: `Unusual`, and `ViewInfo` for a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.device import cpu, device, layout, strided

if TYPE_CHECKING:
    from rushlight.core.op import OpOverload
    from rushlight.core.protocols import Args
    from rushlight.core.tensor import Tensor

__all__ = ["Unusual", "ViewInfo", "view_info"]


class Unusual:
    """What sets an unusual tensor apart: device, symbolic or array-less geometry, lazy bits,
    layout, inference mode, and the parts of a sparse tensor."""

    __slots__ = (
        "conj",
        "device",
        "inference",
        "layout",
        "neg",
        "parts",
        "sizes",
        "strides",
        "zero",
    )

    def __init__(self, place: device = cpu) -> None:
        self.device = place
        self.sizes: tuple[Any, ...] | None = None
        self.strides: tuple[Any, ...] | None = None
        self.conj = False
        self.neg = False
        self.inference = False
        self.zero = False
        self.layout: layout = strided
        self.parts: Any = None

    def copy(self) -> Unusual:
        new = Unusual(self.device)
        for name in Unusual.__slots__:
            setattr(new, name, getattr(self, name))
        return new


class ViewInfo:
    """How a view came to be: its root base, the op that made it, and when its node was valid."""

    __slots__ = ("args", "base", "kind", "op", "parent", "pending", "version")

    # Which of an op's results this is; a slot of `PartInfo` where it is not the first.
    number = 0
    # Kinds of creation: what may be done in place to the view, and what error says so.
    NORMAL = 0
    CUSTOM_FUNCTION = 1
    MULTI_OUTPUT = 2
    NO_GRAD = 3
    INFERENCE = 4

    def __init__(
        self,
        base: Tensor,
        op: OpOverload,
        args: Args,
        parent: ViewInfo | None,
        kind: int,
        version: int,
    ) -> None:
        self.base = base
        self.op = op
        self.args = args
        self.parent = parent
        self.kind = kind
        self.version = version
        # What the view's node will be made of when it is first asked for; None when it is there.
        self.pending: Any = None


class PartInfo(ViewInfo):
    """The record of a view that is one of several."""

    __slots__ = ("number",)

    def __init__(
        self,
        base: Tensor,
        op: OpOverload,
        args: Args,
        parent: ViewInfo | None,
        kind: int,
        version: int,
    ) -> None:
        super().__init__(base, op, args, parent, kind, version)
        self.number = 0


def view_info(
    base: Tensor,
    op: OpOverload,
    args: Args,
    parent: ViewInfo | None,
    kind: int,
    version: int,
    number: int,
) -> ViewInfo:
    """The record of result `number` of a view op."""
    if number == 0:
        return ViewInfo(base, op, args, parent, kind, version)
    part = PartInfo(base, op, args, parent, kind, version)
    part.number = number
    return part
