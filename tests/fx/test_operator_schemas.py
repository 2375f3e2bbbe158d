"""Signatures of operators, and calls with their arguments written out."""

from __future__ import annotations

import inspect
import numbers
from typing import Any, Optional

import pytest

import rushlight as torch
from rushlight.fx.operator_schemas import (
    ArgsKwargsPair,
    check_for_mutable_operation,
    create_type_hint,
    get_signature_for_torch_op,
    normalize_function,
    normalize_module,
    type_matches,
)

aten = torch.ops.aten


def test_signatures() -> None:
    [signature] = get_signature_for_torch_op(aten.add.Tensor)
    assert list(signature.parameters) == ["input", "other", "alpha"]
    assert signature.parameters["alpha"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.parameters["alpha"].annotation is numbers.Number
    assert signature.return_annotation is torch.Tensor
    signatures, schemas = get_signature_for_torch_op(torch.sum, return_schemas=True)
    assert len(signatures) == len(schemas) > 1
    assert get_signature_for_torch_op(len) is None


def test_normalize_function() -> None:
    Pair = ArgsKwargsPair
    assert normalize_function(torch.add, (1, 2), {}, (torch.Tensor, int)) == Pair(
        (1, 2), {"alpha": 1}
    )
    assert normalize_function(torch.nn.functional.relu, (1,)) == Pair((1,), {"inplace": False})
    call = aten.add.Tensor, (1, 2), {"alpha": 3}
    assert normalize_function(*call) == Pair((1, 2), {"alpha": 3})
    assert normalize_function(*call, normalize_to_only_use_kwargs=True) == Pair(
        (), {"input": 1, "other": 2, "alpha": 3}
    )
    with pytest.raises(RuntimeError, match="schema match was ambiguous"):
        normalize_function(torch.add, (torch.ones(1), 2))
    assert normalize_function(len, (1,)) is None
    assert normalize_function(torch.add, (1, 2), {}, (str, str)) is None


def test_normalize_module() -> None:
    root = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert normalize_module(root, "0", (1,)) == ArgsKwargsPair((1,), {})
    found = normalize_module(root, "0", (1,), normalize_to_only_use_kwargs=True)
    assert found == ArgsKwargsPair((), {"input": 1})
    with pytest.raises(RuntimeError, match="root did not have that target"):
        normalize_module(root, "1", (1,))


def test_types() -> None:
    assert create_type_hint([int, int]) == list[int]
    assert create_type_hint((bool, int)) == tuple[int, ...]
    assert create_type_hint([int, str]) == list[Any]
    assert type_matches(Optional[float], int)  # noqa: UP045
    assert type_matches(list[int], int) and type_matches(list[int], tuple[int, int])
    assert not type_matches(list[int], list[str]) and not type_matches(torch.Tensor, int)


def test_writes_are_refused() -> None:
    check_for_mutable_operation(torch.add, (1, 2), {})
    with pytest.raises(RuntimeError, match="Tried to trace mutable operation aten::add_"):
        check_for_mutable_operation(aten.add_.Tensor, (1, 2), {})
