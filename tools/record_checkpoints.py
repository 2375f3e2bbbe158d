"""Writes the checkpoints of tests/io/files with PyTorch: python tools/record_checkpoints.py

tests/io/test_checkpoint.py knows what is in them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from pathlib import Path

import torch

FOLDER = Path(__file__).parent.parent / "tests" / "io" / "files"
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz"
)


def everything() -> dict[str, object]:
    """One of everything that a checkpoint may hold."""
    made: dict[str, object] = {
        name: torch.tensor([0, 1, 2, 1]).to(getattr(torch, name)) for name in DTYPES.split()
    }
    made["complex32"] = torch.tensor([0.0, 1.0, 2.0, 1.0]).to(torch.complex32)
    base = torch.arange(24.0).reshape(4, 6)
    made["views"] = [base, base.t(), base[1:3, ::2], base[2]]
    made["expanded"] = torch.ones(1).expand(5)
    made["empty"] = torch.zeros(0, 3)
    made["scalar"] = torch.tensor(3.5)
    made["conj"] = torch.tensor([1 + 2j, 3 - 1j]).conj()
    made["neg"] = torch.tensor([1 + 2j]).conj().imag
    made["leaf"] = torch.ones(2, requires_grad=True)
    made["parameter"] = torch.nn.Parameter(torch.ones(3))
    parameter = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    parameter.tag, parameter.number = "x", 3
    made["parameter with attributes"] = parameter
    tensor = torch.ones(2)
    tensor.notes = [1, 2]
    made["tensor with attributes"] = tensor
    indices, values = torch.tensor([[0, 2], [1, 0]]), torch.tensor([1.0, 2.0])
    made["coo"] = torch.sparse_coo_tensor(indices, values, (3, 2))
    made["coalesced"] = torch.sparse_coo_tensor(indices, values, (3, 2)).coalesce()
    made["csr"] = torch.eye(4).to_sparse_csr()
    made["csc"] = torch.eye(4).to_sparse_csc()
    made["bsr"] = torch.eye(4).to_sparse_bsr((2, 2))
    made["bsc"] = torch.eye(4).to_sparse_bsc((2, 2))
    made["meta"] = torch.empty(2, 3, device="meta")
    made["values"] = [None, True, False, 1, -1, 2**40, 2**70, 1.5, "text", "é☃", b"bytes"]
    made["more"] = [bytearray(b"xy"), {1, 2}, 1 + 2j, (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ()]
    made["dicts"] = OrderedDict(a=1, b={"c": {}}, d=Counter("aab"))
    made["kinds"] = [torch.float16, torch.device("cpu"), torch.device("cuda", 1), torch.sparse_csr]
    made["size"] = torch.Size((1, 2))
    return made


def network() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            flat = torch.arange(parameter.numel(), dtype=torch.float32)
            parameter.copy_(flat.reshape(parameter.shape) * 0.1 - place)
    return model


def training() -> dict[str, object]:
    """A model and its optimizer after one step."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


class Point:
    def __init__(self) -> None:
        self.x = 1


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    old = {"_use_new_zipfile_serialization": False}
    torch.save(everything(), FOLDER / "everything.pt")
    torch.save(everything(), FOLDER / "everything_old.pt", **old)
    torch.save(training(), FOLDER / "training.pt")
    torch.save(training(), FOLDER / "training_old.pt", **old)
    torch.save(network(), FOLDER / "module.pt")
    Point.__module__ = "shapes"
    import sys
    import types

    sys.modules["shapes"] = types.ModuleType("shapes")
    sys.modules["shapes"].Point = Point
    torch.save({"point": Point(), "w": torch.ones(2)}, FOLDER / "unknown.pt")
    torch.serialization.set_crc32_options(False)
    torch.save({"w": torch.ones(2)}, FOLDER / "no_checksums.pt")


if __name__ == "__main__":
    main()
