"""torch.library: custom operators from definition to gradient."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Sequence

import pytest

import rushlight as torch
from rushlight import library
from rushlight.core import keys
from rushlight.core.fake import DynamicOutputShapeException, FakeTensorMode
from rushlight.core.modes import TorchDispatchMode
from rushlight.core.stubs import stub_source
from rushlight.library import custom_op, infer_schema, opcheck
from rushlight.opset import registry
from rushlight.symbolic import ShapeEnv

Tensor = torch.Tensor


@pytest.fixture
def scale():
    @custom_op("tests::scale", mutates_args=())
    def scale(x: Tensor, k: float = 2.0) -> Tensor:
        assert not (x * 1).requires_grad
        return x * k

    return scale


def formula(ctx, grad):
    return grad * ctx.k, None


def setup(ctx, inputs, output):
    ctx.k = inputs[1]


def test_a_function_becomes_an_operator(scale):
    assert scale(torch.ones(2)).tolist() == [2.0, 2.0]
    assert torch.ops.tests.scale(torch.ones(1), 3.0).tolist() == [3.0]
    schema = str(torch.ops.tests.scale.default._schema)
    assert schema == "tests::scale(Tensor x, float k=2.) -> Tensor"
    assert repr(scale) == "<CustomOpDef(tests::scale)>"


def test_a_gradient_must_be_registered(scale):
    y = scale(torch.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_a_registered_gradient_and_its_own_gradient(scale):
    scale.register_autograd(formula, setup_context=setup)
    x = torch.tensor([3.0], requires_grad=True)
    (first,) = torch.autograd.grad(scale(x * x, 5.0).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.item() == 30.0 and second.item() == 10.0


def test_saved_tensors_of_a_registered_gradient():
    @custom_op("tests::square", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x * x

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    square.register_autograd(lambda ctx, grad: grad * 2 * ctx.saved_tensors[0], setup_context=keep)
    x = torch.tensor([3.0], requires_grad=True)
    square(x).sum().backward()
    assert x.grad.item() == 6.0


def test_lists_and_several_results():
    @custom_op("tests::both", mutates_args=())
    def both(xs: Sequence[Tensor], d: int) -> tuple[Tensor, Tensor]:
        return torch.cat(list(xs), d), xs[0] * 3

    both.register_autograd(
        lambda ctx, g1, g2: ([g1[:2] + 3 * g2, g1[2:]], None), setup_context=lambda **_: None
    )
    a = torch.ones(2, requires_grad=True)
    b = torch.ones(3, requires_grad=True)
    joined, tripled = both([a, b], 0)
    ((joined * torch.arange(5.0)).sum() + tripled.sum()).backward()
    assert a.grad.tolist() == [3.0, 4.0] and b.grad.tolist() == [2.0, 3.0, 4.0]


def test_meta_tensors_need_a_fake_implementation(scale):
    meta = torch.ones(2, device="meta")
    with pytest.raises(RuntimeError, match="There was no fake impl registered"):
        scale(meta)

    @scale.register_fake
    def _(x, k=2.0):
        return torch.empty_like(x)

    assert scale(meta).shape == (2,) and scale(meta).is_meta


def test_a_mutating_operator_bumps_the_version():
    @custom_op("tests::inc", mutates_args={"x"})
    def inc(x: Tensor, n: int) -> None:
        x.add_(n)

    x = torch.zeros(2)
    version = x._version
    assert inc(x, 2) is None
    assert x.tolist() == [2.0, 2.0] and x._version > version
    assert str(inc._opoverload._schema) == "tests::inc(Tensor(a0!) x, SymInt n) -> ()"


def test_a_result_may_not_be_an_input():
    @custom_op("tests::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        same(torch.ones(1))


def test_modes_see_custom_operators_whole(scale):
    seen = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(1, requires_grad=True)
    with Look():
        scale(x)
    assert seen[0] == "tests.scale.default"


# -- Library --------------------------------------------------------------------------------


def test_a_library_defines_implements_and_cleans_up():
    with library._scoped_library("scoped", "DEF") as lib:
        assert lib.define("foo(Tensor x, int n=1, *, float k=2.0) -> Tensor") == "foo"
        with pytest.raises(NotImplementedError, match="Could not run 'scoped::foo'.*'CPU' backend"):
            torch.ops.scoped.foo(torch.ones(2))
        lib.impl("foo", lambda x, n=1, *, k=2.0: x * n * k, "CPU")
        assert torch.ops.scoped.foo(torch.ones(1), 3).tolist() == [6.0]
        assert torch.ops.scoped.foo(torch.ones(1), k=1.0).tolist() == [1.0]
        with pytest.raises(RuntimeError, match="with the same name and overload name"):
            lib.define("foo(Tensor x) -> Tensor")
    with pytest.raises(AttributeError, match="'_OpNamespace' 'scoped' object has no attribute"):
        _ = torch.ops.scoped.foo


def test_a_mutating_kernel_counts_its_own_writes():
    with library._scoped_library("scoped", "FRAGMENT") as lib:
        lib.define("both_(Tensor(a!) x, Tensor(b!) z) -> (Tensor, Tensor)")

        @library.impl("scoped::both_", "cpu", lib=lib)
        def both_(x, z):
            return x.add_(5), z.add_(5)

        x, z = torch.ones(2), torch.zeros(2)
        torch.ops.scoped.both_(x, z)
        assert (x.tolist(), z.tolist(), x._version) == ([6.0, 6.0], [5.0, 5.0], 1)


def test_a_composite_kernel_is_differentiated_through():
    with library._scoped_library("scoped", "FRAGMENT") as lib:
        lib.define("bar(Tensor x) -> Tensor")
        lib.impl("bar", lambda x: x.sin().cos(), "CompositeImplicitAutograd")
        result = torch.ops.scoped.bar(torch.ones(2, requires_grad=True))
        assert type(result.grad_fn).__name__ == "CosBackward0"


def test_a_kernel_for_autograd():
    class Seven(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with keys.AutoDispatchBelowAutograd():
                return torch.ops.scoped.ag(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    with library._scoped_library("scoped", "FRAGMENT") as lib:
        lib.define("ag(Tensor x) -> Tensor")
        lib.impl("ag", lambda x: x * 5, "CPU")
        lib.impl("ag", Seven.apply, "Autograd")
        x = torch.ones(2, requires_grad=True)
        y = torch.ops.scoped.ag(x)
        y.sum().backward()
        assert y.tolist() == [5.0, 5.0] and x.grad.tolist() == [7.0, 7.0]


def test_a_kernel_may_come_before_its_definition():
    with library._scoped_library("scoped", "FRAGMENT") as lib:
        lib.impl("later", lambda x: x + 1, "CPU")
        lib.define("later(Tensor x) -> Tensor")
        assert torch.ops.scoped.later(torch.ones(1)).tolist() == [2.0]


def test_a_built_in_kernel_can_be_replaced_for_a_while():
    assert (-torch.ones(1)).item() == -1.0
    with library._scoped_library("aten", "IMPL") as lib:
        lib.impl("neg", lambda x: x * 100, "CPU")
        assert (-torch.ones(1)).item() == 100.0
        assert torch.ones(1).neg().item() == 100.0
        assert torch.neg(torch.ones(1)).item() == 100.0
    assert (-torch.ones(1)).item() == -1.0


REPLACEMENTS = {
    "sum": lambda: torch.ones(3).sum(),
    "sum.dim_IntList": lambda: torch.sum(torch.ones(3), 0),
    "add.Tensor": lambda: torch.ones(3) + 1,
    "addmm": lambda: torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2)),
    "linear": lambda: torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2)),
    "matmul": lambda: torch.ones(2, 2) @ torch.ones(2, 2),
    "softmax.int": lambda: torch.softmax(torch.ones(2), 0),
    "_softmax": lambda: torch.softmax(torch.ones(2), 0),
    "view": lambda: torch.ones(2).view(2),
    "select.int": lambda: torch.ones(2)[0],
    "slice.Tensor": lambda: torch.ones(2)[1:],
    "ones": lambda: torch.ones(2),
    "fill_.Scalar": lambda: torch.ones(2).fill_(3),
    "clone": lambda: torch.ones(2).clone(),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("warm", [False, True])
def test_a_kernel_of_a_program_is_never_passed_by(name, warm):
    run = REPLACEMENTS[name]
    before = run() if warm else None
    called = []

    def kernel(*args, **kwargs):
        called.append(True)
        return torch.empty(2)

    with library._scoped_library("aten", "IMPL") as lib:
        lib.impl(name, kernel, "CPU")
        run()
    assert called
    called.clear()
    after = run()
    assert not called
    if warm and isinstance(after, torch.Tensor):
        assert after.tolist() == before.tolist()


def test_kernels_of_two_keys_are_taken_out_again():
    with library._scoped_library("aten", "IMPL") as lib:
        lib.impl("sum", lambda x, dtype=None: torch.full((), 7.0), "CPU")
        lib.impl("sum", lambda x, dtype=None: torch.empty(5, device="meta"), "Meta")
        assert torch.ones(3).sum().item() == 7
        assert torch.ones(3, device="meta").sum().shape == (5,)
    assert torch.ones(3).sum().item() == 3
    assert torch.ones(3, device="meta").sum().shape == ()


def test_stubs_are_what_they_were_once_a_kernel_is_taken_out():
    texts = []
    for _ in range(3):
        texts.append(stub_source(registry.packet("add")))
        with library._scoped_library("aten", "IMPL") as lib:
            lib.impl("add.Tensor", lambda x, y, alpha=1: x, "CPU")
            assert "packet_call" in stub_source(registry.packet("add"))
            assert (torch.ones(1) + 1).item() == 1
        assert (torch.ones(1) + 1).item() == 2
    assert "def stub(self" in texts[0]
    assert texts[0] == texts[1] == texts[2]


FIRST_WHILE_REPLACED = """
import rushlight as torch
from rushlight import library

x = torch.ones(2)
with library._scoped_library("aten", "IMPL") as lib:
    lib.impl("mul.Tensor", lambda x, y: x, "CPU")
    lib.impl("max.dim", lambda x, dim, keepdim=False: (x, x), "CPU")
    multiply, most = torch.mul, torch.max
    assert multiply(x, 3).tolist() == [1, 1] and (x * 3).tolist() == [1, 1]
    assert most(x, 0).values.shape == (2,)
for _ in range(3):
    assert multiply(x, 3).tolist() == [3, 3] and (x * 3).tolist() == [3, 3]
    assert most(x, 0).values.item() == 1
assert multiply.__code__.co_argcount == 2, "the plain case is there again"
"""


def test_stubs_made_while_a_kernel_is_replaced_are_specialised_later():
    done = subprocess.run([sys.executable, "-c", FIRST_WHILE_REPLACED], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_a_replaced_operator_still_leaves_foreign_operands_alone():
    with library._scoped_library("aten", "IMPL") as lib:
        lib.impl("add.Tensor", lambda x, y, alpha=1: x, "CPU")
        assert torch.ones(1).__add__("a") is NotImplemented
        assert torch.max(torch.ones(2), 0).values.item() == 1


@pytest.mark.parametrize("key", ["Tracer", "Batched", "FuncTorchGradWrapper", "Conjugate"])
def test_keys_that_nothing_looks_at_are_refused(key):
    with (
        library._scoped_library("aten", "IMPL") as lib,
        pytest.raises(NotImplementedError, match=f"dispatch key {key}"),
    ):
        lib.impl("neg", lambda x: x, key)


def test_define_impl_and_register_fake_by_name():
    library.define("tests::h", "(Tensor x) -> Tensor")

    @library.impl("tests::h", "cpu")
    def _(x):
        return x + 1

    @library.register_fake("tests::h")
    def _(x):
        return torch.empty_like(x)

    assert torch.ops.tests.h(torch.ones(1)).item() == 2.0
    assert torch.ops.tests.h(torch.ones(1, device="meta")).shape == (1,)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: library.Library("prim", "DEF"), ValueError, "prim is a reserved namespace"),
        (lambda: library.Library("x", "BAD"), ValueError, "Unsupported kind: BAD"),
        (lambda: library.define("nons", "() -> ()"), ValueError, 'form "namespace::name"'),
        (
            lambda: library.Library("tests", "FRAGMENT").define("f(Tensor x)"),
            RuntimeError,
            "expected '->'",
        ),
        (lambda: library.define("a::b", "Tensor x"), ValueError, "expected schema to look like"),
        (lambda: library.register_vmap("tests::zz", abs), RuntimeError, "does not exist"),
        (
            lambda: library.Library("tests", "FRAGMENT").impl("f", 3, "CPU"),
            TypeError,
            "required to be a callable",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


# -- schemas --------------------------------------------------------------------------------


def test_schemas_follow_annotations():
    def f(
        x: Tensor,
        y: Tensor | None,
        ys: Sequence[Tensor],
        n: int,
        fl: float = 1.5,
        b: bool = True,
        s: str = "hi",
        *,
        k: int | None = None,
        dev: torch.device | None = None,
    ) -> tuple[Tensor, Tensor]:
        raise AssertionError

    assert infer_schema(f, mutates_args=()) == (
        '(Tensor x, Tensor? y, Tensor[] ys, SymInt n, float fl=1.5, bool b=True, str s="hi", *, '
        "SymInt? k=None, Device? dev=None) -> (Tensor, Tensor)"
    )
    assert infer_schema(f, mutates_args={"x"}, op_name="g").startswith("g(Tensor(a0!) x, ")


def test_annotations_are_required():
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        infer_schema(lambda x: x, mutates_args=())

    def no_return(x: Tensor):
        return x

    with pytest.raises(ValueError, match="No return type annotation was provided"):
        infer_schema(no_return, mutates_args=())

    def unknown(x: Tensor, d: dict) -> Tensor:
        return x

    with pytest.raises(ValueError, match="Parameter d has unsupported type"):
        infer_schema(unknown, mutates_args=())


def test_opcheck(scale):
    scale.register_fake(lambda x, k=2.0: torch.empty_like(x))
    scale.register_autograd(formula, setup_context=setup)
    found = opcheck(scale, (torch.ones(2, requires_grad=True), 3.0))
    assert set(found.values()) == {"SUCCESS"}


def test_opcheck_finds_hidden_writes_and_wrong_fakes():
    @custom_op("tests::hidden", mutates_args=())
    def hidden(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    hidden.register_fake(lambda x: torch.empty(7, device="meta"))
    found = opcheck(hidden, (torch.ones(2),), raise_exception=False)
    assert "x is not defined as mutable but was mutated" in str(found["test_schema"])
    assert "mismatched tensor metadata" in str(found["test_faketensor"])
    with pytest.raises(library.OpCheckError, match="test_schema failed"):
        opcheck(hidden, (torch.ones(2),), test_utils="test_schema")


def test_a_registered_batch_rule_gets_values_and_dims(scale):
    seen = []

    @scale.register_vmap
    def _(info, in_dims, x, k):
        seen.append((info.batch_size, in_dims))
        return scale(x, k), in_dims[0]

    x = torch.arange(6.0).reshape(2, 3)
    found = torch.vmap(lambda column: scale(column, 3.0), in_dims=1)(x)
    assert torch.equal(found, (3 * x).t())
    assert seen == [(3, (1, None))]


def test_a_batch_rule_that_comes_after_the_first_call_is_used():
    @custom_op("tests::doubled_late", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return 2 * x

    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.vmap(lambda row: doubled(row))(x), 2 * x)
    doubled.register_vmap(lambda info, in_dims, x: (5 * x, in_dims[0]))
    assert torch.equal(torch.vmap(lambda row: doubled(row))(x), 5 * x)


def test_autocast_casts_to_the_registered_dtype():
    @torch.library.custom_op("test_library::cast_me", mutates_args=())
    def cast_me(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    cast_me.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu", torch.float16):
        assert cast_me(torch.ones(1)).dtype is torch.bfloat16
        assert cast_me(torch.ones(1, dtype=torch.float64)).dtype is torch.float64
    assert cast_me(torch.ones(1)).dtype is torch.float32


def test_a_registered_rule_stands_for_torch_dispatch():
    @torch.library.custom_op("test_library::watched", mutates_args=())
    def watched(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Sub(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return torch.full((1,), 5.0)

    @torch.library.register_torch_dispatch("test_library::watched", Mode)
    def _(mode, func, types, args, kwargs):
        assert isinstance(mode, Mode) and func is torch.ops.test_library.watched.default
        return torch.full((1,), 2.0)

    @torch.library.register_torch_dispatch("test_library::watched", Sub)
    def _(cls, func, types, args, kwargs):
        assert cls is Sub and types == (Sub,)
        return torch.full((1,), 3.0)

    with Mode():
        assert watched(torch.ones(1)).item() == 2.0
    assert watched(torch.ones(1).as_subclass(Sub)).item() == 3.0
    assert watched(torch.ones(1)).item() == 1.0


# -- lifetimes ------------------------------------------------------------------------------------


def test_operators_live_as_long_as_their_library():
    lib = library.Library("lived", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x.clone(), "CPU")
    assert torch.ops.lived.f(torch.ones(1)).item() == 1.0
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        library.Library("lived", "DEF")
    del lib
    gc.collect()
    with pytest.raises(AttributeError, match="'_OpNamespace' 'lived' object has no attribute 'f'"):
        _ = torch.ops.lived.f
    del torch.ops.lived
    lib = library.Library("lived", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2, "CPU")
    assert torch.ops.lived.f(torch.ones(1)).item() == 2.0
    lib._destroy()
    lib._destroy()
    with pytest.raises(AssertionError, match="Library object has been destroyed"):
        lib.define("g(Tensor x) -> Tensor")


def test_gradients_of_what_a_kernel_computes_come_with_a_warning():
    with torch.library._scoped_library("warned", "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x * 3, "CPU")
        x = torch.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="warned::f: an autograd kernel was not registered"):
            torch.ops.warned.f(x).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]


def test_what_a_library_holds_can_be_deleted():
    lib = torch.library.Library("deleted", "FRAGMENT")
    lib.define("f(Tensor x) -> Tensor")
    assert lib.m is lib.entries
    del lib.m
    with pytest.raises(AttributeError):
        torch.ops.deleted.f
    with pytest.raises(AssertionError, match="has been destroyed"):
        lib.m


def test_rules_go_with_the_library_that_registered_them():
    with library._scoped_library("lived", "FRAGMENT") as lib:
        lib.define("g(Tensor x) -> Tensor")
        lib.impl("g", lambda x: x.detach().clone(), "CPU")
        x = torch.ones(1, requires_grad=True)
        with library._scoped_library("lived", "FRAGMENT") as other:
            library.register_autograd("lived::g", lambda ctx, grad: grad * 5, lib=other)
            library.register_vmap("lived::g", lambda info, dims, x: (x * 3, dims[0]), lib=other)
            torch.ops.lived.g(x).backward()
            assert x.grad.item() == 5.0
            assert torch.vmap(torch.ops.lived.g)(torch.ones(2)).tolist() == [3.0, 3.0]
        assert torch.vmap(torch.ops.lived.g)(torch.ones(2)).tolist() == [1.0, 1.0]
        assert type(torch.ops.lived.g(x).grad_fn).__name__ == "Unrecorded"


def test_decorators_that_name_a_library():
    with library._scoped_library("lived", "FRAGMENT") as lib:

        @library.define(lib, "defined(Tensor x) -> Tensor")
        def defined(x):
            return x + 1

        assert torch.ops.lived.defined(torch.ones(1)).item() == 2.0
        lib.define("h(Tensor x) -> Tensor")

        @library.impl(lib, "h", "CPU")
        def on_cpu(x):
            return x + 1

        assert torch.ops.lived.h(torch.ones(1)).item() == on_cpu(torch.ones(1)).item() == 2.0


def test_a_fake_implementation_may_come_before_its_definition():
    with library._scoped_library("lived", "FRAGMENT") as lib:
        library.register_fake("lived::later", lambda x: x.new_empty(7), lib=lib)
        lib.define("later(Tensor x) -> Tensor")
        assert torch.ops.lived.later(torch.ones(1, device="meta")).shape == (7,)


def test_kernels_in_triton_are_refused():
    with pytest.raises(NotImplementedError, match="RL0312"):
        library.wrap_triton(abs)
    with pytest.raises(NotImplementedError, match="RL0312"):
        library.triton_op("a::b", abs, mutates_args=())


# -- custom_op ------------------------------------------------------------------------------------


def test_writes_to_lists_are_counted():
    @custom_op("tests::grow", mutates_args={"xs"})
    def grow(xs: list[Tensor]) -> None:
        for x in xs:
            x.numpy()[...] += 1

    x = torch.zeros(2)
    grow([x])
    assert x._version > 0 and x.tolist() == [1.0, 1.0]
    y = torch.zeros(2, requires_grad=True).clone()
    z = y.sin()
    with torch.no_grad():
        grow([y.detach()])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_needs_of_gradients_are_told_by_argument():
    seen = []

    @custom_op("tests::scaled_all", mutates_args=())
    def scaled_all(xs: list[Tensor], y: Tensor, *, k: float = 1.0) -> list[Tensor]:
        return [x * y * k for x in xs]

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs[0], inputs[1])
        ctx.k = keyword_only_inputs["k"]

    def backward(ctx, grads):
        seen.append(ctx.needs_input_grad)
        *_, y = ctx.saved_tensors
        return [grad * y * ctx.k for grad in grads], None

    scaled_all.register_autograd(backward, setup_context=setup)
    x = torch.ones(2, requires_grad=True)
    first, second = scaled_all([x, torch.ones(2)], torch.full((2,), 3.0), k=2.0)
    (first + second).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and seen == [([True, False], False)]
    scaled_all.register_autograd(lambda ctx, grads: (grads[0], None), setup_context=setup)
    with pytest.raises(RuntimeError, match="to be of the same structure as the inputs"):
        scaled_all([x], torch.ones(2))[0].sum().backward()


def test_arguments_at_the_end_that_have_their_default_need_no_gradient(scale):
    scale.register_autograd(lambda ctx, grad: grad * ctx.k, setup_context=setup)
    x = torch.ones(2, requires_grad=True)
    scale(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        scale(x, 3.0).sum().backward()


def test_results_may_not_share_memory():
    @custom_op("tests::shares", mutates_args=())
    def shares(x: Tensor) -> Tensor:
        return x.view(-1)

    @custom_op("tests::twice", mutates_args=())
    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        return y, y

    for op in (shares, twice):
        with pytest.raises(RuntimeError, match="may not alias any inputs to this custom operator"):
            op(torch.ones(2))


def test_a_kernel_can_be_switched_off(caplog):
    @custom_op("tests::switched", mutates_args=(), device_types="cpu")
    def switched(x: Tensor) -> Tensor:
        return x + 1

    switched.register_kernel("cpu")(lambda x: x + 3)
    assert switched(torch.ones(1)).item() == 4.0
    with switched.set_kernel_enabled("cpu", enabled=False):
        assert switched(torch.ones(1)).item() == 2.0
    assert switched(torch.ones(1)).item() == 4.0
    for device, enabled, words in (
        ("gpu", False, "no kernel was registered for this device type"),
        ("cpu", True, "already enabled"),
    ):
        caplog.clear()
        with switched.set_kernel_enabled(device, enabled):
            assert words in caplog.text


def test_keyword_only_tensors_are_refused():
    def keyword(x: Tensor, *, y: Tensor) -> Tensor:
        return x + y

    with pytest.raises(NotImplementedError, match="custom_op with kwarg-only Tensor args"):
        custom_op("tests::keyword", keyword, mutates_args=())
    with torch.library._scoped_library("tests_keyword", "FRAGMENT") as lib:
        lib.define("f(Tensor x, *, Tensor? y) -> Tensor")
        for register in (torch.library.register_autograd, torch.library.register_vmap):
            with pytest.raises(NotImplementedError, match=f"{register.__name__} with kwarg-only"):
                register("tests_keyword::f", lambda *args: None)


@pytest.mark.parametrize(
    "schema, words",
    [
        ("f(Tensor x) -> whatever", "unknown type specifier 'whatever'"),
        ("f(whatever[] x) -> Tensor", "unknown type specifier 'whatever'"),
        ("f((Tensor, what) x) -> Tensor", "unknown type specifier 'what'"),
        ("f(Tensor x, int64_t n) -> Tensor", "Use `SymInt` or `int` instead of `int64_t`"),
        ("f(Tensor x, double? s) -> Tensor", "Use `float` instead of `double`"),
    ],
)
def test_types_that_nobody_knows_are_refused(schema, words):
    scoped = torch.library._scoped_library("tests_types", "FRAGMENT")
    with scoped as lib, pytest.raises(RuntimeError, match=words):
        lib.define(schema)


def test_transforms_of_an_operator_without_rules():
    @custom_op("tests::cloned", mutates_args=())
    def cloned(x: Tensor) -> Tensor:
        return x.clone()

    @custom_op("tests::bumped", mutates_args={"x"})
    def bumped(x: Tensor) -> None:
        x.add_(1)

    def bump(x):
        y = x.clone()
        bumped(y)
        return y

    assert torch.vmap(cloned)(torch.ones(2, 3)).shape == (2, 3)
    found = torch.func.grad(lambda x: cloned(x.detach()).sum() + x.sum())(torch.ones(2))
    assert found.tolist() == [1.0, 1.0]
    assert torch.func.functionalize(cloned)(torch.ones(1)).item() == 1.0
    assert torch.func.functionalize(bump)(torch.ones(2)).tolist() == [2.0, 2.0]
    assert opcheck(bumped, (torch.ones(2),), test_utils="test_aot_dispatch_dynamic") == {
        "test_aot_dispatch_dynamic": "SUCCESS"
    }


def test_batch_rules_get_keywords_as_such():
    seen = []

    @custom_op("tests::batched", mutates_args=())
    def batched(x: Tensor, ys: list[Tensor], k: int = 2, *, s: float = 1.0) -> Tensor:
        return x * ys[0] * k * s

    @batched.register_vmap
    def _(info, in_dims, x, ys, k=2, s=1.0):
        seen.append((info.batch_size, info.randomness, in_dims))
        return batched(x.movedim(in_dims[0], 0), ys, k, s=s), 0

    y = torch.ones(3)
    found = torch.vmap(lambda x: batched(x, [y], 3, s=2.0), in_dims=1)(torch.ones(3, 2))
    assert found.tolist() == [[6.0] * 3] * 2 and seen == [(2, "error", (1, [None], None))]


def test_sizes_that_values_decide():
    @custom_op("tests::places", mutates_args=())
    def places(x: Tensor) -> Tensor:
        return x.nonzero()

    @places.register_fake
    def _(x):
        count = library.get_ctx().new_dynamic_size()
        return x.new_empty([count, x.dim()], dtype=torch.int64)

    with FakeTensorMode(shape_env=ShapeEnv()):
        count, rank = places(torch.ones(3)).shape
    assert isinstance(count, torch.SymInt) and rank == 1
    with FakeTensorMode(), pytest.raises(DynamicOutputShapeException):
        places(torch.ones(3))
    with pytest.raises(RuntimeError, match="tests::places: You're trying to run this operator"):
        places(torch.ones(3, device="meta"))
    assert library.get_ctx() is None
    assert set(opcheck(places, (torch.ones(2),)).values()) == {"SUCCESS"}


# -- opcheck --------------------------------------------------------------------------------------


def test_opcheck_finds_gradients_in_kernels_and_missing_formulas(scale):
    with library._scoped_library("lived", "FRAGMENT") as lib:
        lib.define("recorded(Tensor x) -> Tensor")
        lib.impl("recorded", lambda x: x.sin(), "CPU")
        x = torch.ones(2, requires_grad=True)
        with pytest.raises(library.OpCheckError, match="does not have an autograd kernel defined"):
            opcheck(torch.ops.lived.recorded, (x,), test_utils="test_autograd_registration")
    scale.register_fake(lambda x, k=2.0: torch.empty_like(x))
    found = opcheck(scale, (x, 3.0), raise_exception=False)
    assert "no autograd formula was registered" in str(found["test_aot_dispatch_dynamic"])
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        opcheck(scale, (x, 3.0), test_utils="foo")
    with pytest.raises(ValueError, match="op must be instance of torch._ops.OpOverload"):
        opcheck(3, ())


def test_an_op_whose_only_form_writes_its_result_is_called_by_its_name():
    made = library.Library("writes_alone", "DEF")
    made.define("double_into(Tensor x, Tensor(a!) out) -> ()")
    made.impl("double_into", lambda x, out: out.copy_(x * 2).numel() and None, "CPU")
    out = torch.zeros(2)
    torch.ops.writes_alone.double_into(torch.ones(2), out)
    assert out.tolist() == [2.0, 2.0]
