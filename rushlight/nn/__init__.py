"""Neural network modules: torch's public names."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace
from rushlight.nn import functional, init, utils
from rushlight.nn.activation import *
from rushlight.nn.containers import *
from rushlight.nn.conv import *
from rushlight.nn.dropout import *
from rushlight.nn.embedding import *
from rushlight.nn.flatten import *
from rushlight.nn.lazy import *
from rushlight.nn.linear import *
from rushlight.nn.losses import *
from rushlight.nn.module import Module
from rushlight.nn.norm import *
from rushlight.nn.padding import *
from rushlight.nn.parallel import DataParallel
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)
from rushlight.nn.pooling import *
from rushlight.nn.recurrent import *
from rushlight.nn.transformer import *
from rushlight.nn.upsampling import *

__getattr__, __dir__ = namespace(
    __name__, {"factory_kwargs": ".sizes"}, modules=("attention", "grad", "parallel")
)
