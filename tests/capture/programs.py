"""Programs of plain Python over toy tensors, captured whole and with breaks."""

from __future__ import annotations

from tests.capture.toy import Toy

LOG = []
SCALE = 3


class Cfg:
    def __init__(self, a):
        self.a = a
        self.last = None

    def __repr__(self):
        return f"Cfg({self.a}, {self.last})"

    @property
    def double(self):
        return self.a * 2

    def apply(self, x, k=1):
        return x * self.a + k


class Ctx:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return 5

    def __exit__(self, *e):
        self.log.append("out" if e[0] is None else e[0].__name__)
        return False

    def __repr__(self):
        return "Ctx"


def f_loop(x, ys):
    for y in ys:
        x = x + y if y > 1 else x
    return x


def f_range(x, n):
    for i in range(n):
        x = x * 2 + i
    return x


def f_dict(x, d):
    out = {}
    for k, v in d.items():
        out[k] = x * v
    return {"r": out, "n": len(d), **d}


def f_closure(x, a):
    k = 2

    def inner(y, b=a):
        nonlocal k
        k += 1
        return y * k + b

    return inner(inner(x)), k


def f_comp(x, ys):
    return [x * y for y in ys if y], {y: x + y for y in ys}, sum(x * y for y in ys)


def f_fstring(x, n, name):
    return f"{name!r:>8} {n:03d} {n}", x + n


def f_default(x, *args, k=2, **kw):
    return x * k + len(args), sorted(kw)


def f_kw(x):
    return f_default(x, 1, 2, k=4, z=1), f_default(*[x, 2], k=3, q=1)


def f_obj(x, cfg):
    cfg.last = x * cfg.double
    return cfg.apply(x, k=3)


def f_append(x, out):
    out.append(x + 1)
    out.append(out[-1] * 2)
    return out


def f_global(x):
    return x * SCALE


def f_try(x, n):
    try:
        if n == 3:
            raise ValueError("boom")
        x = x + 1
    except ValueError:
        x = x * 10
    finally:
        x = x + 5
    return x


def f_with(x, log):
    with Ctx(log) as q:
        x = x * q
    return x, log


def f_unpack(x, t):
    a, (b, *c), *d = t
    return x + a + b, c, d, t[1:], t[-1], (a and 1 if a else 2)


def f_super(x):
    return B(2).go(x)


class A0:
    def __init__(self, s):
        self.s = s

    def go(self, x):
        return x * self.s


class B(A0):
    def __init__(self, s):
        super().__init__(s + 1)

    def go(self, x):
        return super().go(x) + 1


def f_bool(x, a, b):
    return (a and b) or x, not a, a is None, b in (1, 2), a if b else x


def f_while(x, n):
    while n > 0:
        n -= 1
        if n == 4:
            continue
        x = x + n
    else:
        x = x * 2
    return x


def f_with_raise(x, log):
    try:
        with Ctx(log):
            x = x + 1
            raise KeyError("q")
    except KeyError:
        x = x * 3
    return x, log


class It:
    def __iter__(self):
        return iter((1, 2))


IT = It()


def f_iter(x, ys):
    a, b = IT
    it = iter(ys)
    c = next(it)
    return x + a + b, c, list(it), next(it, 5)


def f_store_global(x):
    global NEWG
    NEWG = x + 1
    return NEWG


def f_dict_writes(x, d):
    del d["a"]
    d.setdefault("q", []).append(x + 1)
    return {k: v for k, v in d.items()}


def f_builtins(x, ys):
    return (
        [a for a in zip(ys, range(3))],
        list(map(lambda q: x * q, ys)),
        any(y > 1 for y in ys),
        sorted(ys, reverse=True)[0],
        dict(a=x),
        tuple(ys),
    )


# Breaks.
def b_assert(x, n):
    assert n > 1, f"small {n}"
    return x * n


def b_print(x):
    y = x + 1
    noisy_native(y)
    return y * 2


def b_branch(x):
    y = x * 2
    if y > 3:
        return y + 1
    return y - 1


def b_stack(x, a):
    return (x * 2, a, noisy_native(x + 1), x * 3)


def b_for(x, ys):
    s = x
    for y in ys:
        s = s + y
        noisy_native(s)
        s = s * 2
    return s


def b_for_range(x, n):
    for i in range(n):
        x = x + i
        noisy_native(x)
    return x


def b_with(x, log):
    with Ctx(log) as q:
        y = x * q
        noisy_native(y)
        y = y + 1
    return y, log


def b_with_raise(x, log):
    try:
        with Ctx(log) as q:
            y = x * q
            bad(y)
            y = y + 1
    except KeyError:
        y = x + 100
    return y * 2, log


def b_finally(x, log):
    y = x + 1
    try:
        y = y * 2
        noisy_native(y)
        y = y * 3
    finally:
        log.append("f")
    return y


def b_closure(x):
    k = x * 2

    def inner(z):
        nonlocal k
        k = k + z
        return k

    noisy_native(inner(x))
    return inner(x), k


def helper(x):
    a = x + 1
    noisy_native(a)
    return a * 2


def b_nested(x):
    y = x * 3
    z = helper(y)
    return z + y


def b_comp(x, ys):
    return [noisy_native(x * y) for y in ys], x


def b_generator(x, n):
    return list(gen(n)), x + 1


def gen(n):
    yield from range(n)


def b_raise(x, n):
    y = x + 1
    if n:
        raise ValueError("out")
    return y


def b_locals(x, a):
    y = x + a
    return sorted(locals()), "LOG" in globals(), inner_locals(y)


def inner_locals(q):
    r = q * 2
    return sorted(locals())


def b_setattr(x, o):
    y = x * 2
    o.prop = y
    return y + 1, o.got


class P:
    got = None

    @property
    def prop(self):
        return 1

    @prop.setter
    def prop(self, v):
        PUT_GOT(self, v)

    def __repr__(self):
        return f"P{self.__dict__}"


def blind(f):
    """A callable that capture does not look into."""

    class Blind:
        _capture_disable = True

        def __call__(self, *args):
            return f(*args)

    return Blind()


PUT_GOT = blind(lambda owner, v: setattr(owner, "got", v))


def _native(x):
    LOG.append(x)
    return x


noisy_native = blind(_native)


def _bad(x):
    raise KeyError("k")


bad = blind(_bad)


FULL = [
    (f_loop, (Toy(2), [1, 2, 3]), (Toy(2), [0, 5])),
    (f_range, (Toy(2), 4), (Toy(2), 2)),
    (f_dict, (Toy(2), {"a": 1, "b": 2})),
    (f_closure, (Toy(2), 3)),
    (f_comp, (Toy(2), [1, 0, 3])),
    (f_fstring, (Toy(1), 7, "ab")),
    (f_default, (Toy(1), 2, 3)),
    (f_kw, (Toy(2),)),
    (f_obj, (Toy(2), Cfg(4))),
    (f_append, (Toy(2), [Toy(1)])),
    (f_global, (Toy(2),)),
    (f_try, (Toy(1), 2), (Toy(1), 3)),
    (f_with, (Toy(1), [])),
    (f_unpack, (Toy(1), (1, (2, 3, 4), 5, 6))),
    (f_super, (Toy(2),)),
    (f_bool, (Toy(2), 1, 2), (Toy(2), 0, 0), (Toy(2), None, 3)),
    (f_while, (Toy(2), 6)),
    (f_with_raise, (Toy(1), [])),
    (f_iter, (Toy(1), [1, 2, 3])),
    (f_store_global, (Toy(1),)),
    (f_dict_writes, (Toy(1), {"a": 1, "b": 2})),
    (f_builtins, (Toy(2), [3, 1, 2])),
]
BREAKS = [
    (b_print, 2, 1, (Toy(2),)),
    (b_branch, 3, 0, (Toy(2),), (Toy(1),)),
    (b_stack, 2, 1, (Toy(2), 5)),
    (b_for, None, None, (Toy(1), [1, 2, 3])),
    (b_for_range, None, None, (Toy(1), 5)),
    (b_with, 2, 1, (Toy(2), [])),
    (b_with_raise, None, None, (Toy(2), [])),
    (b_finally, 2, 1, (Toy(2), [])),
    (b_closure, 2, 1, (Toy(2),)),
    (b_nested, 4, 2, (Toy(2),)),
    (b_comp, None, None, (Toy(2), [1, 2, 3])),
    (b_generator, 1, 0, (Toy(2), 3)),
    (b_raise, None, None, (Toy(2), 0), (Toy(2), 1)),
    (b_assert, None, None, (Toy(1), 2), (Toy(1), 0)),
    (b_locals, 0, 2, (Toy(2), 1)),
    (b_setattr, 2, 1, (Toy(2), P())),
]
