"""Every layer of the dispatcher: what it sees, in which order, and that it re-enters below."""

import pytest

import rushlight as torch
from rushlight.core.fake import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from rushlight.core.functional import (
    FunctionalMode,
    FunctionalTensor,
    from_functional,
    to_functional,
)
from rushlight.core.modes import TorchDispatchMode
from rushlight.core.recording import Recorder
from rushlight.core.state import LOCAL, PROCESS


class Names(TorchDispatchMode):
    """Notes the ops that reach a mode."""

    def __init__(self, key=None):
        super().__init__(_dispatch_key=key)
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def state_is_restored():
    before = PROCESS.special
    yield
    state = LOCAL.state
    assert (state.pre_modes, state.dispatch_modes) == ((), ())
    assert (state.functional, state.proxy, state.fake, state.excluded) == (None, None, None, 0)
    assert PROCESS.special == before


# -- pre-dispatch ----------------------------------------------------------------------------------


def test_pre_dispatch_modes_see_composites_whole():
    x, w = torch.ones(2, 3), torch.ones(4, 3, requires_grad=True)
    with Names("PreDispatch") as pre, Names() as below:
        torch.nn.functional.linear(x, w).sum()
    assert pre.seen == ["aten.linear.default", "aten.sum.default"]
    assert below.seen == ["aten.t.default", "aten.mm.default", "aten.sum.default"]


def test_pre_dispatch_mode_stands_above_autograd():
    x = torch.ones(2, requires_grad=True)
    with Names("PreDispatch") as pre:
        y = x.sin()
    assert pre.seen == ["aten.sin.default"]
    assert y.grad_fn.name() == "SinBackward0"


def test_pre_dispatch_mode_is_off_while_it_runs():
    calls = []

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(str(func))
            return torch.add(func(*args, **(kwargs or {})), 0)

    with Doubling(_dispatch_key="PreDispatch"):
        torch.ones(2).mul(3)
    assert calls == ["aten.ones.default", "aten.mul.Tensor"]


# -- functionalization -----------------------------------------------------------------------------


def recorded(recorder: Recorder) -> list[str]:
    return [str(node.target) for node in recorder.graph.nodes if node.op == "call_function"]


def test_writes_become_values():
    source = torch.arange(4.0)
    x = to_functional(source)
    with Recorder() as below:
        x.add_(1).mul_(2)
    assert recorded(below) == ["aten.add.Tensor", "aten.mul.Tensor"]
    assert from_functional(x).tolist() == [2.0, 4.0, 6.0, 8.0]
    assert source.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_write_to_a_view_reaches_its_base_and_its_other_views():
    x = to_functional(torch.zeros(2, 3))
    row, column = x[0], x[:, 1]
    row.add_(1)
    column.mul_(5)
    assert from_functional(x).tolist() == [[1.0, 5.0, 1.0], [0.0, 0.0, 0.0]]
    assert from_functional(row).tolist() == [1.0, 5.0, 1.0]
    assert from_functional(column).tolist() == [5.0, 0.0]


def test_views_are_replayed_when_they_are_read():
    x = to_functional(torch.arange(6.0).reshape(2, 3))
    with Recorder() as below:
        x.t_()
        x[0].mul_(2)
        y = x.view(x.shape)
        from_functional(x)
        from_functional(y)
    names = recorded(below)
    assert [name.removeprefix("aten.").removesuffix(".default") for name in names] == [
        *("t", "select.int", "mul.Tensor", "t", "select_scatter", "t", "t", "select.int"),
        *("t", "view", "t", "view"),
    ]


VIEWS = {
    "view": lambda x: x.view(6, 4),
    "t": lambda x: x.view(6, 4).t(),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "select": lambda x: x.select(1, 2),
    "slice": lambda x: x[:, 1:3, ::2],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(),
    "squeeze.dim": lambda x: x.unsqueeze(0).squeeze(0),
    "squeeze.dims": lambda x: x.unsqueeze(0).squeeze((0,)),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "as_strided": lambda x: x.as_strided((2, 3), (3, 1), 4),
    "unbind": lambda x: x.unbind(1)[1],
    "split": lambda x: x.split(2, 2)[1],
    "split_with_sizes": lambda x: x.split([1, 2], 1)[1],
    "detach": lambda x: x.detach(),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "chunk": lambda x: x.chunk(3, 1)[2],
    "narrow": lambda x: x.narrow(2, 1, 2),
    "view.dtype": lambda x: x.view(torch.int32).view(torch.float32),
    "real": lambda x: torch.view_as_real(torch.view_as_complex(x.view(2, 3, 2, 2))),
    "chain": lambda x: x.transpose(0, 1)[1:].reshape(4, 4)[2].unsqueeze(0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writes_through_every_view(name):
    view = VIEWS[name]
    plain = torch.arange(24.0).reshape(2, 3, 4)
    x = to_functional(plain.clone())
    view(x).mul_(3)
    view(plain).mul_(3)
    assert torch.equal(from_functional(x), plain)


def test_write_through_an_expanded_view_adds_up():
    x = to_functional(torch.zeros(1, 3))
    x.expand(1, 3).add_(2)
    assert from_functional(x).tolist() == [[2.0, 2.0, 2.0]]


def test_gradients_follow_functional_writes():
    w = to_functional(torch.ones(3).requires_grad_())
    z = w * 2
    z[1].mul_(5)
    (z * z).sum().backward()
    plain = torch.ones(3, requires_grad=True)
    u = plain * 2
    u[1].mul_(5)
    (u * u).sum().backward()
    assert torch.equal(from_functional(w.grad), plain.grad)


def test_results_with_out_and_casts():
    x = to_functional(torch.arange(3))
    x.add_(torch.tensor([1, 2, 3], dtype=torch.int32))
    assert from_functional(x).dtype == torch.int64
    with FunctionalMode():
        out = torch.empty(0)
    torch.sin(to_functional(torch.zeros(3)), out=out)
    assert out.shape == (3,)
    assert from_functional(out).tolist() == [0.0, 0.0, 0.0]


def test_a_write_is_checked_as_usual():
    x = to_functional(torch.arange(3))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        x.add_(1.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        to_functional(torch.ones(2)).add_(torch.ones(3, 2))


def test_frozen_storage_and_foreign_targets():
    x = to_functional(torch.ones(2))
    x.functional_storage.frozen = True
    with pytest.raises(RuntimeError, match="frozen storage"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="mutating a non-functional tensor"):
        torch.ones(2).add_(to_functional(torch.ones(2)))


def test_the_mode_makes_fresh_tensors_functional():
    with FunctionalMode():
        x = torch.ones(2)
    assert isinstance(x, FunctionalTensor)
    assert from_functional(x).tolist() == [1.0, 1.0]


def test_dispatch_modes_see_writes_and_the_recorder_values():
    with Recorder() as recorder, FunctionalMode(), Names() as above:
        torch.ones(2).add_(1)
    assert above.seen == ["aten.ones.default", "aten.add_.Tensor"]
    assert recorded(recorder) == ["aten.ones.default", "aten.add.Tensor"]


def test_above_autograd_composites_are_recorded_whole_and_switches_are_nodes():
    weight = torch.ones(4, 3, requires_grad=True)
    with Recorder(pre_dispatch=True) as recorder:
        with torch.no_grad():
            y = torch.nn.functional.linear(torch.ones(2, 3), weight)
        z = y.matmul(y.t()) * weight.sum()
    names = [node.name for node in recorder.graph.nodes if node.op == "call_function"]
    assert names == [
        *("_set_grad_enabled", "ones", "linear", "_set_grad_enabled_1", "t", "matmul"),
        *("sum_1", "mul"),
    ]
    assert z.grad_fn.name() == "MulBackward0"
    z.sum().backward()
    assert weight.grad.shape == (4, 3)


def test_functionalization_above_autograd_keeps_composites_that_cannot_alias():
    def run(x, w):
        y = torch.nn.functional.linear(x, w)
        y.reshape(-1)[0].mul_(5)
        return y.contiguous()

    x, w = torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)
    x, w = to_functional(x), to_functional(w)
    with Recorder(pre_dispatch=True) as recorder, FunctionalMode(pre_dispatch=True):
        result = from_functional(run(x, w))
    names = recorded(recorder)
    assert names[0] == "aten.linear.default"
    assert not any(name.endswith("_.Tensor") or "reshape" in name for name in names)
    assert torch.equal(result, run(torch.ones(2, 3), torch.ones(2, 3)))


def test_what_a_composite_may_have_given_back_takes_no_writes():
    mode = FunctionalMode(pre_dispatch=True)
    for target in ("source", "result"):
        source = to_functional(torch.ones(3), mode)
        with Recorder(pre_dispatch=True), mode:
            result = torch.nn.functional.dropout(source, training=False)
            with pytest.raises(RuntimeError, match="frozen storage"):
                {"source": source, "result": result}[target].add_(1)


class Pair(torch.Tensor):
    """Two tensors that are computed with side by side."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def part(name):
            return [getattr(v, name) if isinstance(v, cls) else v for v in args]

        return cls(func(*part("a")), func(*part("b")))


def test_a_wrapper_of_functional_tensors_can_be_read_and_is_functionalized_by_parts():
    pair = Pair(to_functional(torch.ones(2)), to_functional(torch.zeros(2)))
    with Recorder() as recorder:
        assert isinstance(pair.a, FunctionalTensor)
        pair.a.add_(3)
        result = pair * 2
    assert type(result) is Pair
    assert from_functional(result.a).tolist() == [8.0, 8.0]
    assert from_functional(result.b).tolist() == [0.0, 0.0]
    assert recorded(recorder) == ["aten.add.Tensor", "aten.mul.Tensor", "aten.mul.Tensor"]


# -- fake ------------------------------------------------------------------------------------------


def test_fake_tensors_run_shape_rules_forward_and_backward():
    with FakeTensorMode():
        x = torch.empty(3, 4, requires_grad=True)
        y = (x @ x.t()).sin()
        y.sum().backward()
    assert isinstance(y, FakeTensor)
    assert y.shape == (3, 3)
    assert x.grad.shape == (3, 4)
    assert y.device.type == "cpu"


def test_fake_tensors_work_outside_of_their_mode():
    mode = FakeTensorMode()
    x = mode.from_tensor(torch.ones(2, 3))
    y = x.t() * 2
    assert isinstance(y, FakeTensor)
    assert y.fake_mode is mode
    assert y.stride() == (1, 3)


def test_conversion_keeps_views_storages_and_gradients():
    base = torch.ones(4, requires_grad=True)
    view, other = base[1:], base.detach()
    mode = FakeTensorMode()
    fake_view, fake_base = mode.from_tensor(view), mode.from_tensor(base)
    assert fake_view._base is fake_base
    assert fake_base.is_leaf
    assert not fake_view.is_leaf
    assert mode.from_tensor(base) is fake_base
    assert mode.from_tensor(other).untyped_storage() is fake_base.untyped_storage()
    computed = mode.from_tensor(base * 2)
    assert computed.requires_grad
    assert not computed.is_leaf


def test_real_tensors_are_refused_unless_allowed():
    with FakeTensorMode(), pytest.raises(AssertionError, match="Please convert all Tensors"):
        torch.empty(2) + REAL
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(torch.empty(2) + REAL, FakeTensor)


REAL = torch.ones(2)


def test_values_that_do_not_exist_are_refused_by_name():
    with FakeTensorMode():
        x = torch.ones(2)
        with pytest.raises(DynamicOutputShapeException, match="nonzero"):
            x.nonzero()
        with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
            x.sum().item()


def test_small_constants_keep_their_value_until_they_are_written_to():
    with FakeTensorMode():
        x = torch.tensor(3)
        assert (x + 1).item() == 4
        x.add_(torch.ones((), dtype=torch.int64))
        with pytest.raises(DataDependentOutputException):
            x.item()


def test_dispatch_modes_see_calls_before_they_are_faked():
    with FakeTensorMode(), Names() as names:
        torch.ones(2).sin()
    assert names.seen == ["aten.ones.default", "aten.sin.default"]


def test_geometry_of_real_tensors_is_not_written_in_a_fake_mode():
    real = torch.ones(2, 3)
    for allowed in (False, True):
        with (
            FakeTensorMode(allow_non_fake_inputs=allowed),
            pytest.raises(AssertionError, match="Can't call metadata mutating ops on non-Fake"),
        ):
            real.transpose_(0, 1)
    assert real.shape == (2, 3)


def test_fake_devices_have_a_number():
    with FakeTensorMode():
        made = torch.empty(2, device="cuda")
        others = (
            made + torch.empty(2, device="cuda:0"),
            torch.ones(2).to("cuda"),
            torch.ones(2).cuda(),
            torch.tensor(1.0, device="cuda"),
            torch.empty(2).new_empty(2, device="cuda"),
        )
        for tensor in (made, *others):
            assert str(tensor.device) == "cuda:0"
        assert str(torch.ones(2).to("cuda:1").device) == "cuda:1"
        assert str(made.cpu().device) == "cpu"
    with pytest.raises(AssertionError, match="CUDA"):
        torch.ones(2).to("cuda")
