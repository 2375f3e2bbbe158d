"""Short-time Fourier transforms: `stft` cuts a signal into frames and transforms each, `istft`
adds overlapping frames up again."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call, overridable
from rushlight.core.geometry import show
from rushlight.core.state import warn_once
from rushlight.opset.exposure import install_method
from rushlight.opset.fourier.fourier import BY_N, BY_ROOT_N, NONE
from rushlight.opset.reduction.reduce import has_values
from rushlight.opset.registry import composite
from rushlight.opset.rules import aten, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("stft",)

# Dtypes that have a tensor type of their own by name.
TYPED = frozenset(("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "Bool"))


def type_text(tensor: Any) -> str:
    name = tensor._dtype.scalar_type_name
    return f"torch.{name}Tensor" if name in TYPED else f"CPU{name}Type"


def option_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


class Frames:
    """How a signal is cut: what both directions are told, and say when they refuse."""

    def __init__(
        self, name: str, source: Any, n_fft: int, hop_length: Any, win_length: Any, window: Any
    ) -> None:
        self.n_fft = n_fft
        self.hop = n_fft >> 2 if hop_length is None else hop_length
        self.width = n_fft if win_length is None else win_length
        shown = "None" if window is None else f"{type_text(window)}{{{show(window.shape)}}}"
        self.text = (
            f"{name}({type_text(source)}{show(source.shape)}, n_fft={n_fft}, "
            f"hop_length={self.hop}, win_length={self.width}, window={shown}"
        )

    def error(self, what: str, **options: Any) -> RuntimeError:
        rest = "".join([f", {name}={option_text(value)}" for name, value in options.items()])
        return RuntimeError(f"{self.text}{rest}) {what}")


ONE_SIDED = "Cannot have onesided output if window or input is complex"


def check_devices(name: str, self: Any, window: Any) -> None:
    if window is not None and window.device != self.device:
        raise RuntimeError(
            f"{name} input and window must be on the same device but got self on {self.device} "
            f"and window on {window.device}"
        )


# -- forward --------------------------------------------------------------------------------------


def wants_complex(self: Any, window: Any, given: Any) -> bool:
    if given is None:
        if self.is_complex() or (window is not None and window.is_complex()):
            return True
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will "
            "further require that return_complex=True in a future PyTorch release."
        )
    if not given:
        warn_once(
            "stft return_complex",
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error.\n"
            "Note: you can still call torch.view_as_real on the complex output to recover the old "
            "return format.",
        )
    return bool(given)


def misfit(frames: Frames, length: Any, window: Any) -> str | None:
    """What is wrong with cutting a signal of `length` into these frames."""
    n_fft, width = frames.n_fft, frames.width
    if geometry.decided(n_fft <= 0) or geometry.decided(n_fft > length):
        return f"expected 0 < n_fft < {length}, but got n_fft={width}"
    if frames.hop <= 0:
        return f"expected hop_length > 0, but got hop_length={frames.hop}"
    if width <= 0 or width > n_fft:
        return f"expected 0 < win_length <= n_fft, but got win_length={width}"
    if window is not None and (window.dim() != 1 or geometry.decided(window.shape[0] != width)):
        return (
            f"expected a 1D window tensor of size equal to win_length={width}, but got window "
            f"with size {show(window.shape)}"
        )
    return None


def windowed(signal: Any, frames: Frames, window: Any, aligned: bool) -> Any:
    """The frames of a signal, (batch, frames, n_fft), times the window in the middle of each."""
    n_fft, width = frames.n_fft, frames.width
    if width < n_fft:
        left = (n_fft - width) // 2
        if window is None:
            window = signal.new_ones((width,))
        window = aten.constant_pad_nd(window, [left, n_fft - width - left])
        if aligned:
            # The first frame's window, not its zeros, starts with the signal; an odd number of
            # zeros may need one place more for the last frame.
            right = left
            if (n_fft - width) % 2 and (signal.shape[1] - width) % frames.hop == 0:
                right += 1
            if right:
                signal = aten.constant_pad_nd(signal, [left, right])
    signal = signal.unfold(1, n_fft, frames.hop)
    return signal if window is None else signal * window


def transform_frames(
    self: Any,
    n_fft: int,
    hop_length: Any,
    win_length: Any,
    window: Any,
    center: bool,
    pad_mode: str,
    normalized: bool,
    onesided: Any,
    return_complex: Any,
    align_to_window: Any,
) -> Any:
    frames = Frames("stft", self, n_fft, hop_length, win_length, window)
    if window is None:
        warn_once(
            "stft window",
            "A window was not provided. A rectangular window will be applied, which is known to "
            "cause spectral leakage. Other windows such as torch.hann_window or "
            "torch.hamming_window are recommended to reduce spectral leakage. To suppress this "
            "warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`.",
        )
    check_devices("stft", self, window)
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    as_complex = wants_complex(self, window, return_complex)
    problem = None
    signal = self
    if self._dtype.category < dtypes.FLOAT:
        problem = "expected a tensor of floating point or complex values"
    elif not 1 <= self.dim() <= 2:
        problem = "expected a 1D or 2D tensor"
    else:
        signal = self.unsqueeze(0) if self.dim() == 1 else self
        if center:
            signal = padded(signal, n_fft // 2, pad_mode)
        problem = misfit(frames, signal.shape[1], window)
    if problem is not None:
        raise frames.error(
            f": {problem}",
            normalized=normalized,
            onesided=onesided,
            return_complex=return_complex,
            align_to_window=align_to_window,
        )
    signal = windowed(signal, frames, window, bool(align_to_window))
    scale = BY_ROOT_N if normalized else NONE
    if signal.is_complex():
        if onesided:
            raise RuntimeError(ONE_SIDED)
        found = aten._fft_c2c(signal, [2], scale, True)
    else:
        found = aten._fft_r2c(signal, [2], scale, True if onesided is None else onesided)
    found = found.transpose(1, 2)
    if self.dim() == 1:
        found = found.squeeze(0)
    return found if as_complex else aten.view_as_real(found)


def padded(signal: Any, amount: int, mode: str) -> Any:
    """A signal of one or two dims with `amount` more at both ends."""
    rank = signal.dim()
    extended = [1] * (3 - rank) + list(signal.shape)
    whole = aten.pad(signal.view(extended), [amount, amount], mode)
    return whole.view(whole.shape[-rank:])


TAIL = "bool normalized=False, bool? onesided=None, bool? return_complex=None, "
HEAD = "Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "


def signals(make: Any, length: int) -> Any:
    return make(length), make.strided(2, length)


def plain_samples(make: Any) -> Any:
    for signal in signals(make, 8):
        yield sample(signal, 4, return_complex=True)
        yield sample(signal, 4, 2, 3, make(3), return_complex=True, align_to_window=True)
    yield sample(make(8), 4, 3, 3, None, True, False, return_complex=True)
    yield sample(make(9), 5, 2, window=make(5), return_complex=True)


def center_samples(make: Any) -> Any:
    for signal in signals(make, 8):
        yield sample(signal, 4, window=make(4), return_complex=True)
        yield sample(signal, 5, 2, 3, make(3), True, "constant", return_complex=True)
    yield sample(make(8), 4, 3, center=False, onesided=False, return_complex=True)
    yield sample(make(2, 6), 4, pad_mode="replicate", normalized=True, return_complex=True)
    yield sample(make(7), 4, window=make(4), return_complex=False)


def frame_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(8), 4)
    yield RuntimeError, sample(make(2, 3, 8), 4, return_complex=True)
    yield RuntimeError, sample(make(8), 4, 0, return_complex=True)
    yield RuntimeError, sample(make(8), 4, 2, 5, return_complex=True)
    yield RuntimeError, sample(make(8), 4, window=make(3), return_complex=True)
    yield RuntimeError, sample(make(8), 0, return_complex=True)
    yield RuntimeError, sample(make.ints(8), 4, return_complex=True)


@composite(
    f"stft({HEAD}{TAIL}bool? align_to_window=None) -> Tensor",
    autocast="float32",
    method=False,
    function=None,
    out=False,
    samples=plain_samples,
    errors=frame_errors,
)
def stft_frames(self: Any, *args: Any) -> Any:
    options: Any = (*args[:4], False, "constant", *args[4:])
    return transform_frames(self, *options)


composite(
    f'stft.center({HEAD}bool center=True, str pad_mode="reflect", {TAIL}'
    "bool? align_to_window=None) -> Tensor",
    autocast="float32",
    method=False,
    function=None,
    out=False,
    samples=center_samples,
    errors=frame_errors,
)(transform_frames)


def spectrogram(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Fourier transforms of overlapping frames of a signal: (batch, frequencies, frames)."""
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        # torch: a signal of three dims is padded before it is refused.
        input = padded(input, n_fft // 2, pad_mode)
    options = (normalized, onesided, return_complex, align_to_window)
    return call(stft_frames, (input, n_fft, hop_length, win_length, window, *options))


spectrogram.__name__ = spectrogram.__qualname__ = "stft"
stft = overridable(spectrogram)
install_method(lambda self, *args, **kwargs: stft(self, *args, **kwargs), "stft")


# -- inverse --------------------------------------------------------------------------------------


def inverse_samples(make: Any) -> Any:
    yield sample(make(3, 4), 4, window=make.positive(4))
    yield sample(make.strided(2, 3, 4), 4, 2, window=make.positive(4))
    yield sample(make(4, 3), 4, 1, 3, make.positive(3), normalized=True)
    yield sample(make(3, 4), 4, window=make.positive(4), center=False, length=9)
    yield sample(make(3, 4), 5, 2, length=4)
    yield sample(make(4, 3), 4, window=make.positive(4), return_complex=True, onesided=False)


def inverse_errors(make: Any) -> Any:
    complex_input = make(3, 4, dtype=dtypes.complex64)
    yield RuntimeError, sample(make(3, 4, 2, dtype=dtypes.float32), 4)
    yield RuntimeError, sample(complex_input, 8)
    yield RuntimeError, sample(complex_input, 4, onesided=False)
    yield RuntimeError, sample(complex_input, 4, 5)
    yield RuntimeError, sample(complex_input, 4, 1, 5)
    yield RuntimeError, sample(complex_input, 4, window=make(3, dtype=dtypes.float32))
    yield RuntimeError, sample(complex_input, 4, return_complex=True)
    yield RuntimeError, sample(make(3, 0, dtype=dtypes.complex64), 4)
    yield RuntimeError, sample(complex_input, 4, window=make(4, dtype=dtypes.float32) * 0)


def inverse_misfit(
    self: Any, frames: Frames, frequencies: Any, is_half: bool, window: Any
) -> str | None:
    """What is wrong with spectra that are to be turned into a signal."""
    n_fft, hop, width = frames.n_fft, frames.hop, frames.width
    if self.numel() == 0:
        return "input tensor cannot be empty."
    if self.dim() not in (2, 3):
        # torch: counts the dims of the input seen as real numbers.
        return f"expected a tensor with 3 or 4 dimensions, but got {self.dim() + 1}"
    if frequencies != (n_fft // 2 + 1 if is_half else n_fft):
        wanted = "n_fft / 2 + 1 when onesided=True" if is_half else "n_fft when onesided=False"
        return (
            "expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"{wanted}, but got {frequencies}"
        )
    if not 0 < hop <= width:
        return "expected 0 < hop_length <= win_length"
    if not 0 < width <= n_fft:
        return "expected 0 < win_length <= n_fft"
    if window is not None and (window.dim() != 1 or window.shape[0] != width):
        return "Invalid window shape. window has to be 1D and length of `win_length`"
    return None


@composite(
    f"istft({HEAD}bool center=True, bool normalized=False, bool? onesided=None, "
    "int? length=None, bool return_complex=False) -> Tensor",
    out=False,
    samples=inverse_samples,
    errors=inverse_errors,
)
def istft(
    self: Any,
    n_fft: int,
    hop_length: Any,
    win_length: Any,
    window: Any,
    center: bool,
    normalized: bool,
    onesided: Any,
    length: Any,
    return_complex: bool,
) -> Any:
    if window is None:
        warn_once(
            "istft window",
            "A window was not provided. A rectangular window will be applied. Please provide the "
            "same window used by stft to make the inversion lossless. To suppress this warning "
            "and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`.",
        )
    check_devices("istft", self, window)
    if not self.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    frames = Frames("istft", self, n_fft, hop_length, win_length, window)
    hop, width = frames.hop, frames.width

    def refused(what: str) -> RuntimeError:
        return frames.error(
            what,
            center=center,
            normalized=normalized,
            onesided=onesided,
            length=length,
            return_complex=return_complex,
        )

    count, frequencies = self.size(-1), self.size(-2)
    total = n_fft + hop * (count - 1)
    is_half = frequencies != n_fft if onesided is None else onesided
    problem = inverse_misfit(self, frames, frequencies, is_half, window)
    if problem is not None:
        raise refused(f": {problem}")
    if window is None:
        window = self.new_ones((width,), dtype=self._dtype.to_real())
    elif window.is_complex() and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if width != n_fft:
        left = (n_fft - width) // 2
        window = aten.constant_pad_nd(window, [left, n_fft - width - left])
    spectra = self.unsqueeze(0) if self.dim() == 2 else self
    spectra = spectra.transpose(1, 2)
    scale = BY_ROOT_N if normalized else BY_N
    if return_complex:
        if is_half:
            raise RuntimeError(ONE_SIDED)
        pieces = aten._fft_c2c(spectra, [2], scale, False)
    else:
        if not is_half:
            spectra = aten.slice(spectra, -1, 0, n_fft // 2 + 1)
        pieces = aten._fft_c2r(spectra, [2], scale, n_fft)
    weighted = pieces * window.view(1, 1, n_fft)
    signal = aten.unfold_backward(weighted, [weighted.shape[0], total], 1, n_fft, hop)
    squares = window.pow(2).expand(1, count, n_fft)
    envelope = aten.unfold_backward(squares, [1, total], 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    if length is not None:
        end = start + length
    else:
        end = total - n_fft // 2 if center else total
    signal = aten.slice(signal, 1, start, end)
    envelope = aten.slice(envelope, 1, start, end)
    lowest = envelope.abs().min()
    if has_values(lowest) and bool(lowest < 1e-11):
        raise refused("window overlap add min: 1\n[ CPUBoolType{} ]")
    signal = signal / envelope
    if self.dim() == 2:
        signal = signal.squeeze(0)
    if end > total:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            UserWarning,
            stacklevel=2,
        )
        signal = aten.constant_pad_nd(signal, [0, end - total])
    return signal
