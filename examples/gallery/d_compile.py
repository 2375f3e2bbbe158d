"""What compiling did, as a page.

The function prints in the middle, so its graph breaks there; the page shows the code, both graphs
and why.
"""

import torch


def f(x, w):
    y = torch.nn.functional.gelu(x @ w)
    print("in the middle:", tuple(y.shape))
    return (y * 2).softmax(-1)


x, w = torch.ones(4, 8), torch.eye(8)
compiled = torch.compile(f)
print(torch.equal(compiled(x, w), compiled(x, w)))
page = torch.viz.compiled(f)(x, w)
page.save("compiled.html")
