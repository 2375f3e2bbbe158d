"""Hooks of scripted modules: who runs them, what files keep of them, and which are refused."""

import copy
import io
from typing import NamedTuple

import pytest

import rushlight as torch
from rushlight import Tensor, nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Layer()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Two(nn.Module):
    def forward(self, x: Tensor, y: int):
        return x, y


class Nothing(nn.Module):
    def forward(self):
        return torch.ones(1)


class Pair(nn.Module):
    def forward(self, x: tuple[Tensor, int]):
        return x[0]


def add_input(self, input: tuple[Tensor], output: Tensor) -> Tensor:
    return output + input[0] * self.weight


def double_input(self, input: tuple[Tensor]) -> tuple[Tensor]:
    return (input[0] * 2,)


def look(self, input: tuple[Tensor]) -> None:
    print("input", input[0].size(0))


def hooked():
    model = Outer()
    model.inner.register_forward_pre_hook(double_input)
    model.inner.register_forward_hook(add_input)
    model.inner.register_forward_hook(add_input)
    model.inner.register_forward_pre_hook(look)
    return model


def test_hooks_run_in_compiled_code_and_in_python(capsys):
    model = hooked()
    scripted = torch.jit.script(model)
    x = torch.tensor([1.0, -2.0])
    for made in (scripted, copy.deepcopy(scripted), copy.copy(scripted)):
        for call in (made, made.inner):
            assert call(x).equal(model(x)) and model(x).tolist() == [6, -12]
            assert capsys.readouterr().out == "input 2\n" * 3
        assert made.inner.forward(x).equal(x)
    assert capsys.readouterr().out == ""
    assert "prim::CallFunction" in str(scripted.graph)
    assert len(scripted.inner._forward_hooks) == 2 and not hasattr(scripted.inner, "add_input")
    scripted.inner._forward_pre_hooks.clear()
    assert scripted.inner(x).tolist() == [3, -6]


def test_files_keep_hooks():
    model = hooked()
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(model), buffer)
    text = buffer.getvalue()
    x = torch.tensor([1.0, -2.0])
    loaded = torch.jit.load(io.BytesIO(text))
    assert loaded(x).equal(model(x)) and loaded.inner(x).equal(model(x))
    again = io.BytesIO()
    torch.jit.save(loaded, again)
    again.seek(0)
    assert torch.jit.load(again).inner(x).equal(model(x))
    assert loaded.code == torch.jit.script(model).code
    assert "__torch__" in loaded.code and ".add_input(inner, " in loaded.code


def no_tuple(self, input, output): ...
def too_many(self, input: tuple[Tensor, Tensor], output: Tensor): ...
def other_input(self, input: tuple[int], output: Tensor): ...
def other_output(self, input: tuple[Tensor], output: int): ...
def too_few(self, input: tuple[Tensor]): ...
def one_of_two(self, input: tuple[Tensor, int], output: Tensor): ...


LATER = (
    "This error occurred while scripting the forward hook '{name}' on module {owner}. If you did "
    "not want to script this hook remove it from the original NN module before scripting. This hook"
    " was expected to have the following signature: {name}(self, input: {input}, output: {output})."
    " The type of the output arg is the returned type from either the forward method or the "
    "previous hook if it exists. Note that hooks can return anything, but if the hook is on a "
    "submodule the outer module is expecting the same return type as the submodule's forward.\n"
)
EARLIER = (
    "This error occurred while scripting the forward pre-hook '{name}' on module '{owner}'. If you "
    "did not want to script this pre-hook remove it from the original NN module before scripting. "
    "Pre-hooks for module '{owner}' are expected to have the following signature: {name}(self, "
    "input: {input}) with a return type of either {options}.\n"
)
ONE = ("Tuple[Tensor]", "Tensor")
BOTH = ("Tuple[Tensor, int]", "Tuple[Tensor, int]")


# What PyTorch 2.13 says, without the beginning "Hook 'NAME' on module 'OWNER' ".
@pytest.mark.parametrize(
    ("hook", "owner", "reason", "expected"),
    [
        (no_tuple, Layer, "expected the input argument to be typed as a Tuple but found type: "
         "'Tensor' instead.\n", ONE),
        (too_many, Layer, "has the wrong number of contained types for the input argument's Tuple. "
         "Received type: 'Tuple[Tensor, Tensor]'.\n", ONE),
        (other_input, Layer, "has the wrong inner types for the input tuple argument. Received "
         "type: 'Tuple[int]'.\n", ONE),
        (other_output, Layer, "has the wrong type for the output argument. Received type: 'int'. "
         "Expected type: 'Tensor'.\n", ONE),
        (too_few, Layer, "was expected to only have exactly 3 inputs but it had 2 inputs. ", ONE),
        (one_of_two, Two, "has the wrong type for the output argument. Received type: 'Tensor'. "
         "Expected type: 'Tuple[Tensor, int]'.\n", BOTH),
    ],
)  # fmt: skip
def test_hooks_that_are_refused(hook, owner, reason, expected):
    model = owner()
    model.register_forward_hook(hook)
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(model)
    names = {"name": hook.__name__, "owner": owner.__name__}
    end = LATER.format(**names, input=expected[0], output=expected[1])
    text = f"Hook '{hook.__name__}' on module '{owner.__name__}' {reason}{end}"
    assert str(caught.value) == text


class Case(NamedTuple):
    takes: str
    gives: str
    owner: type
    reason: str
    shown: str = "Tuple[Tensor]"
    options: str = "'None', 'Tensor', or 'Tuple[Tensor]'"


TWO = ("Tuple[Tensor, int]", "'None' or 'Tuple[Tensor, int]'")
NONE = ("Tuple[()]", "'None' or 'Tuple[()]'")
NESTED = ("Tuple[Tuple[Tensor, int]]", "'None' or 'Tuple[Tuple[Tensor, int]]'")
MISSING = "is missing a return annotation. Return annotations are required, please add one.\n"
WRONG = "returned the wrong type of: "
REFUSED = [
    Case("Tuple[Tensor]", "", Layer, MISSING),
    Case("Tensor", "None", Layer, "expected the input argument to be typed as a Tuple but found "
         "type: 'Tensor' instead.\n"),
    Case("Tuple[Tensor]", "int", Layer, WRONG + "'int'."),
    Case("Tuple[Tensor]", "Tuple[Tensor, Tensor]", Layer, WRONG + "'Tuple[Tensor, Tensor]'. The "
         "returned tuple contains the wrong number of contained types.\n"),
    Case("Tuple[Tensor]", "Tuple[Tuple[Tensor]]", Layer, WRONG + "'Tuple[Tuple[Tensor]]'. The "
         "returned tuple contains the wrong inner types.\n"),
    Case("Tuple[Tensor, int]", "int", Two, WRONG + "'int'.", *TWO),
    Case("Tuple[Tensor, int]", "Tuple[int, int]", Two, WRONG + "'Tuple[int, int]'. The returned "
         "tuple contains the wrong inner types.\n", *TWO),
    Case("Tuple[Tensor]", "None", Nothing, "was expecting Tuple[()] as the input type. Received "
         "type: 'Tuple[Tensor]'.\n", *NONE),
    Case("Tuple[()]", "Tensor", Nothing, WRONG + "'Tensor'.", *NONE),
    Case("Tuple[Tuple[Tensor, int]]", "Tuple[Tensor, int]", Pair, WRONG + "'Tuple[Tensor, int]'. "
         "When forward has a single tuple input argument, the return needs to be 'None' or a "
         "nested tuple containing forward's input tuple argument as in: 'Tuple[Tuple[Tensor, "
         "int]]'.\n", *NESTED),
    Case("Tuple[Tuple[Tensor, int]]", "Tuple[int, int]", Pair, WRONG + "'Tuple[int, int]'. The "
         "returned tuple contains the wrong number of contained types.\n", *NESTED),
]  # fmt: skip


def pre_hook(tmp_path, takes, gives):
    path = tmp_path / "hooks.py"
    arrow = f" -> {gives}" if gives else ""
    path.write_text(f"def h(self, input: {takes}){arrow}:\n    raise ValueError()\n")
    scope = {"Tuple": tuple, "Tensor": Tensor, "__name__": "hooks"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["h"]


@pytest.mark.parametrize("case", REFUSED)
def test_pre_hooks_that_are_refused(tmp_path, case):
    model = case.owner()
    model.register_forward_pre_hook(pre_hook(tmp_path, case.takes, case.gives))
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(model)
    owner = case.owner.__name__
    end = EARLIER.format(name="h", owner=owner, input=case.shown, options=case.options)
    assert str(caught.value) == f"Pre-hook 'h' on module '{owner}' {case.reason}{end}"


@pytest.mark.parametrize(
    ("owner", "takes", "gives"),
    [
        (Layer, "Tuple[Tensor]", "Tensor"),
        (Layer, "Tuple[Tensor]", "None"),
        (Two, "Tuple[Tensor, int]", "Tuple[Tensor, int]"),
        (Nothing, "Tuple[()]", "None"),
        (Pair, "Tuple[Tuple[Tensor, int]]", "Tuple[Tuple[Tensor, int]]"),
    ],
)
def test_pre_hooks_that_fit(tmp_path, owner, takes, gives):
    model = owner()
    model.register_forward_pre_hook(pre_hook(tmp_path, takes, gives))
    torch.jit.script(model)


def named(number):
    def hook(self, input: tuple[Tensor], output: Tensor) -> Tensor:
        return output

    return hook


def test_hooks_have_names_of_their_own():
    model = Layer()
    model.register_forward_hook(named(1))
    model.register_forward_hook(named(2))
    with pytest.raises(RuntimeError, match="^Hook 'hook' on Layer has at least two different pyth"):
        torch.jit.script(model)
    model = Layer()

    def forward(self, input: tuple[Tensor], output: Tensor) -> Tensor:
        return output

    model.register_forward_hook(forward)
    with pytest.raises(RuntimeError, match="^Can't define hook: forward on class: __torch__"):
        torch.jit.script(model)
