"""Optimisers beside runs recorded from PyTorch, and their groups, state and hooks."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import rushlight as torch
from rushlight.base.errors import MissingFeature
from rushlight.optim import SGD, Adam, AdamW, Optimizer

# arguments, names of a parameter's state, parameters after 20 steps in float64
RUNS = [
    (
        "SGD()",
        [],
        [0.9548369009300387, -1.8517407375634265, 0.4376030099826875, 0.3095053850928332],
    ),
    (
        "SGD(lr=0.01)",
        [],
        [0.6115737187510233, -0.9313646719747806, 0.10461488024549057, 0.367930818724928],
    ),
    (
        "SGD(lr=0.01, momentum=0.9)",
        ["momentum_buffer"],
        [-0.5367346808629888, 0.4018252718936896, -0.06286644221840083, 0.46606117298606425],
    ),
    (
        "SGD(lr=0.01, momentum=0.9, nesterov=True)",
        ["momentum_buffer"],
        [-0.4738207939197584, 0.22250003285540207, -0.06765972641404723, 0.48748961946330266],
    ),
    (
        "SGD(lr=0.01, weight_decay=0.1)",
        [],
        [0.5991276032734792, -0.9122373044795808, 0.10232584956485784, 0.3606996751252433],
    ),
    (
        "SGD(0.01, 0.9, 0.3, 0.1)",
        ["momentum_buffer"],
        [-0.33454881911829143, 0.5707731633445411, -0.1926985329343524, 0.42581839955668316],
    ),
    (
        "SGD(lr=0.001, momentum=0.5, maximize=True, weight_decay=0.1)",
        ["momentum_buffer"],
        [1.085757838455584, -2.3043038504818276, 0.6355660739848505, 0.27881851990424905],
    ),
    (
        "SGD(lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.2)",
        ["momentum_buffer"],
        [-0.4570400647862584, 0.20604301131183161, -0.041298819720376016, 0.38157171916195537],
    ),
    (
        "Adam(lr=0.05)",
        ["step", "exp_avg", "exp_avg_sq"],
        [0.07647555665905997, -1.044927501721748, -0.21327424262474812, 1.2786228523073784],
    ),
    (
        "Adam(0.05, (0.8, 0.9), 1e-6, 0.1, True)",
        ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
        [0.11202563320855084, -1.0543725688694265, -0.12771625326012437, 1.2338742024049725],
    ),
    (
        "Adam(lr=0.01, maximize=True)",
        ["step", "exp_avg", "exp_avg_sq"],
        [1.2010191535152894, -2.2014182844612242, 0.703062729330603, 0.10603307699482581],
    ),
    (
        "Adam(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)",
        ["step", "exp_avg", "exp_avg_sq"],
        [0.7835115584127753, -1.7641520715490797, 0.2966562572918848, 0.4953088610642625],
    ),
    (
        "AdamW(lr=0.05)",
        ["step", "exp_avg", "exp_avg_sq"],
        [0.07120878734713743, -1.0308267660191683, -0.21382869745231564, 1.2728186782690263],
    ),
    (
        "AdamW(0.05, (0.7, 0.8), 1e-4, 0.1, True)",
        ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
        [0.10051179697686297, -0.9724808026431903, -0.09288732860848002, 1.1838086236531318],
    ),
    (
        "AdamW(maximize=True)",
        ["step", "exp_avg", "exp_avg_sq"],
        [1.019808609666902, -2.0196130327309327, 0.5199335157859721, 0.2799880114405904],
    ),
    (
        "AdamW(lr=0.05, amsgrad=True, weight_decay=0.2)",
        ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
        [-0.014889100228805744, -0.7913945850810079, -0.21873769539331384, 1.1591473111757404],
    ),
]


def leaf(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def descend(optimizer, value, steps=1):
    for _ in range(steps):
        optimizer.zero_grad()
        (value**2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize(("text", "names", "wanted"), RUNS, ids=[run[0] for run in RUNS])
def test_twenty_steps(text, names, wanted):
    p, q = leaf(1.0, -2.0, 0.5), leaf(0.3).reshape(1, 1).detach().requires_grad_()
    kind, _, arguments = text.partition("(")
    call = f"{kind}([p, q], {arguments}"
    optimizer = eval(call, {"SGD": SGD, "Adam": Adam, "AdamW": AdamW, "p": p, "q": q})
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for _ in range(20):
        optimizer.zero_grad()
        ((p * p * scale).sum() + (q * p).sum().sin()).backward()
        optimizer.step()
    assert [*p.tolist(), q.item()] == pytest.approx(wanted, rel=1e-12)
    assert list(optimizer.state_dict()["state"].get(0, ())) == names


def test_maximize_leaves_the_gradient_alone():
    p = leaf(2.0)
    optimizer = SGD([p], lr=0.1, momentum=0.9, weight_decay=0.5, maximize=True)
    (p * 2).sum().backward()
    optimizer.step()
    assert p.grad.tolist() == [2.0]
    assert p.tolist() == [pytest.approx(2.0 + 0.1 * 2.0 - 0.1 * 0.5 * 2.0)]


@pytest.mark.parametrize(
    "make",
    [
        lambda params: SGD(params, lr=0.1, momentum=0.9),
        lambda params: Adam(params, lr=0.1, amsgrad=True),
        lambda params: AdamW(params, lr=0.1),
    ],
    ids=["sgd", "adam", "adamw"],
)
def test_state_round_trip(make):
    p = leaf(1.0, 2.0)
    optimizer = make([p])
    descend(optimizer, p, 2)
    q = p.detach().clone().requires_grad_()
    other = make([q])
    other.param_groups[0]["lr"] = 5.0
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.1
    descend(optimizer, p, 3)
    descend(other, q, 3)
    assert torch.equal(p, q)
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        r = twin.param_groups[0]["params"][0]
        descend(twin, r)
        assert r is not p and not torch.equal(r, p)
    descend(optimizer, p)
    assert torch.equal(r, p)


def test_loaded_state_takes_the_parameters_dtype_but_not_the_step():
    p = leaf(1.0, dtype=torch.float32)
    optimizer = Adam([p], lr=0.1)
    descend(optimizer, p)
    q = leaf(1.0)
    other = Adam([q], lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    kinds = {name: value.dtype for name, value in other.state[q].items()}
    assert kinds == {
        "step": torch.float32, "exp_avg": torch.float64, "exp_avg_sq": torch.float64,
    }  # fmt: skip


def test_state_dict_names_and_repr():
    group = Adam([leaf(1.0)]).state_dict()["param_groups"][0]
    assert list(group) == [
        "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable",
        "differentiable", "fused", "decoupled_weight_decay", "params",
    ]  # fmt: skip
    assert group["params"] == [0]
    assert repr(SGD([leaf(1.0)], lr=0.5)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n"
        "    foreach: None\n    fused: None\n    lr: 0.5\n    maximize: False\n"
        "    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


def test_groups_have_options_of_their_own():
    p, q, r = leaf(1.0), leaf(1.0), leaf(1.0)
    optimizer = SGD([{"params": [p], "lr": 0.5}, {"params": q}], lr=0.1)
    optimizer.add_param_group({"params": [r], "lr": 0.25, "momentum": 0.5})
    for value in (p, q, r):
        value.grad = torch.ones_like(value)
    optimizer.step()
    assert [p.item(), q.item(), r.item()] == pytest.approx([0.5, 0.9, 0.75])
    assert [group["momentum"] for group in optimizer.param_groups] == [0, 0, 0.5]


def test_names_of_parameters():
    p, q = leaf(1.0), leaf(2.0)
    optimizer = SGD([("w", p), ("b", q)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["w", "b"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["w", "b"]
    with pytest.raises(ValueError, match="Some param names are missing"):
        SGD([p, ("b", q)], lr=0.1)


def test_closure_runs_with_gradients_and_its_loss_is_returned():
    p = leaf(2.0)
    optimizer = SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert optimizer.step(closure=closure).item() == pytest.approx(1.6**2)
    assert optimizer.step() is None


def test_zero_grad():
    p = leaf(2.0)
    optimizer = SGD([p], lr=0.1)
    (p * 2).sum().backward()
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept and kept.tolist() == [0.0]
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()
    assert p.tolist() == [2.0]


def test_hooks():
    p = leaf(2.0)
    optimizer = SGD([p], lr=0.1)
    log = []
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append("after"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    optimizer.register_state_dict_pre_hook(lambda o: log.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: log.append(state["extra"]))
    optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert log == ["before", "after", "after", "save", 1, "loaded"]


def test_a_pre_hook_may_replace_the_arguments():
    p = leaf(2.0)
    optimizer = SGD([p], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o,), {"closure": lambda: "loss"}))
    assert optimizer.step() == "loss"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_a_subclass_of_ones_own():
    class Signed(Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.5})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for value in group["params"]:
                    value.sub_(value.grad.sign() * group["lr"])

    p = leaf(2.0)
    (p * 3).sum().backward()
    optimizer = Signed([p])
    log = []
    optimizer.register_step_post_hook(lambda *args: log.append(1))
    optimizer.step()
    assert p.tolist() == [1.5] and log == [1]


def test_complex_parameters_move_like_pairs_of_real_ones():
    z = torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True)
    pairs = torch.view_as_real(z.detach()).clone().requires_grad_()
    for make in (lambda ps: SGD(ps, lr=0.1, momentum=0.9), lambda ps: Adam(ps, amsgrad=True)):
        first, second = make([z]), make([pairs])
        for _ in range(3):
            first.zero_grad()
            second.zero_grad()
            (z.abs() ** 2).sum().backward()
            (pairs**2).sum().backward()
            first.step()
            second.step()
        assert torch.allclose(torch.view_as_real(z.detach()), pairs.detach())


def test_sparse_gradients():
    table = torch.nn.Embedding(3, 2, sparse=True)
    before = table.weight.detach().clone()
    table(torch.tensor([0, 2])).sum().backward()
    SGD(table.parameters(), lr=0.5).step()
    assert torch.allclose(table.weight, before - torch.tensor([[0.5], [0.0], [0.5]]))
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients"):
        Adam(table.parameters()).step()


P = leaf(1.0)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: SGD(leaf(1.0)), TypeError, "params argument given to the optimizer should be an "
         "iterable of Tensors or dicts, but got torch.DoubleTensor"),
        (lambda: SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda: SGD([P], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: SGD([P], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda: SGD([P], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda: SGD([P], nesterov=True), ValueError,
         "Nesterov momentum requires a momentum and zero dampening"),
        (lambda: Adam([P], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: Adam([P], betas=(1, 0)), ValueError, "Invalid beta parameter at index 0: 1"),
        (lambda: Adam([P], betas=(0, 1)), ValueError, "Invalid beta parameter at index 1: 1"),
        (lambda: SGD([P * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda: SGD([3]), TypeError,
         "optimizer can only optimize Tensors, but one of the params is int"),
        (lambda: SGD([{"params": [P]}, {"params": [P]}]), ValueError,
         "some parameters appear in more than one parameter group"),
        (lambda: SGD([{"params": {P}}]), TypeError, "optimizer parameters need to be organized in "
         "ordered collections, but the ordering of tensors in sets will change between runs. "
         "Please use a list instead."),
        (lambda: SGD([P], fused=True, foreach=True), RuntimeError,
         "`fused` and `foreach` cannot be `True` together."),
        (lambda: SGD([P]).add_param_group(3), TypeError,
         "param_group must be a dict, but got <class 'int'>"),
        (lambda: SGD([P]).load_state_dict(SGD([{"params": [P]}, {"params": leaf(1.0)}])
         .state_dict()), ValueError,
         "loaded state dict has a different number of parameter groups"),
        (lambda: SGD([P]).load_state_dict(SGD([P, leaf(2.0)]).state_dict()), ValueError,
         "loaded state dict contains a parameter group that doesn't match the size of "
         "optimizer's group"),
    ],
)  # fmt: skip
def test_errors(make, kind, message):
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value) == message


def test_what_cannot_be_had_is_refused():
    with pytest.raises(MissingFeature, match="an optimiser's option .lr."):
        SGD([P], lr=torch.tensor(0.1, requires_grad=True), differentiable=True)


def test_a_parameter_twice_in_a_group_is_warned_of():
    with pytest.warns(UserWarning, match="duplicate parameters"):
        SGD([P, P])


def test_groups_are_told_apart_when_shown():
    groups = [{"params": [torch.ones(1)]}, {"params": [torch.ones(1)], "lr": 0.3}]
    shown = str(torch.optim.SGD(groups, lr=0.1)).split("Parameter Group ")
    assert [part.splitlines()[0] for part in shown] == ["SGD (", "0", "1"]
    assert shown[1].endswith("    weight_decay: 0\n\n")
    assert shown[2].endswith("    weight_decay: 0\n)")


def test_repeated_parameters_have_one_number():
    first, second = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    with pytest.warns(UserWarning, match="duplicate"):
        optimizer = torch.optim.SGD([first, first, second], lr=0.1)
    assert optimizer.state_dict()["param_groups"][0]["params"] == [1, 1, 2]
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": [second, first]})
    assert optimizer.state_dict()["param_groups"][1]["params"] == [2, 1]


RULES = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("ASGD", {"t0": 1}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Adadelta", {}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("Rprop", {}),
]


@pytest.mark.parametrize(("rule", "options"), RULES)
def test_gradients_pass_through_differentiable_steps(rule, options):
    def trained(start):
        value = start.clone()
        optimizer = getattr(torch.optim, rule)([value], lr=0.1, differentiable=True, **options)
        for number in range(3):
            value.grad = torch.sin(start * (number + 1)) + start.square() + 0.3
            optimizer.step()
        return value

    start = torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(trained, (start,))


@pytest.mark.parametrize(("rule", "options"), [pair for pair in RULES if pair[0] != "SGD"])
def test_counts_that_old_files_hold_as_numbers_are_taken(rule, options):
    def taken(load_as):
        value = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = getattr(torch.optim, rule)([value], lr=0.1, **options)
        for number in range(2):
            if number:
                saved = copy.deepcopy(optimizer.state_dict())
                for name, entry in saved["state"][0].items():
                    if entry.dim() == 0:
                        saved["state"][0][name] = load_as(entry)
                optimizer.load_state_dict(saved)
            value.grad = torch.tensor([0.3, -0.2])
            optimizer.step()
        assert isinstance(optimizer.state[value]["step"], torch.Tensor)
        return value

    assert torch.equal(taken(float), taken(torch.clone))


def test_hooks_around_every_step():
    from rushlight.optim import optimizer as module

    seen = []
    first = module.register_optimizer_step_pre_hook(lambda *_: seen.append("every pre"))
    last = module.register_optimizer_step_post_hook(lambda *_: seen.append("every post"))
    own = SGD([torch.ones(1, requires_grad=True)])
    own.register_step_pre_hook(lambda *_: seen.append("pre"))
    own.register_step_post_hook(lambda *_: seen.append("post"))
    own.step()
    first.remove()
    last.remove()
    own.step()
    assert seen == ["every pre", "pre", "post", "every post", "pre", "post"]


def test_constructors_have_the_signature_of_their_options():
    assert str(inspect.signature(SGD)) == (
        "(params, lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, "
        "maximize=False, foreach=None, differentiable=False, fused=None)"
    )
    with pytest.raises(TypeError, match=r"SGD.__init__\(\) got an unexpected keyword .*'learning'"):
        SGD([leaf(1.0)], learning=0.1)
    with pytest.raises(
        TypeError, match=r"Adam.__init__\(\) missing 1 required positional argument: 'params'"
    ):
        Adam(lr=0.1)
    with pytest.raises(TypeError, match=r"SGD.__init__\(\) takes from 2 to 7 positional"):
        SGD([leaf(1.0)], 0.1, 0, 0, 0, False, True)


def test_subclasses_may_have_constructors_of_their_own():
    class Slow(Adam):
        def __init__(self, params, slowness):
            super().__init__(params, 1 / slowness, eps=1e-6)

    assert list(inspect.signature(Slow).parameters) == ["params", "slowness"]
    group = Slow([leaf(1.0)], 4.0).param_groups[0]
    assert (group["lr"], group["eps"], group["betas"]) == (0.25, 1e-6, (0.9, 0.999))


def test_gradients_that_are_views_are_zeroed():
    layer = torch.nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.grad = torch.ones(2, 1)[:1]
    torch.optim.SGD(layer.parameters(), 1.0).zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0]]


def test_a_step_that_is_put_on_a_class_gets_its_hooks_when_asked():
    class Late(torch.optim.Optimizer):
        pass

    seen = []
    Late.step = lambda self: seen.append("step")
    made = Late([torch.ones(1, requires_grad=True)], {})
    made.register_step_pre_hook(lambda *args: seen.append("before"))
    for _ in range(2):
        made._patch_step_function()
    made.step()
    assert seen == ["before", "step"]


def test_nothing_stands_for_parameters_of_which_nothing_is_kept():
    for options in ({}, {"fused": True}):
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, **options)
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert not optimizer.state and optimizer.state_dict()["state"] == {}


def test_fused_steps_are_refused_on_other_devices():
    layer = torch.nn.Linear(2, 2, device="meta")
    optimizer = torch.optim.Adam(layer.parameters(), fused=True)
    layer.weight.grad = torch.rand_like(layer.weight)
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params"):
        optimizer.step()


def test_lbfgs_goes_nowhere_without_a_gradient():
    values = [torch.ones(3)]
    optimizer = torch.optim.LBFGS(values, tolerance_grad=-1.0)
    assert optimizer.step(lambda: torch.tensor([10.0])).tolist() == [10.0]
    assert values[0].tolist() == [1.0, 1.0, 1.0]
