"""What the interpreter knows of a value: one class per kind.

A value of the outside has a source. `Lazy` is one that nobody looked at yet, so that it has no
guard. Containers hold variables, never raw values.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from rushlight.capture.sources import Source

__all__ = [
    "NULL",
    "Bound",
    "Bounded",
    "Cell",
    "Const",
    "Dict",
    "Fields",
    "Float",
    "Func",
    "Handled",
    "Lazy",
    "Made",
    "Method",
    "New",
    "Number",
    "Obj",
    "Opaque",
    "Partial",
    "Proxy",
    "Seq",
    "SetVar",
    "Slice",
    "Super",
    "Table",
    "Tensor",
    "Transformed",
    "Var",
    "View",
]


class Var:
    source: Source | None = None


class Lazy(Var):
    """A value of the outside, not looked at yet: no guard."""

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source: Source = source


class Const(Var):
    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source


class Proxy(Var):
    """Something that is computed in the graph: a node, and an example of its value."""

    def __init__(self, example: Any, node: Any = None, source: Source | None = None) -> None:
        self.example = example
        self.node = node
        self.source = source

    def is_number(self) -> bool:
        """Whether its truth is that of what it holds."""
        return True


class Tensor(Proxy):
    # Its layout is invented: a gradient that capture made up (strict reads).
    strict = False
    # The class of a tensor of the outside.
    kind: type | None = None
    # What the program wrote to one that the graph makes.
    attrs: dict[str, Any] | None = None


class Number(Proxy):
    """A number that is not specialised."""


class Float(Number):
    """A float that calls give; `value` is what it is now."""

    source: Source

    def __init__(self, value: float, example: Any, source: Source) -> None:
        super().__init__(example, None, source)
        self.value = value


class Opaque(Proxy):
    """An object that a call in the graph gives, and whose methods are calls in the graph."""

    def __init__(self, kind: type, node: Any) -> None:
        super().__init__(None, node)
        self.kind = kind

    def is_number(self) -> bool:
        return False


class Seq(Var):
    """A list, tuple, named tuple or the like; `kind` is its class."""

    def __init__(self, kind: type, items: list[Any], source: Source | None = None) -> None:
        self.kind = kind
        self.items = items
        self.source = source

    def like(self, items: list[Any]) -> Seq:
        """Another of this kind."""
        return Seq(self.kind, items)


class Bounded(Seq):
    """A deque that holds no more than `limit` items."""

    def __init__(self, items: list[Any], limit: int, source: Source | None = None) -> None:
        super().__init__(collections.deque, items, source)
        self.limit = limit

    def like(self, items: list[Any]) -> Seq:
        return Bounded(items, self.limit)


class Dict(Var):
    """A dict or one of its relatives; keys are plain values.

    Of one that is outside only the keys that were asked for are guarded, until somebody looks at
    its items as a whole: `whole` then guards them all."""

    whole: Callable[[], None] | None = None

    def __init__(
        self,
        items: dict[Any, Any],
        source: Source | None = None,
        kind: type = dict,
        factory: Any = None,
    ) -> None:
        self.held = items
        self.source = source
        self.kind = kind
        self.factory = factory

    @property
    def items(self) -> dict[Any, Any]:
        whole, self.whole = self.whole, None
        if whole is not None:
            whole()
        return self.held


class Table(Dict):
    """What an object of the outside holds as a dict, whose class derives from one."""

    def __init__(self, items: dict[Any, Any], owner: Obj, kind: type) -> None:
        super().__init__(items, owner.source, kind)
        self.owner = owner


class Fields(Dict):
    """The `__dict__` of an object of the outside: what is written to it is an attribute."""

    def __init__(self, items: dict[Any, Any], owner: Obj) -> None:
        super().__init__(items, owner.source.attr("__dict__"))
        self.owner = owner
        # What was there when effects were last noted.
        self.before = dict(items)


class SetVar(Var):
    """A set of plain values. `first` are those it began with, in order, and `log` the calls that
    changed it: the order of a set depends on its history."""

    def __init__(self, kind: type, items: Any, source: Source | None = None) -> None:
        self.kind = kind
        self.first = list(items)
        # One of the outside is held in its own order, which a copy need not have.
        self.items = self.first if source is not None else kind(self.first)
        self.source = source
        self.log: list[tuple[str, tuple[Any, ...]]] = []


class View(Var):
    """`keys()`, `values()` or `items()` of a dict."""

    def __init__(self, owner: Dict, name: str) -> None:
        self.owner = owner
        self.name = name


class Obj(Var):
    """An object that exists."""

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source: Source = source


class New(Var):
    """An instance made during capture. One of a class of dicts has its items in `table`."""

    table: Dict | None = None

    def __init__(
        self, cls: type, attrs: dict[str, Any] | None = None, args: tuple[Any, ...] = ()
    ) -> None:
        self.cls = cls
        self.attrs = {} if attrs is None else attrs
        self.args = args


class Func(Var):
    """A function made during capture."""

    def __init__(self, code: Any, namespace: dict[str, Any]) -> None:
        self.code = code
        self.namespace = namespace
        self.closure: list[Any] = []
        self.defaults: list[Any] = []
        self.kwdefaults: dict[str, Any] = {}
        self.qualname: str = code.co_qualname
        # What its parameters are annotated with; `lazily` where a function tells, from 3.14 on.
        self.annotations: Dict | None = None
        self.is_annotated_lazily = False
        # What the program wrote to it.
        self.attrs: dict[str, Any] = {}


class Partial(Var):
    """`functools.partial` made during capture."""

    def __init__(self, func: Var, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs


class Made(Var):
    """An instance of a built-in class that is nothing but what it was made from."""

    def __init__(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.cls = cls
        self.args = args
        self.kwargs = kwargs


class Transformed(Var):
    """A function that a transform of the library made of another. `made` is what a call of it does,
    where the transform alone does not say so."""

    made: Any = None

    def __init__(
        self, transform: Any, function: Any, args: list[Any], options: dict[str, Any], made_at: int
    ) -> None:
        self.transform = transform
        self.function = function
        self.args = args
        self.options = options
        self.made_at = made_at


class Method(Var):
    def __init__(self, func: Var, owner: Var, source: Source | None = None) -> None:
        self.func = func
        self.owner = owner
        self.source = source


class Bound(Var):
    """A method, by name, of something the interpreter models itself."""

    def __init__(self, owner: Var, name: str) -> None:
        self.owner = owner
        self.name = name


class Super(Var):
    def __init__(self, cls: type, owner: Var) -> None:
        self.cls = cls
        self.owner = owner


class Cell(Var):
    def __init__(self, contents: Any = None, source: Source | None = None, name: str = "") -> None:
        self.contents = contents
        self.source = source
        self.name = name


class Slice(Var):
    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts


class Handled(Var):
    """On the stack while an exception is handled: what was being handled before it."""

    def __init__(self, previous: Any, error: Any) -> None:
        self.previous = previous
        self.error = error


NULL = Var()  # CPython's NULL on the stack
