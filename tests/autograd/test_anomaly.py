"""Anomaly detection: NaN checks, where nodes came from, where saved tensors were overwritten."""

from __future__ import annotations

import gc
import io
import sys
import warnings
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import Function, detect_anomaly, set_detect_anomaly


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


class NanGrad(Function):
    @staticmethod
    def forward(ctx, x, slot):
        ctx.slot = slot
        return x.sum() * 1.0, x.sum() * 2.0

    @staticmethod
    def backward(ctx, first, second):
        grad = torch.ones(2) * (first + second)
        return (grad * float("nan") if ctx.slot == 0 else grad), None


def test_entering_warns_and_nests():
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = detect_anomaly(check_nan=False)
    with mode:
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
        with set_detect_anomaly(True):
            assert torch.is_anomaly_check_nan_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    assert not torch.is_anomaly_enabled()


def test_nan_is_an_error_that_names_the_node_and_its_forward_call():
    NanGrad.apply(leaf(1.0, 2.0), 0)[0].backward()
    with set_detect_anomaly(True):
        y, _ = NanGrad.apply(leaf(1.0, 2.0), 0)
        with (
            pytest.warns(
                UserWarning, match=r"Error detected in NanGradBackward(.|\n)*NanGrad.apply"
            ),
            pytest.raises(
                RuntimeError,
                match="Function 'NanGradBackward' returned nan values in its 0th output.",
            ),
        ):
            y.backward()


def test_without_recorded_forward_the_report_says_so():
    y, _ = NanGrad.apply(leaf(1.0, 2.0), 0)
    silent = "No forward pass information available"
    with (
        set_detect_anomaly(True),
        pytest.warns(UserWarning, match=silent),
        pytest.raises(RuntimeError, match="returned nan"),
    ):
        y.backward()


def test_check_nan_can_be_off():
    with set_detect_anomaly(True, check_nan=False):
        NanGrad.apply(leaf(1.0, 2.0), 0)[0].backward()


def test_second_order_failure_reports_the_node_that_induced_it():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return Inner.apply(grad)

    class Inner(Function):
        @staticmethod
        def forward(ctx, grad):
            return grad.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("inner")

    with set_detect_anomaly(True):
        x, start = leaf(1.0), leaf(1.0)
        (g,) = torch.autograd.grad(Fails.apply(x), x, start, create_graph=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match="inner"):
                g.backward()
    texts = [str(w.message) for w in caught]
    assert len(texts) == 2
    assert "Error detected in InnerBackward" in texts[0]
    assert "Previous calculation was induced by FailsBackward" in texts[1]


def test_overwritten_saved_tensor_names_both_lines():
    with set_detect_anomaly(True):
        a = leaf(1.0) * 1
        y = a.sin()  # saved here
        a.add_(1)  # overwritten here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(RuntimeError, match="modified by an inplace operation") as info:
                y.backward()
    text = str(info.value)
    assert "The tensor was saved by SinBackward0 at:" in text and "# saved here" in text
    assert text.index("# saved here") < text.index("It was overwritten at:")
    assert "# overwritten here" in text[text.index("It was overwritten at:") :]
    assert "/rushlight/core/" not in text


def test_report_goes_to_stderr_where_warnings_are_errors(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with set_detect_anomaly(True):
        a = leaf(1.0) * 1
        y = a**2
        a.add_(1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
    assert "Error detected in PowBackward0" in stream.getvalue()


def test_metadata_is_freed_without_the_collector():
    class Payload:
        pass

    gc.collect()
    gc.disable()
    try:
        with set_detect_anomaly(True):
            x = torch.ones(2, requires_grad=True)
            (g,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
            payload = Payload()
            alive = weakref.ref(payload)
            node = g.grad_fn
            while node.metadata.get("parent_") is not None:
                node = node.metadata["parent_"]
            node.metadata["payload"] = payload
            del payload, node
            assert alive() is not None
            del g
            assert alive() is None
    finally:
        gc.enable()


def through_view(a):
    a[0:1].mul_(2)  # overwritten here


def without_grad(a):
    with torch.no_grad():
        a.zero_()  # overwritten here


def by_item(a):
    a[0] = 3.0  # overwritten here


def by_out(a):
    torch.ones(1, out=a.detach())  # overwritten here


def by_detached(a):
    a.detach().fill_(0)  # overwritten here


def by_set(a):
    with torch.no_grad():
        a.set_(torch.zeros(1))  # overwritten here


def by_dirty_function(a):
    class Write(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    Write.apply(a)  # overwritten here


WRITES = [
    through_view, without_grad, by_item, by_out, by_detached, by_set, by_dirty_function,
]  # fmt: skip


class Saver(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


SAVES = {
    "op": lambda a: a.sin(),  # saved here
    "function": lambda a: Saver.apply(a),  # saved here
    "list": lambda a: torch.stack([a * a, a]).sum(),  # saved here
}


@pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.filterwarnings("ignore")
def test_both_lines_are_named_however_it_was_overwritten(save, write):
    with set_detect_anomaly(True):
        a = leaf(1.0) * 1
        y = save(a)
        write(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as info:
            y.backward()
    saved, overwritten = str(info.value).split("It was overwritten at:")
    assert "# saved here" in saved and "# overwritten here" in overwritten


@pytest.mark.filterwarnings("ignore")
def test_overwritten_result_names_both_lines():
    with set_detect_anomaly(True):
        y = leaf(1.0).exp()  # saved here
        y.add_(1)  # overwritten here
        with pytest.raises(RuntimeError, match="output 0 of AddBackward0|ExpBackward0") as info:
            y.backward()
    saved, overwritten = str(info.value).split("It was overwritten at:")
    assert "# saved here" in saved and "# overwritten here" in overwritten


def test_without_the_mode_the_error_tells_of_it():
    a = leaf(1.0) * 1
    y = a.sin()
    a.add_(1)
    with pytest.raises(RuntimeError, match=r"set_detect_anomaly\(True\)") as info:
        y.backward()
    assert "overwritten at" not in str(info.value)
