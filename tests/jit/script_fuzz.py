"""Random typed programs that Python and TorchScript must agree on.

A program is source text: a function of ints, floats, bools, strings, lists, dicts, optionals and
tensors, with branches, loops, early exits and refinement. What the two languages mean differently
is not made: numbers stay small, variables keep their types, and a name is used where it is set.
"""

from __future__ import annotations

import random

HEADER = "from typing import Dict, List, Optional, Tuple\nimport rushlight as torch\n"
TYPES = ("int", "float", "bool", "str", "ints", "floats", "dict", "optional", "tensor", "pair")
ANNOTATIONS = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ints": "List[int]",
    "floats": "List[float]",
    "dict": "Dict[str, int]",
    "optional": "Optional[int]",
    "tensor": "torch.Tensor",
    "pair": "Tuple[int, float]",
}


class Program:
    """Writes one function, statement by statement."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.made = 0
        self.loops = 0
        # Names in sight, by type; an inner block adds a layer.
        self.scopes: list[dict[str, str]] = [{}]
        self.results: dict[str, str] = {}
        # Code after a guard knows what the guard has asked: those do not ask for None.
        self.is_guard = False

    def source(self) -> str:
        for number in range(self.random.randint(2, 5)):
            kind = self.random.choice(TYPES)
            self.scopes[0][f"a{number}"] = kind
        for kind in ("int", "float", "tensor"):
            self.scopes[0][f"in_{kind}"] = kind
        head = ", ".join([f"{n}: {ANNOTATIONS[k]}" for n, k in self.scopes[0].items()])
        for number, kind in enumerate(self.random.sample(TYPES, 3)):
            name = f"r{number}"
            self.write(f"{name}: {ANNOTATIONS[kind]} = {self.expr(kind, 1)}")
            self.scopes[0][name] = kind
            self.results[name] = kind
        self.block(self.random.randint(4, 9), 0)
        self.write(f"return {self.result()}")
        helper = "def helper(n: int, x: float = 1.5) -> float:\n    if n > 2:\n        return x\n    return n + x\n\n\n"  # noqa: E501
        return HEADER + "\n\n" + helper + f"def program({head}):\n" + "\n".join(self.lines) + "\n"

    def result(self) -> str:
        return "(" + ", ".join([*self.results, "in_tensor"]) + ")"

    def write(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str = "v") -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def names(self, kind: str) -> list[str]:
        found: dict[str, str] = {}
        for scope in self.scopes:
            found.update(scope)
        return [name for name, each in found.items() if each == kind]

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def choose(self, *choices) -> str:
        """One of the texts, of which only that one is made."""
        return self.random.choice(choices)()

    # -- expressions

    def expr(self, kind: str, depth: int = 0) -> str:
        """An expression of a type; deeper ones are simpler."""
        known = self.names(kind)
        if depth > 3 or (known and self.random.random() < 0.3):
            if known:
                return self.random.choice(known)
            return self.literal(kind)
        made: str = getattr(self, f"expr_{kind}")(depth + 1)
        return made

    def literal(self, kind: str) -> str:
        number = self.random.randint(-9, 9)
        if kind == "int":
            return str(number)
        if kind == "float":
            return str(number / 2)
        if kind == "bool":
            return self.pick("True", "False")
        if kind == "str":
            return repr(self.pick("a", "bc", "", "hello", "x,y"))
        if kind == "ints":
            return str([self.random.randint(0, 9) for _ in range(self.random.randint(1, 3))])
        if kind == "floats":
            return str([self.random.randint(0, 9) / 4 for _ in range(self.random.randint(1, 3))])
        if kind == "dict":
            return self.pick('{"a": 1}', '{"b": 2, "c": -3}')
        if kind == "optional":
            return self.pick(str(number), f"torch.jit.annotate(Optional[int], {number})")
        if kind == "pair":
            return f"({number}, {number / 4})"
        return f"torch.full([2], {number / 2}, dtype=torch.float64)"

    def expr_int(self, d: int) -> str:
        a, b = self.expr("int", d), self.expr("int", d)
        lists = self.expr("ints", d + 1)
        return self.choose(
            lambda: f"({a} + {b})",
            lambda: f"({a} - {b})",
            lambda: f"(({a} * {b}) % 997)",
            lambda: f"({a} // (abs({b}) + 1))",
            lambda: f"({a} % (abs({b}) + 1))",
            lambda: f"(-{a})" if not a.startswith("-") else f"(0 - {a})",
            lambda: f"abs({a})",
            lambda: f"max({a}, {b})",
            lambda: f"min({a}, {b})",
            lambda: f"len({lists})",
            lambda: f"sum({lists})",
            lambda: f"({lists} + [7])[abs({a}) % (len({lists}) + 1)]",
            lambda: f"int({self.expr('float', d)})",
            lambda: f"({a} if {self.expr('bool', d)} else {b})",
            lambda: f"len({self.expr('str', d)})",
            lambda: f"({a} & {b})",
            lambda: f"({a} | {b})",
            lambda: f"{self.expr('dict', d + 1)}.get({self.expr('str', d + 1)}, {a})",
            lambda: f"{self.expr('pair', d + 1)}[0]",
            lambda: (
                f"{self.random.choice(self.names('tensor'))}.size(0)" if self.names("tensor") else a
            ),
            lambda: f"({a} ^ {b})",
        )

    def expr_float(self, d: int) -> str:
        a, b = self.expr("float", d), self.expr("float", d)
        n = self.expr("int", d)
        return self.choose(
            lambda: f"({a} + {b})",
            lambda: f"({a} - {n})",
            lambda: f"({a} * 0.5)",
            lambda: f"({n} / (abs({self.expr('int', d)}) + 1))",
            lambda: f"float({n})",
            lambda: f"max({a}, {b})",
            lambda: f"abs({a})",
            lambda: f"({a} if {self.expr('bool', d)} else {b})",
            lambda: f"float(sum({self.expr('floats', d + 1)}))",
            lambda: f"helper({n}, {a})",
            lambda: f"helper({n})",
            lambda: f"{self.expr('pair', d + 1)}[1]",
            lambda: f"float({self.expr('tensor', d + 1)}.sum())",
        )

    def expr_bool(self, d: int) -> str:
        op = self.pick("<", "<=", ">", ">=", "==", "!=")
        kind = self.pick("int", "float")
        return self.choose(
            lambda: f"({self.expr(kind, d)} {op} {self.expr(kind, d)})",
            lambda: f"({self.expr('bool', d)} and {self.expr('bool', d)})",
            lambda: f"({self.expr('bool', d)} or {self.expr('bool', d)})",
            lambda: f"(not {self.expr('bool', d)})",
            lambda: f"({self.expr('int', d)} in {self.expr('ints', d)})",
            lambda: f"({self.expr('str', d)} == {self.expr('str', d)})",
            lambda: f"({self.expr('str', d)} in {self.expr('dict', d)})",
            lambda: f"(0 < {self.expr('int', d)} < {self.expr('int', d)})",
            lambda: f"({self.expr('ints', d)} == {self.expr('ints', d)})",
            lambda: f"bool({self.expr('tensor', d)}.sum() > 0)",
            lambda: (
                f"({self.random.choice(self.names('optional'))} is None)"
                if self.names("optional") and not self.is_guard
                else "True"
            ),
        )

    def expr_str(self, d: int) -> str:
        a, b = self.expr("str", d), self.expr("str", d)
        return self.choose(
            lambda: f"({a} + {b})",
            lambda: f"str({self.expr('int', d)})",
            lambda: f"({a}).upper()",
            lambda: f"({a}).replace('a', 'b')",
            lambda: f"({a})[:2]",
            lambda: f"({a})[::-1]",
            lambda: f"f'{{{self.random.choice(self.names('int') or ['7'])}}}!'",
            lambda: f"'%d-%s' % ({self.expr('int', d)}, {a})",
            lambda: f"','.join(({a}).split('b'))",
            lambda: f"({a} if {self.expr('bool', d)} else {b})",
            lambda: f"({a}).strip('a')",
        )

    def expr_ints(self, d: int) -> str:
        a, b = self.expr("ints", d), self.expr("ints", d)
        name = self.fresh("c")
        return self.choose(
            lambda: f"({a} + {b})",
            lambda: f"({a})[1:]",
            lambda: f"({a})[::2]",
            lambda: f"[{self.expr('int', d)}, {self.expr('int', d)}]",
            lambda: f"[{name} * 2 for {name} in {a}]",
            lambda: f"[{name} for {name} in range({self.random.randint(0, 4)})]",
            lambda: f"sorted({a})",
            lambda: f"list({a})",
            lambda: f"({a} if {self.expr('bool', d)} else {b})",
            lambda: f"list({self.expr('dict', d)}.values())",
            lambda: f"[len({name}) for {name} in ({self.expr('str', d)}).split(',')]",
        )

    def expr_floats(self, d: int) -> str:
        a = self.expr("floats", d)
        name = self.fresh("c")
        return self.choose(
            lambda: f"[{self.expr('float', d)}, {self.expr('float', d)}]",
            lambda: f"({a})[:2]",
            lambda: f"[{name} * 0.5 for {name} in {a}]",
            lambda: f"[float({name}) for {name} in {self.expr('ints', d)}]",
            lambda: f"({a} + [{self.expr('float', d)}])",
        )

    def expr_dict(self, d: int) -> str:
        name = self.fresh("c")
        return self.choose(
            lambda: f"{{'k': {self.expr('int', d)}}}",
            lambda: f"{{'k': {self.expr('int', d)}, {self.expr('str', d)}: {self.expr('int', d)}}}",
            lambda: f"{{str({name}): {name} for {name} in {self.expr('ints', d)}}}",
            lambda: (
                f"dict({self.random.choice(self.names('dict'))})"
                if self.names("dict")
                else "{'z': 1}"
            ),
        )

    def expr_optional(self, d: int) -> str:
        condition = self.expr("bool", d)
        return self.choose(
            lambda: f"torch.jit.annotate(Optional[int], {self.expr('int', d)})",
            lambda: f"({self.expr('int', d)} if {condition} else None)",
            lambda: "torch.jit.annotate(Optional[int], None)",
            lambda: f"{self.expr('dict', d)}.get({self.expr('str', d)})",
        )

    def expr_pair(self, d: int) -> str:
        return f"({self.expr('int', d)}, {self.expr('float', d)})"

    def expr_tensor(self, d: int) -> str:
        a, b = self.expr("tensor", d), self.expr("tensor", d)
        return self.choose(
            lambda: f"({a} + {b})",
            lambda: f"({a} - {self.expr('float', d)})",
            lambda: f"({self.expr('int', d)} + {a})",
            lambda: f"({a} * 0.5)",
            lambda: f"({a}).clamp(-3, 3)",
            lambda: f"torch.relu({a})",
            lambda: f"torch.max({a}, {b})",
            lambda: f"torch.stack([{a}, {b}]).sum(0)",
            lambda: f"torch.cat([{a}, {b}])[:2]",
            lambda: f"torch.where({a} > 0, {a}, {b})",
            lambda: f"({a})[[1, 0]]",
            lambda: f"({a} if {self.expr('bool', d)} else {b})",
            lambda: f"torch.full([2], {self.expr('float', d)}, dtype=torch.float64)",
            lambda: f"(1.5 - {a})",
            lambda: f"({a}).clone()",
        )

    # -- statements

    def block(self, count: int, depth: int) -> None:
        """Statements in a block of their own; whether the last one leaves it."""
        self.scopes.append({})
        for _ in range(count):
            if self.statement(depth):
                break
        self.scopes.pop()

    def inner(self, depth: int) -> None:
        self.depth += 1
        before = len(self.lines)
        self.block(self.random.randint(1, 3), depth + 1)
        if len(self.lines) == before:
            self.write("pass")
        self.depth -= 1

    def statement(self, depth: int) -> bool:
        kinds = ["new", "assign", "assign", "augment", "method"]
        if depth < 3:
            kinds += ["if", "if", "for", "while", "none", "each"]
        if self.loops and self.random.random() < 0.2:
            self.write(f"if {self.guard()}:")
            self.depth += 1
            self.write(self.pick("break", "continue"))
            self.depth -= 1
            return False
        if depth and self.random.random() < 0.05:
            self.write(f"if {self.guard()}:")
            self.depth += 1
            self.write(f"return {self.result()}")
            self.depth -= 1
            return False
        getattr(self, f"stmt_{self.random.choice(kinds)}")(depth)
        return False

    def guard(self) -> str:
        self.is_guard = True
        text = self.expr("bool", 1)
        self.is_guard = False
        return text

    def target(self) -> tuple[str, str]:
        """A variable that may be set: not an input that is a list, and no loop variable."""
        found: dict[str, str] = {}
        for scope in self.scopes:
            found.update({n: k for n, k in scope.items() if n[0] in "rv"})
        # An optional that is known not to be None keeps that type for as long.
        for scope in self.scopes:
            for name in [n for n, k in scope.items() if k == "optional" and found.get(n) == "int"]:
                del found[name]
        name = self.random.choice(sorted(found))
        return name, found[name]

    def stmt_new(self, depth: int) -> None:
        name, kind = self.fresh(), self.random.choice(TYPES)
        value = self.expr(kind)
        self.write(f"{name}: {ANNOTATIONS[kind]} = {value}")
        self.scopes[-1][name] = kind

    def stmt_assign(self, depth: int) -> None:
        name, kind = self.target()
        if kind == "optional":
            # An optional that is set to an int would be an int from here on.
            word = self.pick("k", "j")
            self.write(f"{name} = {{'k': {self.expr('int', 1)}}}.get('{word}')")
            return
        self.write(f"{name} = {self.expr(kind)}")

    def stmt_augment(self, depth: int) -> None:
        name, kind = self.target()
        if kind == "int":
            self.write(f"{name} += {self.expr('int', 2)}")
            self.write(f"{name} = {name} % 997")
        elif kind == "float":
            self.write(f"{name} -= {self.expr('float', 2)}")
        elif kind == "str":
            self.write(f"{name} += {self.expr('str', 3)}")
            self.write(f"{name} = {name}[:20]")
        elif kind == "tensor":
            self.write(f"{name} = {name}.clone()")
            self.write(f"{name} += {self.expr('tensor', 2)}")
        elif kind == "dict":
            self.write(f"{name}[{self.expr('str', 2)}] = {self.expr('int', 2)}")
        elif kind == "ints":
            self.write(f"{name} = {name}[:6] + [{self.expr('int', 2)}]")

    def stmt_method(self, depth: int) -> None:
        lists = [name for name in self.names("ints") if name[0] in "rv"]
        if not lists:
            return
        name = self.random.choice(lists)
        if self.random.random() < 0.5:
            self.write(f"{name} = {name}[:8]")
            self.write(f"{name}.append({self.expr('int', 2)})")
        else:
            self.write(f"if len({name}) > 1:")
            self.depth += 1
            call = self.pick("pop()", "reverse()", "sort()", "insert(0, 3)", "extend([1, 2])")
            self.write(f"{name}.{call}")
            self.depth -= 1

    def stmt_if(self, depth: int) -> None:
        self.write(f"if {self.guard()}:")
        self.inner(depth)
        for _ in range(self.random.randint(0, 1)):
            self.write(f"elif {self.guard()}:")
            self.inner(depth)
        if self.random.random() < 0.6:
            self.write("else:")
            self.inner(depth)

    def stmt_for(self, depth: int) -> None:
        name = self.fresh("i")
        bounds = self.pick("3", "1, 6, 2", "4, 0, -1", f"abs({self.expr('int', 2)}) % 4")
        self.write(f"for {name} in range({bounds}):")
        self.loop(depth, {name: "int"})

    def stmt_each(self, depth: int) -> None:
        name, other = self.fresh("i"), self.fresh("i")
        choice = self.random.randint(0, 3)
        if choice == 0:
            self.write(f"for {name} in list({self.expr('ints', 2)}):")
            self.loop(depth, {name: "int"})
        elif choice == 1:
            self.write(f"for {name}, {other} in enumerate(list({self.expr('ints', 2)})):")
            self.loop(depth, {name: "int", other: "int"})
        elif choice == 2:
            self.write(f"for {name}, {other} in dict({self.expr('dict', 2)}).items():")
            self.loop(depth, {name: "str", other: "int"})
        else:
            left, right = self.expr("ints", 2), self.expr("floats", 2)
            self.write(f"for {name}, {other} in zip(list({left}), list({right})):")
            self.loop(depth, {name: "int", other: "float"})

    def stmt_while(self, depth: int) -> None:
        name = self.fresh("i")
        self.write(f"{name} = 0")
        self.write(f"while {name} < {self.random.randint(1, 4)} and {self.guard()}:")
        self.depth += 1
        self.write(f"{name} += 1")
        self.depth -= 1
        self.loop(depth, {name: "int"})

    def loop(self, depth: int, names: dict[str, str]) -> None:
        self.loops += 1
        self.scopes.append(names)
        self.inner(depth)
        self.scopes.pop()
        self.loops -= 1

    def stmt_none(self, depth: int) -> None:
        found = self.names("optional")
        if not found:
            return
        name = self.random.choice(found)
        form = self.random.randint(0, 2)
        if form == 0:
            self.write(f"if {name} is not None:")
        elif form == 1:
            self.write(f"if {name} is not None and {name} > {self.expr('int', 2)}:")
        else:
            self.write(f"if {name} is None:")
            self.depth += 1
            self.write("pass")
            self.depth -= 1
            self.write("else:")
        self.scopes.append({name: "int"})
        self.inner(depth)
        self.scopes.pop()


def arguments(source: str, seed: int, torch) -> dict[str, object]:
    """Values for the parameters of a program, by their annotations."""
    chosen = random.Random(seed * 7 + 1)
    head = source.split("def program(")[1].split("):\n")[0]
    values: dict[str, object] = {}
    for part in head.split(", "):
        if ": " not in part:
            continue
        name, _, annotation = part.partition(": ")
        kind = next((k for k, a in ANNOTATIONS.items() if a.split(",")[0] == annotation), "")
        number = chosen.randint(-9, 9)
        values[name] = {
            "int": number,
            "float": number / 4,
            "bool": number > 0,
            "str": chosen.choice(["", "ab", "hello,a"]),
            "ints": [chosen.randint(-5, 5) for _ in range(chosen.randint(1, 4))],
            "floats": [chosen.randint(-5, 5) / 2 for _ in range(chosen.randint(1, 3))],
            "dict": {"a": number, "q": 2},
            "optional": None if number > 3 else number,
            "tensor": torch.tensor([number / 2, -1.5], dtype=torch.float64),
            "pair": (number, 0.25),
        }[kind]
    return values
