"""Functions and modules whose traces are compared with PyTorch's, text by text.

Everything is written over a module `torch`, which may be either library. A program is a function
and the inputs it is traced on; its name is that of the text recorded in tests/reference/jit.
"""

from __future__ import annotations

FUNCTIONS = {}
MODULES = {}
# Programs of one expression over x, y (3 x 4), v (4), s (0-d), i, j (integers), b (truths), and an
# image and a volume.
EXPRESSIONS = {
    # arithmetic and numbers
    "add": "x + y",
    "add_number": "x + 1",
    "add_float": "x + 1.5",
    "add_true": "x + True",
    "radd": "2 + x",
    "sub_number": "x - 3",
    "rsub": "1 - x",
    "rsub_float": "1.5 - x",
    "mul_number": "x * 2.5",
    "div_number": "x / 4",
    "reciprocal": "1 / x",
    "floordiv": "x // 2",
    "rfloordiv": "7 // (i + 1)",
    "mod": "x % 2",
    "power": "x ** 2",
    "power_tensor": "x ** y",
    "rpower": "2 ** x",
    "negative": "-x",
    "absolute": "abs(x)",
    "matmul": "x @ y.t()",
    "matmul_vector": "x @ v",
    "torch_add_alpha": "torch.add(x, y, alpha=2)",
    "torch_sub": "torch.sub(x, y)",
    "torch_mul": "torch.mul(x, 3)",
    "torch_div_mode": "torch.div(x, y, rounding_mode='floor')",
    "torch_true_divide": "torch.true_divide(x, 2)",
    "torch_fmod": "torch.fmod(x, 2)",
    "torch_remainder": "torch.remainder(x, y)",
    "addcmul": "torch.addcmul(x, y, y, value=0.5)",
    "lerp": "torch.lerp(x, y, 0.5)",
    "addmm": "torch.addmm(x, x, torch.eye(4))",
    "complex_number": "x * 2j",
    # comparison, logic, bits
    "compare_number": "x > 1",
    "compare_tensor": "x == y",
    "compare_all": "(x < y, x <= y, x > y, x >= y, x != y)",
    "equal_float": "x == 0.5",
    "logical_and": "b & (x > 0)",
    "logical_or": "b | (x > 0)",
    "logical_xor": "b ^ (x > 0)",
    "invert": "~b",
    "bits_number": "(i & 3) | 4",
    "shifts": "(i << 1) >> 2",
    "torch_logical_not": "torch.logical_not(b)",
    "where": "torch.where(b, x, y)",
    "where_number": "torch.where(b, x, 0.0)",
    "masked_fill": "x.masked_fill(b, -1.0)",
    "masked_select": "x.masked_select(b)",
    "isnan": "torch.isnan(x)",
    "any_all": "(b.any(), b.all(1))",
    # pointwise
    "tanh_sigmoid": "torch.sigmoid(torch.tanh(x))",
    "exp_log": "x.exp().log()",
    "clamp": "x.clamp(-1, 1)",
    "clamp_min": "x.clamp(min=0)",
    "clamp_tensor": "torch.clamp(x, y, y)",
    "round": "x.round()",
    "sqrt_rsqrt": "x.sqrt() + x.rsqrt()",
    "atan2": "torch.atan2(x, y)",
    "maximum": "torch.maximum(x, y)",
    "erf": "torch.erf(x)",
    "sign": "x.sign()",
    # reductions
    "sum": "x.sum()",
    "sum_dim": "x.sum(1)",
    "sum_dims_keep": "x.sum((0, 1), keepdim=True)",
    "sum_dtype": "x.sum(dtype=torch.float64)",
    "mean": "x.mean() + x.mean(1).sum()",
    "prod": "x.prod()",
    "variance": "x.var()",
    "variance_dim": "x.var(1, unbiased=False)",
    "std": "x.std(0)",
    "max": "x.max()",
    "max_dim": "x.max(1)[0]",
    "min_pair": "tuple(torch.min(x, 0))",
    "argmax": "x.argmax(1)",
    "argmin": "x.argmin()",
    "logsumexp": "torch.logsumexp(x, 1)",
    "norm": "x.norm()",
    "norm_p": "x.norm(1, dim=1)",
    "linalg_norm": "torch.linalg.norm(x)",
    "cumsum": "x.cumsum(1)",
    "cummax": "tuple(x.cummax(0))",
    "topk": "tuple(x.topk(2))",
    "sort": "tuple(x.sort(1, descending=True))",
    "median": "x.median()",
    "amax": "x.amax(1)",
    "count_nonzero": "torch.count_nonzero(x)",
    # shape
    "view": "x.view(2, 6)",
    "view_minus": "x.view(-1)",
    "reshape": "x.reshape(4, 3)",
    "flatten": "x.flatten()",
    "unsqueeze": "x.unsqueeze(-1)",
    "squeeze": "x[None].squeeze() + x[None].squeeze(0)",
    "transpose": "x.transpose(0, 1)",
    "permute": "x.permute(1, 0)",
    "t": "x.t()",
    "attribute_T": "x.T",
    "attribute_mT": "x.mT",
    "expand": "v.expand(3, 4)",
    "expand_as": "v.expand_as(x)",
    "repeat": "x.repeat(2, 1)",
    "flip": "x.flip(0)",
    "roll": "x.roll(1, 0)",
    "narrow": "x.narrow(1, 0, 2)",
    "unfold": "x.unfold(1, 2, 1)",
    "contiguous": "x.t().contiguous()",
    "clone": "x.clone()",
    "detach": "x.detach() * 2",
    "cat": "torch.cat([x, y], 1)",
    "stack": "torch.stack((x, y))",
    "split": "x.split(2, 1)[0]",
    "split_sizes": "torch.split(x, [1, 2])[1]",
    "chunk": "x.chunk(2, 1)[1]",
    "unbind": "x.unbind(0)[0]",
    "meshgrid": "torch.meshgrid(v, v, indexing='ij')[0]",
    "broadcast_tensors": "torch.broadcast_tensors(x, v)[1]",
    "movedim": "x.movedim(0, 1)",
    "tile": "x.tile((2, 2))",
    "diagonal": "torch.diagonal(x)",
    "tril": "x.tril()",
    "diag": "torch.diag(v)",
    "as_strided": "x.as_strided((2, 2), (1, 2))",
    # indexing
    "index_number": "x[0]",
    "index_negative": "x[-2]",
    "index_two": "x[1, 2]",
    "index_slice": "x[1:3]",
    "index_slice_step": "x[:, ::2]",
    "index_all": "x[:]",
    "index_column": "x[:, 1]",
    "index_row": "x[1, :]",
    "index_ellipsis": "x[..., 0]",
    "index_none": "x[None]",
    "index_none_inside": "x[:, None, 1:]",
    "index_tensor": "x[i[0] % 3]",
    "index_mask": "x[b]",
    "index_list": "x[[0, 2]]",
    "index_mixed": "x[0, i[0] % 3]",
    "index_two_tensors": "x[i[0, :3] % 3, j]",
    "index_slice_tensor": "x[:, i[0] % 3]",
    "index_full_size": "x[0:3, 0]",
    "index_select": "x.index_select(0, j)",
    "gather": "x.gather(1, i % 4)",
    "scatter": "x.scatter(1, i % 4, y)",
    "scatter_add": "x.scatter_add(1, i % 4, y)",
    "take": "torch.take(x, j)",
    "nonzero": "torch.nonzero(b)",
    # casts and copies
    "to_double": "x.double()",
    "to_half_byte": "x.half() + x.byte()",
    "to_dtype": "x.to(torch.float64)",
    "to_device": "x.to('cpu')",
    "to_device_dtype": "x.to('cpu', torch.float64)",
    "to_other": "x.to(i)",
    "cpu": "x.cpu()",
    "type_as": "x.type_as(i)",
    "type": "x.type(torch.int32)",
    "float_of_int": "i.float()",
    "to_copy": "x.to(torch.float32, copy=True)",
    # factories
    "zeros": "torch.zeros(2, 3) + x[:2, :3]",
    "ones_dtype": "torch.ones(4, dtype=torch.float64) + v",
    "full": "torch.full((3, 4), 2.5) + x",
    "arange": "torch.arange(4) + v",
    "arange_ends": "torch.arange(1, 9, 2) + v",
    "linspace": "torch.linspace(0, 1, 4) + v",
    "eye": "torch.eye(4) @ v",
    "empty_fill": "torch.empty(4).fill_(2) + v",
    "zeros_like": "torch.zeros_like(x) + x",
    "ones_like": "torch.ones_like(x, dtype=torch.float64)",
    "full_like": "torch.full_like(x, 3)",
    "new_zeros": "x.new_zeros(3, 4) + x",
    "new_tensor": "x.new_tensor([1.0, 2.0, 3.0, 4.0]) + v",
    "tensor": "torch.tensor([1.0, 2.0, 3.0, 4.0]) + v",
    "tensor_number": "torch.tensor(3) * x",
    "scalar_tensor": "torch.scalar_tensor(2.0) * x",
    "rand": "torch.rand(3, 4) + x",
    "randn_like": "torch.randn_like(x)",
    "normal": "torch.normal(x, torch.ones_like(x))",
    "bernoulli": "torch.bernoulli(torch.sigmoid(x))",
    # linear algebra
    "mm": "torch.mm(x, y.t())",
    "bmm": "torch.bmm(x[None], y.t()[None])",
    "mv": "torch.mv(x, v)",
    "dot": "torch.dot(v, v)",
    "outer": "torch.outer(v, v)",
    "einsum": "torch.einsum('ij,kj->ik', x, y)",
    "tensordot": "torch.tensordot(x, y, dims=([1], [1]))",
    "baddbmm": "torch.baddbmm(x[None], x[None], torch.eye(4)[None])",
    "cdist": "torch.cdist(x, y)",
    # functions of networks
    "relu": "F.relu(x)",
    "relu_method": "x.relu()",
    "gelu": "F.gelu(x)",
    "gelu_tanh": "F.gelu(x, approximate='tanh')",
    "silu": "F.silu(x)",
    "elu": "F.elu(x)",
    "leaky_relu": "F.leaky_relu(x, 0.2)",
    "hardtanh": "F.hardtanh(x)",
    "softplus": "F.softplus(x)",
    "softmax": "F.softmax(x, dim=1)",
    "log_softmax": "F.log_softmax(x, dim=-1)",
    "dropout_eval": "F.dropout(x, 0.3, training=False)",
    "linear": "F.linear(x, y)",
    "linear_bias": "F.linear(x, torch.eye(4), v)",
    "layer_norm": "F.layer_norm(x, (4,))",
    "group_norm": "F.group_norm(image, 2)",
    "batch_norm": "F.batch_norm(image, torch.zeros(2), torch.ones(2))",
    "instance_norm": "F.instance_norm(image)",
    "conv1d": "F.conv1d(image[0], torch.ones(3, 6, 3))",
    "conv2d": "F.conv2d(image, torch.ones(3, 2, 3, 3), stride=2, padding=1)",
    "conv2d_same": "F.conv2d(image, torch.ones(3, 2, 3, 3), padding='same')",
    "conv_transpose2d": "F.conv_transpose2d(image, torch.ones(2, 3, 3, 3), stride=2)",
    "conv3d": "F.conv3d(image[None], torch.ones(1, 1, 1, 3, 3))",
    "max_pool2d": "F.max_pool2d(image, 2)",
    "avg_pool2d": "F.avg_pool2d(image, 3, stride=1, padding=1)",
    "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(image, (2, 2))",
    "adaptive_max_pool2d": "F.adaptive_max_pool2d(image, 2)",
    "interpolate_nearest": "F.interpolate(image, scale_factor=2)",
    "interpolate_bilinear": "F.interpolate(image, size=(4, 4), mode='bilinear')",
    "pixel_shuffle": "F.pixel_shuffle(image.repeat(1, 2, 1, 1), 2)",
    "pad": "F.pad(x, (1, 1))",
    "pad_reflect": "F.pad(image, (1, 1, 1, 1), mode='reflect')",
    "embedding": "F.embedding(j, x)",
    "one_hot": "F.one_hot(j, 4)",
    "cosine_similarity": "F.cosine_similarity(x, y)",
    "normalize": "F.normalize(x)",
    "cross_entropy": "F.cross_entropy(x, j)",
    "nll_loss": "F.nll_loss(F.log_softmax(x, 1), j)",
    "mse_loss": "F.mse_loss(x, y)",
    "l1_loss": "F.l1_loss(x, y)",
    "smooth_l1_loss": "F.smooth_l1_loss(x, y)",
    "bce_logits": "F.binary_cross_entropy_with_logits(x, y.abs().clamp(max=1))",
    "kl_div": "F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')",
    "attention": "F.scaled_dot_product_attention(x[None, None], x[None, None], y[None, None])",
    "unfold_image": "F.unfold(image, 3)",
    # sizes
    "size_number": "x.view(x.size(0), -1)",
    "size_product": "x.reshape(x.shape[0] * x.shape[1])",
    "size_halves": "x[:, : x.size(1) // 2]",
    "size_tuple": "torch.zeros(x.shape) + x",
    "size_slice": "torch.ones(x.shape[1:]) + v",
    "numel": "torch.arange(x.numel())",
    "numel_returned": "x.numel()",
    "size_minus": "x[: x.size(0) - 1]",
    "size_float": "x / x.size(0)",
    "size_negative_dim": "x.view(-1, x.size(-1))",
    "size_expand": "v.expand(x.size(0), v.size(0))",
    "size_full": "torch.full(x.shape, 1.0) + x",
    "size_arange_step": "torch.arange(0, x.size(1), 2)",
    "size_narrow": "x.narrow(0, 0, x.size(0) - 1)",
    "size_repeat": "v.repeat(x.size(0), 1)",
    # outputs
    "out_tuple": "(x, y)",
    "out_nested": "(x, (y, x + 1))",
    "out_twice": "(lambda z: (z, z))(x + y)",
    "out_list": "[x, x + 1]",
    "out_dict": "{'a': x + 1, 'b': y}",
    "out_dict_tuples": "{'a': (x, y), 'b': (y, x)}",
}


def function(builder):
    """Names a program: `builder(torch)` gives the function and the inputs."""
    FUNCTIONS[builder.__name__] = builder
    return builder


def module(builder):
    """Names a program that is a module: `builder(torch)` gives it and the inputs."""
    MODULES[builder.__name__] = builder
    return builder


def operands(torch):
    def ramp(*sizes):
        count = 1
        for size in sizes:
            count *= size
        return (torch.arange(count, dtype=torch.float32) * 0.25 - 1).view(sizes)

    i = torch.arange(12).view(3, 4)
    return {
        "x": ramp(3, 4),
        "y": ramp(3, 4) + 0.5,
        "v": ramp(4),
        "s": torch.tensor(0.5),
        "i": i,
        "j": torch.tensor([0, 2, 1]),
        "b": i % 2 == 0,
        "image": ramp(1, 2, 6, 6),
    }


def expression_program(name):
    def build(torch):
        text = EXPRESSIONS[name]
        given = operands(torch)
        code = compile(text, f"<{name}>", "eval")
        used = [each for each in given if each in code.co_names]
        scope = {"torch": torch, "F": torch.nn.functional, "__name__": __name__}
        source = f"def {name}({', '.join(used)}):\n    return {text}\n"
        exec(source, scope)
        return scope[name], tuple([given[each] for each in used])

    build.__name__ = name
    return build


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


# -- modules ---------------------------------------------------------------------------------------


@module
def linear(torch):
    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)


@module
def linear_without_bias(torch):
    return torch.nn.Linear(4, 3, bias=False), (torch.ones(2, 4),)


@module
def sequential(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), (torch.ones(2, 4),)


@module
def conv(torch):
    return torch.nn.Conv2d(2, 3, 3, padding=1), (torch.ones(1, 2, 5, 5),)


@module
def conv_same(torch):
    return torch.nn.Conv2d(2, 3, 3, padding="same"), (torch.ones(1, 2, 5, 5),)


@module
def conv_transpose(torch):
    return torch.nn.ConvTranspose2d(2, 3, 2, stride=2), (torch.ones(1, 2, 5, 5),)


@module
def batch_norm_eval(torch):
    return torch.nn.BatchNorm2d(2).eval(), (torch.ones(1, 2, 3, 3),)


@module
def batch_norm_train(torch):
    return torch.nn.BatchNorm1d(4), (torch.arange(8.0).view(2, 4),)


@module
def layer_norm(torch):
    return torch.nn.LayerNorm(4), (torch.ones(2, 4),)


@module
def group_norm(torch):
    return torch.nn.GroupNorm(2, 4), (torch.ones(2, 4, 3),)


@module
def embedding(torch):
    return torch.nn.Embedding(10, 4), (torch.tensor([1, 2, 3]),)


@module
def convnet(torch):
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 4, 3)
            self.conv2 = nn.Conv2d(4, 4, 3)
            self.fc1 = nn.Linear(16, 8)
            self.fc2 = nn.Linear(8, 2)

        def forward(self, x):
            x = F.relu(self.conv1(x))
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = torch.flatten(x, 1)
            x = F.relu(self.fc1(x))
            return F.log_softmax(self.fc2(x), dim=1)

    return Net(), (torch.ones(1, 1, 8, 8),)


@module
def nested(torch):
    nn = torch.nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.lin(x) * self.scale

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Inner()
            self.second = Inner()
            self.shift = nn.Parameter(torch.ones(4))

        def forward(self, x):
            y = self.first(x)
            return self.second(y + self.shift) - y

    return Outer(), (torch.ones(2, 4),)


@module
def called_twice(torch):
    nn = torch.nn

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return self.lin(torch.tanh(self.lin(x)))

    return Twice(), (torch.ones(2, 4),)


@module
def several_results(torch):
    nn = torch.nn

    class Split(nn.Module):
        def forward(self, x):
            return x[:, :2], x[:, 2:] * 2

    class Join(nn.Module):
        def __init__(self):
            super().__init__()
            self.split = Split()

        def forward(self, x):
            a, b = self.split(x)
            return a + b

    return Join(), (torch.ones(2, 4),)


@module
def several_arguments(torch):
    nn = torch.nn

    class Mix(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, a, b, flag=True, extra=None):
            return a * self.weight + b if flag else a

    class Use(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = Mix()

        def forward(self, x, y):
            z = x * 2
            return self.mix(z, y) + self.mix(y, b=z, flag=True)

    return Use(), (torch.ones(2, 4), torch.ones(2, 4))


@module
def dict_between(torch):
    nn = torch.nn

    class Reader(nn.Module):
        def forward(self, d):
            return {"sum": d["a"] + d["b"], "difference": d["a"] - d["b"]}

    class Use(nn.Module):
        def __init__(self):
            super().__init__()
            self.reader = Reader()

        def forward(self, x):
            made = self.reader({"a": x, "b": x * 2})
            return made["sum"] * made["difference"]

    return Use(), (torch.ones(3),)


@module
def shared_parameter(torch):
    nn = torch.nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Embedding(5, 4)
            self.decoder = nn.Linear(4, 5, bias=False)
            self.decoder.weight = self.encoder.weight

        def forward(self, x):
            return self.decoder(self.encoder(x))

    return Tied(), (torch.tensor([0, 1, 2]),)


@module
def buffers(torch):
    nn = torch.nn

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    return Counter(), (torch.ones(3),)


@module
def plain_attribute(torch):
    nn = torch.nn

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.tensor([2.0, 3.0])
            self.power = 2

        def forward(self, x):
            return x * self.factor**self.power

    return Scaled(), (torch.ones(2),)


@module
def hooks(torch):
    nn = torch.nn

    class Body(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return self.lin(x) + 1

    body = Body()
    body.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
    body.register_forward_hook(lambda mod, args, result: result - 3)
    body.lin.register_forward_pre_hook(lambda mod, args: (args[0].tanh(),))
    body.lin.register_forward_hook(lambda mod, args, result: result.relu())
    return body, (torch.ones(2, 4),)


@module
def module_list(torch):
    nn = torch.nn

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})

        def forward(self, x):
            for layer in self.layers:
                x = torch.relu(layer(x))
            return self.heads["a"](x), self.heads["b"](x)

    return Stack(), (torch.ones(2, 4),)


@module
def parameter_of_child(torch):
    nn = torch.nn

    class Reach(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return x @ self.lin.weight + self.lin.bias

    return Reach(), (torch.ones(2, 4),)


@module
def dropout_eval(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), (torch.ones(2, 4),)


@module
def dropout_train(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), (torch.ones(2, 4),)


@module
def pooling(torch):
    nn = torch.nn
    return (
        nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        (torch.ones(1, 2, 8, 8),),
    )


@module
def activations(torch):
    nn = torch.nn
    return (
        nn.Sequential(nn.ReLU(inplace=True), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Softmax(dim=-1)),
        (torch.ones(2, 4) - 1,),
    )


@module
def residual(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.downsample = None
            if stride != 1:
                self.downsample = nn.Sequential(
                    nn.Conv2d(width, width, 1, stride, bias=False), nn.BatchNorm2d(width)
                )

        def forward(self, x):
            identity = x
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            return self.relu(out)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
            )
            self.pool = nn.MaxPool2d(3, 2, 1)
            self.layer1 = nn.Sequential(Block(4), Block(4))
            self.layer2 = nn.Sequential(Block(4, 2), Block(4))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(4, 5)

        def forward(self, x):
            x = self.pool(self.stem(x))
            x = self.layer2(self.layer1(x))
            x = torch.flatten(self.avgpool(x), 1)
            return self.fc(x)

    return Net().eval(), (torch.ones(1, 3, 32, 32),)


@module
def residual_train(torch):
    net, _ = residual(torch)
    return net.train(), (torch.arange(2.0 * 3 * 32 * 32).view(2, 3, 32, 32) % 7,)


@module
def lstm(torch):
    return torch.nn.LSTM(4, 5, batch_first=True), (torch.ones(2, 3, 4),)


@module
def gru(torch):
    return torch.nn.GRU(4, 5), (torch.ones(3, 2, 4),)


@module
def rnn(torch):
    return torch.nn.RNN(4, 5), (torch.ones(3, 2, 4),)


@module
def lstm_cell(torch):
    return torch.nn.LSTMCell(4, 5), (torch.ones(2, 4),)


@module
def tagger(torch):
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 6)
            self.lstm = nn.LSTM(6, 4, bidirectional=True)
            self.head = nn.Linear(8, 3)

        def forward(self, words):
            vectors = self.embedding(words)
            states, _ = self.lstm(vectors.view(len(words), 1, -1))
            scores = self.head(states.view(len(words), -1))
            return torch.nn.functional.log_softmax(scores, dim=1)

    return Tagger(), (torch.tensor([1, 5, 2, 7]),)


@module
def attention(torch):
    nn = torch.nn

    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.out = nn.Linear(8, 8)

        def forward(self, x):
            batch, steps, width = x.shape
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            q, k, v = (t.view(batch, steps, 2, width // 2).transpose(1, 2) for t in (q, k, v))
            scores = q @ k.transpose(-2, -1) / (width // 2) ** 0.5
            mixed = scores.softmax(-1) @ v
            return self.out(mixed.transpose(1, 2).reshape(batch, steps, width))

    return SelfAttention(), (torch.ones(2, 3, 8),)


@module
def transformer_block(torch):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1 = nn.LayerNorm(8)
            self.ln2 = nn.LayerNorm(8)
            self.qkv = nn.Linear(8, 24)
            self.out = nn.Linear(8, 8)
            self.mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = self.qkv(self.ln1(x)).split(8, dim=2)
            k = k.view(b, t, 2, c // 2).transpose(1, 2)
            q = q.view(b, t, 2, c // 2).transpose(1, 2)
            v = v.view(b, t, 2, c // 2).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.mlp(self.ln2(x))

    return Block(), (torch.ones(2, 3, 8),)


@module
def multihead_attention(torch):
    nn = torch.nn

    class Use(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    return Use(), (torch.ones(3, 2, 8),)


@module
def upsample(torch):
    nn = torch.nn
    return (
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.Upsample(scale_factor=2, mode="bilinear")),
        (torch.ones(1, 1, 6, 6),),
    )


@module
def losses(torch):
    nn = torch.nn

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.mse = nn.MSELoss()
            self.ce = nn.CrossEntropyLoss()

        def forward(self, x, target, labels):
            y = self.lin(x)
            return self.mse(y, target) + self.ce(y, labels)

    return Step(), (torch.ones(2, 4), torch.ones(2, 4), torch.tensor([1, 2]))


@module
def traced_inside(torch):
    nn = torch.nn
    inner = torch.jit.trace(nn.Linear(4, 4), (torch.ones(2, 4),))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) + 1

    return Outer(), (torch.ones(2, 4),)
