"""rearrange: shapes and values of patterns, and patterns that make no sense."""

import pytest

import rushlight as torch
from rushlight.func import rearrange
from rushlight.func.errors import DimensionBindError


def counted(*shape):
    return torch.arange(float(torch.Size(shape).numel())).view(shape)


# With torch's own indexing beside each pattern.
@pytest.mark.parametrize(
    "shape, pattern, lengths, expected",
    [
        ((2, 3, 4), "a b c -> c (a b)", {}, lambda x: x.permute(2, 0, 1).reshape(4, 6)),
        ((4, 3), "(a b) c -> a b c", {"a": 2}, lambda x: x.view(2, 2, 3)),
        ((4, 3), "(a b) c -> b c a", {"b": 4}, lambda x: x.view(1, 4, 3).permute(1, 2, 0)),
        ((2, 3, 4), "a ... -> ... a", {}, lambda x: x.permute(1, 2, 0)),
        ((2, 3, 4), "... a -> a (...)", {}, lambda x: x.permute(2, 0, 1).reshape(4, 6)),
        ((2, 3), "a ... b -> b ... a", {}, lambda x: x.t()),
        ((2, 1, 3), "a 1 b -> b a", {}, lambda x: x[:, 0].t()),
        ((2, 1, 3), "a () b -> a b ()", {}, lambda x: x[:, 0, :, None]),
        ((2, 3), "a b -> a 1 b", {}, lambda x: x[:, None]),
        ((4,), "(a b) -> b a", {"a": 2}, lambda x: x.view(2, 2).t()),
        ((), "->", {}, lambda x: x),
        ((3, 4, 5, 2), "a (b c) ... -> c ... (a b)", {"b": 2},
         lambda x: x.view(3, 2, 2, 5, 2).permute(2, 3, 4, 0, 1).reshape(2, 5, 2, 6)),
        ((0, 3), "a b -> b a", {}, lambda x: x.t()),
    ],
)  # fmt: skip
def test_patterns(shape, pattern, lengths, expected):
    x = counted(*shape)
    found = rearrange(x, pattern, **lengths)
    assert torch.equal(found, expected(x))
    assert found.shape == expected(x).shape


def test_reordering_is_a_view():
    x = counted(2, 3)
    assert rearrange(x, "a b -> b a").data_ptr() == x.data_ptr()


def test_lists_are_stacked_and_transforms_follow():
    x = counted(3)
    assert rearrange([x, x], "b c -> c b").shape == (3, 2)
    assert torch.func.vmap(lambda y: rearrange(y, "a b -> b a"))(counted(2, 3, 4)).shape == (
        2,
        4,
        3,
    )
    gradient = torch.func.grad(lambda y: rearrange(y, "(a b) -> b a", a=2)[1].sum())(counted(4))
    assert gradient.tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "shape, pattern, lengths, kind, text",
    [
        ((2, 3), "a b", {}, ValueError, "Pattern must contain a single '->' separator"),
        ((2, 3), "a b -> b a -> a", {}, ValueError, "Pattern must contain a single '->' separator"),
        ((2, 3), "a b -> a b c", {}, ValueError, r"should be on both\): {'c'}"),
        ((2, 3), "a b -> b", {}, ValueError, r"should be on both\): {'a'}"),
        ((2, 2), "a a -> a", {}, ValueError, "duplicate dimension 'a'"),
        ((2, 3), "a b -> a b", {"c": 2}, ValueError, "not found in rearrange expression: {'c'}"),
        ((2, 3), "a b -> a b", {"a": 2.0}, TypeError, "must be integers, got: <class 'float'>"),
        ((2, 3), "a b -> (a b", {}, ValueError, "Imbalanced parentheses in expression"),
        ((2, 3), "a b -> a b)", {}, ValueError, "Brackets are not balanced"),
        ((4,), "((a b)) -> a b", {"a": 2}, ValueError, "Axis composition is one-level"),
        ((2, 3), "a b c -> a b c", {}, ValueError,
         r"in pattern \(3\) must be equal to the number of dimensions in the tensor \(2\)"),
        ((2,), "a b ... -> a b ...", {}, ValueError,
         r"in pattern \(2\) must be less than or equal to the number of dimensions"),
        ((2, 3), "a..b -> a", {}, ValueError, "may contain dots only inside ellipsis"),
        ((2, 3), "a ... b ... -> a", {}, ValueError, "only one ellipsis for tensor"),
        ((2, 3), "a b -> ... a b", {}, ValueError, "Ellipsis found in right side, but not left"),
        ((6,), "(...) -> ...", {}, ValueError, "in the left side is not allowed"),
        ((2, 3), "_a b -> b _a", {}, ValueError, "Invalid axis identifier: _a"),
        ((2, 3), "a+b c -> c a", {}, ValueError, r"Unknown character '\+'"),
        ((3, 2), "a 2 -> a", {}, ValueError, "only supports unnamed axes of size 1"),
        ((4,), "(a b) -> a b", {}, DimensionBindError, "cannot infer the sizes of two dimensions"),
        ((4,), "(a b) -> a b", {"a": 3}, DimensionBindError, r"\(4 != 3\)"),
        ((2, 3), "a b -> b a", {"a": 5}, DimensionBindError, r"\(2 != 5\)"),
        ((2, 5, 3), "a 1 b -> b a", {}, DimensionBindError, r"\(5 != 1\)"),
    ],
)  # fmt: skip
def test_patterns_that_make_no_sense(shape, pattern, lengths, kind, text):
    with pytest.raises(kind, match=text):
        rearrange(counted(*shape), pattern, **lengths)


def test_keywords_are_discouraged():
    with pytest.warns(RuntimeWarning, match="discouraged to use axes names that are keywords: for"):
        rearrange(counted(2, 3), "for a -> a for")
