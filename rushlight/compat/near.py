"""Names that come close to a missing one: by what they are for, by where, and by spelling.

A word of `CONCEPTS` in the missing name or its module leads to what serves the purpose. Otherwise
a name is near if it is the same in another namespace, has the same words, or is a slip of the pen:
likeness of letters alone does not count.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from types import ModuleType
from typing import Any

__all__ = ["CONCEPTS", "PUBLIC", "ROOTS", "nearest", "object_at"]

ROOTS = ("torch", "functorch", "rushlight")
# Where names are looked for that were written in the wrong place.
PUBLIC = (
    "torch",
    "torch.Tensor",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.autograd",
    "torch.func",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.utils",
    "torch.utils.data",
    "torch.distributions",
    "torch.amp",
    "torch.fx",
    "torch.jit",
    "torch.export",
    "torch.testing",
)
# Words, with what serves the same purpose; the first group that fits is taken.
CONCEPTS: tuple[tuple[str, str], ...] = (
    ("tensorrt tensorpipe inductor dynamo triton", "torch.compile torch.compiler.disable"),
    ("cpp extension cppextension load_inline", "torch.library.custom_op torch.compile"),
    ("cuda cudagraph cudnn nccl nvtx xpu hip rocm mps", "torch.accelerator.is_available torch.cpu"),
    ("quantize quantized quantization qint qat observer int8",
     "torch.float16 torch.bfloat16 torch.amp.autocast"),
    ("ddp fsdp distributeddataparallel distributed rpc dtensor",
     "torch.distributed.is_available torch.nn.DataParallel"),
    ("syncbatchnorm", "torch.nn.BatchNorm1d torch.nn.BatchNorm2d"),
    ("package deploy mobile lite", "torch.jit.save torch.export.save torch.save"),
    ("onnx caffe2", "torch.onnx.export torch.export.export"),
    ("vulkan metal mkldnn xnnpack", "torch.compile"),
    ("nvfuser nnc freeze", "torch.jit.freeze torch.compile"),
    ("profiler kineto", "torch.profiler.profile torch.profiler.record_function"),
    ("nested jagged ragged", "torch.nested.nested_tensor torch.nn.utils.rnn.pad_sequence"),
    ("functorch transforms", "torch.func"),
    ("checkpoint rematerialize", "torch.utils.checkpoint.checkpoint"),
    ("datapipes torchdata", "torch.utils.data.IterDataPipe torch.utils.data.IterableDataset"),
)  # fmt: skip
# From here on two spellings are a slip of the pen.
SLIP = 0.8


def object_at(path: str) -> Any:
    """The module, class or function a dotted torch path names; None where there is none."""
    place, _, leaf = path.rpartition(".")
    if not place:
        return importlib.import_module(leaf)
    owner = object_at(place)
    if owner is None:
        return None
    # a report must not fail because some module does
    with suppress(Exception):
        return getattr(owner, leaf)
    with suppress(Exception):
        return importlib.import_module(path)
    return None


def names_of(owner: Any, place: str, private: bool) -> set[str]:
    from rushlight.compat import alias_names

    names = {*dir(owner), *alias_names(place)}
    path = getattr(owner, "__path__", None)
    if isinstance(owner, ModuleType) and path is not None:
        import pkgutil

        names.update(m.name for m in pkgutil.iter_modules(list(path)))
    return {n for n in names if not n.startswith("__") and (private or not n.startswith("_"))}


def words_of(name: str) -> list[str]:
    """The words of a name: `LayerNorm2d` has "layer", "norm" and "2d"."""
    import re

    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]*", name)]


def by_purpose(parts: list[str], wanted: str) -> list[str]:
    """What the table knows for the missing name, or for the modules that are not there."""
    asked = {wanted.lower(), *words_of(wanted), *[part.lower().lstrip("_") for part in parts]}
    for words, targets in CONCEPTS:
        if asked.intersection(words.split()):
            return [path for path in targets.split() if object_at(path) is not None]
    return []


def likeness(wanted: str, candidate: str) -> float:
    """How near a spelling is: 0 unless words are shared or a letter has slipped."""
    from difflib import SequenceMatcher

    same = SequenceMatcher(None, wanted.lower(), candidate.lower(), autojunk=False).ratio()
    if same >= SLIP:
        return 1 + same
    mine, theirs = set(words_of(wanted)), set(words_of(candidate))
    shared = {word for word in mine & theirs if len(word) > 2}
    if not shared:
        return 0.0
    covered = sum(map(len, shared)) / max(sum(map(len, mine)), sum(map(len, theirs)))
    return covered if covered >= 0.5 else 0.0


def nearest(name: str, count: int = 5) -> list[str]:
    """Names rushlight has that come close to the dotted `name`, the nearest first."""
    parts = name.split(".")
    if len(parts) < 2 or parts[0] not in ROOTS or not all(p.isidentifier() for p in parts):
        return []
    depth = len(parts) - 1
    while (owner := object_at(".".join(parts[:depth]))) is None:
        depth -= 1
    place, wanted = ".".join(parts[:depth]), parts[depth]

    # the same name in another namespace is the likeliest
    others = [f"{path}.{wanted}" for path in PUBLIC if path != place and wanted[0] != "_"]
    found = [other for other in others if object_at(other) is not None]
    scored = [
        (likeness(wanted, candidate), candidate)
        for candidate in sorted(names_of(owner, place, wanted.startswith("_")))
    ]
    near = sorted([pair for pair in scored if pair[0]], key=lambda pair: (-pair[0], pair[1]))
    found += [f"{place}.{candidate}" for _, candidate in near]
    # A known purpose goes before a slip of the pen: tensorrt is no misspelt tensor.
    is_known = any([parts[-1].lower() in words.split() for words, _ in CONCEPTS])
    if is_known or not near or near[0][0] < 1:
        found = [*by_purpose(parts[1:], parts[-1]), *found]
    return list(dict.fromkeys(found))[:count]
