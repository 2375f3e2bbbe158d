"""Functions from source: signatures, bodies, and the passes that finish a graph."""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Any

from rushlight.jit.ir.binding import type_name
from rushlight.jit.ir.constants import enumerated
from rushlight.jit.ir.graph import Graph, Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.schemas import NO_DEFAULT, Argument
from rushlight.jit.ir.types import BOOL, FLOAT, INT, ClassType, TensorType, Type
from rushlight.jit.naming import qualified_name
from rushlight.jit.objects.binding import CannotCast, cast_value
from rushlight.jit.ops.matching import without_optional
from rushlight.jit.scripting.cleanup import clean_up
from rushlight.jit.scripting.emitter import Emitter, all_arguments
from rushlight.jit.scripting.frontend import Parsed, parse_function
from rushlight.jit.scripting.resolving import Resolver, resolver_of
from rushlight.jit.scripting.sources import (
    NotSupportedError,
    SourceText,
    compiling,
    fail_at,
    set_current_call,
)
from rushlight.jit.scripting.ssa import convert_to_ssa
from rushlight.jit.scripting.values import Sugared
from rushlight.jit.unit import PYTHON_UNIT, CompilationUnit, Function

MUTABLE_DEFAULT = (
    "Mutable default parameters are not supported because Python binds them to the function and "
    "they persist across function calls.\n As a workaround, make the default None and instantiate "
    "the default parameter within the body of the function. Found {} on parameter {}"
)

# A default is a value of its argument's type.
NUMBERS: dict[Type, Callable[[Any], Any]] = {FLOAT: float, INT: int, BOOL: bool}
Owner = Callable[[Value], Sugared]


def signature(
    parsed: Parsed, resolver: Resolver, self_type: Type | None = None
) -> tuple[list[Argument], Type | None]:
    """The arguments with their types, and the type of the result where it is given."""
    node, source = parsed.node, parsed.source
    nodes = all_arguments(node)
    keyword_only = {each.arg for each in node.args.kwonlyargs}
    commented, result = comment_types(node, source, resolver, self_type is not None)
    arguments: list[Argument] = []
    for place, each in enumerate(nodes):
        default = parsed.defaults.get(each.arg, NO_DEFAULT)
        if isinstance(default, list | dict | set) and not resolver.is_of_saved_code:
            fail_at(source.range_of(node), MUTABLE_DEFAULT.format(type(default), each.arg))
        code = enumerated(default)
        default = default if code is None else code
        size = None
        if self_type is not None and place == 0:
            type_ = self_type
        elif each.annotation is not None:
            type_, size = resolver.annotated(each.annotation, source)
        elif place in commented:
            type_, size = commented[place]
        else:
            type_ = state_type(node, self_type) or TensorType.getInferred()
        if type(default) in (int, float, bool):
            default = NUMBERS.get(without_optional(type_), type(default))(default)
        if default is not NO_DEFAULT and size is None and not resolver.is_of_saved_code:
            check_default(default, type_, each.arg, source.range_of(node))
        arguments.append(Argument(each.arg, type_, default, each.arg in keyword_only, None, size))
    if node.returns is not None:
        result = resolver.annotation(node.returns, source)
    return arguments, result


def result_type(parsed: Parsed, resolver: Resolver) -> Type | None:
    """The type of the result alone, where the signature or its comment gives one."""
    node = parsed.node
    if node.returns is not None:
        return resolver.annotation(node.returns, parsed.source)
    if "->" not in (node.type_comment or ""):
        return None
    tree = ast.parse(str(node.type_comment), mode="func_type")
    return resolver.annotation(shifted(tree.returns), parsed.source)


def check_default(default: Any, type_: Type, name: str, place: SourceRange) -> None:
    """Refuses a default that is no value of its parameter."""
    if fits(default, type_):
        return
    reason = ""
    if isinstance(type_, TensorType) and type_.inferred:
        reason = (
            f'Because "{name}" was not annotated with an explicit type it is assumed to be '
            "type 'Tensor'."
        )
    fail_at(
        place,
        f'Expected a default value of type {type_name(type_)} on parameter "{name}".{reason}',
    )


def fits(default: Any, type_: Type) -> bool:
    """Whether a default is a value of a type."""
    try:
        cast_value(default, type_)
    except CannotCast:
        return False
    return True


def state_type(node: ast.FunctionDef, self_type: Type | None) -> Type | None:
    """What `__setstate__` takes unless it says so: what `__getstate__` gives."""
    if node.name != "__setstate__" or not isinstance(self_type, ClassType):
        return None
    getter: Function | None = self_type.methods.get("__getstate__")
    return None if getter is None else getter.schema.returns[0].type


def comment_types(
    node: ast.FunctionDef, source: SourceText, resolver: Resolver, is_method: bool
) -> tuple[dict[int, tuple[Type, int | None]], Type | None]:
    """Types, and sizes of lists that one value stands for, from comments: `# type: (int) -> int`,
    or one for each argument."""
    nodes = all_arguments(node)
    found: dict[int, tuple[Type, int | None]] = {}
    for place, each in enumerate(nodes):
        if each.type_comment:
            text = each.type_comment
            found[place] = resolver.annotated(ast.parse(text, mode="eval").body, source)
    if not node.type_comment:
        return found, None
    # torch: a comment may leave the result out.
    text = node.type_comment
    declares_result = "->" in text
    tree = ast.parse(text if declares_result else f"{text} -> None", mode="func_type")
    parts = tree.argtypes
    if len(parts) == 1 and isinstance(parts[0], ast.Constant) and parts[0].value is Ellipsis:
        parts = []
    first = len(nodes) - len(parts) if is_method else 0
    if parts and len(parts) != len(nodes) - first:
        fail_at(
            source.short_range(node, 3),
            "Number of type annotations for function parameters "
            f"({len(parts)}) does not match the number of parameters on the function "
            f"({len(nodes)})!",
        )
    for place, part in enumerate(parts):
        found[first + place] = resolver.annotated(shifted(part), source)
    if not declares_result:
        return found, None
    return found, resolver.annotation(shifted(tree.returns), source)


def shifted(node: ast.expr) -> ast.expr:
    """A tree from a comment: its places mean nothing in the text."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr):
            part.lineno = part.end_lineno = 1
            part.col_offset = part.end_col_offset = 0
    return node


def define_function(
    function: Function,
    parsed: Parsed,
    resolver: Resolver,
    self_type: Type | None = None,
    owner: Owner | None = None,
    makes_attributes_of: ClassType | None = None,
) -> None:
    """Compiles a body: fills the function's graph and schema."""
    with compiling(parsed.name):
        set_current_call(lambda: parsed.source.range_of(parsed.node))
        arguments, declared = signature(parsed, resolver, self_type)
        if isinstance(self_type, ClassType) and function.short_name == "__setstate__":
            arguments = with_state_type(arguments, parsed, self_type)
        emitter = Emitter(parsed.source, resolver)
        emitter.makes_attributes_of = makes_attributes_of
        emitter.is_method = self_type is not None
        schema = emitter.function(parsed.node, function.short_name, arguments, declared, owner)
        finish(emitter.graph)
    function.set(emitter.graph, schema)


def with_state_type(
    arguments: list[Argument], parsed: Parsed, self_type: ClassType
) -> list[Argument]:
    """What `__setstate__` takes is what `__getstate__` gives, where it does not say."""
    getter = self_type.methods.get("__getstate__")
    if getter is None or len(arguments) != 2 or all_arguments(parsed.node)[1].annotation:
        return arguments
    getter.ensure_defined()
    return [arguments[0], replace(arguments[1], type=getter.schema.returns[0].type)]


def finish(graph: Graph) -> None:
    convert_to_ssa(graph)
    clean_up(graph)


# -- functions that are called ---------------------------------------------------------------------

# Python function -> what it was compiled to.
COMPILED: MutableMapping[Any, Function] = weakref.WeakKeyDictionary()


def compile_called(function: Any, local: Any = None) -> Function:
    """The compiled form of a Python function: compiled when its schema is first needed."""
    found = COMPILED.get(function)
    if found is None:
        found = new_function(function, local)
        COMPILED[function] = found
    return found


def new_function(function: Any, local: Any = None, unit: CompilationUnit = PYTHON_UNIT) -> Function:
    parsed = parse_function(inspect.unwrap(function))
    resolver = resolver_of(inspect.unwrap(function), local)

    def define(made: Function) -> None:
        define_function(made, parsed, resolver)

    name = unit.claim(qualified_name(function))
    return unit.add_function(Function(name, define=define))


# -- overloads -------------------------------------------------------------------------------------

# Qualified name -> signatures that were declared for it.
OVERLOADS: dict[str, list[Any]] = {}
OVERLOADED: MutableMapping[Any, list[Function]] = weakref.WeakKeyDictionary()


def add_overload(function: Any) -> Any:
    """`@torch.jit._overload`: one more signature of the function of that name."""
    OVERLOADS.setdefault(overload_key(function), []).append(function)
    return function


def overload_key(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def overloads_of(function: Any) -> list[Function]:
    """A function for each declared signature: the signature's types, the function's body."""
    declared = OVERLOADS.get(overload_key(function), [])
    typed = getattr(function, "_jit_overloads", ())
    if (not declared and not typed) or function in declared:
        return []
    if function not in OVERLOADED:
        heads = [with_signature(each, function) for each in declared]
        heads += [with_types(types, function) for types in typed]
        OVERLOADED[function] = [compile_overload(function, *each) for each in heads]
    return OVERLOADED[function]


def with_types(types: dict[str, str], function: Any) -> tuple[Parsed, Resolver]:
    """The body of a function with some of its arguments typed otherwise."""
    parsed, resolver = parse_function(function), resolver_of(function)
    for each in all_arguments(parsed.node):
        if each.arg in types:
            each.annotation = shifted(ast.parse(types[each.arg], mode="eval").body)
            type_, _ = resolver.annotated(each.annotation, parsed.source)
            if not fits(parsed.defaults.get(each.arg), type_):
                # The default is of another of the types.
                parsed.defaults.pop(each.arg, None)
    return parsed, resolver


def with_signature(declared: Any, function: Any) -> tuple[Parsed, Resolver]:
    """The body of a function under another signature."""
    head, body = parse_function(declared), parse_function(function)
    names = [each.arg for each in all_arguments(head.node)]
    own = [each.arg for each in all_arguments(body.node)]
    if names != own:
        raise NotSupportedError(
            head.source.short_range(head.node, 3),
            "Overload parameters must have the same names as those of the implementation",
        )
    resolver = resolver_of(function)
    types = Resolver({**resolver.scope, **resolver_of(declared).scope})
    node = body.node
    for target, source in zip(all_arguments(node), all_arguments(head.node)):
        target.annotation = source.annotation
    node.returns = head.node.returns
    defaults = {**body.defaults, **head.defaults}
    return Parsed(node, body.source, body.name, defaults), types


def compile_overload(function: Any, parsed: Parsed, resolver: Resolver) -> Function:
    name = PYTHON_UNIT.claim(qualified_name(function))

    def define(made: Function) -> None:
        define_function(made, parsed, resolver)

    return PYTHON_UNIT.add_function(Function(name, define=define))
