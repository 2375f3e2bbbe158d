"""What decides graphs is part of their key: changed alone, it misses."""

from __future__ import annotations

import functools
import sys
from enum import Enum

import numpy as np
import pytest

import rushlight as torch
from rushlight import fx
from rushlight.aot import config, fingerprint
from rushlight.aot.api import make_options
from rushlight.aot.cache import autograd_cache_key
from rushlight.aot.compilers import nop, ts_compile
from rushlight.aot.partition import min_cut_rematerialization_partition
from rushlight.base import switches
from rushlight.codegen import config as codegen_config
from rushlight.core.state import LAYER_FUNCTION, changed
from tests.aot.caching import (
    HIT,
    MISS,
    Layers,
    aten,
    compiled,
    counts,
    graph_of,
    plain_inputs,
    scaled,
    with_constant,
    with_number,
)

pytestmark = pytest.mark.usefixtures("folder")


def other_op(graph, a, b, c):
    return scaled(graph, a, b, c, op=aten.cos.default)


@pytest.mark.parametrize("number", [3.0, 2, True, 2 + 0j, np.nextafter(2.0, 3.0).item()])
def test_other_numbers_miss(number):
    compiled(graph_of(scaled))
    counts()
    compiled(graph_of(with_number(number)))
    assert counts() == MISS


def test_negative_zero_is_another_number():
    compiled(graph_of(with_number(0.0)))
    compiled(graph_of(with_number(-0.0)))
    assert counts() == {"miss": 2, "saved": 2}
    compiled(with_constant([0.0])[0], [torch.ones(1)])
    compiled(with_constant([-0.0])[0], [torch.ones(1)])
    assert counts() == {"miss": 2, "saved": 2}
    compiled(with_constant([-0.0])[0], [torch.ones(1)])
    compiled(graph_of(with_number(-0.0)))
    assert counts() == {"hit": 2}


class Policy(Enum):
    SAVE = 1
    RECOMPUTE = 2


def test_marks_of_nodes_miss():
    found = []
    for name, mark in [("recompute", Policy.SAVE), ("recompute", Policy.RECOMPUTE), ("custom", 1)]:
        module = graph_of(scaled)
        next(n for n in module.graph.nodes if n.op == "call_function").meta[name] = mark
        compiled(module)
        found.append(counts())
    assert found == [MISS] * 3
    module = graph_of(scaled)
    for node in module.graph.nodes:
        node.meta["stack_trace"] = "where it comes from"
    compiled(module)
    compiled(graph_of(scaled))
    assert counts() == {"miss": 1, "saved": 1, "hit": 1}


def test_other_ops_and_names_miss():
    compiled(graph_of(scaled))
    counts()
    compiled(graph_of(other_op))
    assert counts() == MISS
    module = graph_of(scaled)
    next(n for n in module.graph.nodes if n.name == "sin_default").name = "sine"
    module.recompile()
    compiled(module)
    assert counts() == MISS


def leaf():
    return torch.ones(4, 3)


BASE = torch.ones(20)


def twice():
    x = leaf()
    return [x, x, leaf()]


def views_of_one():
    x = torch.ones(8, 3)
    return [x[:4], x[4:], leaf()]


def overlapping():
    x = torch.ones(8, 3)
    return [x[:4], x[2:6], leaf()]


def first(x):
    return [x, leaf(), leaf()]


def part(*geometry):
    return first(torch.ones(40).as_strided(*geometry))


def parts_of_two():
    return [torch.ones(8, 3)[:4], torch.ones(8, 3)[4:], leaf()]


def made_in_inference_mode():
    with torch.inference_mode():
        return first(leaf())


def over(count):
    """A tensor that is no view, over more memory than it needs."""
    return first(torch.empty(0).set_(torch.ones(count).untyped_storage(), 0, (4, 3), (3, 1)))


OTHER_INPUTS = {
    "part": lambda: part((4, 3), (3, 1), 0),
    "its sizes alone": lambda: part((4, 2), (3, 1), 0),
    "its strides alone": lambda: part((4, 3), (2, 1), 0),
    "its offset alone": lambda: part((4, 3), (3, 1), 1),
    "parts of two": parts_of_two,
    "inference mode": made_in_inference_mode,
    "memory": lambda: over(13),
    "more memory": lambda: over(14),
    "sizes": lambda: [torch.ones(3, 4), leaf(), leaf()],
    "sizes of an unused input": lambda: [leaf(), leaf(), torch.ones(5)],
    "strides": lambda: [torch.ones(3, 4).t(), leaf(), leaf()],
    "offset": lambda: [torch.ones(13)[1:].view(4, 3), leaf(), leaf()],
    "storage": lambda: [torch.ones(13)[:12].view(4, 3), leaf(), leaf()],
    "dtype": lambda: [leaf().double(), leaf(), leaf()],
    "gradient": lambda: [leaf().requires_grad_(), leaf(), leaf()],
    "no leaf": lambda: [leaf().requires_grad_() * 1, leaf(), leaf()],
    "view": lambda: first(leaf().view(4, 3)),
    "duplicates": twice,
    "shared memory": views_of_one,
    "overlap": overlapping,
    "parameter": lambda: [torch.nn.Parameter(leaf(), requires_grad=False), leaf(), leaf()],
    "number": lambda: [leaf(), 3, leaf()],
    "other number": lambda: [leaf(), 3.0, leaf()],
    "nothing": lambda: [leaf(), None, leaf()],
    "text": lambda: [leaf(), "3", leaf()],
    "device": lambda: [torch.ones(4, 3, device="meta"), leaf(), leaf()],
    "conjugate": lambda: [torch.ones(4, 3, dtype=torch.cfloat).conj(), leaf(), leaf()],
    "complex view": lambda: first(torch.ones(4, 3, dtype=torch.cfloat).view(4, 3)),
    "complex": lambda: [torch.ones(4, 3, dtype=torch.cfloat), leaf(), leaf()],
}


def test_every_input_has_an_entry_of_its_own():
    compiled()
    assert counts() == MISS
    for make in OTHER_INPUTS.values():
        compiled(args=make())
    assert counts() == {"miss": len(OTHER_INPUTS), "saved": len(OTHER_INPUTS)}
    for make in OTHER_INPUTS.values():
        compiled(args=make())
    assert counts() == {"hit": len(OTHER_INPUTS)}


def test_values_of_inputs_do_not_matter():
    compiled()
    counts()
    compiled(args=[torch.full((4, 3), float("nan")), torch.zeros(4, 3), torch.zeros(4, 3)])
    assert counts() == HIT


def sin_as_cos(x):
    return x.cos()


def sin_as_tan(x):
    return x.tan()


OTHER_OPTIONS = {
    "keep": {"keep_inference_input_mutations": True},
    "partition": {"partition_fn": min_cut_rematerialization_partition},
    "bound partition": {
        "partition_fn": functools.partial(min_cut_rematerialization_partition, compiler="a")
    },
    "another bound one": {
        "partition_fn": functools.partial(min_cut_rematerialization_partition, compiler="b")
    },
    "decompositions": {"decompositions": {aten.sin.default: sin_as_cos}},
    "another rule": {"decompositions": {aten.sin.default: sin_as_tan}},
    "another op": {"decompositions": {aten.cos.default: sin_as_cos}},
    "backward compiler": {"bw_compiler": ts_compile},
    "inference compiler": {"inference_compiler": ts_compile},
}


def test_every_option_has_an_entry_of_its_own():
    compiled()
    assert counts() == MISS
    for options in OTHER_OPTIONS.values():
        compiled(**options)
    assert counts() == {"miss": len(OTHER_OPTIONS), "saved": len(OTHER_OPTIONS)}
    for options in OTHER_OPTIONS.values():
        compiled(**options)
    assert counts() == {"hit": len(OTHER_OPTIONS)}


class SetAndBack:
    """A switch of the process for a while."""

    def __init__(self, read, write, value):
        self.read, self.write, self.value = read, write, value

    def __enter__(self):
        self.before = self.read()
        self.write(self.value)

    def __exit__(self, *exc):
        self.write(self.before)


OTHER_STATES = {
    "grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast dtype": lambda: torch.autocast("cpu", dtype=torch.float16),
    "default device": lambda: torch.device("meta"),
    "default dtype": lambda: SetAndBack(
        torch.get_default_dtype, torch.set_default_dtype, torch.float64
    ),
    "deterministic": lambda: SetAndBack(
        torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 2
    ),
    "deterministic warnings": lambda: SetAndBack(
        torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 1
    ),
    "precision": lambda: SetAndBack(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
    ),
    "view replay": lambda: changed(view_replay=True),
    "overrides": lambda: changed(excluded=LAYER_FUNCTION),
    "config": lambda: config.patch(cse=False),
    "another switch": lambda: config.patch(recompute_views=True),
    "checks": lambda: config.patch(debug_assert=not config.debug_assert),
    "code generation": lambda: codegen_config.patch(fx_graph_cache=False),
}


def test_every_state_has_an_entry_of_its_own():
    module, args = graph_of(scaled), plain_inputs()
    compiled(module, args)
    assert counts() == MISS
    for name, state in OTHER_STATES.items():
        with state():
            compiled(module, args)
        assert counts() == MISS, name
    for state in OTHER_STATES.values():
        with state():
            compiled(module, args)
    compiled(module, args)
    assert counts() == {"hit": len(OTHER_STATES) + 1}


def test_number_of_parameters_is_part_of_the_key():
    module, args = graph_of(scaled), plain_inputs()
    keys = [
        autograd_cache_key(module, [], args, make_options(nop, num_params_buffers=count))[0]
        for count in (0, 1, 0)
    ]
    assert keys[0] != keys[1]
    assert keys[0] == keys[2]


def test_every_switch_is_part_of_the_key():
    names = {*switches.DEFAULTS["rushlight.aot.config"], *fingerprint.OWN_SWITCHES}
    found = {name for name, value in vars(config).items() if isinstance(value, bool)}
    assert names == {name for name in found - config.tuning if name[0] != "_"}


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (sys, "version", "3.99"),
        (np, "__version__", "9.9"),
        (torch, "__version__", "0.0.other"),
        (fingerprint.platform, "machine", lambda: "abacus"),
        (fingerprint.process, "get_num_threads", lambda: 77),
    ],
)
def test_other_versions_miss(monkeypatch, owner, name, value):
    compiled()
    counts()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, value)
        fingerprint.versions.cache_clear()
        compiled()
    fingerprint.versions.cache_clear()
    assert counts() == MISS
    compiled()
    assert counts() == HIT


def test_another_file_of_the_package_misses(monkeypatch, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "rules.py").write_text("rule = 1\n")
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "package" / "__init__.py"))
    try:
        fingerprint.versions.cache_clear()
        first = fingerprint.versions()
        (tmp_path / "package" / "rules.py").write_text("rule = 12\n")
        fingerprint.versions.cache_clear()
        assert fingerprint.versions() != first
    finally:
        fingerprint.versions.cache_clear()


def test_a_users_file_is_part_of_what_it_defines(monkeypatch, tmp_path):
    source = tmp_path / "users_rules.py"
    source.write_text("def rule(x):\n    return x.cos()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import users_rules

    compiled(decompositions={aten.sin.default: users_rules.rule})
    counts()
    source.write_text("def rule(x):\n    return x.tan() \n")
    compiled(decompositions={aten.sin.default: users_rules.rule})
    assert counts() == MISS


@pytest.mark.parametrize(
    "make",
    [
        lambda: Layers(0.25),
        lambda: Layers(bias=False),
        lambda: Layers().eval(),
        lambda: Layers().requires_grad_(False),
        lambda: Layers().double().float().requires_grad_(False),
    ],
)
def test_modules_that_differ_in_a_setting_miss(make):
    compiled(fx.symbolic_trace(Layers()), [torch.ones(2, 3)])
    counts()
    compiled(fx.symbolic_trace(make()), [torch.ones(2, 3)])
    assert counts() == MISS
    compiled(fx.symbolic_trace(Layers()), [torch.ones(2, 3)])
    assert counts() == HIT


def test_tied_parameters_miss():
    def pair():
        return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))

    class Net(torch.nn.Module):
        def __init__(self, tied):
            super().__init__()
            self.pair = pair()
            if tied:
                self.pair[1].weight = self.pair[0].weight

        def forward(self, x):
            return (self.pair[1](self.pair[0](x)),)

    for tied in (False, True):
        compiled(fx.symbolic_trace(Net(tied)), [torch.ones(2, 3)])
    assert counts() == {"miss": 2, "saved": 2}
