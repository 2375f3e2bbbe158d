"""Graphs run as Python functions: control flow, containers, objects, aliasing, memory, errors."""

import gc
import linecache
import weakref

import pytest

import rushlight as torch
from rushlight.core.source import source_of
from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.numbers import wrap_number
from rushlight.jit.ir.parsing import parse_ir
from rushlight.jit.ir.parts import PythonCall, SourceRange
from rushlight.jit.ir.types import (
    BOOL,
    INT,
    TENSOR,
    ClassType,
    FunctionType,
    InterfaceType,
    ListType,
    TupleType,
)
from rushlight.jit.runtime.errors import Error
from rushlight.jit.runtime.program import compile_graph
from rushlight.jit.unit import Function, Instance


def program(text):
    graph = parse_ir(text)
    graph.lint()
    return compile_graph(graph, "f")


# -- values: each graph ran on PyTorch 2.13 with the same inputs and gave the same results ---------

GRAPHS = {
    "for loop": (
        """graph(%n : int):
          %true : bool = prim::Constant[value=1]()
          %zero : int = prim::Constant[value=0]()
          %s : int = prim::Loop(%n, %true, %zero)
            block0(%i : int, %a : int):
              %b : int = aten::add(%a, %i)
              -> (%true, %b)
          return (%s)""",
        [((4,), 6), ((0,), 0), ((-3,), 0)],
    ),
    "while loop": (
        """graph(%n : int):
          %most : int = prim::Constant[value=9223372036854775807]()
          %one : int = prim::Constant[value=1]()
          %two : int = prim::Constant[value=2]()
          %start : bool = aten::gt(%n, %one)
          %m : int, %k : int = prim::Loop(%most, %start, %n, %one)
            block0(%i : int, %a : int, %c : int):
              %h : int = aten::floordiv(%a, %two)
              %go : bool = aten::gt(%h, %one)
              -> (%go, %h, %i)
          %r : (int, int) = prim::TupleConstruct(%m, %k)
          return (%r)""",
        [((40,), (1, 4)), ((1,), (1, 1)), ((2,), (1, 0))],
    ),
    "bounded loop that ends early": (
        """graph(%n : int, %stop : int):
          %true : bool = prim::Constant[value=1]()
          %zero : int = prim::Constant[value=0]()
          %s : int = prim::Loop(%n, %true, %zero)
            block0(%i : int, %a : int):
              %b : int = aten::add(%a, %i)
              %go : bool = aten::lt(%b, %stop)
              -> (%go, %b)
          return (%s)""",
        [((10, 5), 6), ((3, 100), 3), ((0, 5), 0)],
    ),
    "loop that swaps what it carries": (
        """graph(%n : int, %x : int, %y : int):
          %true : bool = prim::Constant[value=1]()
          %a : int, %b : int = prim::Loop(%n, %true, %x, %y)
            block0(%i : int, %p : int, %q : int):
              -> (%true, %q, %p)
          %r : int[] = prim::ListConstruct(%a, %b)
          return (%r)""",
        [((3, 1, 2), [2, 1]), ((4, 1, 2), [1, 2])],
    ),
    "loop whose start is what it gives elsewhere": (
        """graph(%n : int):
          %true : bool = prim::Constant[value=1]()
          %one : int = prim::Constant[value=1]()
          %a : int = prim::Loop(%n, %true, %one)
            block0(%i : int, %p : int):
              %q : int = aten::add(%p, %p)
              -> (%true, %q)
          %b : int = prim::Loop(%n, %true, %a)
            block0(%j : int, %p2 : int):
              %q2 : int = aten::add(%p2, %a)
              -> (%true, %q2)
          %r : int[] = prim::ListConstruct(%a, %b)
          return (%r)""",
        [((2,), [4, 12]), ((0,), [1, 1])],
    ),
    "branches that hand values on": (
        """graph(%c : bool, %x : int, %y : int):
          %a : int, %b : int, %d : int = prim::If(%c)
            block0():
              %s : int = aten::add(%x, %y)
              -> (%s, %s, %x)
            block1():
              -> (%y, %x, %y)
          %r : int[] = prim::ListConstruct(%a, %b, %d)
          return (%r)""",
        [((True, 1, 2), [3, 3, 1]), ((False, 1, 2), [2, 1, 2])],
    ),
    "branches and loops inside one another": (
        """graph(%n : int):
          %true : bool = prim::Constant[value=1]()
          %zero : int = prim::Constant[value=0]()
          %two : int = prim::Constant[value=2]()
          %s : int = prim::Loop(%n, %true, %zero)
            block0(%i : int, %a : int):
              %rest : int = aten::remainder(%i, %two)
              %even : bool = aten::eq(%rest, %zero)
              %b : int = prim::If(%even)
                block0():
                  %c : int = prim::Loop(%i, %true, %a)
                    block0(%j : int, %d : int):
                      %e : int = aten::add(%d, %j)
                      -> (%true, %e)
                  -> (%c)
                block1():
                  %f : int = aten::mul(%a, %two)
                  -> (%f)
              -> (%true, %b)
          return (%s)""",
        [((6,), 16), ((1,), 0)],
    ),
    "several outputs": (
        """graph(%x : int):
          %s : str = prim::Constant[value="a\\"b"]()
          return (%x, %s, %x)""",
        [((3,), (3, 'a"b', 3))],
    ),
    "tuples": (
        """graph(%t : (int, (int, str))):
          %one : int = prim::Constant[value=1]()
          %a : int, %b : (int, str) = prim::TupleUnpack(%t)
          %c : int, %d : str = prim::TupleUnpack(%b)
          %e : (int, str) = prim::TupleIndex(%t, %one)
          %f : (int, str)[] = prim::ListConstruct(%b, %e)
          %g : int = aten::add(%a, %c)
          %h : (int) = prim::TupleConstruct(%g)
          %i : () = prim::TupleConstruct()
          %r : ((int), (int, str)[], (), str) = prim::TupleConstruct(%h, %f, %i, %d)
          return (%r)""",
        [(((1, (2, "x")),), ((3,), [(2, "x"), (2, "x")], (), "x"))],
    ),
    "dicts and lists": (
        """graph(%k : str, %v : int):
          %b : str = prim::Constant[value="b"]()
          %d : Dict(str, int) = prim::DictConstruct(%k, %v, %b, %v)
          %w : int = aten::__getitem__(%d, %k)
          %l : int[] = aten::values(%d)
          %m : int[] = aten::append(%l, %w)
          %o : int, %p : int, %q : int = prim::ListUnpack(%l)
          %s : int = aten::add(%o, %q)
          %r : (int, int[], Dict(str, int)) = prim::TupleConstruct(%s, %m, %d)
          return (%r)""",
        [(("a", 5), (10, [5, 5, 5], {"a": 5, "b": 5}))],
    ),
    "optional": (
        """graph(%x : int?):
          %none : NoneType = prim::Constant()
          %zero : int = prim::Constant[value=0]()
          %c : bool = aten::__is__(%x, %none)
          %r : int = prim::If(%c)
            block0():
              -> (%zero)
            block1():
              %y : int = prim::unchecked_cast(%x)
              %z : int = aten::add(%y, %y)
              -> (%z)
          return (%r)""",
        [((None,), 0), ((4,), 8)],
    ),
    "floats that are no literals": (
        """graph(%x : float):
          %inf : float = prim::Constant[value=inf]()
          %m : float = prim::Constant[value=-2.5]()
          %p : float = aten::mul(%m, %m)
          %c : bool = aten::lt(%x, %inf)
          %n : float = aten::neg(%m)
          %r : (float, bool, float) = prim::TupleConstruct(%p, %c, %n)
          return (%r)""",
        [((1.0,), (6.25, True, 2.5)), ((float("inf"),), (6.25, False, 2.5))],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_give_what_their_nodes_give(name):
    text, runs = GRAPHS[name]
    run = program(text)
    for args, expected in runs:
        result = run(*args)
        assert result == expected and type(result) is type(expected), args


def test_tensors_follow_autograd():
    run = program(
        """graph(%x : Tensor, %w : Tensor):
          %one : int = prim::Constant[value=1]()
          %m : Tensor = aten::mm(%x, %w)
          %a : Tensor = aten::add(%m, %one, %one)
          %t : Tensor = aten::tanh(%a)
          return (%t)"""
    )
    x, w = torch.rand(2, 3), torch.rand(3, 2, requires_grad=True)
    result = run(x, w)
    expected = torch.tanh(torch.mm(x, w) + 1)
    assert torch.equal(result, expected)
    (grad,) = torch.autograd.grad(result.sum(), w, create_graph=True)
    (known,) = torch.autograd.grad(expected.sum(), w, create_graph=True)
    assert torch.equal(grad, known)
    assert torch.equal(*[torch.autograd.grad(g.sum(), w)[0] for g in (grad, known)])


def test_views_alias_and_in_place_ops_write():
    run = program(
        """graph(%x : Tensor):
          %zero : int = prim::Constant[value=0]()
          %one : int = prim::Constant[value=1]()
          %row : Tensor = aten::select(%x, %zero, %one)
          %w : Tensor = aten::add_(%row, %one, %one)
          %f : Tensor = aten::fill_(%w, %one)
          return (%x, %row)"""
    )
    x = torch.zeros(3, 2)
    same, row = run(x)
    assert same is x
    assert x.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert row.data_ptr() == x[1].data_ptr()


def test_dtypes_and_their_like_are_numbers_in_graphs():
    run = program(
        """graph(%x : Tensor, %code : int?):
          %six : int = prim::Constant[value=6]()
          %false : bool = prim::Constant[value=0]()
          %none : NoneType = prim::Constant()
          %zero : int = prim::Constant[value=0]()
          %cpu : Device = prim::Constant[value="cpu"]()
          %two : int = prim::Constant[value=2]()
          %n : int = prim::dtype(%x)
          %y : Tensor = aten::to(%x, %six, %false, %false, %zero)
          %size : int[] = prim::ListConstruct(%two, %two)
          %z : Tensor = aten::zeros(%size, %code, %zero, %cpu, %none)
          %w : Tensor = aten::zeros(%size, %n, %none, %none, %none)
          return (%y, %z, %w, %n)"""
    )
    x = torch.ones(2, dtype=torch.int16)
    y, z, w, code = run(x, 7)
    assert (y.dtype, z.dtype, w.dtype, code) == (torch.float32, torch.float64, torch.int16, 2)
    assert run(x, None)[1].dtype is torch.float32
    # A constant is converted when the graph is compiled, not when it runs.
    assert "as_dtype(v_code)" in source_of(run.raw) and "as_dtype(6)" not in source_of(run.raw)


def test_lists_of_sizes_may_be_made_at_run_time():
    run = program(
        """graph(%x : Tensor, %s : int[]):
          %minus : int = prim::Constant[value=-1]()
          %l : int[] = aten::append(%s, %minus)
          %y : Tensor = aten::reshape(%x, %s)
          %p : Tensor[] = prim::ListConstruct(%y, %y)
          %zero : int = prim::Constant[value=0]()
          %c : Tensor = aten::cat(%p, %zero)
          return (%c)"""
    )
    assert run(torch.rand(4, 3), [2]).shape == (4, 6)


def test_numbers_that_stand_for_tensors_do_not_widen():
    graph = Graph()
    x = graph.addInput("x")
    graph.registerOutput(graph.insert("aten::add", x, wrap_number(1.5), 1))
    run = compile_graph(graph, "f")
    assert run(torch.ones(2, dtype=torch.int64)).dtype is torch.float32
    assert run(torch.ones(2, dtype=torch.float16)).dtype is torch.float16
    # A tensor of the user's own does.
    graph = Graph()
    x = graph.addInput("x")
    own = torch.tensor([1.5], dtype=torch.float64)
    graph.registerOutput(graph.insert("aten::add", x, own, 1))
    assert compile_graph(graph, "f")(torch.ones(2)).dtype is torch.float64


def test_out_forms_of_factories_take_sizes_and_the_tensor():
    run = program(
        """graph(%t : Tensor):
          %two : int = prim::Constant[value=2]()
          %size : int[] = prim::ListConstruct(%two)
          %y : Tensor = aten::ones(%size, %t)
          return (%y)"""
    )
    t = torch.zeros(2, dtype=torch.float64)
    assert run(t) is t and t.tolist() == [1, 1]


def test_ops_of_several_results():
    run = program(
        """graph(%x : Tensor):
          %zero : int = prim::Constant[value=0]()
          %false : bool = prim::Constant[value=0]()
          %two : int = prim::Constant[value=2]()
          %v : Tensor, %i : Tensor = aten::max(%x, %zero, %false)
          %p : Tensor[] = aten::chunk(%x, %two, %zero)
          %a : Tensor, %b : Tensor = prim::ListUnpack(%p)
          %u : Tensor, %unused : Tensor = aten::min(%x, %zero, %false)
          return (%v, %i, %a, %b, %p, %u)"""
    )
    x = torch.tensor([[1.0, 5.0], [3.0, 2.0]])
    v, i, a, b, parts, u = run(x)
    assert (v.tolist(), i.tolist(), u.tolist()) == ([3, 5], [1, 0], [1, 2])
    assert type(parts) is list and torch.equal(a, x[:1]) and torch.equal(b, x[1:])


# -- memory ----------------------------------------------------------------------------------------


def test_values_die_after_their_last_use():
    """As in eager code: at most two of the intermediate results are alive at a time."""
    graph = Graph()
    value = graph.addInput("x")
    seen = []
    alive = []

    def watch(tensor):
        alive.append(sum([ref() is not None for ref in seen]))
        result = tensor + 1
        seen.append(weakref.ref(result))
        return result

    for _ in range(6):
        node = graph.insertNode(graph.create("prim::PythonOp", [value]))
        node.python = PythonCall(watch, "watch", "d", is_function_class=False)
        value = node.output()
    graph.registerOutput(value)
    assert compile_graph(graph, "f")(torch.zeros(2)).tolist() == [6, 6]
    assert max(alive) == 1


def test_values_of_branches_and_loops_die_too():
    run = program(
        """graph(%x : Tensor, %n : int, %c : bool):
          %true : bool = prim::Constant[value=1]()
          %y : Tensor = prim::Loop(%n, %true, %x)
            block0(%i : int, %a : Tensor):
              %b : Tensor = aten::neg(%a)
              %d : Tensor = prim::If(%c)
                block0():
                  %e : Tensor = aten::relu(%b)
                  -> (%e)
                block1():
                  -> (%b)
              -> (%true, %d)
          %z : Tensor = aten::neg(%y)
          return (%z)"""
    )
    # No name but the result's keeps anything alive at the end.
    lines = [line.strip() for line in source_of(run.raw).splitlines()]
    made = {line.split(" = ")[0] for line in lines if " = " in line}
    deleted = {line.removeprefix("del ") for line in lines if line.startswith("del ")}
    assert len(made - deleted) == 1
    assert run(torch.ones(1), 3, False).tolist() == [1]


def test_programs_leave_nothing_behind():
    run = program("graph(%x : int):\n  %y : int = aten::neg(%x)\n  return (%y)")
    file = run.raw.__code__.co_filename
    dead = weakref.ref(run.raw)
    assert file in linecache.cache
    del run
    gc.collect()
    assert dead() is None and file not in linecache.cache


def named(text, *names):
    graph = parse_ir(text)
    makers = [node for node in graph.nodes() if node.kind() != "prim::Constant"]
    for node, name in zip(makers, names):
        node.output().setDebugName(name)
    return graph


def test_programs_of_one_text_share_code_and_nothing_else():
    # What is no literal lies in the scope: the texts are equal, the constants are not.
    def scaled(factor):
        graph = parse_ir(
            "graph(%x : Tensor):\n"
            "  %f : Tensor = prim::Constant[value={1}]()\n"
            "  %y : Tensor = aten::mul(%x, %f)\n"
            "  return (%y)"
        )
        graph.findNode("prim::Constant").write("t", "value", torch.tensor([factor, factor]))
        return compile_graph(graph, "f")

    runs = [scaled(float(factor)) for factor in range(600)]
    assert len({source_of(run.raw) for run in runs}) == 1
    x = torch.tensor([1.0, -0.0])
    for factor in (599, 0, 1, 3):
        assert runs[factor](x).equal(x * float(factor))
        assert str(runs[factor](x)) == str(x * float(factor))
    files = {run.raw.__code__.co_filename for run in runs}
    assert len(files) == 600 and all(file in linecache.cache for file in files)
    kept = runs[7].raw.__code__.co_filename
    del runs[:7], runs[1:]
    gc.collect()
    assert [file for file in files if file in linecache.cache] == [kept]
    assert runs[0](x).tolist() == [7, 0]


def test_errors_of_programs_of_one_text_are_told_apart():
    def failing(line):
        graph = parse_ir("graph(%x : Tensor):\n  %y : Tensor = aten::mm(%x, %x)\n  return (%y)")
        graph.findNode("aten::mm").source = SourceRange("a.py", line, 0, f"line {line}\n", 0, 4)
        return compile_graph(graph, f"f{line}")

    runs = [failing(line) for line in (3, 8)]
    assert source_of(runs[0].raw) == source_of(runs[1].raw)
    for run, line in zip(runs, (3, 8)):
        with pytest.raises(RuntimeError, match=f"line {line}\n"):
            run(torch.ones(2, 3))


def test_names_in_programs_are_apart():
    graph = named(
        "graph(%x : Tensor):\n"
        "  %a : Tensor = aten::neg(%x)\n"
        "  %b : Tensor = aten::exp(%a)\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %d : Tensor = aten::mul(%b, %c)\n"
        "  %one : int = prim::Constant[value=1]()\n"
        "  %e : Tensor = aten::add(%a, %d, %one)\n"
        "  return (%e)",
        *("x_2", "x.5", "x.2", "x_3", "x_2_2"),
    )
    x = torch.tensor([0.5])
    a, b = -x, (-x).exp()
    assert compile_graph(graph, "f")(x).equal(a + b * (a * b))
    text = """graph(%goes_on : Tensor, %n : int):
  %t : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %t, %goes_on)
    block0(%i : int, %a : Tensor):
      %b : Tensor = aten::add(%a, %goes_on, %i)
      %c : bool = aten::lt(%i, %n)
      -> (%c, %b)
  return (%y)
"""
    assert program(text)(torch.ones(1), 3).tolist() == [4]


# -- calls, objects, Python ------------------------------------------------------------------------


def function(name, text):
    return Function(name, parse_ir(text))


def call(graph, target, *args):
    node = graph.insertNode(graph.create("prim::Constant"))
    node.write("s", "name", target.short_name)
    node.output().setType(FunctionType(target))
    made = graph.insertNode(graph.create("prim::CallFunction", [node.output(), *args]))
    return made.output()


def test_calls_of_functions():
    double = function(
        "m.double",
        """graph(%x : Tensor):
          %one : int = prim::Constant[value=1]()
          %y : Tensor = aten::add(%x, %x, %one)
          return (%y)""",
    )
    graph = Graph()
    x = graph.addInput("x")
    graph.registerOutput(call(graph, double, call(graph, double, x)))
    assert compile_graph(graph, "f")(torch.ones(2)).tolist() == [4, 4]


def test_functions_that_call_one_another_are_found_when_they_run():
    count, down = Function("m.count"), Function("m.down")
    for caller, callee in ((count, down), (down, count)):
        graph = Graph()
        n = graph.addInput("n").setType(INT)
        zero = graph.insertConstant(0)
        positive = graph.insert("aten::gt", n, zero)
        branch = graph.insertNode(graph.create("prim::If", [positive]))
        branch.output().setType(INT)
        first, second = branch.addBlock(), branch.addBlock()
        with graph.insert_point_guard(first):
            less = graph.insert("aten::sub", n, 1)
            below = call(graph, callee, less).setType(INT)
            first.registerOutput(graph.insert("aten::add", below, 1))
        second.registerOutput(zero)
        graph.registerOutput(branch.output())
        caller.set(graph, None)
    assert count.run(7) == 7


COUNTER = ClassType("__torch__.Counter")
COUNTER.attributes = {"count": INT, "items": ListType(INT)}


def make_counter():
    graph = Graph()
    owner = graph.addInput("self").setType(COUNTER)
    by = graph.addInput("by").setType(INT)
    read = graph.insertNode(graph.create("prim::GetAttr", [owner]).write("s", "name", "count"))
    read.output().setType(INT)
    more = graph.insert("aten::add", read.output(), by)
    graph.insertNode(graph.create("prim::SetAttr", [owner, more], 0).write("s", "name", "count"))
    graph.registerOutput(more)
    return Function("__torch__.Counter.step", graph)


COUNTER.methods["step"] = make_counter()


def test_methods_read_and_write_attributes():
    graph = Graph()
    owner = graph.addInput("c").setType(COUNTER)
    three = graph.insertConstant(3)
    for _ in range(2):
        node = graph.create("prim::CallMethod", [owner, three]).write("s", "name", "step")
        result = graph.insertNode(node).output().setType(INT)
    graph.registerOutput(result)
    counter = Instance(COUNTER, {"count": 1, "items": []})
    assert compile_graph(graph, "f")(counter) == 7
    assert counter.values["count"] == 7


def test_methods_of_interfaces_are_looked_up_when_called():
    interface = InterfaceType("__torch__.Steps")
    graph = Graph()
    owner = graph.addInput("c").setType(interface)
    node = graph.create("prim::CallMethod", [owner, graph.insertConstant(2)])
    graph.registerOutput(graph.insertNode(node.write("s", "name", "step")).output())
    assert compile_graph(graph, "f")(Instance(COUNTER, {"count": 5, "items": []})) == 7


def test_objects_are_made_without_values():
    graph = Graph()
    node = graph.insertNode(graph.create("prim::CreateObject"))
    made = node.output().setType(COUNTER)
    graph.insertNode(
        graph.create("prim::SetAttr", [made, graph.insertConstant(4)], 0).write(
            "s", "name", "count"
        )
    )
    graph.registerOutput(made)
    run = compile_graph(graph, "f")
    one, other = run(), run()
    assert one is not other and one.type is COUNTER and one.values["count"] == 4


def test_named_tuples_keep_their_fields():
    graph = Graph()
    x = graph.addInput("x").setType(INT)
    node = graph.insertNode(graph.create("prim::TupleConstruct", [x, x]))
    node.output().setType(TupleType([INT, INT], "__torch__.Point", ["x", "y"]))
    graph.registerOutput(node.output())
    result = compile_graph(graph, "f")(3)
    assert result == (3, 3) and result.y == 3 and type(result).__name__ == "Point"


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor * 10, None


def python_graph(inplace):
    graph = Graph()
    x = graph.addInput("x")
    node = graph.insertNode(graph.create("prim::PythonOp", [x])).write("i", "inplace", inplace)
    node.python = PythonCall(Twice, "Twice", "dc", (3.0,))
    graph.registerOutput(node.output())
    return graph


def test_python_functions_run_with_their_own_gradient():
    x = torch.ones(2, requires_grad=True)
    result = compile_graph(python_graph(0), "f")(x)
    assert result.tolist() == [3, 3]
    result.sum().backward()
    assert x.grad.tolist() == [30, 30]


def test_python_functions_that_write_are_refused():
    with pytest.raises(RuntimeError, match="inplace Twice not supported in the JIT"):
        compile_graph(python_graph(1), "f")(torch.ones(2))


def test_forks_run_and_are_waited_for():
    inner = parse_ir("graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)")
    graph = Graph()
    x = graph.addInput("x")
    node = graph.insertNode(graph.create("prim::fork", [x])).write("g", "Subgraph", inner)
    from rushlight.jit.ir.types import FutureType

    node.output().setType(FutureType(TENSOR))
    graph.registerOutput(graph.insert("aten::wait", node.output()))
    assert compile_graph(graph, "f")(torch.ones(2)).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("type_text", "yes", "no"),
    [
        ("int", [1], [1.0, True, "a", None]),
        ("float", [1.0], [1, "a"]),
        ("bool", [True], [1]),
        ("int[]", [[1, 2], []], [[1.0], (1, 2)]),
        ("(int, str)", [(1, "a")], [(1, 2), [1, "a"], (1,)]),
        ("Dict(str, int)", [{"a": 1}, {}], [{1: 1}, {"a": "b"}]),
        ("int?", [None, 1], ["a"]),
        ("Tensor", [torch.ones(1)], [1.0]),
        ("Scalar", [1, 1.0, 1j], ["a", True]),
    ],
)
def test_isinstance(type_text, yes, no):
    from rushlight.jit.ir.parsing import parse_type
    from rushlight.jit.ir.types import ANY

    graph = Graph()
    x = graph.addInput("x").setType(ANY)
    node = graph.insertNode(graph.create("prim::isinstance", [x]))
    node.write("tys", "types", [parse_type(type_text)])
    graph.registerOutput(node.output().setType(BOOL))
    run = compile_graph(graph, "f")
    assert [run(value) for value in yes] == [True] * len(yes)
    assert [run(value) for value in no] == [False] * len(no)


def nested(depth, kind):
    """A graph with `depth` branches or loops inside one another."""
    graph = Graph()
    x = graph.addInput("x").setType(INT)
    true = graph.insertConstant(True)
    one = graph.insertConstant(1)
    outer = []
    value = x
    for _ in range(depth):
        if kind == "prim::If":
            node = graph.insertNode(graph.create(kind, [true]))
            block, other = node.addBlock(), node.addBlock()
            other.registerOutput(x)
        else:
            node = graph.insertNode(graph.create(kind, [one, true, value]))
            block = node.addBlock()
            block.addInput().setType(INT)
            value = block.addInput().setType(INT)
            block.registerOutput(true)
        node.output().setType(INT)
        outer.append((node, block))
        graph.setInsertPoint(block)
        value = graph.insert("aten::add", value, x)
    for node, block in reversed(outer):
        block.registerOutput(value)
        value = node.output()
    graph.setInsertPoint(graph.block())
    graph.registerOutput(value)
    graph.lint()
    return graph


@pytest.mark.parametrize("kind", ["prim::If", "prim::Loop"])
def test_blocks_may_lie_as_deep_as_they_like(kind):
    assert compile_graph(nested(150, kind), "f")(2) == 302


# -- errors ----------------------------------------------------------------------------------------


SOURCE = "def f(x, y):\n    z = x + 1\n    return torch.mm(z, y)\n"
CALL = "torch.mm"


def failing_graph():
    graph = Graph()
    x, y = graph.addInput("x"), graph.addInput("y")
    start = SOURCE.index(CALL)
    z = graph.insert("aten::add", x, 1, 1)
    out = graph.insert("aten::mm", z, y)
    out.node().source = SourceRange("file.py", 3, 11, SOURCE, start, start + len(CALL))
    graph.registerOutput(out)
    return graph


REPORT = """\
The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "file.py", line 3, in f
def f(x, y):
    z = x + 1
    return torch.mm(z, y)
           ~~~~~~~~ <--- HERE
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)
"""


def test_errors_show_the_source_of_the_node():
    run = compile_graph(failing_graph(), "f")
    with pytest.raises(RuntimeError) as caught:
        run(torch.ones(2, 3), torch.ones(2, 3))
    assert str(caught.value) == REPORT
    assert type(caught.value) is RuntimeError


def test_errors_show_the_calls_that_led_there():
    callee = Function("m.f", failing_graph())
    graph = Graph()
    x = graph.addInput("x")
    result = call(graph, callee, x, x)
    text = "def g(x):\n    return f(x, x)\n"
    result.node().source = SourceRange("file.py", 9, 11, text, 21, 22)
    graph.registerOutput(result)
    with pytest.raises(RuntimeError) as caught:
        compile_graph(graph, "g")(torch.ones(2, 3))
    header, _, rest = REPORT.partition("  File")
    outer = (
        '  File "file.py", line 9, in g\ndef g(x):\n    return f(x, x)\n           ~ <--- HERE\n'
    )
    assert str(caught.value) == f"{header}{outer}  File{rest}"


def test_errors_in_inlined_code_show_the_calls_too():
    from rushlight.jit.passes.inlining import inline_calls

    graph = Graph()
    x = graph.addInput("x")
    result = call(graph, Function("m.f", failing_graph()), x, x)
    result.node().source = SourceRange("file.py", 9, 11, "def g(x):\n    return f(x, x)\n", 21, 22)
    graph.registerOutput(result)
    with pytest.raises(RuntimeError) as called:
        compile_graph(graph, "g")(torch.ones(2, 3))
    inline_calls(graph)
    assert graph.findNode("prim::CallFunction") is None
    with pytest.raises(RuntimeError) as inlined:
        compile_graph(graph, "g")(torch.ones(2, 3))
    assert str(inlined.value) == str(called.value)


def test_errors_of_python_code_say_where_it_was():
    def fails(x):
        raise KeyError("kk")

    graph = Graph()
    x = graph.addInput("x")
    node = graph.insertNode(graph.create("prim::PythonOp", [x]))
    node.python = PythonCall(fails, "fails", "d", is_function_class=False)
    graph.registerOutput(node.output())
    with pytest.raises(RuntimeError) as caught:
        compile_graph(graph, "f")(torch.ones(1))
    lines = str(caught.value).partition("RuntimeError: ")[2].split("\n")
    assert lines[:3] == ["KeyError: 'kk'", "", "At:"]
    assert lines[3].endswith(": fails")


def test_errors_in_traced_code_show_the_python_calls():
    graph = failing_graph()
    stack = "/home/a.py(3): f\n/home/a.py(9): <module>\n"
    mm = graph.findNode("aten::mm")
    mm.source = SourceRange("/home/a.py", 3, 0, stack, 0, len(stack))
    with pytest.raises(RuntimeError) as caught:
        compile_graph(graph, "f")(torch.ones(2, 3), torch.ones(2, 3))
    lines = str(caught.value).splitlines()
    assert lines[1:4] == [
        "Traceback of TorchScript (most recent call last):",
        *stack.splitlines(),
    ]


def test_raised_exceptions_have_their_own_class():
    run = program(
        """graph(%c : bool):
          %m : str = prim::Constant[value="bad value"]()
          %cls : str = prim::Constant[value="builtins.ValueError"]()
          %none : NoneType = prim::Constant()
           = prim::If(%c)
            block0():
               = prim::RaiseException(%m, %cls)
              -> ()
            block1():
               = prim::RaiseException(%m, %none)
              -> ()
          return (%none)"""
    )
    with pytest.raises(Error) as caught:
        run(True)
    assert not isinstance(caught.value, RuntimeError)
    assert str(caught.value).endswith("\nbuiltins.ValueError: bad value\n")
    with pytest.raises(Error, match="\nRuntimeError: bad value\n$"):
        run(False)


def test_what_is_not_implemented_says_so():
    run = program(
        """graph(%x : Tensor, %y : Tensor):
          %z : Tensor = aten::__lshift__(%x, %y)
          return (%z)"""
    )
    with pytest.raises(NotImplementedError, match="failed in the TorchScript interpreter"):
        run(torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64))


def test_lists_of_another_length_are_refused():
    run = program("graph(%l : int[]):\n  %a : int, %b : int = prim::ListUnpack(%l)\n  return (%a)")
    with pytest.raises(RuntimeError, match="Expected 2 elements in a list but found 3"):
        run([1, 2, 3])


def test_nodes_without_an_operator_are_refused():
    with pytest.raises(RuntimeError, match="No operator takes the inputs of this node"):
        program("graph(%x : str):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")


# -- kernels of users ------------------------------------------------------------------------------


def test_kernels_registered_later_are_called():
    run = program("graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)")
    assert run(torch.ones(1)).tolist() == [-1]
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("neg", lambda x: x * 7, "CPU")
        assert run(torch.ones(1)).tolist() == [7]
    assert run(torch.ones(1)).tolist() == [-1]


# -- with ------------------------------------------------------------------------------------------

GUARD = ClassType("__torch__.Guard")
GUARD.attributes = {"log": ListType(INT)}


def note(number, extra):
    """A method that appends a number to the object's list."""
    graph = Graph()
    owner = graph.addInput("self").setType(GUARD)
    for _ in range(extra):
        graph.addInput()
    read = graph.insertNode(graph.create("prim::GetAttr", [owner]).write("s", "name", "log"))
    read.output().setType(ListType(INT))
    graph.insert("aten::append", read.output(), number)
    graph.registerOutput(graph.insertConstant(None))
    return Function(f"__torch__.Guard.{number}", graph)


GUARD.methods["__enter__"] = note(1, 0)
GUARD.methods["__exit__"] = note(2, 3)


def test_with_leaves_whatever_happens():
    graph = Graph()
    guard = graph.addInput("g").setType(GUARD)
    x, y = graph.addInput("x"), graph.addInput("y")
    graph.insertNode(graph.create("prim::Enter", [guard]))
    product = graph.insert("aten::mm", x, y)
    graph.insertNode(graph.create("prim::Exit", [guard]))
    graph.registerOutput(graph.insert("aten::neg", product))
    run = compile_graph(graph, "f")
    thing = Instance(GUARD, {"log": []})
    assert run(thing, torch.ones(1, 1), torch.ones(1, 1)).item() == -1
    assert thing.values["log"] == [1, 2]
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run(thing, torch.ones(1, 2), torch.ones(1, 2))
    assert thing.values["log"] == [1, 2, 1, 2]
