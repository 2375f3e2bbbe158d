"""Schemas read off the annotations of a function."""

from __future__ import annotations

import functools
import inspect
import typing
from collections import abc
from types import GenericAlias
from typing import Any, NoReturn

from rushlight.core import device, dtype
from rushlight.core.op import Tag
from rushlight.core.tensor import Tensor

__all__ = ["infer_schema"]

Number = typing.Union[int, float, bool]  # noqa: UP007
# Python type, schema type, and whether there are lists, lists of optionals, optional lists of it.
BASES: tuple[tuple[Any, str, bool, bool, bool], ...] = (
    (Tensor, "Tensor", True, True, False),
    (int, "SymInt", True, False, True),
    (float, "float", True, False, True),
    (bool, "bool", True, False, True),
    (str, "str", False, False, False),
    (Number, "Scalar", True, False, False),
    (dtype.dtype, "ScalarType", False, False, False),
    (device.device, "Device", False, False, False),
)


def sequences_of(entry: Any) -> tuple[Any, ...]:
    return (
        typing.Sequence[entry],
        typing.List[entry],  # noqa: UP006
        GenericAlias(abc.Sequence, (entry,)),
        GenericAlias(list, (entry,)),
    )


def derived_types(
    base: Any, name: str, has_lists: bool, has_optional_items: bool, has_optional_lists: bool
) -> list[tuple[Any, str]]:
    """A base type and the forms made of it, with their schema types."""
    optional = typing.Optional[base]  # noqa: UP045
    found: list[tuple[Any, str]] = [(base, name), (optional, f"{name}?")]
    if has_lists:
        found += [(form, f"{name}[]") for form in sequences_of(base)]
    if has_optional_items:
        found += [(form, f"{name}?[]") for form in sequences_of(optional)]
    if has_optional_lists:
        forms = sequences_of(base)
        found += [(typing.Optional[form], f"{name}[]?") for form in forms]  # noqa: UP045
    return found


@functools.cache
def get_supported_param_types() -> dict[Any, str]:
    """Annotation -> schema type, for parameters."""
    return dict([pair for row in BASES for pair in derived_types(*row)])


SUPPORTED_RETURN_TYPES: dict[Any, str] = {
    Tensor: "Tensor",
    typing.List[Tensor]: "Tensor[]",  # noqa: UP006
    list[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    Number: "Scalar",
}


def parse_return(annotation: Any, refuse: Any) -> str:
    """A return annotation as the right side of a schema."""
    if annotation is None or annotation is type(None):
        return "()"
    if annotation is inspect.Parameter.empty:
        refuse("No return type annotation was provided. Please add one.")
    is_tuple = typing.get_origin(annotation) is tuple
    parts = typing.get_args(annotation) if is_tuple else (annotation,)
    if not all([part in SUPPORTED_RETURN_TYPES for part in parts]):
        refuse(
            f"Return has unsupported type {annotation}. The valid types are: "
            f"{SUPPORTED_RETURN_TYPES}."
        )
    names = [SUPPORTED_RETURN_TYPES[part] for part in parts]
    if not is_tuple:
        return names[0]
    # A tuple of one keeps its own parentheses.
    return f"(({names[0]}))" if len(names) == 1 else f"({', '.join(names)})"


def default_text(name: str, value: Any, refuse: Any) -> str:
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, (str, device.device)):
        return f'"{value}"'
    if isinstance(value, dtype.dtype):
        return str(value).removeprefix("torch.")
    refuse(
        f"Parameter {name} has an unsupported default value type {type(value)}. Please file an "
        "issue on GitHub so we can prioritize this."
    )
    raise AssertionError("unreachable")


def evaluated(annotation: Any, function: Any, refuse: Any) -> Any:
    """An annotation that is not text; text inside is read where the function was written."""

    def one(text: str) -> Any:
        try:
            return eval(text, function.__globals__)
        except NameError as problem:
            refuse(
                f"Unsupported type annotation {text}. It is not a type. ({problem}). If you are "
                "using 'from __future__ import annotations', note that annotations are evaluated "
                "lazily as strings; make sure all types referenced in annotations are importable "
                "at module scope, not only inside a local function."
            )
        except Exception as problem:
            refuse(
                f"Unsupported type annotation {text}. It is not a type. "
                f"({type(problem).__name__}: {problem})"
            )

    if isinstance(annotation, str):
        return one(annotation)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is not None and any(isinstance(e, (str, typing.ForwardRef)) for e in inner):
        texts = [e.__forward_arg__ if isinstance(e, typing.ForwardRef) else e for e in inner]
        read = tuple([evaluated(text, function, refuse) for text in texts])
        return typing.Union[read] if origin is typing.Union else GenericAlias(origin, read)  # noqa: UP007
    return annotation


def unsupported(name: str, written: Any, annotation: Any, refuse: Any) -> None:
    known = get_supported_param_types()
    if typing.get_origin(annotation) is tuple:
        entries = set(typing.get_args(annotation))
        as_list = GenericAlias(list, (entries.pop(),)) if len(entries) == 1 else None
        example = f"For example, {as_list}.\n\n" if as_list in known else "\n\n"
        refuse(
            f"Parameter {name} has unsupported type {written}. We do not support Tuple inputs in "
            f"schema. As a workaround, please try to use List instead. {example}The valid types "
            f"are: {known.keys()}."
        )
    refuse(f"Parameter {name} has unsupported type {written}. The valid types are: {known.keys()}.")


def infer_schema(
    prototype_function: Any,
    /,
    *,
    mutates_args: Any,
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema that a function's annotations describe.

    >>> def f(x: Tensor, n: int = 2) -> Tensor: ...
    >>> infer_schema(f, mutates_args=())
    '(Tensor x, SymInt n=2) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def refuse(text: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {text} Got func with signature {signature})")

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated "
            "or the string 'unknown'. "
        )
    unknown = mutates_args == "unknown"
    written = set() if unknown else set(mutates_args)
    known = get_supported_param_types()
    parts: list[str] = []
    marks: list[str] = []
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        annotation = evaluated(parameter.annotation, prototype_function, refuse)
        if annotation not in known:
            unsupported(name, parameter.annotation, annotation, refuse)
        schema_type = known[annotation]
        if name in written and not schema_type.startswith("Tensor"):
            refuse(
                f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors "
                "can be mutated"
            )
        if name in written or (unknown and schema_type.startswith("Tensor")):
            marks.append(f"a{number}!")
            schema_type = f"Tensor({marks[-1]}){schema_type.removeprefix('Tensor')}"
        text = f"{schema_type} {name}"
        if parameter.default is not parameter.empty:
            text += f"={default_text(name, parameter.default, refuse)}"
        parts.append(text)
    missing = written - set(signature.parameters)
    if missing:
        refuse(
            f"{missing} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    result = evaluated(signature.return_annotation, prototype_function, refuse)
    answer = marked_return(parse_return(result, refuse), marks, tags, refuse)
    return f"{op_name or ''}({', '.join(parts)}) -> {answer}"


def marked_return(answer: str, marks: list[str], tags: Any, refuse: Any) -> str:
    """The right side of a schema whose op returns what it writes, as its tags say."""
    listed = (tags,) if isinstance(tags, str) else tuple(tags or ())
    if Tag.inplace in listed and Tag.out in listed:
        raise AssertionError("torch.Tag.inplace and torch.Tag.out are mutually exclusive")
    if Tag.inplace not in listed and Tag.out not in listed:
        return answer
    plain = "Tensor" if len(marks) == 1 else f"({', '.join(['Tensor'] * len(marks))})"
    if not marks or answer != plain:
        refuse(
            "torch.Tag.inplace and torch.Tag.out require that the op returns the tensors it "
            f"mutates: expected the return type {plain}, got {answer}."
        )
    return answer.replace("Tensor", "Tensor({})").format(*marks)
