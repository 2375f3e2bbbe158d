"""From ops to one loop.

`compile_graph` fuses what it can, and `print` shows the loops.
"""

import torch
from rushlight.compiler import compile_graph
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx


def f(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


inputs = torch.randn(64, 128), torch.randn(128), torch.randn(128)
graph = make_fx(functionalize(f))(*inputs)
print(graph.code)
compiled = compile_graph(graph, inputs)
print(compiled)
