"""Hooks of modules: around forward, around backward, around state dicts, of all modules."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)


class Scaled(nn.Module):
    def forward(self, x, *, by=3.0):
        return x * by


def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_forward_hooks_in_order():
    log = []
    module = Scaled()

    def double(module, args):
        log.append("double")
        return args[0] * 2

    def keywords(module, args, kwargs):
        log.append(sorted(kwargs))
        return args, {"by": 10.0}

    def plus(module, args, result):
        log.append(args[0].tolist())
        return result + 1

    handles = [
        module.register_forward_pre_hook(double),
        module.register_forward_pre_hook(keywords, prepend=True, with_kwargs=True),
        module.register_forward_hook(plus),
        module.register_forward_hook(
            lambda module, args, kwargs, result: log.append(kwargs), prepend=True, with_kwargs=True
        ),
    ]
    assert module(torch.ones(2), by=4.0).tolist() == [21.0, 21.0]
    assert log == [["by"], "double", {"by": 10.0}, [2.0, 2.0]]
    for handle in handles:
        handle.remove()
    assert module(torch.ones(1)).tolist() == [3.0]
    assert not module._forward_hooks_with_kwargs and not module._forward_pre_hooks_with_kwargs
    module.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        module(torch.ones(1))


def test_always_called_hooks_see_failures():
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    log = []
    module = Failing()
    module.register_forward_hook(lambda *args: log.append(args[2]), always_call=True)
    module.register_forward_hook(lambda *args: log.append("never"))
    with pytest.raises(ValueError, match="no"):
        module(1)
    assert log == [None]


def test_full_backward_hooks_see_and_replace_gradients():
    log = []
    module = Scaled()

    def inputs(module, grad_input, grad_output):
        log.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 2,)

    def outputs(module, grad_output):
        log.append(grad_output[0].tolist())
        return (grad_output[0] * 5,)

    module.register_full_backward_hook(inputs)
    module.register_full_backward_pre_hook(outputs)
    x = leaf()
    module(x).sum().backward()
    assert log == [[1.0, 1.0], ([15.0, 15.0], [5.0, 5.0])]
    assert x.grad.tolist() == [30.0, 30.0]


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda m: m.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0])),
         "Backward hook returned an invalid number of grad_input, got 2, but expected 1"),
        (lambda m: m.register_full_backward_pre_hook(lambda m, go: (go[0], go[0])),
         "Backward pre hook returned an invalid number of grad_output, got 2, but expected 1"),
    ],
)  # fmt: skip
def test_wrong_numbers_of_gradients(register, message):
    module = Scaled()
    register(module)
    with pytest.raises(RuntimeError) as caught:
        module(leaf()).sum().backward()
    assert str(caught.value) == message


def test_backward_hook_where_no_input_needs_a_gradient():
    log = []
    module = nn.Linear(2, 1)
    handle = module.register_full_backward_hook(lambda m, gi, go: log.append((gi, go[0].tolist())))
    module(torch.ones(1, 2)).sum().backward()
    assert log == [((None,), [[1.0]])]
    handle.remove()
    module.register_full_backward_hook(lambda m, gi, go: (torch.ones(1),))
    with pytest.raises(RuntimeError, match="should always return None"):
        module(torch.ones(1, 2)).sum().backward()


def test_backward_hooks_and_other_results():
    class Pair(nn.Module):
        def forward(self, x, number):
            return x * 2, number

    class Named(nn.Module):
        def forward(self, x):
            return {"x": x * 2}

    log = []
    pair = Pair()
    pair.register_full_backward_hook(lambda m, gi, go: log.append((gi[1], go[1])))
    pair(leaf(), 3)[0].sum().backward()
    assert log == [(None, None)]
    named = Named()
    named.register_full_backward_hook(lambda *args: log.append("never"))
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors"):
        named(leaf())["x"].sum().backward()
    assert log == [(None, None)]


def test_older_backward_hooks_see_the_last_node():
    log = []
    module = nn.Sequential(nn.Linear(2, 1), nn.Tanh())
    module.register_backward_hook(lambda m, gi, go: log.append((gi[0].shape, go[0].shape)))
    module(torch.ones(3, 2)).sum().backward()
    assert log == [((3, 1), (3, 1))]
    for first, second in (
        ("register_backward_hook", "register_full_backward_hook"),
        ("register_full_backward_hook", "register_backward_hook"),
    ):
        module = Scaled()
        getattr(module, first)(lambda *args: None)
        with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
            getattr(module, second)(lambda *args: None)


def test_hooks_of_all_modules():
    log = []
    handles = [
        register_module_forward_pre_hook(lambda m, args: log.append("before")),
        register_module_forward_hook(lambda m, args, result: log.append("after")),
        register_module_full_backward_pre_hook(lambda m, go: log.append("outputs")),
        register_module_full_backward_hook(lambda m, gi, go: log.append("inputs")),
    ]
    try:
        Scaled()(leaf()).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert log == ["before", "after", "outputs", "inputs"]
    Scaled()(leaf()).sum().backward()
    assert len(log) == 4


def test_hooks_of_state_dicts():
    log = []
    module = nn.Linear(1, 1)
    module.register_state_dict_pre_hook(lambda m, prefix, keep: log.append((prefix, keep)))
    module.register_state_dict_post_hook(lambda m, state, prefix, local: log.append(len(state)))
    module.register_load_state_dict_pre_hook(
        lambda m, state, prefix, local, strict, missing, unexpected, errors: log.append(m is module)
    )
    module.register_load_state_dict_post_hook(lambda m, found: log.append(repr(found)))
    module.load_state_dict(module.state_dict())
    assert log == [("", False), 2, True, "<All keys matched successfully>"]
    lenient = nn.Linear(1, 1)
    lenient.register_load_state_dict_post_hook(lambda m, found: found.missing_keys.clear())
    lenient.load_state_dict({"bias": torch.ones(1)})
    replaced = nn.Linear(1, 1)
    replaced._register_state_dict_hook(lambda m, state, prefix, local: {"x": 1})
    assert replaced.state_dict() == {"x": 1}


def test_hooks_of_state_dicts_return_nothing():
    module = nn.Linear(1, 1)
    handle = module.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        module.state_dict()
    handle.remove()
    module.register_load_state_dict_post_hook(lambda m, found: found)
    with pytest.raises(AssertionError, match="not expected to return new values"):
        module.load_state_dict(module.state_dict())


def failing(*args):
    raise ZeroDivisionError


def test_always_called_hooks_see_failures_of_other_hooks():
    for register, seen in (("register_forward_pre_hook", None), ("register_forward_hook", [3.0])):
        module = Scaled()
        module.log = []
        getattr(module, register)(failing)
        module.register_forward_hook(
            lambda m, args, out: m.log.append((args, out)), always_call=True
        )
        with pytest.raises(ZeroDivisionError):
            module(torch.ones(1))
        ((args, out),) = module.log
        assert args[0].tolist() == [1] and (out if out is None else out.tolist()) == seen


def test_always_called_hooks_see_replaced_arguments():
    log = []
    module = Scaled()
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.register_forward_pre_hook(failing)
    module.register_forward_hook(lambda m, args, out: 5, always_call=True)
    module.register_forward_hook(lambda m, args, out: log.append((args, out)), always_call=True)
    with pytest.raises(ZeroDivisionError):
        module(torch.ones(1))
    assert log[0][0][0].item() == 2 and log[0][1] == 5


def test_hooks_before_loading_see_their_part():
    log = []
    net = nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.Linear(1, 1))

    def rename(module, state, prefix, *rest):
        log.append((prefix, len(state)))
        if f"{prefix}w" in state:
            state[f"{prefix}weight"] = state.pop(f"{prefix}w")

    for module in net.modules():
        module.register_load_state_dict_pre_hook(rename)
    net.load_state_dict(net.state_dict())
    assert log == [("", 4), ("0.", 2), ("0.0.", 2), ("1.", 2)]
    net[1].load_state_dict({"w": torch.full((1, 1), 7.0), "bias": torch.zeros(1)})
    assert net[1].weight.item() == 7


def test_hooks_before_loading_do_not_keep_their_module():
    import copy
    import gc
    import weakref

    def mark(module, *rest):
        module.marked = True

    module = nn.Linear(1, 1)
    module.register_load_state_dict_pre_hook(mark)
    twin = copy.deepcopy(module)
    twin.load_state_dict(module.state_dict())
    assert hasattr(twin, "marked") and not hasattr(module, "marked")
    gone = weakref.ref(module)
    gc.disable()
    try:
        del module
        assert gone() is None
    finally:
        gc.enable()


def test_global_hooks_see_keyword_arguments_and_failures():
    class Shifts(nn.Module):
        def forward(self, x, *, by):
            return x + by

    seen = []
    handles = [
        register_module_forward_hook(
            lambda module, args, kwargs, result: result + kwargs["by"], with_kwargs=True
        ),
        register_module_forward_hook(
            lambda module, args, result: seen.append(result), always_call=True
        ),
    ]
    try:
        assert Shifts()(torch.ones(1), by=2).item() == 5
        with pytest.raises(TypeError):
            Shifts()(torch.ones(1), by=None)
    finally:
        for handle in handles:
            handle.remove()
    assert seen[0].item() == 5 and seen[1] is None and len(seen) == 2
    assert Shifts()(torch.ones(1), by=2).item() == 3
