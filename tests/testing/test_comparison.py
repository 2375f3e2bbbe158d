"""assert_close: what passes, and what the texts say."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.testing import assert_close

nan = float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (1.0, 1.0 + 1e-9, {}),
        (None, None, {}),
        ([1, (2.0,)], [1, [2.0]], {}),
        ({"a": 1}, {"a": 1}, {}),
        (1, 1.0, {"check_dtype": False}),
        (nan, nan, {"equal_nan": True}),
        (1.0, 1.1, {"rtol": 0.2, "atol": 0}),
    ],
)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


def test_tensor_text():
    with pytest.raises(AssertionError) as failure:
        assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))
    assert str(failure.value) == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 1.0 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.3333333432674408 at index (1,) (up to 1.3e-06 allowed)"
    )


def test_nested_text_names_the_item():
    with pytest.raises(AssertionError) as failure:
        assert_close({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})
    assert str(failure.value) == (
        "Scalars are not equal!\n\nExpected 3 but got 2.\nAbsolute difference: 1\n"
        "Relative difference: 0.3333333333333333\n\nThe failure occurred for item ['a'][1]['b']"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "options", "kind", "text"),
    [
        ([1], [1, 2], {}, AssertionError, "The length of the sequences mismatch: 1 != 2"),
        ("a", "a", {}, TypeError, "No comparison pair was able to handle inputs of type"),
        (1, 1.0, {}, AssertionError, r"The \(d\)types do not match"),
        (True, False, {}, AssertionError, "Booleans mismatch: True is not False"),
        (None, 1, {}, AssertionError, "None mismatch: None is not 1"),
        (1.0, 1.0, {"rtol": 1e-3}, ValueError, "but got no atol"),
        ({"a": 1}, {"b": 1}, {}, AssertionError, r"Missing keys in the actual mapping: \['b'\]"),
        (1.0, 2.0, {"msg": "mine"}, AssertionError, "^mine$"),
    ],
)
def test_refusals(actual, expected, options, kind, text):
    with pytest.raises(kind, match=text):
        assert_close(actual, expected, **options)


def test_attributes():
    x = torch.ones(2, 3)
    with pytest.raises(
        AssertionError, match=r"attribute 'shape' do not match: torch.Size\(\[2, 3\]\)"
    ):
        assert_close(x, torch.ones(3, 2))
    with pytest.raises(AssertionError, match="attribute 'dtype' do not match"):
        assert_close(x, x.double())
    turned = torch.ones(3, 2).t()
    assert_close(x, turned)
    with pytest.raises(AssertionError, match=r"'stride\(\)' do not match: \(3, 1\) != \(1, 2\)"):
        assert_close(x, turned, check_stride=True)


def test_allclose_is_deprecated():
    with pytest.warns(FutureWarning, match="deprecated"):
        torch.testing.assert_allclose(torch.ones(2), torch.ones(2, dtype=torch.float64))


def coo(places, values):
    return torch.sparse_coo_tensor(torch.tensor([places]), torch.tensor(values), (3,))


def csr(starts, columns, values):
    parts = (torch.tensor(part) for part in (starts, columns, values))
    return torch.sparse_csr_tensor(*parts, (2, 2))


SPARSE_PAIRS = {
    "COO tensors does not match: 2 != 1": (coo([0, 0], [1.0, 1.0]), coo([0], [2.0])),
    "Sparse COO indices are not equal": (coo([0], [2.0]), coo([1], [2.0])),
    "Sparse COO values are not close": (coo([0], [2.0]), coo([0], [3.0])),
    "CSR tensors does not match: 2 != 1": (
        csr([0, 1, 2], [0, 1], [1.0, 1.0]), csr([0, 1, 1], [0], [1.0])
    ),
    "Sparse CSR crow_indices are not equal": (
        csr([0, 1, 2], [0, 1], [1.0, 1.0]), csr([0, 2, 2], [0, 1], [1.0, 1.0])
    ),
    "Sparse CSR col_indices are not equal": (
        csr([0, 1, 2], [0, 1], [1.0, 1.0]), csr([0, 1, 2], [1, 1], [1.0, 1.0])
    ),
    "Sparse CSR values are not close": (
        csr([0, 1, 2], [0, 1], [1.0, 1.0]), csr([0, 1, 2], [0, 1], [1.0, 2.0])
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", SPARSE_PAIRS)
def test_sparse_tensors_are_compared_part_by_part(text):
    actual, expected = SPARSE_PAIRS[text]
    with pytest.raises(AssertionError, match=text):
        torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(actual, actual.clone())


def test_sparse_and_dense_are_compared_by_value():
    dense = torch.tensor([0.0, 2.0, 0.0])
    torch.testing.assert_close(coo([1], [2.0]), dense, check_layout=False)
    with pytest.raises(AssertionError, match="layout"):
        torch.testing.assert_close(coo([1], [2.0]), dense)


def test_quantized_tensors_are_compared():
    q = torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.1, 5, torch.quint8)
    torch.testing.assert_close(q, q.clone())
    other = torch.quantize_per_tensor(torch.tensor([0.5, 1.5]), 0.1, 5, torch.quint8)
    with pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_close(q, other)


def test_numbers_of_sparse_dims_are_compared():
    x = torch.ones(2, 2)
    with pytest.raises(AssertionError, match="number of sparse dimensions in sparse COO"):
        torch.testing.assert_close(x.to_sparse(), x.to_sparse(1))
