"""Calls of compiled code: which operator they mean, what is converted, what is refused and how.

The nodes and the errors are those of PyTorch 2.13 for the same calls.
"""

import re

import pytest

from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.parsing import parse_type
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import INT, STR, TENSOR, ListType, TensorType, TupleType
from rushlight.jit.ops.matching import (
    Match,
    MatchError,
    binds_self,
    convert_value,
    emit_builtin,
    match_schema,
)

NAMES = {
    "x": "Tensor",
    "l": "int[]",
    "i": "int",
    "fl": "float",
    "s": "str",
    "o": "int?",
    "t": "(int, int)",
    "n": "Scalar",
    "b": "bool",
    "c": "complex",
    "d": "Dict(str, int)",
}


def inputs():
    graph = Graph()
    values = {name: graph.addInput(name).setType(parse_type(text)) for name, text in NAMES.items()}
    values["x"].setType(TensorType(inferred=True))
    return graph, values


def emitted(kind, args=(), kwargs=None, self=None):
    """The nodes of a call, without types of constants and with plain names."""
    graph, values = inputs()

    def find(given):
        return values[given[1:]] if isinstance(given, str) and given.startswith("%") else given

    named = {name: find(value) for name, value in (kwargs or {}).items()}
    owner = None if self is None else find(self)
    result = emit_builtin(graph, kind, [find(arg) for arg in args], named, self=owner)
    lines = []
    constants = {}
    for node in graph.nodes():
        if node.kind() == "prim::Constant":
            constants[f"%{node.output().debugName()}"] = repr(node.constant_value())
            continue
        operands = [constants.get(f"%{v.debugName()}", f"%{v.debugName()}") for v in node.inputs()]
        results = ", ".join([f"%{v.debugName()}" for v in node.outputs()])
        lines.append(f"{results} = {node.kind()}({', '.join(operands)})".strip())
    # Numbers in the order of their first appearance.
    text = "\n".join(lines)
    seen = {}
    for name in re.findall(r"%\d+", text):
        seen.setdefault(name, f"%r{len(seen)}")
    text = re.sub(r"%\d+", lambda m: seen[m.group()], text)
    return text.split("\n"), result.type().str()


CALLS = [
    (("aten::add", ["%x", "%x"]), ["%r0 = aten::add(%x, %x, 1)"], "Tensor"),
    (("aten::add", ["%x", "%i"]), ["%r0 = aten::add(%x, %i, 1)"], "Tensor"),
    (("aten::add", ["%i", "%i"]), ["%r0 = aten::add(%i, %i)"], "int"),
    (("aten::add", ["%i", "%x"]), ["%r0 = aten::add(%x, %i, 1)"], "Tensor"),
    (
        ("aten::sub", ["%i", "%x"]),
        ["%r0 = aten::neg(%x)", "%r1 = aten::add(%r0, %i, 1)"],
        "Tensor",
    ),
    (
        ("aten::div", ["%fl", "%x"]),
        ["%r0 = aten::reciprocal(%x)", "%r1 = aten::mul(%r0, %fl)"],
        "Tensor",
    ),
    (("aten::lt", ["%i", "%x"]), ["%r0 = aten::gt(%x, %i)"], "Tensor"),
    (
        ("aten::lt", ["%c", "%x"]),
        ["%r0 = aten::ScalarImplicit(%x)", "%r1 = aten::lt(%c, %r0)"],
        "bool",
    ),
    (("aten::floordiv", ["%x", "%i"]), ["%r0 = aten::floor_divide(%x, %i)"], "Tensor"),
    (
        ("aten::floordiv", ["%i", "%x"]),
        ["%r0 = aten::IntImplicit(%x)", "%r1 = aten::floordiv(%i, %r0)"],
        "int",
    ),
    (
        ("aten::select", ["%x", "%x", 0]),
        ["%r0 = aten::IntImplicit(%x)", "%r1 = aten::select(%x, %r0, 0)"],
        "Tensor",
    ),
    (
        ("aten::tensor", ["%x"]),
        ["%r0 = aten::FloatImplicit(%x)", "%r1 = aten::tensor(%r0, None, None, False)"],
        "Tensor",
    ),
    # Sizes: one by one, as a tuple, one for all.
    (
        ("aten::view", ["%i", "%i"], {}, "%x"),
        ["%r0 = prim::ListConstruct(%i, %i)", "%r1 = aten::view(%x, %r0)"],
        "Tensor",
    ),
    (
        ("aten::view", ["%t"], {}, "%x"),
        [
            "%r0, %r1 = prim::TupleUnpack(%t)",
            "%r2 = prim::ListConstruct(%r0, %r1)",
            "%r3 = aten::view(%x, %r2)",
        ],
        "Tensor",
    ),
    (("aten::view", ["%l"], {}, "%x"), ["%r0 = aten::view(%x, %l)"], "Tensor"),
    (
        ("aten::conv2d", ["%x", "%x", None, "%i"]),
        [
            "%r0 = prim::ListConstruct(%i, %i)",
            "%r1 = aten::conv2d(%x, %x, None, %r0, [0, 0], [1, 1], 1)",
        ],
        "Tensor",
    ),
    (
        ("aten::sum", [0], {}, "%x"),
        ["%r0 = prim::ListConstruct(0)", "%r1 = aten::sum(%x, %r0, False, None)"],
        "Tensor",
    ),
    (
        ("aten::avg_pool2d", ["%x", "%i"]),
        [
            "%r0 = prim::ListConstruct(%i, %i)",
            "%r1 = aten::avg_pool2d(%x, %r0, [], [0, 0], False, True, None)",
        ],
        "Tensor",
    ),
    (
        ("aten::zeros", [2], {"device": "%s", "dtype": 6}),
        [
            "%r0 = prim::ListConstruct(2)",
            "%r1 = aten::device(%s)",
            "%r2 = aten::zeros(%r0, 6, None, %r1, None)",
        ],
        "Tensor",
    ),
    (("aten::to", ["%x"], {}, "%x"), ["%r0 = aten::to(%x, %x, False, False, None)"], "Tensor"),
    (("aten::to", [6], {}, "%x"), ["%r0 = aten::to(%x, 6, False, False, None)"], "Tensor"),
    (
        ("aten::max", ["%x", 0]),
        ["%r0, %r1 = aten::max(%x, 0, False)", "%r2 = prim::TupleConstruct(%r0, %r1)"],
        "NamedTuple(values : Tensor, indices : Tensor)",
    ),
    (
        ("aten::meshgrid", ["%x", "%x"]),
        ["%r0 = prim::ListConstruct(%x, %x)", "%r1 = aten::meshgrid(%r0)"],
        "Tensor[]",
    ),
    (
        ("aten::reverse", [], {}, "%l"),
        ["= aten::reverse(%l)", "%r0 = prim::TupleConstruct()"],
        "()",
    ),
    (("aten::format", ["%i", "%fl"], {}, "%s"), ["%r0 = aten::format(%s, %i, %fl)"], "str"),
    (
        ("aten::__contains__", ["%s", "k"]),
        [
            "%r0 = aten::len(%s)",
            "%r1 = aten::find(%s, 'k', 0, %r0)",
            "%r2 = aten::ne(%r1, -1)",
        ],
        "bool",
    ),
    (("aten::__contains__", ["%d", "%s"]), ["%r0 = aten::__contains__(%d, %s)"], "bool"),
    (("prim::shape", ["%x"]), ["%r0 = aten::size(%x)"], "int[]"),
    (("aten::len", ["%i"]), ["%r0 = prim::ListConstruct(%i)", "%r1 = aten::len(%r0)"], "int"),
    (("aten::get", ["a", 3], {}, "%d"), ["%r0 = aten::get(%d, 'a', 3)"], "int"),
    (("aten::get", ["a"], {}, "%d"), ["%r0 = aten::get(%d, 'a')"], "int?"),
    (("aten::add", ["%n", "%i"]), ["%r0 = aten::add(%n, %i)"], "Scalar"),
    (
        ("aten::Bool", ["%n"]),
        ["%r0 = aten::Int(%n)", "%r1 = aten::Bool(%r0)"],
        "bool",
    ),
]


@pytest.mark.parametrize(("call", "nodes", "result"), CALLS, ids=lambda x: str(x)[:60])
def test_calls(call, nodes, result):
    assert emitted(*call) == (nodes, result)


SOURCE = "def f(x, s: str):\n    return torch.add(x, s)\n"
PLACE = SourceRange("a.py", 2, 11, SOURCE, 29, 38)


def refused(kind, args=(), kwargs=None, self=None):
    graph, values = inputs()
    before = str(graph)
    named = {name: values[value] for name, value in (kwargs or {}).items()}
    owner = None if self is None else values[self]
    with pytest.raises(MatchError) as caught:
        emit_builtin(graph, kind, [values.get(arg, arg) for arg in args], named, PLACE, owner)
    # What did not fit has left nothing behind.
    assert str(graph) == before
    return str(caught.value)


def test_several_operators_are_listed_with_reasons():
    text = refused("aten::add", ["x", "s"])
    assert text.startswith(
        "\nArguments for call are not valid.\nThe following variants are available:\n  \n"
        "  aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor:\n"
        "  Expected a value of type 'Tensor' for argument 'other' but instead found type 'str'.\n"
        "  \n"
        "  aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor:\n"
        "  Expected a value of type 'number' for argument 'other' but instead found type 'str'.\n"
    )
    assert (
        "  aten::add.t(t[] a, t[] b) -> t[]:\n"
        "  Could not match type Tensor (inferred) to List[t] in argument 'a': Cannot match List[t] "
        "to Tensor (inferred).\n"
        "  \n"
        "  aten::add.str(str a, str b) -> str:\n"
        "  Expected a value of type 'str' for argument 'a' but instead found type "
        "'Tensor (inferred)'.\n"
        "  Inferred the value for argument 'a' to be of type 'Tensor' because it was not annotated "
        "with an explicit type.\n"
    ) in text
    assert text.endswith(
        "  add(complex a, Tensor b) -> Tensor:\n"
        "  Expected a value of type 'Tensor' for argument 'b' but instead found type 'str'.\n"
        "\nThe original call is:\n"
        '  File "a.py", line 2\n'
        "def f(x, s: str):\n    return torch.add(x, s)\n           ~~~~~~~~~ <--- HERE\n"
    )


def test_a_single_operator_is_named_alone():
    assert refused("aten::append", ["fl"], self="l").startswith(
        "\n\naten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!):\n"
        "Could not match type float to t in argument 'el': Type variable 't' previously matched to "
        "type int is matched to type float.\n:\n"
    )


def test_operators_without_an_out_form_are_single():
    assert refused("aten::dropout", ["x", "i", True]).startswith(
        "\n\naten::dropout(Tensor input, float p, bool train) -> Tensor:\n"
        "Expected a value of type 'float' for argument 'p' but instead found type 'int'.\n:\n"
    )


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("aten::add", ["x"]), "Argument other not provided."),
        (
            ("aten::relu", ["x", "x"]),
            "Expected at most 1 arguments but found 2 positional arguments.",
        ),
        (("aten::relu", ["x"], {"self": "x"}), "Keyword argument self specified twice."),
        (("aten::relu", ["x"], {"y": "x"}), "Keyword argument y unknown."),
        (
            ("aten::view", ["s"], {}, "x"),
            "Expected a value of type 'int' for argument '<varargs>' but instead found type 'str'.",
        ),
        (
            ("aten::dropout", ["x", "i", True]),
            "Expected a value of type 'float' for argument 'p' but instead found type 'int'.",
        ),
        (
            ("aten::relu", ["o"]),
            "Expected a value of type 'Tensor' for argument 'self' but instead found type "
            "'Optional[int]'.",
        ),
        (
            ("aten::zeros", ["l"], {"dtype": "s"}),
            "Expected a value of type 'Optional[int]' for argument 'dtype' but instead found type "
            "'str'.",
        ),
    ],
)
def test_reasons(call, reason):
    assert reason in refused(*call)


def test_names_that_no_operator_has():
    text = refused("aten::is_tensor", ["x"])
    assert text.startswith(
        "\nUnknown builtin op: aten::is_tensor.\nHere are some suggestions: \n\taten::as_tensor\n"
    )
    assert "\nThe original call is:\n" in text


def test_conversions_can_be_left_out():
    from rushlight.jit.ir.operators import find_operator

    graph, values = inputs()
    schema = find_operator("aten::select.int").schema
    args = [values["x"], values["x"], 0]
    assert isinstance(match_schema(schema, graph, args, {}), Match)
    reason = match_schema(schema, graph, args, {}, allow_conversions=False)
    assert reason.startswith("Expected a value of type 'int' for argument 'dim'")


def test_values_are_converted_where_tuples_stand_for_lists():
    graph, values = inputs()
    made = convert_value(graph, values["t"], ListType(INT))
    assert made.type() == ListType(INT) and made.node().kind() == "prim::ListConstruct"
    assert convert_value(graph, values["i"], INT) is values["i"]
    inner = graph.insertNode(graph.create("prim::TupleConstruct", [values["t"], values["s"]]))
    inner.output().setType(TupleType([values["t"].type(), STR]))
    wanted = TupleType([ListType(INT), STR])
    assert convert_value(graph, inner.output(), wanted).type() == wanted


def test_methods_are_operators_whose_first_argument_fits():
    from rushlight.jit.ir.operators import find_operator

    append = find_operator("aten::append.t").schema
    assert binds_self(append, ListType(STR)) and not binds_self(append, TENSOR)
