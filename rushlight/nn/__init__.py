"""Neural network modules: torch's public names."""

from __future__ import annotations

from rushlight.core.parameter import Parameter
from rushlight.nn import functional, init
from rushlight.nn.containers import *
from rushlight.nn.conv import *
from rushlight.nn.layers import *
from rushlight.nn.module import Buffer, Module
from rushlight.nn.norm import *
from rushlight.nn.parallel import DataParallel
from rushlight.nn.recurrent import *
