"""Element types: the `dtype` singletons, `finfo`, `iinfo` and the default dtype.

Every dtype is made once, here, and compared by identity. `BY_NAME` maps each
public name (aliases too) to its dtype; `bool_` is the only member whose name in
this module differs from its public one, so that builtins stay readable here.
The `np` of bfloat16 and float8 is filled on first access: importing ml_dtypes
costs more than all of this module.
"""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np

from rushlight.base.errors import error

# Categories, ordered as type promotion ranks them.
BOOL: Final = 0
INTEGER: Final = 1
FLOAT: Final = 2
COMPLEX: Final = 3


class dtype:
    """The type of a tensor's elements; made only by this module."""

    __refusal__ = None

    __slots__ = (
        "abbr",
        "category",
        "char",
        "code",
        "complex",
        "cpp_name",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "np",
        "real",
        "scalar_fast",
        "scalar_type_name",
    )

    name: str
    np: np.dtype[Any]
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    category: int
    char: str  # NumPy's one-letter code
    abbr: str  # "f32", as graphs print it
    code: int  # torch's ScalarType number, which serialized graphs record
    scalar_type_name: str  # "Float", as error messages print it
    cpp_name: str  # "float", as other error messages do
    scalar_fast: bool  # Python scalars may meet such arrays in a ufunc with torch's result
    real: dtype
    complex: dtype | None

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        raise TypeError("cannot create 'torch.dtype' instances")

    def __getattr__(self, attribute: str) -> Any:
        # Reached only for a slot not filled yet (or a misspelt name).
        if attribute == "np" and self.code in SHELLS:
            raise error("RL0018", NotImplementedError, dtype=self.name)
        if attribute == "np" and self.name in LAZY_NAMES:
            import ml_dtypes

            self.np = np.dtype(getattr(ml_dtypes, self.name))
            FROM_NUMPY[self.np] = self
            return self.np
        raise AttributeError(f"'torch.dtype' object has no attribute '{attribute}'")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return by_name, (self.name,)

    @property
    def legacy_tensor_name(self) -> str:
        return f"{self.scalar_type_name}Tensor"

    def to_real(self) -> dtype:
        return self.real

    def to_complex(self) -> dtype:
        if self.complex is None:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_type_name}")
        return self.complex


LAZY_NAMES: Final = frozenset(
    ("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz")
)
BY_NAME: Final[dict[str, dtype]] = {}
FROM_NUMPY: Final[dict[np.dtype[Any], dtype]] = {}


CPP_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long",
    "float32": "float",
    "float64": "double",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def make(
    name: str,
    scalar_type_name: str,
    code: int,
    category: int,
    itemsize: int,
    char: str,
    abbr: str,
    numpy_type: Any = None,
) -> dtype:
    new: dtype = object.__new__(dtype)
    new.name = name
    new.scalar_type_name = scalar_type_name
    new.cpp_name = CPP_NAMES.get(name, f"c10::{scalar_type_name}")
    new.code = code
    new.category = category
    new.itemsize = itemsize
    new.char = char
    new.abbr = abbr
    new.is_floating_point = category == FLOAT
    new.is_complex = category == COMPLEX
    new.is_signed = category != BOOL and not name.startswith("uint")
    new.scalar_fast = char in "fdFD"
    new.real = new
    new.complex = None
    if name not in LAZY_NAMES:
        new.np = np.dtype(numpy_type or name)
        FROM_NUMPY[new.np] = new
    BY_NAME[name] = new
    return new


bool_: Final = make("bool", "Bool", 11, BOOL, 1, "?", "b8")
uint8: Final = make("uint8", "Byte", 0, INTEGER, 1, "B", "u8")
int8: Final = make("int8", "Char", 1, INTEGER, 1, "b", "i8")
int16: Final = make("int16", "Short", 2, INTEGER, 2, "h", "i16")
int32: Final = make("int32", "Int", 3, INTEGER, 4, "i", "i32")
int64: Final = make("int64", "Long", 4, INTEGER, 8, np.dtype("int64").char, "i64")
uint16: Final = make("uint16", "UInt16", 27, INTEGER, 2, "H", "u16")
uint32: Final = make("uint32", "UInt32", 28, INTEGER, 4, "I", "u32")
uint64: Final = make("uint64", "UInt64", 29, INTEGER, 8, np.dtype("uint64").char, "u64")
float16: Final = make("float16", "Half", 5, FLOAT, 2, "e", "f16")
bfloat16: Final = make("bfloat16", "BFloat16", 15, FLOAT, 2, "E", "bf16")
float32: Final = make("float32", "Float", 6, FLOAT, 4, "f", "f32")
float64: Final = make("float64", "Double", 7, FLOAT, 8, "d", "f64")
# NumPy has no half-precision complex type: a pair of halves can be stored, moved and
# converted, while ufuncs refuse it.
complex32: Final = make(
    "complex32", "ComplexHalf", 8, COMPLEX, 4, "V", "c32", [("real", "f2"), ("imag", "f2")]
)
complex64: Final = make("complex64", "ComplexFloat", 9, COMPLEX, 8, "F", "c64")
complex128: Final = make("complex128", "ComplexDouble", 10, COMPLEX, 16, "D", "c128")
float8_e5m2: Final = make("float8_e5m2", "Float8_e5m2", 23, FLOAT, 1, "5", "f8e5m2")
float8_e4m3fn: Final = make("float8_e4m3fn", "Float8_e4m3fn", 24, FLOAT, 1, "4", "f8e4m3fn")
float8_e5m2fnuz: Final = make("float8_e5m2fnuz", "Float8_e5m2fnuz", 25, FLOAT, 1, "C", "f8e5m2fnuz")
float8_e4m3fnuz: Final = make("float8_e4m3fnuz", "Float8_e4m3fnuz", 26, FLOAT, 1, "G", "f8e4m3fnuz")

ALL: Final[tuple[dtype, ...]] = tuple(BY_NAME.values())
FLOAT8: Final = frozenset((float8_e5m2, float8_e4m3fn, float8_e5m2fnuz, float8_e4m3fnuz))

# Dtypes that can be named and compared, and whose elements have no arithmetic: torch's number of
# each, by name. Packed and quantised ones say how many bytes an element takes.
SHELL_SIZES = {"quint4x2": 1, "quint2x4": 1, "qint32": 4, "bits16": 2}
_SHELL_NAMES = (
    "12 qint8 QInt8, 13 quint8 QUInt8, 14 qint32 QInt32, 16 quint4x2 QUInt4x2, "
    "17 quint2x4 QUInt2x4, 18 bits1x8 Bits1x8, 19 bits2x4 Bits2x4, 20 bits4x2 Bits4x2, "
    "21 bits8 Bits8, 22 bits16 Bits16, 30 uint1 UInt1, 31 uint2 UInt2, 32 uint3 UInt3, "
    "33 uint4 UInt4, 34 uint5 UInt5, 35 uint6 UInt6, 36 uint7 UInt7, 37 int1 Int1, 38 int2 Int2, "
    "39 int3 Int3, 40 int4 Int4, 41 int5 Int5, 42 int6 Int6, 43 int7 Int7, "
    "44 float8_e8m0fnu Float8_e8m0fnu, 45 float4_e2m1fn_x2 Float4_e2m1fn_x2"
)
SHELLS: Final[dict[int, dtype]] = {}


def make_shells() -> None:
    for entry in _SHELL_NAMES.split(", "):
        code, name, scalar_type_name = entry.split()
        is_float = name.startswith("float")
        new: dtype = object.__new__(dtype)
        new.name, new.scalar_type_name, new.code = name, scalar_type_name, int(code)
        new.cpp_name = f"c10::{scalar_type_name}"
        new.category = FLOAT if is_float else INTEGER
        new.itemsize = SHELL_SIZES.get(name, 1)
        new.char, new.abbr = "", name
        new.is_floating_point, new.is_complex = is_float, False
        new.is_signed = not name.startswith(("uint", "quint", "bits"))
        new.scalar_fast, new.real, new.complex = False, new, None
        SHELLS[new.code] = BY_NAME[name] = new


for _real, _complex in ((float16, complex32), (float32, complex64), (float64, complex128)):
    _real.complex = _complex
    _complex.complex = _complex
    _complex.real = _real
bfloat16.complex = complex64

half: Final = float16
double: Final = float64
short: Final = int16
long: Final = int64
chalf: Final = complex32
cfloat: Final = complex64
cdouble: Final = complex128

BY_NAME.update(
    half=half,
    float=float32,
    double=double,
    short=short,
    int=int32,
    long=long,
    chalf=chalf,
    cfloat=cfloat,
    cdouble=cdouble,
)


make_shells()
BY_NAME["bit"] = BY_NAME["uint1"]


def by_name(name: str) -> dtype:
    """The dtype of a public name: `by_name("float32")`, `by_name("half")`."""
    return BY_NAME[name]


def unsupported(kernel: str, dtype: dtype) -> NotImplementedError:
    """The error of a kernel that has no code for a dtype."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_type_name}'")


def from_numpy(array_type: np.dtype[Any]) -> dtype:
    """The dtype of NumPy's; TypeError for one that tensors cannot hold."""
    found = FROM_NUMPY.get(array_type)
    if found is None:
        found = resolve_numpy(array_type)
    return found


def resolve_numpy(array_type: np.dtype[Any]) -> dtype:
    """`from_numpy` for the dtypes its table does not hold (yet)."""
    array_type = np.dtype(array_type)
    if array_type.name in LAZY_NAMES and BY_NAME[array_type.name].np == array_type:
        return BY_NAME[array_type.name]
    # int64 has two spellings (long and long long) that compare equal but hash apart.
    if array_type.kind in "iufcb" and array_type.isnative:
        for known in ALL:
            if known.name not in LAZY_NAMES and known.np == array_type:
                FROM_NUMPY[array_type] = known
                return known
    raise TypeError(
        f"can't convert np.ndarray of type {array_type.type.__module__}.{array_type.type.__name__}."
        " The only supported types are: float64, float32, float16, complex64, complex128, int64,"
        " int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
    )


default_dtype: dtype = float32
default_complex_dtype: dtype = complex64


def get_default_dtype() -> dtype:
    return default_dtype


def set_default_dtype(d: dtype, /) -> None:
    """Make `d` the dtype of floating point results that nothing else decides."""
    global default_dtype, default_complex_dtype
    if type(d) is not dtype:
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type"
        )
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d in FLOAT8:
        raise TypeError(f"couldn't find storage object {d.scalar_type_name}Storage")
    default_dtype = d
    default_complex_dtype = d.to_complex()


# bits, eps, largest, smallest normal, decimal resolution
FLOAT_LIMITS: Final[dict[dtype, tuple[int, float, float, float, float]]] = {
    float16: (16, 2.0**-10, 65504.0, 2.0**-14, 1e-3),
    bfloat16: (16, 2.0**-7, (2.0 - 2.0**-7) * 2.0**127, 2.0**-126, 1e-2),
    float32: (32, 2.0**-23, (2.0 - 2.0**-23) * 2.0**127, 2.0**-126, 1e-6),
    float64: (64, 2.0**-52, (2.0 - 2.0**-52) * 2.0**1023, 2.0**-1022, 1e-15),
    float8_e4m3fn: (8, 2.0**-3, 448.0, 2.0**-6, 1.0),
    float8_e5m2: (8, 2.0**-2, 57344.0, 2.0**-14, 1.0),
    float8_e4m3fnuz: (8, 2.0**-3, 240.0, 2.0**-7, 1.0),
    # torch: eps is e4m3's, though the format has two bits of mantissa.
    float8_e5m2fnuz: (8, 2.0**-3, 57344.0, 2.0**-15, 1.0),
}


def check_limits_argument(function: str, type: object) -> None:
    if not isinstance(type, dtype):
        given = type.__class__.__name__
        raise TypeError(
            f"{function}(): argument 'type' (position 1) must be torch.dtype, not {given}"
        )
    if type.code in SHELLS:
        raise error("RL0018", NotImplementedError, dtype=type.name)


class finfo:
    """Limits of a floating point dtype; of its parts for a complex one."""

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, type: dtype | None = None) -> None:
        if type is None:
            type = default_dtype
        check_limits_argument("finfo", type)
        if type.category < FLOAT:
            raise TypeError(
                "torch.finfo() requires a floating point input type."
                " Use torch.iinfo to handle 'torch.finfo'"
            )
        self.dtype: str = type.real.name
        self.bits, self.eps, self.max, self.tiny, self.resolution = FLOAT_LIMITS[type.real]
        self.min: float = -self.max
        self.smallest_normal: float = self.tiny

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{field}={getattr(self, field):.6g}"
            for field in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        )
        return f"finfo({fields}, dtype={self.dtype})"


# What the integers of quantised dtypes are held as.
QUANTISED = {"qint8": int8, "quint8": uint8, "qint32": int32}


class iinfo:
    """Limits of an integer dtype."""

    __slots__ = ("bits", "dtype", "max", "min")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, type: dtype) -> None:
        name = getattr(type, "name", "")
        type = QUANTISED.get(name, type)
        check_limits_argument("iinfo", type)
        if type.category > INTEGER:
            raise TypeError(
                "torch.iinfo() requires an integer input type."
                " Use torch.finfo to handle 'torch.iinfo'"
            )
        if type.category == BOOL:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.dtype: str = name
        self.bits: int = type.itemsize * 8
        self.max: int = (1 << (self.bits - type.is_signed)) - 1
        self.min: int = -self.max - 1 if type.is_signed else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __repr__(self) -> str:
        # torch: limits are printed as floats of six digits.
        return f"iinfo(min={self.min:.6g}, max={self.max:.6g}, dtype={self.dtype})"
