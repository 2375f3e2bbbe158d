"""What a program keeps of the module that it was made of: state under hooks, constants, tags."""

from __future__ import annotations

import copy
import io
import operator

import pytest

import rushlight as torch
from rushlight.export import Dim, default_decompositions, export
from rushlight.export.signature import OutputKind, OutputSpec, TensorArgument
from rushlight.export.verifier import SpecViolationError
from rushlight.symbolic.bindings import CallMethodKey, DivideByKey

both = pytest.mark.parametrize("strict", [True, False])


class Renamed(torch.nn.Module):
    """A module whose state dicts have other names than its parameters."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self._register_state_dict_hook(self.shorten)

    @staticmethod
    def shorten(module, state, prefix, metadata):
        for key in list(state):
            state[key.replace("inner.", "")] = state.pop(key)

    def forward(self, x):
        return self.inner(x)


@both
def test_state_has_its_names_whatever_hooks_make_of_state_dicts(strict):
    module, x = Renamed(), torch.ones(1, 2)
    assert list(module.state_dict()) == ["weight", "bias"]
    program = export(module, (x,), strict=strict)
    assert list(program.state_dict) == ["inner.weight", "inner.bias"]
    torch.testing.assert_close(program.module()(x), module(x))


@both
def test_constants_of_a_program_take_no_gradient(strict):
    class Attributes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.foo = torch.randn(2, 2, requires_grad=True)
            self.hidden = {"bar": torch.nn.Parameter(torch.ones(2, 2))}

        def forward(self, x):
            return x + self.foo + self.hidden["bar"]

    module = Attributes()
    made = export(module, (torch.ones(2, 2),), strict=strict).module()
    assert not made.foo.requires_grad
    assert made.foo.data_ptr() == module.foo.data_ptr()
    assert not list(made.named_parameters())
    assert not made(torch.ones(2, 2)).requires_grad
    torch.testing.assert_close(made(torch.ones(2, 2)), module(torch.ones(2, 2)).detach())


class Keywords(torch.nn.Module):
    def forward(self, a, *, x, y):
        return a + x * y


def test_example_inputs_are_checked():
    one = torch.ones(3)
    program = export(Keywords(), (one,), {"x": one, "y": one})
    program.example_inputs = (one,), {"y": one, "x": one}
    for wrong, words in (
        ((one,), "should be a tuple"),
        (((one,), {}), "Ran into a kwarg keyword mismatch"),
        (((), {"x": one, "y": one}), "Trying to flatten user inputs"),
    ):
        with pytest.raises(ValueError, match=words):
            program.example_inputs = wrong


def test_parts_of_a_result_are_taken_once():
    class Top(torch.nn.Module):
        def forward(self, x):
            return torch.topk(x, 2)

    program = export(Top(), (torch.randn(3),))
    module, signature = copy.deepcopy((program.graph_module, program.graph_signature))
    output = module.graph.output_node()
    top = next(node for node in module.graph.nodes if node.op == "call_function")
    with module.graph.inserting_before(output):
        again = [module.graph.call_function(operator.getitem, (top, place)) for place in (1, 0)]
    output.args = ((*output.args[0], *again),)
    signature.output_specs += [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in again
    ]
    made = program._update(module, signature)
    parts = [node for node in made.graph.nodes if node.target is operator.getitem]
    assert [node.args[1] for node in parts] == [0, 1]
    assert made.graph.output_node().args[0] == (*parts, *parts[::-1])
    assert made.graph_signature.user_outputs == ("getitem", "getitem_1", "getitem_1", "getitem")


def test_tags_of_a_graph_survive_another_export():
    x = torch.zeros(1, 2)
    program = export(Renamed(), (x,))
    module = copy.deepcopy(program.graph_module)
    module.meta["custom"] = {"origin": "here"}
    for node in module.graph.nodes:
        if node.op == "call_function":
            node.meta["custom"] = {"tag": "linear"}
    made = export(program._update(module, program.graph_signature).module(), (x,))
    assert made.graph_module.meta["custom"] == {"origin": "here"}
    tags = [node.meta["custom"] for node in made.graph.nodes if "custom" in node.meta]
    assert tags == [{"tag": "linear"}]


class Assigns(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.ones(2)
        self.items = [torch.ones(2), torch.ones(2)]
        self.table = {"a": [torch.ones(2)]}

    def forward(self, x):
        self.plain = self.plain + 1
        self.items[1] = x
        self.table["a"][0] = x
        self.items.append(x)
        return x + self.plain


def test_tensors_in_containers_must_not_be_assigned():
    module = Assigns()
    names = r"attributes self\.plain, self\.items\[1\], self\.table\['a'\]\[0\] were assigned"
    with pytest.raises(ValueError, match=names):
        export(module, (torch.zeros(2),), strict=False)
    assert len(module.items) == 2
    assert module.items[1].tolist() == [1, 1]


def test_functions_of_the_library_say_what_they_are():
    class Calls(torch.nn.Module):
        def forward(self, x):
            return torch.add(torch.relu(x), x.add(x)), torch.split(x, 1)

    program = export(Calls(), (torch.ones(2, 2),))
    found = [node.meta.get("torch_fn") for node in program.graph.nodes if node.op != "placeholder"]
    assert found[:4] == [
        ("relu_1", "builtin_function_or_method.relu"),
        ("add_1", "method_descriptor.add"),
        ("add_2", "builtin_function_or_method.add"),
        ("split_1", "function.split"),
    ]


def test_composites_of_users_are_in_the_default_table():
    with torch.library._scoped_library("kept", "FRAGMENT") as library:
        before = len(default_decompositions())
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x + x, "CompositeImplicitAutograd")
        op = torch.ops.kept.double.default
        table = default_decompositions()
        assert len(table) == before + 1
        assert op in table

        class Doubles(torch.nn.Module):
            def forward(self, x):
                return torch.ops.kept.double(x)

        program = export(Doubles(), (torch.ones(2),))
        assert "kept" not in program.run_decompositions(table).graph_module.code
        assert table.pop(op) is not None
        with pytest.raises(KeyError):
            table.pop(op)
        assert "ops.kept.double" in program.run_decompositions(table).graph_module.code


@both
def test_fake_kernels_make_tensors_of_open_sizes(strict):
    with torch.library._scoped_library("fakes", "FRAGMENT") as library:
        library.define("same(Tensor x) -> Tensor")
        library.impl("same", lambda x: x.sin(), "CPU")
        library.define("some(Tensor x, Tensor n) -> Tensor")
        library.impl("some", lambda x, n: x[: int(n)], "CPU")

        @torch.library.register_fake("fakes::same", lib=library)
        def same(x):
            return torch.empty(x.shape[0], x.shape[1], dtype=x.dtype)

        @torch.library.register_fake("fakes::some", lib=library)
        def some(x, n):
            size = torch.library.get_ctx().new_dynamic_size(min=0, max=len(x) // 10) * 10
            return torch.empty(size, x.shape[1], dtype=x.dtype)

        class Calls(torch.nn.Module):
            def forward(self, x, y, n):
                return torch.ops.fakes.same(x), torch.ops.fakes.some(y, n)

        args = torch.randn(3, 4), torch.randn(100, 4), torch.tensor(10)
        program = export(
            Calls(), args, dynamic_shapes=({0: Dim("rows")}, None, None), strict=strict
        )
        node = next(node for node in program.graph.nodes if node.name == "some")
        (path,) = node.meta["unbacked_bindings"].values()
        assert (path[0], path[2]) == (CallMethodKey("size"), DivideByKey(10))
        run = program.module()
        for rows, count in ((5, 20), (2, 100)):
            x = torch.randn(rows, 4)
            first, second = run(x, args[1], torch.tensor(count))
            torch.testing.assert_close(first, x.sin())
            assert second.shape == (count, 4)


def test_loaded_programs_know_the_functions_of_the_library():
    class Calls(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return torch.add(torch.nn.functional.relu(self.layer(x)), x.sum().item())

    program = export(Calls(), (torch.ones(1, 2),), strict=True)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    assert b"rushlight.opset" not in buffer.getvalue()
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    pairs = [
        (node.meta["source_fn_stack"], twin.meta["source_fn_stack"])
        for node, twin in zip(program.graph.nodes, loaded.graph.nodes, strict=True)
        if "source_fn_stack" in twin.meta
    ]
    found = [twin[-1][1] for _, twin in pairs]
    assert torch.nn.functional.linear in found
    assert torch.add in found
    assert [node[-1][0] for node, _ in pairs] == [twin[-1][0] for _, twin in pairs]


def test_parameters_of_a_program_are_parameters():
    program = export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    program.state_dict["weight"] = torch.ones(2, 2)
    with pytest.raises(SpecViolationError, match=r"not an instance of torch\.nn\.Parameter"):
        program.validate()
