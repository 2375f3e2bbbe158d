"""Objects of users' classes: in compiled code, across its border, in modules and in files."""
# ruff: noqa: UP006, UP035, UP045

import io
import math
import subprocess
import sys
from collections import OrderedDict
from dataclasses import InitVar, dataclass, field
from enum import Enum
from types import MethodType
from typing import Any, Dict, List, Optional, Tuple

import numpy
import pytest

import rushlight as torch
from rushlight import Tensor, nn
from rushlight.jit.scripting.api import BroadcastingList2  # noqa: F401


class Account:
    def __init__(self, owner: str, amounts: List[int]):
        self.owner = owner
        self.amounts = amounts

    def put(self, amount: int):
        self.amounts.append(amount)

    def total(self) -> int:
        found = 0
        for each in self.amounts:
            found += each
        return found

    @property
    def count(self) -> int:
        return len(self.amounts)

    @classmethod
    def empty(cls, owner: str) -> "Account":
        amounts: List[int] = []
        return cls(owner, amounts)

    @staticmethod
    def put_of(account: "Account", amount: int) -> "Account":
        account.put(amount)
        return account

    @torch.jit.unused
    def report(self, to: object, **options) -> int:
        return 1

    def __lt__(self, other: "Account") -> bool:
        return self.total() < other.total()


class Stranger:
    pass


def put_one(account: Account) -> Account:
    account.put(1)
    return account


def test_objects_cross_the_border_as_copies_of_their_class():
    given = Account("a", [5])
    given.note = "stays here"
    result = torch.jit.script(put_one)(given)
    assert type(result) is Account and result.total() == 6 and result.owner == "a"
    assert given.amounts == [5] and not hasattr(result, "note")


def test_objects_within_containers_cross_too():
    def open_two(names: List[str]) -> Tuple[List[Account], Dict[str, Account], Optional[Account]]:
        made = [Account(name, [1]) for name in names]
        return made, {"first": made[0]}, None

    made, named, nothing = torch.jit.script(open_two)(["a", "b"])
    assert [type(each) for each in made] == [Account, Account]
    assert named["first"].owner == "a" and nothing is None


def test_any_object_with_the_attributes_will_do():
    scripted = torch.jit.script(put_one)
    stranger = Stranger()
    stranger.owner, stranger.amounts = "s", [2]
    assert scripted(stranger).total() == 3
    del stranger.owner
    with pytest.raises(RuntimeError, match="but object was missing attribute owner"):
        scripted(stranger)
    stranger.owner, stranger.amounts = "s", ["no number"]
    with pytest.raises(RuntimeError, match=r"Could not cast attribute 'amounts' to type List\[int"):
        scripted(stranger)


def test_scripted_objects_are_shared():
    shared = torch.jit.script(Account("a", [5]))
    assert (shared.owner, shared.amounts, shared.count, shared.total()) == ("a", [5], 1, 5)
    torch.jit.script(put_one)(shared)
    assert shared.total() == 6
    shared.owner = "b"
    assert shared.owner == "b"
    with pytest.raises(RuntimeError, match="Unable to cast Python instance of type <class 'int'>"):
        shared.owner = 3


class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.account = Account("bank", [1])
        self.all = [Account("x", [2]), Account("y", [3])]
        self.lines = [1]

    def forward(self):
        self.account.put(10)
        self.lines.append(len(self.all))
        return self.account.total()


def test_modules_hold_objects_and_lists_of_their_own():
    bank = Bank()
    scripted = torch.jit.script(bank)
    assert scripted() == 11 and scripted() == 21
    assert bank.account.amounts == [1] and bank.lines == [1]
    assert type(scripted.account) is Account and scripted.account.amounts == [1, 10, 10]
    assert scripted.lines == [1, 2, 2]
    scripted.lines.append(9)
    assert scripted.lines == [1, 2, 2]
    scripted.account = Account("new", [100])
    assert scripted() == 110


def test_objects_go_to_files():
    buffer = io.BytesIO()
    scripted = torch.jit.script(Bank())
    scripted()
    torch.jit.save(scripted, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer)
    assert type(loaded.account) is Account and loaded.account.amounts == [1, 10]
    assert loaded() == 21


class Unready:
    def run(self, x):
        return getattr(self, x)


class Carries(nn.Module):
    def __init__(self, uses):
        super().__init__()
        self.held = Unready()
        self.uses = uses

    def forward(self, x: int):
        return x


class Uses(Carries):
    def forward(self, x: int):
        return self.held.run(x)


def test_objects_that_cannot_be_compiled_stay_python_unless_they_are_used():
    assert torch.jit.script(Carries(True))(3) == 3
    with pytest.raises(RuntimeError, match="failed to convert Python type: 'Unready'"):
        torch.jit.script(Uses(True))


def test_classmethods_unused_methods_and_orders():
    def program(flag: bool) -> Tuple[int, List[str]]:
        first = Account("first", [3])
        second = first.empty("second")
        pairs = [(1, first), (1, second)]
        pairs.sort()
        names = [each[1].owner for each in pairs]
        if flag:
            return first.report("anywhere"), names
        return second.total(), names

    scripted = torch.jit.script(program)
    assert scripted(False) == (0, ["second", "first"])
    with pytest.raises(torch.jit.Error, match="annotated to be ignored and cannot be run"):
        scripted(True)


class Table:
    limit = 3

    def __init__(self):
        self.data: Dict[str, int] = {"a": 1}

    def __delitem__(self, key: str):
        del self.data[key]

    def __len__(self) -> int:
        return len(self.data)


def test_del_calls_a_method():
    def program() -> int:
        table = Table()
        del table["a"]
        return len(table)

    assert torch.jit.script(program)() == 0

    def refused():
        account = Account("a", [1])
        del account[0]

    with pytest.raises(RuntimeError, match="Class does not define __delitem__"):
        torch.jit.script(refused)


def test_operators_that_a_class_lacks_are_named():
    def program():
        return Table() + Table()

    with pytest.raises(RuntimeError, match="object has no attribute or method '__add__'"):
        torch.jit.script(program)


def test_attributes_of_a_class_body_are_refused_with_advice():
    def program():
        return Table().limit

    with pytest.raises(RuntimeError, match="'limit' is defined as a class attribute which"):
        torch.jit.script(program)


def test_attributes_begin_at_the_top_of_init():
    with pytest.raises(RuntimeError, match="First assignment cannot be in a control-flow block"):

        @torch.jit.script
        class Late:
            def __init__(self, x: int):
                if x > 0:
                    self.x = x


class Derived(Account):
    def double(self, x: int) -> int:
        return 2 * x


def test_bases_are_refused_by_name_and_not_seen_otherwise():
    with pytest.raises(RuntimeError, match="does not support inheritance"):
        torch.jit.script(Derived)

    def which(x: Any) -> int:
        if isinstance(x, Derived):
            return x.double(3)
        return 0

    assert torch.jit.script(which)(3) == 0


def test_containers_and_texts_are_true_unless_empty():
    def program(numbers: List[int], names: Dict[str, int], text: str) -> Tuple[bool, int]:
        count = 0
        while text:
            text = text[1:]
            count += 1
        if not names and numbers:
            count += 100
        return bool(numbers), count

    scripted = torch.jit.script(program)
    for args in (([], {}, ""), ([1], {}, "ab"), ([1], {"a": 1}, "abc")):
        assert scripted(*args) == program(*args)

    def refused(pair: Tuple[int, int]):
        if pair:
            return 1
        return 2

    with pytest.raises(RuntimeError, match=r"Could not cast value of type Tuple\[int, int\] to"):
        torch.jit.script(refused)


def test_dicts_of_pairs():
    def zipped() -> Dict[str, int]:
        return dict(zip(["a", "b"], [1, 2]))

    def empty() -> Dict[str, Tensor]:
        return dict([])

    assert torch.jit.script(zipped)() == {"a": 1, "b": 2}
    assert torch.jit.script(empty)() == {}
    with pytest.raises(RuntimeError, match=r"`Dict\[int, str\]` did not match the type of an"):

        @torch.jit.script
        def wrong():
            x: Dict[int, str] = dict([("a", 1)])
            return x


def test_tensors_are_printed_as_torch_prints_them(capsys):
    @torch.jit.script
    def show(x):
        print(x)

    show(torch.tensor(5))
    show(torch.arange(12.0).reshape(2, 3, 2))
    show(torch.arange(60).reshape(2, 30) * 1000)
    printed = capsys.readouterr().out
    assert printed.startswith(
        "5\n[ CPULongType{} ]\n(1,.,.) = \n 0  1\n  2  3\n  4  5\n\n(2,.,.) = "
    )
    assert "Columns 1 to 11     0   1000   2000" in printed


@dataclass(order=True)
class Point:
    x: float
    y: float
    power: InitVar[int] = 2
    norm: Optional[Tensor] = None

    def __post_init__(self, power: int):
        self.norm = torch.tensor(self.x) ** power + torch.tensor(self.y) ** power


@dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 3

    def __eq__(self, other: "Frozen") -> bool:
        return self.a == other.a


@dataclass
class Growing:
    items: List[int] = field(default_factory=list)


def test_dataclasses():
    def norm(x: float, y: float, power: int):
        return Point(x, y, power).norm

    def compare(a: float, b: float, c: float, d: float):
        p, q = Point(a, b, norm=None), Point(c, d)
        return p == q, p < q, p <= q, p > q, p >= q

    assert torch.jit.script(norm)(1.0, 2.0, 3).item() == 9
    scripted = torch.jit.script(compare)
    for args in ((1.0, 2.0, 1.0, 2.0), (1.0, 2.0, 1.0, 3.0), (2.0, 0.0, 1.0, 0.0)):
        assert scripted(*args) == compare(*args)

    def frozen(a: int) -> Tuple[bool, Frozen]:
        return Frozen(a) == Frozen(a, 9), Frozen(a)

    same, made = torch.jit.script(frozen)(1)
    assert same and type(made) is Frozen and (made.a, made.b) == (1, 3)
    with pytest.raises(NotImplementedError, match="Default factory initializers"):
        torch.jit.script(Growing)


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Tensors(Enum):
    A = torch.tensor(0)


class Paints(nn.Module):
    def __init__(self):
        super().__init__()
        self.color = Color.RED
        self.palette = [Color.RED, Color.GREEN]

    def forward(self):
        return self.color, self.color.name, [each.value for each in self.palette]


def test_enumerations_as_attributes():
    scripted = torch.jit.script(Paints())
    assert "Enum<__torch__." in str(scripted.graph)
    assert scripted() == (Color.RED, "RED", ["red", "green"])
    assert scripted.color is Color.RED

    def refused(a: Tensors):
        return a.name

    with pytest.raises(RuntimeError, match="Cannot create Enum with value type 'Tensor'"):
        torch.jit.script(refused)


def test_units_from_indented_text():
    unit = torch.jit.CompilationUnit(
        """
        def program(x: int) -> int:
            return x + 1
        """
    )
    assert unit.program(1) == 2


def test_ordered_dicts_are_dicts():
    def program() -> Dict[int, int]:
        return OrderedDict([(1, 2), (2, 3), (1, 4)])

    assert torch.jit.script(program)() == {1: 4, 2: 3}


def test_isinstance_outside_of_programs():
    with pytest.raises(RuntimeError, match="must be a type or a tuple of types"):
        torch.jit.isinstance(2, [int, List[str]])
    with pytest.warns(UserWarning, match="inner type of a container is lost"):
        assert torch.jit.isinstance([], List[int])
    with pytest.raises(RuntimeError, match="Attempted to use Dict without contained types"):
        torch.jit.isinstance({}, Dict)


def test_keys_of_shared_dicts_have_their_type():
    shared = torch.jit.script({1: 2})
    with pytest.raises(KeyError):
        _ = "a" in shared
    with pytest.raises(KeyError):
        shared["a"]
    with pytest.raises(TypeError):
        del shared["a"]


def test_the_first_name_of_jit_may_be_any():
    program = "import rushlight as torch; torch.jit.CompilationUnit('def f(x): return x')"
    subprocess.run([sys.executable, "-c", program], check=True)


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class PlusOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class PlusTwo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 2


class OfInts(nn.Module):
    def forward(self, x: int) -> int:
        return x


class Layers(nn.Module):
    open: Layer

    def __init__(self):
        super().__init__()
        self.open = PlusOne()
        self.closed = PlusOne()

    def forward(self, x: Tensor) -> Tensor:
        return self.open(x) + self.closed(x)


def test_modules_are_exchanged_for_such_as_fit():
    scripted = torch.jit.script(Layers())
    x = torch.zeros(1)
    scripted.open = torch.jit.script(PlusTwo())
    assert scripted(x).item() == 3
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        scripted.open = torch.jit.script(OfInts())
    with pytest.raises(RuntimeError, match="for field 'closed', but found"):
        scripted.closed = torch.jit.script(PlusTwo())
    scripted.closed = torch.jit.script(PlusOne())
    assert scripted(x).item() == 3
    with pytest.raises(RuntimeError, match="does not support inheritance"):

        @torch.jit.interface
        class Second(Layer):
            def other(self, x: Tensor) -> Tensor:
                pass


def test_lists_are_made_of_what_can_be_gone_through():
    def ints(x: List[int]):
        return x

    def floats(x: List[float]):
        return x

    def bools(x: List[bool]):
        return x

    def texts(x: List[str]):
        return x

    script = torch.jit.script
    for given in (range(1, 3), (1, 2), numpy.array([1, 2]), torch.Size([1, 2]), {1, 2}):
        assert script(ints)(given) == [1, 2]
    assert script(ints)([torch.tensor(3)]) == [3]
    assert script(floats)([1, torch.tensor(2.5)]) == [1.0, 2.5]
    assert script(bools)([0, 1, 2, None]) == [False, True, True, False]
    assert script(texts)({"a": 1}) == ["a"]
    for function, given in ((ints, "12"), (ints, torch.ones(2)), (ints, [1.5]), (bools, ["a"])):
        with pytest.raises(RuntimeError, match="Unable to cast Python instance"):
            script(function)(given)


class Dictionary(nn.Module):
    def __init__(self):
        super().__init__()
        self.found = nn.ParameterDict({k: nn.Parameter(torch.ones(1)) for k in ("a", "b")})
        self.none = nn.ModuleDict()

    def forward(self, x):
        assert "a" not in self.none
        for name, value in self.found.items():
            x = x + value * len(name)
        return self.found["a"] * x


def test_parameter_dicts():
    module = Dictionary()
    assert torch.jit.script(module)(torch.ones(1)).item() == module(torch.ones(1)).item() == 3


class ReluWhenScripted(nn.SELU):
    def __prepare_scriptable__(self):
        return nn.ReLU()


def test_modules_may_say_what_is_compiled_in_their_place():
    x = torch.tensor([-1.0, 2.0])
    for module in (ReluWhenScripted(), nn.Sequential(nn.Sequential(ReluWhenScripted()))):
        assert torch.equal(torch.jit.script(module)(x), torch.tensor([0.0, 2.0]))


class Ignoring(nn.Module):
    __jit_ignored_attributes__ = ["secret"]

    def __init__(self):
        super().__init__()
        self.secret = 1

    @torch.jit.ignore
    def name(self):
        return "of the class"

    def forward(self, x):
        return x


def test_what_stays_python_is_the_modules_own():
    module = Ignoring()

    @torch.jit.ignore
    def name(self):
        return "of the module"

    module.name = MethodType(name, module)
    scripted = torch.jit.script(module)
    assert scripted.name() == "of the module" and scripted.name.__self__ is scripted
    assert not scripted._c.hasattr("secret")


class OwnState(nn.Module):
    def __init__(self):
        super().__init__()
        self.saved = False

    def forward(self, x):
        return x

    @torch.jit.export
    def _save_to_state_dict(self, destination: Dict[str, Tensor], prefix: str, keep_vars: bool):
        self.saved = True


def test_compiled_methods_make_the_state_dict():
    scripted = torch.jit.script(OwnState())
    scripted.state_dict()
    assert scripted.saved


def test_comments_may_leave_the_result_out():
    def program(flag):
        # type: (bool)
        return not flag

    assert torch.jit.script(program)(True) is False


def test_values_of_dicts_have_the_annotated_type():
    def program() -> Dict[str, int]:
        found: Dict[str, int] = {key: key for key in ["a", "b"]}
        return found

    with pytest.raises(RuntimeError, match="did not match the type of an actual value type `str`"):
        torch.jit.script(program)


def test_meta_tensors_go_to_files():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 3, device="meta")), buffer)
    buffer.seek(0)
    weight = torch.jit.load(buffer).weight
    assert weight.is_meta and weight.shape == (3, 2) and weight.dtype is torch.float32


class Opens(nn.Module):
    def forward(self, name: str):
        return Account.empty(name).put_of(Account.empty("other"), 3).owner


def test_static_methods_go_to_files():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Opens()), buffer)
    buffer.seek(0)
    assert torch.jit.load(buffer)("a") == "other"


def test_tuples_are_not_written_to():
    def program():
        pair = (1, 2)
        pair[0] = 3
        return pair

    with pytest.raises(RuntimeError, match="does not support subscripted assignment"):
        torch.jit.script(program)


def test_legacy_constructors():
    def program():
        return torch.FloatTensor([1, 2]), torch.BoolTensor([2]), torch.LongTensor(2, 3)

    floats, bools, sizes = torch.jit.script(program)()
    assert floats.dtype is torch.float32 and floats.tolist() == [1.0, 2.0]
    assert bools.tolist() == [True] and sizes.shape == (2, 3) and sizes.dtype is torch.int64

    def refused():
        return torch.LongTensor(1, [2])

    with pytest.raises(RuntimeError, match="multiple positional arguments that were not all"):
        torch.jit.script(refused)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Carries(True)
        self.inner.size = 7

    def forward(self, x: int):
        return self.inner(x) + self.inner.uses


def test_freezing_keeps_attributes_of_modules_within():
    frozen = torch.jit.freeze(torch.jit.script(Outer().eval()), ["inner.size"])
    assert frozen.inner.size == 7 and frozen(2) == 3
    with pytest.raises(RuntimeError, match="Unknown name: inner.other"):
        torch.jit.freeze(torch.jit.script(Outer().eval()), ["inner.other"])


class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.named = nn.ModuleDict({"a": nn.ReLU()})
        self.rows = nn.ParameterList([nn.Parameter(torch.ones(1))])

    def forward(self, x):
        return self.steps(x)


def test_compiled_containers_are_gone_through_in_python():
    scripted = torch.jit.script(Holds())
    assert len(scripted.steps) == 2 and [m.original_name for m in scripted.steps] == [
        "Linear",
        "ReLU",
    ]
    assert scripted.steps[0](torch.ones(1, 2)).shape == (1, 2)
    assert scripted.steps[-1].original_name == "ReLU" and len(scripted.steps[:1]) == 1
    assert list(scripted.named) == ["a"] and "a" in scripted.named
    assert [name for name, _ in scripted.named.items()] == ["a"]
    assert [row.item() for row in scripted.rows] == [1.0] and bool(scripted)
    with pytest.raises(TypeError, match="object of type 'Holds' has no len"):
        len(scripted)


def test_parameters_do_not_become_none():
    scripted = torch.jit.script(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="'weight' is a tensor in compiled code"):
        scripted.weight = None


def test_comprehensions_have_variables_of_their_own():
    def program():
        i, a = 1, 6
        shown = [i if i != 2 else 9 for i in range(3)]
        named = {i: a for i, a in zip([1], [2])}
        return i, a, shown, named, [[a + i for a in range(2)] for i in range(2)]

    assert torch.jit.script(program)() == (1, 6, [0, 1, 9], {1: 2}, [[0, 1], [1, 2]])


def test_forms_read_their_keywords():
    def program(x: List[int]) -> int:
        found = 0
        for i, value in enumerate(x, start=1):
            found += i * value
        return found

    assert torch.jit.script(program)([1, 2, 3]) == 14

    def refused(x: List[int]):
        return [a for a, b in zip(x, x, strict=True)]

    with pytest.raises(RuntimeError, match="zip takes no keyword arguments"):
        torch.jit.script(refused)


def test_remainders_of_floats_are_those_of_math():
    def program(a: float, b: float):
        return math.remainder(a, b)

    scripted = torch.jit.script(program)
    assert [scripted(5.0, 3.0), scripted(0.0, math.inf), scripted(-7.0, 2.5)] == [-1.0, 0.0, 0.5]


def test_ellipsis_by_name():
    def program(x):
        return x[0:1, Ellipsis].size(0), x[Ellipsis, 0].dim()

    assert torch.jit.script(program)(torch.zeros(2, 2)) == (1, 1)


class Shifts(nn.Module):
    @staticmethod
    def shift(x):
        return x + 100

    def forward(self, x):
        if torch.jit.is_tracing():
            return x
        return Shifts.shift(x)


def test_static_methods_of_modules_are_called_by_the_class():
    assert torch.jit.script(Shifts())(torch.zeros(1)).item() == 100


def test_comments_broadcast_lists():
    def program(x, y):
        # type: (float, BroadcastingList2[float]) -> List[float]
        return y

    scripted = torch.jit.script(program)
    assert scripted(2.0, 1.0) == scripted(2.0, [1.0, 1.0]) == [1.0, 1.0]
