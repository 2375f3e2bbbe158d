# fmt: off
"""Programs of one feature each. They are run by the package and, to record counts, by PyTorch: the
names `torch`, `nn`, `F`, `np` and `graph_break` are given to them. A program is a function whose
name begins with `p_`; its arguments are x and y of size 2 by 3."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
import typing

K = 3
STORE = {"k": 2, "items": [1, 2]}


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


Pair = collections.namedtuple("Pair", "a b")


class Typed(typing.NamedTuple):
    a: typing.Any
    b: int = 4


@dataclasses.dataclass
class Point:
    u: typing.Any
    v: int = 2

    def total(self):
        return self.u * self.v


@dataclasses.dataclass(frozen=True)
class Frozen:
    u: typing.Any
    v: int = 2


@dataclasses.dataclass
class Post:
    u: typing.Any
    w: typing.Any = None
    items: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.w = self.u * 2


class Base:
    scale = 2

    def __init__(self, k):
        self.k = k

    def go(self, x):
        return x * self.k

    @property
    def twice(self):
        return self.k * 2

    @twice.setter
    def twice(self, v):
        self.k = v / 2

    @staticmethod
    def fixed(x):
        return x + 1

    @classmethod
    def made(cls, k):
        return cls(k * cls.scale)

    def __add__(self, other):
        return type(self)(self.k + other.k)

    def __getitem__(self, i):
        return self.k * i

    def __len__(self):
        return 3

    def __call__(self, x):
        return x + self.k

    def __iter__(self):
        yield self.k
        yield self.k + 1

    def __contains__(self, v):
        return v == self.k

    def __eq__(self, other):
        return isinstance(other, Base) and self.k == other.k

    def __hash__(self):
        return 1

    def __enter__(self):
        self.k += 1
        return self

    def __exit__(self, *e):
        self.k -= 1


class Derived(Base):
    def __init__(self, k):
        super().__init__(k + 1)

    def go(self, x):
        return super().go(x) + 1


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Getter:
    def __getattr__(self, name):
        return len(name)


class Desc:
    def __get__(self, owner, cls):
        return owner.k + 1

    def __set__(self, owner, v):
        owner.k = v


class Host:
    d = Desc()

    def __init__(self, k):
        self.k = k


class Steps:
    def __init__(self, n):
        self.n, self.i = n, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.i == self.n:
            raise StopIteration
        self.i += 1
        return self.i


class Mixin:
    def go(self, x):
        return super().go(x) * 2


class Mixed(Mixin, Base):
    pass


BASE = Base(3)


# -- containers ------------------------------------------------------------------------------------
def p_tuple(x, y): a = (x + 1, y * 2); return a[0] + a[1]
def p_list_append(x, y): l = []; l.append(x); l.append(y); return l[0] + l[1]
def p_list_extend(x, y): l = [x]; l.extend([y, x]); return sum(l)
def p_list_slice(x, y): l = [x, y, x]; return l[1:][0] * l[-1]
def p_list_insert(x, y): l = [x]; l.insert(0, y); return l[0] - l[1]
def p_list_pop(x, y): l = [x, y]; l.pop(); return l[0] * 2
def p_list_sort(x, y): l = [3, 1, 2]; l.sort(); return x * l[0] + l[2]
def p_list_sort_key(x, y): l = ["ccc", "a", "bb"]; l.sort(key=len); return x * len(l[0])
def p_list_reverse(x, y): l = [x, y]; l.reverse(); return l[0] - l[1]
def p_list_index(x, y): return x * [4, 5, 6].index(5)
def p_list_multiply(x, y): return sum([x] * 3)
def p_list_compare(x, y): return x + 1 if [1, 2] < [1, 3] else y
def p_list_del(x, y): l = [x, y, x]; del l[0]; return l[0] + 1
def p_list_copy(x, y): l = [x]; m = l.copy(); m.append(y); return l[0] * len(m)
def p_list_return(x, y): return [x + 1, [y, (x,)]]
def p_nested(x, y): d = {"a": [x, {"b": (y, 2)}]}; return d["a"][1]["b"][0] + d["a"][0]
def p_dict(x, y): d = {"a": x}; d["b"] = y; return d["a"] + d["b"]
def p_dict_items(x, y):
    out = x
    for k, v in {"a": x, "bb": y}.items(): out = out + v * len(k)
    return out
def p_dict_get(x, y): d = {"a": x}; return d.get("a") + d.get("z", y)
def p_dict_update(x, y): d = {"a": x}; d.update(a=y, b=x); return d["a"] * d["b"]
def p_dict_pop(x, y): d = {"a": x, "b": y}; return d.pop("a") - d["b"]
def p_dict_merge(x, y): d = {"a": x} | {"b": y}; return d["a"] * d["b"]
def p_dict_unpack(x, y): d = {**{"a": x}, "b": y}; return d["a"] * d["b"]
def p_dict_comp(x, y): d = {i: x * i for i in range(3)}; return d[2] + d[1]
def p_dict_setdefault(x, y): d = {}; d.setdefault("a", []).append(x); return d["a"][0] + 1
def p_dict_fromkeys(x, y): d = dict.fromkeys("ab", 2); return x * d["a"] * d["b"]
def p_dict_in(x, y): return x + 1 if "a" in {"a": 1} else y
def p_dict_keys(x, y): return x * len(list({"a": 1, "b": 2}.keys()))
def p_dict_return(x, y): return {"x": x + 1, "n": 3}
def p_dict_int_keys(x, y): d = {1: x, 2: y}; return d[1] + d[2]
def p_dict_enum_key(x, y): d = {Color.RED: x, Color.BLUE: y}; return d[Color.RED] * d[Color.BLUE]
def p_ordered_dict(x, y): d = collections.OrderedDict(a=x, b=y); d.move_to_end("a"); return list(d.values())[0] * 2
def p_default_dict(x, y): d = collections.defaultdict(list); d["a"].append(x); return d["a"][0] + len(d["z"])
def p_counter(x, y): c = collections.Counter("aab"); return x * c["a"]
def p_deque(x, y): q = collections.deque([x]); q.append(y); return q.popleft() + q.pop()
def p_deque_maxlen(x, y): q = collections.deque(maxlen=2); q.append(x); q.append(y); q.append(x); return q[0] - q[1]
def p_chain_map(x, y): c = collections.ChainMap({"a": 1}, {"b": 2}); return x * c["b"]
def p_set(x, y): s = {1, 2}; s.add(3); return x * len(s)
def p_set_ops(x, y): return x * len({1, 2} | {3}) + len({1, 2} & {2})
def p_frozenset(x, y): return x * len(frozenset((1, 2)))
def p_set_of_tensors(x, y): s = {x, y}; return x + len(s)
def p_named_tuple(x, y): p = Pair(x, y); return p.a + p.b
def p_named_tuple_replace(x, y): p = Pair(x, y)._replace(a=y); return p.a * p.b
def p_named_tuple_asdict(x, y): d = Pair(x, y)._asdict(); return d["a"] + 1
def p_named_tuple_return(x, y): return Pair(x + 1, y)
def p_typed_tuple(x, y): p = Typed(x); return p.a * p.b
def p_unpack_star(x, y): a, *b = [x, y, x]; return a + len(b)
def p_swap(x, y): x, y = y, x; return x - y
def p_array_slice(x, y): s = slice(0, 1); return x[s] + 1
def p_tensor_index(x, y): return x[0, 1:] * y[..., -1]
def p_tensor_mask(x, y): return torch.where(x > 0.5, x, y)
def p_tensor_setitem(x, y): z = x.clone(); z[0] = 5; return z
def p_tensor_iter(x, y): return sum(row * 2 for row in x)
def p_tensor_unpack(x, y): a, b = x; return a + b
def p_tensor_list_stack(x, y): return torch.stack([x, y]).sum(0)
def p_dict_of_lists(x, y): d = {"a": [], "b": []}; [d[k].append(x) for k in d]; return d["a"][0] + len(d["b"])


# -- control flow ----------------------------------------------------------------------------------
def p_if_size(x, y): return x + 1 if x.shape[0] > 1 else y
def p_while(x, y):
    n = 0
    while n < 3: x = x + n; n += 1
    return x
def p_for_else(x, y):
    for i in range(2): x = x * 2
    else: x = x + 1
    return x
def p_break(x, y):
    for i in range(5):
        if i == 2: break
        x = x + i
    return x
def p_match_value(x, y):
    match K:
        case 3: return x + 3
        case _: return y
def p_match_sequence(x, y):
    match [x, y]:
        case [a, b]: return a - b
def p_match_mapping(x, y):
    match {"k": x}:
        case {"k": v}: return v * 2
def p_match_class(x, y):
    match Point(x):
        case Point(u=u, v=2): return u + 1
def p_ternary(x, y): return (x if K > 2 else y) * 2
def p_walrus(x, y): return (z := x + 1) * z
def p_assert(x, y): assert x.dim() == 2, "rank"; return x + 1
def p_try(x, y):
    try: z = x + 1
    except ValueError: z = y
    return z
def p_try_raise(x, y):
    try: raise ValueError("a")
    except ValueError as e: return x + len(str(e))
def p_try_finally(x, y):
    try: z = x + 1
    finally: z = x * 2
    return z
def p_try_key_error(x, y):
    try: return x * {"a": 1}["b"]
    except KeyError: return x + 1
def p_try_attribute_error(x, y):
    try: return x.nothing
    except AttributeError: return x + 1
def p_try_index_error(x, y):
    try: return [x][3]
    except IndexError: return x + 1
def p_try_zero_division(x, y):
    try: return x * (1 // 0)
    except ZeroDivisionError: return x + 1
def p_raise_in_callee(x, y):
    def g(v): raise KeyError("k")
    try: g(x)
    except KeyError: return x + 1
def p_raise_custom(x, y):
    class E(Exception): pass
    try: raise E("a")
    except E: return x + 1
def p_nested_try(x, y):
    try:
        try: raise ValueError
        except KeyError: return y
    except ValueError: return x + 1
def p_bare_raise(x, y):
    try:
        try: raise ValueError("a")
        except ValueError: raise
    except ValueError: return x + 1
def p_data_branch(x, y):
    if x.sum() > 0: return x + 1
    return y
def p_item(x, y): return x + x.sum().item()
def p_print(x, y): z = x + 1; print("a", end=""); return z * 2
def p_graph_break(x, y): z = x + 1; graph_break(); return z * 2
def p_break_in_loop(x, y):
    for i in range(3): x = x + i; graph_break()
    return x
def p_break_in_callee(x, y):
    def g(v): v = v + 1; graph_break(); return v * 2
    return g(x * 3) + 1
def p_comprehension_if(x, y): return sum([x * i for i in range(4) if i % 2])
def p_nested_comprehension(x, y): return sum(x * i + j for i in range(2) for j in range(2))
def p_set_comprehension(x, y): return x * len({i % 2 for i in range(4)})


# -- functions -------------------------------------------------------------------------------------
def p_closure(x, y):
    k = 2
    def g(v): return v * k
    return g(x) + g(y)
def p_nonlocal(x, y):
    k = 0
    def g():
        nonlocal k
        k += 1
        return k
    return x * g() + g()
def p_default(x, y):
    def g(v, k=2, *, w=3): return v * k + w
    return g(x) + g(y, w=1)
def p_varargs(x, y):
    def g(*a, **k): return sum(a) + k["z"]
    return g(x, y, z=x)
def p_star_call(x, y): return torch.add(*(x, y), **{"alpha": 2})
def p_lambda(x, y): return (lambda a, b=2: a * b)(x)
def p_recursion(x, y):
    def g(v, n): return v if n == 0 else g(v + 1, n - 1)
    return g(x, 3)
def p_decorator(x, y):
    def twice(f):
        @functools.wraps(f)
        def run(*a): return f(f(*a))
        return run
    @twice
    def g(v): return v * 2
    return g(x)
def p_partial(x, y): return functools.partial(torch.add, alpha=2)(x, y)
def p_partial_method(x, y): return functools.partial(BASE.go, x)() + 1
def p_reduce(x, y): return functools.reduce(operator.mul, [x, y, x])
@functools.lru_cache
def cached(n): return n * 2
def p_lru_cache(x, y): return x * cached(3)
def p_generator(x, y):
    def g(v):
        for i in range(3): yield v * i
    return sum(g(x))
def p_generator_send(x, y):
    def g():
        got = yield 1
        yield got * 2
    it = g(); next(it); return x + it.send(3)
def p_yield_from(x, y):
    def inner(): yield x; return 4
    def g(): k = yield from inner(); yield y * k
    a, b = g(); return a + b
def p_generator_expression(x, y): return max(len(s) for s in ("a", "bb")) * x
def p_function_attribute(x, y):
    def g(v): return v * g.k
    g.k = 3
    return g(x)
def p_return_function(x, y):
    def g(v): return v + 1
    return g(x), len("ab")
def p_callable_object(x, y): return BASE(x)
def p_higher_order(x, y): return list(map(lambda f: f(x), [torch.sin, torch.cos]))[0] + 1
def p_operator(x, y): return operator.add(x, y) * operator.itemgetter(1)([1, 2])
def p_attrgetter(x, y): return x * operator.attrgetter("k")(BASE)
def p_methodcaller(x, y): return operator.methodcaller("sin")(x)
def p_eval_free(x, y): return x + int("3") + float("1.5")
def p_type_call(x, y): return type(x).add(x, y)
def p_annotations(x, y):
    z: int = 3
    return x * z
def p_global_read(x, y): return x * K + STORE["k"]
def p_global_list(x, y): return x * STORE["items"][1]


# -- iteration -------------------------------------------------------------------------------------
def p_zip(x, y): return sum(a * b for a, b in zip([x, y], [2, 3]))
def p_zip_strict(x, y): return sum(a * b for a, b in zip([x, y], [2, 3], strict=True))
def p_enumerate(x, y): return sum(a * i for i, a in enumerate([x, y], 1))
def p_reversed(x, y): return [a for a in reversed([x, y])][0] * 2
def p_sorted(x, y): return x * sorted([3, 1, 2], reverse=True)[0]
def p_map(x, y): return sum(map(lambda a: a * 2, [x, y]))
def p_filter(x, y): return x * sum(filter(lambda a: a > 1, [1, 2, 3]))
def p_any_all(x, y): return x + 1 if any([0, 1]) and all([1, 2]) else y
def p_min_max(x, y): return x * min(3, 2) + max([1, 5])
def p_chain(x, y): return sum(itertools.chain([x], [y]))
def p_chain_from(x, y): return sum(itertools.chain.from_iterable([[x], [y]]))
def p_product(x, y): return sum(x * i + j for i, j in itertools.product([1, 2], [3]))
def p_islice(x, y): return sum(itertools.islice([x, y, x], 2))
def p_repeat(x, y): return sum(itertools.repeat(x, 3))
def p_count(x, y): return sum(a * i for a, i in zip([x, y], itertools.count(2)))
def p_cycle(x, y): return sum(a * i for a, i in zip([x, y, x], itertools.cycle([1, 2])))
def p_accumulate(x, y): return list(itertools.accumulate([1, 2, 3]))[-1] * x
def p_combinations(x, y): return sum(a * b for a, b in itertools.combinations([x, y, x], 2))
def p_permutations(x, y): return x * len(list(itertools.permutations([1, 2, 3])))
def p_zip_longest(x, y): return sum(a for a, b in itertools.zip_longest([x, y], [1], fillvalue=0))
def p_takewhile(x, y): return x * sum(itertools.takewhile(lambda a: a < 3, [1, 2, 3, 1]))
def p_dropwhile(x, y): return x * sum(itertools.dropwhile(lambda a: a < 3, [1, 2, 3, 1]))
def p_groupby(x, y): return x * len([k for k, g in itertools.groupby([1, 1, 2])])
def p_starmap(x, y): return sum(itertools.starmap(lambda a, b: a * b, [(x, 2), (y, 3)]))
def p_pairwise(x, y): return sum(a - b for a, b in itertools.pairwise([x, y, x]))
def p_batched_range(x, y): return sum(x * i for i in range(0, 6, 2))
def p_iter_next(x, y): it = iter([x, y]); next(it); return next(it) + next(it, 1)
def p_user_iterator(x, y): return sum(x * i for i in Steps(3))
def p_user_iterable(x, y): return sum(x * i for i in BASE)
def p_dict_iteration(x, y): return sum(x * len(k) for k in {"a": 1, "bb": 2})
def p_range_len(x, y): return x * len(range(1, 10, 3))
def p_iter_tensor_shape(x, y): return sum(s for s in x.shape) * x


# -- strings and numbers ---------------------------------------------------------------------------
def p_fstring(x, y): return x + len(f"{K:03d}-{'a'!r}")
def p_fstring_shape(x, y): return x + len(f"{x.shape[0]}")
def p_format(x, y): return x + len("{} {b}".format(1, b=2))
def p_percent(x, y): return x + len("%d-%s" % (3, "a"))
def p_join(x, y): return x + len(",".join(["a", "b"]))
def p_string_methods(x, y): return x + "abc".upper().find("C")
def p_string_split(x, y): return x * int("1 2 3".split()[1])
def p_math(x, y): return x * math.sqrt(4) + math.pi
def p_math_prod(x, y): return x * math.prod(x.shape)
def p_divmod(x, y): q, r = divmod(7, 2); return x * q + r
def p_round(x, y): return x * round(2.6) + abs(-1)
def p_bool_ops(x, y): return x + 1 if not (K < 2 or K is None) else y
def p_chained_compare(x, y): return x + 1 if 1 < K < 5 else y
def p_isinstance(x, y): return x + 1 if isinstance(x, torch.Tensor) else y
def p_type_is(x, y): return x + 1 if type(K) is int else y
def p_hasattr(x, y): return x + 1 if hasattr(x, "shape") else y
def p_getattr(x, y): return getattr(x, "sin")() + getattr(BASE, "zz", 2)
def p_callable(x, y): return x + 1 if callable(torch.sin) else y
def p_id_is(x, y): z = x; return x + 1 if z is x else y
def p_none_default(x, y):
    def g(v, k=None): return v if k is None else v * k
    return g(x) + g(x, 2)
def p_enum(x, y): return x * Color.BLUE.value
def p_enum_compare(x, y): return x + 1 if Color.RED is not Color.BLUE else y
def p_int_enum(x, y): return x * Level.HIGH
def p_enum_iter(x, y): return x * len(list(Color))
def p_enum_name(x, y): return x * len(Color.RED.name)
def p_complex_number(x, y): return x * (1 + 2j).real
def p_shape_arith(x, y): return x.reshape(x.shape[0] * x.shape[1]) + x.numel()
def p_size_unpack(x, y): b, c = x.shape; return x.view(c, b) * b
def p_dtype(x, y): return x.to(torch.float64) if x.dtype == torch.float32 else y
def p_device(x, y): return torch.ones(2, 3, device=x.device) + x
def p_finfo(x, y): return x + torch.finfo(x.dtype).eps


# -- classes ---------------------------------------------------------------------------------------
def p_object(x, y): return Base(2).go(x)
def p_super(x, y): return Derived(2).go(x)
def p_mixin(x, y): return Mixed(2).go(x)
def p_property(x, y): return x * BASE.twice
def p_property_set(x, y): b = Base(1); b.twice = 8; return x * b.k
def p_static_method(x, y): return Base.fixed(x) + BASE.fixed(y)
def p_class_method(x, y): return Base.made(2).go(x)
def p_class_attribute(x, y): return x * Base.scale
def p_add(x, y): return (Base(x) + Base(y)).k
def p_getitem(x, y): return x * BASE[2]
def p_len(x, y): return x * len(BASE)
def p_contains(x, y): return x + 1 if 3 in BASE else y
def p_eq(x, y): return x + 1 if BASE == Base(3) else y
def p_with_object(x, y):
    with Base(2) as b: z = x * b.k
    return z + b.k
def p_slots(x, y): s = Slots(x); s.b = y; return s.a + s.b
def p_getattr_method(x, y): return x * Getter().abc
def p_descriptor(x, y): h = Host(2); return x * h.d
def p_descriptor_set(x, y): h = Host(2); h.d = 5; return x * h.k
def p_dataclass(x, y): return Point(x).total()
def p_dataclass_replace(x, y): return dataclasses.replace(Point(x), v=3).total()
def p_dataclass_frozen(x, y): f = Frozen(x); return f.u * f.v
def p_dataclass_post(x, y): p = Post(x); p.items.append(y); return p.w + p.items[0]
def p_dataclass_asdict(x, y): return x * dataclasses.asdict(Point(3))["u"]
def p_dataclass_fields(x, y): return x * len(dataclasses.fields(Point))
def p_dataclass_eq(x, y): return x + 1 if Point(1) == Point(1) else y
def p_class_in_function(x, y):
    class C:
        k = 2
        def go(self, v): return v * self.k
    return C().go(x)
def p_attribute_write(x, y): b = Base(1); b.new = x; return b.new + 1
def p_attribute_delete(x, y):
    b = Base(1); b.new = x; del b.new
    return x + hasattr(b, "new")
def p_setattr(x, y): b = Base(1); setattr(b, "q", 3); return x * b.q
def p_dict_attribute(x, y): b = Base(4); return x * b.__dict__["k"]
def p_simple_namespace(x, y): n = types.SimpleNamespace(a=x); return n.a + 1
def p_object_identity(x, y): b = Base(1); c = b; return x + 1 if b is c else y
def p_return_object(x, y): return Base(x + 1).k
def p_class_call(x, y): return type(BASE)(5).go(x)
def p_isinstance_user(x, y): return x + 1 if isinstance(Derived(1), Base) else y
def p_method_stored(x, y): m = BASE.go; return m(x)
def p_bound_compare(x, y): return x + 1 if BASE.go == BASE.go else y
def p_abstract(x, y):
    import abc
    return x + 1 if issubclass(Derived, Base) else y
def p_deepcopy(x, y): d = copy.deepcopy({"a": [1, 2]}); return x * d["a"][1]
def p_copy_list(x, y): l = copy.copy([x, y]); return l[0] + l[1]
def p_deepcopy_tensor(x, y): return copy.deepcopy(x) + 1


# -- contexts --------------------------------------------------------------------------------------
def p_no_grad(x, y):
    with torch.no_grad(): z = x * 2
    return z + 1
def p_enable_grad(x, y):
    with torch.enable_grad(): z = x * 2
    return z + 1
def p_set_grad(x, y):
    with torch.set_grad_enabled(False): z = x * 2
    return z + 1
def p_no_grad_decorator(x, y):
    @torch.no_grad()
    def g(v): return v * 2
    return g(x) + 1
def p_is_grad_enabled(x, y): return x + 1 if torch.is_grad_enabled() else y
def p_autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16): z = x @ y.t()
    return z.float() + 1
def p_inference(x, y):
    with torch.inference_mode(): z = x * 2
    return z + 1
@contextlib.contextmanager
def managed(k):
    yield k * 2
def p_contextmanager(x, y):
    with managed(2) as k: z = x * k
    return z
def p_nullcontext(x, y):
    with contextlib.nullcontext(3) as k: z = x * k
    return z
def p_exit_stack(x, y):
    with contextlib.ExitStack() as s: b = s.enter_context(Base(2)); z = x * b.k
    return z
def p_suppress(x, y):
    with contextlib.suppress(KeyError): raise KeyError
    return x + 1
def p_break_in_no_grad(x, y):
    with torch.no_grad(): z = x * 2; graph_break(); z = z + 1
    return z
def p_break_in_with(x, y):
    with Base(2) as b: z = x * b.k; graph_break(); z = z + 1
    return z
def p_break_in_try(x, y):
    try: z = x * 2; graph_break(); z = z + 1
    except ValueError: z = y
    return z


# -- tensors ---------------------------------------------------------------------------------------
def p_inplace(x, y): z = x.clone(); z.add_(1); z *= 2; return z
def p_inplace_input(x, y): x.add_(1); return x * 2
def p_out_argument(x, y): z = torch.empty(2, 3); torch.add(x, y, out=z); return z + 1
def p_view(x, y): return x.view(3, 2).t() + 1
def p_return_view(x, y): return x[0], x.t()
def p_return_input(x, y): return x, x + 1
def p_cat_chunk(x, y): a, b = torch.cat([x, y]).chunk(2); return a - b
def p_split(x, y): a, b = x.split([1, 2], dim=1); return a + b
def p_max_tuple(x, y): v, i = x.max(dim=1); return v * 2, i
def p_max_named(x, y): r = x.max(dim=1); return r.values + r.indices
def p_topk(x, y): return x.topk(2).values
def p_einsum(x, y): return torch.einsum("ij,ij->i", x, y)
def p_where(x, y): return torch.where(x > y, x, y)
def p_clamp(x, y): return x.clamp(min=0.2).clamp_max(0.9)
def p_comparison(x, y): return (x > y).float() + (x == y)
def p_matmul(x, y): return x @ y.T
def p_scalar_tensor(x, y): return x * torch.tensor(2.0)
def p_arange(x, y): return torch.arange(3) + x
def p_zeros_like(x, y): return torch.zeros_like(x) + y
def p_new_tensor(x, y): return x.new_zeros(2, 3) + y
def p_type_conversion(x, y): return x.double() + y.int()
def p_to_dtype(x, y): return x.to(torch.float16).to(x)
def p_detach(x, y): return x.detach() * 2
def p_requires_grad(x, y): return x + 1 if x.requires_grad else y * 2
def p_functional(x, y): return F.relu(F.softmax(x, dim=-1))
def p_linear(x, y): return F.linear(x, y, None)
def p_dropout(x, y): return F.dropout(x, 0.5, training=False) + 1
def p_norm(x, y): return F.layer_norm(x, (3,))
def p_broadcast(x, y): return x + torch.ones(3)
def p_tensor_bool(x, y): return x + 1 if x.is_contiguous() else y
def p_stride(x, y): return x + x.stride()[0]
def p_dim(x, y): return x * x.dim() + x.ndim
def p_size_call(x, y): return x * x.size(-1) + x.size()[0]
def p_numel(x, y): return x * x.numel()
def p_len_tensor(x, y): return x * len(x)
def p_tolist(x, y): return x + sum(y.tolist()[0])
def p_numpy_call(x, y): return x + torch.from_numpy(np.ones((2, 3), dtype=np.float32))
def p_numpy_method(x, y): return torch.as_tensor(x.numpy() * 2) + 1
def p_numpy_scalar(x, y): return x * float(np.sqrt(4.0))
def p_rand(x, y): return torch.rand(2, 3).shape[0] + x
def p_manual_seed(x, y): torch.manual_seed(0); return x + 1
def p_tensor_attr(x, y): x.mark = 3; return x * x.mark
def p_tensor_grad_attr(x, y): return x + 1 if x.grad is None else y
def p_bool_tensor_if(x, y):
    if torch.all(x > -5): return x + 1
    return y
def p_nonzero(x, y): return x.nonzero().sum() + 1
def p_data(x, y): return x.data + 1
def p_T(x, y): return x.T + 1, x.mT.shape
def p_apply_fn(x, y): return torch.Tensor.sin(x) + torch.add(x, y)
def p_ops_call(x, y): return torch.ops.aten.sin.default(x)
def p_is_tensor(x, y): return x + 1 if torch.is_tensor(x) else y
def p_is_floating(x, y): return x + 1 if torch.is_floating_point(x) and x.is_floating_point() else y
def p_result_type(x, y): return x.to(torch.result_type(x, 2.0))
def p_meshgrid(x, y): a, b = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"); return a * b + x
def p_cond_shape(x, y): return x.sum(0) if x.shape == y.shape else x
def p_backward_hook(x, y): z = x * 2; z.register_hook(lambda g: g * 2); return z + 1


# -- modules ---------------------------------------------------------------------------------------
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(3, 3)
        self.seq = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
        self.several = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])
        self.named = nn.ModuleDict({"p": nn.Tanh(), "q": nn.Sigmoid()})
        self.params = nn.ParameterList([nn.Parameter(torch.ones(3))])
        self.table = nn.ParameterDict({"a": nn.Parameter(torch.ones(3))})
        self.norm = nn.LayerNorm(3)
        self.batch = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.emb = nn.Embedding(4, 3)
        self.act = torch.relu
        self.register_buffer("buf", torch.ones(3))
        self.calls, self.last, self.config = 0, None, {"k": 2}

    def forward(self, x, k=1):
        return self.lin(x) * k

    def helper(self, x):
        return self.lin(x) + self.buf

    @property
    def width(self):
        return self.lin.weight.shape[0]


NET = Net()


class Quiet(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


QUIET = Quiet()
HOOKED = nn.Linear(3, 3)
HOOKED.register_forward_hook(lambda m, a, r: r * 2)
PRE = nn.Linear(3, 3)
PRE.register_forward_pre_hook(lambda m, a: (a[0] * 2,))


def p_module(x, y): return NET(x)
def p_module_kwarg(x, y): return NET(x, k=2)
def p_module_method(x, y): return NET.helper(x)
def p_module_property(x, y): return x * NET.width
def p_sequential(x, y): return NET.seq(x)
def p_sequential_index(x, y): return NET.seq[0](x)
def p_sequential_slice(x, y): return NET.seq[:2](x)
def p_sequential_iter(x, y):
    for m in NET.seq: x = m(x)
    return x
def p_module_list(x, y):
    for m in NET.several: x = m(x)
    return x
def p_module_list_enumerate(x, y):
    for i, m in enumerate(NET.several): x = m(x) + i
    return x
def p_module_list_len(x, y): return x * len(NET.several)
def p_module_dict(x, y): return NET.named["p"](x)
def p_module_dict_items(x, y):
    for k, m in NET.named.items(): x = m(x)
    return x
def p_module_dict_in(x, y): return x + 1 if "p" in NET.named else y
def p_parameter_list(x, y): return x * NET.params[0]
def p_parameter_dict(x, y): return x * NET.table["a"]
def p_layer_norm(x, y): return NET.norm(x)
def p_batch_norm(x, y): return NET.batch(x)
def p_module_dropout(x, y): return NET.drop(x).shape[0] + x
def p_embedding(x, y): return NET.emb(torch.tensor([0, 1])) + x
def p_stored_function(x, y): return NET.act(x)
def p_buffer(x, y): return x * NET.buf
def p_module_training(x, y): return QUIET(x) + 1
def p_module_attribute_write(x, y): NET.calls += 1; return x + 1
def p_module_tensor_write(x, y): NET.last = x * 2; return x + 1
def p_module_config(x, y): return x * NET.config["k"]
def p_forward_hook(x, y): return HOOKED(x)
def p_forward_pre_hook(x, y): return PRE(x)
def p_parameters_loop(x, y): return sum(p.sum() for p in NET.lin.parameters()) + x
def p_named_parameters(x, y): return sum(p.sum() for n, p in NET.lin.named_parameters() if n == "bias") + x
def p_children(x, y): return x * len(list(NET.seq.children()))
def p_named_children(x, y): return x * sum(len(n) for n, _ in NET.seq.named_children())
def p_modules_loop(x, y): return x * len(list(NET.seq.modules()))
def p_state_dict(x, y): return x * len(NET.lin.state_dict())
def p_getattr_module(x, y): return getattr(NET, "lin")(x)
def p_hasattr_module(x, y): return x + 1 if hasattr(NET, "lin") else y
def p_isinstance_module(x, y): return NET.lin(x) if isinstance(NET.lin, nn.Linear) else y
def p_module_extra_repr(x, y): return x + len(NET.lin.extra_repr())
def p_functional_module(x, y): return torch.func.functional_call(NET.lin, {"weight": torch.ones(3, 3), "bias": torch.zeros(3)}, (x,))
def p_conv(x, y): return F.conv1d(x[None], torch.ones(1, 2, 2))
def p_mha(x, y): return F.scaled_dot_product_attention(x[None], y[None], y[None])
def p_loss(x, y): return F.mse_loss(x, y) + nn.L1Loss()(x, y)
def p_cross_entropy(x, y): return F.cross_entropy(x, torch.tensor([0, 1]))
def p_module_in_function(x, y): return nn.ReLU()(x)
def p_module_call_forward(x, y): return NET.lin.forward(x)
def p_checkpoint(x, y): return torch.utils.checkpoint.checkpoint(lambda v: v.sin(), x, use_reentrant=False) + 1


# -- autograd and transforms -----------------------------------------------------------------------
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


W = torch.ones(2, 3, requires_grad=True)


def p_function(x, y): return Twice.apply(x) + 1
def p_function_grad(x, y): return Twice.apply(W) + 1
def p_func_grad(x, y): return torch.func.grad(lambda v: (v * v).sum())(x)
def p_func_vmap(x, y): return torch.func.vmap(lambda v: v * 2)(x)
def p_func_vmap_two(x, y): return torch.func.vmap(torch.dot)(x, y)
def p_func_jvp(x, y): return torch.func.jvp(torch.sin, (x,), (y,))[1]
def p_func_vjp(x, y): out, pull = torch.func.vjp(torch.sin, x); return pull(y)[0]
def p_func_jacrev(x, y): return torch.func.jacrev(torch.sin)(x[0])
def p_func_grad_value(x, y): return torch.func.grad_and_value(lambda v: (v * v).sum())(x)[1]
def p_autograd_grad(x, y): z = (W * 2).sum(); return torch.autograd.grad(z, W)[0] + x
def p_backward(x, y):
    z = (W * x).sum(); z.backward(); return x + 1
def p_optimizer_step(x, y):
    w = torch.ones(3, requires_grad=True); return w * x
def p_is_compiling(x, y): return x + 1 if torch.compiler.is_compiling() else x + 1
def p_disabled(x, y):
    @torch.compiler.disable
    def g(v): return v * 2
    return g(x + 1) + 1
def p_cond(x, y): return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))
def p_function_mode(x, y):
    class M(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, f, types, args=(), kwargs=None): return f(*args, **(kwargs or {}))
    with M(): z = x + 1
    return z * 2


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        return super().__torch_function__(f, types, args, kwargs or {})


def p_subclass(x, y): return x.as_subclass(Sub) + 1
