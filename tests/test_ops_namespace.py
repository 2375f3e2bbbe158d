"""torch.ops: namespaces, packets, overloads and their errors."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch


def test_names_lead_to_overloads():
    add = torch.ops.aten.add.Tensor
    assert add is torch.ops.aten.add.Tensor
    assert str(add) == "aten.add.Tensor"
    assert repr(add) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert add.name() == "aten::add.Tensor" and add.__name__ == "add.Tensor"
    assert str(add._schema).startswith("aten::add.Tensor(Tensor self, Tensor other, *")
    assert add.overloadpacket is torch.ops.aten.add
    assert torch.ops.aten.mm.default.name() == "aten::mm"
    assert repr(torch.ops.aten.add) == "<OpOverloadPacket(op='aten.add')>"
    assert torch.ops.aten.add._qualified_op_name == "aten::add"
    assert "Tensor" in torch.ops.aten.add.overloads()


def test_calls():
    x = torch.ones(2)
    assert torch.ops.aten.add.Tensor(x, x, alpha=2).tolist() == [3.0, 3.0]
    assert torch.ops.aten.add(x, 1).tolist() == [2.0, 2.0]
    out = torch.empty(2)
    assert torch.ops.aten.add.out(x, x, out=out) is out
    assert torch.ops.aten.add_.Tensor(x, 1) is x


def test_missing_names():
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'foo'"):
        _ = torch.ops.aten.foo
    with pytest.raises(AttributeError, match="'_OpNamespace' 'nowhere' object has no attribute"):
        _ = torch.ops.nowhere.foo
    with pytest.raises(AttributeError, match="of 'aten.add' has no overload name 'foo'"):
        _ = torch.ops.aten.add.foo
    assert not hasattr(torch.ops.aten, "no_such_operator")


def test_arguments_that_do_not_fit():
    x = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'mat2'"):
        torch.ops.aten.mm.default(x, 3)
    with pytest.raises(RuntimeError, match="is missing value for argument 'mat2'"):
        torch.ops.aten.mm.default(x)
    with pytest.raises(RuntimeError, match="expected at most 2 argument"):
        torch.ops.aten.mm.default(x, x, foo=1)
    with pytest.raises(RuntimeError, match="failed to match any schema"):
        torch.ops.aten.mm(x)


def test_overloads_are_singletons_for_copy_and_pickle():
    add = torch.ops.aten.add.Tensor
    assert copy.deepcopy(add) is add
    assert pickle.loads(pickle.dumps(add)) is add
    assert pickle.loads(pickle.dumps(torch.ops.aten.add)) is torch.ops.aten.add


def test_shared_objects_are_refused():
    for kind in (NotImplementedError, OSError):
        with pytest.raises(kind, match="custom_op"):
            torch.ops.load_library(__file__)
