"""Tensor subclasses: `__torch_function__`, `__torch_dispatch__`, wrappers."""

from __future__ import annotations

import operator

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.core import modes
from rushlight.core.modes import TorchDispatchMode


class Logging(torch.Tensor):
    """Overrides functions only."""

    log: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    """Holds another tensor and computes with it below autograd."""

    log: list = []

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            elem.shape,
            strides=elem.stride(),
            dtype=elem.dtype,
            device=elem.device,
            requires_grad=requires_grad,
        )

    def __init__(self, elem, requires_grad=False):
        self.elem = elem

    __torch_function__ = modes.disabled_torch_function_impl

    def __tensor_flatten__(self):
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return Wrapper(inner["elem"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.log.append(str(func).removeprefix("aten."))
        plain = lambda x: x.elem if isinstance(x, Wrapper) else x  # noqa: E731
        wrapped = lambda x: Wrapper(x) if isinstance(x, torch.Tensor) else x  # noqa: E731
        out = func(*pytree.tree_map(plain, args), **pytree.tree_map(plain, kwargs or {}))
        out = pytree.tree_map(wrapped, out)
        return modes.return_and_correct_aliasing(func, args, kwargs or {}, out)


@pytest.fixture(autouse=True)
def empty_logs():
    Logging.log.clear()
    Wrapper.log.clear()


def test_results_of_overridden_functions_keep_the_subclass():
    x = torch.ones(2).as_subclass(Logging)
    y = torch.add(x, 1)
    assert type(y) is Logging
    assert [type(part) for part in x.chunk(2)] == [Logging, Logging]
    assert Logging.log == ["add", "chunk"]


def test_lists_of_tensors_are_searched_for_overrides():
    x = torch.ones(2).as_subclass(Logging)
    assert type(torch.cat([torch.ones(1), x])) is Logging
    assert Logging.log == ["cat"]


def test_subclasses_come_before_their_bases():
    order = []

    class Child(Logging):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append([kind.__name__ for kind in types])
            return super().__torch_function__(func, types, args, kwargs)

    parent, child = torch.ones(1).as_subclass(Logging), torch.ones(1).as_subclass(Child)
    assert type(torch.add(parent, child)) is Child
    assert order == [["Child", "Logging"]]


def test_any_class_may_override():
    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, len(args)

    assert torch.add(torch.ones(1), Foreign()) == ("add", 2)
    assert torch.ones(1) + Foreign() == ("add", 2)


def test_a_declining_override_is_named():
    class Declines(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="all __torch_function__ handlers returned NotImplemented"):
        torch.add(torch.ones(1).as_subclass(Declines), 1)


def test_disable_torch_function_subclass():
    x = torch.ones(2).as_subclass(Logging)
    with modes.DisableTorchFunctionSubclass():
        y = x + 1
    assert type(y) is torch.Tensor and Logging.log == []


def test_gradients_flow_through_an_overriding_subclass():
    leaf = torch.ones(2, requires_grad=True)
    (leaf.as_subclass(Logging) * 3).sum().backward()
    assert leaf.grad.tolist() == [3.0, 3.0]


# -- wrappers --------------------------------------------------------------------------------------


def test_a_wrapper_computes_with_what_it_holds():
    x = Wrapper(torch.arange(3.0))
    y = x * 2 + 1
    assert type(y) is Wrapper and y.elem.tolist() == [1.0, 3.0, 5.0]
    assert Wrapper.log == ["mul.Tensor", "add.Tensor"]


def test_a_wrapper_sees_composites_decomposed():
    x = Wrapper(torch.ones(2, 2, 3))
    y = x @ torch.ones(3, 2)
    assert y.shape == (2, 2, 2) and y.elem[0, 0, 0].item() == 3.0
    assert Wrapper.log == ["view.default", "mm.default", "_unsafe_view.default"]


def test_autograd_through_a_wrapper():
    x = Wrapper(torch.arange(3.0), requires_grad=True)
    y = (x * x).sum()
    assert type(y.grad_fn).__name__ == "SumBackward0"
    y.backward()
    assert type(x.grad) is Wrapper and x.grad.elem.tolist() == [0.0, 2.0, 4.0]
    assert "ones_like.default" in Wrapper.log and "expand.default" in Wrapper.log


def test_a_saved_result_of_a_wrapper_keeps_what_it_holds():
    x = Wrapper(torch.zeros(2), requires_grad=True)
    (first,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.elem.tolist() == [1.0, 1.0] and second.elem.tolist() == [1.0, 1.0]


def test_double_backward_through_a_wrapper():
    x = Wrapper(torch.tensor([2.0]), requires_grad=True)
    (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.elem.item() == 12.0 and second.elem.item() == 12.0


def test_in_place_on_a_wrapper_returns_the_same_object():
    x = Wrapper(torch.zeros(2))
    version = x._version
    y = x.add_(1)
    assert y is x and x.elem.tolist() == [1.0, 1.0]
    assert x._version == version + 1


def test_in_place_on_a_view_of_a_wrapper_reaches_the_base():
    x = Wrapper(torch.zeros(2, 2))
    x[0].add_(5)
    assert x.elem.tolist() == [[5.0, 5.0], [0.0, 0.0]]


def test_a_view_of_a_wrapper_shares_its_storage():
    x = Wrapper(torch.zeros(2, 2))
    y = x.view(4)
    assert y._is_view() and y._base is x
    assert y.untyped_storage() is x.untyped_storage()


def test_autograd_is_off_inside_torch_dispatch():
    seen = []

    class Look(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            leaf = torch.ones(1, requires_grad=True)
            seen.append((leaf * 2).requires_grad)
            return super().__torch_dispatch__(func, types, args, kwargs)

    Look(torch.ones(1)) + 1
    assert seen == [False]


def test_a_mode_comes_before_a_wrapper():
    order = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append([kind.__name__ for kind in types])
            return func(*args, **(kwargs or {}))

    x = Wrapper(torch.ones(1))
    with Mode():
        x + 1
    # The second call is the one that the wrapper makes on what it holds: the mode is off then.
    assert order == [["Wrapper"]] and Wrapper.log == ["add.Tensor"]


def test_transform_subclass_and_traceability():
    x = Wrapper(torch.ones(2))
    assert modes.is_traceable_wrapper_subclass(x)
    assert not modes.is_traceable_wrapper_subclass(torch.ones(2))
    y = modes.transform_subclass(x, lambda name, inner: inner + 1)
    assert type(y) is Wrapper and y.elem.tolist() == [2.0, 2.0]


def test_a_wrapper_that_declines():
    class Declines(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"):
        torch.add(Declines(torch.ones(1)), 1)


def test_function_override_stays_off_inside_dispatch_reached_through_it():
    log = []

    class Both(Wrapper):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append("function")
            return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log.append(str(func))
            if func is torch.ops.aten.mul.Tensor:
                return torch.add(args[0], args[0])
            return Both(func(*[a.elem if isinstance(a, Both) else a for a in args]))

    Both(torch.ones(1)) * 2
    assert log == ["function", "aten.mul.Tensor", "aten.add.Tensor"]


X, A, B = torch.full((2, 2), 1.0), torch.full((2, 2), 2.0), torch.full((2, 2), 3.0)
V = torch.tensor([1.0, 2.0])


@pytest.mark.filterwarnings("ignore:.*order of arguments of old")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (lambda: torch.add(X, 2, A), lambda: X + 2 * A),
        (lambda: torch.add(X, 2, A, out=torch.empty(2, 2)), lambda: X + 2 * A),
        (lambda: torch.add(X, 2, 3), lambda: X + 6),
        (lambda: X.sub(2, A), lambda: X - 2 * A),
        (lambda: X.clone().add_(2, A), lambda: X + 2 * A),
        (lambda: X.clone().sub_(2, A), lambda: X - 2 * A),
        (lambda: torch.addcmul(X, 2, A, B), lambda: X + 2 * A * B),
        (lambda: X.clone().addcdiv_(2, A, B), lambda: X + 2 * A / B),
        (lambda: torch.addmm(2, X, 3, A, B), lambda: 2 * X + 3 * (A @ B)),
        (lambda: X.addmm(2, 3, A, B), lambda: 2 * X + 3 * (A @ B)),
        (lambda: X.clone().addmm_(2, A, B), lambda: 2 * X + A @ B),
        (lambda: torch.addmv(2, V, 3, A, V), lambda: 2 * V + 3 * (A @ V)),
        (lambda: torch.addr(2, X, V, V), lambda: 2 * X + V[:, None] * V),
        (lambda: torch.addbmm(2, X, 3, A[None], B[None]), lambda: 2 * X + 3 * (A @ B)),
        (lambda: X[None].baddbmm(2, A[None], B[None]), lambda: (2 * X + A @ B)[None]),
    ],
)
def test_orders_of_arguments_of_old_are_understood(given, meant):
    assert torch.equal(given(), meant())


def test_orders_of_old_warn_and_differentiate():
    x = torch.ones(2, requires_grad=True)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="give alpha by keyword"):
            torch.add(V, 3, x).sum().backward()
    finally:
        torch.set_warn_always(False)
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    "call",
    [lambda: torch.add(X, A, 3), lambda: torch.add(X, 2, A, alpha=3), lambda: torch.mul(X, 2, A)],
)
def test_other_orders_are_refused(call):
    with pytest.raises(TypeError):
        call()


class Foreign:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, args, kwargs


def test_foreign_subscripts_handle_the_call():
    x, foreign = torch.ones(3, 3), Foreign()
    for index in (foreign, (0, foreign)):
        name, args, _ = x[index]
        assert name == "__getitem__" and args[0] is x and args[1] is index
        x[index] = 5
    x[0] = foreign
    assert torch.equal(x, torch.ones(3, 3))

    class Own(torch.Tensor):
        pass

    index = torch.tensor([0]).as_subclass(Own)
    assert type(x[index]) is Own and type(x[index, 0]) is Own
    x[1] = torch.tensor(4.0).as_subclass(Own)
    assert x[1, 0] == 4


def test_gradient_calls_are_handed_over():
    foreign = Foreign()
    name, args, options = torch.autograd.grad(foreign, foreign)
    assert (name, args) == ("grad", ((foreign,), (foreign,)))
    assert options["grad_outputs"] is None and options["allow_unused"] is False
    assert torch.autograd.backward(foreign) is None

    class Own(torch.Tensor):
        pass

    x = torch.ones(2, requires_grad=True)
    (found,) = torch.autograd.grad((x.as_subclass(Own) * 2).sum(), x)
    assert type(found) is Own and found.tolist() == [2.0, 2.0]


def test_functions_that_are_no_ops_see_overrides_given_by_keyword():
    told = []

    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append((func.__name__, args, sorted(kwargs or {})))
            return "handled"

    value = torch.ones(2).as_subclass(Seen)
    assert torch.tensordot(torch.ones(2), b=value, dims=1) == "handled"
    assert torch.cdist(value, x2=torch.ones(2)) == "handled"
    assert [(name, names) for name, _, names in told] == [
        ("tensordot", ["b", "dims"]), ("cdist", ["x2"]),
    ]  # fmt: skip


# -- what torch's own classes of this kind rely on -------------------------------------------------


class Recording(torch.Tensor):
    """Made with positional arguments; lists the calls it gets."""

    log: list = []
    __slots__ = ("held",)

    @staticmethod
    def __new__(cls, held, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), held.stride(), held.storage_offset(), torch.contiguous_format,
            held.dtype, held.layout, held.device, False, requires_grad,
        )  # fmt: skip
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.log.append(str(func).removeprefix("aten."))
        args, kwargs = pytree.tree_map_only(Recording, lambda t: t.held, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Recording, func(*args, **kwargs))


def recorded(function):
    Recording.log = []
    function()
    return Recording.log


def test_leaves_take_gradients_of_wrappers_over():
    def square():
        x = Recording(torch.ones(2), True)
        (x * x).sum().backward()

    def exponential():
        torch.exp(Recording(torch.ones(2), True)).sum().backward()

    start = ["sum.default", "ones_like.default", "expand.default"]
    assert recorded(square) == [
        "mul.Tensor", *start, "mul.Tensor", "mul.Tensor", "add.Tensor", "detach.default",
    ]  # fmt: skip
    assert recorded(exponential) == [
        "exp.default", "detach.default", *start, "detach.default", "mul.Tensor", "detach.default",
    ]  # fmt: skip


def test_data_of_a_wrapper_is_its_to_make():
    assert recorded(lambda: Recording(torch.ones(2)).data) == ["detach.default"]
    assert Recording(torch.ones(2)).data.held.tolist() == [1.0, 1.0]


def test_a_class_may_leave_a_call_to_its_base():
    class Passing(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    result = torch.ones(2).as_subclass(Passing) + 1
    assert type(result) is torch.Tensor
    assert result.tolist() == [2.0, 2.0]


def test_gradcheck_of_a_wrapper():
    x = Recording(torch.ones(2, dtype=torch.float64), True)
    assert torch.autograd.gradcheck(lambda x: x * 2, (x,))


def test_numbers_with_a_gradient_are_no_floats():
    x, p = torch.ones(2), torch.tensor(0.5, requires_grad=True)
    for call in (
        lambda: torch.nan_to_num(x, p),
        lambda: torch.nn.functional.layer_norm(x, (2,), eps=p),
        lambda: torch.isclose(x, x, p),
        lambda: x.clone().normal_(p, 1.0),
    ):
        with pytest.raises(TypeError):
            call()
    assert torch.nan_to_num(x, p.detach()).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("one", [torch.tensor(2), torch.tensor([2]), torch.tensor([[2]])])
def test_a_tensor_of_one_integer_stands_for_a_size(one):
    x = torch.arange(6.0)
    assert torch.zeros(one).shape == (2,)
    assert torch.ones(3, one).shape == torch.zeros([3, one]).shape == (3, 2)
    assert x.view(-1, one).shape == x.reshape([3, one]).shape == (3, 2)
    assert torch.nn.functional.interpolate(x.view(1, 1, 6), size=[one]).tolist() == [[[0.0, 3.0]]]
    assert x.topk(one).values.tolist() == [5.0, 4.0]
    assert x.sum([one - 2]).item() == 15.0


def test_tensors_of_one_number_are_no_dims_and_of_truth_values_no_sizes():
    x = torch.arange(6.0)
    with pytest.raises(TypeError, match="must be int, not Tensor"):
        x.softmax(torch.tensor([0]))
    for wrong in (torch.tensor([2.0]), torch.tensor([2, 3])):
        with pytest.raises(TypeError, match="size"):
            torch.zeros(3, wrong)


def test_one_index_in_a_tensor_is_an_index_to_split_at():
    pieces = torch.arange(9).tensor_split(torch.tensor([2]))
    assert [len(piece) for piece in pieces] == [2, 7]


@pytest.mark.parametrize("name", ["sub", "truediv", "floordiv", "pow", "matmul", "mod", "lshift"])
def test_operators_that_one_operand_declines_ask_the_other(name):
    class Declines(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    reflected = getattr(torch.Tensor, f"__r{name}__")

    class Reflects(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return -1 if func is reflected else NotImplemented

    call = getattr(operator, name)
    assert call(Declines(), Reflects()) == -1
    with pytest.raises(TypeError, match="unsupported operand type"):
        call(Declines(), Declines())
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.add'"):
        torch.add(Declines(), Declines())
