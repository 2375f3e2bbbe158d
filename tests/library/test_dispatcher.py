"""Questions about the dispatcher, as programs ask them of torch._C, and faces of operators."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import library
from rushlight.core.keys import DispatchKey, DispatchKeySet
from rushlight.core.modes import TorchDispatchMode
from rushlight.library import dispatcher
from rushlight.library.pydispatch import enable_python_dispatcher, no_python_dispatcher

ASKED = ("CPU", "Meta", "CUDA", "Autograd", "AutogradCPU", "CompositeImplicitAutograd")


@pytest.fixture
def asked():
    with library._scoped_library("asked", "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        yield lib


# What torch answers, too.
REGISTERED = {
    "aten::sin": {"CPU", "Meta", "Autograd"},
    "aten::linear": {"CompositeImplicitAutograd"},
    "aten::add_.Tensor": {"CPU", "Meta", "Autograd"},
    "aten::view": {"CPU", "Meta", "Autograd"},
}


@pytest.mark.parametrize("name", REGISTERED)
def test_kernels_that_were_registered(name):
    found = {key for key in ASKED if dispatcher.has_kernel_for_key(name, key)}
    assert found == REGISTERED[name]


def test_kernels_of_an_operator_of_one_s_own(asked):
    assert not dispatcher.has_kernel("asked::f") and dispatcher.has_kernel("aten::sin")
    asked.impl("f", lambda x: x, "CPU")
    assert dispatcher.has_kernel("asked::f") and not dispatcher.has_kernel("asked::nope")
    assert [k for k in ASKED if dispatcher.has_kernel_for_key("asked::f", k)] == ["CPU"]
    assert not dispatcher.has_computed_kernel_for_key("asked::f", "CUDA")
    asked.impl("f", lambda x: x, "CompositeImplicitAutograd")
    assert dispatcher.has_computed_kernel_for_key("asked::f", "CUDA")
    assert dispatcher.dump("asked::f") == (
        "name: asked::f\nschema: asked::f(Tensor x) -> Tensor\nalias analysis kind: FROM_SCHEMA\n"
        "CPU: registered by a user\nCompositeImplicitAutograd[alias]: registered by a user\n"
    )
    table = dispatcher.dump_table("asked::f").splitlines()
    assert "CPU: kernel" in table and "CUDA: CompositeImplicitAutograd kernel" in table
    with pytest.raises(RuntimeError, match="operator aten::nope does not exist"):
        dispatcher.dump("aten::nope")


def test_operators_tell_their_kernels():
    sin, linear = torch.ops.aten.sin.default, torch.ops.aten.linear.default
    assert sin.has_kernel_for_dispatch_key("CPU")
    assert not sin.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
    assert linear.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
    assert not linear.has_kernel_for_any_dispatch_key(DispatchKeySet("CPU"))
    assert linear._can_decompose() and not sin._can_decompose()
    assert linear.decompose(torch.ones(2, 2), torch.ones(2, 2)).tolist() == [[2.0, 2.0]] * 2
    assert sin.decompose(torch.ones(1)) is NotImplemented


def test_kernels_can_be_looked_up(asked):
    asked.impl("f", lambda x: x + 1, "CPU")
    found = library.get_kernel("asked::f", "CPU")
    assert found.call_boxed(DispatchKeySet("CPU"), torch.ones(1)).item() == 2.0
    own = library.get_kernel("aten::sin", DispatchKey.CPU)
    assert own.call_boxed(DispatchKeySet("CPU"), torch.zeros(1)).item() == 0.0
    with pytest.raises(RuntimeError, match="no kernel for CUDA for asked::f"):
        library.get_kernel("asked::f", "CUDA")


def test_the_python_dispatcher(asked):
    asked.impl("f", lambda x: x + 1, "CompositeImplicitAutograd")
    op, x = torch.ops.asked.f.default, torch.ones(1)
    op.py_impl(DispatchKey.CompositeImplicitAutograd)(lambda x: x + 100)
    assert op(x).item() == 2.0 and op.decompose(x).item() == 101.0
    with enable_python_dispatcher():
        assert op(x).item() == 101.0
        with no_python_dispatcher():
            assert op(x).item() == 2.0
    with pytest.raises(RuntimeError, match="Trying to override a python impl for DispatchKey.Comp"):
        op.py_impl(DispatchKey.CompositeImplicitAutograd)(abs)
    op.py_impl(DispatchKey.CPU)(lambda x: x + 1000)
    with enable_python_dispatcher():
        assert op(x).item() == 1001.0


def test_a_function_for_a_mode(asked):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError

    asked.impl("f", lambda x: x + 1, "CPU")
    torch.ops.asked.f.default.py_impl(Mode)(lambda mode, x: x)
    x = torch.ones(1)
    with Mode():
        assert torch.ops.asked.f(x) is x


def test_faces_of_packets(asked):
    asked.define("f.int(Tensor x, int y) -> Tensor")
    packet = torch.ops.asked.f
    assert packet.overloads() == list(packet) == ["default", "int"]
    assert packet._overload_names == ["", "int"]
    assert str(packet._schemas["int"]) == "asked::f.int(Tensor x, int y) -> Tensor"
    assert packet.int.name() == "asked::f.int" and packet.int.overloadpacket is packet


def test_tags(asked):
    aten, tag = torch.ops.aten, torch.Tag
    assert aten.sin.default.tags == {tag.core, tag.pointwise, tag.pt2_compliant_tag}
    assert aten.add_.Tensor.tags == {tag.pointwise, tag.pt2_compliant_tag, tag.inplace}
    assert {tag.core, tag.reduction} <= aten.sum.dim_IntList.tags
    assert tag.pointwise in aten.square.default.tags
    assert tag.pointwise not in aten.hardswish.default.tags
    assert tag.nondeterministic_seeded in aten.rand.default.tags
    asked.define("tagged(Tensor x) -> Tensor", tags=(tag.needs_fixed_stride_order,))
    assert torch.ops.asked.tagged.default.tags == {tag.needs_fixed_stride_order}


def test_what_a_thread_passes_by():
    assert not dispatcher.is_key_excluded(DispatchKey.AutogradCPU)
    dispatcher.set_key_excluded(DispatchKey.AutogradCPU, True)
    try:
        assert dispatcher.is_key_excluded("AutogradFunctionality")
        assert not torch.sin(torch.ones(1, requires_grad=True)).requires_grad
    finally:
        dispatcher.set_key_excluded(DispatchKey.AutogradCPU, False)
    assert repr(dispatcher.included_keys()) == "DispatchKeySet(BackendSelect, ADInplaceOrView)"
    assert dispatcher.is_key_excluded("AutocastCPU")
    with torch.autocast("cpu"):
        assert not dispatcher.is_key_excluded("AutocastCPU")


def test_schemas_by_name():
    found = [str(schema) for schema in dispatcher.schemas_of("aten::add")]
    assert "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" in found
    assert dispatcher.get_schema("aten::sin", "").name == "aten::sin"
    assert dispatcher.parse_schema("foo::bar(Tensor x) -> Tensor").name == "foo::bar"
    x = torch.ones(4)
    assert dispatcher.overlap(x[:2], x[2:]) and not dispatcher.overlap(x, x.clone())
    with pytest.raises(RuntimeError, match="Cannot inspect value of type int"):
        dispatcher.overlap(x, 3)
