"""`*_copy` forms of views: the same values in memory of their own, with the view's gradient."""

from __future__ import annotations

import re
from typing import Any

from rushlight.core import geometry, ports
from rushlight.core.device import contiguous_format
from rushlight.core.op import OpOverload
from rushlight.opset import functions
from rushlight.opset.kinds import REARRANGEMENT, VIEW, Spec, resolved
from rushlight.opset.pointwise import complex as complexes
from rushlight.opset.registry import composite, op
from rushlight.opset.results import make_view, result_tensor, shell_of
from rushlight.opset.rules import late
from rushlight.opset.view import split as splits
from rushlight.opset.view import view as views


def spec_of(entry: Any, source: Any) -> Spec:
    return Spec(entry[0], entry[3] if len(entry) > 3 else source._dtype)


def copied(view: Any) -> Any:
    return result_tensor(ports.row_major(view._array))


def register_copy(source: OpOverload, function: bool = True) -> None:
    name = source.base_name
    head, rest = str(source._schema).split("(", 1)
    overload = head.split(".", 1)[1] if "." in head else ""
    plain = re.sub(r"\(a[^)]*\)", "", rest)
    geometry_of = source.rule("shape")

    def shape(self: Any, *args: Any) -> Any:
        found = geometry_of(self, *args)
        if isinstance(found, list):
            return [spec_of(entry, self) for entry in found]
        return spec_of(found, self)

    def kernel(self: Any, *args: Any) -> Any:
        if self._array is None:
            return shell_of(shape(self, *args), self.device)
        self = resolved(self)
        found = geometry_of(self, *args)
        if isinstance(found, list):
            return [copied(make_view(self, *entry)) for entry in found]
        return copied(make_view(self, *found))

    op(
        f"{name}_copy{'.' + overload if overload else ''}({plain}",
        kind=REARRANGEMENT,
        takes_tensors=True,
        shape=shape,
        kernel=kernel,
        batch=source.rules.get("batch"),
        method=False,
        function=function,
        out=not plain.endswith("[]"),
        node=f"{source.node_name}_copy",
        vjp=source.rules.get("vjp"),
        jvp=source.rules.get("jvp", "linear"),
        samples=source.rules.get("samples"),
    )


view_copy = op(
    "view_copy(Tensor self, SymInt[] size) -> Tensor",
    batch=late("moving.batched:view_copy"),
    method=False,
    node=f"{views.view_.node_name}_copy",
    shape=lambda self, size: Spec(geometry.infer_size(size, self.numel()), self._dtype),
    vjp=views.view_.rules["vjp"],
    jvp=views.view_.rules["jvp"],
    samples=views.view_.rules["samples"],
)


@view_copy.kernel
def _(xp: Any, self: Any, size: Any) -> Any:
    # A copy can have any sizes, whatever memory its source lies in.
    return xp.array(self.reshape(geometry.infer_size(size, self.size)), order="C")


def copied_views() -> dict[str, OpOverload]:
    """The views of which a copy may be asked for, by name."""
    found = {}
    for module in (views, splits, complexes):
        for record in vars(module).values():
            if isinstance(record, OpOverload) and record.kind is VIEW and record.is_view_op:
                found[record.name()] = record
    return {name: record for name, record in found.items() if record.options.get("copied", True)}


for record in copied_views().values():
    register_copy(record)
register_copy(views.lift_fresh, function=False)


@composite(
    "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
    out_quiet=True,
    exact_out=True,
    errors=lambda make: [(RuntimeError, (make(4, 3), 7, 1, 2))],
)
def narrow_copy(self: Any, dim: int, start: Any, length: Any) -> Any:
    if 0 < self.dim() <= dim:
        # torch: every other op says IndexError.
        raise RuntimeError(
            f"narrow_copy(): Expected dim < {self.dim()} (the number of dimensions of self), but "
            f"got {dim}"
        )
    if self.is_sparse:
        chosen = functions.arange(start, start + length)
        return self.index_select(dim, chosen)
    return self.narrow(dim, start, length).clone(memory_format=contiguous_format)


narrow_copy.samples = views.narrow.rules["samples"]
