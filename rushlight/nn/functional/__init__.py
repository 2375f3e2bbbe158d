"""Functions on tensors that modules are made of: torch's public names."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace
from rushlight.nn.functional import (
    activation,
    dropouts,
    embeddings,
    image,
    loss,
    norm,
    padding,
    pool,
)
from rushlight.nn.functional.activation import *  # noqa: F403
from rushlight.nn.functional.activation import sigmoid as sigmoid
from rushlight.nn.functional.activation import tanh as tanh
from rushlight.nn.functional.dropouts import *  # noqa: F403
from rushlight.nn.functional.embeddings import *  # noqa: F403
from rushlight.nn.functional.image import *  # noqa: F403
from rushlight.nn.functional.loss import *  # noqa: F403
from rushlight.nn.functional.norm import *  # noqa: F403
from rushlight.nn.functional.padding import *  # noqa: F403
from rushlight.nn.functional.pool import *  # noqa: F403
from rushlight.nn.offering import offered
from rushlight.opset import families, functions, registry

__all__ = [
    *activation.__all__,
    *dropouts.__all__,
    *embeddings.__all__,
    *image.__all__,
    *loss.__all__,
    *norm.__all__,
    *padding.__all__,
    *pool.__all__,
]

# torch: one operator is spelt differently here.
SPELT = {"logsigmoid": "log_sigmoid"}


def _find(name: str) -> Any:
    """A function that is an operator, or that is loaded when first used."""
    if name == "multi_head_attention_forward":
        from rushlight.nn.attention import multi_head_attention_forward

        return offered(multi_head_attention_forward, __name__)
    if name in SPELT:
        return getattr(functions, SPELT[name])
    try:
        record = registry.packet(name).candidates[0]
    except KeyError:
        return None
    base = record.functional
    is_here = (
        record.options.get("functional") if base is None else base.options.get("functional_inplace")
    )
    return getattr(functions, name) if is_here else None


def _names() -> list[str]:
    """The operators that are functions here."""
    families.load_all()
    records = [p.candidates[0] for p in registry.PACKETS["aten"].values() if p.candidates]
    found = [record.base_name for record in records if record.options.get("functional")]
    found += [f"{r.base_name}_" for r in records if r.options.get("functional_inplace")]
    return [*found, *SPELT]


__getattr__, __dir__ = namespace(
    __name__,
    homes=dict.fromkeys(
        ("ScalingType", "SwizzleType", "assert_int_or_pair", "grouped_mm"), ".grouped"
    ),
    modules={"grad": "rushlight.nn.grad"},
    make=_find,
    names=_names,
    refused={"RL0011": "scaled_grouped_mm scaled_mm"},
)


for public in __all__:
    globals()[public] = offered(globals()[public], __name__)
