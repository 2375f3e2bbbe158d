"""A few extreme eigenpairs by iteration."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight.autograd.checking import gradcheck
from rushlight.opset.linalg import spectral


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("method", ["ortho", "basic"])
@pytest.mark.parametrize("largest", [True, False])
def test_extreme_pairs_of_a_generalized_problem(method: str, largest: bool) -> None:
    A, B = [torch.randn(20, 20, dtype=torch.float64) for _ in range(2)]
    A, B = A @ A.mT, B @ B.mT / 20 + torch.eye(20).double()
    steps = []
    values, vectors = torch.lobpcg(
        A, k=2, B=B, method=method, largest=largest, tracker=lambda w: steps.append(w.E.clone())
    )
    assert torch.allclose(A @ vectors, B @ vectors * values, atol=1e-5)
    every = torch.linalg.eigvals(torch.linalg.solve(B, A)).real.sort(descending=largest)[0]
    assert torch.allclose(values, every[:2])
    assert len(steps) > 2


def test_gradient_of_extreme_pairs() -> None:
    A = torch.rand(2, 6, 6, dtype=torch.float64)
    A = (A @ A.mT / 10).requires_grad_()
    start = torch.eye(6, 2).double().expand(2, 6, 2)

    def facts(x: Any) -> Any:
        return spectral.eigenpair_facts(*torch.lobpcg(x, X=start))

    assert gradcheck(facts, (A,))
    with pytest.raises(ValueError, match="does not support backward with B != I"):
        torch.lobpcg(A, B=torch.eye(6).double().expand(2, 6, 6))[0].sum().backward()
    with pytest.raises(ValueError, match="not applicable when the number of A rows"):
        torch.lobpcg(A, k=3)


def test_a_tracker_may_stop_the_iteration() -> None:
    def stop(worker: Any) -> None:
        worker.bvars["force_stop"] = worker.ivars["istep"] == 2

    counts: list[int] = []
    A = torch.diag(torch.arange(1.0, 31.0)).to_sparse()
    torch.lobpcg(A, tracker=lambda w: (stop(w), counts.append(w.ivars["istep"])))  # type: ignore
    assert counts == [1, 2]
