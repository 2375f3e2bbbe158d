"""Guards as text over example values, and whether one set of them implies another.

With duck shaping a symbol is told by its example value: `d7` is the size that is 7 in the example,
in either framework. A guard is implied by others when no sizes satisfy those and violate it; sizes
are looked for among those near the constants that the guards name.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
TRIES = 600
NAMES: dict[str, Any] = {
    "Eq": lambda a, b: a == b,
    "Ne": lambda a, b: a != b,
    "Max": max,
    "Min": min,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "ToFloat": float,
    "TruncToInt": int,
    "FloorToInt": lambda a: int(a // 1),
    "CeilToInt": lambda a: -int(-a // 1),
    "Abs": abs,
    "True": True,
    "False": False,
}


def texts(env: Any) -> list[str]:
    """The guards of a shape environment, symbols named by their values in the example."""
    named = {
        symbol: type(symbol)(f"d{value}".replace("-", "m"), integer=True)
        for symbol, value in env.backed_var_to_val.items()
    }
    return sorted({str(guard.expr.xreplace(named)) for guard in env.guards})


def recorded(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def compiled(text: str) -> Callable[[dict[str, int]], bool]:
    code = compile(text.replace("~", "not "), "<guard>", "eval")

    def holds(sizes: dict[str, int]) -> bool:
        try:
            return bool(eval(code, {"__builtins__": {}}, {**NAMES, **sizes}))
        except ZeroDivisionError:
            return False

    return holds


def not_implied(ours: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """Those of our guards that sizes violate which satisfy theirs."""
    theirs = list(theirs)
    extra = [text for text in ours if text not in theirs]
    if not extra:
        return []
    everything = " ".join([*extra, *theirs])
    symbols = sorted(set(re.findall(r"\bd\d+\b", everything)))
    constants = {int(text) for text in re.findall(r"(?<![d\w])\d+\b", everything)}
    near = sorted({n + step for n in constants for step in (-1, 0, 1) if 2 <= n + step < 200})
    conditions = [compiled(text) for text in theirs]
    tested = {text: compiled(text) for text in extra}
    found: dict[str, None] = {}
    chance = random.Random(0)
    for _ in range(TRIES):
        kept = chance.random()
        sizes = {
            symbol: int(symbol[1:])
            if chance.random() < kept
            else chance.choice(near)
            if near and chance.random() < 0.4
            else chance.randint(2, 40)
            for symbol in symbols
        }
        if all(condition(sizes) for condition in conditions):
            for text, holds in tested.items():
                if text not in found and not holds(sizes):
                    found[text] = None
    return list(found)
