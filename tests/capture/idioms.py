# fmt: off
"""More programs of one feature each: what users of compiled code write. As in `features.py`: names
`torch`, `nn`, `F`, `np` and `graph_break` are given, a program is a function whose name begins with
`p_`, its arguments are x and y of size 2 by 3. W requires gradients."""

from __future__ import annotations

import abc
import bisect
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import itertools
import operator
import random
import re
import string
import types
import typing
import warnings
import weakref

W = torch.arange(6.0).reshape(2, 3) / 3 + 0.2
W.requires_grad_(True)
V = torch.ones(3, requires_grad=True)
LOG = []
STATE = {"n": 0}


# -- hooks of tensors and gradients ----------------------------------------------------------------
def p_hook_intermediate(x, y):
    z = W * 2; z.register_hook(lambda g: g * 3); return (z * x).sum()
def p_hook_closure(x, y):
    k = 4
    def hook(g): return g * k
    z = W * 2; z.register_hook(hook); return (z * x).sum()
def p_hook_partial(x, y):
    z = W + 1; z.register_hook(functools.partial(lambda k, g: g * k, 5)); return (z * x).sum()
def p_hook_none(x, y):
    z = W + 1; z.register_hook(lambda g: None); return (z * x).sum()
def p_hook_removed(x, y):
    z = W * 2; h = z.register_hook(lambda g: g * 3); h.remove(); return (z * x).sum()
def p_hook_two(x, y):
    z = W * 2; z.register_hook(lambda g: g + 1); z.register_hook(lambda g: g * 2); return (z * x).sum()
def global_hook(g): return g * 0.5
def p_hook_global(x, y):
    z = W.sin(); z.register_hook(global_hook); return (z * x).sum()
def p_hook_tensor_closure(x, y):
    z = W * 2; s = x.cos(); z.register_hook(lambda g: g * s); return (z * x).sum()
def p_hook_log(x, y):
    z = W * 2; z.register_hook(lambda g: LOG.append(tuple(g.shape))); return (z * x).sum()
def p_hook_on_view(x, y):
    z = (W * 2).view(-1); z.register_hook(lambda g: g * 3); return (z * x.view(-1)).sum()
def p_retain_grad(x, y):
    z = W * 2; z.retain_grad(); return (z * x).sum()
def p_grad_of_leaf(x, y): return x if W.grad is None else x + W.grad
def p_requires_grad_method(x, y): z = x.clone().requires_grad_(); return (z * z).sum()
def p_detach_requires(x, y): z = x.detach().requires_grad_(True); return (z * z).sum() + 1
def p_is_leaf(x, y): return x + 1 if W.is_leaf else x
def p_is_leaf_made(x, y): z = W * 2; return z + 1 if z.is_leaf else z + 2
def p_grad_fn(x, y): z = W * 2; return z + 1 if z.grad_fn is not None else z
def p_grad_in_graph(x, y):
    z = (W.sin() * x).sum(); g, = torch.autograd.grad(z, [W], create_graph=False); return g + x
def p_backward_detached(x, y):
    w = x.detach().requires_grad_(True); (w * w).sum().backward(); return w.grad + 1
def p_saved_hooks(x, y):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t): z = W.sin()
    return (z * x).sum()
def p_no_grad_inner(x, y):
    with torch.no_grad(): s = (W * 2).sum()
    return (W * x).sum() * s
def p_enable_in_no_grad(x, y):
    with torch.no_grad():
        with torch.enable_grad(): z = W * 2
        u = z * 2
    return (z * x).sum() + u.sum()
def p_grad_mode_switch(x, y):
    before = torch.is_grad_enabled(); torch.set_grad_enabled(False); z = W * 2; torch.set_grad_enabled(before); return (z + W).sum()
def p_set_grad_context(x, y):
    with torch.set_grad_enabled(x.shape[0] > 5): z = W * 2
    return z + 1


# -- autograd.Function -----------------------------------------------------------------------------
class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2); ctx.mark_dirty(x); return x
    @staticmethod
    def backward(ctx, g): return g * 2


class Several(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k, flag=True):
        ctx.k = k; ctx.save_for_backward(x); return x * k, x + k
    @staticmethod
    def backward(ctx, g, h):
        x, = ctx.saved_tensors; return g * ctx.k + h + x, None, None


class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False); return x * 2, x * 3
    @staticmethod
    def backward(ctx, g, h):
        return (g * 2 if g is not None else 0) + (h * 3 if h is not None else 0)


class Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2, 7
    @staticmethod
    def backward(ctx, g, _): return g * 2


class Setup(torch.autograd.Function):
    @staticmethod
    def forward(x, k): return x * k
    @staticmethod
    def setup_context(ctx, inputs, output): ctx.k = inputs[1]
    @staticmethod
    def backward(ctx, g): return g * ctx.k, None


class Needs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w); return x * w
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (g * w if ctx.needs_input_grad[0] else None), (g * x if ctx.needs_input_grad[1] else None)


def p_function_dirty(x, y): z = W * 1; return (Dirty.apply(z) * x).sum()
def p_function_dirty_plain(x, y): z = x * 1; r = Dirty.apply(z); return r + z
def p_function_several(x, y): a, b = Several.apply(W, 3); return (a * x + b).sum()
def p_function_materialize(x, y): return Plain.apply(W)[0].sum()
def p_function_mixed(x, y): a, b = Mixed.apply(W); return (a * x).sum() * b
def p_function_setup(x, y): return (Setup.apply(W, 2.5) * x).sum()
def p_function_needs(x, y): return Needs.apply(x, W).sum()
def p_function_twice(x, y): return (Setup.apply(Setup.apply(W, 2), 3) * x).sum()
def p_function_no_grad(x, y):
    with torch.no_grad(): return Needs.apply(W, x) + 1


# -- __torch_function__ ----------------------------------------------------------------------------
class Doubling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        r = super().__torch_function__(f, types, args, kwargs or {})
        return r * 2 if f is torch.add else r


class Disabled(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Wrapped:
    def __init__(self, t): self.t = t
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        args = [a.t if isinstance(a, cls) else a for a in args]
        return cls(f(*args, **(kwargs or {})))


class Adding(torch.overrides.TorchFunctionMode):
    def __init__(self, k=1): super().__init__(); self.k = k
    def __torch_function__(self, f, types, args=(), kwargs=None):
        r = f(*args, **(kwargs or {}))
        return r + self.k if f is torch.sin else r


class Counting(torch.overrides.TorchFunctionMode):
    def __init__(self): super().__init__(); self.seen = []
    def __torch_function__(self, f, types, args=(), kwargs=None):
        self.seen.append(f.__name__); return f(*args, **(kwargs or {}))


DOUBLED = torch.ones(2, 3).as_subclass(Doubling)
DISABLED = torch.ones(2, 3).as_subclass(Disabled)
WRAPPED = Wrapped(torch.ones(2, 3))


def p_subclass_global(x, y): return torch.add(DOUBLED, x)
def p_subclass_method(x, y): return DOUBLED.sin() + 1
def p_subclass_two(x, y): return torch.add(DOUBLED, DOUBLED) * x
def p_subclass_disabled(x, y): return DISABLED * 2 + x
def p_subclass_type(x, y): return x + 1 if isinstance(DOUBLED, Doubling) and type(DOUBLED * 1) is Doubling else x
def p_subclass_as(x, y): return torch.add(x.as_subclass(Doubling), y)
def p_subclass_back(x, y): return x.as_subclass(Doubling).as_subclass(torch.Tensor) + 1
def p_wrapped(x, y): return torch.add(WRAPPED, x).t
def p_wrapped_made(x, y): return torch.mul(Wrapped(x), 3).t + 1
def p_mode(x, y):
    with Adding(): z = torch.sin(x)
    return z * 2
def p_mode_argument(x, y):
    with Adding(k=5): z = torch.sin(x) + torch.cos(y)
    return z * 2
def p_mode_nested(x, y):
    with Adding(1), Adding(10): z = torch.sin(x)
    return z
def p_mode_counting(x, y):
    with Counting() as m: z = torch.sin(x) + 1
    return z, m.seen
def p_mode_disabled(x, y):
    with Adding():
        with torch._C.DisableTorchFunction(): z = torch.sin(x)
    return z
def p_mode_disabled_subclass(x, y):
    with torch._C.DisableTorchFunctionSubclass(): z = torch.add(DOUBLED, x)
    return z
def p_has_torch_function(x, y): return x + 1 if torch.overrides.has_torch_function((DOUBLED,)) else x
def p_default_device(x, y):
    with torch.device("cpu"): z = torch.ones(2, 3)
    return z + x


# -- NumPy -----------------------------------------------------------------------------------------
def p_np_sin(x, y): return torch.from_numpy(np.sin(x.numpy())) + 1
def p_np_operator(x, y): a = x.numpy(); return torch.from_numpy(a * 2 + a[::-1]) + y
def p_np_return(x, y): return np.add(x.numpy(), 1)
def p_np_sum(x, y): return x + torch.as_tensor(np.sum(x.numpy(), axis=0))
def p_np_where(x, y): a = x.numpy(); return torch.from_numpy(np.where(a > 0.5, a, 0))
def p_np_method(x, y): return torch.from_numpy(x.numpy().reshape(3, 2).T.copy()) * 2
def p_np_dot(x, y): return torch.from_numpy(np.dot(x.numpy(), y.numpy().T))
def p_np_shape(x, y): a = x.numpy(); return y * a.shape[0] + a.ndim
def p_np_dtype(x, y): return torch.from_numpy(x.numpy().astype(np.float64)) + 1
def p_np_arange(x, y): return torch.from_numpy(np.arange(3, dtype=np.float32)) + x
def p_np_linspace(x, y): return x + torch.from_numpy(np.linspace(0, 1, 3).astype("float32"))
def p_np_array_list(x, y): return x + torch.from_numpy(np.array([1.0, 2.0, 3.0], dtype=np.float32))
def p_np_stack(x, y): return torch.from_numpy(np.stack([x.numpy(), y.numpy()])) + 1
def p_np_concatenate(x, y): return torch.from_numpy(np.concatenate([x.numpy(), y.numpy()], axis=1))
def p_np_constant(x, y): return x * np.pi
def p_np_prod_shape(x, y): return x * int(np.prod(x.shape))
def p_np_float32(x, y): return x * np.float32(2.5)
def p_np_mean(x, y): return x - float(x.numpy().mean())
def p_np_int64(x, y): return x[np.int64(1)] + 1
def p_np_detach(x, y): return torch.from_numpy(np.exp(W.detach().numpy())) + x
def p_np_asarray(x, y): return torch.from_numpy(np.asarray(x) * 2)
def p_np_max(x, y): return torch.from_numpy(np.maximum(x.numpy(), y.numpy()))
def p_np_setitem(x, y): a = x.numpy().copy(); a[0] = 5; return torch.from_numpy(a)
def p_np_matmul(x, y): return torch.from_numpy(x.numpy() @ y.numpy().T)
ARRAY = np.full((2, 3), 2.0, dtype=np.float32)
def p_np_global(x, y): return x + torch.from_numpy(ARRAY)
def p_np_global_times(x, y): return torch.from_numpy(ARRAY * 2) + x
def p_np_argmax(x, y): return torch.from_numpy(np.argmax(x.numpy(), axis=1))
def p_np_unpack(x, y): a, b = x.numpy(); return torch.from_numpy(a + b)
def p_np_linalg(x, y): return torch.from_numpy(np.linalg.norm(x.numpy(), axis=1))


# -- generators ------------------------------------------------------------------------------------
def numbers(n):
    for i in range(n): yield i
def p_gen_list(x, y): return [x * i for i in list(numbers(3))]
def p_gen_next(x, y): g = numbers(3); return x * next(g) + next(g)
def p_gen_default(x, y): g = numbers(0); return x + next(g, 5)
def p_gen_return(x, y):
    def g():
        yield x
        return 7
    def h():
        r = yield from g()
        yield y * r
    return list(h())
def p_gen_send(x, y):
    def g():
        k = yield x
        yield x * k
    it = g(); next(it); return it.send(3)
def p_gen_close(x, y):
    log = []
    def g():
        try:
            yield x
        finally:
            log.append(1)
    it = g(); z = next(it); it.close(); return z, log
def p_gen_throw(x, y):
    def g():
        try: yield x
        except ValueError: yield x * 2
    it = g(); next(it); return it.throw(ValueError("q"))
def p_gen_try(x, y):
    def g():
        try:
            yield x
            yield y
        finally: LOG.append("end")
    return sum(g(), x)
def p_gen_infinite(x, y):
    def g():
        i = 0
        while True: yield i; i += 1
    return x * sum(itertools.islice(g(), 4))
def p_gen_zip(x, y): return [a * b for a, b in zip(numbers(2), (x, y))]
def p_gen_dict(x, y): return dict((i, x * i) for i in range(3))
def p_gen_star(x, y): return torch.stack([*(v * 2 for v in (x, y))])
def p_gen_unpack(x, y): a, b = (v + 1 for v in (x, y)); return a * b
def p_gen_returned(x, y): return list(itertools.chain(numbers(2), numbers(2))), x + 1
def p_gen_nested(x, y):
    def g(n):
        if n: yield n; yield from g(n - 1)
    return x * sum(g(4))
def p_gen_any(x, y): return x + any(v.shape[0] == 2 for v in (x, y))
def p_gen_tensor(x, y): return sum(row * i for i, row in enumerate(r for r in x))
def p_gen_context(x, y):
    @contextlib.contextmanager
    def c(k):
        LOG.append("in")
        try: yield k * 2
        finally: LOG.append("out")
    with c(3) as k: return x * k


# -- itertools, functools, collections, others -----------------------------------------------------
def p_groupby_list(x, y): return [(k, len(list(g)), x * k) for k, g in itertools.groupby([1, 1, 2])]
def p_tee(x, y): a, b = itertools.tee([1, 2]); return x * sum(a) + sum(b)
def p_compress(x, y): return list(itertools.compress([x, y, x], [1, 0, 1]))
def p_product_repeat(x, y): return [x * (a + b) for a, b in itertools.product([1, 2], repeat=2)]
def p_accumulate_op(x, y): return list(itertools.accumulate([x, y, x], operator.mul))
def p_accumulate_initial(x, y): return list(itertools.accumulate([1, 2], initial=x))
def p_islice_step(x, y): return [x * i for i in itertools.islice(range(10), 1, 8, 3)]
def p_count_step(x, y): return [v * i for v, i in zip((x, y), itertools.count(3, 2))]
def p_filterfalse(x, y): return [x * i for i in itertools.filterfalse(lambda i: i % 2, range(4))]
def p_zip_longest_tensors(x, y): return [(a is None, b + 1) for a, b in itertools.zip_longest([x], [x, y])]
def p_cached(x, y):
    @functools.cache
    def g(n): return n * 2
    return x * g(3) + g(3)
class WithCached:
    @functools.cached_property
    def k(self): return 5
def p_cached_property(x, y): c = WithCached(); return x * c.k + c.k
def p_partial_kwargs(x, y): return functools.partial(torch.add, alpha=3)(x, y)
def p_partial_nested(x, y): f = functools.partial(functools.partial(lambda a, b, c: a * b + c, x), y); return f(2)
def p_partial_attributes(x, y): f = functools.partial(torch.add, x, alpha=2); return f.func(f.args[0], y, **f.keywords)
class Methods:
    def go(self, x, k): return x * k
    twice = functools.partialmethod(go, k=2)
    @functools.singledispatchmethod
    def kind(self, v): return 0
    @kind.register
    def _(self, v: int): return 1
def p_partialmethod(x, y): return Methods().twice(x)
@functools.singledispatch
def dispatched(v, x): return x
@dispatched.register
def _(v: int, x): return x * v
def p_singledispatch(x, y): return dispatched(3, x) + dispatched("q", y)
def p_wraps(x, y):
    def deco(f):
        @functools.wraps(f)
        def g(*a): return f(*a) * 2
        return g
    @deco
    def h(v):
        """doc"""
        return v + 1
    return h(x), h.__name__
@functools.total_ordering
class Order:
    def __init__(self, k): self.k = k
    def __eq__(self, o): return self.k == o.k
    def __lt__(self, o): return self.k < o.k
def p_total_ordering(x, y): return x + 1 if Order(1) <= Order(2) and Order(3) > Order(2) else y
def p_cmp_to_key(x, y): return [x * i for i in sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))]
def p_reduce_initial(x, y): return functools.reduce(lambda a, b: a + b, [y, y], x)
def p_user_dict(x, y): d = collections.UserDict(); d["a"] = x; return d["a"] + 1
class OwnDict(dict):
    def twice(self, k): return self[k] * 2
def p_dict_subclass(x, y): d = OwnDict(a=x); d["b"] = y; return d.twice("a"), len(d)
OWN = OwnDict(a=2)
def p_dict_subclass_global(x, y): return x * OWN["a"] + OWN.twice("a")
class OwnList(list):
    def total(self): return sum(self)
def p_list_subclass(x, y): l = OwnList([x, y]); l.append(x); return l.total() + len(l)
OWNLIST = OwnList([1, 2])
def p_list_subclass_global(x, y): return x * OWNLIST[1] + OWNLIST.total()
class OwnTuple(tuple):
    def first(self): return self[0]
def p_tuple_subclass(x, y): return OwnTuple((x, y)).first() * 2
class OwnInt(int): pass
def p_int_subclass(x, y): return x * OwnInt(3)
def p_ordered_move(x, y): d = collections.OrderedDict(a=x, b=y); d.move_to_end("a"); return list(d), d["a"] + 1
def p_counter_most(x, y): return x * collections.Counter("aab").most_common(1)[0][1]
def p_counter_update(x, y): c = collections.Counter(); c["a"] += 2; c.update("ab"); return x * c["a"]
def p_deque_rotate(x, y): d = collections.deque([x, y]); d.rotate(1); return d[0] - d[1]
def p_deque_limit(x, y): d = collections.deque(maxlen=2); d.append(x); d.append(y); d.append(x); return len(d), d[0] + 1
def p_default_nested(x, y): d = collections.defaultdict(lambda: collections.defaultdict(int)); d["a"]["b"] += 2; return x * d["a"]["b"]
def p_default_list(x, y): d = collections.defaultdict(list); d[1].append(x); d[1].append(y); return sum(d[1])
def p_named_default(x, y):
    P = collections.namedtuple("P", "a b", defaults=[2]); return P(x).a * P(x).b
def p_heap(x, y): h = [3, 1, 2]; heapq.heapify(h); heapq.heappush(h, 0); return x * heapq.heappop(h) + heapq.heappop(h)
def p_bisect(x, y): return x * bisect.bisect([1, 3, 5], 4)
def p_re(x, y): return x * len(re.findall(r"\d", "a1b2"))
def p_string_module(x, y): return x * len(string.ascii_lowercase)
def p_random_module(x, y): random.seed(0); return x * random.random()
def p_random_int(x, y): random.seed(0); return x * random.randint(1, 5)
def p_random_instance(x, y): r = random.Random(1); return x * r.random()
def p_warn(x, y):
    with warnings.catch_warnings(): warnings.simplefilter("ignore"); warnings.warn("q")
    return x + 1
def p_inspect_signature(x, y): return x * len(inspect.signature(numbers).parameters)
def p_weakref(x, y): o = Methods(); r = weakref.ref(o); return r().go(x, 2)
METHODS = Methods()
WEAK = weakref.ref(METHODS)
def p_weakref_global(x, y): return WEAK().go(x, 2)
def p_typing_cast(x, y): return typing.cast(int, 3) * x
def p_copy_object(x, y): o = Order(2); p = copy.copy(o); p.k = 3; return x * o.k + p.k
def p_deepcopy_object(x, y): o = Order([1]); p = copy.deepcopy(o); p.k.append(2); return x * len(o.k) + len(p.k)
def p_deepcopy_result(x, y): d = {"a": [x * 2]}; e = copy.deepcopy(d); e["a"][0].add_(1); return d, e
def p_deepcopy_module(x, y): m = copy.deepcopy(LINEAR); return m(x)
def p_setattr_loop(x, y):
    o = types.SimpleNamespace()
    for i, v in enumerate((x, y)): setattr(o, f"v{i}", v)
    return o.v0 + o.v1
def p_vars(x, y): return x * len(vars(Order(3)))
def p_dir(x, y): return x + 1 if "k" in dir(Order(3)) else y
def p_dict_method(x, y): o = Order(3); return x * o.__dict__["k"]
def p_getattribute(x, y):
    class G:
        def __getattribute__(self, n): return 3 if n == "q" else object.__getattribute__(self, n)
    return x * G().q
class Guarded:
    def __getattribute__(self, n): return 3 if n == "q" else object.__getattribute__(self, n)
def p_getattribute_made(x, y): return x * Guarded().q
class Meta(type):
    def __call__(cls, *a): o = super().__call__(*a); o.extra = 4; return o
class WithMeta(metaclass=Meta):
    def __init__(self, k): self.k = k
def p_metaclass(x, y): o = WithMeta(2); return x * o.k + o.extra
class WithNew:
    def __new__(cls, k): o = super().__new__(cls); o.j = k; return o
    def __init__(self, k): self.k = k + 1
def p_new(x, y): o = WithNew(2); return x * o.j + o.k
class Slots:
    __slots__ = ("a", "b")
    def __init__(self, a): self.a = a
def p_slots_missing(x, y):
    s = Slots(x)
    try: return s.b
    except AttributeError: s.b = y
    return s.a + s.b
class Setter:
    def __setattr__(self, n, v): object.__setattr__(self, n, v * 2)
def p_setattr_method(x, y): s = Setter(); s.k = 3; return x * s.k
class Desc:
    def __set_name__(self, o, n): self.n = "_" + n
    def __get__(self, o, t=None): return getattr(o, self.n)
    def __set__(self, o, v): setattr(o, self.n, v * 2)
class WithDesc:
    d = Desc()
    def __init__(self, v): self.d = v
def p_descriptor_written(x, y): o = WithDesc(x); o.d = y; return o.d + 1
class Lazy:
    @property
    def p(self):
        if not hasattr(self, "_p"): self._p = 3
        return self._p
def p_property_lazy(x, y): o = Lazy(); return x * o.p + o.p
class WithIadd:
    def __init__(self, k): self.k = k
    def __iadd__(self, o): self.k = self.k + o; return self
    def __imul__(self, o): return WithIadd(self.k * o)
    def __neg__(self): return WithIadd(-self.k)
    def __radd__(self, o): return o + self.k
    def __lt__(self, o): return self.k < o.k
    def __bool__(self): return self.k > 0
    def __setitem__(self, i, v): self.k = self.k + i * v
    def __delitem__(self, i): self.k = i
    def __format__(self, s): return f"<{self.k}{s}>"
    def __hash__(self): return 7
    def __eq__(self, o): return self.k == o.k
    def __index__(self): return 1
    def __reversed__(self): return [3, 2]
    def __enter__(self): return self
    def __exit__(self, *a): return a[0] is ValueError
def p_iadd_object(x, y): o = p = WithIadd(1); o += 2; return x * o.k, o is p
def p_imul_object(x, y): o = p = WithIadd(1); o *= 2; return x * o.k, o is p
def p_neg_object(x, y): return x * (-WithIadd(2)).k
def p_radd_object(x, y): return x + WithIadd(2)
def p_radd_int(x, y): return x * (1 + WithIadd(2))
def p_sort_objects(x, y): return [x * o.k for o in sorted([WithIadd(2), WithIadd(1)])]
def p_bool_object(x, y): return x + 1 if WithIadd(1) and not WithIadd(-1) else y
def p_setitem_object(x, y): o = WithIadd(1); o[2] = 3; del o[5]; return x * o.k
def p_format_object(x, y): return f"{WithIadd(2):q}", x + 1
def p_object_key(x, y): d = {WithIadd(1): x}; return d[WithIadd(1)] + 1
def p_object_set(x, y): return x * len({WithIadd(1), WithIadd(1)})
def p_reversed_object(x, y): return [x * i for i in reversed(WithIadd(1))]
def p_with_swallow(x, y):
    with WithIadd(1): raise ValueError("q")
    return x + 1
def p_with_two(x, y):
    with WithIadd(1) as a, WithIadd(2) as b: return x * a.k + b.k
class Proto(typing.Protocol):
    def go(self): ...
@typing.runtime_checkable
class Checkable(typing.Protocol):
    def go(self): ...
def p_protocol(x, y): return x + 1 if isinstance(METHODS, Checkable) else y
class Abstract(abc.ABC):
    @abc.abstractmethod
    def go(self, x): ...
    @property
    @abc.abstractmethod
    def k(self): ...
class Concrete(Abstract):
    k = 3
    def go(self, x): return x * self.k
def p_abstract_made(x, y): return Concrete().go(x)
class Flag(enum.Flag):
    A = 1
    B = 2
def p_flag(x, y): return x * (Flag.A | Flag.B).value, bool(Flag.A & Flag.B)
def p_enum_call(x, y): return x * Flag(2).value + len(Flag)
@dataclasses.dataclass(order=True)
class Ordered:
    a: int
    b: typing.Any = dataclasses.field(default=None, compare=False)
@dataclasses.dataclass
class Child(Ordered):
    c: int = 5
    def __post_init__(self): self.c += self.a
@dataclasses.dataclass(slots=True)
class Slotted:
    a: int = 2
    def go(self, x): return x * self.a
@dataclasses.dataclass(kw_only=True)
class Keyword:
    a: int
    b: int = dataclasses.field(default_factory=lambda: 4)
@dataclasses.dataclass
class Holder:
    inner: Ordered
    items: list = dataclasses.field(default_factory=list)
def p_dataclass_order(x, y): return x + 1 if Ordered(1) < Ordered(2, y) else y
def p_dataclass_child(x, y): return x * Child(1).c
def p_dataclass_slots(x, y): return Slotted(3).go(x)
def p_dataclass_keyword(x, y): k = Keyword(a=2); return x * k.a + k.b
def p_dataclass_nested(x, y): h = Holder(Ordered(2)); h.items.append(x); return h.items[0] * h.inner.a
def p_dataclass_return(x, y): return dataclasses.asdict(Ordered(1, 2)), x + 1
def p_dataclass_repr(x, y): return repr(Ordered(1, 2)), x + 1
def p_dataclass_is(x, y): return x + 1 if dataclasses.is_dataclass(Holder) else y
HOLDER = Holder(Ordered(2))
def p_dataclass_write(x, y): HOLDER.inner.a += 1; HOLDER.items.append(1); return x * HOLDER.inner.a, len(HOLDER.items)


# -- modules ---------------------------------------------------------------------------------------
torch.manual_seed(0)
LINEAR = nn.Linear(3, 3)
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3); self.n = 0; self.register_buffer("steps", torch.zeros(())); self.cache = None; self.items = []
    def forward(self, x):
        self.n += 1; self.steps += 1; self.items.append(self.n); self.cache = x.shape
        return self.lin(x) * self.n
COUNTER = Counter()
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3); self.b = nn.Linear(3, 3); self.b.weight = self.a.weight
    def forward(self, x): return self.b(self.a(x))
TIED = Tied()
class Overriding(nn.Linear):
    def forward(self, x): return super().forward(x) * 2
OVERRIDING = Overriding(3, 3)
class Getter(nn.Module):
    def __init__(self): super().__init__(); self.inner = nn.Linear(3, 3)
    def __getattr__(self, n):
        try: return super().__getattr__(n)
        except AttributeError: return getattr(super().__getattr__("inner"), n)
    def forward(self, x): return self.inner(x) * self.in_features
GETTER = Getter()
class Looped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3)); self.names = ["relu", "tanh"]
    def forward(self, x):
        for layer in self.layers[:-1]: x = F.relu(layer(x))
        return getattr(torch, self.names[1])(self.layers[-1](x))
LOOPED = Looped()
BACKWARD = nn.Linear(3, 3)
BACKWARD.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,) if gi[0] is not None else None)
ALWAYS = nn.Linear(3, 3)
ALWAYS.register_forward_hook(lambda m, a, r: r + 1, always_call=True)
KWHOOK = nn.Linear(3, 3)
KWHOOK.register_forward_pre_hook(lambda m, a, k: ((a[0] + 1,), k), with_kwargs=True)
class Gated(nn.Module):
    def forward(self, x, *, scale=None, **kw): return x * (scale or 1) + len(kw)
GATED = Gated()
class Static(nn.Module):
    @staticmethod
    def twice(x): return x * 2
    @classmethod
    def named(cls, x): return x + len(cls.__name__)
    @property
    def half(self): return 0.5
    def forward(self, x): return self.named(self.twice(x)) * self.half
STATIC = Static()
class BufferWrite(nn.Module):
    def __init__(self): super().__init__(); self.register_buffer("mean", torch.zeros(3))
    def forward(self, x): self.mean = self.mean * 0.9 + x.mean(0) * 0.1; return x - self.mean
BUFFERED = BufferWrite()
class BufferInplace(nn.Module):
    def __init__(self): super().__init__(); self.register_buffer("mean", torch.zeros(3))
    def forward(self, x): self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1); return x - self.mean
INPLACE = BufferInplace()
def p_module_counter(x, y): return COUNTER(x), COUNTER.n, COUNTER.steps + 0, list(COUNTER.items)
def p_module_tied(x, y): return TIED(x)
def p_module_super(x, y): return OVERRIDING(x)
def p_module_getattr(x, y): return GETTER(x)
def p_module_looped(x, y): return LOOPED(x)
def p_module_backward_hook(x, y): return BACKWARD(W).sum()
def p_module_always_hook(x, y): return ALWAYS(x)
def p_module_kwargs_hook(x, y): return KWHOOK(x)
def p_module_keywords(x, y): return GATED(x, scale=2, other=1)
def p_module_static(x, y): return STATIC(x)
def p_module_buffer_write(x, y): return BUFFERED(x), BUFFERED.mean * 1
def p_module_buffer_inplace(x, y): return INPLACE(x), INPLACE.mean * 1
def p_module_children_sum(x, y): return sum(m.weight.sum() for m in LOOPED.layers.children()) + x
def p_module_apply(x, y):
    n = []
    LOOPED.apply(lambda m: n.append(type(m).__name__)); return x * len(n)
def p_module_zero_grad(x, y): LINEAR.zero_grad(); return x + 1
def p_module_train(x, y): LINEAR.train(); z = x * LINEAR.training; LINEAR.eval(); return z + LINEAR.training
def p_module_to(x, y): return LINEAR.to(torch.float32)(x)
def p_module_type_dict(x, y): return {nn.Linear: 2, nn.ReLU: 3}[type(LINEAR)] * x
def p_module_submodule(x, y): return LOOPED.get_submodule("layers.0")(x)
def p_module_parameter(x, y): return LOOPED.get_parameter("layers.0.bias") + x
def p_module_param_count(x, y): return x * sum(p.numel() for p in LOOPED.parameters() if p.requires_grad)
def p_module_in_dict(x, y): return {"a": LINEAR}["a"](x)
def p_module_list_index(x, y): return LOOPED.layers[-1](LOOPED.layers[0](x))
def p_module_equal(x, y): return x + 1 if LINEAR is LINEAR and LINEAR == LINEAR and LINEAR != TIED else y
def p_module_key(x, y): return {LINEAR: 3}[LINEAR] * x
def p_module_functional_state(x, y): return torch.func.functional_call(LINEAR, dict(LINEAR.named_parameters()), (x,))
def p_module_made_linear(x, y): torch.manual_seed(1); return nn.Linear(3, 2)(x).shape[1] + x
def p_module_sequential_made(x, y): return nn.Sequential(nn.ReLU(), nn.Tanh())(x)
def p_module_dropout_eval(x, y): return nn.functional.dropout(x, 0.5, training=LINEAR.training) * 0 + 1
def p_module_flatten(x, y): return nn.Flatten()(x)
def p_module_gru(x, y): return GRU(x[None])[0]
torch.manual_seed(3)
GRU = nn.GRU(3, 2, batch_first=True)
MHA = nn.MultiheadAttention(4, 2, batch_first=True)
ENCODER = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
def p_module_mha(x, y): z = torch.ones(1, 2, 4); return MHA(z, z, z)[0]
def p_module_transformer(x, y): return ENCODER(torch.arange(8.0).reshape(1, 2, 4))


# -- control flow, exceptions ----------------------------------------------------------------------
class Own(Exception):
    def __init__(self, k): super().__init__(f"k={k}"); self.k = k
def p_own_error(x, y):
    try: raise Own(3)
    except Own as e: return x * e.k, str(e)
def p_error_args(x, y):
    try: raise ValueError("a", 2)
    except ValueError as e: return x * e.args[1], repr(e)
def p_error_from(x, y):
    try:
        try: raise KeyError("a")
        except KeyError as e: raise ValueError("b") from e
    except ValueError as e: return x + 1, type(e.__cause__).__name__
def p_error_else(x, y):
    try: z = x + 1
    except ValueError: z = y
    else: z = z * 2
    finally: LOG.append("f")
    return z
def p_error_return_finally(x, y):
    def g():
        try: return x
        finally: LOG.append("g")
    return g() + 1
def p_error_in_loop(x, y):
    n = 0
    for i in range(4):
        try:
            if i % 2: raise ValueError
            n += 1
        except ValueError: continue
        finally: n += 10
    return x * n
def p_error_nested_finally(x, y):
    log = []
    try:
        try: raise KeyError("q")
        finally: log.append(1)
    except KeyError: log.append(2)
    return x + 1, log
def p_error_type_object(x, y):
    e = ValueError
    try: raise e
    except e: return x + 1
def p_error_escapes(x, y): x = x + 1; raise Own(4)
def p_error_shape(x, y):
    try: return x @ x
    except RuntimeError: return x + 1
def p_error_getattr(x, y):
    try: return x.nothing
    except AttributeError as e: return x + 1, str(e)
def p_error_index(x, y):
    try: return x[5]
    except IndexError: return x + 1
def p_error_assert(x, y):
    try: assert x.shape[0] == 5, "five"
    except AssertionError as e: return x + 1, str(e)
def p_error_stop(x, y):
    it = iter([1])
    next(it)
    try: next(it)
    except StopIteration: return x + 1
def p_error_unpack(x, y):
    try: a, b = [1, 2, 3]
    except ValueError as e: return x + 1, str(e)
def p_error_call(x, y):
    def f(a): return a
    try: f(1, 2)
    except TypeError as e: return x + 1, "positional" in str(e)
def p_error_keyword(x, y):
    def f(a): return a
    try: f(b=2)
    except TypeError: return x + 1
def p_error_type(x, y):
    try: return 1 + "a"
    except TypeError: return x + 1
def p_error_key_object(x, y):
    try: return {}[Own]
    except KeyError: return x + 1
def p_error_group(x, y):
    try: raise ExceptionGroup("g", [ValueError("a")])
    except* ValueError: z = x + 1
    return z
def p_error_with_traceback(x, y):
    try: raise ValueError("a").with_traceback(None)
    except ValueError: return x + 1
def p_error_note(x, y):
    try:
        e = ValueError("a"); e.add_note("n"); raise e
    except ValueError as f: return x + 1, f.__notes__
def p_error_info(x, y):
    import sys
    try: raise ValueError("a")
    except ValueError: return x + 1, sys.exc_info()[0].__name__
def p_while_else(x, y):
    n = 0
    while n < 3: n += 1
    else: x = x + 1
    return x * n
def p_nested_break(x, y):
    for i in range(3):
        for j in range(3):
            if j == 2: break
            if i == j == 1: return x * 7
    return x
def p_match_guard(x, y):
    match (x.shape[0], [1, 2, 3]):
        case (2, [a, *rest]) if a > 0: return x * len(rest)
        case _: return x
def p_match_or(x, y):
    match {"k": 3, "z": 1}:
        case {"k": 1 | 3 as v, **rest}: return x * v + len(rest)
def p_match_object(x, y):
    match Ordered(1, 5):
        case Ordered(a=1, b=int(q)): return x * q
def p_match_str(x, y):
    match "abc":
        case str() as s if s.startswith("a"): return x * len(s)
def p_walrus_comprehension(x, y): return [q * x for i in range(4) if (q := i % 3)]
def p_star_expression(x, y): a = [1, 2]; return x * sum([*a, *range(3)]) + max(*a, 7)
def p_dict_views(x, y): d = {"a": 1, "b": 2}; return x * len(d.keys() & {"a"}), sorted(d.items())
def p_chained_assign(x, y): a = b = [x]; a.append(y); return b[1] + len(b)
def p_conditional_import(x, y):
    if x.dim() == 2: import math as m
    return x * m.floor(2.5)
def p_global_write(x, y):
    global LAST
    LAST = x * 2; return LAST + 1
LAST = None
def p_global_dict(x, y): STATE["n"] += 1; return x * STATE["n"]
def p_global_list(x, y): LOG.append(x.shape[0]); return x + len(LOG)
def p_nested_function_state(x, y):
    n = 0
    def inc():
        nonlocal n
        n += 1; return n
    inc(); inc(); return x * n + inc()
def p_function_with_attribute(x, y):
    def f(v): return v * f.k
    f.k = 3; return f(x)
def numbers_with(k=[]): k.append(1); return len(k)
def p_mutable_default(x, y): return x * numbers_with()
def p_defaults_read(x, y): return x * len(numbers_with.__defaults__)
def p_lambda_list(x, y): return [f(x) for f in [lambda v, k=k: v * k for k in range(3)]]
def p_late_closure(x, y): return [f(x) for f in [lambda v: v * k for k in range(3)]]
def p_recursive_dict(x, y):
    def walk(d): return sum(walk(v) if isinstance(v, dict) else v for v in d.values())
    return x * walk({"a": 1, "b": {"c": 2}})
def p_sorted_tensors(x, y): return sorted([x, y], key=lambda v: v.dim())[0] + 1
def p_tree_map(x, y): return torch.utils._pytree.tree_map(lambda v: v * 2, {"a": [x, (y,)]})
def p_tree_flatten(x, y): return torch.utils._pytree.tree_flatten({"a": [x, (y, 3)]})[0]
def p_int_of_size(x, y): return x.view(int(x.numel() / 2), -1)
def p_print_only(x, y): print("q"); return x + 1
def p_eval_lambda(x, y): return eval("3") * x
def p_type_name(x, y): return type(x).__name__, x.dtype is torch.float32, x + 1
def p_str_of_dtype(x, y): return str(x.dtype), repr(x.shape), x + 1
def p_hash_shape(x, y): return {x.shape: 3}[y.shape] * x
def p_bit_ops(x, y): a = 6; a &= 3; a |= 8; a ^= 1; a <<= 2; a >>= 1; return x * a
def p_slice_object(x, y): s = slice(0, 1); return x[s] + s.stop
def p_ellipsis(x, y): return x[..., None, 0] + x[None, ..., -1]
def p_bool_index(x, y): return x[[True, False]] + 1
def p_list_index(x, y): return x[[1, 0], [0, 2]]
def p_setitem_slice(x, y): z = x.clone(); z[0, 1:] = y[0, 1:]; return z
def p_augmented_item(x, y): z = x.clone(); z[0] += 1; z[:, 1] *= 2; return z
def p_tensor_format(x, y): return f"{x.shape[0]:>4}", x + 1
def p_min_max_tensors(x, y): return max(x.sum(), y.sum()) + 1
def p_sum_tensors(x, y): return sum([x, y]) + sum(v.sum() for v in (x, y))
def p_tensor_equal(x, y): return x + 1 if torch.equal(x, x) else y
def p_tensor_in_list(x, y): return x + 1 if any(v is x for v in [y, x]) else y
def p_numel_zero(x, y): return x[:0].sum() + x[:0].numel()
def p_item_int(x, y): return x * int(y.sum().item())
def p_float_item(x, y): return x * float(y[0, 0])
def p_tensor_of_list(x, y): return torch.tensor([1.0, x.shape[0], 3]) + x
def p_tensor_of_tensors(x, y): return torch.tensor([x.sum(), y.sum()]) + 1
def p_random_state(x, y): torch.manual_seed(5); a = torch.rand(2); torch.manual_seed(5); return a - torch.rand(2) + x[0, 0]
def p_generator(x, y): g = torch.Generator().manual_seed(1); return torch.rand(2, 3, generator=g) * 0 + x
def p_rng_state(x, y): s = torch.get_rng_state(); a = torch.rand(3); torch.set_rng_state(s); return a - torch.rand(3) + x
def p_fork_rng(x, y):
    with torch.random.fork_rng(): torch.manual_seed(3); a = torch.rand(3)
    return a * 0 + x
def p_compiler_disable_lambda(x, y): return torch.compiler.disable(lambda v: v * 2)(x) + 1
@torch.compiler.disable
def hidden(v): return v.sin()
def p_disabled_global(x, y): return hidden(x * 2) + 1
@torch.compiler.assume_constant_result
def constant(k): return k * 2
def p_constant_result(x, y): return x * constant(3)
@torch.compiler.allow_in_graph
def allowed(v): return v.sin() if v.shape[0] else v
def p_allow_in_graph(x, y): return allowed(x) + 1
def p_is_dynamo_compiling(x, y): return x + 2 if torch._dynamo.is_compiling() else x + 2
def p_inner_compiled(x, y): return torch.compile(lambda v: v * 2, backend="eager")(x) + 1
INNER = torch.compile(lambda v: v * 2, backend="eager")
def p_inner_compiled_global(x, y): return INNER(x) + 1
@torch.compiler.nested_compile_region
def region(v): return v.sin() * 2
def p_region(x, y): return region(x) + region(y)
def p_autocast_context(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16): z = x @ y.T
    return z.float() + 1
def p_autocast_decorated(x, y):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def f(a, b): return a @ b.T
    return f(x, y)
def p_inference_context(x, y):
    with torch.inference_mode(): z = x * 2
    return z.is_inference()
def p_profiler(x, y):
    with torch.profiler.record_function("q"): z = x + 1
    return z * 2
def p_assert_tensor(x, y): assert (x > -1).all(), "low"; return x + 1
def p_check(x, y): torch._check(x.shape[0] == 2); return x + 1
def p_topk_named(x, y): r = torch.topk(x, 2); return r.values + r.indices
def p_out_of_op(x, y): z = torch.empty(2, 3); torch.add(x, y, out=z); return z
def p_split_unpack(x, y): a, b, c = x.unbind(1); return a * b + c
def p_vmap_closure(x, y): return torch.vmap(lambda v: (v * y[0]).sum())(x)
def p_vmap_dims(x, y): return torch.vmap(lambda a, b: a + b, in_dims=(0, None))(x, y[0])
def p_grad_argnums(x, y): return torch.func.grad(lambda a, b: (a * b).sum(), argnums=1)(x, y)
def p_grad_aux(x, y): return torch.func.grad(lambda a: ((a * a).sum(), a + 1), has_aux=True)(x)[1]
def p_hessian(x, y): return torch.func.hessian(lambda v: (v ** 3).sum())(x[0])
def p_jacfwd(x, y): return torch.func.jacfwd(torch.sin)(x[0])
def p_vmap_grad(x, y): return torch.vmap(torch.func.grad(lambda v: (v * v).sum()))(x)
def p_linearize(x, y): out, f = torch.func.linearize(torch.sin, x); return f(y)
def p_cond_closure(x, y): return torch.cond(x.sum() > 0, lambda: x + y, lambda: x - y)
def p_while_loop(x, y): return torch._higher_order_ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))[1]
def p_checkpoint_module(x, y): return torch.utils.checkpoint.checkpoint(LINEAR, x, use_reentrant=False)
def p_einops_like(x, y): return torch.einsum("ij,kj->ik", x, y)
def p_view_write(x, y): z = x.clone(); v = z[0]; v.add_(1); return z, v
def p_alias_output(x, y): z = x + 1; return z, z, z.view(-1)
def p_input_twice(x, y): return x, x + 1, x
def p_input_view(x, y): return x[0], x.view(-1), x.t()
def p_resize_write(x, y): x.copy_(y * 2); return x + 1
def p_data_write(x, y): x.data = y * 2; return x + 1
def p_zero_out(x, y): x.zero_(); y.fill_(3); return x + y
def p_detach_write(x, y): z = x.detach(); z.add_(1); return x + 1
def p_tensor_set_attribute(x, y): x.tag = "q"; return x + 1, x.tag
def p_tensor_attribute_tensor(x, y): x.other = y * 2; return x.other + x
def p_parameter_made(x, y): p = nn.Parameter(x * 2); return (p * y).sum()
def p_buffer_made(x, y): return nn.Buffer(x * 2) + y
