"""A stub is the general path made short: same results, same graph, same spellings, printed text."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rushlight as torch
from rushlight.core import dtype as dtypes
from rushlight.core.binding import KEYWORD_ALIASES
from rushlight.core.dispatch import call, packet_call
from rushlight.core.gradrule import TensorMeta
from rushlight.core.node import AccumulateGrad, SavedTensor
from rushlight.core.source import source_of
from rushlight.core.stubs import make_stub, stub_source
from rushlight.core.stubwriter import write_bound
from rushlight.core.tensor import Tensor, strides_of
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, errors_of, samples_of
from tests.reference import store

KINDS = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.int64, dtypes.bool_)


def all_packets() -> list[Any]:
    """The packets of every record, derived in-place forms included."""
    found = {op.packet.base_name: op.packet for op in audit.records() if op.packet.candidates}
    for name in ("add_", "sub_", "mul_", "div_", "relu_"):
        found[name] = getattr(torch.ops.aten, name)
    return [found[name] for name in sorted(found)]


PACKETS = all_packets()


def stub_of(packet: Any) -> Any:
    return make_stub(packet, packet.base_name, method=False)


def is_special(packet: Any) -> bool:
    return "slow" in stub_of(packet).__globals__


def is_anything(name: str) -> bool:
    """Whether the values of an op's results are anything."""
    return name.startswith(("empty", "new_empty"))


SPECIAL = [p for p in PACKETS if is_special(p) and not is_anything(p.base_name)]


def prepared(packet: Any, kind: Any, graph: bool) -> list[Sample]:
    """Samples of all overloads, made afresh, whose tensors are leaves if `graph` says so."""
    cases = [case for op in packet.candidates for case in samples_of(op, kind)]
    cases += [case for op in packet.candidates for _, case in errors_of(op, kind)]
    writes = any(op._schema.is_mutable for op in packet.candidates)

    def mark(value: Any) -> Any:
        if isinstance(value, Tensor) and graph and not writes and value._dtype.category > 1:
            value._requires_grad = value._view is None
        return value

    return [store.mapped(case, mark) for case in cases]


def facts_of(value: Any, inputs: list[Any], saved: bool = False) -> Any:
    """What two values must have in common to be equal to the last bit."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [facts_of(item, inputs, saved) for item in value]
    if type(value) is SavedTensor:
        return "saved", value.output_nr, facts_of(value.tensor, inputs, saved)
    if type(value) is TensorMeta:
        return [repr(getattr(value, name)) for name in TensorMeta.__slots__]
    if not isinstance(value, Tensor):
        return type(value), repr(value)
    at = next((i for i, given in enumerate(inputs) if given is value), None)
    if at is not None or value._array is None:
        return type(value), at
    view = value._view
    return {
        "dtype": value._dtype,
        "shape": tuple(value.shape),
        "strides": strides_of(value),
        "offset": value._offset,
        "values": value._array.tobytes(),
        "contiguous": value.is_contiguous(),
        "requires_grad": value.requires_grad,
        "version": value._version,
        "shares": [value._counter is not None and t._counter is value._counter for t in inputs],
        # The graph of a composite may keep a view that has no record of its base.
        "view": None if saved or view is None else (view.op, repr(view.args), view.kind),
        "graph": graph_of(value.grad_fn, inputs),
    }


def graph_of(node: Any, inputs: list[Any]) -> Any:
    """A graph as data: node classes, edges, metas and what is saved."""
    if node is None:
        return None
    if isinstance(node, AccumulateGrad):
        return "leaf", next((i for i, t in enumerate(inputs) if t is node.variable), None)
    saved = [facts_of(entry, inputs, saved=True) for entry in node.saved_slots or ()]
    edges = [(graph_of(following, inputs), number) for following, number in node.next_functions]
    metas = [entry and (tuple(entry[0]), entry[1]) for entry in node.output_metas]
    return type(node).__name__, getattr(type(node), "saved_names", ()), saved, edges, metas


def outcome(function: Any, case: Sample) -> Any:
    torch.manual_seed(0)
    inputs = store.tensors_of(case)
    try:
        result = function(case.args, dict(case.kwargs))
    except Exception as error:
        return type(error), "raised"
    after = [None if t._array is None else t._array.tobytes() for t in inputs]
    return facts_of(result, inputs), after


@pytest.mark.parametrize("packet", SPECIAL, ids=str)
def test_a_stub_is_the_general_path(packet: Any) -> None:
    stub = stub_of(packet)
    answer = stub.__globals__["answer"] or (lambda result: result)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            for graph in {False, kind.category > 1}:
                cases = prepared(packet, kind, graph), prepared(packet, kind, graph)
                for first, second in zip(*cases, strict=True):
                    mine = outcome(lambda a, k: stub(*a, **k), first)
                    wanted = outcome(lambda a, k: answer(packet_call(packet, stub, a, k)), second)
                    assert mine == wanted, (kind, first)
                    compared += 1
    assert compared


def is_one_call(packet: Any) -> bool:
    """Whether a transform sees one op, which gives the same each time."""
    return not any(
        op.body is not None or "nondeterministic_seeded" in op.tags for op in packet.candidates
    )


@pytest.mark.parametrize("packet", [p for p in SPECIAL if is_one_call(p)], ids=str)
def test_a_stub_inside_of_a_transform_is_the_general_path(packet: Any) -> None:
    """With operands that the transform has no part in."""
    stub = stub_of(packet)
    answer = stub.__globals__["answer"] or (lambda result: result)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (dtypes.float32, dtypes.int64, dtypes.bool_):
            cases = prepared(packet, kind, True), prepared(packet, kind, True)
            for first, second in zip(*cases, strict=True):
                mine: list[Any] = []

                def inside(x: Any, first: Any = first, mine: Any = mine) -> Any:
                    mine.append(outcome(lambda a, k: stub(*a, **k), first))
                    return x

                torch.func.vmap(inside)(torch.ones(1))
                wanted = outcome(lambda a, k: answer(packet_call(packet, stub, a, k)), second)
                assert mine == [wanted], (kind, first)
                compared += 1
    assert compared


BOUND = [
    op
    for packet in PACKETS
    if not is_anything(packet.base_name)
    for op in packet.candidates
    if "nondeterministic_seeded" not in op.tags and write_bound(op) is not None
]


@pytest.mark.parametrize("op", BOUND, ids=str)
def test_a_bound_stub_is_the_general_path(op: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (dtypes.float32, dtypes.complex64, dtypes.int64):
            cases = prepared(op.packet, kind, True), prepared(op.packet, kind, True)
            for first, second in zip(*cases, strict=True):
                mine = outcome(lambda a, k: op.direct(*op.bind(*a, **k)), first)
                wanted = outcome(lambda a, k: call(op, op.bind(*a, **k)), second)
                assert mine == wanted, (kind, first)


def spelled(case: Sample, op: Any, aliases: dict[str, str]) -> Sample:
    """The call with every argument as a keyword, under another name where there is one."""
    names = [a.name for a in op._schema.arguments if not a.kwarg_only]
    given = dict(zip(names, case.args, strict=False)) | case.kwargs
    return Sample((), {aliases.get(name, name): value for name, value in given.items()})


def alias_sets(op: Any) -> list[dict[str, str]]:
    """Ways to spell arguments: for each alias that applies, one set that uses it."""
    names = set(op.argument_names)
    taken = {a.name for other in op.packet.candidates for a in other._schema.arguments}
    return [
        {target: alias}
        for alias, target in KEYWORD_ALIASES.items()
        if target in names and alias not in taken
    ]


def runs(stub: Any, op: Any, kind: Any) -> bool:
    cases = samples_of(op, kind)[:1]
    return bool(cases) and outcome(lambda a, k: stub(*a, **k), cases[0])[1] != "raised"


@pytest.mark.parametrize("packet", PACKETS, ids=str)
def test_every_spelling_reaches_every_stub(packet: Any) -> None:
    stub = stub_of(packet)
    op = packet.candidates[0]
    # An op without a sample that runs in any of these dtypes is left out.
    kind = next((kind for kind in (*KINDS, dtypes.int32) if runs(stub, op, kind)), None)
    if kind is None:
        return
    if is_anything(op.base_name):
        return
    wanted = outcome(lambda a, k: stub(*a, **k), samples_of(op, kind)[0])
    for aliases in [{}, *alias_sets(op)]:
        case = spelled(samples_of(op, kind)[0], op, aliases)
        assert outcome(lambda a, k: stub(*a, **k), case)[0] == wanted[0], aliases


def test_aliases_of_pointwise_ops() -> None:
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    assert torch.add(x1=a, x2=b).tolist() == [4.0, 7.0]
    assert torch.mul(input=a, other=b).tolist() == [3.0, 10.0]
    assert torch.sin(a=a).tolist() == torch.sin(a).tolist()
    assert torch.reshape(input=a, shape=(2, 1)).shape == (2, 1)
    assert a.add(other=b, alpha=2).tolist() == [7.0, 12.0]
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        torch.add(a, b, foo=1)


@pytest.mark.parametrize("packet", PACKETS, ids=str)
def test_the_printed_text_is_what_runs(packet: Any) -> None:
    stub = make_stub(
        packet, packet.base_name, method=not packet.candidates[0].options.get("function", True)
    )
    text = audit.describe(packet.base_name)["stub"]
    assert text == stub_source(packet)
    own = source_of(stub)
    assert text.startswith(own)
    scope = {**stub.__globals__}
    exec(compile(own, stub.__code__.co_filename, "exec"), scope)
    assert scope["stub"].__code__ == stub.__code__.replace(co_name="stub", co_qualname="stub")
    if not is_special(packet):
        assert "packet_call(packet, stub" in own
        for op in packet.candidates:
            assert source_of(op.bind) in text


def test_overrides_see_the_call_as_it_was_made() -> None:
    seen = []

    class Watching(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append((args[1:], kwargs))
            return None

    x = torch.ones(2, 3).as_subclass(Watching)
    seen.clear()
    torch.amax(x, 1)
    torch.amax(x, dim=[1], keepdim=True)
    x.sum(1)
    x.add(2, alpha=3)
    assert seen == [((1,), {}), (([1], True), {}), ((1,), {}), ((2,), {"alpha": 3})]
    seen.clear()
    # Defaults that are lists were not given either.
    torch.conv_transpose2d(x, x)
    torch.conv_transpose2d(x, x, stride=2)
    assert [len(args) for args, _ in seen] == [1, 3]


def test_a_replaced_kernel_is_seen_by_stubs_that_exist() -> None:
    a = torch.ones(2)
    product = torch.vdot
    assert product(a, a).item() == 2.0
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("vdot", lambda self, other: self.clone(), "CPU")
        assert product(a, a).tolist() == [1.0, 1.0]
        assert "packet_call(packet, stub" in stub_source(torch.ops.aten.vdot)
    finally:
        library._destroy()
    assert product(a, a).item() == 2.0


def test_a_packet_is_called_by_a_stub_that_overrides_are_told_of_as_the_packet() -> None:
    packet = torch.ops.aten.lerp
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append((func, len(args), kwargs or {}))
            return func(*args, **(kwargs or {}))

    a, b = torch.zeros(3), torch.ones(3)
    assert packet(a, b, 0.5).tolist() == packet(self=a, end=b, weight=0.5).tolist() == [0.5] * 3
    with Mode():
        assert packet(a, b, weight=0.25).tolist() == [0.25] * 3
    assert seen[0][0] is packet
    with pytest.raises(RuntimeError, match="failed to match any schema"):
        packet(a, "no")
    assert type(torch.ops.aten.max(a, 0)) is tuple
    assert type(torch.ops.aten.split(torch.arange(4), 2)) is list


def test_a_replaced_kernel_is_seen_by_packets_that_were_called_before() -> None:
    a, packet = torch.ones(2), torch.ops.aten.vdot
    assert packet(a, a).item() == 2.0
    for _ in range(2):
        library = torch.library.Library("aten", "IMPL")
        try:
            library.impl("vdot", lambda self, other: self.clone(), "CPU")
            assert packet(a, a).tolist() == [1.0, 1.0]
        finally:
            library._destroy()
        assert packet(a, a).item() == 2.0


def test_a_replaced_kernel_is_seen_inside_of_transforms() -> None:
    square = torch.func.vmap(lambda x: torch.exp2(x))
    a = torch.ones(2)
    assert square(a).tolist() == [2.0, 2.0]
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("exp2", lambda self: self.clone(), "CPU")
        assert square(a).tolist() == [1.0, 1.0]
    finally:
        library._destroy()
    assert square(a).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_strides_are_saved_in_bytes_whatever_the_tensor(place: str) -> None:
    for kind in (lambda tensor: tensor, torch.nn.Parameter):
        a = kind(torch.ones(3, 2, device=place).t()).detach().requires_grad_()
        node = a.mm(torch.ones(3, 2, device=place, requires_grad=True)).grad_fn
        assert node._saved_self_byte_strides == (4, 8)
        assert node._saved_mat2_byte_strides == (8, 4)


@pytest.mark.parametrize(
    ("first", "strides"),
    [
        (torch.ones(4, 1).expand(4, 3), (3, 1)),
        (torch.ones(4, 6)[:, ::2], (3, 1)),
        (torch.ones(1, 3)[:, :1].expand(4, 3), (3, 1)),
        (torch.ones(3, 4).t(), (1, 4)),
    ],
    ids=["expanded", "sliced", "one number", "transposed"],
)
def test_a_first_operand_in_row_major_order_gives_a_contiguous_result(
    first: Any, strides: tuple[int, ...]
) -> None:
    assert (first * torch.ones(4, 3)).stride() == strides
    assert (torch.ones(4, 3) * first).stride() == (3, 1)


def test_an_operator_needs_its_other_operand() -> None:
    with pytest.raises(TypeError):
        torch.ones(2).__add__()


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_the_quick_case_is_for_calls_without_a_dtype(name: str) -> None:
    op = getattr(torch.ops.aten, name).default
    assert op.direct(torch.ones(3), torch.float64).dtype is torch.float64
    assert op.direct(torch.ones(3), None).dtype is torch.float32


@pytest.mark.parametrize(
    ("call", "same"),
    [
        (lambda x: torch.nansum(x, axis=0, keepdim=True), lambda x: torch.nansum(x, 0, True)),
        (lambda x: torch.sum(x, axis=1, keepdims=True), lambda x: x.sum(1, True)),
        (
            lambda x: torch.fft.fft(x, axis=0, norm="ortho"),
            lambda x: torch.fft.fft(x, None, 0, "ortho"),
        ),
        (lambda x: torch.argmax(x, axis=0, keepdim=True), lambda x: x.argmax(0, True)),
    ],
)
def test_an_argument_by_another_name_before_one_by_its_own(call, same):
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(call(x), same(x))


def test_truth_values_are_taken_as_numbers():
    x = torch.ones(2)
    assert torch.nn.functional.pad(x > 0, (1, 0), value=False).tolist() == [False, True, True]
    assert torch.dropout(x, True, True).tolist() == [0.0, 0.0]
    assert torch.nn.functional.threshold(x, True, False).tolist() == [0.0, 0.0]
