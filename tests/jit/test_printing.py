"""Constants in the text of graphs: what PyTorch 2.13 prints for the same values."""

import math

import pytest

import rushlight as torch
from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.parsing import parse_ir

# A value, its type, and what stands in the brackets.
CONSTANTS = [
    (1, "int", "[value=1]"),
    (True, "bool", "[value=1]"),
    (2.5, "float", "[value=2.5]"),
    (3.0, "float", "[value=3.]"),
    (0.1, "float", "[value=0.10000000000000001]"),
    (1e20, "float", "[value=1e+20]"),
    (math.inf, "float", "[value=inf]"),
    (math.nan, "float", "[value=nan]"),
    (-0.0, "float", "[value=-0.]"),
    (1e-7, "float", "[value=9.9999999999999995e-08]"),
    ('a"b\n\\', "str", '[value="a\\"b\\n\\\\"]'),
    (None, "NoneType", ""),
    (1 + 2j, "complex", "[value=1.+2.j]"),
    ([1, 2], "int[]", "[value=[1, 2]]"),
    ([True], "bool[]", "[value=[True]]"),
    (["a"], "str[]", '[value=["a"]]'),
    ((1, "a"), "(int, str)", '[value=(1, "a")]'),
    ({"a": 1}, "Dict(str, int)", '[value={"a": 1}]'),
    (torch.device("cpu"), "Device", '[value="cpu"]'),
    (torch.float32, "int", "[value=6]"),
    (torch.strided, "int", "[value=0]"),
]
FLOATS = "requires_grad=0, device=cpu)"
TENSORS = [
    (lambda: torch.tensor(4), f"Long({FLOATS}", "{4}"),
    (lambda: torch.tensor(2.5), f"Float({FLOATS}", "{2.5}"),
    (lambda: torch.tensor(True), f"Bool({FLOATS}", "{1}"),
    (lambda: torch.tensor(1 + 1j), f"ComplexFloat({FLOATS}", "{(1,1)}"),
    (lambda: torch.ones(2), f"Float(2, strides=[1], {FLOATS}", " 1  1 [ CPUFloatType{2} ]"),
    (
        lambda: torch.arange(4).view(2, 2),
        f"Long(2, 2, strides=[2, 1], {FLOATS}",
        " 0  1  2  3 [ CPULongType{2,2} ]",
    ),
    (lambda: torch.zeros(11), f"Float(11, strides=[1], {FLOATS}", "<Tensor>"),
    (
        lambda: torch.tensor([0.1, 100.0]),
        f"Float(2, strides=[1], {FLOATS}",
        "   0.1000  100.0000 [ CPUFloatType{2} ]",
    ),
    (
        lambda: torch.tensor([1e-5, 1.0]),
        f"Float(2, strides=[1], {FLOATS}",
        " 1.0000e-05  1.0000e+00 [ CPUFloatType{2} ]",
    ),
    (
        lambda: torch.tensor([0.001, 0.002]),
        f"Float(2, strides=[1], {FLOATS}",
        "0.001 *  1.0000  2.0000 [ CPUFloatType{2} ]",
    ),
    (
        lambda: torch.tensor([math.inf, 1.5]),
        f"Float(2, strides=[1], {FLOATS}",
        "    inf  1.5000 [ CPUFloatType{2} ]",
    ),
    (lambda: torch.zeros(0), f"Float(0, strides=[1], {FLOATS}", "[ CPUFloatType{0} ]"),
    (
        lambda: torch.zeros(2, 2, 2),
        f"Float(2, 2, 2, strides=[4, 2, 1], {FLOATS}",
        "(1,.,.) =   0  0   0  0  (2,.,.) =   0  0   0  0 [ CPUFloatType{2,2,2} ]",
    ),
]


def text_of(value):
    graph = Graph()
    graph.registerOutput(graph.insertConstant(value))
    graph.lint()
    return str(graph)


@pytest.mark.parametrize(("value", "type_", "brackets"), CONSTANTS)
def test_constants(value, type_, brackets):
    expected = f"graph():\n  %0 : {type_} = prim::Constant{brackets}()\n  return (%0)\n"
    assert text_of(value) == expected


@pytest.mark.parametrize(("make", "type_", "held"), TENSORS)
def test_tensors(make, type_, held):
    expected = f"graph():\n  %0 : {type_} = prim::Constant[value={held}]()\n  return (%0)\n"
    assert text_of(make()) == expected


PROGRAM = """graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu),
      %y.1 : Tensor?,
      %z : Dict(str, Tensor)[],
      %w : (Tensor, int),
      %n : int):
  %5 : int = prim::Constant[value=1]()
  %6 : str = prim::Constant[value="a\\n\\"b"]()
  %7 : NoneType = prim::Constant()
  %8 : bool = prim::Constant[value=1]()
  %9 : int[] = prim::Constant[value=[1, 2]]()
  %10 : Tensor = aten::add(%x, %x, %5)
  %11 : Tensor = prim::If(%8)
    block0():
      %12 : Tensor = aten::neg(%10)
      -> (%12)
    block1():
      -> (%10)
  %13 : Tensor, %14 : int = prim::Loop(%n, %8, %11, %5)
    block0(%i : int, %c1 : Tensor, %e1 : int):
      %18 : Tensor = aten::relu(%c1)
       = prim::Print(%6)
      -> (%8, %18, %i)
  %19 : Tensor = my::op[name="forward", n=3, fs=[1.5, 2.], ss=["a"]](%13)
  return (%19, %14)
"""


def test_a_program_is_read_and_printed_the_same():
    graph = parse_ir(PROGRAM)
    graph.lint()
    assert str(graph) == PROGRAM
    assert str(graph.copy()) == PROGRAM
    graph.copy().lint()


def test_tensors_are_read_back():
    for make, _, held in TENSORS:
        if held == "<Tensor>" or "ComplexFloat" in held or held == "{(1,1)}":
            continue
        text = text_of(make())
        assert str(parse_ir(text)) == text


def test_a_tensor_that_the_text_does_not_hold():
    text = text_of(torch.zeros(11))
    with pytest.raises(RuntimeError, match="parse_tensor_constants=True"):
        parse_ir(text)
    graph = parse_ir(text, parse_tensor_constants=True)
    assert graph.outputs()[0].toIValue().shape == (11,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("graph(%x : Tensor):\n  return (%y)\n", "%y is not"),
        ("graph(%x : Strange):\n  return (%x)\n", "expected a type in line 1"),
        ("graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x\n  return (%y)\n", "expected"),
        ("graph(%x : Tensor):\n  return (%x)\nmore", "the end of the graph"),
        ("", "expected"),
    ],
)
def test_texts_that_are_no_graphs(text, reason):
    with pytest.raises(RuntimeError, match=reason):
        parse_ir(text)
