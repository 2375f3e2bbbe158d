"""torch.linalg as a module."""

from __future__ import annotations

import pickle

import pytest

import rushlight as torch


def test_every_name_is_a_function() -> None:
    for name in torch.linalg.NAMES:
        assert getattr(torch.linalg, name).__name__ == f"linalg_{name}"
    assert set(torch.linalg.NAMES) <= set(dir(torch.linalg))


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_function'"):
        _ = torch.linalg.no_such_function


def test_the_error_is_a_runtime_error_with_torchs_name() -> None:
    error = torch.linalg.LinAlgError
    assert issubclass(error, RuntimeError)
    assert error.__name__ == "_LinAlgError"
    assert type(pickle.loads(pickle.dumps(error("text")))) is error


def test_results_are_named() -> None:
    found = torch.linalg.slogdet(torch.eye(2))
    assert type(found).__name__ == "linalg_slogdet"
    assert (found.sign.item(), found.logabsdet.item()) == (1, 0)


def test_out() -> None:
    place = torch.empty(2, 2)
    assert torch.linalg.inv(torch.eye(2) * 2, out=place) is place
    assert place.tolist() == [[0.5, 0], [0, 0.5]]
    q, r = torch.empty(0), torch.empty(0)
    torch.linalg.qr(torch.eye(2), out=(q, r))
    assert q.shape == r.shape == (2, 2)


def test_powers_of_one_number_are_a_row():
    assert torch.linalg.vander(torch.tensor(2.0), N=3).tolist() == [[1, 2, 4]]
    with pytest.raises(RuntimeError, match="N must be greater than 1"):
        torch.linalg.vander(torch.tensor(2.0))
