"""Geometry against recorded results, and with entries that are not ints."""

import ast
import json
from pathlib import Path

import pytest

import rushlight
from rushlight.core import geometry
from rushlight.core.device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
)
from rushlight.opset.derived import check_no_internal_overlap

CASES = json.loads((Path(__file__).parent / "geometry_cases.json").read_text())
VIEW_REFUSED = (
    "view size is not compatible with input tensor's size and stride (at least one dimension"
    " spans across two contiguous subspaces). Use .reshape(...) instead."
)


def tuples(value):
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def elementwise(*flat):
    operands = list(zip(flat[::2], flat[1::2], strict=True))
    out = geometry.broadcast_shapes(*(sizes for sizes, _ in operands))
    return geometry.elementwise_strides(out, operands)


def view(sizes, strides, shape):
    shape = geometry.infer_size(shape, geometry.numel(sizes))
    found = geometry.view_strides(sizes, strides, shape)
    if found is None:
        raise RuntimeError(VIEW_REFUSED)
    return shape, found, 0


CALLS = {
    "unary": elementwise,
    "with_scalar": lambda *flat: elementwise(*flat, (), ()),
    "binary": elementwise,
    "ternary": lambda a, a_strides, b, b_strides, c_strides: elementwise(
        a, a_strides, b, b_strides, a, c_strides
    ),
    "squeezed_geometry2": lambda sizes, strides, *dims: geometry.squeezed_geometry(
        sizes, strides, dims
    ),
    "view": view,
}


def outcome(call, args):
    try:
        return call(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def recorded(name, tidy):
    call = CALLS.get(name) or getattr(geometry, name)
    for args, expected in CASES[name]:
        assert outcome(call, tidy(args)) == tuples(expected), args


@pytest.mark.parametrize("name", sorted(CASES))
def test_recorded_results(name):
    recorded(name, tuples)


class Symbol:
    """An integer that offers arithmetic and comparisons, and refuses to be an int."""

    def __init__(self, value):
        self.value = value

    def __int__(self):
        raise AssertionError("a symbolic int was turned into an int")

    __index__ = __hash__ = __int__

    def __bool__(self):
        return bool(self.value)

    def __neg__(self):
        return Symbol(-self.value)

    def __str__(self):
        return str(self.value)


def plain(value):
    return value.value if isinstance(value, Symbol) else value


def add_operator(name, wrap):
    def operator(self, other):
        return wrap(getattr(self.value, name)(plain(other)))

    setattr(Symbol, name, operator)


for _name in ["add", "sub", "mul", "floordiv", "mod", "radd", "rsub", "rmul", "rfloordiv", "rmod"]:
    add_operator(f"__{_name}__", Symbol)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    add_operator(f"__{_name}__", bool)


def symbols(value):
    """Sizes and strides with symbols inside; dims stay plain."""
    if isinstance(value, list):
        return tuple(Symbol(item) if type(item) is int else symbols(item) for item in value)
    return value


@pytest.mark.parametrize(
    "name", sorted(set(CASES) - {"permuted_geometry", "reduced_shape", "squeezed_geometry2"})
)
def test_symbolic_entries(name):
    recorded(name, lambda args: [symbols(arg) for arg in args])


def test_a_size_that_only_run_time_tells_is_laid_out_like_a_large_one():
    pytest.importorskip("sympy")
    from rushlight.symbolic import ShapeEnv, constrain_range_for_size

    size = ShapeEnv().create_unbacked_symint()
    constrain_range_for_size(size)
    found = geometry.contiguous_strides((2, 3, size, 5))
    assert [str(step) for step in found] == ["15*u0", "5*u0", "5", "1"]
    assert geometry.is_contiguous((2, 3, size, 5), found)


def test_wrap_dim():
    assert geometry.wrap_dim(-1, 3) == 2
    assert geometry.wrap_dim(-1, 0) == 0
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\], but got 2"):
        geometry.wrap_dim(2, 1)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\], but got 1"):
        geometry.wrap_dim(1, 0)
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        geometry.wrap_dim(0, 0, wrap_scalar=False)


def test_broadcast_of_equal_shapes_is_the_shape():
    shape = (2, 3)
    assert geometry.broadcast_shapes(shape, (2, 3)) is shape
    assert geometry.broadcast_shapes() == ()


def test_memory_formats():
    sizes = (2, 3, 4, 5)
    nhwc = (60, 1, 15, 3)
    assert geometry.strides_for_memory_format(sizes, None) == (60, 20, 5, 1)
    assert geometry.strides_for_memory_format(sizes, channels_last) == nhwc
    assert geometry.strides_for_memory_format(sizes, preserve_format, nhwc) == nhwc
    assert geometry.suggest_memory_format(sizes, nhwc) is channels_last
    assert geometry.suggest_memory_format(sizes, (60, 20, 5, 1)) is contiguous_format
    assert geometry.suggest_memory_format((2, 1, 1, 1), (1, 1, 1, 1)) is contiguous_format
    assert geometry.is_contiguous_in(sizes, nhwc, channels_last)
    assert not geometry.is_contiguous_in(sizes, nhwc, contiguous_format)
    with pytest.raises(RuntimeError, match="required rank 5 tensor to use channels_last_3d"):
        geometry.strides_for_memory_format(sizes, channels_last_3d)


def test_overlap():
    assert geometry.internal_overlap((2, 3), (3, 1)) == geometry.NO_OVERLAP
    assert geometry.internal_overlap((3, 1), (0, 1)) == geometry.OVERLAP
    assert geometry.internal_overlap((3, 3), (1, 1)) == geometry.TOO_HARD
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        check_no_internal_overlap((3,), (0,))


def test_storage_extent_counts_the_offset():
    assert geometry.storage_extent((2, 3), (10, 2), 5) == 20
    assert geometry.storage_extent((2, 0), (10, 2), 5) == 0


# -- whole shapes are compared by `same_sizes` -----------------------------------------------------

SIZES = ("shape", "sizes", "_shape", "_sizes")


def is_whole_shape(node: ast.expr) -> bool:
    """Whether an expression reads as all sizes of a tensor, or as several of them."""
    if isinstance(node, ast.Attribute):
        return node.attr == "shape"
    if isinstance(node, ast.Name):
        return node.id in SIZES[:2] or node.id.endswith(SIZES[2:])
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and is_whole_shape(node.value)
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and called.id in ("tuple", "list") and node.args:
            return is_whole_shape(node.args[0])
        if isinstance(called, ast.Attribute):
            return called.attr == "size" and not node.args
        return isinstance(called, ast.Name) and called.id == "sizes_of"
    return False


def raw_comparisons(text: str) -> list[int]:
    """Lines that compare whole shapes of tensors with `==` or `!=`. Shapes of arrays are plain:
    kernels, which take `xp`, and what is called an array are left out."""
    tree = ast.parse(text)
    kernels = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(a.arg == "xp" for a in node.args.args)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or id(node) in kernels:
            continue
        sides = [node.left, *node.comparators]
        named = {getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(node)}
        if (
            any(isinstance(how, (ast.Eq, ast.NotEq)) for how in node.ops)
            and any(map(is_whole_shape, sides))
            and not any("array" in name for name in named)
        ):
            found.append(node.lineno)
    return found


def test_whole_shapes_are_compared_lengths_first():
    assert raw_comparisons("a.shape != b.shape\ntuple(x.shape[1:]) == sizes\n") == [1, 2]
    assert raw_comparisons("a.shape[0] == b.shape[0]\nlen(sizes) == 2\n") == []
    package = Path(rushlight.__file__).parent
    found = {}
    for layer in ("core", "opset", "autograd", "func", "aot"):
        for path in sorted((package / layer).rglob("*.py")):
            if path.name != "geometry.py":
                lines = raw_comparisons(path.read_text())
                if lines:
                    found[str(path.relative_to(package))] = lines
    assert not found, f"use geometry.same_sizes: {found}"


def test_sizes_of_different_rank_are_not_compared():
    class Untouchable:
        def __eq__(self, other: object) -> bool:
            raise AssertionError("asked")

    assert not geometry.same_sizes((Untouchable(), 2), (3,))
    assert geometry.same_sizes((2, 3), (2, 3)) and not geometry.same_sizes((2, 3), (2, 4))


@pytest.mark.parametrize(
    "make",
    [
        lambda: rushlight.zeros([1] * 65),
        lambda: rushlight.zeros([1] * 65, dtype=rushlight.bfloat16),
        lambda: rushlight.full([1] * 65, 2.0), lambda: rushlight.randn([1] * 65),
        lambda: rushlight.zeros(1).view([1] * 65), lambda: rushlight.zeros(1).expand([1] * 65),
        lambda: rushlight.zeros(1).reshape([1] * 65), lambda: rushlight.zeros([1] * 64)[None],
        lambda: rushlight.zeros([1] * 64).unsqueeze(0),
        lambda: rushlight.stack([rushlight.zeros([1] * 64)]),
        lambda: rushlight.tensor(eval("[" * 65 + "1" + "]" * 65)),
    ],
)  # fmt: skip
def test_more_dims_than_arrays_have_are_refused(make):
    assert rushlight.zeros([1] * 64).dim() == 64
    with pytest.raises(NotImplementedError, match="a tensor of 65 dims .RL0007"):
        make()
