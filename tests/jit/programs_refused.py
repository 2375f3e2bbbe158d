"""Functions that cannot be scripted; what is said about them is compared with PyTorch's words.

`torch` is the library that `PROGRAMS_LIBRARY` names.
"""
# Written as users write: style is theirs.
# ruff: noqa

import os
from importlib import import_module
from typing import Any, Dict, List, Optional, Tuple, Union

torch = import_module(os.environ.get("PROGRAMS_LIBRARY", "rushlight"))
nn = torch.nn
PROGRAMS = {}
NUMBER = 4


def refused(function):
    PROGRAMS[function.__name__] = function
    return function


@refused
def undefined_name(x):
    return no_such_function(x)


@refused
def undefined_after_loop(x):
    for i in range(3):
        q = i
    return q


@refused
def generator(x):
    yield x


@refused
def lambda_inside(x):
    f = lambda y: y
    return x


@refused
def try_block(x):
    y = x + 1
    try:
        y = y + 1
    finally:
        pass
    return y


@refused
def nested_function(x):
    def g(y):
        return y + 1

    return g(x)


@refused
def import_inside(x):
    import os

    return x


@refused
def global_inside(x):
    global NUMBER
    return x


@refused
def set_literal(x):
    return {1, 2}


@refused
def walrus(x):
    return (y := x)


@refused
def floor_divide_in_place(x):
    x //= 2
    return x


@refused
def variable_arguments(*args):
    return args


@refused
def variable_keywords(x: int, **kw):
    return x


@refused
def keyword_only_default(x, *, y: int = 3):
    return x


@refused
def filtered_comprehension(x: List[int]):
    return [v for v in x if v > 2]


@refused
def for_else(x: int):
    for i in range(3):
        pass
    else:
        pass
    return x


@refused
def declared_only(x):
    a: int
    a = 3
    return a


@refused
def conversion_in_string(x: str):
    return f"{x!r}"


@refused
def branch_types(n: int):
    if n > 2:
        y = 3
    else:
        y = "a"
    return y


@refused
def one_branch_only(n: int):
    if n > 2:
        y = 3
    return y


@refused
def global_number(x):
    return x + NUMBER


@refused
def no_such_method(x):
    return x.foo(3)


@refused
def no_such_attribute(n: int):
    return n.y


@refused
def no_such_torch_function(x):
    return torch.foo(x)


@refused
def unknown_type(x: set):
    return x


@refused
def bare_list(x: List):
    return x


@refused
def return_types(n: int):
    if n:
        return 1
    return "a"


@refused
def declared_return(n: int) -> Tuple[int, str]:
    return n, n


@refused
def changes_type(n: int):
    while n < 3:
        n = "a"
    return n


@refused
def optional_condition(x: Optional[int]):
    if not x:
        return 1
    return 2


@refused
def empty_list_of_ints(x: List[int]):
    a = []
    for i in x:
        a.append(i)
    return a


@refused
def too_few_values(x: Tuple[int, int]):
    a, b, c = x
    return a


@refused
def too_many_values(x: Tuple[int, int, int]):
    a, b = x
    return a


@refused
def calls_itself(n: int):
    return calls_itself(n)


@refused
def calls_a_tensor(x):
    return x(3)


@refused
def tolist_without_type(x):
    y = x.tolist()
    return y


@refused
def wrong_annotation(x):
    z: int = x.item()
    return z


@refused
def mutable_default(x: List[int] = [1, 2]):
    return x


@refused
def ellipsis_annotation(x: Tuple[int, ...]):
    return x


@refused
def ternary_types(n: int):
    return 1 if n > 2 else "a"


@refused
def print_with_end(n: int):
    print("a", end="")
    return n


@refused
def not_iterable(n: int):
    for i in n:
        pass
    return n


@refused
def not_subscriptable(n: int):
    return n[0]


@refused
def tuple_out_of_range(x: Tuple[int, int]):
    return x[3]


@refused
def bad_raise(n: int):
    raise n


@refused
def break_in_tuple_loop(x: Tuple[int, int]):
    for v in x:
        break
    return x


@refused
def tensor_where_int(x):
    return torch.zeros(x, "a")


@refused
def helper_missing_argument(x):
    return helper()


def helper(x):
    return x


@refused
def helper_extra_argument(x):
    return helper(x, x)


@refused
def helper_unknown_keyword(x):
    return helper(x, y=x)


def broken(x):
    return x + undefined_inside


@refused
def error_in_callee(x):
    y = x
    return broken(y)


@refused
def range_of_float(n: float):
    for i in range(n):
        pass
    return n


@refused
def dict_of_two_keys(n: int):
    return {"a": 1, 2: 3}


@refused
def multidimensional_list(x: List[int]):
    return x[0, 1]


@refused
def attribute_of_plain_tuple(x: Tuple[str, int]) -> bool:
    return hasattr(x, "first")


@refused
def default_attribute_of_plain_tuple(x: Tuple[str, int]) -> int:
    return getattr(x, "first", 2)


@refused
def attribute_by_variable(x, name: str):
    return hasattr(x, name)


@refused
def number_as_object():
    c = 1
    return c.add(1)


@refused
def list_for_number():
    b: int = [2, 3]
    return b


@refused
def list_for_optional_number():
    b: Optional[int] = [1]
    return b


@refused
def list_for_union_of_others():
    b: Union[int, str] = [1]
    return b


@refused
def list_of_other_elements():
    b: List[str] = [2, 3.5]
    return b


@refused
def list_collected_for_number():
    b: int = [x for x in [1, 2]]
    return b


@refused
def list_collected_of_others():
    b: List[str] = [x for x in [1, 2]]
    return b


@refused
def list_as_result_that_is_a_number() -> int:
    return [1, 2]


@refused
def dict_for_number():
    b: int = {"a": 1}
    return b


@refused
def empty_dict_for_number():
    b: int = {}
    return b


@refused
def dict_with_keys_of_another_type():
    b: Dict[int, str] = {"a": "b"}
    return b


@refused
def dict_of_unlike_keys():
    keys = [1, "foo"]
    values = ["foo", "bar"]
    b: Dict[int, str] = dict(zip(keys, values))
    return b


@refused
def future_without_a_type(x: torch.jit.Future):
    return x.wait()


def no_number(x: int) -> int:
    return "a"


@refused
def error_in_assigned_call(x: int):
    y = no_number(x)
    return y


@refused
def dict_of_what_has_no_type(x: Dict[str, set]):
    return x
