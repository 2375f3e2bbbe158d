"""Functions and modules whose traces are compared with PyTorch's, text by text.

Everything is written over a module `torch`, which may be either library. A program is a function
and the inputs it is traced on; its name is that of the text recorded in tests/reference/jit.
"""

from __future__ import annotations

from tests.jit.programs_expressions import EXPRESSIONS, expression_program
from tests.jit.programs_modules import MODULES

__all__ = ["FUNCTIONS", "MODULES"]

FUNCTIONS = {}


def function(builder):
    """Names a program: `builder(torch)` gives the function and the inputs."""
    FUNCTIONS[builder.__name__] = builder
    return builder


for _name in EXPRESSIONS:
    FUNCTIONS[f"expr_{_name}"] = expression_program(_name)


# -- statements ------------------------------------------------------------------------------------


@function
def chain(torch):
    def f(x, y):
        z = x + y
        w = z * x
        u = torch.tanh(w)
        return u - z

    return f, (torch.ones(2, 3), torch.ones(2, 3))


@function
def reused_name(torch):
    def f(x):
        for step in range(3):
            x = x * 2 + step
        return x

    return f, (torch.ones(3),)


@function
def inplace_chain(torch):
    def f(x):
        y = x.clone()
        y.add_(1)
        y.mul_(2).sub_(3)
        return y

    return f, (torch.ones(3),)


@function
def inplace_operators(torch):
    def f(x, y):
        z = x + y
        z += 1
        z *= y
        z -= x
        z /= 2
        return z

    return f, (torch.ones(3), torch.ones(3))


@function
def inplace_on_view(torch):
    def f(x):
        y = x.clone()
        y.view(-1).add_(1)
        return y

    return f, (torch.ones(2, 3),)


@function
def inplace_on_input(torch):
    def f(x):
        x.add_(1)
        return x * 2

    return f, (torch.ones(3),)


@function
def inplace_dead(torch):
    def f(x):
        y = x.clone()
        y.add_(1)
        return x + 1

    return f, (torch.ones(3),)


@function
def inplace_relu(torch):
    def f(x):
        y = x + 1
        torch.nn.functional.relu(y, inplace=True)
        return torch.nn.functional.threshold(y, 0, 1, inplace=True)

    return f, (torch.ones(3),)


@function
def fill_and_zero(torch):
    def f(x):
        y = torch.empty(3)
        y.fill_(7)
        z = torch.ones(3)
        z.zero_()
        return x + y + z

    return f, (torch.ones(3),)


@function
def copy_into(torch):
    def f(x):
        y = torch.zeros(3)
        y.copy_(x)
        return y

    return f, (torch.ones(3),)


@function
def assign_row(torch):
    def f(x):
        y = x.clone()
        y[0] = x[1]
        return y

    return f, (torch.ones(3, 4),)


@function
def assign_number(torch):
    def f(x):
        y = x.clone()
        y[0] = 1
        y[1, 1] = 2.5
        y[:, 2] = 3
        return y

    return f, (torch.ones(3, 4),)


@function
def assign_slice(torch):
    def f(x):
        y = torch.zeros(3, 4)
        y[1:, :2] = x[1:, 2:]
        return y

    return f, (torch.ones(3, 4),)


@function
def assign_broadcast(torch):
    def f(x):
        y = torch.zeros(3, 4)
        y[...] = x
        return y

    return f, (torch.ones(4),)


@function
def assign_mask(torch):
    def f(x):
        y = x.clone()
        y[x > 0] = 0.0
        return y

    return f, (torch.ones(3, 4),)


@function
def assign_index(torch):
    def f(x, i):
        y = torch.zeros(4)
        y[i] = x
        return y

    return f, (torch.ones(2), torch.tensor([0, 2]))


@function
def assign_index_leading(torch):
    def f(x, i):
        y = torch.zeros(4)
        y[i] = x
        return y

    return f, (torch.ones(1, 1, 2), torch.tensor([0, 2]))


@function
def assign_in_loop(torch):
    def f(x):
        y = x.clone()
        for row in range(2):
            y[row] = x[row] * row
        return y

    return f, (torch.ones(3, 4),)


@function
def detach_in_place(torch):
    def f(x):
        y = x * 2
        y.detach_()
        return y + x

    return f, (torch.ones(3),)


@function
def out_argument(torch):
    def f(x):
        y = torch.zeros(3)
        torch.add(x, x, out=y)
        return y

    return f, (torch.ones(3),)


@function
def out_two(torch):
    def f(x):
        values, indices = torch.zeros(3), torch.zeros(3, dtype=torch.long)
        torch.cummax(x, 0, out=(values, indices))
        return values, indices

    return f, (torch.ones(3),)


@function
def out_factory(torch):
    def f(x):
        y = torch.zeros(2, 3)
        torch.ones(2, 3, out=y)
        return x + y

    return f, (torch.ones(2, 3),)


@function
def selected_by_size(torch):
    def f(x):
        i = x.size(0) - 1
        return x[i], x[:, i], x[i - 1 : i], x[torch.tensor(1)]

    return f, (torch.ones(3, 4),)


@function
def old_names(torch):
    def f(x):
        y = torch.autograd.Variable(x)
        return y + 1, torch.Tensor(x)

    return f, (torch.ones(3),)


@function
def iterate(torch):
    def f(x):
        total = x[0]
        for row in x:
            total = total + row
        return total

    return f, (torch.ones(3, 4),)


@function
def unpack(torch):
    def f(x):
        a, b, c = x
        return a * b + c

    return f, (torch.ones(3, 4),)


@function
def branch_on_value(torch):
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    return f, (torch.ones(3),)


@function
def branch_on_size(torch):
    def f(x):
        if x.size(0) == 3:
            return x + 1
        return x - 1

    return f, (torch.ones(3),)


@function
def loop_over_size(torch):
    def f(x):
        y = x
        for step in range(x.size(0)):
            y = y + step
        return y

    return f, (torch.ones(3),)


@function
def value_as_number(torch):
    def f(x):
        return x * float(x.sum()) + int(x[0])

    return f, (torch.ones(3),)


@function
def length(torch):
    def f(x):
        return x * len(x)

    return f, (torch.ones(3),)


@function
def captured(torch):
    weight = torch.tensor([1.0, 2.0, 3.0])

    def f(x):
        return x * weight + weight

    return f, (torch.ones(3),)


@function
def captured_large(torch):
    weight = torch.arange(12.0)

    def f(x):
        return x * weight

    return f, (torch.ones(12),)


@function
def data_attribute(torch):
    def f(x):
        return x + x.data

    return f, (torch.ones(3),)


@function
def requires_grad(torch):
    def f(x, y):
        return (x * y).tanh()

    return f, (torch.ones(3, requires_grad=True), torch.ones(3))


@function
def input_tuple(torch):
    def f(pair):
        a, (b, c) = pair
        return a + b * c

    return f, ((torch.ones(2), (torch.ones(2), torch.ones(2))),)


@function
def input_list(torch):
    def f(parts):
        return parts[0] + parts[1]

    return f, ([torch.ones(2), torch.ones(2)],)


@function
def input_dict(torch):
    def f(d):
        return d["a"] + d["b"]

    return f, ({"a": torch.ones(2), "b": torch.ones(2, dtype=torch.float64), "c": torch.ones(1)},)


@function
def input_nested(torch):
    def f(d, parts):
        return d["k"][0] + parts[0][0]

    return f, ({"k": [torch.ones(2), torch.ones(2)]}, [(torch.ones(2),), (torch.ones(2),)])


@function
def input_same_twice(torch):
    x = torch.ones(3)

    def f(a, b):
        return a + b

    return f, (x, x)


@function
def no_inputs(torch):
    def f():
        return torch.ones(2) * 3.5

    return f, ()


@function
def many_arguments(torch):
    def f(*args):
        return args[0] + args[1]

    return f, (torch.ones(2), torch.ones(2))


@function
def default_argument(torch):
    def f(x, y=None):
        return x + 1 if y is None else x + y

    return f, (torch.ones(2),)


@function
def zero_d_as_size(torch):
    def f(x, k):
        return x.topk(k)[0]

    return f, (torch.arange(5.0), torch.tensor(2))


@function
def size_arithmetic(torch):
    def f(x):
        rows, columns = x.size()
        half = (rows + 1) // 2
        wide = columns * 2 - 1
        return x.new_zeros(half, wide), torch.arange(half, wide)

    return f, (torch.ones(4, 3),)


@function
def size_by_pad(torch):
    def f(x):
        missing = 8 - x.size(0)
        return torch.cat([x, x.new_zeros(missing)])

    return f, (torch.ones(5),)


@function
def positions(torch):
    def f(x):
        n = x.size(1)
        where = torch.arange(n).unsqueeze(0).expand(x.size(0), n)
        return x + where

    return f, (torch.ones(2, 3),)


@function
def heads(torch):
    def f(x):
        batch, steps, width = x.shape
        y = x.view(batch, steps, 2, width // 2).transpose(1, 2)
        return y.reshape(batch, steps, width)

    return f, (torch.ones(2, 3, 4),)


@function
def causal_mask(torch):
    def f(x):
        n = x.size(-1)
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        return x.masked_fill(~mask, float("-inf")).softmax(-1)

    return f, (torch.ones(3, 3),)


@function
def autograd_function(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None

    def f(x):
        return Double.apply(x, 2) + 1

    return f, (torch.ones(3),)


@function
def autograd_function_pair(torch):
    class Swap(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return y.clone(), x.clone()

        @staticmethod
        def backward(ctx, a, b):
            return b, a

    def f(x, y):
        a, b = Swap.apply(x, y)
        return a - b

    return f, (torch.ones(3), torch.zeros(3))


@function
def without_gradient(torch):
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    return f, (torch.ones(3, requires_grad=True),)


@function
def calls_traced(torch):
    def inner(a, b):
        return a * b

    traced = torch.jit.trace(inner, (torch.ones(2), torch.ones(2)))

    def f(x):
        return traced(x, x + 1) - 1

    return f, (torch.ones(2),)


@function
def calls_traced_pair(torch):
    def inner(a):
        return a + 1, a - 1

    traced = torch.jit.trace(inner, (torch.ones(2),))

    def f(x):
        up, down = traced(x)
        return up * down

    return f, (torch.ones(2),)
