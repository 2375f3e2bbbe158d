"""SchemaCheckMode; the messages are torch's."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
from rushlight import library
from rushlight.library.schema_check import Aliasing, Mutation, SchemaCheckMode, SchemaInfo
from rushlight.opset import families, registry
from rushlight.opset.samples.maker import samples_of


def two_views(x):
    y = x.clone()
    return y, y.view(-1)


def add_to_first(xs):
    xs[0].add_(1)
    return xs[0].clone()


# Schema, kernel, arguments, and what the mode says.
KERNELS = {
    "writes": (
        "(Tensor x) -> Tensor",
        lambda x: x.add_(1).clone(),
        "Argument x is not defined as mutable but was mutated",
    ),
    "writes_item": (
        "(Tensor[] x) -> Tensor",
        add_to_first,
        "Argument x is not defined as mutable but was mutated",
    ),
    "aliases": (
        "(Tensor x) -> Tensor",
        lambda x: x.view(-1),
        "Argument x is not defined to alias output but was aliasing",
    ),
    "aliases_other": (
        "(Tensor(a) x, Tensor(b) y) -> (Tensor(a), Tensor(b))",
        lambda x, y: (y.view(-1), x.view(-1)),
        "Argument x is not defined to alias output but was aliasing",
    ),
    "two": ("(Tensor x) -> (Tensor, Tensor)", two_views, "Outputs 0 and 1 alias unexpectedly"),
    "returns_input": (
        "(Tensor(a) x) -> Tensor(a)",
        lambda x: x,
        "Dispatcher operators below autograd are not allowed to directly return inputs",
    ),
    "resizes": (
        "(Tensor x) -> Tensor",
        lambda x: (x.resize_(5), torch.ones(1))[1],
        "Argument x is not defined as mutable but was mutated",
    ),
    "marked_view": ("(Tensor(a) x) -> Tensor(a)", lambda x: x.view(-1), None),
    "marked_write": ("(Tensor(a!) x) -> Tensor(a!)", lambda x: x.add_(1), None),
    "unused_mark": ("(Tensor(a!) x) -> Tensor", lambda x: x.clone(), None),
}


@pytest.mark.parametrize("name", KERNELS)
def test_what_a_schema_does_not_mark_is_found(name):
    schema, kernel, text = KERNELS[name]
    with library._scoped_library("checked", "FRAGMENT") as lib:
        lib.define(name + schema)
        lib.impl(name, kernel, "CPU")
        op = getattr(torch.ops.checked, name)
        args = [torch.ones(2) for _ in op.default._schema.arguments]
        if "[]" in schema:
            args = [args]
        with SchemaCheckMode():
            if text is None:
                op(*args)
            else:
                with pytest.raises(RuntimeError, match=text):
                    op(*args)


def test_the_mode_keeps_what_it_saw(capsys):
    with SchemaCheckMode() as mode:
        x = torch.ones(2, 2)
        x.add_(x)
        x.view(-1)
    assert mode.ops == ["aten::ones", "aten::add_", "aten::view"]
    assert Mutation("aten::add_", "input") in mode.mutated
    assert Mutation("aten::add_", "other") in mode.mutated
    assert mode.aliasing[-1] == Aliasing("aten::view", "input", "output_0")
    mode.display_ops()
    assert capsys.readouterr().out == "aten::ones,aten::add_,aten::view\n"
    mode.reset_cache()
    assert mode.ops == mode.mutated == mode.aliasing == []


def test_statistics_are_written_while_training():
    x, mean, var = torch.ones(2, 2), torch.zeros(2), torch.ones(2)
    with SchemaCheckMode():
        torch.nn.functional.batch_norm(x, mean, var, training=True)
        torch.nn.functional.batch_norm(x, mean, var, training=False)
    info = SchemaInfo(torch.ops.aten.native_batch_norm.default._schema)
    info.add_argument_values({"training": False})
    assert not info.is_mutable("running_mean")
    info.add_argument_value("training", True)
    assert info.is_mutable("running_mean") and not info.is_mutable("input")


def test_the_library_s_own_schemas_hold():
    families.load_all()
    wrong = []
    for packet in list(registry.PACKETS["aten"].values()):
        for op in list(packet.table.values()):
            for sample in samples_of(op, torch.float32)[:2]:
                try:
                    with warnings.catch_warnings(), SchemaCheckMode():
                        warnings.simplefilter("ignore")
                        op(*sample.args, **sample.kwargs)
                except RuntimeError as error:
                    if any(word in str(error) for word in ("alias", "mutated", "return inputs")):
                        wrong.append((op.name(), str(error)))
                except NotImplementedError:
                    continue
    # torch: their names say that they hide views.
    assert {name for name, _ in wrong} <= {"aten::unsafe_split_with_sizes", "aten::unsafe_chunk"}
