"""Symbolic tracing."""

import functools
import math

import pytest

import rushlight as torch
import rushlight.fx as fx
from rushlight.fx.tracing import PH


def helper(x, y):
    return x + y


fx.wrap("helper")
fx.wrap("len")


class Inner(torch.nn.Module):
    def forward(self, x):
        return x.sin() + 1


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("b", torch.zeros(2))
        self.lin = torch.nn.Linear(2, 2)
        self.seq = torch.nn.Sequential(torch.nn.ReLU(), Inner())
        self.t = torch.ones(2)

    def forward(self, x: torch.Tensor, y=2) -> torch.Tensor:
        z = self.seq(self.lin(x) * self.w + self.b + self.t)
        a, b = torch.relu(z).split(1)
        c = torch.cat([a, b], dim=0).view(x.shape[0], -1)
        c = helper(3 - c, y) + torch.tensor([5.0])
        return {"a": (c[0:1], math.sqrt(len(c)))}


def statements(gm):
    return [line.strip() for line in gm.code.strip().split("\n") if line.strip()]


def test_module():
    gm = fx.symbolic_trace(Outer())
    place = helper.__module__.replace(".", "_")
    assert statements(gm) == [
        f'torch.fx._symbolic_trace.wrap("{place}_helper")',
        'torch.fx._symbolic_trace.wrap("len")',
        'torch.fx._symbolic_trace.wrap("math_sqrt")',
        "def forward(self, x : torch.Tensor, y = 2) -> torch.Tensor:",
        "lin = self.lin(x)",
        "w = self.w",
        "mul = lin * w;  lin = w = None",
        "b = self.b",
        "add = mul + b;  mul = b = None",
        "t = self.t",
        "add_1 = add + t;  add = t = None",
        'seq_0 = getattr(self.seq, "0")(add_1);  add_1 = None',
        "sin = seq_0.sin();  seq_0 = None",
        "add_2 = sin + 1;  sin = None",
        "relu = torch.relu(add_2);  add_2 = None",
        "split = relu.split(1);  relu = None",
        "getitem = split[0]",
        "getitem_1 = split[1];  split = None",
        "cat = torch.cat([getitem, getitem_1], dim = 0);  getitem = getitem_1 = None",
        "getattr_1 = x.shape;  x = None",
        "getitem_2 = getattr_1[0];  getattr_1 = None",
        "view = cat.view(getitem_2, -1);  cat = getitem_2 = None",
        "sub = 3 - view;  view = None",
        f"helper = {place}_helper(sub, y);  sub = y = None",
        "_tensor_constant0 = self._tensor_constant0",
        "add_3 = helper + _tensor_constant0;  helper = _tensor_constant0 = None",
        "getitem_3 = add_3[slice(0, 1, None)]",
        "len_1 = len(add_3);  add_3 = None",
        "sqrt = math_sqrt(len_1);  len_1 = None",
        "return {'a': (getitem_3, sqrt)}",
    ]
    assert type(gm).__name__ == "Outer" and gm.graph._tracer_cls is fx.Tracer
    lin = gm.graph.find_nodes(op="call_method", target="sin")[0]
    assert list(lin.meta["nn_module_stack"]) == ["seq", "seq.1"]


def test_traced_module_computes_the_same():
    outer, x = Outer(), torch.arange(4.0).view(2, 2)
    made, plain = fx.symbolic_trace(outer)(x), outer(x)
    assert torch.equal(made["a"][0], plain["a"][0]) and made["a"][1] == plain["a"][1]
    # Nothing stays replaced once the trace is over.
    assert math.sqrt(4) == 2 and helper(1, 2) == 3


@pytest.mark.parametrize(
    "function, error, text",
    [
        (lambda x: 1 if x > 0 else 2, fx.TraceError, "cannot be used as inputs to control flow"),
        (lambda x: list(x), fx.TraceError, "Proxy object cannot be iterated"),
        (lambda x: {x: 1}, RuntimeError, "Keys for dictionaries used as an argument cannot"),
        (lambda x: x.f(object()), NotImplementedError, "argument of type: <class 'object'>"),
    ],
)
def test_refusals(function, error, text):
    with pytest.raises(error, match=text):
        fx.symbolic_trace(function)


def test_concrete_args():
    def function(d, flag):
        return d["a"] + d["b"][0] if flag else 0

    inputs = {"d": {"a": PH, "b": [PH]}, "flag": True}
    gm = fx.symbolic_trace(function, concrete_args=inputs)
    assert statements(gm) == [
        "def forward(self, d, flag):",
        "d_1, d_2, flag_1, = fx_pytree.tree_flatten_spec([d, flag], self._in_spec)",
        "eq = flag_1 == True;  flag_1 = None",
        "_assert = torch._assert(eq, 'flag has been specialized to have value True but got another "
        "value');  eq = None",
        "add = d_1 + d_2;  d_1 = d_2 = None",
        "return pytree.tree_unflatten([add], self._out_spec)",
    ]
    assert gm({"a": 1, "b": [2]}, True) == 3
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        gm({"a": 1, "b": [2]}, False)


def test_starred_parameters():
    def function(x, *a, k=1, **kw):
        return x + a[0] + k + kw["z"]

    gm = fx.symbolic_trace(function)
    assert statements(gm)[:3] == ["def forward(self, x, k = 1, *a, **kw):", "_a = a", "_kw = kw"]
    assert gm(1, 10, 100, z=1000) == 1111


def test_transformer():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is torch.sin:
                return torch.cos(*args)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("relu" if target == "neg" else target, args, kwargs)

    gm = fx.symbolic_trace(lambda x: torch.sin(x).neg() + torch.relu(x))
    made = Swap(gm).transform()
    assert statements(made)[1:] == [
        "cos = torch.cos(x)",
        "relu = cos.relu();  cos = None",
        "relu_1 = torch.relu(x);  x = None",
        "add = relu + relu_1;  relu = relu_1 = None",
        "return add",
    ]


def test_proxy_appends_to_a_graph():
    g = fx.symbolic_trace(lambda x: torch.sin(x)).graph
    sin = fx.Proxy(g.find_nodes(op="call_function", target=torch.sin)[0])
    with g.inserting_before(g.output_node()):
        made = -sin * 2
    assert [node.name for node in g.nodes] == ["x", "sin", "neg", "mul", "output"]
    assert repr(made) == "Proxy(mul)"


def test_leaf_modules_are_a_choice():
    class Deep(fx.Tracer):
        def is_leaf_module(self, m, qualified_name):
            return isinstance(m, Inner)

    graph = Deep().trace(torch.nn.Sequential(Inner(), Inner()))
    assert [node.target for node in graph.nodes] == ["input", "0", "1", "output"]


class Pair(metaclass=fx.ProxyableClassMeta):
    def __init__(self, left, right):
        self.left, self.right = left, right


def test_proxyable_class():
    gm = fx.symbolic_trace(lambda x: Pair(x, 2).left)
    assert gm(7) == 7 and any(node.target is Pair for node in gm.graph.nodes)
    assert Pair(1, 2).right == 2


def test_a_tracer_can_be_copied():
    import copy

    tracer = fx.Tracer()
    tracer.trace(torch.nn.Linear(2, 2))
    copied = copy.deepcopy(tracer)
    assert type(copied) is fx.Tracer
    assert copied.root is not tracer.root


def passed_on(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@fx.wrap
@passed_on
def choose(x):
    return x + 1 if x.sum() > 0 else x


def test_decorated_functions_can_be_wrapped():
    gm = fx.symbolic_trace(lambda x: choose(x) * 2)
    assert [node.name for node in gm.graph.nodes] == ["x", "choose", "mul", "output"]
    assert gm(torch.ones(2)).tolist() == [4.0, 4.0]


def test_inputs_given_for_starred_parameters():
    def total(*args):
        return args[0] + args[1] * args[2]

    traced = fx.symbolic_trace(total, concrete_args=(PH, PH, 3))
    assert "def forward(self, input_0, input_1, input_2):" in traced.code
    assert traced(1, 2, 3) == 7
    with pytest.raises(AssertionError, match="input_2 has been specialized to have value 3"):
        traced(1, 2, 4)


def test_assertions_are_nodes():
    def checked(x):
        torch._assert(x.shape[0] > 1, "no")
        return x + 1

    traced = fx.symbolic_trace(checked)
    assert "_assert = torch._assert(gt, 'no')" in traced.code
    with pytest.raises(AssertionError, match="no"):
        traced(torch.ones(1))
