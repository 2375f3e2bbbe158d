"""Module: registration, walking, conversion, copies and state dicts."""

from __future__ import annotations

import copy
import gc
import pickle
from collections import OrderedDict

import pytest

import rushlight as torch
from rushlight import nn


class Net(nn.Module):
    """Shares a child, and has a buffer of each kind and a parameter that is None."""

    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(2, 3)
        self.bn = nn.BatchNorm1d(3)
        self.l2 = nn.Linear(3, 1)
        self.register_buffer("kept", torch.zeros(1))
        self.register_buffer("dropped", torch.zeros(1), persistent=False)
        self.register_parameter("nothing", None)
        self.shared = self.l1

    def forward(self, x):
        return self.l2(self.bn(self.l1(x)))


class WithExtra(nn.Module):
    def __init__(self):
        super().__init__()
        self.number = 1
        self.layer = nn.Linear(1, 1)

    def get_extra_state(self):
        return {"number": self.number}

    def set_extra_state(self, state):
        self.number = state["number"]


def names(pairs):
    return [name for name, _ in pairs]


def raised(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def test_repr():
    assert repr(Net()) == (
        "Net(\n"
        "  (l1): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (bn): BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, "
        "track_running_stats=True)\n"
        "  (l2): Linear(in_features=3, out_features=1, bias=True)\n"
        "  (shared): Linear(in_features=2, out_features=3, bias=True)\n"
        ")"
    )


def test_extra_repr_of_several_lines():
    class Chatty(nn.Module):
        def extra_repr(self):
            return "a=1\nb=2"

    assert repr(Chatty()) == "Chatty(\n  a=1\n  b=2\n)"


def test_walks():
    net = Net()
    layers = ["l1.weight", "l1.bias", "bn.weight", "bn.bias", "l2.weight", "l2.bias"]
    assert names(net.named_parameters()) == layers
    assert names(net.named_parameters(remove_duplicate=False)) == [
        *layers, "shared.weight", "shared.bias",
    ]  # fmt: skip
    assert names(net.named_parameters("p", recurse=False)) == []
    assert names(net.l1.named_parameters("p")) == ["p.weight", "p.bias"]
    counted = ["bn.running_mean", "bn.running_var", "bn.num_batches_tracked"]
    assert names(net.named_buffers()) == ["kept", "dropped", *counted]
    assert names(net.named_buffers("q", recurse=False)) == ["q.kept", "q.dropped"]
    assert names(net.named_modules()) == ["", "l1", "bn", "l2"]
    assert names(net.named_modules(remove_duplicate=False)) == ["", "l1", "bn", "l2", "shared"]
    assert names(net.named_children()) == ["l1", "bn", "l2"]
    assert list(net.children()) == [net.l1, net.bn, net.l2]
    assert next(iter(net.modules())) is net and len(list(net.parameters())) == 6
    assert {"l1", "kept", "training"} <= set(dir(net))


def test_apply_goes_from_the_leaves_up():
    log = []
    net = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    assert net.apply(lambda module: log.append(type(module).__name__)) is net
    assert log == ["Linear", "ReLU", "Sequential", "Sequential"]


def test_train_and_eval():
    net = Net()
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(1)


def test_gradients_on_and_off():
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    kept = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad is kept and kept.tolist() == [[0.0, 0.0]]
    layer.zero_grad()
    assert layer.weight.grad is None
    assert layer.requires_grad_(False) is layer and not layer.weight.requires_grad


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda n: n.register_parameter("a.b", None),
         ("KeyError", "'parameter name can\\'t contain \".\"'")),
        (lambda n: n.register_parameter("", None),
         ("KeyError", "'parameter name can\\'t be empty string \"\"'")),
        (lambda n: n.register_parameter("forward", None),
         ("KeyError", "\"attribute 'forward' already exists\"")),
        (lambda n: n.register_parameter("x", torch.ones(1)),
         ("TypeError", "cannot assign 'torch.FloatTensor' object to parameter 'x' "
          "(torch.nn.Parameter or None required)")),
        (lambda n: n.register_buffer(3, None),
         ("TypeError", "buffer name should be a string. Got int")),
        (lambda n: n.register_buffer("x", 3),
         ("TypeError", "cannot assign 'int' object to buffer 'x' (torch Tensor or None required)")),
        (lambda n: n.register_buffer("l1", None),
         ("KeyError", "\"attribute 'l1' already exists\"")),
        (lambda n: n.add_module("x.y", None),
         ("KeyError", "'module name can\\'t contain \".\", got: x.y'")),
        (lambda n: n.add_module("x", 3), ("TypeError", "int is not a Module subclass")),
        (lambda n: setattr(n, "l1", 3),
         ("TypeError", "cannot assign 'int' as child module 'l1' (torch.nn.Module or None "
          "expected)")),
        (lambda n: setattr(n, "kept", 3),
         ("TypeError", "cannot assign 'int' as buffer 'kept' (torch.nn.Buffer, torch.Tensor or "
          "None expected)")),
        (lambda n: setattr(n.l2, "weight", torch.ones(1)),
         ("TypeError", "cannot assign 'torch.FloatTensor' as parameter 'weight' "
          "(torch.nn.Parameter or None expected)")),
        (lambda n: n.absent, ("AttributeError", "'Net' object has no attribute 'absent'")),
        (lambda n: n.get_submodule("absent"), ("AttributeError", "Net has no attribute `absent`")),
        (lambda n: n.get_submodule("kept"), ("AttributeError", "`kept` is not an nn.Module")),
        (lambda n: n.get_parameter("kept"), ("AttributeError", "`kept` is not an nn.Parameter")),
        (lambda n: n.get_buffer("l1.weight"), ("AttributeError", "`weight` is not a buffer")),
        (lambda n: n.get_buffer("l1.q"), ("AttributeError", "Linear has no attribute `q`")),
        (lambda n: n.set_submodule("", nn.ReLU()),
         ("ValueError", "Cannot set the submodule without a target name!")),
        (lambda n: n.set_submodule("l1", 3),
         ("ValueError", "`module` is not an nn.Module, found <class 'int'>")),
        (lambda n: n.set_submodule("new", nn.ReLU(), strict=True),
         ("AttributeError", "Net has no attribute `new`")),
        (lambda n: n.to(torch.int64),
         ("TypeError", "nn.Module.to only accepts floating point or complex dtypes, but got "
          "desired dtype=torch.int64")),
        (lambda n: nn.Module()(1),
         ("NotImplementedError", 'Module [Module] is missing the required "forward" function')),
        (lambda n: nn.Module(3),
         ("TypeError", "Module.__init__() takes 1 positional argument but 2 were given")),
        (lambda n: nn.Module(a=3),
         ("TypeError", "Module.__init__() got an unexpected keyword argument 'a'")),
    ],
)  # fmt: skip
def test_errors(call, wanted):
    assert raised(lambda: call(Net())) == wanted


class Early(nn.Module):
    def __init__(self, name, value):
        setattr(self, name, value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nn.Parameter(torch.ones(1)), "cannot assign parameters before Module.__init__() call"),
        (nn.ReLU(), "cannot assign module before Module.__init__() call"),
        (nn.Buffer(torch.ones(1)), "cannot assign buffer before Module.__init__() call"),
    ],
    ids=["parameter", "module", "buffer"],
)
def test_registration_before_init(value, message):
    assert raised(lambda: Early("x", value)) == ("AttributeError", message)
    assert Early("x", 3).x == 3


def test_attributes_change_their_table():
    net = Net()
    net.l1 = nn.Parameter(torch.ones(1))
    assert "l1" not in names(net.named_modules()) and "l1" in names(net.named_parameters())
    net.plain = 3
    net.plain = nn.ReLU()
    assert "plain" not in net.__dict__ and "plain" in names(net.named_children())
    net.dropped = nn.Parameter(torch.ones(1))
    assert "dropped" in net.state_dict()
    net.kept = None
    assert "kept" not in net.state_dict()
    net.kept = torch.ones(2)
    assert net.state_dict()["kept"].tolist() == [1.0, 1.0]
    del net.kept
    assert not hasattr(net, "kept")
    net.l2.weight = None
    assert "l2.weight" not in names(net.named_parameters())


def test_buffer_is_a_tensor_that_registers_itself():
    buffer = nn.Buffer(torch.ones(2), persistent=False)
    assert isinstance(buffer, nn.Buffer) and isinstance(buffer, torch.Tensor)
    assert not isinstance(torch.ones(2), nn.Buffer)
    net = Net()
    net.more = buffer
    assert "more" in names(net.named_buffers()) and "more" not in net.state_dict()
    net.kept = nn.Buffer(torch.ones(3))
    assert net.kept.tolist() == [1.0, 1.0, 1.0] and "kept" in net.state_dict()


def test_lookup_and_replacement_by_dotted_name():
    net = nn.Sequential(nn.Sequential(nn.Linear(1, 2)))
    assert net.get_submodule("") is net and net.get_submodule("0.0") is net[0][0]
    assert net.get_parameter("0.0.weight") is net[0][0].weight
    net.set_submodule("0.0", nn.Linear(1, 5))
    assert net[0][0].out_features == 5
    net.set_submodule("0.1", nn.ReLU())
    assert names(net[0].named_children()) == ["0", "1"]


def test_a_base_beside_module_is_initialised_on_request():
    class Other:
        def __init__(self, x=None):
            self.x = x

    class Both(nn.Module, Other):
        call_super_init = True

        def __init__(self, x):
            super().__init__(x)

    assert Both(3).x == 3


def test_conversion():
    net = Net()
    weight = net.l1.weight
    assert net.double() is net and net.l1.weight is weight
    assert {p.dtype for p in net.parameters()} == {torch.float64}
    assert net.kept.dtype is torch.float64 and net.bn.num_batches_tracked.dtype is torch.int64
    assert net.to(torch.float32).l1.weight.dtype is torch.float32
    assert net.to(torch.ones(1, dtype=torch.float16)).l1.weight.dtype is torch.float16
    assert net.bfloat16().l1.weight.dtype is torch.bfloat16
    assert net.float().to("cpu", torch.float64, True).l1.weight.dtype is torch.float64
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    assert layer.double().weight.grad.dtype is torch.float64 and layer.weight.requires_grad


def test_meta_modules():
    layer = nn.Linear(2, 1, device="meta")
    assert layer.weight.device.type == "meta"
    assert raised(lambda: layer.to("cpu")) == (
        "NotImplementedError",
        "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
        "torch.nn.Module.to() when moving module from meta to a different device.",
    )
    full = nn.Linear(2, 1)
    with pytest.warns(UserWarning, match="which is a no-op"):
        layer.load_state_dict(full.state_dict())
    layer.load_state_dict(full.state_dict(), assign=True)
    assert torch.equal(layer.weight, full.weight) and isinstance(layer.weight, nn.Parameter)
    assert full.to("meta").to_empty(device="cpu").weight.shape == (1, 2)


def test_copies():
    net = Net().eval()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert not other.training and other.shared is other.l1 and other.l1 is not net.l1
        assert torch.equal(other.l1.weight, net.l1.weight)
        assert list(other.state_dict()) == list(net.state_dict())
        other.register_forward_hook(lambda module, args, result: result + 1)
        assert not net._forward_hooks


STATE = [
    "kept", "l1.weight", "l1.bias", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var",
    "bn.num_batches_tracked", "l2.weight", "l2.bias", "shared.weight", "shared.bias",
]  # fmt: skip


def test_state_dict():
    net = Net()
    state = net.state_dict()
    assert type(state) is OrderedDict and list(state) == STATE
    assert not state["l1.weight"].requires_grad
    assert state["l1.weight"].data_ptr() == net.l1.weight.data_ptr()
    assert net.state_dict(keep_vars=True)["l1.weight"] is net.l1.weight
    assert list(net.l1.state_dict(prefix="z.")) == ["z.weight", "z.bias"]
    assert state._metadata["bn"] == {"version": 2} and state._metadata[""] == {"version": 1}
    given = OrderedDict()
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        assert net.l1.state_dict(given, "p.") is given
    assert list(given) == ["p.weight", "p.bias"]


def test_load_state_dict():
    first, second = Net(), Net()
    assert repr(second.load_state_dict(first.state_dict())) == "<All keys matched successfully>"
    assert torch.equal(first.l2.weight, second.l2.weight)
    state = OrderedDict(first.state_dict())
    state["bn.num_batches_tracked"] = torch.tensor([5])
    second.load_state_dict(state)
    assert second.bn.num_batches_tracked.item() == 5
    del state["kept"]
    state["more"] = torch.ones(1)
    found = second.load_state_dict(state, strict=False)
    assert found == (["kept"], ["more"])
    assert repr(found) == "_IncompatibleKeys(missing_keys=['kept'], unexpected_keys=['more'])"


@pytest.fixture
def swapping():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.parametrize("assign", [False, True])
def test_loading_swaps_tensors_where_that_is_asked_for(swapping, assign):
    module, state = Net(), Net().state_dict()
    module.l1.weight.requires_grad_(False)
    before = module.state_dict(keep_vars=True)
    module.load_state_dict(state, assign=assign)
    after = module.state_dict(keep_vars=True)
    assert all(after[name] is before[name] for name in before)
    assert all(torch.equal(after[name], state[name]) for name in state)
    assert type(module.l1.weight) is nn.Parameter and not module.l1.weight.requires_grad
    assert module.l2.weight.requires_grad
    assert (module.l1.weight.data_ptr() == state["l1.weight"].data_ptr()) is assign


def test_what_a_tensor_loads_has_to_be_a_new_tensor(swapping):
    class Kept(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.module_load:
                return args[1]
            return super().__torch_function__(func, types, args, kwargs or {})

    module = nn.Linear(2, 3, bias=False)
    with pytest.raises(RuntimeError, match="While swapping the .*module_load returned one of"):
        module.load_state_dict({"weight": torch.ones(3, 2).as_subclass(Kept)})


def test_loading_leaves_no_cycles():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    state = module.state_dict()
    gc.collect()
    module.load_state_dict(state)
    assert gc.collect() == 0


def test_parameters_whose_memory_becomes_of_another_kind_are_new_objects():
    layer = nn.Linear(2, 2)
    layer.weight.grad = torch.ones(2, 2)
    weight, grad = layer.weight, layer.weight.grad
    layer.to("meta")
    assert layer.weight is not weight and type(layer.weight) is nn.Parameter
    assert layer.weight.is_meta and layer.weight.grad.is_meta and layer.weight.requires_grad
    assert not weight.is_meta and weight.grad is grad and not grad.is_meta
    held = layer.weight
    layer.to_empty(device="cpu")
    assert layer.weight is not held and held.is_meta
    held = layer.weight
    assert layer.double().weight is held and held.dtype is torch.float64
    layer._apply(lambda value: torch.eye(2).to_sparse())
    assert layer.weight.layout is torch.sparse_coo and held.layout is torch.strided
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        held.data = torch.ones(2, 2, device="meta")


def test_gradients_do_not_arrive_at_swapped_tensors(swapping):
    layer = nn.Linear(2, 3)
    weight, early = layer.weight, layer(torch.ones(2, 2))
    layer.half()
    assert layer.weight is weight and weight.dtype is torch.float16
    with pytest.raises(RuntimeError, match="AccumulateGrad node that was poisoned by swap_tensors"):
        early.sum().backward()
    layer(torch.ones(2, 2, dtype=torch.float16)).sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0]] * 3
    layer.float()
    layer(torch.ones(1, 2)).sum().backward()
    assert weight.grad.tolist() == [[3.0, 3.0]] * 3


def test_load_state_dict_complains_of_everything_at_once():
    net = Net()
    state = OrderedDict(net.state_dict())
    del state["l1.weight"]
    for name in ("extra", "l1.foo", "l1.bias.z", "nothing", "dropped", "far.away"):
        state[name] = torch.ones(1)
    state["l2.weight"] = torch.ones(2, 2)
    state["l2.bias"] = 3
    kind, text = raised(lambda: net.load_state_dict(state))
    assert kind == "RuntimeError"
    assert text == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "l1.weight". \n'
        '\tUnexpected key(s) in state_dict: "extra", "nothing", "dropped", "far.away", "l1.foo", '
        '"l1.bias.z". \n'
        "\tsize mismatch for l2.weight: copying a param with shape torch.Size([2, 2]) from "
        "checkpoint, the shape in current model is torch.Size([1, 3]).\n"
        '\tWhile copying the parameter named "l2.bias", expected torch.Tensor or Tensor-like '
        "object from checkpoint but received <class 'int'>"
    )
    assert raised(lambda: net.load_state_dict(3)) == (
        "TypeError", "Expected state_dict to be dict-like, got <class 'int'>.",
    )  # fmt: skip


def test_assigned_tensors_are_kept():
    layer = nn.Linear(2, 2)
    weight = torch.ones(2, 2, dtype=torch.float64)
    layer.load_state_dict({"weight": weight, "bias": torch.zeros(2)}, assign=True)
    assert layer.weight.data_ptr() == weight.data_ptr() and layer.weight.dtype is torch.float64
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad


def test_extra_state():
    module = WithExtra()
    module.number = 7
    state = module.state_dict()
    assert list(state) == ["_extra_state", "layer.weight", "layer.bias"]
    other = WithExtra()
    other.load_state_dict(state)
    assert other.number == 7
    del state["_extra_state"]
    assert 'Missing key(s) in state_dict: "_extra_state"' in raised(
        lambda: other.load_state_dict(state)
    )[1]  # fmt: skip
    plain = nn.Linear(1, 1)
    unwanted = {**plain.state_dict(), "_extra_state": 3}
    assert 'Unexpected key(s) in state_dict: "_extra_state"' in raised(
        lambda: plain.load_state_dict(unwanted)
    )[1]  # fmt: skip


@pytest.mark.parametrize(
    "given", [{"copy": True}, {"copy": False}, {"dtype": torch.float64, "copy": True}]
)
def test_to_refuses_copies(given):
    with pytest.raises(RuntimeError, match="does not accept copy"):
        nn.Linear(1, 1).to(**given)
    with pytest.raises(RuntimeError, match="does not accept copy"):
        nn.Linear(1, 1).to(torch.float64, False, True)


@pytest.mark.parametrize(
    "args, kwargs",
    [
        ((), {"nonblocking": True}),
        ((), {"other": torch.ones(1)}),
        ((torch.float64, torch.float32), {}),
        (("cpu",), {"device": "cpu"}),
        ((), {"dtype": "float"}),
        ((), {"memory_format": "x"}),
    ],
)
def test_to_refuses_what_it_does_not_know(args, kwargs):
    with pytest.raises(TypeError, match=r"to\(\) received an invalid combination"):
        nn.Linear(1, 1).to(*args, **kwargs)


def test_to_takes_every_form():
    wide = torch.ones(1, dtype=torch.float64)
    for args, kwargs in (
        (("cpu", torch.float64), {}),
        ((None, torch.float64, True), {}),
        ((torch.float64, True), {}),
        ((float,), {}),
        ((wide,), {}),
        ((), {"tensor": wide}),
        ((), {"dtype": torch.float64, "non_blocking": True}),
    ):
        assert nn.Linear(1, 1).to(*args, **kwargs).weight.dtype is torch.float64
    layer = nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    with pytest.warns(UserWarning, match="Complex modules"):
        assert nn.Linear(1, 1).to(torch.complex64).weight.is_complex()


@pytest.mark.parametrize("layout", [torch.channels_last, torch.channels_last_3d])
def test_a_memory_format_is_for_parameters_of_its_rank(layout):
    other = nn.Conv2d(3, 4, 3) if layout is torch.channels_last else nn.Conv3d(3, 4, 3)
    module = nn.Sequential(nn.Conv1d(3, 4, 3), nn.Linear(2, 2), other).to(memory_format=layout)
    assert module[0].weight.stride() == (9, 3, 1)
    assert module[2].weight.is_contiguous(memory_format=layout)
    with pytest.raises(TypeError, match="memory_format"):
        nn.Linear(2, 2).to(memory_format=3)


def test_assigned_parameters_require_gradients_as_the_old_ones_did():
    module = nn.Linear(2, 2)
    given = {k: nn.Parameter(v, requires_grad=False) for k, v in module.state_dict().items()}
    module.load_state_dict(given, assign=True)
    assert module.weight is given["weight"]
    assert module.weight.requires_grad
    module.requires_grad_(False).load_state_dict(nn.Linear(2, 2).state_dict(), assign=True)
    assert not module.weight.requires_grad


def test_a_value_that_cannot_be_loaded_is_named():
    module = nn.Linear(2, 2)
    wrong = {"weight": torch.zeros(2, 2, dtype=torch.int64), "bias": torch.zeros(2)}
    with pytest.raises(RuntimeError, match='named "weight".*can require gradients'):
        module.load_state_dict(wrong, assign=True)
    scalar = nn.Module()
    scalar.register_buffer("b", torch.zeros(()))
    scalar.load_state_dict({"b": torch.ones(1)}, assign=True)
    assert scalar.b.shape == ()


def test_hooks_see_what_every_module_registers():
    from rushlight.nn import registration

    seen = []
    handles = [
        registration.register_module_parameter_registration_hook(
            lambda m, name, value: seen.append(("parameter", name))
        ),
        registration.register_module_buffer_registration_hook(
            lambda m, name, value: seen.append(("buffer", name)) or value + 1
        ),
        registration.register_module_module_registration_hook(
            lambda m, name, value: seen.append(("module", name))
        ),
    ]
    try:
        module = nn.Sequential(nn.Linear(2, 2))
        module.register_buffer("b", torch.zeros(1))
        module.more = nn.Identity()
    finally:
        for handle in handles:
            handle.remove()
    module.c = nn.Identity()
    assert seen == [
        ("parameter", "weight"), ("parameter", "bias"), ("module", "0"), ("buffer", "b"),
        ("module", "more"),
    ]  # fmt: skip
    assert module.b.item() == 1


def test_ways_to_convert_parameters():
    future = torch.__future__
    for overwrites, swaps in ((False, False), (True, False), (False, True)):
        future.set_overwrite_module_params_on_conversion(overwrites)
        future.set_swap_module_params_on_conversion(swaps)
        try:
            assert future.get_overwrite_module_params_on_conversion() is overwrites
            module = nn.Linear(2, 2)
            weight = module.weight
            weight.grad = grad = torch.ones(2, 2)
            module.double()
        finally:
            future.set_overwrite_module_params_on_conversion(False)
            future.set_swap_module_params_on_conversion(False)
        assert (module.weight is weight) is not overwrites
        assert module.weight.dtype is module.weight.grad.dtype is torch.float64
        assert isinstance(module.weight, nn.Parameter) and module.weight.requires_grad
        assert (module.weight.grad is grad) is not overwrites


def test_a_marked_tensor_is_no_special_parameter():
    class Special(nn.Parameter):
        pass

    class Sub(torch.Tensor):
        pass

    made = nn.Parameter(torch.ones(2).as_subclass(Sub))
    assert isinstance(made, nn.Parameter)
    assert not isinstance(made, Special)
    assert isinstance(Special(torch.ones(2)), Special)


def test_buffers_that_are_kept_need_no_new_signature():
    class Older(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = nn.Buffer(torch.ones(1))

        def register_buffer(self, name, value):
            super().register_buffer(name, value)

    assert list(Older().state_dict()) == ["held"]
