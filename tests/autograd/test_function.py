"""Custom Functions: contexts, outputs, gradients, definition errors."""

from __future__ import annotations

import gc
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import Function
from rushlight.autograd.function import (
    BackwardCFunction,
    DelayedError,
    InplaceFunction,
    UndefinedGrad,
    once_differentiable,
)
from rushlight.autograd.graph import Node


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Identity(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 10


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_combined_form_records_a_node_named_after_the_class():
    x = leaf(1.0, 2.0)
    y = Double.apply(x)
    assert type(y.grad_fn).__name__ == y.grad_fn.name() == "DoubleBackward"
    assert type(y.grad_fn) is Double._backward_cls
    assert isinstance(y.grad_fn, BackwardCFunction) and isinstance(y.grad_fn, Node)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_ctx_is_the_node_and_keeps_user_attributes():
    seen = []

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            # names that the graph itself is built on stay free for the user
            ctx.saved, ctx.hooks, ctx.seq, ctx.extra = 1, 2, 3, 4
            seen.append(ctx)
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            assert ctx.needs_input_grad == (True, False)
            assert (ctx.saved, ctx.hooks, ctx.seq, ctx.extra) == (1, 2, 3, 4)
            return grad * ctx.factor, None

    x = leaf(1.0)
    y = Scale.apply(x, 3.0)
    assert y.grad_fn is seen[0]
    y.backward()
    assert x.grad.item() == 3.0


@pytest.mark.parametrize("method", [staticmethod, classmethod])
def test_split_form_fills_in_defaults(method):
    if method is staticmethod:

        class Power(Function):
            @staticmethod
            def forward(x, exponent=3):
                return x**exponent

            @staticmethod
            def setup_context(ctx, inputs, output):
                x, ctx.exponent = inputs
                ctx.save_for_backward(x)

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * ctx.exponent * x ** (ctx.exponent - 1), None

    else:

        class Power(Function):
            @classmethod
            def forward(cls, x, exponent=3):
                return x**exponent

            @classmethod
            def setup_context(cls, ctx, inputs, output):
                x, ctx.exponent = inputs
                ctx.save_for_backward(x)

            @classmethod
            def backward(cls, ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * ctx.exponent * x ** (ctx.exponent - 1), None

    x = leaf(2.0)
    Power.apply(x).backward()
    assert x.grad.item() == 12.0
    x.grad = None
    Power.apply(x, exponent=2).backward()
    assert x.grad.item() == 4.0


def test_forward_runs_without_grad_mode():
    class Check(Function):
        @staticmethod
        def forward(ctx, x):
            assert not torch.is_grad_enabled()
            assert x.requires_grad
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    Check.apply(leaf(1.0))
    assert torch.is_grad_enabled()


def test_no_node_without_grad_mode_or_grad_inputs():
    with torch.no_grad():
        assert Double.apply(leaf(1.0)).grad_fn is None
    assert not Double.apply(torch.ones(1)).requires_grad


def test_input_returned_as_is_becomes_a_view_with_the_node():
    for x in (leaf(1.0), torch.tensor(1.0, requires_grad=True)):
        y = Identity.apply(x)
        assert y is not x and y._base is x
        assert y.grad_fn.name() == "IdentityBackward"
        y.backward()
        assert x.grad.sum().item() == 10.0
        with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
            Identity.apply(x.clone()).add_(1)
    with torch.no_grad():
        y = Identity.apply(x)
    assert y.grad_fn is None and not y.requires_grad and x.requires_grad


def test_view_output_refuses_writes():
    class Front(Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def backward(ctx, grad):
            return torch.cat([grad, torch.zeros(1)])

    x = leaf(1.0, 2.0)
    y = Front.apply(x)
    assert y.grad_fn.name() == "FrontBackward"
    with pytest.raises(RuntimeError, match="Output 0 of FrontBackward is a view and is being mod"):
        y.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]
    with torch.no_grad():
        y = Front.apply(x)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        y.zero_()


def test_views_of_internal_tensors_leave_no_trace():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x, write):
            view = x.clone()[:1]
            if write:
                view += 2
            return view

        @staticmethod
        def backward(ctx, grad):
            return torch.cat([grad, torch.zeros(1)]), None

    for write in (False, True):
        assert Inner.apply(leaf(1.0, 2.0), write).grad_fn.name() == "InnerBackward"


def test_same_tensor_twice_is_one_object():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 + second * 2

    x = leaf(1.0)
    a, b = Twice.apply(x)
    assert a is b
    (a + b).backward()
    assert x.grad.item() == 4.0


class DoubleInPlace(InplaceFunction):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_dirty_input_keeps_identity_and_is_rebased():
    x = leaf(1.0, 2.0)
    y = x.clone()
    z = DoubleInPlace.apply(y)
    assert z is y and y.grad_fn.name() == "DoubleInPlaceBackward"
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_dirty_view_rebases_its_base():
    x = leaf(1.0, 2.0)
    base = x.clone()
    view = base[:1]
    assert DoubleInPlace.apply(view) is view
    assert type(base.grad_fn).__name__ == "CopySlices"
    base.sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_dirty_leaf_and_unreturned_dirty_are_refused():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        DoubleInPlace.apply(leaf(1.0))

    class Forgets(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(RuntimeError, match="not returned as output"):
        Forgets.apply(leaf(1.0).clone())


def test_dirty_second_output_keeps_its_number():
    class Mixed(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(y)
            return x * 2, y.add_(x)

        @staticmethod
        def backward(ctx, gx, gy):
            return gx * 2 + gy, gy

    x, w = leaf(1.0), leaf(5.0)
    y = w * 1
    a, b = Mixed.apply(x, y)
    assert b is y and b.output_nr == 1 and a.output_nr == 0
    (3 * b).sum().backward()
    assert (x.grad.item(), w.grad.item()) == (3.0, 3.0)


def test_non_differentiable_output():
    seen = []

    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            index = x.argmax() * 1.0
            ctx.mark_non_differentiable(index)
            return x * 2, index

        @staticmethod
        def backward(ctx, grad, opaque):
            seen.append(opaque)
            return grad * 2

    value, index = Both.apply(leaf(1.0, 2.0))
    assert value.requires_grad and not index.requires_grad
    value.sum().backward()
    assert seen[0].item() == 0.0


def test_materialize_switches():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x, materialize, non_diff):
            ctx.set_materialize_grads(materialize)
            ctx._materialize_non_diff_grads = non_diff
            mask = x > 0
            ctx.mark_non_differentiable(mask)
            return x * 2, x * 3, mask, "text"

        @staticmethod
        def backward(ctx, *grads):
            seen.append(grads)
            return grads[0] * 2, None, None

    for materialize, non_diff in ((True, True), (True, False), (False, True)):
        Two.apply(leaf(1.0), materialize, non_diff)[0].backward()
    assert seen[0][1].item() == 0.0 and seen[0][2].dtype is torch.bool and seen[0][3] is None
    assert seen[1][1].item() == 0.0 and seen[1][2] is None
    assert seen[2][1] is None and seen[2][2] is None


def test_missing_gradient_stays_none_on_the_leaf():
    class Nothing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    x = leaf(1.0)
    Nothing.apply(x).backward()
    assert x.grad is None
    assert torch.autograd.grad(Nothing.apply(x), x, allow_unused=True) == (None,)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ((), "incorrect number of gradients \\(expected 1, got 0\\)"),
        ((torch.ones(1), torch.ones(1)), "incorrect number of gradients \\(expected 1, got 2\\)"),
        ((None, torch.ones(1)), "incorrect number of gradients \\(expected 1, got 2\\)"),
        (3, "expected Variable or None \\(got int\\)"),
        (torch.ones(2, 3), "invalid gradient at index 0 - got \\[2, 3\\] but expected shape"),
    ],
)
def test_wrong_returns(returned, text):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return returned

    with pytest.raises(RuntimeError, match=text):
        Wrong.apply(leaf(1.0, 2.0, 3.0, 4.0)).sum().backward()


def test_trailing_nones_are_ignored_and_scalars_take_no_gradient():
    class Extra(Function):
        @staticmethod
        def forward(ctx, x, number):
            return x * number

        @staticmethod
        def backward(ctx, grad):
            return (grad, ctx.second, None, None)

    x = leaf(1.0)
    y = Extra.apply(x, 2)
    y.grad_fn.second = None
    y.backward()
    assert x.grad.item() == 1.0
    y = Extra.apply(x, 2)
    y.grad_fn.second = torch.ones(1)
    with pytest.raises(RuntimeError, match="different than None at position 2"):
        y.backward()


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return 2 * x * grad


def test_saved_tensors_and_release():
    x = leaf(3.0)
    y = Square.apply(x)
    node = y.grad_fn
    assert node.saved_tensors[0] is x and node.saved_tensors[1] is None
    raw = node._raw_saved_tensors
    with pytest.raises(RuntimeError, match="None is forbidden"):
        raw[1].register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        raw[0].register_hooks(lambda t: t)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        raw[0].register_hooks(1, 1)
    raw[0].register_hooks(lambda t: t * 2, lambda t: t)
    with pytest.raises(RuntimeError, match="already been set"):
        raw[0].register_hooks(lambda t: t, lambda t: t)
    y.backward()
    assert x.grad.item() == 12.0
    for attribute in ("saved_tensors", "_raw_saved_tensors"):
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            getattr(node, attribute)
    assert Double.apply(x).grad_fn.saved_tensors == ()
    assert Double.apply(x).grad_fn._raw_saved_tensors == ()


def test_saved_input_modified_afterwards_is_noticed():
    x = leaf(3.0)
    y = x * 1
    z = Square.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_saving_a_non_tensor_is_a_type_error():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x * 2

    with pytest.raises(TypeError, match="argument 1 is of type int"):
        Wrong.apply(leaf(1.0))


def test_saved_variables_warns():
    node = Square.apply(leaf(3.0)).grad_fn
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        node.saved_variables


def test_ctx_put_aside_by_backward_loses_its_tensors_with_the_graph():
    kept = []

    class Hoard(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            kept.append(ctx)
            return grad * ctx.saved_tensors[0]

    x = leaf(3.0)
    y = Hoard.apply(x)
    z = y.exp()
    y.backward(retain_graph=True)
    assert kept[0].saved_tensors[0] is x
    del y
    # The node is still part of a graph.
    assert kept[0].saved_tensors[0] is x and len(kept[0]._raw_saved_tensors) == 1
    del z
    for _ in range(2):
        with pytest.raises(RuntimeError):
            kept[0].saved_tensors
    # A node that someone looks at, and that has not run, keeps what it saved.
    node = Hoard.apply(x).grad_fn
    assert node.saved_tensors[0] is x


def test_saved_output_makes_no_cycle_and_differentiates_twice():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    gc.disable()
    try:
        x = leaf(0.0)
        y = Exp.apply(x)
        alive = weakref.ref(y)
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g, x, retain_graph=True)
        assert (g.item(), h.item()) == (1.0, 1.0)
        del y, g, h
        assert alive() is None
    finally:
        gc.enable()


def test_backward_is_differentiable_and_once_differentiable_is_not():
    x = leaf(3.0)
    (g,) = torch.autograd.grad(Square.apply(x), x, create_graph=True)
    assert torch.autograd.grad(g, x)[0].item() == 2.0

    class Once(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x)
            return x * y

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            assert not torch.is_grad_enabled()
            return grad * ctx.saved_tensors[0], None

    (g,) = torch.autograd.grad(Once.apply(x, 2.0) * x, x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.backward()


def test_definition_errors():
    x = leaf(1.0)

    class NoForward(Function):
        pass

    with pytest.raises(NotImplementedError, match="must implement the forward"):
        NoForward.apply(x)

    class NoBackward(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

    with pytest.raises(NotImplementedError, match="must implement either the backward"):
        NoBackward.apply(x).backward()

    class Vjp(NoBackward):
        @staticmethod
        def vjp(ctx, grad):
            return grad * 7

    Vjp.apply(x).backward()
    assert x.grad.item() == 7.0

    class Both(Vjp):
        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).backward()


def test_instances_are_deprecated_and_no_nodes():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = Double()
    assert isinstance(instance, Double)
    with pytest.raises(RuntimeError, match="non-static forward method is deprecated"):
        instance(leaf(1.0))
    for attribute in ("_register_hook_dict", "register_hook", "next_functions", "name"):
        with pytest.raises(RuntimeError, match=f"Attribute '{attribute}' is invalid"):
            getattr(instance, attribute)
    assert Double.generate_vmap_rule is False
    with pytest.raises(NotImplementedError, match="vmap staticmethod"):
        Double.vmap(None, None)


def test_non_tensor_arguments_and_outputs_pass_through():
    marker = object()

    class Mixed(Function):
        @staticmethod
        def forward(ctx, a, x, b):
            return a, x * 2, b, None

        @staticmethod
        def backward(ctx, *grads):
            assert [g is None for g in grads] == [True, False, True, True]
            return None, grads[1] * 2, None

    x = leaf(1.0)
    a, y, b, none = Mixed.apply(marker, x, "s")
    assert a is marker and b == "s" and none is None and y.output_nr == 1
    y.backward()
    assert x.grad.item() == 2.0
    assert len(y.grad_fn.next_functions) == 1


def test_errors_of_backward_surface_unchanged():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("from backward")

    with pytest.raises(KeyError, match="from backward"):
        Fails.apply(leaf(1.0)).backward()


def test_delayed_error_and_undefined_grad():
    x = leaf(1.0)
    a, b = DelayedError("boom", 2)(x, torch.ones(1))
    assert a.grad_fn.name().endswith("Error") and type(a.grad_fn).__name__ == "Error"
    assert b.grad_fn is a.grad_fn and b.grad_fn.next_functions[1] == (None, 0)
    with pytest.raises(RuntimeError, match="boom"):
        a.backward()
    y = UndefinedGrad()(x)
    assert type(y.grad_fn).__name__ == "UndefinedGradBackward"
    y.backward()
    assert x.grad is None


def test_subclass_of_a_function_gets_its_own_node_class():
    class Triple(Double):
        @staticmethod
        def backward(ctx, grad):
            return grad * 30

    x = leaf(1.0)
    y = Triple.apply(x)
    assert y.grad_fn.name() == "TripleBackward"
    y.backward()
    assert x.grad.item() == 30.0


def test_jvp_carries_tangents_through_a_function():
    from rushlight.autograd import forward_ad as fwAD

    class Scale(Function):
        @staticmethod
        def forward(ctx, factor, x):
            ctx.factor = factor
            ctx.save_for_forward(x)
            return x * factor, "text"

        @staticmethod
        def jvp(ctx, factor_t, x_t):
            assert factor_t is None
            assert ctx.saved_tensors[0].tolist() == [2.0]
            return x_t * ctx.factor, None

    class Identical(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def jvp(ctx, x_t):
            return x_t * 1

    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
        out, text = Scale.apply(3.0, dual)
        assert text == "text" and fwAD.unpack_dual(out).tangent.item() == 3.0
        with pytest.raises(RuntimeError, match="but the jvp is not returning a view"):
            Identical.apply(dual)
        with pytest.raises(NotImplementedError, match="must implement the jvp function"):
            Double.apply(dual)
