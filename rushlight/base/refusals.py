"""Names of torch's that are there and refuse, with a code, when they are used.

A refused class can be named, subclassed and asked about with isinstance, which answers no: only an
instance cannot be made. What refuses says so in `__refusal__`, which `rushlight doctor --names`
reads.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

from rushlight.base.errors import MissingFeature, error

__all__ = ["is_refused", "refused"]

# Where torch, built without the thing, raises another class than NotImplementedError.
CLASSES: dict[str, type[Exception]] = {"RL1209": AssertionError}


def refusal(what: str, code: str) -> Exception:
    cls = CLASSES.get(code)
    return MissingFeature(what, code=code) if cls is None else error(code, cls)


@cache
def refused(path: str, code: str) -> Any:
    """What `path` stands for: a class where its name begins with a capital, else a function."""
    module, _, name = path.rpartition(".")

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(path.replace("rushlight", "torch", 1), code)

    facts = {
        "__module__": module,
        "__qualname__": name,
        "__doc__": f"Refuses when it is used: `rushlight explain {code}` says why.",
        "__refusal__": code,
    }
    if name.lstrip("_")[:1].isupper():
        return type(
            name, (), {"__new__": refuse, "__init_subclass__": classmethod(accept), **facts}
        )
    refuse.__name__ = name
    for fact, value in facts.items():
        setattr(refuse, fact, value)
    return refuse


def accept(cls: type, /, **options: Any) -> None:
    """Subclasses may be defined, with whatever options the real class takes."""


def is_refused(value: Any) -> bool:
    """Whether using `value` can only raise: it was refused, or its code never returns."""
    facts = getattr(value, "__dict__", {})
    if "__refusal__" in facts:
        # None: a class whose instances come from elsewhere, as torch's do.
        return facts["__refusal__"] is not None
    if isinstance(value, type):
        makers = [vars(value).get(name) for name in ("__new__", "__init__")]
        return any(maker is not None and never_returns(maker) for maker in makers)
    return never_returns(value)


def never_returns(function: Any) -> bool:
    """Whether a function can only raise: it has no way out, or all it does is to call such one."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & GENERATORS:
        return False
    import dis

    steps = [step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "CACHE")]
    ways_out = [i for i, step in enumerate(steps) if step.opname.startswith("RETURN_")]
    if not ways_out:
        return True
    if len(ways_out) > 1 or any("JUMP" in step.opname for step in steps):
        return False
    # A function that ends without a `return` drops the result of its last call.
    if "POP_TOP" not in [step.opname for step in steps[max(0, ways_out[0] - 2) : ways_out[0]]]:
        return False
    called = [step.argval for step in steps if step.opname == "LOAD_GLOBAL"]
    first = getattr(function, "__globals__", {}).get(called[0]) if called else None
    return first is not None and first is not function and never_returns(first)


# Generators, coroutines and asynchronous generators.
GENERATORS = 0x20 | 0x80 | 0x200
