"""Ports: what low modules leave to higher ones, some of which are loaded when first used."""

from __future__ import annotations

import pytest

import rushlight.aot.tracing
import rushlight.autograd.forward_ad
import rushlight.distributed.setup
import rushlight.func
import rushlight.nn
from rushlight.core import node, ports


def test_every_port_is_filled():
    defaults = (ports.nothing, ports.never, ports.unchanged, ports.no_packet, ports.not_set_up)
    values = {name: getattr(ports, name) for name in ports.PORTS}
    assert not [name for name, value in values.items() if value in (None, (), *defaults)]
    assert ports.module_type is rushlight.nn.Module


def test_mirrors_have_what_was_filled():
    assert node.TENSOR_TYPES == ports.tensor_types == (rushlight.Tensor,)
    assert node.LEVEL_TENSOR is ports.level_tensor and node.alive is ports.alive


def test_a_mirror_follows():
    scope: dict = {}
    ports.mirror(scope, COPY="module_type")
    try:
        ports.fill(module_type=ports.module_type)
        assert scope == {"COPY": rushlight.nn.Module}
    finally:
        ports.MIRRORS["module_type"].pop()


def test_unknown_ports_are_refused():
    with pytest.raises(LookupError, match="no port 'acumulate'; the ports are accumulate"):
        ports.fill(acumulate=None)
