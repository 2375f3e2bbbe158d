"""How nodes that are no operators are written: control flow, containers, objects, calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.jit.ir.graph import Node, Value
from rushlight.jit.ir.types import ClassType, TupleType
from rushlight.jit.runtime.values import (
    bind_python,
    container_item,
    has_type,
    make_object,
    named_tuple,
    start_fork,
    unpack_list,
)

if TYPE_CHECKING:
    from rushlight.jit.runtime.program import Writer

# Nodes that give their input under another type.
ALIASES = frozenset(("prim::unchecked_cast", "prim::unchecked_unwrap_optional"))
# The trip count of a loop without one.
ENDLESS = 2**63 - 1


def root(value: Value) -> Value:
    """The value that another is a second name of."""
    while value._node._kind in ALIASES:
        value = value._node._inputs[0]
    return value


Form = Callable[["Writer", Node], None]
FORMS: dict[str, Form] = {}


def form(*kinds: str) -> Callable[[Form], Form]:
    def attach(function: Form) -> Form:
        for kind in kinds:
            FORMS[kind] = function
        return function

    return attach


@form("prim::Constant", *sorted(ALIASES))
def write_nothing(w: Writer, node: Node) -> None:
    """Constants stand where they are used; a value by another name has no line."""


# -- control flow ----------------------------------------------------------------------------------


@form("prim::If")
def write_if(w: Writer, node: Node) -> None:
    names = [w.name_of(value) if value._uses else "" for value in node._outputs]
    w.add(f"if {w.text(node._inputs[0])}:", node)
    w.depth += 1
    write_arm(w, node, 0, names)
    w.depth -= 1
    before = len(w.lines)
    w.add("else:")
    w.depth += 1
    write_arm(w, node, 1, names)
    w.depth -= 1
    if w.lines[before + 1 :] == ["    " * (w.depth + 1) + "pass"]:
        del w.lines[before:]


def write_arm(w: Writer, node: Node, place: int, names: list[str]) -> None:
    block = node._blocks[place]
    results = [(n, root(v)) for n, v in zip(names, block.outputs(), strict=True) if n]
    for name, value in results:
        # What the arm makes last gets its name at once.
        if w.is_named_in(value, block) and value not in w.texts:
            w.texts[value] = name
    before = len(w.lines)
    w.write_block(block)
    moved = [(name, text) for name, value in results if (text := w.text(value)) != name]
    if moved:
        w.add(f"{', '.join([n for n, _ in moved])} = {', '.join([t for _, t in moved])}", node)
    elif len(w.lines) == before:
        w.add("pass")


@form("prim::Loop")
def write_loop(w: Writer, node: Node) -> None:
    body = node._blocks[0]
    count, condition, *initial = node._inputs
    index, *carried = body.inputs()
    goes_on, *following = body.outputs()
    # What the loop gives is what it carries last.
    names = [w.name_of(value) for value in node._outputs]
    for name, value, inner in zip(names, initial, carried, strict=True):
        w.texts[inner] = name
        w.add(f"{name} = {w.text(value)}", node)
    always = is_true(condition) and is_true(goes_on)
    endless = constant_of(count) == ENDLESS
    step = ""
    if always and not endless:
        w.add(f"for {w.name_of(index)} in range({w.text(count)}):", node)
    else:
        flag = "True"
        if not always:
            flag = w.free_name("v_", "goes_on")
            w.add(f"{flag} = {w.text(condition)}", node)
        tests = [flag]
        if index._uses or not endless:
            step = w.name_of(index)
            w.add(f"{step} = 0", node)
            if not endless:
                tests.append(f"{step} < {w.text(count)}")
        w.add(f"while {' and '.join(tests)}:", node)
    w.depth += 1
    before = len(w.lines)
    w.write_block(body)
    targets = list(names)
    sources = [w.text(value) for value in following]
    if not always:
        targets.append(flag)
        sources.append(w.text(goes_on))
    moved = [(t, s) for t, s in zip(targets, sources, strict=True) if t != s]
    if moved:
        w.add(f"{', '.join([t for t, _ in moved])} = {', '.join([s for _, s in moved])}", node)
    made = dict.fromkeys([root(value) for value in following])
    ended = [w.texts[value] for value in made if w.is_made_in(value, body)]
    if ended:
        w.add(f"del {', '.join(ended)}")
    if step:
        w.add(f"{step} += 1", node)
    if len(w.lines) == before:
        w.add("pass")
    w.depth -= 1


def constant_of(value: Value) -> Any:
    return value.toIValue()


def is_true(value: Value) -> bool:
    return value._node._kind == "prim::Constant" and value._node.constant_value() is True


@form("prim::Enter")
def write_enter(w: Writer, node: Node) -> None:
    """What follows runs inside: an error leaves as well."""
    w.assign(node, f"{w.bind('call_method', call_method)}({w.text(node._inputs[0])}, '__enter__')")
    w.add("try:")
    w.depth += 1
    w.add("pass")


@form("prim::Exit")
def write_exit(w: Writer, node: Node) -> None:
    thing, *rest = [w.text(value) for value in node._inputs]
    leave = w.bind("call_method", call_method)
    w.depth -= 1
    w.add("except BaseException:")
    w.depth += 1
    w.add(f"{leave}({thing}, '__exit__', None, None, None)", node)
    w.add("raise")
    w.depth -= 1
    w.assign(node, f"{leave}({thing}, '__exit__', {', '.join(rest or ['None'] * 3)})")


# -- containers ------------------------------------------------------------------------------------


def listed(w: Writer, node: Node) -> str:
    return ", ".join([w.text(value) for value in node._inputs])


@form("prim::TupleConstruct")
def write_tuple(w: Writer, node: Node) -> None:
    type_ = node._outputs[0]._type
    items = listed(w, node)
    if isinstance(type_, TupleType) and type_.name:
        w.assign(node, f"{w.bind(type_.name, named_tuple(type_))}({items})")
    else:
        w.assign(node, f"({items}{',' if node.inputsSize() == 1 else ''})")


@form("prim::ListConstruct")
def write_list(w: Writer, node: Node) -> None:
    w.assign(node, f"[{listed(w, node)}]")


@form("prim::DictConstruct")
def write_dict(w: Writer, node: Node) -> None:
    texts = [w.text(value) for value in node._inputs]
    pairs = [f"{key}: {value}" for key, value in zip(texts[::2], texts[1::2], strict=True)]
    w.assign(node, f"{{{', '.join(pairs)}}}")


@form("prim::TupleUnpack")
def write_tuple_unpack(w: Writer, node: Node) -> None:
    write_unpack(w, node, w.text(node._inputs[0]))


@form("prim::ListUnpack")
def write_list_unpack(w: Writer, node: Node) -> None:
    source = w.text(node._inputs[0])
    write_unpack(w, node, f"{w.bind('unpack_list', unpack_list)}({source}, {node.outputsSize()})")


def write_unpack(w: Writer, node: Node, source: str) -> None:
    if not node._outputs:
        w.add(source, node)
        return
    names = [w.name_of(value) if value._uses else "_" for value in node._outputs]
    w.add(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {source}", node)
    if "_" in names:
        w.add("del _")


@form("prim::TupleIndex")
def write_tuple_index(w: Writer, node: Node) -> None:
    source, index = [w.text(value) for value in node._inputs]
    w.assign(node, f"{source}[{index}]")


@form("prim::TupleSlice")
def write_tuple_slice(w: Writer, node: Node) -> None:
    source = w.text(node._inputs[0])
    w.assign(node, f"{source}[{node.read('i', 'beg')}:{node.read('i', 'end')}]")


# -- objects and calls -----------------------------------------------------------------------------


@form("prim::CreateObject")
def write_create(w: Writer, node: Node) -> None:
    type_ = node._outputs[0]._type
    w.assign(node, f"{w.bind('make_object', make_object)}({w.bind(str(type_), type_)})")


@form("prim::GetAttr")
def write_get(w: Writer, node: Node) -> None:
    w.assign(node, f"{w.text(node._inputs[0])}.values[{node.read('s', 'name')!r}]")


@form("prim::ModuleContainerIndex")
def write_container_index(w: Writer, node: Node) -> None:
    thing, index = [w.text(value) for value in node._inputs]
    w.assign(node, f"{w.bind('container_item', container_item)}({thing}, {index})")


@form("prim::SetAttr")
def write_set(w: Writer, node: Node) -> None:
    thing, value = [w.text(value) for value in node._inputs]
    w.add(f"{thing}.values[{node.read('s', 'name')!r}] = {value}", node)


@form("prim::CallFunction")
def write_call(w: Writer, node: Node) -> None:
    from rushlight.jit.runtime.program import raw_program

    callee, *given = node._inputs
    function = callee._type.function  # type: ignore[attr-defined]
    texts = ", ".join([w.text(value) for value in given])
    w.assign(node, f"{w.bind(function.name, raw_program(function))}({texts})")


@form("prim::CallMethod")
def write_method(w: Writer, node: Node) -> None:
    from rushlight.jit.runtime.program import raw_program

    name = node.read("s", "name")
    owner = node._inputs[0]._type
    texts = [w.text(value) for value in node._inputs]
    if isinstance(owner, ClassType):
        function = owner.methods[name]
        w.assign(node, f"{w.bind(function.name, raw_program(function))}({', '.join(texts)})")
        return
    call = w.bind("call_method", call_method)
    w.assign(node, f"{call}({texts[0]}, {', '.join([repr(name), *texts[1:]])})")


def call_method(thing: Any, name: str, *args: Any) -> Any:
    """A method of an object whose class is not known before the call."""
    return thing.type.methods[name].program.raw(thing, *args)


@form("prim::PythonOp", "prim::IgnoredPythonOp")
def write_python(w: Writer, node: Node) -> None:
    assert node.python is not None
    is_inplace = "inplace" in node._attributes and bool(node.read("i", "inplace"))
    text = f"{w.bind(node.python.name, bind_python(node.python, is_inplace))}({listed(w, node)})"
    if not node.python.is_function_class:
        from rushlight.jit.objects.binding import cast_result

        declared = w.bind("declared", node.output().type())
        text = f"{w.bind('cast_result', cast_result)}({text}, {declared})"
    w.assign(node, text)


@form("prim::fork")
def write_fork(w: Writer, node: Node) -> None:
    from rushlight.jit.runtime.program import compile_graph

    # A thread of its own: errors are told when somebody waits for it.
    program = compile_graph(node.read("g", "Subgraph"), "<forked function>")
    given = ", ".join([w.bind("forked", program), *[w.text(value) for value in node._inputs]])
    w.assign(node, f"{w.bind('start_fork', start_fork)}({given})")


@form("prim::awaitable")
def write_awaitable(w: Writer, node: Node) -> None:
    from rushlight.jit.awaits import _awaitable
    from rushlight.jit.runtime.program import compile_graph

    program = compile_graph(node.read("g", "Subgraph"), "<awaited function>")
    given = ", ".join([w.bind("awaited", program), *[w.text(value) for value in node._inputs]])
    w.assign(node, f"{w.bind('awaitable', _awaitable)}({given})")


@form("prim::DifferentiableGraph", "prim::FunctionalGraph", "prim::FusionGroup")
def write_subgraph(w: Writer, node: Node) -> None:
    w.assign(node, f"{w.bind('subgraph', subgraph_program(node))}({listed(w, node)})")


def subgraph_program(node: Node) -> Callable[..., Any]:
    from rushlight.jit.runtime.program import compile_raw

    return compile_raw(node.read("g", "Subgraph"), node._kind.partition("::")[2])


@form("aten::warn")
def write_warning(w: Writer, node: Node) -> None:
    from rushlight.jit.ops.objects import warn_at

    place = node.source
    where = f"{(place.file or f'<{w.name}>')!r}, {place.line}"
    w.add(f"{w.bind('warn_at', warn_at)}({w.text(node._inputs[0])}, {where})", node)


@form("prim::isinstance")
def write_isinstance(w: Writer, node: Node) -> None:
    types = w.bind("types", list(node.read("tys", "types")))
    w.assign(node, f"{w.bind('has_type', has_type)}({w.text(node._inputs[0])}, {types})")


@form("prim::Uninitialized")
def write_uninitialized(w: Writer, node: Node) -> None:
    w.assign(node, "None")
