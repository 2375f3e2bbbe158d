"""Profiles: names, numbers, trees, tables, schedules and traces."""

from __future__ import annotations

import json
import threading

import pytest

import rushlight as torch
from rushlight.autograd.profiler import (
    FunctionEvent,
    FunctionEventAvg,
    emit_nvtx,
    profile,
    record_function,
)
from rushlight.autograd.profiler_util import EventList, _format_time
from rushlight.base.errors import MissingFeature
from rushlight.jit.futures import fork, wait
from rushlight.profiler.recorder import profiler_enabled
from tests.capture.profiles import called


def names(prof):
    return [event.name for event in prof.function_events]


def test_ops_and_labels_nest():
    x = torch.ones(3)
    with profile() as prof:
        with record_function("outer"):
            y = x * 2
            with record_function("inner"):
                y - 1
        y / 2
    found = names(prof)
    wanted = ["outer", "aten::mul", "inner", "aten::sub", "aten::div"]
    assert [name for name in found if name in wanted] == wanted
    outer = next(event for event in prof.function_events if event.name == "outer")
    assert [child.name for child in outer.cpu_children] == ["aten::mul", "inner"]
    assert outer.is_user_annotation


def test_enabled_only_inside():
    assert not profiler_enabled()
    with profile():
        assert profiler_enabled()
    assert not profiler_enabled()
    with profile(enabled=False) as prof:
        assert prof is None
        assert not profiler_enabled()


def test_backward_events_carry_the_forward_sequence_number():
    x = torch.ones(3, requires_grad=True)
    with profile() as prof:
        (x * 3).sum().backward()
    events = [e for e in prof.function_events if "Mul" in e.name or e.name == "aten::mul"]
    assert [e.name for e in events[:3]] == [
        "aten::mul",
        "autograd::engine::evaluate_function: MulBackward0",
        "MulBackward0",
    ]
    assert events[0].sequence_nr >= 0
    assert {e.sequence_nr for e in events[:3]} == {events[0].sequence_nr}
    assert events[0].fwd_thread == 0
    assert events[1].fwd_thread == events[0].thread
    assert events[3].sequence_nr == -1
    assert "torch::autograd::AccumulateGrad" in names(prof)


def test_composite_shows_its_inputs_and_its_parts():
    with profile(record_shapes=True) as prof:
        torch.nn.functional.linear(torch.ones(4, 2), torch.ones(3, 2), torch.ones(3))
    event = next(e for e in prof.function_events if e.name == "aten::linear")
    assert event.input_shapes == [[4, 2], [3, 2], [3]]
    assert "aten::addmm" in [child.name for child in event.cpu_children]


def test_memory_and_flops():
    with profile(profile_memory=True, with_flops=True) as prof:
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))
    event = next(e for e in prof.function_events if e.name == "aten::mm")
    assert event.cpu_memory_usage == 2 * 4 * 4
    assert event.flops == 2 * 2 * 3 * 4
    assert "CPU Mem" in prof.table() and "Total FLOPs" in prof.table()


def test_table_sorts_limits_and_heads():
    with profile() as prof:
        for _ in range(3):
            torch.ones(2) + 1
    assert str(prof) == prof.table()
    text = prof.key_averages().table(sort_by="count", row_limit=1, header="HEAD")
    assert "HEAD" in text and "aten::ones" in text and "aten::add" not in text
    with pytest.raises(ValueError, match="sort_by"):
        prof.table(sort_by="colour")


def test_tree_of_fake_events():
    events = EventList()
    for thread, start, end, number in ((1, 0, 1, 1), (1, 1, 2, 2), (0, 0, 2, 3), (0, 1, 2, 4), (0, 1, 3, 5)):  # fmt: skip  # noqa: E501
        events.append(FunctionEvent(number, "", thread, start, end, node_id=0))
    events._populate_cpu_children()
    assert [[child.id for child in event.cpu_children] for event in events] == [
        [], [], [], [], [4],
    ]  # fmt: skip


def test_average_adds_up():
    average = FunctionEventAvg()
    average.add(FunctionEvent(0, "foo", 0, 10, 15))
    average.add(FunctionEvent(1, "foo", 0, 20, 30))
    average.add(average)
    assert (average.key, average.count, average.cpu_time_total) == ("foo", 4, 30)
    assert average.cpu_time == 7.5
    with pytest.raises(ValueError, match="'bar'"):
        average.add(FunctionEvent(2, "bar", 0, 0, 1))


def test_format_time():
    assert [_format_time(t) for t in (1.5, 1500, 2e6)] == ["1.500us", "1.500ms", "2.000s"]


def test_labels_may_end_in_any_order():
    label = record_function("outer")
    with profile() as prof:
        label.__enter__()
        with record_function("inner"):
            label.__exit__(None, None, None)
    assert names(prof) == ["outer", "inner"]


def test_decorator_and_operator_labels():
    @record_function("mine")
    def add(a, b):
        return a + b

    with profile() as prof:
        assert add(1, 2) == 3
        handle = torch.ops.profiler._record_function_enter("legacy", None)
        torch.ops.profiler._record_function_exit(handle)
    assert {"mine", "legacy"} <= set(names(prof))


def test_forked_threads_write_to_the_same_profile():
    def work():
        with record_function("forked"):
            return torch.ones(2) + 1

    with profile() as prof:
        wait(fork(work))
        torch.ones(1)
    forked = next(event for event in prof.function_events if event.name == "forked")
    here = next(event for event in prof.function_events if event.name == "aten::ones")
    assert forked.thread != prof.function_events[-1].thread or here.thread == forked.thread
    assert names(prof).count("forked") == 1


def test_chrome_trace_is_json(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with profile(record_shapes=True) as prof:
        (x * 2).sum().backward()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    entries = json.loads(path.read_text())["traceEvents"]
    assert any(entry["name"] == "aten::mul" and entry["ph"] == "X" for entry in entries)
    assert {entry["ph"] for entry in entries if entry["cat"] == "fwdbwd"} == {"s", "f"}


def test_schedule_hands_over_each_cycle():
    seen = []
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    assert [plan(step).name for step in range(5)] == [
        "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE",
    ]  # fmt: skip

    def ready(prof):
        seen.append([e.name for e in prof.events() if e.is_user_annotation])

    with torch.profiler.profile(schedule=plan, on_trace_ready=ready) as prof:
        for _ in range(5):
            torch.ones(2) + 1
            prof.step()
    assert seen == [["ProfilerStep#2", "ProfilerStep#3"]]


def test_vendor_ranges_are_refused():
    with pytest.raises(MissingFeature, match="NVTX"), emit_nvtx():
        pass
    with emit_nvtx(enabled=False):
        pass
    assert not torch.profiler.itt.is_available()


# -- compiled code ---------------------------------------------------------------------------------


def test_compiled_code_stays_compiled_and_names_its_kernels():
    pytest.importorskip("llvmlite")

    def f(x, w):
        return (x @ w).sin().sum(0)

    compiled = torch.compile(f)
    x, w = torch.randn(5, 4), torch.randn(4, 3)
    plain = compiled(x, w)
    for _ in range(6):
        with called() as ran, profile() as recording:
            watched = compiled(x, w)
        assert f.__code__ not in ran
        assert torch.equal(watched, plain)
        assert names(recording) == ["aten::mm", "fused_sin_sum"]
        assert torch.equal(compiled(x, w), plain)


def test_what_is_compiled_under_a_profiler_reports_too_and_compiling_does_not():
    pytest.importorskip("llvmlite")

    def f(x):
        return (x.exp() - 1).tanh()

    x = torch.randn(9, requires_grad=True)
    with profile() as recording:
        torch.compile(f)(x).sum().backward()
    found = names(recording)
    assert found[0] == "fused_exp_sub_tanh"
    assert sum(name.startswith("fused_") for name in found) == 2
    assert "CompiledFunctionBackward" in found
    assert not {"aten::exp", "aten::sub", "aten::tanh"} & set(found)


def test_compiled_code_is_as_before_when_no_profiler_runs():
    pytest.importorskip("llvmlite")
    from rushlight.codegen import lower
    from rushlight.fx.graph_module import GraphModule

    kept = []

    def backend(gm, inputs):
        from rushlight.compiler.backends import through_aot

        def keep(module: GraphModule, given):
            kept.append(lower(module, given))
            return kept[-1]

        return through_aot(gm, inputs, keep)

    compiled = torch.compile(lambda x: x.cos() + 1, backend=backend)
    compiled(torch.randn(3))
    (code,) = kept
    before = dict(code.scope)
    outer = profile()
    with outer, record_function("label"):
        assert code.scope["segment0"] is not before["segment0"]
        with profile():
            pass
        assert code.scope["segment0"] is not before["segment0"]
    assert code.scope == before


def test_other_threads_run_compiled_code_unseen():
    pytest.importorskip("llvmlite")
    compiled = torch.compile(lambda x: x.sin() * 3)
    x = torch.randn(50)
    expected = compiled(x)
    results = []

    def work():
        results.extend([compiled(x) for _ in range(200)])

    with profile() as recording:
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(20):
            compiled(x)
        thread.join()
    assert names(recording) == ["fused_sin_mul"] * 20
    assert all(torch.equal(result, expected) for result in results)


def test_events_of_all_cycles_are_kept_where_that_is_asked_for():
    def added(**options):
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
        with torch.profiler.profile(schedule=schedule, **options) as run:
            for _ in range(12):
                torch.ones(2).add(1)
                run.step()
        return sum(event.name == "aten::add" for event in run.events())

    assert added() == 2 and added(acc_events=True) == 4


def test_nested_tensors_have_no_shape_to_record():
    given = torch.nested.nested_tensor([torch.ones(2, 5), torch.ones(3, 5)], layout=torch.jagged)
    with torch.profiler.profile(record_shapes=True) as run:
        torch.nn.functional.linear(given, torch.ones(3, 5))
    assert any(event.name == "aten::linear" for event in run.events())
