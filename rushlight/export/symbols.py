"""Symbols for the sizes of a plan: fake inputs, and the declared relations as facts.

Every size that may vary gets a symbol, in the order of the inputs; roots that are no dimension
follow. What was declared is known before tracing: sizes of one name are one symbol, derived sizes
are expressions of their root's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.base.errors import error
from rushlight.capture.exc import UserErrorType
from rushlight.core.tensor import Tensor
from rushlight.export.dimensions import Dim, DimHint, DimHintType, refuse
from rushlight.symbolic import expressions as ex
from rushlight.symbolic.constraints import (
    Declaration,
    DeclaredDim,
    Role,
    Root,
    StrictMinMaxConstraint,
)
from rushlight.symbolic.errors import ConstraintViolationError
from rushlight.symbolic.numbers import SymInt
from rushlight.symbolic.ranges import ValueRanges, int_oo
from rushlight.symbolic.shapeenv import DimDynamic, StatelessSymbolicContext
from rushlight.symbolic.sources import ConstantSource

if TYPE_CHECKING:
    from rushlight.core.fake import FakeTensorMode
    from rushlight.export.shapes import Entry, Leaf
    from rushlight.symbolic.protocols import Expr
    from rushlight.symbolic.shapeenv import ShapeEnv


class Symbols:
    """Makes the inputs of one plan."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self.env: ShapeEnv = mode.shape_env  # type: ignore[assignment]
        self.declaration = Declaration()
        self.seen: dict[int, Tensor] = {}
        self.dims: dict[str, Dim] = {}

    # ------------------------------------------------------------ inputs

    def fake_leaf(self, leaf: Leaf) -> Any:
        if isinstance(leaf.value, Tensor):
            return self.fake_tensor(leaf)
        if isinstance(leaf.spec, DimHint) and leaf.spec.type is not DimHintType.STATIC:
            return self.symbolic_integer(leaf)
        return leaf.value

    def fake_tensor(self, leaf: Leaf) -> Any:
        tensor = leaf.value
        kinds, constraints = [], []
        for dim, entry in enumerate(leaf.entries):
            self.check_size(leaf, dim, entry)
            kinds.append(DimDynamic.DYNAMIC if varies(entry) else DimDynamic.STATIC)
            constraints.append(
                StrictMinMaxConstraint(ValueRanges(entry.min, entry.max))
                if isinstance(entry, Dim)
                else None
            )
        context = StatelessSymbolicContext(kinds, constraint_sizes=constraints)
        source = ConstantSource(leaf.source)
        if id(tensor) in self.seen:
            # The same tensor in another place is another input.
            fake = self.mode.faked(tensor, None, source, context)
        else:
            fake = self.mode.from_tensor(tensor, source=source, symbolic_context=context)
        self.seen[id(tensor)] = tensor
        for dim, (entry, size) in enumerate(zip(leaf.entries, fake.shape)):
            if varies(entry):
                path = f"inputs{leaf.path}.shape[{dim}]"
                self.declare(
                    leaf.size_source(dim), path, entry, int(tensor.shape[dim]), expression(size)
                )
        return fake

    def check_size(self, leaf: Leaf, dim: int, entry: Entry) -> None:
        size = leaf.value.shape[dim]
        if isinstance(entry, int) and entry != size:
            raise error(
                "RL1547",
                ConstraintViolationError,
                expected=entry,
                size=size,
                source=leaf.size_source(dim),
            )
        if isinstance(entry, Dim) and (size - entry.offset) % entry.factor:
            refuse(
                "RL1544",
                UserErrorType.CONSTRAINT_VIOLATION,
                dim=dim,
                size=size,
                form=entry.__name__,
                root=entry.root.__name__,
            )

    def symbolic_integer(self, leaf: Leaf) -> Any:
        number = self.env.create_unspecified_symint_and_symbol(
            leaf.value, ConstantSource(leaf.source), DimDynamic.DYNAMIC
        )
        assert isinstance(leaf.spec, DimHint)
        # Rules of ops take it for a size; what a module asks of it is a guard.
        self.env.facts.size_like.add(expression(number))
        self.declare(leaf.source, f"inputs{leaf.path}", leaf.spec, leaf.value, expression(number))
        return number

    # ------------------------------------------------------------ declarations

    def declare(self, source: str, path: str, entry: Entry, size: int, expr: Expr) -> None:
        declaration = self.declaration
        if isinstance(entry, DimHint):
            role = Role.AUTO if entry.type is DimHintType.AUTO else Role.DYNAMIC
            dim = DeclaredDim(
                source,
                path,
                size,
                role,
                expr,
                lower=0 if entry.min is None else entry.min,
                upper=int_oo if entry.max is None else entry.max,
            )
            declaration.dims.append(dim)
            return
        assert isinstance(entry, Dim)
        name = entry.root.__name__
        self.dims.setdefault(name, entry.root)
        declaration.dims.append(
            DeclaredDim(
                source,
                path,
                size,
                Role.NAMED,
                expr,
                entry.__name__,
                name,
                entry.factor,
                entry.offset,
                entry.min,
                entry.max,
            )
        )

    def relate(self) -> None:
        """Makes what was declared known to the environment."""
        if not self.declaration.dims:
            return
        for name in self.dims:
            root = self.declaration.roots[name] = self.root(name)
            least = self.declaration.least_dim(name).expr
            if root.expr.is_Symbol and least.is_Symbol:
                self.env.ranked_as[root.expr] = least  # type: ignore[index,assignment]
        facts = self.env.facts
        for dim in self.declaration.dims:
            if not dim.root:
                continue
            root = self.declaration.roots[dim.root]
            self.check_example(dim, root)
            value = dim.factor * root.expr + dim.offset
            if dim.expr.is_Symbol and dim.expr != value:
                facts.substitute(dim.expr, value)
            elif root.expr.is_Symbol and dim.expr.is_Integer:
                # A size of 0 or 1 is itself: its root is a number, too.
                facts.substitute(root.expr, ex.Integer(root.value))
        self.declaration.domains.update(facts.ranges)

    def check_example(self, dim: DeclaredDim, root: Root) -> None:
        if dim.factor * root.value + dim.offset == dim.size:
            return
        if dim.name == root.name:
            refuse(
                "RL1546",
                UserErrorType.CONSTRAINT_VIOLATION,
                source=dim.source,
                size=dim.size,
                other=root.source,
                expected=root.value,
            )
        refuse(
            "RL1545",
            UserErrorType.CONSTRAINT_VIOLATION,
            source=dim.source,
            form=dim.name,
            root=root.name,
            value=root.value,
            size=dim.size,
        )

    def root(self, name: str) -> Root:
        """A root: the first dimension that is exactly it, or a symbol of its own."""
        declared = self.dims[name]
        dims = list(self.declaration.dims_of(name))
        for dim in dims:
            if dim.name == name:
                return Root(name, declared.min, declared.max, dim.size, dim.expr, source=dim.source)
        value = (dims[0].size - dims[0].offset) // dims[0].factor
        symbol = self.env.create_symbol(
            value,
            ConstantSource(name),
            DimDynamic.DYNAMIC,
            StrictMinMaxConstraint(ValueRanges(declared.min, declared.max)),
            do_not_specialize_zero_one=True,
        )
        return Root(name, declared.min, declared.max, value, symbol)


def varies(entry: Entry) -> bool:
    if isinstance(entry, DimHint):
        return entry.type is not DimHintType.STATIC
    return isinstance(entry, Dim)


def expression(number: Any) -> Expr:
    return number.node.expr if isinstance(number, SymInt) else ex.Integer(int(number))
