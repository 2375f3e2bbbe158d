"""Functions and modules whose scripted graphs are compared with PyTorch's, text by text.

`torch` is the library that `PROGRAMS_LIBRARY` names. A program's name is that of the text recorded
in tests/reference/jit; functions are compiled from this file's source.
"""
# Written as users write: style is theirs.
# ruff: noqa

import enum
import math
import os
from importlib import import_module
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

torch = import_module(os.environ.get("PROGRAMS_LIBRARY", "rushlight"))
F = torch.nn.functional
nn = torch.nn
Tensor = torch.Tensor

FUNCTIONS = {}
MODULES = {}


def program(function):
    FUNCTIONS[function.__name__] = function
    return function


def module(cls):
    MODULES[cls.__name__] = cls
    return cls


# -- arithmetic ------------------------------------------------------------------------------------


@program
def add_one(x):
    return x + 1


@program
def arithmetic(x, y):
    return x * y - x / y + 2 * x - 1


@program
def number_first(x):
    a = 1 + x
    b = 2 - x
    c = 3 / x
    d = 2 * x
    return a, b, c, d


@program
def ints(a: int, b: int):
    return a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a


@program
def floats(a: float, b: float):
    return a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a


@program
def mixed_numbers(a: int, b: float):
    return a + b, b - a, a * b, b / a, a < b, b >= a


@program
def bits(a: int, b: int):
    return a & b, a | b, a ^ b, a << b, a >> b


@program
def tensor_bits(x, y):
    return x & y, x | y, x ^ y, ~x, x << 1, x >> 2


@program
def comparisons(x, y):
    return x == y, x != y, x < y, x <= y, x > y, x >= y, x < 3, 3 < x


@program
def int_comparisons(a: int, b: int):
    return a == b, a != b, a < b, a <= b, a > b, a >= b


@program
def chained_comparison(a: int, b: int):
    return 0 < a < b


@program
def matmuls(x, y):
    return x @ y, torch.mm(x, y), torch.matmul(x, y)


@program
def powers(x, n: int):
    return x**2, 2**x, x**n, n**2, 2.0**n


@program
def modulo(x):
    return x % 2, x // 3


@program
def constant_arithmetic(x):
    return x + (2 * 3 + 1)


@program
def negative_constant(x):
    return x + -1


@program
def swapped_aliases(x, y):
    return torch.multiply(x, y), torch.absolute(x), torch.arccos(y), x.clip(0, 1)


@program
def complex_numbers(a: complex, b: complex):
    return a + b, a * b, abs(a)


# -- variables -------------------------------------------------------------------------------------


@program
def reassigned(x):
    y = x + 1
    y = y * 2
    y = y - x
    return y


@program
def multiple_targets(x):
    a = b = x + 1
    return a * b


@program
def swapping(x, y):
    x, y = y, x
    return x - y


@program
def unpack_tuple(p: Tuple[int, float]):
    a, b = p
    return a + b


@program
def unpack_nested(p: Tuple[int, Tuple[float, int]]):
    a, (b, c) = p
    return a + b + c


@program
def unpack_list(x: List[int]):
    a, b = x
    return a + b


@program
def unpack_starred(p: Tuple[int, int, int, int]):
    a, *b, c = p
    return b, a + c


@program
def augmented_tensor(x, y):
    x += y
    x -= 1
    x *= 2
    x /= y
    return x


@program
def augmented_int(a: int):
    a += 1
    a -= 2
    a *= 3
    return a


@program
def augmented_list(x: List[int]):
    x += [1, 2]
    return x


@program
def annotated_local(n: int):
    x: List[int] = []
    y: Optional[int] = None
    x.append(n)
    return x, y


@program
def underscore(p: Tuple[int, int]):
    _, b = p
    return b


# -- branches --------------------------------------------------------------------------------------


@program
def if_else(x, flag: bool):
    if flag:
        y = x + 1
    else:
        y = x - 1
    return y


@program
def if_without_else(x, n: int):
    if n > 0:
        x = x * n
    return x


@program
def if_elif(x, n: int):
    if n == 0:
        y = x
    elif n == 1:
        y = x + 1
    elif n == 2:
        y = x + 2
    else:
        y = x + 3
    return y


@program
def if_tensor(x):
    if x.sum() > 0:
        return x
    return -x


@program
def early_return(x, n: int):
    if n > 3:
        return x
    y = x + n
    if n > 2:
        return y
    return y * 2


@program
def return_in_both(x, n: int):
    if n > 3:
        return x + 1
    else:
        return x - 1


@program
def nested_returns(n: int):
    if n > 0:
        if n > 10:
            return 1
        elif n > 5:
            return 2
    else:
        return 3
    return 4


@program
def ternary(x, n: int):
    return x + 1 if n > 0 else x - 1


@program
def boolean_logic(a: bool, b: bool):
    return a and b, a or b, not a, a and b or not b


@program
def int_truth(n: int, x: float):
    if n and x:
        return 1
    return 2


@program
def constant_condition(x):
    if 1 == 1:
        y = 7
    else:
        y = 8
    return y + 1


@program
def two_variables(x, n: int):
    a = x
    b = x
    if n > 0:
        a = a + 1
        b = b + 2
    else:
        b = b - 2
    return a + b


@program
def defined_in_both(n: int):
    if n > 0:
        s = "positive"
    else:
        s = "negative"
    return s


@program
def return_or_value(x, n: int):
    if n > 0:
        y = x + 1
    else:
        return x
    return y * 2


# -- loops -----------------------------------------------------------------------------------------


@program
def for_range(x, n: int):
    for i in range(n):
        x = x + i
    return x


@program
def for_range_step(n: int):
    total = 0
    for i in range(1, n, 2):
        total += i
    return total


@program
def for_range_down(n: int):
    total = 0
    for i in range(n, 0, -1):
        total = total * i + 1
    return total


@program
def for_list(x: List[int]):
    total = 0
    for v in x:
        total += v
    return total


@program
def for_tensor_list(x: List[Tensor]):
    total = torch.zeros(2)
    for v in x:
        total = total + v
    return total


@program
def for_tensor(x):
    y = torch.zeros(3)
    for row in x:
        y = y + row
    return y


@program
def for_string(s: str):
    out = ""
    for c in s:
        out = c + out
    return out


@program
def for_dict(d: Dict[str, int]):
    total = 0
    for k in d:
        total += d[k]
    return total


@program
def for_items(d: Dict[str, int]):
    total = 0
    names = ""
    for k, v in d.items():
        total += v
        names += k
    return total, names


@program
def for_enumerate(x: List[int]):
    total = 0
    for i, v in enumerate(x):
        total += i * v
    return total


@program
def for_enumerate_start(x: List[int]):
    total = 0
    for i, v in enumerate(x, 3):
        total += i * v
    return total


@program
def for_zip(x: List[int], y: List[float]):
    total = 0.0
    for a, b in zip(x, y):
        total += a * b
    return total


@program
def for_tuple(p: Tuple[int, float, int]):
    total = 0.0
    for v in p:
        total = total + v
    return total


@program
def while_count(n: int):
    i = 0
    while i < n:
        i += 2
    return i


@program
def while_tensor(x):
    while x.sum() < 10:
        x = x * 2
    return x


@program
def while_and(n: int, m: int):
    while n > 0 and m > 0:
        n -= 1
        m -= 2
    return n, m


@program
def for_break(n: int):
    total = 0
    for i in range(n):
        if i > 3:
            break
        total += i
    return total


@program
def for_continue(n: int):
    total = 0
    for i in range(n):
        if i % 2 == 0:
            continue
        total += i
    return total


@program
def while_break_continue(x, n: int):
    i = 0
    while True:
        i += 1
        if i > n:
            break
        if i % 2 == 0:
            continue
        x = x + i
    return x


@program
def return_from_for(n: int):
    for i in range(n):
        if i * i > n:
            return i
    return -1


@program
def return_from_while(x, n: int):
    while n > 0:
        n -= 1
        if n == 2:
            return x * 2
    return x + 3


@program
def nested_for(n: int, m: int):
    total = 0
    for i in range(n):
        for j in range(m):
            total += i * j
    return total


@program
def nested_break(n: int):
    total = 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            total += j
        if total > 20:
            break
    return total


@program
def loop_local(n: int):
    total = 0
    for i in range(n):
        t = i * 2
        total = total + t
    return total


@program
def unused_loop_variable(x, n: int):
    for _ in range(n):
        x = x + 1
    return x


# -- Optional and Union ----------------------------------------------------------------------------


@program
def is_none(x, y: Optional[Tensor]):
    if y is None:
        return x
    return x + y


@program
def is_not_none(x, y: Optional[Tensor]):
    if y is not None:
        x = x + y
    return x


@program
def none_or(x: Optional[int], y: Optional[int]) -> int:
    if x is None or y is None:
        return 0
    return x + y


@program
def none_and(x: Optional[int], n: int):
    if x is not None and x > n:
        return x
    return n


@program
def assert_not_none(x: Optional[int]):
    assert x is not None
    return x + 1


@program
def none_ternary(x: Optional[int]):
    y = x if x is not None else 3
    return y + 1


@program
def none_default(x, y: Optional[int] = None):
    if y is None:
        y = 2
    return x + y


@program
def returns_optional(n: int) -> Optional[int]:
    if n > 0:
        return n
    return None


@program
def optional_list(x: List[Optional[int]]):
    total = 0
    for v in x:
        if v is not None:
            total += v
    return total


@program
def unwrap_optional(x: Optional[Tensor]):
    y = torch.jit._unwrap_optional(x)
    return y + 1


@program
def union_isinstance(x: Union[int, str, List[int]]):
    if isinstance(x, int):
        return x
    elif isinstance(x, str):
        return len(x)
    return x[0]


@program
def any_isinstance(x: Any):
    if isinstance(x, int):
        return x + 1
    return 0


@program
def isinstance_static(x, n: int):
    if isinstance(n, int):
        return x + 1
    else:
        return x.no_such_thing


@program
def pep604(x: int | None):
    if x is None:
        return 0
    return x


@program
def not_none_not(x: Optional[int]):
    if not (x is None):
        return x
    return 5


# -- lists -----------------------------------------------------------------------------------------


@program
def list_methods(x: List[int]):
    x.append(1)
    x.extend([2, 3])
    x.insert(0, 4)
    a = x.pop()
    x.remove(2)
    x.reverse()
    x.sort()
    y = x.copy()
    n = y.index(3)
    c = y.count(4)
    y.clear()
    return a, x, y, n, c


@program
def list_index(x: List[int]):
    return x[0], x[-1], x[1:], x[:2], x[::2], x[1:3]


@program
def list_assign(x: List[int]):
    x[0] = 3
    x[-1] += 2
    return x


@program
def list_ops(x: List[int], y: List[int]):
    return x + y, x * 2, x == y, x != y, 3 in x, 3 not in x, len(x)


@program
def list_of_tensors(x, y):
    z = [x, y]
    return torch.cat(z), torch.stack([x, y], dim=1), z[0]


@program
def list_builtins(x: List[int], y: List[float]):
    return max(x), min(x), sum(x), sorted(x), any([True, False]), all([True]), sum(y), list(x)


@program
def list_comprehension(x: List[int]):
    return [v * 2 for v in x]


@program
def range_comprehension(n: int):
    return [i * i for i in range(n)]


@program
def tensor_comprehension(x: List[Tensor]):
    return [t.relu() for t in x]


@program
def nested_lists(x: List[List[int]]):
    total = 0
    for row in x:
        for v in row:
            total += v
    return total, x[0][1], [[1, 2], [3]]


@program
def delete_item(x: List[int], d: Dict[str, int]):
    del x[0]
    del d["a"]
    return x, d


@program
def empty_list():
    return []


@program
def list_from_string(s: str):
    return list(s)


@program
def set_in_list_of_tensors(x: List[Tensor]):
    x[0] += 1
    x[1] = x[0]
    return x


# -- dicts -----------------------------------------------------------------------------------------


@program
def dict_literal(x):
    return {"a": x, "b": x + 1}


@program
def dict_methods(d: Dict[str, int]):
    a = d.get("a")
    b = d.get("b", 3)
    k = d.keys()
    v = d.values()
    i = d.items()
    p = d.pop("a")
    s = d.setdefault("c", 4)
    d.update({"e": 5})
    c = d.copy()
    return a, b, k, v, i, p, s, c, len(d), "a" in d


@program
def dict_assign(d: Dict[int, float]):
    d[1] = 2.0
    d[2] += 1.0
    return d[1]


@program
def dict_comprehension(x: List[int]):
    return {i: i * 2 for i in x}


@program
def empty_dict(x):
    d: Dict[int, Tensor] = {}
    d[0] = x
    return d


@program
def dict_of_lists(d: Dict[str, List[int]]):
    d["a"].append(1)
    return d


# -- tuples ----------------------------------------------------------------------------------------


@program
def tuple_index(p: Tuple[int, str, float]):
    return p[0], p[-1], p[1]


@program
def tuple_slice(p: Tuple[int, str, float]):
    return p[1:], p[:2]


@program
def tuple_build(x, n: int):
    return (x, n, (n, "a"))


@program
def tuple_add(p: Tuple[int, int], q: Tuple[str]):
    return p + q


@program
def tuple_length(p: Tuple[int, int]):
    return len(p)


@program
def tuple_if(n: int):
    p = (1, "a")
    if n > 0:
        p = (2, "b")
    return p[0]


class Point(NamedTuple):
    x: int
    y: Tensor


class PointWithDefault(NamedTuple):
    x: int
    y: float = 2.0


@program
def named_tuple(p: Point):
    return p.x + 1, p.y, Point(2, p.y)


@program
def named_tuple_default(n: int):
    p = PointWithDefault(n)
    q = PointWithDefault(y=1.0, x=3)
    return p, q.y
