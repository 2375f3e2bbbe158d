"""What compiled code may read of the outside, and a change of it, as texts of programs.

A case is (setup, expression, change): the setup fills a namespace, the expression reads `x` and the
namespace's names, the change is run between two calls.
"""

from __future__ import annotations

__all__ = ["CASES", "CONTEXTS", "STATES", "TENSORS"]

BOX = """
class Base:
    inherited = 7
    def both(self): return 3
class Box(Base):
    flag = 2
    def __init__(self):
        self.a, self.inner, self.items = 2, None, [1, 2]
    def method(self, k=2): return self.a * k
    @property
    def prop(self): return self.a + 5
    @staticmethod
    def fixed(): return 4
    @classmethod
    def made(cls): return cls.flag + 1
class Other(Box):
    def method(self, k=2): return 100
    flag = 50
box = Box()
box.inner = Box()
"""
SPECIAL = """
class Special:
    def __init__(self): self.v = [3, 4]
    def __bool__(self): return True
    def __len__(self): return 2
    def __eq__(self, other): return other == 3
    __hash__ = None
    def __call__(self, k): return k * 2
    def __iter__(self): return iter([1, 2])
    def __contains__(self, k): return k == 1
    def __getitem__(self, k): return self.v[k]
    def __add__(self, k): return k + 2
    def __radd__(self, k): return k + 3
    def __lt__(self, k): return True
    def __neg__(self): return 5
    def __enter__(self): return 6
    def __exit__(self, *e): return None
    def __getattr__(self, name): return 9 if name == 'ghost' else self.__missing(name)
    def __missing(self, name): raise AttributeError(name)
special = Special()
def use(s):
    with s as k:
        return k
"""
DESCRIPTOR = """
class Data:
    def __init__(self, v): self.v = v
    def __get__(self, owner, cls): return self.v * 2 if owner is not None else self
    def __set__(self, owner, v): self.v = v
class Plain:
    def __get__(self, owner, cls): return 8
class Slots:
    __slots__ = ('s',)
class Host:
    data = Data(3)
    plain = Plain()
host, slots = Host(), Slots()
slots.s = 4
"""
MODULE = """
from rushlight.nn.module import register_module_forward_hook, register_module_forward_pre_hook
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.lin = nn.Linear(3, 3)
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.several = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])
        self.named = nn.ModuleDict({'p': nn.Tanh(), 'q': nn.Sigmoid()})
        self.table = nn.ParameterList([nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))])
        self.drop = nn.Dropout(0.0)
        self.norm = nn.LayerNorm(3)
        self.register_buffer('buf', torch.ones(3))
        self.scale, self.extra = 2.0, None
    def forward(self, x):
        y = self.lin(x) * self.scale + self.buf
        return y + 1 if self.training else y
    def over(self, x):
        for m in self.several: x = m(x)
        return x
    def keyed(self, x):
        for k, m in self.named.items(): x = m(x) + len(k)
        return x
net = Net()
"""
DATA = """
import collections, enum, dataclasses, types, functools
Pair = collections.namedtuple('Pair', 'p q')
@dataclasses.dataclass
class Point:
    u: int = 1
    v: float = 2.5
class Color(enum.Enum):
    RED = 1
    BLUE = 2
d = {'k': 2, 'j': 3}
l = [1, 2, 3]
t = (1, (2, 3))
s = {1, 2}
fs = frozenset((1, 2))
nested = {'k': [{'m': 5}], 'o': (1, [2])}
ordered = collections.OrderedDict(a=1, b=2)
factory = collections.defaultdict(int, a=1)
dq = collections.deque([1, 2])
pair, point, color = Pair(1, 2), Point(), Color.RED
lib = types.ModuleType('lib')
lib.value = 4
lib.inner = types.ModuleType('lib.inner')
lib.inner.value = 5
exec('K = 3\\ndef far(x, n=2): return x * K + n\\nclass Far:\\n    z = 4', lib.__dict__)
number, text, flag, nothing, real, z = 3, 'ab', True, None, 2.5, 1j
tensor = torch.ones(3)
def helper(x, k=3, *, w=4): return x * k + w
def make(c):
    def inner(x): return x * c
    def change(v):
        nonlocal c
        c = v
    return inner, change
inner, change_cell = make(2)
part = functools.partial(helper, k=5)
def deco(f):
    @functools.wraps(f)
    def run(*a, **k): return f(*a, **k) + 1
    return run
@deco
def wrapped(x): return x * 2
@functools.lru_cache
def cached(n): return n * number
key_box = {1: 5}
"""

# name: (setup, expression, change)
CASES: dict[str, tuple[str, str, str]] = {
    # Names of the module.
    "global number": (DATA, "x * number", "number = 5"),
    "global number to float": (DATA, "x.long() * number", "number = 3.0"),
    "global number to bool": (DATA, "(x * flag, type(flag).__name__)", "flag = 1"),
    "global text": (DATA, "x * len(text)", "text = 'abc'"),
    "global text compared": (DATA, "x + 1 if text == 'ab' else x - 1", "text = 'cd'"),
    "global flag": (DATA, "x + 1 if flag else x - 1", "flag = False"),
    "global None": (DATA, "x * 2 if nothing is None else x + nothing", "nothing = 4"),
    "global float": (DATA, "x * real", "real = 3.5"),
    "global negative zero": (DATA, "x * 0 + real * 0.0", "real = -1.0"),
    "global nan": (DATA, "x * real", "real = float('nan')"),
    "global complex": (DATA, "x * z", "z = 2j"),
    "global tensor": (DATA, "x + tensor", "tensor = torch.ones(3) * 4"),
    "global tensor's dtype": (DATA, "x + tensor", "tensor = torch.ones(3, dtype=torch.float64)"),
    "global tensor's size": (DATA, "x + tensor", "tensor = torch.ones(2, 1)"),
    "global tensor to number": (DATA, "x + tensor", "tensor = 2"),
    "global function": (DATA, "helper(x)", "def helper(x, k=3, *, w=4): return x - k"),
    "global class": (
        BOX,
        "x * Box().a",
        "Box = Other; Box.__init__ = lambda s: setattr(s, 'a', 9)",
    ),
    "global deleted": (DATA, "x * number", "del number"),
    "global that hides a builtin": (DATA, "x * len(text)", "def len(v): return 7"),
    "builtin replaced": (DATA, "x * ord(text[0])", "ord = lambda v: 1"),
    "module": (DATA, "x * lib.value", "lib = types.SimpleNamespace(value=9)"),
    "module's attribute": (DATA, "x * lib.value", "lib.value = 6"),
    "module's module's attribute": (DATA, "x * lib.inner.value", "lib.inner.value = 6"),
    "module's attribute deleted": (DATA, "x * lib.value", "del lib.value"),
    "module's function": (DATA, "lib.far(x)", "lib.far = lambda x: x - 1"),
    "global of a function elsewhere": (DATA, "lib.far(x)", "lib.K = 8"),
    "class elsewhere": (DATA, "x * lib.Far.z", "lib.Far.z = 9"),
    "library function": ("", "torch.sin(x)", "torch = types.SimpleNamespace(sin=torch.cos)"),
    # Functions.
    "default": (DATA, "helper(x)", "helper.__defaults__ = (9,)"),
    "defaults removed": (DATA, "helper(x)", "helper.__defaults__ = None"),
    "keyword default": (DATA, "helper(x)", "helper.__kwdefaults__['w'] = 9"),
    "keyword defaults": (DATA, "helper(x)", "helper.__kwdefaults__ = {'w': 7}"),
    "code": (DATA, "helper(x)", "helper.__code__ = (lambda x, k, *, w: x - k - w).__code__"),
    "cell": (DATA, "inner(x)", "change_cell(7)"),
    "cell to float": (DATA, "inner(x)", "change_cell(7.5)"),
    "cell to tensor": (DATA, "inner(x)", "change_cell(torch.ones(3) * 5)"),
    "closure replaced": (DATA, "inner(x)", "inner = make(11)[0]"),
    "partial replaced": (DATA, "part(x)", "part = functools.partial(helper, k=6)"),
    "partial's keywords": (DATA, "part(x)", "part.keywords['k'] = 6"),
    "partial's function": (DATA, "part(x)", "part = functools.partial(lambda x, k: x - k, k=5)"),
    "what a decorator holds": (
        DATA,
        "wrapped(x)",
        "wrapped.__closure__[0].cell_contents = lambda x: x * 9",
    ),
    "function's attribute": (
        DATA + "helper.mark = 3",
        "x * helper.mark",
        "helper.mark = 4",
    ),
    # Objects.
    "attribute": (BOX, "x * box.a", "box.a = 9"),
    "attribute to float": (BOX, "x * box.a", "box.a = 9.5"),
    "attribute to tensor": (BOX, "x * box.a", "box.a = torch.ones(3) * 5"),
    "attribute of an attribute": (BOX, "x * box.inner.a", "box.inner.a = 9"),
    "object in an attribute": (BOX, "x * box.inner.a", "box.inner = Other(); box.inner.a = 5"),
    "attribute deleted": (BOX, "x * box.a", "del box.a"),
    "attribute of the class": (BOX, "x * box.flag", "Box.flag = 9"),
    "attribute of the class hidden": (BOX, "x * box.flag", "box.flag = 9"),
    "attribute of the base": (BOX, "x * box.inherited", "Base.inherited = 9"),
    "attribute of the base hidden by the class": (BOX, "x * box.inherited", "Box.inherited = 8"),
    "attribute of the base hidden": (BOX, "x * box.inherited", "box.inherited = 8"),
    "bases": (
        BOX,
        "x * box.inherited",
        "class New:\n    inherited = 30\nBox.__bases__ = (New,)",
    ),
    "list in an attribute": (BOX, "x * box.items[1]", "box.items[1] = 7"),
    "list in an attribute replaced": (BOX, "x * len(box.items)", "box.items = (1, 2, 3)"),
    "class of an object": (BOX, "x * box.method()", "box.__class__ = Other"),
    "class of an object, attribute": (BOX, "x * box.flag", "box.__class__ = Other"),
    "isinstance": (BOX, "x + 1 if isinstance(box, Other) else x - 1", "box.__class__ = Other"),
    "registered class": (
        BOX + "import abc\nclass Abstract(abc.ABC): pass",
        "x + 1 if isinstance(box, Abstract) else x - 1",
        "Abstract.register(Box)",
    ),
    "imported module": (
        "import sys, types\nsys.modules['made_module'] = types.SimpleNamespace()\n"
        "m = types.ModuleType('made_module')\nm.k = 3\nsys.modules['made_module'] = m\n"
        "def use_import():\n    import made_module\n    return made_module.k",
        "x * use_import()",
        "m = types.ModuleType('made_module')\nm.k = 5\nsys.modules['made_module'] = m",
    ),
    "imported name": (
        "import sys, types\nm = types.ModuleType('made_names')\nm.k = 3\n"
        "sys.modules['made_names'] = m\n"
        "def use_import():\n    from made_names import k\n    return k",
        "x * use_import()",
        "sys.modules['made_names'].k = 6",
    ),
    "attribute of a metaclass": (
        "class Meta(type):\n    k = 3\nclass Made(metaclass=Meta): pass",
        "x * Made.k",
        "Meta.k = 4",
    ),
    "property of a metaclass": (
        "class Meta(type):\n    @property\n    def k(cls): return cls.v\n"
        "class Made(metaclass=Meta):\n    v = 3",
        "x * Made.k",
        "Made.v = 4",
    ),
    "type": (BOX, "x + 1 if type(box) is Box else x - 1", "box = Other()"),
    "hasattr": (BOX, "x + 1 if hasattr(box, 'new') else x - 1", "box.new = 1"),
    "hasattr of a class": (BOX, "x + 1 if hasattr(box, 'new') else x - 1", "Base.new = 1"),
    "hasattr, deleted": (BOX, "x + 1 if hasattr(box, 'a') else x - 1", "del box.a"),
    "getattr with a default": (BOX, "x * getattr(box, 'new', 3)", "box.new = 1"),
    "getattr of a known attribute": (BOX, "x * getattr(box, 'a', 3)", "del box.a"),
    "method of the class": (BOX, "x * box.method()", "Box.method = lambda self: 11"),
    "method hidden": (BOX, "x * box.method()", "box.method = lambda: 12"),
    "method of the base": (BOX, "x * box.both()", "Base.both = lambda self: 13"),
    "method of the base hidden": (BOX, "x * box.both()", "Box.both = lambda self: 14"),
    "default of a method": (BOX, "x * box.method()", "Box.method.__defaults__ = (6,)"),
    "what a method reads": (BOX, "x * box.method()", "box.a = 6"),
    "property": (BOX, "x * box.prop", "Box.prop = property(lambda self: 15)"),
    "what a property reads": (BOX, "x * box.prop", "box.a = 6"),
    "property to attribute": (BOX, "x * box.prop", "Box.prop = 3"),
    "static method": (BOX, "x * box.fixed()", "Box.fixed = staticmethod(lambda: 16)"),
    "class method": (BOX, "x * box.made()", "Box.made = classmethod(lambda cls: 17)"),
    "what a class method reads": (BOX, "x * Box.made()", "Box.flag = 18"),
    "static method of the class": (BOX, "x * Box.fixed()", "Box.fixed = staticmethod(lambda: 19)"),
    "constructor": (
        BOX,
        "x * Box().a",
        "Box.__init__ = lambda self: setattr(self, 'a', 20)",
    ),
    "what a made object reads": (BOX, "x * Box().method()", "Box.method = lambda self: 21"),
    "class attribute of a made object": (BOX, "x * Box().flag", "Box.flag = 22"),
    "slot": (DESCRIPTOR, "x * slots.s", "slots.s = 5"),
    "slot deleted": (DESCRIPTOR, "x * slots.s", "del slots.s"),
    "data descriptor": (DESCRIPTOR, "x * host.data", "host.data = 5"),
    "data descriptor's method": (
        DESCRIPTOR,
        "x * host.data",
        "Data.__get__ = lambda self, owner, cls: 23",
    ),
    "descriptor replaced": (DESCRIPTOR, "x * host.data", "Host.data = 24"),
    "descriptor hidden": (DESCRIPTOR, "x * host.plain", "host.plain = 25"),
    "descriptor's method": (
        DESCRIPTOR,
        "x * host.plain",
        "Plain.__get__ = lambda self, owner, cls: 26",
    ),
    "descriptor becomes data": (
        DESCRIPTOR + "host.__dict__['plain'] = 3",
        "x * host.plain",
        "Plain.__set__ = lambda self, owner, v: None",
    ),
    "bound method": (BOX + "bound = box.method", "x * bound()", "bound = Other().method"),
    "identity": (BOX, "x + 1 if box is box.inner else x - 1", "box.inner = box"),
    "identity lost": (
        BOX + "box.inner = box",
        "x + 1 if box is box.inner else x - 1",
        "box.inner = 3",
    ),
    "equality": (
        BOX,
        "x + 1 if box == box.inner else x - 1",
        "Box.__eq__ = lambda self, other: True",
    ),
    # Special methods.
    "__bool__": (SPECIAL, "x + 1 if special else x - 1", "Special.__bool__ = lambda self: False"),
    "__bool__ deleted": (
        SPECIAL,
        "x + 1 if special else x - 1",
        "del Special.__bool__; Special.__len__ = lambda self: 0",
    ),
    "__len__": (SPECIAL, "x * len(special)", "Special.__len__ = lambda self: 5"),
    "__eq__": (SPECIAL, "x + 1 if special == 3 else x - 1", "Special.__eq__ = lambda s, o: False"),
    "__call__": (SPECIAL, "special(x)", "Special.__call__ = lambda s, k: k * 7"),
    "__call__ of an instance": (SPECIAL, "special(x)", "special.__call__ = lambda k: k * 7"),
    "__iter__": (
        SPECIAL,
        "sum([x * k for k in special])",
        "Special.__iter__ = lambda s: iter([7])",
    ),
    "__contains__": (
        SPECIAL,
        "x + 1 if 1 in special else x - 1",
        "Special.__contains__ = lambda *a: False",
    ),
    "__getitem__": (SPECIAL, "x * special[1]", "Special.__getitem__ = lambda s, k: 7"),
    "what __getitem__ reads": (SPECIAL, "x * special[1]", "special.v[1] = 8"),
    "__add__": (SPECIAL, "special + x", "Special.__add__ = lambda s, k: k - 2"),
    "__lt__": (SPECIAL, "x + 1 if special < 3 else x - 1", "Special.__lt__ = lambda s, k: False"),
    "__neg__": (SPECIAL, "x * -special", "Special.__neg__ = lambda s: 7"),
    "__enter__": (SPECIAL, "x * use(special)", "Special.__enter__ = lambda s: 7"),
    "__getattr__": (SPECIAL, "x * special.ghost", "Special.__getattr__ = lambda s, n: 7"),
    "__getattr__ hidden": (SPECIAL, "x * special.ghost", "special.ghost = 7"),
    "__getattr__ hidden by the class": (SPECIAL, "x * special.ghost", "Special.ghost = 7"),
    # Containers.
    "dict item": (DATA, "x * d['k']", "d['k'] = 7"),
    "dict item to tensor": (DATA, "x * d['k']", "d['k'] = torch.ones(3) * 5"),
    "dict key deleted": (DATA, "x * d['k']", "del d['k']"),
    "dict length": (DATA, "x * len(d)", "d['new'] = 1"),
    "dict iterated": (DATA, "x * sum(len(k) for k in d)", "d['new'] = 1"),
    "dict order": (DATA, "[x * v for v in d.values()]", "d['k'] = d.pop('k')"),
    "dict order of keys": (DATA, "[k for k in d], x + 1", "d['k'] = d.pop('k')"),
    "dict membership": (DATA, "x + 1 if 'new' in d else x - 1", "d['new'] = 1"),
    "dict.get": (DATA, "x * d.get('new', 3)", "d['new'] = 1"),
    "dict's kind": (DATA, "x * len(str(type(d)))", "d = ordered"),
    "key's kind": (DATA, "[x * k for k in key_box], list(key_box)", "key_box = {True: 5}"),
    "key's kind to float": (DATA, "[x * k for k in key_box], list(key_box)", "key_box = {1.0: 5}"),
    "nested containers": (DATA, "x * nested['k'][0]['m']", "nested['k'][0]['m'] = 7"),
    "nested containers, middle": (DATA, "x * nested['k'][0]['m']", "nested['k'] = [{'m': 8}]"),
    "nested containers, kind": (DATA, "x * nested['o'][1][0]", "nested['o'] = [1, [7]]"),
    "ordered dict": (DATA, "[x * v for v in ordered.values()]", "ordered.move_to_end('a')"),
    "default dict": (
        DATA,
        "x * factory['new']",
        "factory.clear(); factory.default_factory = lambda: 7",
    ),
    "default dict without factory": (
        DATA,
        "x * factory['new']",
        "factory.clear(); factory.default_factory = None",
    ),
    "list item": (DATA, "x * l[1]", "l[1] = 7"),
    "list length": (DATA, "x * len(l)", "l.append(1)"),
    "list iterated": (DATA, "[x * k for k in l]", "l.append(1)"),
    "list order": (DATA, "[x * k for k in l]", "l.reverse()"),
    "list membership": (DATA, "x + 1 if 3 in l else x - 1", "l.remove(3)"),
    "list to tuple": (DATA, "(x + 1, type(l).__name__, l)", "l = (1, 2, 3)"),
    "list index out of range": (DATA, "x * l[2]", "l.pop()"),
    "last item": (DATA, "x * l[-1]", "l.append(8)"),
    "slice": (DATA, "x * sum(l[1:])", "l.append(8)"),
    "tuple item": (DATA, "x * t[0]", "t = (7, (2, 3))"),
    "tuple in a tuple": (DATA, "x * t[1][1]", "t = (1, (2, 7))"),
    "unpacking": (DATA, "(lambda a, b: x * a + b[0])(*t)", "t = (1, (5, 5))"),
    "set member": (DATA, "x + 1 if 5 in s else x - 1", "s.add(5)"),
    "set length": (DATA, "x * len(s)", "s.add(5)"),
    "set's kind": (DATA, "(x * len(fs), type(fs).__name__)", "fs = {1, 2}"),
    "deque": (DATA, "x * dq[0]", "dq.rotate(1)"),
    "named tuple": (DATA, "x * pair.q", "pair = Pair(1, 7)"),
    "named tuple's kind": (DATA, "(x * pair[1], type(pair).__name__)", "pair = (1, 2)"),
    "dataclass": (DATA, "x * point.u", "point.u = 7"),
    "dataclass default": (DATA, "x * Point().v", "Point.__init__.__defaults__ = (1, 7.5)"),
    "dataclass equality": (DATA, "x + 1 if point == Point() else x - 1", "point.v = 7.5"),
    "enum": (DATA, "x + 1 if color is Color.RED else x - 1", "color = Color.BLUE"),
    "enum's value": (DATA, "x * color.value", "color = Color.BLUE"),
    "container of functions": (
        DATA + "fns = {'f': helper}",
        "fns['f'](x)",
        "fns['f'] = lambda x: x - 9",
    ),
    # Modules.
    "training flag": (MODULE, "net(x)", "net.eval()"),
    "training flag of a dropout": (MODULE, "net.drop(x) * 2", "net.drop.p = 1.0"),
    "parameter replaced": (MODULE, "net(x)", "net.lin.weight = nn.Parameter(torch.ones(3, 3))"),
    "parameter written": (MODULE, "net(x)", "net.lin.weight.data.fill_(2.0)"),
    "parameter to None": (MODULE, "net(x)", "net.lin.bias = None"),
    "parameter's size": (
        MODULE,
        "net.lin(x)",
        "net.lin.weight = nn.Parameter(torch.ones(2, 3)); net.lin.bias = None",
    ),
    "parameter frozen": (MODULE, "(net(x), net(x).requires_grad)", "net.requires_grad_(False)"),
    "parameter's dtype": (MODULE, "net.lin(x.to(net.lin.weight.dtype))", "net.lin.double()"),
    "buffer replaced": (MODULE, "net(x)", "net.buf = torch.ones(3) * 4"),
    "buffer's size": (MODULE, "net(x)", "net.buf = torch.ones(1) * 4"),
    "module's number": (MODULE, "net(x)", "net.scale = 3.0"),
    "submodule replaced": (MODULE, "net(x)", "net.lin = nn.Identity()"),
    "submodule by None": (MODULE, "net.extra is None and x + 1", "net.extra = nn.Tanh()"),
    "sequence grown": (MODULE, "net.seq(x)", "net.seq.append(nn.Tanh())"),
    "sequence's member": (MODULE, "net.seq(x)", "net.seq[1] = nn.Tanh()"),
    "sequence cut": (MODULE, "net.seq(x)", "del net.seq[1]"),
    "module list": (MODULE, "net.over(x)", "net.several.append(nn.Tanh())"),
    "module list's member": (MODULE, "net.over(x)", "net.several[1] = nn.Sigmoid()"),
    "module list indexed": (MODULE, "net.several[1](x)", "net.several[1] = nn.Sigmoid()"),
    "module dict": (MODULE, "net.keyed(x)", "net.named['r'] = nn.ReLU()"),
    "module dict's member": (MODULE, "net.keyed(x)", "net.named['q'] = nn.ReLU()"),
    "parameter list": (
        MODULE,
        "x * net.table[1]",
        "net.table[1] = nn.Parameter(torch.ones(3) * 3)",
    ),
    "norm's eps": (MODULE, "net.norm(x)", "net.norm.eps = 1.0"),
    "norm's shape": (MODULE, "net.norm(x)", "net.norm = nn.LayerNorm(3, elementwise_affine=False)"),
    "forward of the class": (MODULE, "net(x)", "Net.forward = lambda self, x: x - 1"),
    "forward of an instance": (MODULE, "net(x)", "net.forward = lambda x: x - 2"),
    "forward of a submodule's class": (
        MODULE + "class Own(nn.Linear): pass\nnet.lin = Own(3, 3)",
        "net(x)",
        "Own.forward = lambda self, x: x - 3",
    ),
    "forward of a library class on an instance": (
        MODULE,
        "net(x)",
        "net.lin.forward = lambda x: x - 4",
    ),
    "hook added": (MODULE, "net(x)", "net.register_forward_hook(lambda m, a, r: r * 2)"),
    "hook added to a submodule": (
        MODULE,
        "net(x)",
        "net.lin.register_forward_hook(lambda m, a, r: r * 2)",
    ),
    "hook removed": (
        MODULE + "h = net.register_forward_hook(lambda m, a, r: r * 2)",
        "net(x)",
        "h.remove()",
    ),
    "hook replaced": (
        MODULE + "h = net.register_forward_hook(lambda m, a, r: r * 2)",
        "net(x)",
        "h.remove(); net.register_forward_hook(lambda m, a, r: r * 3)",
    ),
    "pre-hook added": (MODULE, "net(x)", "net.register_forward_pre_hook(lambda m, a: (a[0] * 2,))"),
    "pre-hook with keywords": (
        MODULE,
        "net(x)",
        "net.register_forward_pre_hook(lambda m, a, k: ((a[0] * 3,), k), with_kwargs=True)",
    ),
    "hook of all modules": (
        MODULE,
        "net(x)",
        "h = register_module_forward_hook(lambda m, a, r: r * 2)\nUNDO = h.remove",
    ),
    "pre-hook of all modules": (
        MODULE,
        "net(x)",
        "h = register_module_forward_pre_hook(lambda m, a: (a[0] * 2,))\nUNDO = h.remove",
    ),
    "backward hook": (
        MODULE,
        "(x + 1, grad_of(net, x))",
        "net.register_full_backward_hook(lambda m, a, r: (a[0] * 2,) if a[0] is not None else a)",
    ),
    "function that the library's own code calls": (
        MODULE,
        "net.norm(x) + net.lin(x)",
        "import rushlight.nn.linear as home\nbefore = home.functions\n"
        "class Other:\n    linear = staticmethod(lambda x, *rest: x * 9)\n"
        "home.functions = Other\ndef UNDO(f=before): home.functions = f",
    ),
    "forward of a library class": (
        MODULE,
        "net.lin(x)",
        "before = nn.Linear.forward\nnn.Linear.forward = lambda self, x: x * 9\n"
        "def UNDO(f=before): nn.Linear.forward = f",
    ),
    "module's class": (
        MODULE,
        "net(x)",
        "class Other(Net):\n    def forward(self, x): return x\nnet.__class__ = Other",
    ),
    "parametrisation": (
        MODULE,
        "net(x)",
        "class Twice(nn.Module):\n    def forward(self, w): return w * 2\n"
        "nn.utils.parametrize.register_parametrization(net.lin, 'weight', Twice())",
    ),
    "activation stored": (
        MODULE + "net.act = torch.sin",
        "net.act(x)",
        "net.act = torch.cos",
    ),
}

# Facts of the tensors given: (expression, first argument, second argument).
TENSORS: dict[str, tuple[str, str, str]] = {
    "dtype": ("x * 2.5", "torch.ones(3, 4)", "torch.ones(3, 4, dtype=torch.int64)"),
    "dtype asked": (
        "x + 1 if x.dtype == torch.float32 else x - 1",
        "torch.ones(2)",
        "torch.ones(2).double()",
    ),
    "size": ("x / x.shape[0]", "torch.ones(3, 4)", "torch.ones(5, 4)"),
    "size asked": ("x + 1 if x.shape[0] > 3 else x - 1", "torch.ones(3, 4)", "torch.ones(5, 4)"),
    "size of one": ("x + torch.ones(3)", "torch.ones(3)", "torch.ones(1)"),
    "no elements": ("x.sum() + x.shape[0]", "torch.ones(3)", "torch.ones(0)"),
    "rank": ("x.sum(-1)", "torch.ones(3, 4)", "torch.ones(2, 3, 4)"),
    "strides": ("(x * 2, x.stride())", "torch.ones(3, 4)", "torch.ones(4, 3).t()"),
    "contiguous": ("x + x.is_contiguous()", "torch.ones(3, 4)", "torch.ones(4, 3).t()"),
    "offset": ("(x * 2, x.storage_offset())", "torch.ones(3)", "torch.ones(5)[2:]"),
    "requires grad": (
        "(x * 2, (x * 2).requires_grad)",
        "torch.ones(3)",
        "torch.ones(3, requires_grad=True)",
    ),
    "requires grad asked": (
        "x + 1 if x.requires_grad else x - 1",
        "torch.ones(3)",
        "torch.ones(3, requires_grad=True)",
    ),
    "parameter": (
        "(x * 2, isinstance(x, nn.Parameter))",
        "torch.ones(3, requires_grad=True)",
        "nn.Parameter(torch.ones(3))",
    ),
    "leaf": (
        "x * 2 if x.is_leaf else x * 3",
        "torch.ones(3, requires_grad=True)",
        "torch.ones(3, requires_grad=True) * 1",
    ),
    "conjugate": ("x * 2", "torch.ones(3) * (1 + 2j)", "(torch.ones(3) * (1 + 2j)).conj()"),
    "negative": (
        "x * 2",
        "(torch.ones(3) * (1 + 2j)).imag",
        "(torch.ones(3) * (1 + 2j)).conj().imag",
    ),
    "meta": ("(x * 2).shape, x.device", "torch.ones(3)", "torch.ones(3, device='meta')"),
    "sparse": ("x * 2", "torch.ones(3, 3)", "torch.ones(3, 3).to_sparse()"),
    "complex": ("x.abs()", "torch.ones(3)", "torch.ones(3) * 1j"),
    "number": ("x * 2", "torch.ones(3)", "3"),
    "number to float": ("torch.ones(2) * x", "3", "3.5"),
    "none": ("torch.ones(2) if x is None else x + 1", "None", "torch.ones(3)"),
    "list": ("x[0] + x[1]", "[torch.ones(2), torch.ones(2)]", "[torch.ones(2), 3]"),
    "list's length": ("sum(x)", "[torch.ones(2), torch.ones(2)]", "[torch.ones(2)] * 3"),
    "same tensor twice": (
        "x[0].add_(x[1])",
        "[torch.ones(2), torch.ones(2)]",
        "[torch.ones(2)] * 2",
    ),
    "same tensor no more": (
        "x[0].add_(x[1]) + x[1]",
        "[torch.ones(2)] * 2",
        "[torch.ones(2), torch.ones(2)]",
    ),
    "view of the other": (
        "x[0].mul_(2) + x[1]",
        "[torch.ones(2), torch.ones(2)]",
        "(lambda b: [b, b[:]])(torch.ones(2))",
    ),
    "overlap": (
        "x[0].mul_(2) + x[1]",
        "[torch.ones(2), torch.ones(2)]",
        "(lambda b: [b[:2], b[1:]])(torch.ones(3))",
    ),
    "overlap no more": (
        "x[0].mul_(2) + x[1]",
        "(lambda b: [b[:2], b[1:]])(torch.ones(3))",
        "[torch.ones(2), torch.ones(2)]",
    ),
    "expanded": ("x * 2", "torch.ones(3, 3)", "torch.ones(3, 1).expand(3, 3)"),
    "attribute": ("x + getattr(x, 'mark', 0)", "torch.ones(3)", "marked(torch.ones(3))"),
    "gradient": (
        "x if x.grad is None else x + x.grad",
        "torch.ones(3, requires_grad=True)",
        "with_grad(torch.ones(3, requires_grad=True))",
    ),
    "subclass": ("x * 2", "torch.ones(3)", "torch.ones(3).as_subclass(Sub)"),
    "overriding subclass": ("x * 2", "torch.ones(3)", "torch.ones(3).as_subclass(Loud)"),
    "bool": ("torch.ones(2) + 1 if x else torch.ones(2)", "True", "1"),
    "text": ("torch.ones(2) * len(x)", "'ab'", "'abc'"),
    "device given": ("torch.ones(2, device=x).device.type", "'cpu'", "'meta'"),
    "dtype given": ("torch.ones(2, dtype=x) * 2", "torch.float32", "torch.float64"),
    "slice given": ("torch.arange(5)[x] * 2", "slice(1, 3)", "slice(2, None)"),
    "function given": ("x(torch.ones(2))", "torch.sin", "torch.cos"),
    "lambda given": ("x(torch.ones(2))", "lambda v: v * 2", "lambda v: v * 3"),
    "class given": ("x(4).v + torch.ones(2)", "Num", "Num2"),
    "range given": ("sum(torch.ones(2) * i for i in x)", "range(3)", "range(1, 3)"),
    "size given": ("torch.ones(x) * 2", "torch.Size([2, 3])", "torch.Size([3, 2])"),
    "generator given": ("sum(x) + torch.ones(2)", "iter([1, 2])", "iter([1, 2, 3])"),
    "large int": ("torch.ones(2) * x", "3", "2 ** 40"),
    "unread argument": ("torch.ones(2) * 2", "3", "'a'"),
}
PREPARED = """
class Sub(torch.Tensor): pass
class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        result = super().__torch_function__(f, types, args, kwargs or {})
        return result.as_subclass(torch.Tensor) + 100
class Num:
    def __init__(self, v): self.v = v
class Num2(Num):
    def __init__(self, v): self.v = v * 2
def marked(t):
    t.mark = 3
    return t
def with_grad(t):
    t.grad = t.detach() * 5
    return t
"""

# States of the library: a context entered for the second call, and an expression that feels it.
STATES: dict[str, tuple[str, str]] = {
    "no_grad": ("torch.no_grad()", "((x * w).requires_grad, x * w)"),
    "enable_grad asked": ("torch.no_grad()", "x + 1 if torch.is_grad_enabled() else x - 1"),
    "inference mode": ("torch.inference_mode()", "((x * 2).is_inference(), x * w)"),
    "autocast": ("torch.autocast('cpu', torch.bfloat16)", "torch.mm(x, x)"),
    "autocast asked": (
        "torch.autocast('cpu')",
        "x + 1 if torch.is_autocast_enabled('cpu') else x - 1",
    ),
    "default dtype": ("default_dtype(torch.float64)", "x.sum().double() + torch.ones(2)"),
    "default device": ("torch.device('meta')", "torch.ones(2).device.type, x + 1"),
    "deterministic": (
        "deterministic()",
        "x + 1 if torch.are_deterministic_algorithms_enabled() else x - 1",
    ),
    "deterministic filling": ("deterministic()", "torch.empty(3), x + 1"),
    "function mode": ("Louder()", "torch.sin(x)"),
    "dispatch mode": ("Dispatch()", "torch.sin(x)"),
    "saved-tensor hooks": (
        "torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)",
        "grad_of_square(w)",
    ),
    "anomaly mode": (
        "torch.autograd.detect_anomaly(check_nan=False)",
        "x * 2, torch.is_anomaly_enabled()",
    ),
    "multithreading": ("torch.autograd.set_multithreading_enabled(False)", "x * 2"),
    "tf32": (
        "precision('medium')",
        "x + 1 if torch.get_float32_matmul_precision() == 'medium' else x - 1",
    ),
    "num threads": ("threads()", "x + 1 if torch.get_num_threads() == 1 else x - 1"),
}
STATE_SETUP = """
import contextlib
@contextlib.contextmanager
def default_dtype(d):
    before = torch.get_default_dtype()
    torch.set_default_dtype(d)
    try: yield
    finally: torch.set_default_dtype(before)
@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try: yield
    finally: torch.use_deterministic_algorithms(False)
@contextlib.contextmanager
def precision(name):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try: yield
    finally: torch.set_float32_matmul_precision(before)
@contextlib.contextmanager
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try: yield
    finally: torch.set_num_threads(before)
class Louder(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        r = f(*args, **(kwargs or {}))
        return r + 100 if f is torch.sin else r
from rushlight.core.modes import TorchDispatchMode
class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        r = f(*args, **(kwargs or {}))
        return r + 100 if 'sin' in str(f) else r
w = torch.ones(3, 3, requires_grad=True)
def grad_of_square(w):
    return (w * w).sum()
"""

# Where the expression stands. `{e}` is the expression.
CONTEXTS: dict[str, str] = {
    "in the frame": "def f(x):\n    y = x\n    return ({e})",
    "in a callee": ("def callee(x):\n    return ({e})\ndef f(x):\n    return callee(x)"),
    "behind a break": ("def f(x):\n    graph_break()\n    return ({e})"),
    "in a comprehension": "def f(x):\n    return [({e}) for _ in range(1)]",
    "in a handler's range": (
        "def f(x):\n    try:\n        return ({e})\n"
        "    except (AttributeError, KeyError, IndexError, NameError) as error:\n"
        "        return str(type(error))"
    ),
    "in a closure": ("def f(x):\n    def own():\n        return ({e})\n    return own()"),
}
