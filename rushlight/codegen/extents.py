"""Sizes that a call tells: integer polynomials over atoms, which generated code has in variables.

An `Extent` is a SymInt, so that shape rules compute with it. Equal polynomials of one `Extents` are
one object. It answers only what holds for every call: `==` is true where the polynomials are the
same (sizes that may or may not be equal are taken for different, as memory of unknown sizes
is), and an order that only a call can tell is refused, so that the op runs as it is. Choices
that only cost time look at `hint`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from rushlight.codegen.expressions import Inexpressible
from rushlight.symbolic.numbers import SymInt, SymNumber

__all__ = ["Atom", "Extent", "Extents", "hint_of", "is_static", "was_one"]

# What a size is taken for that depends on data.
LARGE = 4096

# The product of atoms, in the order of their numbers.
Monomial = tuple["Atom", ...]


class Atom:
    """A number that a variable of the generated function holds."""

    __slots__ = ("hint", "least", "name", "number")

    def __init__(self, number: int, name: str, hint: int, least: int | None) -> None:
        self.number = number
        self.name = name
        self.hint = hint
        # What it is at least, where that is known.
        self.least = least

    def __repr__(self) -> str:
        return self.name


def is_static(numbers: Iterable[Any]) -> bool:
    return not any([isinstance(number, Extent) for number in numbers])


def hint_of(number: int | Extent) -> int:
    """A size as it was in the example."""
    return number.hint if isinstance(number, Extent) else number


def was_one(number: int | Extent) -> bool:
    """Whether a size was 1 in the example, which guards then say of every call."""
    if not isinstance(number, Extent):
        return number == 1
    return number.hint == 1 and all(atom.hint != LARGE for atom in number.atoms())


def refuse(what: str) -> NoReturn:
    raise Inexpressible(f"{what} of sizes that a call tells")


class Hint:
    """What framework code may ask of a symbolic number's node; nothing here makes a guard."""

    __slots__ = ("hint",)

    def __init__(self, hint: int) -> None:
        self.hint = hint

    def __getattr__(self, name: str) -> Any:
        refuse(f"`{name}`")

    def has_hint(self) -> bool:
        return True

    def require_hint(self, fallback: float | None = None) -> int:
        return self.hint

    def is_constant(self) -> bool:
        return False


class Extent(SymInt):
    """A polynomial that is no constant. Made by `Extents` alone."""

    __slots__ = ("family", "terms")

    def __init__(self, family: Extents, terms: dict[Monomial, int]) -> None:
        self.family = family
        self.terms = terms
        hint = sum([c * math.prod([a.hint for a in atoms]) for atoms, c in terms.items()])
        super().__init__(Hint(hint))  # type: ignore[arg-type]

    @property
    def hint(self) -> int:
        return self.node.hint  # type: ignore[return-value]

    @property
    def least(self) -> int | None:
        """A number that it is never below, where one is known."""
        total = 0
        for atoms, factor in self.terms.items():
            ends = [atom.least for atom in atoms]
            if atoms and (factor < 0 or any([end is None or end < 0 for end in ends])):
                return None
            total += factor * math.prod([end or 0 for end in ends])
        return total

    def atoms(self) -> list[Atom]:
        """The atoms that it mentions, by number."""
        found = {atom for atoms in self.terms for atom in atoms}
        return sorted(found, key=lambda atom: atom.number)

    # -- arithmetic --------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self.family.added(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.family.added(self, other, -1)

    def __rsub__(self, other: Any) -> Any:
        return self.family.added(-self, other, 1)

    def __mul__(self, other: Any) -> Any:
        return self.family.multiplied(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self.family.multiplied(self, -1)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __floordiv__(self, other: Any) -> Any:
        return self.family.divided(self, other)[0]

    def __mod__(self, other: Any) -> Any:
        return self.family.divided(self, other)[1]

    def __pow__(self, other: Any) -> Any:
        if type(other) is not int or other < 0:
            refuse("a power")
        return math.prod([self] * other)

    def unsupported(self, *args: Any) -> NoReturn:
        refuse("a value")

    __rfloordiv__ = __rmod__ = __truediv__ = __rtruediv__ = __rpow__ = unsupported
    __floor__ = __ceil__ = __trunc__ = __int__ = __float__ = __complex__ = __index__ = unsupported

    # -- questions ---------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self) >> 4

    def __bool__(self) -> bool:
        return True

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        gap = self - other
        if isinstance(gap, int):
            return gap >= 0
        least = gap.least
        if least is not None and least >= 0:
            return True
        most = (-gap).least
        if most is None or most <= 0:
            refuse("an order")
        return False

    def __le__(self, other: Any) -> bool:
        return bool(self.family.added(-self, other, 1) >= 0)

    # -- text --------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        parts = []
        for atoms, factor in self.terms.items():
            names = "*".join([atom.name for atom in atoms])
            sign = "-" if factor < 0 else "+"
            number = abs(factor)
            body = names if number == 1 and names else f"{names}*{number}" if names else str(number)
            parts.append(f"{sign} {body}")
        text = " ".join(parts).removeprefix("+ ").replace("- ", "-", 1 if parts[0][0] == "-" else 0)
        return text if len(parts) == 1 and parts[0][0] == "+" else f"({text})"

    __str__ = __repr__


class Extents:
    """The sizes of one program. `variable` names a variable for what a text computes from
    atoms."""

    def __init__(self, variable: Callable[[str, list[Atom]], str]) -> None:
        self.variable = variable
        self.count = 0
        self.made: dict[Any, Extent] = {}
        # The atoms of symbols, and of what is no polynomial: expressions, (sign, left, right).
        self.known: dict[Any, Atom] = {}

    # -- making ------------------------------------------------------------------------------------

    def atom(self, key: Any, name: str, hint: int | None, least: int | None) -> Extent:
        """A variable of the generated function as a size; `key` is the expression it stands for."""
        self.count += 1
        atom = Atom(self.count, name, LARGE if hint is None else hint, least)
        self.known[key] = atom
        found = self.polynomial({(atom,): 1})
        assert isinstance(found, Extent)
        return found

    def polynomial(self, terms: dict[Monomial, int]) -> int | Extent:
        kept = {
            atoms: terms[atoms]
            for atoms in sorted(terms, key=lambda atoms: (-len(atoms), [a.number for a in atoms]))
            if terms[atoms]
        }
        if not kept:
            return 0
        if list(kept) == [()]:
            return kept[()]
        key = tuple(kept.items())
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = Extent(self, kept)
        return found

    def terms_of(self, number: Any) -> dict[Monomial, int]:
        if isinstance(number, Extent) and number.family is self:
            return number.terms
        if isinstance(number, int):
            return {(): int(number)}
        if isinstance(number, float) and number.is_integer():
            return {(): int(number)}
        refuse("arithmetic")

    def added(self, left: Any, right: Any, sign: int) -> Any:
        terms = dict(self.terms_of(left))
        for atoms, factor in self.terms_of(right).items():
            terms[atoms] = terms.get(atoms, 0) + sign * factor
        return self.polynomial(terms)

    def multiplied(self, left: Any, right: Any) -> Any:
        terms: dict[Monomial, int] = {}
        for first, one in self.terms_of(left).items():
            for second, other in self.terms_of(right).items():
                atoms = tuple(sorted((*first, *second), key=lambda atom: atom.number))
                terms[atoms] = terms.get(atoms, 0) + one * other
        return self.polynomial(terms)

    def divided(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Quotient and rest, as Python has them."""
        exact = self.exact_quotient(left, right)
        if exact is not None:
            return exact, 0
        if not right >= 1:
            refuse("a quotient")
        found = []
        for sign in ("//", "%"):
            key = (sign, left, right)
            known = self.known.get(key)
            if known is not None:
                found.append(self.polynomial({(known,): 1}))
                continue
            inside = [a for part in (left, right) if isinstance(part, Extent) for a in part.atoms()]
            low = left.least if isinstance(left, Extent) else left
            is_small = isinstance(right, int) and low is not None and sign == "//"
            least = low // right if is_small else 0 if sign == "%" else None
            sizes = (hint_of(left), hint_of(right))
            hint = sizes[0] // sizes[1] if sign == "//" else sizes[0] % sizes[1]
            name = self.variable(f"{left} {sign} {right}", inside)
            found.append(self.atom(key, name, hint, least))
        return found[0], found[1]

    def exact_quotient(self, left: Any, right: Any) -> Any:
        """The quotient where every term is a multiple of the divisor; else None."""
        divisor = self.terms_of(right)
        if len(divisor) != 1:
            return None
        ((below, number),) = divisor.items()
        terms: dict[Monomial, int] = {}
        for atoms, factor in self.terms_of(left).items():
            rest = list(atoms)
            for atom in below:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if not number or factor % number:
                return None
            terms[tuple(rest)] = factor // number
        return self.polynomial(terms)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, number: Any) -> Any:
        """A symbolic integer as a size. Raises `Inexpressible` where an atom is not known."""
        if not isinstance(number, SymNumber) or isinstance(number, Extent):
            return number
        return self.expression(number.node.expr, number.node.shape_env)

    def expression(self, expr: Any, env: Any) -> Any:
        from rushlight.symbolic import expressions as ex
        from rushlight.symbolic.guards import python_text

        # The guards of the program may leave one value: a size of 1 is one that is repeated.
        values = env.facts.bound(env.facts.replace(expr))
        if values.is_singleton() and not values.is_float:
            return int(values.lower)
        known = self.known.get(expr)
        if known is not None:
            return self.polynomial({(known,): 1})
        plain = ex.plain(expr)
        if plain is not None:
            return plain
        if expr.is_Symbol:
            refuse(f"the symbol {expr}")
        kind = expr.func
        if kind in (ex.Add, ex.Mul):
            parts = [self.expression(part, env) for part in expr.args]
            return sum(parts) if kind is ex.Add else math.prod(parts)
        if kind is ex.Pow and expr.args[1].is_Integer and expr.args[1] > 0:
            return self.expression(expr.args[0], env) ** int(expr.args[1])
        if kind in (ex.FloorDiv, ex.CleanDiv, ex.Mod):
            left, right = [self.expression(part, env) for part in expr.args]
            if isinstance(left, Extent) and right >= 1:
                return self.divided(left, right)[kind is ex.Mod]
        inside = []
        for symbol in sorted(expr.free_symbols, key=str):
            if symbol not in self.known:
                refuse(f"the symbol {symbol}")
            inside.append(self.known[symbol])
        text = python_text(expr, lambda symbol: self.known[symbol].name)
        return self.bind(expr, env, self.variable(text, inside))

    def bind(self, expr: Any, env: Any, name: str) -> Extent:
        """Let a variable stand for an expression."""
        lower = env.facts.bound(expr).lower
        least = int(lower) if math.isfinite(lower) else None
        return self.atom(expr, name, env.size_hint(expr, allow_none=True), least)
