"""Event files are read back by the tensorboard package."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base.errors import MissingExtra, MissingFeature


def test_who_lacks_the_package_is_told(tmp_path, monkeypatch):
    import sys

    from rushlight.utils import tensorboard

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(
        tensorboard, "_files",
        tensorboard.lazy_import("tensorboard.summary.writer.event_file_writer", "tensorboard"),
    )  # fmt: skip
    with pytest.raises(MissingExtra, match=r"rushlight\[tensorboard\]"):
        tensorboard.SummaryWriter(tmp_path)


def test_what_is_written_is_read(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rushlight.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", torch.tensor(1.0) / (step + 1), step)
        writer.add_scalars("both", {"a": 1, "b": 2.0}, 0)
        writer.add_histogram("weights", torch.arange(-3.0, 4.0), 0)
        writer.add_image("picture", torch.rand(3, 4, 5), 0)
        writer.add_images("pictures", torch.rand(3, 1, 4, 5), 0)
        writer.add_text("note", "**well**", 0)
        with pytest.raises(MissingFeature, match="add_graph"):
            writer.add_graph(None)
    read = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0})
    read.Reload()
    assert [(e.step, round(e.value, 4)) for e in read.Scalars("loss")] == [
        (0, 1.0), (1, 0.5), (2, 0.3333),
    ]  # fmt: skip
    histogram = read.Histograms("weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (-3, 3, 7, 0)
    assert sum(histogram.bucket) == 7
    image = read.Images("picture")[0]
    assert (image.width, image.height) == (5, 4)
    assert read.Images("pictures")[0].width == 10
    assert b"well" in read.Tensors("note/text_summary")[0].tensor_proto.string_val[0]
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["both_a", "both_b"]


def test_settings_of_a_run_and_curves_of_precision(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rushlight.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        settings = {"lr": torch.tensor(0.5), "fast": True, "name": "x"}
        writer.add_hparams(settings, {"accuracy": 0.75}, {"name": ["x", "y"]}, "run", 3)
        writer.add_pr_curve("curve", torch.tensor([0, 1, 1]), torch.tensor([0.1, 0.9, 0.05]), 0, 4)
    run = EventAccumulator(str(tmp_path / "run"))
    run.Reload()
    assert [event.value for event in run.Scalars("accuracy")] == [0.75]
    assert sorted(run.summary_metadata)[0] == "_hparams_/experiment"
    whole = EventAccumulator(str(tmp_path))
    whole.Reload()
    values = whole.Tensors("curve")[0].tensor_proto.float_val
    # What is true and found, and what is found though it is not, from each threshold upwards.
    assert list(values[:8]) == [2, 1, 1, 0, 1, 0, 0, 0]
    assert list(values[16:]) == pytest.approx([2 / 3, 1, 1, 0, 1, 0.5, 0.5, 0])
