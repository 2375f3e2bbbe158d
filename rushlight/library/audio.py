"""The operators of torchaudio's compiled library: loops over samples and over frames.

They come when the library is loaded, as `import torchaudio` does. Recursions run in doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import construct
from rushlight.core.tensor import Tensor
from rushlight.library.registration import Library
from rushlight.opset import functions

__all__ = ["align", "overdrive", "run_filter", "transduce"]

FACTS, LOOPS = Library("_torchaudio", "DEF"), Library("torchaudio", "DEF")
BLANK = "blank must be within [0, num classes)"


def run_filter(input_signal_windows: Tensor, a_coeff_flipped: Tensor, output: Tensor) -> Tensor:
    """What a recursive filter adds to its input, sample by sample; `output` begins with zeros."""
    batch, channels, count = input_signal_windows.shape
    weights = a_coeff_flipped.numpy().astype(np.float64)[:, :-1].T[:, None]
    order = len(weights)
    found = np.zeros((count + order, batch, channels))
    found[:order] = np.moveaxis(output.numpy()[..., :order], 2, 0)
    found[order:] = np.moveaxis(input_signal_windows.numpy(), 2, 0)
    for sample in range(count):
        found[sample + order] -= (weights * found[sample : sample + order]).sum(0)
    output.numpy()[...] = np.moveaxis(found, 0, 2)
    return output


def overdrive(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The distorted signal with its slow part taken out, mixed with the clean one."""
    inner, before, held = temp.numpy(), last_in.numpy(), last_out.numpy()
    clean, found = waveform.numpy(), output_waveform.numpy()
    for sample in range(clean.shape[1]):
        held[...] = inner[:, sample] - before + 0.995 * held
        before[...] = inner[:, sample]
        found[:, sample] = clean[:, sample] * 0.5 + held * 0.75
    return last_in, last_out, output_waveform


def align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The likeliest path of labels and blanks through the frames that spells the targets."""
    if log_probs.shape[0] != 1:
        raise RuntimeError("Batch size must be 1 for `forced_align`.")
    if not 0 <= blank < log_probs.shape[-1]:
        raise RuntimeError(f"{BLANK}, got {blank}")
    marks, labels = log_probs.numpy()[0], targets.numpy()[0]
    frames, repeats = len(marks), int((labels[1:] == labels[:-1]).sum())
    if frames < len(labels) + repeats:
        raise RuntimeError(
            "targets length is too long for CTC. Found targets length: "
            f"{len(labels)}, log_probs length: {frames}, and number of repeats: {repeats}"
        )
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    # From the label before without the blank between, where the two differ.
    leaps = np.zeros(len(states), bool)
    leaps[3::2] = labels[1:] != labels[:-1]
    scores = np.full(len(states), -np.inf, marks.dtype)
    scores[:2] = marks[0, states[:2]]
    steps = np.zeros((frames, len(states)), np.int8)
    for frame in range(1, frames):
        ways = np.full((3, len(states)), -np.inf, marks.dtype)
        ways[0], ways[1, 1:] = scores, scores[:-1]
        ways[2, 2:] = np.where(leaps[2:], scores[:-2], -np.inf)
        steps[frame] = ways.argmax(0)
        scores = ways.max(0) + marks[frame, states]
    place = len(states) - 1 - int(len(states) > 1 and scores[-1] <= scores[-2])
    path = np.empty(frames, labels.dtype)
    for frame in reversed(range(frames)):
        path[frame] = states[place]
        place -= steps[frame, place]
    found = construct.from_numpy(path)[None]
    return found, construct.from_numpy(marks[np.arange(frames), path])[None]


def transduce(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int,
    clamp: float, fused_log_softmax: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Costs of transducers, and what a cost of one gives the logits for a gradient."""
    if not 0 <= blank < logits.shape[-1]:
        raise RuntimeError(f"{BLANK}, got {blank}")
    marks = (functions.log_softmax(logits.double(), -1) if fused_log_softmax else logits).numpy()
    grads, costs = np.zeros(marks.shape), np.zeros(len(marks))
    lengths = zip(logit_lengths.tolist(), target_lengths.tolist(), strict=True)
    for sample, (frames, count) in enumerate(lengths):
        labels = targets.numpy()[sample, :count]
        own = marks[sample, :frames, : count + 1].astype(np.float64)
        costs[sample], grads[sample, :frames, : count + 1] = walk(
            own, labels, blank, fused_log_softmax
        )
    if clamp > 0:
        grads = grads.clip(-clamp, clamp)
    answers = (construct.from_numpy(each).to(logits.dtype) for each in (costs, grads))
    return tuple(answers)


def walk(marks: Any, labels: Any, blank: int, fused: bool) -> tuple[float, Any]:
    """The cost of all walks through frames and labels, and its gradient."""
    frames, places = marks.shape[:2]
    silent, spoken = marks[..., blank], marks[:, np.arange(places - 1), labels]
    before = np.full((frames, places), -np.inf)
    after = np.full((frames + 1, places + 1), -np.inf)
    before[0, 0], after[frames, places - 1] = 0.0, 0.0
    for frame in range(frames):
        for place in range(places):
            if frame:
                before[frame, place] = before[frame - 1, place] + silent[frame - 1, place]
            if place:
                before[frame, place] = np.logaddexp(
                    before[frame, place], before[frame, place - 1] + spoken[frame, place - 1]
                )
    for frame in reversed(range(frames)):
        for place in reversed(range(places)):
            after[frame, place] = after[frame + 1, place] + silent[frame, place]
            if place < places - 1:
                after[frame, place] = np.logaddexp(
                    after[frame, place], after[frame, place + 1] + spoken[frame, place]
                )
    total = after[0, 0]
    through = np.exp(before + after[:-1, :-1] - total)
    grads = np.exp(marks) * through[..., None] if fused else np.zeros_like(marks)
    grads[..., blank] -= np.exp(before + silent + after[1:, :-1] - total)
    told = np.exp(before[:, :-1] + spoken + after[:-1, 1:-1] - total)
    grads[:, np.arange(places - 1), labels] -= told
    return -total, grads


LOSS = "Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, "
OPERATORS = {
    "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, "
    "Tensor(a!) padded_output_waveform) -> Tensor(a!)": run_filter,
    "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, "
    "Tensor(c!) output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))": overdrive,
    "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank) -> (Tensor, Tensor)": align,
    f"rnnt_loss_forward({LOSS}float clamp, bool fused_log_softmax) -> (Tensor, Tensor)": transduce,
}
for schema, function in OPERATORS.items():
    LOOPS.define(schema)
    LOOPS.impl(schema.partition("(")[0], function, "CPU")
FACTS.define("is_align_available() -> bool")
FACTS.impl("is_align_available", lambda: True, "CompositeExplicitAutograd")
FACTS.define("cuda_version() -> int?")
FACTS.impl("cuda_version", lambda: None, "CompositeExplicitAutograd")
