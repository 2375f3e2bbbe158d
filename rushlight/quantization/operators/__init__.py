"""The operators of the namespace `quantized`: what programs call as `torch.ops.quantized.add`."""

from __future__ import annotations

from rushlight.quantization.operators import conv as conv
from rushlight.quantization.operators import elementwise as elementwise
from rushlight.quantization.operators import embedding as embedding
from rushlight.quantization.operators import linear as linear
from rushlight.quantization.operators import norms as norms
from rushlight.quantization.operators import recurrent as recurrent
