"""What a program holds: graph, signature, state, constants; and what it refuses."""

from __future__ import annotations

import copy
import logging
import threading

import pytest

import rushlight as torch
from rushlight.capture.exc import UserError
from rushlight.export import Dim, ExportedProgram, InputKind, OutputKind, export
from rushlight.export.decompositions import default_decompositions
from rushlight.export.private import export_at, export_for_training
from rushlight.export.verifier import SpecViolationError


def code(program):
    return program.graph_module.code.strip()


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, q):
        self.steps.add_(1)
        return self.fc(q).tanh().sum()


def test_text_of_a_program_and_of_its_module():
    program = export(Counting(), (torch.ones(3, 2),))
    assert code(program) == (
        "def forward(self, p_fc_weight, p_fc_bias, b_steps, q):\n"
        "    add = torch.ops.aten.add.Tensor(b_steps, 1);  b_steps = None\n"
        "    linear = torch.ops.aten.linear.default(q, p_fc_weight, p_fc_bias);  "
        "q = p_fc_weight = p_fc_bias = None\n"
        "    tanh = torch.ops.aten.tanh.default(linear);  linear = None\n"
        "    sum_1 = torch.ops.aten.sum.default(tanh);  tanh = None\n"
        "    return (add, sum_1)"
    )
    lines = program.module().code.strip().splitlines()
    assert lines[:5] == [
        "def forward(self, q):",
        "    q, = fx_pytree.tree_flatten_spec(([q], {}), self._in_spec)",
        "    fc_weight = self.fc.weight",
        "    fc_bias = self.fc.bias",
        "    steps = self.steps",
    ]
    assert lines[-2].startswith("    copy__default = torch.ops.aten.copy_.default(steps, add)")


def test_state_is_the_modules_own_and_writes_stay():
    module = Counting()
    program = export(module, (torch.ones(3, 2),))
    assert program.state_dict["fc.weight"] is module.fc.weight
    run = program.module()
    run(torch.ones(3, 2))
    run(torch.ones(3, 2))
    assert module.steps.item() == run.steps.item() == 2


def test_exporting_leaves_the_module_as_it_was():
    class Changing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count, self.seen, self.pair = 1, {"n": [1]}, (1, 2)
            self.register_buffer("b", torch.zeros(2))

        def forward(self, x):
            self.count += 1
            self.seen["n"].append(self.count)
            self.pair = (self.count, 0)
            self.b = self.b + x
            return x * self.count

    module = Changing()
    before = module.b
    program = export(module, (torch.ones(2),))
    assert module.count == 1 and module.seen == {"n": [1]} and module.pair == (1, 2)
    assert module.b is before and module.b.tolist() == [0.0, 0.0]
    run = program.module()
    assert run(torch.ones(2)).tolist() == [2.0, 2.0]
    assert run.b.tolist() == [1.0, 1.0]
    assert [s.kind for s in program.graph_signature.output_specs] == [
        OutputKind.BUFFER_MUTATION,
        OutputKind.USER_OUTPUT,
    ]


def test_assigned_tensors_that_are_no_buffers_are_refused():
    class Assigning(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = torch.zeros(2)

        def forward(self, x):
            self.kept = self.kept + x
            return x

    with pytest.raises(ValueError, match="self.kept was assigned during export"):
        export(Assigning(), (torch.ones(2),), strict=False)
    module = Assigning()
    export(module, (torch.ones(2),))
    assert module.kept.tolist() == [0.0, 0.0]


def test_parameters_written_without_gradients():
    class Decaying(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            with torch.no_grad():
                self.w.mul_(0.5)
            return x * self.w

    module = Decaying()
    program = export(module, (torch.ones(2),))
    assert dict(program.graph_signature.parameters_to_mutate).popitem()[1] == "w"
    assert program.module()(torch.ones(2)).tolist() == [0.5, 0.5]
    assert module.w.tolist() == [0.5, 0.5]


def test_inputs_are_written_and_views_followed():
    class Writing(torch.nn.Module):
        def forward(self, x, pair):
            x[0].add_(1)
            pair["a"].view(-1)[1:].mul_(2)
            return x.sum() + pair["a"].sum()

    def make():
        return torch.ones(2, 2), {"a": torch.ones(2, 2)}

    program = export(Writing(), make())
    mine, theirs = make(), make()
    assert program.module()(*mine) == Writing()(*theirs)
    assert torch.equal(mine[0], theirs[0]) and torch.equal(mine[1]["a"], theirs[1]["a"])
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["x", "pair_a"]


def test_shared_buffers_are_written_once():
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(2))
            self.b = self.a

        def forward(self, x):
            self.a.add_(x)
            return self.b * 2

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = Shared()
            self.two = self.one

        def forward(self, x):
            return self.one(x) + self.two(x)

    program = export(Twice(), (torch.ones(2),))
    assert program.module()(torch.ones(2)).tolist() == Twice()(torch.ones(2)).tolist()


def test_constants_have_the_names_that_the_module_has_for_them():
    class Inner(torch.nn.Module):
        def __init__(self, shared):
            super().__init__()
            self.table = shared

        def forward(self, x):
            return x + self.table + torch.tensor(2.0)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.ones(2)
            self.inner = Inner(self.table)

        def forward(self, x):
            return self.inner(x) * self.table

    program = export(Outer(), (torch.ones(2),))
    assert set(program.constants) == {"table", "inner.table", "inner.lifted_tensor_0"}
    assert program.graph_signature.lifted_tensor_constants == (
        "inner.lifted_tensor_0",
        "table",
    ) or (program.graph_signature.lifted_tensor_constants == ("table", "inner.lifted_tensor_0"))
    assert program.module()(torch.ones(2)).tolist() == [4.0, 4.0]


def test_strict_programs_lift_only_what_they_use():
    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used = torch.nn.Parameter(torch.ones(2))
            self.idle = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.used

    assert export(Half(), (torch.ones(2),)).graph_signature.parameters == ("used",)
    loose = export(Half(), (torch.ones(2),), strict=False)
    assert loose.graph_signature.parameters == ("used", "idle")
    assert set(loose.state_dict) == {"used", "idle"}


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "text"),
    [
        ((torch.ones(3, 2), 4), {}, RuntimeError, r"\*args\[1\] to be equal to 3, but got 4"),
        ((torch.ones(3, 2), 3.0), {}, RuntimeError, r"\*args\[1\] to be equal to 3, but got 3.0"),
        ((torch.ones(4, 2), 3), {}, RuntimeError, r"\*args\[0\].shape\[0\] to be equal to 3"),
        ((torch.ones(3), 3), {}, RuntimeError, "Unexpected number of dimensions in input at"),
        (([1], 3), {}, ValueError, "Trying to flatten user inputs"),
        ((5, 3), {}, RuntimeError, r"Expected input at \*args\[0\] to be a tensor"),
        ((torch.ones(3, 2), 3), {"z": 1}, ValueError, "Trying to flatten user inputs"),
    ],
)
def test_modules_of_programs_check_their_inputs(args, kwargs, error, text):
    class Repeat(torch.nn.Module):
        def forward(self, x, n):
            return x * n

    run = export(Repeat(), (torch.ones(3, 2), 3)).module()
    with pytest.raises(error, match=text):
        run(*args, **kwargs)


def test_keywords_come_in_any_order():
    class Keywords(torch.nn.Module):
        def forward(self, x, *rest, a, **more):
            return x + rest[0] * a - more["b"]

    values = {"b": torch.ones(2), "a": torch.full((2,), 3.0)}
    run = export(Keywords(), (torch.ones(2), torch.ones(2)), values).module()
    swapped = dict(reversed(values.items()))
    assert run(torch.ones(2), torch.ones(2), **swapped).tolist() == [3.0, 3.0]


def test_what_export_refuses_to_take():
    module = Counting()
    with pytest.raises(ValueError, match="instance of `torch.nn.Module`"):
        export(lambda x: x, (torch.ones(2),))
    with pytest.raises(UserError, match="Expecting `args` to be a tuple"):
        export(module, [torch.ones(3, 2)])
    with pytest.raises(ValueError, match="Unsupported input type"):
        export(module, (object(),))
    with pytest.raises(RuntimeError, match="Couldn't find submodule at path nothing"):
        export(module, (torch.ones(3, 2),), preserve_module_call_signature=("nothing",))
    program = export(module, (torch.ones(3, 2),))
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(torch.ones(3, 2))
    for name in ("train", "eval"):
        with pytest.raises(NotImplementedError, match=f"Calling {name}"):
            getattr(program.module(), name)()


def rebuilt(program, graph=None, **changes):
    fields = {
        "root": program.graph_module,
        "graph": graph or program.graph,
        "graph_signature": copy.deepcopy(program.graph_signature),
        "state_dict": program.state_dict,
        "range_constraints": {},
        "module_call_graph": program.module_call_graph,
        "constants": program.constants,
    }
    return ExportedProgram(**{**fields, **changes})


def test_verifier_refuses_what_is_no_program():
    program = export(Counting(), (torch.ones(3, 2),))
    rebuilt(program)
    with pytest.raises(SpecViolationError, match="not in the state dict"):
        rebuilt(program, state_dict={})
    signature = copy.deepcopy(program.graph_signature)
    signature.input_specs.pop()
    with pytest.raises(SpecViolationError, match="does not match number of inputs"):
        rebuilt(program, graph_signature=signature)
    training = export_for_training(Counting(), (torch.ones(3, 2),))
    assert training.dialect == "TRAINING"
    with pytest.raises(SpecViolationError, match="is not functional"):
        rebuilt(training)
    node = next(n for n in program.graph.nodes if n.op == "call_function")
    value = node.meta.pop("val")
    with pytest.raises(SpecViolationError, match="missing val field"):
        program.validate()
    node.meta["val"] = value


def test_altitudes():
    class Lines(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)

        def forward(self, x):
            x.add_(1)
            return self.fc(x)

    args = (torch.ones(3, 2),)

    def ops(program):
        return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]

    assert ops(export(Lines(), args)) == ["aten.add.Tensor", "aten.linear.default"]
    training = export_for_training(Lines(), args)
    assert ops(training) == ["aten.add_.Tensor", "aten.linear.default"]
    low = ["aten.add.Tensor", "aten.t.default", "aten.addmm.default"]
    assert ops(export_at(Lines(), args)) == low
    assert ops(training.run_decompositions()) == low
    core = ["aten.add.Tensor", "aten.permute.default", "aten.addmm.default"]
    assert ops(export(Lines(), args).run_decompositions()) == core
    table = default_decompositions()
    del table[torch.ops.aten.linear.default]
    kept = export(Lines(), args).run_decompositions(table)
    assert ops(kept) == ["aten.add.Tensor", "aten.linear.default"]
    mine = {torch.ops.aten.linear.default: lambda x, w, b: x @ w.t() + b}
    assert "aten.linear.default" not in ops(export(Lines(), args).run_decompositions(mine))
    assert program_writes(training) and program_writes(kept)


def program_writes(program):
    x = torch.ones(3, 2)
    program.module()(x)
    return x.tolist() == [[2.0, 2.0]] * 3


def test_nodes_say_where_they_come_from():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)

        def forward(self, x):
            return torch.relu(self.fc(x))

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block(self.block(x)).cos()

    program = export(Whole(), (torch.ones(1, 2),))
    nodes = {node.name: node for node in program.graph.nodes}
    stack = nodes["linear"].meta["nn_module_stack"]
    assert list(stack.values())[-1] == ("block.fc", "torch.nn.modules.linear.Linear")
    assert next(iter(stack)) == "L__self__"
    second = nodes["linear_1"].meta["nn_module_stack"]
    assert list(second)[-1].endswith("@1") and list(second.values()) == list(stack.values())
    assert nodes["cos"].meta["torch_fn"] == ("cos_1", "method_descriptor.cos")
    assert "return self.block(self.block(x)).cos()" in nodes["cos"].meta["stack_trace"]
    assert nodes["x"].meta.get("nn_module_stack") is None
    again = export(program.module(), (torch.ones(1, 2),), strict=False)
    for node in again.graph.nodes:
        for key in ("stack_trace", "torch_fn", "nn_module_stack"):
            assert node.meta.get(key) == nodes[node.name].meta.get(key), (node, key)


def test_specs_say_what_inputs_are():
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("b", torch.ones(2))
            self.register_buffer("n", torch.ones(2), persistent=False)
            self.c = torch.ones(2)

        def forward(self, x, mode="add", flag=None):
            return x + self.w + self.b + self.n + self.c, 3, None

    program = export(Mixed(), (torch.ones(2), "add"))
    kinds = [spec.kind for spec in program.graph_signature.input_specs]
    assert kinds == [
        InputKind.PARAMETER, InputKind.BUFFER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR,
        InputKind.USER_INPUT, InputKind.USER_INPUT,
    ]  # fmt: skip
    assert program.graph_signature.non_persistent_buffers == ("n",)
    assert set(program.state_dict) == {"w", "b"} and set(program.constants) == {"n", "c"}
    assert program.graph_signature.user_inputs == ("x", "add")
    assert program.graph_signature.user_outputs[1:] == (3, None)
    run = program.module()
    assert dict(run.named_buffers()).keys() == {"b", "n"} and set(run.state_dict()) == {"w", "b"}


def test_autocast_inside_a_program():
    class Cast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.fc(x)
            return y, x @ x

    module = Cast()
    x = torch.randn(4, 4)
    found = export(module, (x,)).module()(x)
    assert [value.dtype for value in found] == [torch.bfloat16, torch.float32]
    torch.testing.assert_close(found, module(x))


def test_grad_mode_inside_a_program():
    class Frozen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 2)
            self.b = torch.nn.Linear(2, 2)

        def forward(self, x):
            with torch.no_grad():
                y = self.a(x)
                z = y + 1
            return self.b(y) * z

    module = Frozen()
    program = export(module, (torch.ones(1, 2),))
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert names.count("wrap_with_set_grad_enabled") == 1
    program.module()(torch.ones(1, 2)).sum().backward()
    assert module.a.weight.grad is None and module.b.weight.grad is not None
    core = program.run_decompositions()
    assert "wrap_with_set_grad_enabled" not in str(core.graph)


def test_custom_ops_with_writes():
    torch.library.define("exporttest::bump", "(Tensor(a!) x, Tensor y) -> Tensor")

    @torch.library.impl("exporttest::bump", "cpu")
    def bump(x, y):
        x.add_(y)
        return x * 2

    @torch.library.register_fake("exporttest::bump")
    def bump_fake(x, y):
        return x * 2

    class Bumping(torch.nn.Module):
        def forward(self, x, y):
            return torch.ops.exporttest.bump(x, y) + x

    def make():
        return torch.ones(2), torch.ones(2)

    for program in (export(Bumping(), make()), export(Bumping(), make()).run_decompositions()):
        assert "auto_functionalized" in program.graph_module.code
        mine, theirs = make(), make()
        assert torch.equal(program.module()(*mine), Bumping()(*theirs))
        assert torch.equal(mine[0], theirs[0])


def test_hooks_that_compute_weights():
    with pytest.warns(FutureWarning):
        module = torch.nn.utils.weight_norm(torch.nn.Linear(2, 2))
    x = torch.randn(3, 2)
    expected = module(x)
    run = export(module, (x,)).module()
    torch.testing.assert_close(run(x), expected)
    with torch.no_grad():
        module.weight_g.mul_(2)
    torch.testing.assert_close(run(x), module(x))


def test_what_nodes_say_of_values_is_no_condition():
    class Striding(torch.nn.Module):
        def forward(self, x):
            return x[::2], x[::3].sum()

    shapes = ({0: torch.export.Dim("n")},)
    run = export(Striding(), (torch.ones(6, 4),), dynamic_shapes=shapes).module()
    found = run(torch.ones(2, 4))
    assert found[0].shape == (1, 4) and found[1].item() == 4.0


def test_strict_programs_log_nothing(caplog):
    log = logging.getLogger("of a user")

    class Talking(torch.nn.Module):
        def forward(self, x):
            log.log("begin")
            log.warning(x.sum())
            log.error(1, 2, 3)
            return x + 1

    def graph(strict):
        return export(Talking(), (torch.ones(2),), strict=strict).graph

    for _ in range(20):
        ops = [node.name for node in graph(True).nodes]
    # The sum is computed, and nothing uses it.
    assert ops[-2:] == ["add", "output"] and not caplog.records
    with pytest.raises(TypeError, match="msg"):
        graph(False)
    log.warning("after")
    assert [record.getMessage() for record in caplog.records] == ["after"]
    assert caplog.records[0].funcName == "test_strict_programs_log_nothing"


def test_only_the_exporting_thread_logs_nothing(caplog):
    log = logging.getLogger("of a user")

    class Meeting(torch.nn.Module):
        def forward(self, x):
            other = threading.Thread(target=lambda: log.warning("from beside"))
            other.start()
            other.join()
            log.warning("from within")
            return x + 1

    export(Meeting(), (torch.ones(2),), strict=True)
    assert {record.getMessage() for record in caplog.records} == {"from beside"}
    assert {record.funcName for record in caplog.records} == {"<lambda>"}


@pytest.mark.parametrize("align_corners", [False, True])
def test_grids_of_maps_ask_nothing_of_open_sizes(align_corners):
    class Grid(torch.nn.Module):
        def forward(self, x):
            maps = torch.eye(2, 3).expand(x.shape[0], 2, 3)
            return torch.nn.functional.affine_grid(maps, x.shape, align_corners=align_corners)

    dims = {0: Dim("b", min=2), 2: Dim("h", min=2), 3: Dim("w", min=2)}
    program = export(Grid(), (torch.ones(2, 3, 8, 6),), dynamic_shapes=(dims,))
    x = torch.ones(7, 3, 4, 9)
    assert torch.equal(program.module()(x), Grid()(x))
    with pytest.raises(ValueError, match="positive output size"):
        torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 0), align_corners)
