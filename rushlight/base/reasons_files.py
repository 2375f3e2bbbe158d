"""Refusals of checkpoints, and of loaders of data: a part of `base.reasons`."""

from __future__ import annotations

from rushlight.base.errors import Reason
from rushlight.base.reasons_names import missing

__all__ = ["FILES_REASONS"]

FILES_REASONS: dict[str, Reason] = {
    # -- files
    "RL0901": Reason(
        "The file is not a valid checkpoint: {what}.",
        "It is damaged, cut off, of another kind, or made to mislead.",
        "Fetch or write it again; a checkpoint is what torch.save writes.",
    ),
    "RL0902": Reason(
        "The file is not a valid safetensors file: {what}.",
        "It is damaged, cut off, of another kind, or made to mislead.",
        "Fetch or write it again; torch.load reads checkpoints of torch.save.",
    ),
    "RL0903": missing(
        "RL0903",
        "The format stores numbers as little-endian machines hold them.",
        "Use torch.save and torch.load.",
    ),
    "RL0904": missing(
        "RL0904",
        "A checkpoint that is mapped is never written to.",
        "Use MAP_PRIVATE and save what you change.",
    ),
    "RL0905": Reason(
        "save(): a {type} has no memory and cannot be written to a file",
        remedy="Save the tensors it stands for, outside of the traced function.",
    ),
    "RL0906": Reason(
        "Rushlight has no {name}, which the file names",
        "With weights_only=False, a file's objects are made from the classes it names.",
        "Load it with weights_only=True, which reads unknown objects as inert records.",
    ),
    "RL0907": Reason(
        "The file was written on a machine with another byte order and holds bytes without a "
        "dtype, which cannot be turned round.",
        remedy="Save typed tensors there, or write the file again on a little-endian machine.",
    ),
    "RL0908": Reason(
        "The file is a TorchScript archive. Please use torch.jit.load to load it.",
        "TorchScript programs are not run by Rushlight.",
        "Save the module's state_dict() with torch.save instead.",
    ),
    "RL0909": Reason(
        "The file is empty, or its position is at its end.",
        remedy="Call seek(0) on a file that has been written or read before.",
    ),
    "RL0910": Reason(
        "The file is not a checkpoint of torch.save. Read safetensors files with "
        "rushlight.io.safetensors.load_file.",
        "Its first bytes are those of a safetensors file.",
    ),
    "RL0911": Reason(
        "mmap can only be used with files saved with "
        "`torch.save(_use_new_zipfile_serialization=True)`, please torch.save your checkpoint with "
        "this option in order to use mmap.",
        "Only in archives do the bytes of a tensor lie where memory can be mapped.",
    ),
    "RL0912": Reason(
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
        "False. If you are running on a CPU-only machine, please use torch.load with "
        "map_location=torch.device('cpu') to map your storages to the CPU.",
        "The file says that its tensors lived on a GPU.",
    ),
    "RL0913": Reason(
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
        "{location}). Give torch.load map_location='cpu' to map your storages to the CPU.",
        "The file names a device that is not known here.",
    ),
    "RL0914": Reason(
        "Tensors cannot be read to the device '{device}', which is not available. Leave the "
        "device out to read them to the CPU.",
        "Tensors live on the CPU.",
    ),
    "RL0915": Reason(
        "framework {framework!r} is not known; say 'pt'",
        "Tensors are read as Rushlight's own, which take the place of PyTorch's.",
    ),
    "RL0918": Reason(
        "`{name}` {what}",
        "A safetensors file holds the values of strided tensors in the dtypes it knows.",
        "Convert the tensor, or write it with torch.save.",
    ),
    "RL0919": Reason(
        "from_file(): {file!r} has {found} bytes where {expected} are needed; ask for fewer "
        "elements, or pass shared=True to lengthen the file",
        "A file that is not shared is opened for reading.",
    ),
    # -- data loading
    "RL1001": Reason(
        "received {found} of {asked} file descriptors: too many open files. Please increase the "
        "limit using `ulimit -n` in the shell",
        "Each tensor that a worker process sends takes a descriptor while it is in use.",
        "Keep fewer batches alive, or use worker_kind='thread'.",
    ),
    "RL1002": Reason(
        "share_memory_(): the tensor has no memory",
        "Only tensors with values can be shared between processes.",
        "Share a strided tensor on the CPU.",
    ),
    "RL1003": Reason(
        "share_memory_(): other tensors are views of the same memory and would be left behind. "
        "Share the tensor before taking views of it, or share a clone.",
        "Sharing moves the values to memory that other processes can map.",
    ),
}
