"""The text of what does not fit between declared and found sizes, and of what would fit.

torch's words and order: first what is violated, then what had to be made constant, then fixes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.base.errors import fail
from rushlight.symbolic.constraints import DeclaredDim, Role, readers
from rushlight.symbolic.errors import ConstraintViolationError
from rushlight.symbolic.guards import python_text
from rushlight.symbolic.ranges import ValueRanges, int_oo
from rushlight.symbolic.solving import affine, traced

if TYPE_CHECKING:
    from rushlight.symbolic.constraints import Root
    from rushlight.symbolic.protocols import Expr
    from rushlight.symbolic.solving import Solver

MORE = 'For more information, run with TORCH_LOGS="+dynamic".'


def raise_violations(solver: Solver) -> None:
    """Raises the error of a comparison that found something; returns where all fits."""
    conflicts = [text for dim in solver.declaration.dims if (text := conflict(solver, dim))]
    if conflicts:
        fail("RL1551", ValueError, conflicts="\n".join(conflicts))
    report = Report(solver)
    report.add_constants()
    report.add_relations()
    report.add_guards()
    if report.bullets or solver.specialised:
        raise ConstraintViolationError(report.text())


def conflict(solver: Solver, dim: DeclaredDim) -> str | None:
    """What speaks against the bounds of a dim without a name."""
    if dim.role is Role.NAMED:
        return None
    inferred = solver.env.facts.bound(solver.env.replace(dim.expr))
    bounds = [None if dim.lower == 0 else dim.lower, None if dim.upper == int_oo else dim.upper]
    if max(inferred.lower, dim.lower) > min(inferred.upper, dim.upper):
        return (
            f"- Received user-specified min/max range of [{bounds[0]}, {bounds[1]}], conflicting "
            f"with the inferred min/max range of [{inferred.lower}, {inferred.upper}], "
            f"for {dim.path}."
        )
    if dim.role is Role.DYNAMIC and dim.expr.is_Integer:
        return (
            f"- Received user-specified dim hint Dim.DYNAMIC(min={bounds[0]}, max={bounds[1]}), "
            f"but export 0/1 specialized due to hint of {dim.size} for dimension {dim.path}."
        )
    return None


class Report:
    """The parts of one message."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.declaration = solver.declaration
        self.readers = readers(solver.declaration)
        self.bullets: list[str] = []
        self.names: set[str] = set()

    def add(self, name: str, text: str) -> None:
        self.names.add(name)
        self.bullets.append(f"  - {text}")

    # ------------------------------------------------------------ what is violated

    def add_constants(self) -> None:
        """Dims that may vary and turned out to be one number."""
        for dim in self.declaration.dims:
            expr = traced(self.solver.env, dim.expr)
            if dim.role is Role.DYNAMIC and expr.is_Integer:
                self.add(
                    dim.label,
                    f"You marked {dim.label} as dynamic but your code specialized it to be a "
                    f"constant ({expr}). If you're using mark_dynamic, either remove it or use "
                    f"maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either "
                    f"Dim.STATIC or Dim.AUTO.",
                )
        for name, root in self.declaration.roots.items():
            expr = traced(self.solver.env, root.expr)
            if expr.is_Integer and name not in self.solver.specialised:
                self.add(
                    name,
                    f"Not all values of {self.declaration.display(name)} in the specified range"
                    f"{self.range_text(root)} are valid because {name} was inferred to be a "
                    f"constant ({expr}).",
                )

    def add_relations(self) -> None:
        """Roots that turned out to follow from others."""
        solver = self.solver
        for name, root in self.declaration.roots.items():
            form = affine(traced(solver.env, root.expr))
            if form is None or form.symbol is None or form.symbol == root.expr:
                continue
            other = solver.owners.get(form.symbol)
            if other is None:
                continue
            display = self.declaration.display(name)
            least = self.declaration.least_dim(other)
            base = least.display
            are_dims = bool(root.source) and least.name == other
            if form.factor == 1 and form.offset == 0 and are_dims:
                self.add(name, f"The values of {display} and {base} must always be equal.")
                continue
            relation = written(form.factor, other, form.offset)
            self.add(
                name,
                f"The values of {display} must always be related to the values of {base} "
                f"by {name} = {relation}.",
            )
        for condition, name in solver.shared.items():
            self.add(
                name,
                f"The values of {self.shown(name)} must always satisfy the generated guard "
                f"{self.guard_text(condition)}.",
            )

    def add_guards(self) -> None:
        """Conditions that exclude declared values; bounds of one root are one condition."""
        bounded: dict[str, list[Expr]] = {}
        for condition, name in self.solver.violated.items():
            if self.solver.is_range(condition) and name in self.declaration.roots:
                bounded.setdefault(name, []).append(condition)
                continue
            self.add(name, f"{self.not_all(name)} {self.guard_text(condition)}.")
        for name, conditions in bounded.items():
            self.add(name, f"{self.not_all(name)} {self.bounds_text(name, conditions)}")

    def not_all(self, name: str) -> str:
        root = self.declaration.roots.get(name)
        range_ = "" if root is None else self.range_text(root)
        return (
            f"Not all values of {self.shown(name)} in the specified range{range_} satisfy the "
            f"generated guard"
        )

    def shown(self, name: str) -> str:
        return self.declaration.display(name) if name in self.declaration.roots else name

    def guard_text(self, condition: Expr) -> str:
        return python_text(condition, lambda symbol: self.readers.get(symbol, str(symbol)))  # type: ignore[call-overload]

    def bounds_text(self, name: str, conditions: list[Expr]) -> str:
        root = self.declaration.roots[name]
        range_ = self.declaration.domains[root.expr]
        facts = self.solver.facts()
        facts.ranges = {root.expr: range_}
        for condition in conditions:
            facts.learn(condition)
        found = facts.ranges[root.expr]
        reader = self.readers[root.expr]  # type: ignore[index]
        lower = f"{found.lower} <= {reader}"
        return lower if found.upper == int_oo else f"{lower} and {reader} <= {found.upper}"

    def range_text(self, root: Root) -> str:
        """The bounds that were declared, with a blank before them; empty for none."""
        parts = [root.name]
        if root.lower > 0:
            parts.insert(0, str(root.lower))
        if root.upper != int_oo:
            parts.append(str(root.upper))
        return " " + " <= ".join(parts) if len(parts) > 1 else ""

    # ------------------------------------------------------------ the message

    def text(self) -> str:
        result = ""
        if self.bullets:
            result = f"Constraints violated ({', '.join(sorted(self.names))})! {MORE}\n"
            result += "\n".join(self.bullets) + "\n"
        specialised = self.solver.specialised
        if specialised:
            result += (
                f"Specializations unexpectedly required ({', '.join(sorted(specialised))})! "
                f"{MORE}\n"
            )
            for dim in sorted(self.declaration.dims, key=lambda dim: dim.source):
                if dim.root in specialised:
                    value = dim.factor * specialised[dim.root] + dim.offset
                    result += (
                        f"  - {dim.display} must be specialized to {value} because the guards "
                        f"generated for it are too complex.\n"
                    )
        fixes = [*self.range_fixes(), *self.value_fixes()]
        if fixes:
            result += "\nSuggested fixes:\n  " + "\n  ".join(fixes)
        return result

    # ------------------------------------------------------------ fixes

    def order(self, name: str) -> tuple[bool, str]:
        root = self.declaration.roots.get(name)
        return root is None, name if root is None else root.source or name

    def range_fixes(self) -> list[str]:
        """A line for each root that keeps a range, where it is another than declared."""
        solver = self.solver
        lines: dict[str, str] = {}
        for symbol, domain in solver.domains.items():
            if symbol in solver.new_roots:
                name = solver.new_roots[symbol]
                lines[name] = dim_call(name, domain)
            elif symbol in solver.owners:
                name = solver.owners[symbol]
                least = self.least_needed(symbol)
                declared = self.declaration.roots[name].lower
                if domain != solver.initial[symbol] or declared < least:
                    lines[name] = dim_call(name, domain, least)
        return [lines[name] for name in sorted(lines, key=self.order)]

    def least_needed(self, symbol: Any) -> int:
        """The least value of a root for which no suggested dim is negative."""
        least = 0
        for root in self.declaration.roots.values():
            form = affine(self.solver.found(root.expr))
            if form is not None and form.symbol == symbol:
                for dim in self.declaration.dims_of(root.name):
                    factor, offset = dim.factor * form.factor, dim.factor * form.offset + dim.offset
                    least = max(least, -(offset // factor))
        return least

    def value_fixes(self) -> list[str]:
        """A line for each root that is a number or follows from another."""
        solver = self.solver
        lines: dict[str, str] = {}
        for name, root in self.declaration.roots.items():
            form = affine(solver.found(root.expr))
            if form is None or form.symbol == root.expr:
                continue
            if form.symbol is None:
                lines[name] = f"{name} = {form.offset}"
                continue
            base = solver.owners.get(form.symbol) or solver.new_roots.get(form.symbol)
            if base is not None:
                lines[name] = f"{name} = {written(form.factor, base, form.offset)}"
        return [lines[name] for name in sorted(lines, key=self.order)]


def written(factor: int, name: str, offset: int) -> str:
    text = name if factor == 1 else f"{factor}*{name}"
    return text if offset == 0 else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"


def dim_call(name: str, domain: ValueRanges, least: int = 0) -> str:
    """The line that declares a root. A minimum of 2 is what tracing takes for granted, but where
    dims that follow from the root would be negative below `least`."""
    parts = [f"'{name}'"]
    if domain.lower != 2 or least:
        parts.append(f"min={domain.lower}")
    if not math.isinf(domain.upper):
        parts.append(f"max={domain.upper}")
    return f"{name} = Dim({', '.join(parts)})"
