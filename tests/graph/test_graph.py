"""Graphs: structure, names and text."""

import copy
import operator
import pickle
import subprocess
import sys

import pytest

import rushlight as torch
import rushlight.fx as fx
from rushlight.autograd.grad_mode import write_grad
from rushlight.base import pytree
from rushlight.fx.graph import _Namespace, _PyTreeCodeGen, _PyTreeInfo
from rushlight.graph import host
from rushlight.graph.immutable_collections import immutable_dict, immutable_list
from rushlight.graph.names import qualified_name, resolve
from rushlight.opset.other.asserts import _assert

aten = torch.ops.aten


def own(x):
    return x


def body(graph):
    """The statements of the generated function."""
    lines = graph.python_code("self").src.strip().split("\n")
    return [lines[0], *(line[4:] for line in lines[1:])]


def test_statement_forms():
    g = fx.Graph()
    x = g.placeholder("x")
    y = g.placeholder("y", default_value=1.5)
    g.placeholder("device")
    a = g.call_function(operator.add, (x, y))
    options = {"dtype": torch.float32, "device": torch.device("cpu"), "pin_memory": False}
    b = g.call_function(aten.mul.Tensor, (a, 2), options, name="mul")
    c = g.call_method("sum", (b,), {"dim": -1})
    d = g.call_function(sum, ([c, (c,)], float("inf"), "it's"))
    e = g.call_function(torch.add, (d, a))
    f = g.call_function(torch.nn.functional.gelu, (e,))
    h = g.call_function(operator.getitem, (f, (slice(None, 2, None), 0)))
    i = g.call_function(operator.iadd, (h, 1))
    j = g.call_function(getattr, (i, "shape"))
    k = g.call_function(torch.einsum, ("ij", [i]))
    n = g.create_node("get_attr", "w.0.b")
    m = g.create_node("call_module", "lin.1", (k, n))
    p = g.call_function(own, (m,))
    q = g.call_function(operator.ge, (p, 0))
    r = g.call_function(torch.autograd.grad, (q,), type_expr=torch.Tensor)
    s = g.call_function(own, (aten.mm.default, r))
    g.output((s, [j], None))
    module = own.__module__.replace(".", "_")
    assert body(g) == [
        "def forward(self, x, y = 1.5, device):",
        "device_1 = device",
        "add = x + y;  x = y = None",
        "mul = torch.ops.aten.mul.Tensor(add, 2, dtype = torch.float32, "
        "device = device(type='cpu'), pin_memory = False)",
        "sum_1 = mul.sum(dim = -1);  mul = None",
        'sum_2 = sum([sum_1, (sum_1,)], inf, "it\'s");  sum_1 = None',
        "add_1 = torch.add(sum_2, add);  sum_2 = add = None",
        "gelu = torch._C._nn.gelu(add_1);  add_1 = None",
        "getitem = gelu[(slice(None, 2, None), 0)];  gelu = None",
        "getitem += 1;  iadd = getitem;  getitem = None",
        "getattr_1 = iadd.shape",
        "einsum = torch.functional.einsum('ij', [iadd]);  iadd = None",
        'w_0_b = getattr(self.w, "0").b',
        'lin_1 = getattr(self.lin, "1")(einsum, w_0_b);  einsum = w_0_b = None',
        f"own = {module}_own(lin_1);  lin_1 = None",
        "ge = own >= 0;  own = None",
        "grad : torch.Tensor = torch.autograd.grad(ge);  ge = None",
        f"own_1 = {module}_own(torch.ops.aten.mm.default, grad);  grad = None",
        "return (own_1, [getattr_1], None)",
    ]


def test_unused_results_are_not_freed():
    g = fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    g.call_function(aten.copy_.default, (x, y), name="copy_")
    g.call_function(aten.copy_.default, (x, y), name="copy_")
    g.call_function(write_grad, (False,))
    g.output((y,))
    assert body(g) == [
        "def forward(self, x, y):",
        "copy_ = torch.ops.aten.copy_.default(x, y)",
        "copy__1 = torch.ops.aten.copy_.default(x, y);  x = None",
        "_set_grad_enabled = torch._C._set_grad_enabled(False)",
        "return (y,)",
    ]


def test_code_starts_with_three_newlines_and_ends_indented():
    g = fx.Graph()
    g.output(g.placeholder("x"))
    code = g.python_code("self")
    assert code.src == "\n\n\ndef forward(self, x):\n    return x\n    "
    assert {"torch", "device", "inf", "nan", "NoneType", "pytree", "fx_pytree"} <= set(code.globals)


def test_str():
    g = fx.Graph()
    x = g.placeholder("arg0_1")
    s = g.call_function(aten.sin.default, (x,), {"device": torch.device("cpu"), "k": [x]}, name="s")
    w = g.create_node("get_attr", "a.b")
    g.output((s, w))
    assert str(g) == (
        "graph():\n"
        "    %arg0_1 : [num_users=1] = placeholder[target=arg0_1]\n"
        "    %s : [num_users=1] = call_function[target=torch.ops.aten.sin.default]"
        "(args = (%arg0_1,), kwargs = {device: cpu, k: [%arg0_1]})\n"
        "    %a_b : [num_users=1] = get_attr[target=a.b]\n"
        "    return (s, a_b)"
    )


def test_namespace():
    names = _Namespace()
    given = ["sum", "sum", "x_5", "x", "x", "add.Tensor", "1a", "", "for", "copy_", "copy_"]
    assert [names.create_name(name, None) for name in given] == [
        "sum_1", "sum_2", "x_5", "x", "x_6", "add_Tensor", "_1a", "_unnamed", "for_1", "copy_",
        "copy__1",
    ]  # fmt: skip


def test_names_are_not_reused():
    g = fx.Graph()
    x = g.placeholder("x")
    first = g.call_function(torch.sin, (x,))
    g.erase_node(first)
    assert g.call_function(torch.sin, (x,)).name == "sin_1"


def test_users_follow_arguments():
    g = fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    a = g.call_function(torch.add, (x, [x, {"k": y}]))
    assert a.all_input_nodes == [x, y]
    assert list(y.users) == [a]
    a.update_arg(1, x)
    assert not y.users
    a.insert_arg(0, y)
    a.update_kwarg("k", slice(y, None))
    assert a.args == (y, x, x) and a.kwargs == {"k": slice(y, None)}
    b = g.call_function(torch.sin, (a,))
    assert a.replace_all_uses_with(x) == [b]
    assert b.args == (x,) and not a.users
    assert a.replace_all_uses_with(x, propagate_meta=True) == []


def test_arguments_are_immutable():
    g = fx.Graph()
    a = g.call_function(torch.cat, ([g.placeholder("x")],), {"o": {"k": 1}})
    assert type(a.args[0]) is immutable_list and type(a.kwargs["o"]) is immutable_dict
    with pytest.raises(TypeError, match="'immutable_list' object does not support mutation"):
        a.args[0].append(1)
    leaves, spec = pytree.tree_flatten(a.args[0])
    assert leaves == list(a.args[0]) and type(spec.unflatten(leaves)) is immutable_list


def test_order_and_insert_points():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.sin, (x,))
    out = g.output(a)
    with g.inserting_before(a):
        b = g.call_function(torch.cos, (x,))
    with g.inserting_after(a):
        c = g.call_function(torch.tan, (x,))
    assert list(g.nodes) == [x, b, a, c, out] == sorted([out, c, a, b, x])
    assert list(reversed(g.nodes)) == [out, c, a, b, x]
    a.append(b)
    assert [n.name for n in g.nodes] == ["x", "sin", "cos", "tan", "output"]
    assert a < b < c and len(g.nodes) == 5
    assert g.find_nodes(op="call_function", target=torch.cos) == [b]
    assert g.output_node() is out


def test_erase_errors():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.sin, (x,))
    message = r"Tried to erase Node x but it still had 1 users in the graph: \{sin: None\}!"
    with pytest.raises(RuntimeError, match=message):
        g.erase_node(x)
    with pytest.raises(RuntimeError, match="Attempting to remove sin from wrong graph!"):
        fx.Graph().erase_node(a)


def test_lint_finds_use_before_definition():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.sin, (x,))
    a.append(x)
    with pytest.raises(RuntimeError, match="Argument 'x' of Node 'sin' was used before"):
        g.lint()


def test_dead_code():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.sin, (x,))
    g.call_function(torch.cos, (a,))
    g.call_function(aten.add_.Tensor, (x, 1))
    g.call_function(operator.setitem, (x, 0, 1))
    g.call_function(write_grad, (True,))
    g.output(x)
    assert g.eliminate_dead_code()
    kept = ["x", "add__tensor", "setitem", "_set_grad_enabled", "output"]
    assert [n.name for n in g.nodes] == kept
    assert not g.eliminate_dead_code()
    assert g.eliminate_dead_code(is_impure_node=lambda n: n.op in ("placeholder", "output"))
    assert [n.name for n in g.nodes] == ["x", "output"]


def test_copies():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.sum, (x,), {"dim": [0]})
    a.meta["k"] = 1
    g.call_function(torch.nn.functional.gelu, (a,))
    g.output([a, 2])
    for made in (copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert str(made) == str(g)
        made.lint()
        assert made.find_nodes(op="call_function", target=torch.sum)[0].meta == {"k": 1}
        assert made.find_nodes(op="call_function", target=torch.sum)[0].graph is made


def test_pytree_code():
    g = fx.Graph()
    a, b = g.placeholder("d_1"), g.placeholder("d_2")
    g.output([g.call_function(operator.add, (a, b))])
    in_spec = pytree.tree_structure(({"p": 0, "q": 0},))
    out_spec = pytree.tree_structure([0])
    g.set_codegen(_PyTreeCodeGen(_PyTreeInfo(["d"], in_spec, out_spec)))
    assert body(g) == [
        "def forward(self, d):",
        "d_1, d_2, = fx_pytree.tree_flatten_spec([d], self._in_spec)",
        "add = d_1 + d_2;  d_1 = d_2 = None",
        "return pytree.tree_unflatten([add], self._out_spec)",
    ]
    keywords = pytree.tree_structure(((0,), {"q": 0}))
    g.set_codegen(_PyTreeCodeGen(_PyTreeInfo(["p", "q"], keywords, out_spec)))
    assert body(g)[1] == ("d_1, d_2, = fx_pytree.tree_flatten_spec(([p], {'q':q}), self._in_spec)")


@pytest.mark.parametrize(
    "path",
    [
        "torch.add",
        "torch.Tensor.add",
        "torch.nn.functional.cross_entropy",
        "torch._C._nn.gelu",
        "torch._C._set_grad_enabled",
        "torch.functional.einsum",
        "torch.autograd.grad",
        "torch.ops.aten.add.Tensor",
        "torch.nn.Linear",
    ],
)
def test_names_and_functions_are_inverses(path):
    assert qualified_name(resolve(path)) == path


def test_import_is_lazy():
    code = "import sys, rushlight; print(*[m for m in sys.modules if m.startswith(%r)])"
    for package, loaded in (("rushlight.fx", []), ("rushlight.graph", ["", ".host"])):
        done = subprocess.run(
            [sys.executable, "-c", code % package], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [package + name for name in loaded]


def test_what_lies_above_is_told_by_the_root():
    """Graphs are plain data: `graph` imports nothing but `base`."""
    code = "import sys, rushlight.graph.graph; print(*[m for m in sys.modules if m in (%r, %r)])"
    done = subprocess.run(
        [sys.executable, "-c", code % ("rushlight.nn", "rushlight.fx")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stdout.split()
    assert host.library is torch
    assert host.private_function("torch._assert") is _assert
