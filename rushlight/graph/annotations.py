"""What verbose graph text says about values: dtype codes, shapes, and where a line comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from rushlight.graph import host

__all__ = ["DTYPE_CODES", "ParsedStackTrace", "parse_stack_trace", "tensor_annotation"]

DTYPE_CODES = {
    "bfloat16": "bf16",
    "bool": "b8",
    "complex32": "c32",
    "complex64": "c64",
    "complex128": "c128",
    "float4_e2m1fn_x2": "f4e2m1fnx2",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}
SYMBOLS = ("SymInt", "SymFloat", "SymBool")
FRAME = re.compile(r"^File \"(.+)\", line (\d+), in (.+)$")


class ParsedStackTrace(NamedTuple):
    """One frame of a stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def parse_stack_trace(stack_trace: str | None) -> ParsedStackTrace | None:
    """The innermost frame of a stack trace text."""
    if stack_trace is None:
        return None
    lines = stack_trace.strip().split("\n")
    for index in range(len(lines) - 2, -1, -1):
        match = FRAME.match(lines[index].strip())
        if match is not None:
            file, number, name = match.group(1, 2, 3)
            return ParsedStackTrace(file, number, name, lines[index + 1].strip())
    return None


def bracketed(sizes: Iterable[object]) -> str:
    return f"[{', '.join(str(size) for size in sizes)}]"


def dtype_code(dtype: object) -> str:
    name = str(dtype).rpartition(".")[2]
    return DTYPE_CODES.get(name, name)


def value_of(meta: dict[str, Any]) -> Any:
    """What is known of a node's value, from the most exact record of it."""
    return meta.get("val", meta.get("tensor_meta", meta.get("example_value")))


def tensor_annotation(
    meta: dict[str, Any], include_stride: bool = False, include_device: bool = False
) -> str | None:
    """`f32[2, 3]` for a node whose value is a tensor."""
    value = value_of(meta)
    if not isinstance(value, host.library.Tensor):
        return None
    if str(value.layout) in ("torch.sparse_csr", "torch.sparse_csc"):
        return None
    text = dtype_code(value.dtype) + bracketed(value.shape)
    if include_stride:
        text += bracketed(value.stride())
    return text + (str(value.device) if include_device else "")


def value_annotation(
    meta: dict[str, Any], include_stride: bool, include_device: bool
) -> str | None:
    """The text a verbose printout puts behind a node's name, without its quotes."""
    text = tensor_annotation(meta, include_stride, include_device)
    value = value_of(meta)
    if text is not None:
        class_name = type(value).__name__
        return (
            text if class_name in ("Tensor", "Parameter", "FakeTensor") else f"{class_name}({text})"
        )
    if type(value).__name__ in SYMBOLS:
        return f"Sym({value})"
    if hasattr(value, "_fields") and hasattr(value, "dtype") and hasattr(value, "shape"):
        return dtype_code(value.dtype) + bracketed(value.shape)
    return None
