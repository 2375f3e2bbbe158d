"""torch.utils.tensorboard: `SummaryWriter`, through the tensorboard package."""

from __future__ import annotations

import io
import os
import time
from typing import Any

import numpy as np

from rushlight.base.lazy import lazy_import
from rushlight.core.tensor import Tensor

__all__ = ["SummaryWriter"]

# Imported when a writer is made; who lacks them is told what to install.
_summaries = lazy_import("tensorboard.compat.proto.summary_pb2", extra="tensorboard")
_events = lazy_import("tensorboard.compat.proto.event_pb2", extra="tensorboard")
_tensors = lazy_import("tensorboard.compat.proto.tensor_pb2", extra="tensorboard")
_shapes = lazy_import("tensorboard.compat.proto.tensor_shape_pb2", extra="tensorboard")
_files = lazy_import("tensorboard.summary.writer.event_file_writer", extra="tensorboard")


def as_array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def as_number(value: Any) -> float:
    array = as_array(value)
    if array.size != 1:
        raise ValueError(f"a scalar has one element, not {array.size}")
    return float(array.reshape(()))


def as_pixels(image: Any, dataformats: str) -> Any:
    """Bytes [height, width, channels] of an image whose dims come in another order."""
    array, order = as_array(image), dataformats.upper()
    if array.ndim != len(order):
        raise ValueError(
            f"size of input tensor and input format are different. tensor shape: {array.shape}, "
            f"input_format: {order}"
        )
    if "C" not in order:
        array, order = array[..., None], order + "C"
    array = array.transpose([order.index(each) for each in "HWC"])
    if array.shape[2] == 1:
        array = np.repeat(array, 3, 2)
    return array if array.dtype == np.uint8 else (array * 255).clip(0, 255).astype(np.uint8)


def in_a_grid(images: Any) -> Any:
    """Images of a batch [n, channels, height, width] beside and below one another."""
    array = as_array(images)
    columns = int(np.ceil(np.sqrt(len(array))))
    rows = -(-len(array) // columns)
    count, channels, height, width = array.shape
    grid = np.zeros((channels, rows * height, columns * width), array.dtype)
    for i in range(count):
        y, x = i // columns * height, i % columns * width
        grid[:, y : y + height, x : x + width] = array[i]
    return grid


def plain(value: Any) -> Any:
    """A setting as a number, a truth value or a text."""
    value = value.item() if isinstance(value, (Tensor, np.generic)) else value
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def kind_of(value: Any) -> tuple[str, str]:
    """What TensorBoard calls the type of a setting, and the field that holds it."""
    if isinstance(value, bool):
        return "BOOL", "bool_value"
    is_number = isinstance(value, (int, float))
    return ("FLOAT64", "number_value") if is_number else ("STRING", "string_value")


def default_buckets() -> list[float]:
    """Limits that grow by a tenth each, on both sides of zero."""
    positive, value = [], 1e-12
    while value < 1e20:
        positive.append(value)
        value *= 1.1
    return [-each for each in reversed(positive)] + [0.0, *positive]


def hparams(
    hparam_dict: dict[str, Any],
    metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, Any] | None = None,
) -> tuple[Any, Any, Any]:
    """Summaries of a run's settings: what they and the measures are, how it begins and ends."""
    data = lazy_import("tensorboard.plugins.hparams.plugin_data_pb2", extra="tensorboard")
    terms = lazy_import("tensorboard.plugins.hparams.api_pb2", extra="tensorboard")
    settings = {name: plain(value) for name, value in hparam_dict.items()}
    domains = hparam_domain_discrete or {}
    infos, start = [], data.SessionStartInfo()
    for name, value in settings.items():
        kind, field = kind_of(value)
        info = terms.HParamInfo(name=name, type=getattr(terms, f"DATA_TYPE_{kind}"))
        if name in domains:
            info.domain_discrete.extend(domains[name])
        infos.append(info)
        setattr(start.hparams[name], field, value)
    metrics = [terms.MetricInfo(name=terms.MetricName(tag=name)) for name in metric_dict or {}]

    def summary(part: str, value: Any) -> Any:
        content = data.HParamsPluginData(version=0, **{part: value})
        named = _summaries.SummaryMetadata.PluginData(
            plugin_name="hparams", content=content.SerializeToString()
        )
        metadata = _summaries.SummaryMetadata(plugin_data=named)
        held = _summaries.Summary.Value(tag=f"_hparams_/{part}", metadata=metadata)
        return _summaries.Summary(value=[held])

    return (
        summary("experiment", terms.Experiment(hparam_infos=infos, metric_infos=metrics)),
        summary("session_start_info", start),
        summary("session_end_info", data.SessionEndInfo(status=terms.STATUS_SUCCESS)),
    )


class SummaryWriter:
    """Writes scalars, histograms, images and texts to event files that TensorBoard shows."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if log_dir is None:
            import socket

            moment = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{moment}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.options = (max_queue, flush_secs, filename_suffix)
        self.writers = {self.log_dir: self.open(self.log_dir)}
        if purge_step is not None:
            self.write_event(step=purge_step, file_version="brain.Event:2")
            session = _events.SessionLog(status=_events.SessionLog.START)
            self.write_event(step=purge_step, session_log=session)

    def open(self, folder: str) -> Any:
        return _files.EventFileWriter(folder, *self.options)

    def get_logdir(self) -> str:
        return self.log_dir

    def write_event(
        self, walltime: float | None = None, folder: str | None = None, **fields: Any
    ) -> None:
        moment = time.time() if walltime is None else walltime
        step = fields.pop("step", None)
        event = _events.Event(wall_time=moment, **fields)
        if step is not None:
            event.step = int(step)
        self.writers[folder or self.log_dir].add_event(event)

    def write(
        self, value: dict[str, Any], step: Any, walltime: float | None, folder: str | None = None
    ) -> None:
        summary = _summaries.Summary(value=[_summaries.Summary.Value(**value)])
        self.write_event(walltime, folder, step=step, summary=summary)

    def _get_file_writer(self) -> SummaryWriter:
        """torch: loggers of libraries write their own summaries through it."""
        return self

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        self.write_event(walltime, None, step=global_step, summary=summary)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number of a curve."""
        value = {"tag": tag, "simple_value": as_number(scalar_value)}
        self.write(value, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Numbers of several curves that are shown together, each in a file of its own."""
        for tag, number in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self.writers:
                self.writers[folder] = self.open(folder)
            value = {"tag": main_tag, "simple_value": as_number(number)}
            self.write(value, global_step, walltime, folder)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How numbers are spread."""
        array = as_array(values).astype(np.float64).reshape(-1)
        if array.size == 0:
            raise ValueError("The input has no element.")
        counts, limits = np.histogram(
            array, bins=default_buckets() if bins == "tensorflow" else bins
        )
        used = np.flatnonzero(counts)
        first, last = used[0], used[-1] + 1
        histogram = _summaries.HistogramProto(
            min=array.min(),
            max=array.max(),
            num=array.size,
            sum=array.sum(),
            sum_squares=array @ array,
            bucket_limit=limits[first : last + 1].tolist(),
            bucket=[0.0, *counts[first:last].tolist()],
        )
        self.write({"tag": tag, "histo": histogram}, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: numbers from 0 to 1, or bytes."""
        image = lazy_import("PIL.Image", extra="tensorboard")
        pixels = as_pixels(img_tensor, dataformats)
        file = io.BytesIO()
        image.fromarray(pixels).save(file, format="PNG")
        height, width, channels = pixels.shape
        made = _summaries.Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
        )
        self.write({"tag": tag, "image": made}, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """A batch of pictures, in a grid."""
        order = dataformats.upper()
        array = as_array(img_tensor).transpose([order.index(each) for each in "NCHW"])
        self.add_image(tag, in_a_grid(array), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or a list of them."""
        backend = lazy_import("matplotlib.backends.backend_agg", extra="tensorboard")
        figures = figure if isinstance(figure, list) else [figure]
        pictures = []
        for each in figures:
            canvas = backend.FigureCanvasAgg(each)
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1))
            if close:
                lazy_import("matplotlib.pyplot", extra="tensorboard").close(each)
        self.add_images(tag, np.stack(pictures), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A text, which may be Markdown."""
        plugin = _summaries.SummaryMetadata.PluginData(plugin_name="text")
        content = _tensors.TensorProto(
            dtype="DT_STRING",
            string_val=[text_string.encode()],
            tensor_shape=_shapes.TensorShapeProto(dim=[_shapes.TensorShapeProto.Dim(size=1)]),
        )
        value = {
            "tag": f"{tag}/text_summary",
            "metadata": _summaries.SummaryMetadata(plugin_data=plugin),
            "tensor": content,
        }
        self.write(value, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Settings of a run and what came of them, in a folder of the run's own."""
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        parts = hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(folder, "", None, *self.options) as writer:
            for summary in parts:
                writer.write_event(None, None, step=global_step, summary=summary)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of predictions in [0, 1], at every threshold."""
        truth = as_array(labels).astype(np.float64).reshape(-1)
        scores = as_array(predictions).astype(np.float64).reshape(-1)
        share = 1.0 if weights is None else as_array(weights).reshape(-1)
        count = min(num_thresholds, 127)
        bucket = np.floor(scores * (count - 1)).astype(np.int64)
        # From each threshold upwards.
        hits, false_alarms = (
            np.bincount(bucket, of * share, count)[::-1].cumsum()[::-1]
            for of in (truth, 1.0 - truth)
        )
        least = 1e-7
        curve = np.stack([
            hits, false_alarms, false_alarms[0] - false_alarms, hits[0] - hits,
            hits / np.maximum(least, hits + false_alarms), hits / np.maximum(least, hits[0]),
        ])  # fmt: skip
        self.write_pr_curve(tag, curve, count, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall as they are given, at every threshold."""
        parts = (
            true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall,
        )  # fmt: skip
        curve = np.stack([as_array(part) for part in parts])
        self.write_pr_curve(tag, curve, num_thresholds, global_step, walltime)

    def write_pr_curve(
        self, tag: str, curve: Any, count: int, step: int | None, walltime: float | None
    ) -> None:
        plugin = lazy_import("tensorboard.plugins.pr_curve.plugin_data_pb2", extra="tensorboard")
        data = plugin.PrCurvePluginData(version=0, num_thresholds=min(count, 127))
        named = _summaries.SummaryMetadata.PluginData(
            plugin_name="pr_curves", content=data.SerializeToString()
        )
        sizes = [_shapes.TensorShapeProto.Dim(size=size) for size in curve.shape]
        content = _tensors.TensorProto(
            dtype="DT_FLOAT",
            float_val=curve.reshape(-1).tolist(),
            tensor_shape=_shapes.TensorShapeProto(dim=sizes),
        )
        metadata = _summaries.SummaryMetadata(plugin_data=named)
        self.write({"tag": tag, "metadata": metadata, "tensor": content}, step, walltime)

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED.split():
            from rushlight.base.refusals import refused

            return refused(f"torch.utils.tensorboard.SummaryWriter.{name}", "RL0019")
        raise AttributeError(f"'SummaryWriter' object has no attribute {name!r}")

    def flush(self) -> None:
        """Write what waits to the files."""
        for writer in self.writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.flush()
            writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()


REFUSED = "add_audio add_custom_scalars add_embedding add_graph add_mesh add_onnx_graph add_video"
