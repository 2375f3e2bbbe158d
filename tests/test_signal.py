"""torch.signal.windows and the device module of the CPU."""

from __future__ import annotations

import pytest

import rushlight as torch

windows = torch.signal.windows


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("bartlett", {}, [0, 0.5, 1, 0.5, 0]),
        ("hann", {"sym": False}, [0, 0.3455, 0.9045, 0.9045, 0.3455]),
        ("cosine", {}, [0.3090, 0.8090, 1, 0.8090, 0.3090]),
        ("exponential", {"center": 1.0, "sym": False}, [0.3679, 1, 0.3679, 0.1353, 0.0498]),
        ("gaussian", {}, [0.1353, 0.6065, 1, 0.6065, 0.1353]),
        ("general_cosine", {"a": [0.46, 0.23, 0.31]}, [0.54, 0.15, 1, 0.15, 0.54]),
        ("general_hamming", {"alpha": 0.6}, [0.2, 0.6, 1, 0.6, 0.2]),
        ("kaiser", {}, [0, 0.2157, 1, 0.2157, 0]),
        ("nuttall", {}, [0.0004, 0.2270, 1, 0.2270, 0.0004]),
    ],
)
def test_values(name: str, options: dict[str, object], wanted: list[float]) -> None:
    found = getattr(windows, name)(5, **options)
    assert found.tolist() == pytest.approx(wanted, abs=1e-4)
    assert getattr(windows, name)(0, **options).shape == (0,)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="blackman requires non-negative window length, got M=-1"):
        windows.blackman(-1)
    with pytest.raises(ValueError, match="expects float32 or float64 dtypes, got: torch.float16"):
        windows.cosine(5, dtype=torch.float16)
    with pytest.raises(ValueError, match="Center must be None"):
        windows.exponential(5, center=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        windows.hann(5, size=2)


def test_device_modules() -> None:
    assert torch.get_device_module() is torch.cpu
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1
    mine = torch.cpu.Stream()
    with torch.cpu.stream(mine):
        assert torch.cpu.current_stream() is mine
    assert torch.cpu.current_stream() is not mine
    with pytest.raises(RuntimeError, match="expect torch.device, str, or None"):
        torch.get_device_module(3)
