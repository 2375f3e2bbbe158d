"""More programs that are scripted: tensors, calls, classes and modules. See `programs_script`."""
# Written as users write: style is theirs.
# ruff: noqa

import enum
import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from programs_script import FUNCTIONS, MODULES, F, Point, Tensor, module, nn, program, torch


# -- strings ---------------------------------------------------------------------------------------


@program
def string_methods(s: str):
    return (
        s.upper(),
        s.lower(),
        s.split(","),
        s.strip(),
        s.replace("a", "b"),
        s.find("a"),
        s.startswith("a"),
        s.endswith("b"),
        ",".join(["a", s]),
        s.count("a"),
        s.isdigit(),
    )


@program
def string_ops(s: str, t: str):
    return s + t, s == t, s != t, s < t, s in t, len(s), s[0], s[1:3], s[::-1]


@program
def formatted(n: int, s: str):
    return f"{n} and {s}", "{} {}".format(n, s), "%d %s" % (n, s), "%s" % s


@program
def conversions(n: int, x: float, s: str, b: bool):
    return float(n), int(x), str(n), int(s), float(s), bool(n), int(b), str(x)


@program
def tensor_conversions(x):
    return int(x), float(x), bool(x), x.item()


# -- tensors ---------------------------------------------------------------------------------------


@program
def tensor_attributes(x):
    return x.shape, x.dtype, x.device, x.ndim, x.requires_grad, x.is_cuda, x.T, x.layout


@program
def tensor_sizes(x):
    a, b = x.size()
    return a * b, x.size(0), x.dim(), x.numel(), x.shape[1], len(x)


@program
def indexing(x):
    return x[0], x[0, 1], x[-1], x[1:], x[:, 1], x[..., 0], x[None], x[:, None, 1:3]


@program
def advanced_indexing(x, i):
    return x[i], x[[0, 1]], x[:, i], x[x > 0]


@program
def index_assignment(x, y):
    x[0] = y
    x[1:, 0] = 3
    x[x > 0] = 0.5
    return x


@program
def index_augmented(x, i):
    x[0] += 1
    x[:, 1] *= 2
    x[i] += 1
    return x


@program
def shapes(x):
    return (
        x.view(-1, 2),
        x.reshape([2, -1]),
        x.reshape(2, -1),
        x.permute(0, 1),
        x.transpose(0, 1),
        x.unsqueeze(0),
        x.expand(2, 3),
        x.t(),
        x.flatten(),
    )


@program
def reductions(x):
    return x.sum(), x.sum(1), x.mean([0, 1]), x.max(), x.max(1), x.argmax(dim=0), x.std()


@program
def creation(x, n: int):
    return (
        torch.zeros(2, 3),
        torch.zeros([n, 3]),
        torch.ones((2, n), dtype=torch.float64),
        torch.arange(n),
        torch.arange(1, n, 2),
        torch.full([2], 1.5),
        torch.zeros_like(x),
        torch.empty(0, device=x.device),
    )


@program
def tensor_function(n: int):
    return torch.tensor([1, 2]), torch.tensor(3.5), torch.tensor([[n]], dtype=torch.float32)


@program
def casts(x):
    return x.float(), x.int(), x.to(torch.int64), x.double(), x.to("cpu"), x.type_as(x)


@program
def named_results(x):
    values, indices = x.max(1)
    v = torch.topk(x, 2)
    return values, indices, v.values, x.sort(dim=0).indices, torch.max(x, dim=1)[0]


@program
def splits(x):
    a, b = x.split(2)
    c, d = torch.chunk(x, 2, dim=1)
    e, f = torch.unbind(x)
    return a, b, c, d, e, f


@program
def keyword_arguments(x):
    return torch.softmax(x, dim=1), torch.sum(x, dim=[0], keepdim=True), torch.clamp(x, max=1)


@program
def in_place(x):
    x.add_(1)
    x.mul_(2).relu_()
    return x


@program
def scalar_functions(x):
    return torch.sigmoid(x), torch.exp(x), x.tanh(), torch.where(x > 0, x, -x), x.clamp(0, 1)


@program
def tolist(x):
    a: List[int] = x.tolist()
    return a


@program
def linear_algebra(x, y):
    return torch.linalg.norm(x), torch.linalg.det(y), torch.einsum("ij,jk->ik", [x, y])


# -- math ------------------------------------------------------------------------------------------


@program
def math_functions(x: float, n: int):
    return (
        math.sqrt(x),
        math.floor(x),
        math.exp(x),
        math.log(x),
        math.pow(x, 2.0),
        math.pi,
        math.ceil(x),
    )


@program
def math_more(x: float, n: int):
    return math.sin(x), math.fabs(x), math.isnan(x), math.gcd(n, 3), math.factorial(n), math.inf


@program
def builtin_functions(a: int, b: float):
    return max(a, b), min(a, 3), abs(b), round(b), abs(a), pow(a, 2), divmod(a, 2), ord("a"), chr(a)


# -- calls -----------------------------------------------------------------------------------------


def helper(x, n: int = 2):
    return x * n


def helper_pair(x, y):
    return x + y, x - y


@program
def call_helper(x):
    return helper(x) + helper(x, 3) + helper(n=4, x=x)


@program
def call_pair(x):
    a, b = helper_pair(x, x)
    return a * b


@program
def default_arguments(x, n: int = 3, s: str = "a", f: float = 0.5, b: bool = False):
    if b:
        return x * n
    return x * f


@program
def keyword_only(x, *, n: int):
    return x + n


@program
def type_comment(x, n):
    # type: (Tensor, int) -> Tensor
    return x + n


@program
def starred_call(p: Tuple[int, int]):
    return max(*p)


@program
def annotate_call(n: int):
    x = torch.jit.annotate(List[int], [])
    y = torch.jit.annotate(Optional[int], None)
    x.append(n)
    return x, y


@program
def scripting_flag(x):
    if torch.jit.is_scripting():
        return x + 1
    else:
        return x.not_there()


@program
def printing(x, n: int):
    print("n", n, x)
    return x


@program
def fork_and_wait(x):
    future = torch.jit.fork(helper, x, 3)
    y = x + 1
    return torch.jit.wait(future) + y


@program
def functional_relu(x):
    return F.relu(x)


@program
def functional_several(x, w):
    return F.linear(x, w), F.softmax(x, dim=1), F.dropout(x, 0.5, False), F.conv2d(x, w), F.gelu(x)


@program
def without_grad(x):
    with torch.no_grad():
        y = x + 1
    return y


# -- errors in the program -------------------------------------------------------------------------


@program
def raising(x, n: int):
    if n < 0:
        raise ValueError("negative")
    return x + n


@program
def asserting(x):
    assert x.dim() == 2, f"not 2 but {x.dim()}"
    return x


@program
def asserting_plain(n: int):
    assert n > 0
    return n


@program
def only_raises(x):
    raise RuntimeError("never")


@program
def raise_in_both(n: int):
    if n > 0:
        raise ValueError("a")
    else:
        raise RuntimeError("b")
    return n


@program
def raise_in_loop(n: int):
    for i in range(n):
        if i > 3:
            raise IndexError("too far")
    return n


# -- classes and enumerations ----------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Shade(enum.Enum):
    LIGHT = "light"
    DARK = "dark"


@program
def enumerations(c: Color):
    if c == Color.RED:
        return Color.GREEN.value
    return c.value


@program
def enumeration_names(s: Shade):
    return s.name, s.value, s == Shade.DARK, Shade.LIGHT


class Counter:
    def __init__(self, start: int):
        self.count = start
        self.history = torch.zeros(start)

    def step(self, n: int) -> int:
        self.count += n
        return self.count

    @property
    def double(self) -> int:
        return self.count * 2

    @staticmethod
    def plus(a: int) -> int:
        return a + 1

    def __add__(self, other: int) -> int:
        return self.count + other

    def __len__(self) -> int:
        return self.count


@program
def uses_class(n: int):
    c = Counter(n)
    c.step(2)
    c.count = 4
    return c.count + c.double + Counter.plus(n) + (c + 3) + len(c)


@program
def takes_class(c: Counter, n: int):
    return c.step(n)


# -- modules ---------------------------------------------------------------------------------------


@module
class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.zeros(3))

    def forward(self, x):
        return x * self.weight + self.offset


@module
class Constants(nn.Module):
    __constants__ = ["factor"]

    def __init__(self):
        super().__init__()
        self.factor = 3
        self.names = ["a", "b"]
        self.scale = 0.5
        self.table = {"a": 1}

    def forward(self, x):
        return x * self.factor + self.scale + len(self.names) + self.table["a"]


@module
class Submodules(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@module
class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        return self.body(self.layers[1](x)) + len(self.layers)


@module
class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def helper(self, x, n: int = 2):
        return x * n

    def forward(self, x):
        self.calls = self.calls + 1
        self.calls += 1
        return self.helper(x) + self.helper(x, n=3)

    @torch.jit.export
    def extra(self, x):
        return x if self.training else x + 1


@module
class OptionalParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = None
        self.linear = nn.Linear(2, 2, bias=False)
        self.limit: Optional[int] = None

    def forward(self, x):
        if self.down is not None:
            x = self.down(x)
        return self.linear(x)


@module
class Dictionary(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})

    def forward(self, x):
        for name, part in self.parts.items():
            x = part(x)
        return self.parts["a"](x)


@module
class Losses(nn.Module):
    def forward(self, x: Dict[str, Tensor], flag: bool = True) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for k, v in x.items():
            if flag:
                out[k] = v.sum()
        return out


@module
class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total += x
        self.total = self.total * 2
        return self.total
