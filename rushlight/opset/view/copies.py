"""`*_copy` forms of views: the same values in memory of their own, with the view's gradient."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from rushlight.core import geometry
from rushlight.core.device import contiguous_format
from rushlight.core.op import OpOverload
from rushlight.opset.kinds import Kind, Spec, make_view, resolved, result_tensor, shell_of
from rushlight.opset.pointwise import complex as complexes
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import late
from rushlight.opset.view import split as splits
from rushlight.opset.view import view as views


class ViewCopy(Kind):
    """A view's values, copied; option `source` is the view op."""

    options: ClassVar[dict[str, str]] = {
        "source": "the view op whose result is copied",
    }

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "shape":
            return lambda *args: self.specs_of(op, args)
        return super().derive(op, rule)

    def batch_method(self, op: Any) -> Any:
        # A rule for views writes through to the source; all others serve copies as well.
        found = op.options["source"].rule("batch")
        return None if found == "view" else found

    def specs_of(self, op: Any, args: tuple[Any, ...]) -> Any:
        found = op.options["source"].rule("shape")(*args)
        if isinstance(found, list):
            return [self.spec_of(entry, args[0]) for entry in found]
        return self.spec_of(found, args[0])

    def spec_of(self, entry: Any, source: Any) -> Spec:
        return Spec(entry[0], entry[3] if len(entry) > 3 else source._dtype)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        geometry_of = op.options["source"].rule("shape")

        def backend(*args: Any) -> Any:
            source = resolved(args[0])
            if source._array is None:
                return shell_of(self.specs_of(op, args), source.device)
            found = geometry_of(source, *args[1:])
            if isinstance(found, list):
                return [copied(make_view(source, *entry)) for entry in found]
            return copied(make_view(source, *found))

        return backend


def copied(view: Any) -> Any:
    return result_tensor(np.array(view._array, order="C"))


VIEW_COPY = ViewCopy("VIEW_COPY", recompute=True)


def register_copy(source: OpOverload, function: bool = True) -> None:
    name = source.base_name
    head, rest = str(source._schema).split("(", 1)
    overload = head.split(".", 1)[1] if "." in head else ""
    plain = re.sub(r"\(a[^)]*\)", "", rest)
    op(
        f"{name}_copy{'.' + overload if overload else ''}({plain}",
        kind=VIEW_COPY,
        source=source,
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


for record in (
    views.view_dtype,
    views.as_strided,
    views.transpose,
    views.t,
    views.permute,
    views.expand,
    views.squeeze,
    views.squeeze_dim,
    views.squeeze_dims,
    views.unsqueeze,
    views.select,
    views.slice_,
    views.diagonal,
    views.unfold,
    splits.unbind,
    splits.split_tensor,
    splits.split_with_sizes,
    views.alias,
    views.detach,
    complexes.view_as_real,
    complexes.view_as_complex,
):
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
    return self.narrow(dim, start, length).clone(memory_format=contiguous_format)


narrow_copy.samples = views.narrow.rules["samples"]
