"""Error classes, and the registry that gives each refusal a code.

A code's `what` is the exception's text, word for word; `why` and `remedy` travel as a note on it:
a text that compatibility fixes stays exactly as it is and still explains itself.
Invariant: a code is registered once and never changes its meaning.
"""

from __future__ import annotations

# NumPy has imported it already.
from pickle import UnpicklingError
from typing import NoReturn


class Reason:
    """What a code says. Each field is a `str.format` template over the fields given to `fail`."""

    __slots__ = ("remedy", "what", "why")

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        self.what = what
        self.why = why
        self.remedy = remedy


class MissingFeature(NotImplementedError):
    """Something PyTorch has and Rushlight has not; `remedy` is a sentence on what to do instead."""

    def __init__(self, what: str, remedy: str = "", code: str = "RL0001") -> None:
        self.what = what
        self.code = code
        super().__init__(message(code, what=what) + (f" {remedy}" if remedy else ""))


class MissingExtra(ImportError):
    """An optional package is not installed; the text names the command that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        self.code = "RL0002"
        self.extra = extra
        super().__init__(message(self.code, module=module, extra=extra), name=module)


class LinAlgError(RuntimeError):
    """A matrix for which the requested factorisation or solution does not exist."""


# torch: the class has a private name, which tracebacks show.
_LinAlgError = LinAlgError
LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


class CheckpointError(UnpicklingError, RuntimeError):
    """A file that cannot be read: damaged, of another kind, or telling lies about itself.

    It is both of what torch raises for such files.
    """


class OutOfMemoryError(RuntimeError):
    """The device has no room for an allocation."""


REASONS: dict[str, Reason] = {
    "RL0001": Reason("Rushlight does not support {what} (RL0001)."),
    "RL0002": Reason(
        "{module} is needed here and is not installed (RL0002). "
        "Install it with: pip install 'rushlight[{extra}]'"
    ),
    "RL0003": Reason(
        "{variable} is {value!r}, which is not {expected}.",
        remedy="Unset {variable} or give it one of those values.",
    ),
    "RL0004": Reason(
        "There is no setting {name!r}.",
        remedy="The settings are: {known}.",
    ),
    "RL0005": Reason("Setting {name!r} takes {expected}, not {value!r}."),
    "RL0006": Reason(
        "set_num_threads({number}) changed nothing (RL0006): NumPy's BLAS offers no call for it. "
        "Set OMP_NUM_THREADS or the library's own variable before Python starts."
    ),
    "RL0101": Reason(
        "unknown type specifier {found!r} in schema: {text}",
        remedy="Common types are Tensor, SymInt, int, float, bool, str and Scalar, "
        "each with [] for a list and ? for optional.",
    ),
    "RL0102": Reason(
        "expected {expected} but found {found!r} in schema: {text}",
        remedy="A schema reads: name.overload(Tensor self, *, int dim=0) -> Tensor",
    ),
    "RL0103": Reason(
        "invalid default value {found!r} for argument {argument!r} in schema: {text}",
        remedy="A default is None, True, False, a number, a quoted string, or a list of them.",
    ),
    "RL0104": Reason(
        "Tried to parse a function schema but only the operator name was given: {text}",
    ),
    "RL0105": Reason("default is not a legal overload name for aten operators: {text}"),
    "RL0106": Reason(
        "argument {argument!r} has no default but follows one that has, in schema: {text}",
        remedy="Give it a default, or move it before those with defaults or after '*'.",
    ),
    "RL0201": Reason("{node!r} is already registered as pytree node."),
    "RL0202": Reason(
        "treespec.unflatten(leaves): `leaves` has length {length} but the spec refers to a pytree "
        "that holds {expected} items ({spec})."
    ),
    "RL0203": Reason("Node type mismatch; expected {expected!r}, but got {found!r}."),
    "RL0204": Reason("Node arity mismatch; expected {expected}, but got {found}."),
    "RL0205": Reason("Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}."),
    "RL0206": Reason(
        "Node context mismatch for node type {node!r}; expected {expected!r}, but got {found!r}."
    ),
    "RL0207": Reason("Node context mismatch for custom node type {node!r}."),
    "RL0208": Reason("Type mismatch; expected {expected!r}, but got {found!r}."),
    "RL0209": Reason("Argument must be a type, a tuple of types, or a callable."),
    "RL0211": Reason(
        "Both to_dumpable_context and from_dumpable_context for {node} must be None or registered."
    ),
    "RL0212": Reason(
        "Did not find a flatten_with_keys_fn for type: {node}.",
        remedy="Pass flatten_with_keys_fn to register_pytree_node.",
    ),
    "RL0213": Reason(
        "A tree with a node of {node} cannot be written: it has no serialized_type_name.",
        remedy="Pass serialized_type_name to register_pytree_node.",
    ),
    "RL0214": Reason(
        "No node type is registered under the serialized name {name!r}.",
        remedy="Register the type, with that serialized_type_name, before the spec is read.",
    ),
    "RL0215": Reason(
        "The context of {node} cannot be written as JSON ({reason}).",
        remedy="Pass to_dumpable_context and from_dumpable_context to register_pytree_node.",
    ),
    "RL0216": Reason("Unknown protocol {protocol}. Available protocols: {known}"),
    "RL0218": Reason(
        "The spec names the default factory {module}.{name}, and {module} is not imported.",
        why="Reading a spec imports nothing.",
        remedy="Import {module} before the spec is read.",
    ),
    "RL0210": Reason(
        "Expected `treespec` to be an instance of PyTreeSpec but got item of type {found!r}."
    ),
}


def register(code: str, what: str, why: str = "", remedy: str = "") -> str:
    """Adds a code, for packages that keep their reasons beside the rules that use them."""
    if code in REASONS:
        raise ValueError(f"error code {code} is already taken by: {REASONS[code].what}")
    REASONS[code] = Reason(what, why, remedy)
    return code


def message(code: str, **fields: object) -> str:
    """The exception text of `code`."""
    return REASONS[code].what.format(**fields)


def error(code: str, cls: type[Exception] = RuntimeError, **fields: object) -> Exception:
    """An exception of class `cls` for `code`; it carries `.code` and, as a note, why and remedy."""
    reason = REASONS[code]
    exception = cls(reason.what.format(**fields))
    exception.code = code  # type: ignore[attr-defined]
    advice = " ".join(part.format(**fields) for part in (reason.why, reason.remedy) if part)
    if advice:
        exception.add_note(f"{code}: {advice}")
    return exception


def fail(code: str, cls: type[Exception] = RuntimeError, **fields: object) -> NoReturn:
    """Raises `error(code, cls, **fields)`."""
    raise error(code, cls, **fields)


def explain(code: str) -> str:
    """What the registry knows of a code, its templates unfilled."""
    reason = REASONS[code]
    return "\n".join([f"{code}: {reason.what}", *filter(None, (reason.why, reason.remedy))])
