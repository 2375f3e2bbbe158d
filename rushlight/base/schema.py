"""Operator schemas: the text that identifies an operator, and what can be read off it.

`Schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")` keeps the text and
parses it when a field is first read. Types and alias marks are immutable and shared.
Invariant: `str(schema)` is the canonical form, and parsing it gives an equal schema.
"""

from __future__ import annotations

from itertools import pairwise
from keyword import iskeyword
from threading import Lock
from typing import Any, NoReturn

from rushlight.base.errors import fail

# Type names whose printed Python-side name differs from their schema name.
PRINTED = {
    "SymInt": "int",
    "SymBool": "bool",
    "SymFloat": "float",
    "Scalar": "number",
    "ScalarType": "int",
    "Layout": "int",
    "MemoryFormat": "int",
}
BASE_KINDS = frozenset(
    (
        *("Tensor", "int", "float", "bool", "complex", "str", "Scalar", "number"),
        *("SymInt", "SymBool", "SymFloat", "ScalarType", "Layout", "MemoryFormat", "Device"),
        *("Generator", "Storage", "Stream", "QScheme", "Dimname", "Any", "NoneType", "Capsule"),
        *("AnyClassType", "AnyEnumType", "AnyListType", "AnyTupleType", "PyObject"),
    )
)
SYNONYMS = {"None": "NoneType", "DeviceIndex": "int"}
GENERIC_KINDS = frozenset({"Dict", "Future", "Await", "RRef", "Union"})
# Defaults written as words; they stand for the numbers of the enumerations they come from.
NAMED_DEFAULTS = {
    "Mean": 1,
    "contiguous_format": 0,
    "strided": 0,
    **dict.fromkeys(("byte", "uint8"), 0),
    **dict.fromkeys(("char", "int8"), 1),
    **dict.fromkeys(("short", "int16"), 2),
    **dict.fromkeys(("int", "int32"), 3),
    **dict.fromkeys(("long", "int64"), 4),
    **dict.fromkeys(("half", "float16"), 5),
    **dict.fromkeys(("float", "float32"), 6),
    **dict.fromkeys(("double", "float64"), 7),
    "complex32": 8,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "bfloat16": 15,
}
CONSTANTS: dict[str, Any] = {"None": None, "True": True, "False": False}
ESCAPES = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def parameter_name(name: str) -> str:
    """An argument's name as a parameter in Python: keywords take an underscore."""
    return name + "_" if iskeyword(name) else name


class Type:
    """A schema type. `Tensor?[]` has kind "List" and an element of kind "Tensor" that is optional.

    kind: a base type's name, or List, Tuple, Dict, Future, Await, RRef, Union, Var, Class.
    element: what a List holds, else None. size: N of `int[N]`. name: of a Var or Class.
    params: the types inside the other containers.
    """

    __slots__ = ("element", "kind", "name", "optional", "params", "size", "text")

    kind: str
    optional: bool
    element: Type | None
    size: int | None
    name: str
    params: tuple[Type, ...]
    text: str

    def __init__(
        self,
        kind: str,
        optional: bool = False,
        element: Type | None = None,
        size: int | None = None,
        name: str = "",
        params: tuple[Type, ...] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "kind", kind)
        put(self, "optional", optional)
        put(self, "element", element)
        put(self, "size", size)
        put(self, "name", name or kind)
        put(self, "params", params)
        put(self, "text", self.print_text() + ("?" if optional else ""))

    def print_text(self) -> str:
        if self.element is not None:
            return f"{self.element.text}[{'' if self.size is None else self.size}]"
        inner = ", ".join(param.text for param in self.params)
        if self.kind == "Tuple":
            return f"({inner})"
        return f"{self.name}({inner})" if self.params else self.name

    def as_optional(self) -> Type:
        """This type with `?`."""
        if self.optional:
            return self
        return Type(self.kind, True, self.element, self.size, self.name, self.params)

    def as_required(self) -> Type:
        """This type without `?`."""
        if not self.optional:
            return self
        return Type(self.kind, False, self.element, self.size, self.name, self.params)

    @property
    def is_tensor_like(self) -> bool:
        """Whether tensors are what a value of this type is or holds."""
        return self.kind == "Tensor" or (self.element is not None and self.element.is_tensor_like)

    @property
    def annotation_str(self) -> str:
        """The name that Python annotations give to this type: `Optional[List[int]]`."""
        if self.element is not None:
            printed = f"List[{self.element.annotation_str}]"
        elif self.params:
            inner = ", ".join(param.annotation_str for param in self.params)
            printed = f"{self.kind}[{inner}]"
        else:
            printed = PRINTED.get(self.name, self.name)
        return f"Optional[{printed}]" if self.optional else printed

    def __str__(self) -> str:
        return self.annotation_str

    def __repr__(self) -> str:
        return f"Type({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Type is immutable; cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            Type,
            (self.kind, self.optional, self.element, self.size, self.name, self.params),
        )


class AliasInfo:
    """The alias mark of an argument or return: `(a! -> b)`.

    `Tensor(a!)[]` marks what the list holds: the sets are then empty, `contained` is the mark of
    the elements, and `is_write` speaks for both.
    """

    __slots__ = ("after", "before", "contained", "is_write")

    def __init__(
        self,
        before: tuple[str, ...],
        after: tuple[str, ...],
        is_write: bool,
        contained: AliasInfo | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self.is_write = is_write
        self.contained = contained

    @property
    def before_set(self) -> set[str]:
        return set(self.before)

    @property
    def after_set(self) -> set[str]:
        return set(self.after)

    @property
    def names(self) -> tuple[str, ...]:
        """The alias sets that tie arguments to returns, wherever the mark is written."""
        if self.before or self.contained is None:
            return self.before
        return self.contained.names

    def __str__(self) -> str:
        if not self.before:
            return ""
        arrow = f" -> {'|'.join(self.after)}" if self.after != self.before else ""
        return f"({'|'.join(self.before)}{'!' if self.is_write else ''}{arrow})"

    def __repr__(self) -> str:
        inner = f", contained={self.contained!r}" if self.contained else ""
        return f"AliasInfo({str(self)!r}{inner})"


class Argument:
    """One parameter of an operator.

    `default` is immutable (a list is kept as a tuple) and None where `has_default` is false;
    `default_value` gives lists as lists. N is the size of `int[N]`.
    """

    __slots__ = ("alias_info", "default", "has_default", "kwarg_only", "name", "type")

    def __init__(
        self,
        name: str,
        type: Type,
        alias_info: AliasInfo | None = None,
        kwarg_only: bool = False,
        has_default: bool = False,
        default: Any = None,
    ) -> None:
        self.name = name
        self.type = type
        self.alias_info = alias_info
        self.kwarg_only = kwarg_only
        self.has_default = has_default
        self.default = default

    @property
    def N(self) -> int | None:
        return self.type.size

    @property
    def is_write(self) -> bool:
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        return self.kwarg_only and self.is_write

    def has_default_value(self) -> bool:
        return self.has_default

    @property
    def default_value(self) -> Any:
        return list(self.default) if type(self.default) is tuple else self.default

    def __str__(self) -> str:
        text = f"{marked_text(self.type, self.alias_info)} {self.name}"
        if self.has_default:
            text += f"={print_value(self.default, self.type)}"
        return text

    def __repr__(self) -> str:
        return f"Argument({str(self)!r})"


class Return:
    """One result of an operator; `name` is empty when the schema gives none."""

    __slots__ = ("alias_info", "name", "type")

    def __init__(self, name: str, type: Type, alias_info: AliasInfo | None = None) -> None:
        self.name = name
        self.type = type
        self.alias_info = alias_info

    def __str__(self) -> str:
        text = marked_text(self.type, self.alias_info)
        return f"{text} {self.name}" if self.name else text

    def __repr__(self) -> str:
        return f"Return({str(self)!r})"


HEADER_FIELDS = frozenset({"namespace", "base_name", "name", "overload_name"})


# Held while a schema takes what was parsed.
PARSED = Lock()


class Schema:
    """An operator's signature, parsed on first use.

    namespace "aten", base_name "add", name "aten::add", overload_name "Tensor" ("" for none).
    """

    __slots__ = (
        "arguments",
        "base_name",
        "default_namespace",
        "is_mutable",
        "is_vararg",
        "is_varret",
        "name",
        "namespace",
        "overload_name",
        "returns",
        "text",
    )

    text: str
    default_namespace: str
    namespace: str
    base_name: str
    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    is_vararg: bool
    is_varret: bool
    is_mutable: bool

    def __init__(self, text: str, namespace: str = "aten") -> None:
        self.text = text
        self.default_namespace = namespace

    def __getattr__(self, field: str) -> Any:
        # Reached only while a slot is empty.
        if field in HEADER_FIELDS:
            self.parse_header()
        elif field in Schema.__slots__:
            self.parse_body()
        else:
            raise AttributeError(f"'Schema' object has no attribute {field!r}")
        return object.__getattribute__(self, field)

    def parse_header(self) -> None:
        head, bracket, _ = self.text.partition("(")
        if not bracket:
            fail("RL0104", text=self.text)
        namespace, colons, rest = head.strip().rpartition("::")
        base_name, dot, overload_name = rest.partition(".")
        if not base_name.isidentifier() or (colons and not namespace.isidentifier()):
            fail("RL0102", expected="an operator name", found=head, text=self.text)
        if dot and not overload_name.isidentifier():
            fail("RL0102", expected="an overload name", found=overload_name, text=self.text)
        if overload_name == "default":
            fail("RL0105", text=self.text)
        self.namespace = namespace if colons else self.default_namespace
        self.base_name = base_name
        self.name = f"{self.namespace}::{base_name}"
        self.overload_name = overload_name

    def parse_body(self) -> None:
        text = self.text
        if "(" not in text:
            fail("RL0104", text=text)
        arrow = find_arrow(text)
        inside = text[text.index("(") + 1 : text.rindex(")", 0, arrow)]
        arguments, is_vararg = parse_arguments(inside, text)
        returns, is_varret = parse_returns(text[arrow + 2 :].strip(), text)
        with PARSED:
            try:
                # Arguments are known by identity: those of whichever thread was first.
                object.__getattribute__(self, "is_mutable")
            except AttributeError:
                self.arguments = arguments
                self.is_vararg = is_vararg
                self.returns = returns
                self.is_varret = is_varret
                self.is_mutable = any(argument.is_write for argument in arguments)

    def __str__(self) -> str:
        parts: list[str] = []
        keyword = False
        for argument in self.arguments:
            if argument.kwarg_only and not keyword:
                parts.append("*")
                keyword = True
            parts.append(str(argument))
        if self.is_vararg:
            parts.append("...")
        results = [str(result) for result in self.returns]
        if self.is_varret:
            results.append("...")
        printed = ", ".join(results)
        if len(results) != 1 or printed.startswith("("):
            printed = f"({printed})"
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {printed}"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (self is other or str(self) == str(other))

    def __hash__(self) -> int:
        return hash((self.name, self.overload_name))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Schema, (self.text, self.default_namespace))


def parse(text: str, namespace: str = "aten") -> Schema:
    """The schema of `text`, checked in full now. `namespace` is used where the text names none."""
    schema = Schema(text, namespace)
    schema.parse_header()
    schema.parse_body()
    return schema


def compose(
    namespace: str,
    base_name: str,
    overload_name: str,
    arguments: tuple[Argument, ...],
    returns: tuple[Return, ...],
) -> Schema:
    """The schema of parts that are parsed already."""
    schema = Schema("", namespace)
    schema.namespace = namespace
    schema.base_name = base_name
    schema.name = f"{namespace}::{base_name}"
    schema.overload_name = overload_name
    schema.arguments = arguments
    schema.returns = returns
    schema.is_vararg = schema.is_varret = False
    schema.is_mutable = any(argument.is_write for argument in arguments)
    schema.text = str(schema)
    return schema


def find_arrow(text: str) -> int:
    """Where the arrow before the returns begins: the first one after a closing bracket."""
    quoted = mask_strings(text)
    start = quoted.find("->")
    while start >= 0:
        if quoted[:start].rstrip().endswith(")") and balanced(quoted[:start]):
            return start
        start = quoted.find("->", start + 2)
    fail("RL0102", expected="'->' after the arguments", found=text[-20:], text=text)


def balanced(text: str) -> bool:
    return text.count("(") == text.count(")")


def mask_strings(text: str) -> str:
    """The text with quoted strings blanked, so that its brackets and commas can be counted."""
    if '"' not in text and "'" not in text:
        return text
    out: list[str] = []
    quote = ""
    escaped = False
    for char in text:
        if not quote:
            quote = char if char in "\"'" else ""
            out.append(char)
        elif escaped or char != quote:
            escaped = char == "\\" and not escaped
            out.append(" ")
        else:
            quote = ""
            out.append(char)
    return "".join(out)


def split_commas(text: str) -> list[str]:
    """The parts of `text` between the commas that stand in no bracket and no string."""
    masked = mask_strings(text)
    if not any(char in masked for char in "(["):
        cuts = [i for i, char in enumerate(masked) if char == ","]
    else:
        cuts = []
        depth = 0
        for i, char in enumerate(masked):
            if char in "([":
                depth += 1
            elif char in ")]":
                depth -= 1
            elif char == "," and depth == 0:
                cuts.append(i)
    edges = [-1, *cuts, len(text)]
    parts = [text[start + 1 : end].strip() for start, end in pairwise(edges)]
    return [] if parts == [""] else parts


def parse_arguments(inside: str, text: str) -> tuple[tuple[Argument, ...], bool]:
    arguments: list[Argument] = []
    kwarg_only = is_vararg = seen_default = False
    for part in split_commas(inside):
        if is_vararg:
            fail("RL0102", expected="')' after '...'", found=part, text=text)
        if part == "*":
            kwarg_only = True
        elif part == "...":
            is_vararg = True
        else:
            argument = parse_argument(part, kwarg_only, text)
            if seen_default and not argument.has_default and not kwarg_only:
                fail("RL0106", argument=argument.name, text=text)
            seen_default = seen_default or argument.has_default
            arguments.append(argument)
    return tuple(arguments), is_vararg


def parse_argument(part: str, kwarg_only: bool, text: str) -> Argument:
    declaration, equals, default = part.partition("=")
    type_text, name = split_name(declaration.strip())
    if not name:
        fail("RL0102", expected="a type and a name", found=part, text=text)
    type, alias_info = parse_type(type_text, text)
    if not equals:
        return Argument(name, type, alias_info, kwarg_only)
    value = parse_default(default.strip(), name, type, text)
    return Argument(name, type, alias_info, kwarg_only, True, value)


def split_name(declaration: str) -> tuple[str, str]:
    """Type text and name of `int dim`; the name is empty when there is only a type."""
    end = len(declaration)
    while end and (declaration[end - 1].isalnum() or declaration[end - 1] == "_"):
        end -= 1
    type_text = declaration[:end].rstrip()
    # `Tensor?x` needs no space; `classes.Foo` has no name.
    if not type_text or end == len(declaration) or type_text[-1] in ".(,":
        return declaration, ""
    return type_text, declaration[end:]


def parse_returns(after: str, text: str) -> tuple[tuple[Return, ...], bool]:
    if after.startswith("(") and closing_bracket(after, 0) == len(after) - 1:
        parts = split_commas(after[1:-1])
    else:
        parts = [after]
    is_varret = bool(parts) and parts[-1] == "..."
    if is_varret:
        parts.pop()
    returns = []
    for part in parts:
        type_text, name = split_name(part)
        type, alias_info = parse_type(type_text, text)
        returns.append(Return(name, type, alias_info))
    return tuple(returns), is_varret


def closing_bracket(text: str, start: int) -> int:
    """The index of the bracket that closes the one at `start`, or -1."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return i
    return -1


TYPES: dict[str, tuple[Type, AliasInfo | None]] = {}


def parse_type(type_text: str, text: str = "") -> tuple[Type, AliasInfo | None]:
    """Type and alias mark of a type text such as `Tensor(a!)[]?`; each text is parsed once."""
    known = TYPES.get(type_text)
    if known is None:
        known = TYPES[type_text] = TypeParser(type_text, text or type_text).parse()
    return known


class TypeParser:
    """Reads one type from left to right: a base, then any of `(alias)`, `[N]` and `?`."""

    __slots__ = ("position", "source", "text")

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.text = text
        self.position = 0

    def parse(self) -> tuple[Type, AliasInfo | None]:
        type = self.base()
        alias: AliasInfo | None = None
        while (char := self.peek()) in ("(", "[", "?") and char:
            if char == "(":
                alias = self.alias(alias)
            elif char == "[":
                type = self.list_of(type)
                if alias is not None:
                    alias = AliasInfo((), (), alias.is_write, alias)
            else:
                self.position += 1
                type = type.as_optional()
        if self.position != len(self.source):
            rest = self.source[self.position :]
            fail("RL0102", expected="a type", found=rest, text=self.text)
        return type, alias

    def peek(self) -> str:
        while self.source[self.position : self.position + 1] == " ":
            self.position += 1
        return self.source[self.position : self.position + 1]

    def base(self) -> Type:
        if self.peek() == "(":
            return Type("Tuple", params=self.params())
        start = self.position
        end = len(self.source)
        while self.position < end and is_name_char(self.source[self.position]):
            self.position += 1
        name = self.source[start : self.position]
        name = SYNONYMS.get(name, name)
        if name in GENERIC_KINDS:
            return Type(name, params=self.params())
        if name in BASE_KINDS:
            return Type(name)
        if "." in name:
            return Type("Class", name=name)
        if name[:1].islower():
            return Type("Var", name=name)
        fail("RL0101", found=name or self.source, text=self.text)

    def params(self) -> tuple[Type, ...]:
        end = closing_bracket(self.source, self.position) if self.peek() == "(" else -1
        if end < 0:
            fail("RL0102", expected="'(' and ')'", found=self.source, text=self.text)
        inner = split_commas(self.source[self.position + 1 : end])
        self.position = end + 1
        return tuple(parse_type(part, self.text)[0] for part in inner)

    def alias(self, contained: AliasInfo | None) -> AliasInfo:
        end = closing_bracket(self.source, self.position)
        if end < 0:
            fail("RL0102", expected="')'", found=self.source, text=self.text)
        mark = self.source[self.position + 1 : end]
        before_text, arrow, after_text = mark.partition("->")
        before_text = before_text.strip()
        is_write = before_text.endswith("!")
        before = self.alias_sets(before_text.removesuffix("!"))
        after = self.alias_sets(after_text) if arrow else before
        self.position = end + 1
        return AliasInfo(before, after, is_write, contained)

    def alias_sets(self, names: str) -> tuple[str, ...]:
        sets = tuple(name.strip() for name in names.split("|"))
        if not all(name == "*" or name.isidentifier() for name in sets):
            fail("RL0102", expected="alias sets such as (a!)", found=names, text=self.text)
        return sets

    def list_of(self, element: Type) -> Type:
        end = self.source.find("]", self.position)
        size = self.source[self.position + 1 : max(end, 0)].strip()
        if end < 0 or (size and not size.isdigit()):
            fail("RL0102", expected="[] or [N]", found=self.source, text=self.text)
        self.position = end + 1
        return Type("List", element=element, size=int(size) if size else None)


def is_name_char(char: str) -> bool:
    return char.isalnum() or char in "_."


def marked_text(type: Type, alias: AliasInfo | None) -> str:
    """The schema text of a type with its alias mark in place."""
    if alias is None:
        return type.text
    plain = type.as_required()
    printed = plain.text
    if alias.contained is not None and plain.element is not None:
        size = "" if plain.size is None else plain.size
        # torch: the mark of an optional element is printed after its `?`.
        printed = f"{plain.element.text}{alias.contained}[{size}]"
    return f"{printed}{alias}{'?' if type.optional else ''}"


def parse_default(source: str, argument: str, type: Type, text: str) -> Any:
    if source.startswith("["):
        if type.element is None or not source.endswith("]"):
            fail("RL0103", found=source, argument=argument, text=text)
        parts = split_commas(source[1:-1])
        return tuple(parse_scalar(part, argument, type.element, text) for part in parts)
    if type.element is not None and not type.optional and source != "None":
        if type.size is None:
            fail("RL0103", found=source, argument=argument, text=text)
        return (parse_scalar(source, argument, type.element, text),) * type.size
    return parse_scalar(source, argument, type, text)


def parse_scalar(source: str, argument: str, type: Type, text: str) -> Any:
    if source in CONSTANTS:
        return CONSTANTS[source]
    if len(source) > 1 and source[0] in "\"'" and source[-1] == source[0]:
        return source[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
    if source in NAMED_DEFAULTS:
        return NAMED_DEFAULTS[source]
    try:
        if type.kind == "float" and not type.optional and source[-1:].isdigit():
            return float(source)
        return parse_number(source)
    except ValueError:
        fail("RL0103", found=source, argument=argument, text=text)


def parse_number(source: str) -> int | float | complex:
    digits = source.removeprefix("-")
    if digits.isdigit():
        return int(source)
    if not digits[:1].isdigit() and digits[:1] != ".":
        raise ValueError(source)  # Python reads "inf" and "nan" as numbers; schemas do not.
    return complex(source) if source.endswith("j") else float(source)


def print_value(value: Any, type: Type) -> str:
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return print_float(value)
    if isinstance(value, complex):
        imaginary = print_float(value.imag)
        sign = "" if imaginary.startswith("-") else "+"
        return f"{print_float(value.real)}{sign}{imaginary}j"
    if isinstance(value, str):
        if type.kind == "Device":
            return value
        return '"' + "".join(ESCAPES.get(char, char) for char in value) + '"'
    element = type.element or type
    # torch: only lists of plain ints are shortened, and only when the size restores them.
    if element.kind == "int" and 1 < len(value) == type.size and len(set(value)) == 1:
        return str(value[0])
    return f"[{', '.join(print_value(item, element) for item in value)}]"


def print_float(value: float) -> str:
    # torch: whole numbers that fit 64 bits end in a bare point, others show 17 digits.
    if value.is_integer() and abs(value) < 2.0**63:
        return f"{int(value)}."
    return f"{value:.17g}"
