"""safetensors: files of every dtype, slices, metadata, and modules with shared weights."""

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
from showing import show

torch.manual_seed(0)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip
tensors = {str(dtype): (torch.randn(3, 4) * 3).abs().to(dtype) for dtype in DTYPES}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "all.safetensors")
    save_file(tensors, path, metadata={"made": "here"})
    for name, tensor in load_file(path).items():
        show(**{name: tensor.float()}, dtype=tensor.dtype)
    with safe_open(path, "pt") as file:
        show(keys=sorted(file.keys()), metadata=file.metadata())
        show(part=file.get_slice("torch.float32")[1:, :2])
    show(
        bytes=len(save(tensors)),
        same=torch.equal(load(save(tensors))["torch.int64"], tensors["torch.int64"]),
    )

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    save_model(model, path)
    again = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    again[1].weight = again[0].weight
    show(missing=load_model(again, path), out=again(torch.ones(2, 4)))
