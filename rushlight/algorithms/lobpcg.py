"""torch.lobpcg: a few extreme eigenpairs of a large symmetric matrix, without factorising it.

A step looks for better eigenvectors in the span of the current ones (X), the last directions (P)
and the residuals (W). `LOBPCG` is the state of that iteration, which trackers see; columns of S are
X, P, W in this order. The gradient is that of the eigenproblem, not of the iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.algorithms.lowrank import is_sparse, product, working_dtype
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import no_grad
from rushlight.core import dtype as dtypes
from rushlight.core.dispatch import overridable
from rushlight.opset import functions as aten
from rushlight.opset.creation.random import randn
from rushlight.opset.creation.series import eye

__all__ = ["LOBPCG", "lobpcg"]

TOLERANCES = {dtypes.float32: 1.2e-7**0.5, dtypes.float64: 2.23e-16**0.5}
ORTHO_DEFAULTS = {"ortho_i_max": 3, "ortho_j_max": 3}


def quadratic(A: Any, S: Any) -> Any:
    return S.mT.matmul(product(A, S))


def eigenpairs(A: Any, largest: bool) -> tuple[Any, Any]:
    """All eigenpairs of a small symmetric matrix, the wanted end of the spectrum first."""
    values, vectors = aten._linalg_eigh(A, "U", True)
    return (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)


def size_of(value: Any) -> float:
    return float(aten.linalg_vector_norm(value))


class LOBPCG:
    """One run for one matrix: parameters, iteration variables and current approximation."""

    def __init__(
        self,
        A: Any,
        B: Any,
        X: Any,
        iK: Any,
        iparams: dict[str, int],
        fparams: dict[str, float],
        bparams: dict[str, bool],
        method: str,
        tracker: Callable[[LOBPCG], None] | None,
    ) -> None:
        self.A, self.B, self.iK = A, B, iK
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.method = method
        self.tracker = tracker
        m, n = iparams["m"], iparams["n"]
        self.X = X.clone()
        self.E = X.new_zeros((n,))
        self.R = X.new_zeros((m, n))
        self.S = X.new_zeros((m, 0))
        self.tvars: dict[str, Any] = {}
        self.ivars: dict[str, int] = {
            "istep": 0,
            "iterations_left": iparams["niter"],
            "converged_count": 0,
            "converged_end": 0,
        }
        length = size_of(X)
        self.fvars: dict[str, float] = {
            "X_norm": length,
            "A_norm": size_of(product(A, X)) / length,
            "B_norm": size_of(product(B, X)) / length,
        }
        self.bvars: dict[str, bool] = {"force_stop": False}

    def __repr__(self) -> str:
        return f"LOBPCG(method={self.method!r}, {self.iparams}, {self.fparams}, {self.ivars})"

    # -- iteration --------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            self.update()
            if self.tracker is not None:
                self.tracker(self)
            if self.stop_iteration():
                return

    def stop_iteration(self) -> bool:
        """Enough pairs found, no steps left, or a tracker has had enough."""
        return (
            self.bvars["force_stop"]
            or self.ivars["iterations_left"] <= 0
            or self.ivars["converged_count"] >= self.iparams["k"]
        )

    def update(self) -> None:
        """One step."""
        first = self.ivars["istep"] == 0
        orthonormal = self.method == "ortho"
        # Converged vectors stay out of the way only where the others are orthogonal to them.
        done = self.ivars["converged_count"] if orthonormal else 0
        basis = self.X if first else self.S[:, done:]
        directions = self.improve(basis, done, orthonormal and not first)
        self.update_residual()
        done = self.update_converged_count()
        kept = self.X if first else aten.cat([self.X, directions], -1)
        residuals = product(self.iK, self.R[:, done:])
        if orthonormal:
            residuals = self.orthogonalized(residuals, kept)
        self.S = aten.cat([kept, residuals], -1)
        self.ivars["converged_end"] = self.S.shape[-1]
        self.ivars["iterations_left"] -= 1
        self.ivars["istep"] += 1

    def improve(self, basis: Any, done: int, orthonormal: bool) -> Any:
        """The best approximations in the span of `basis`, the first `done` left as they are;
        answers the directions they moved in."""
        largest = self.bparams["largest"]
        wanted = self.iparams["n"] - done
        form = quadratic(self.A, basis)
        if orthonormal:
            values, turn = eigenpairs(form, largest)
            # What the new vectors have outside the old ones, as an orthonormal basis.
            outside = aten.linalg_qr(turn[:wanted, wanted:].mT)[0]
            moved = turn[:, wanted:].matmul(outside)
        else:
            scale = self.normalizer(basis)
            values, turn = eigenpairs(scale.mT.matmul(form).matmul(scale), largest)
            turn = scale.matmul(turn)
            moved = turn[:, wanted : 2 * wanted]
        self.X = aten.cat([self.X[:, :done], basis.matmul(turn[:, :wanted])], -1)
        self.E = aten.cat([self.E[:done], values[:wanted]], -1)
        return basis.matmul(moved)

    def update_residual(self) -> None:
        self.R = product(self.A, self.X) - product(self.B, self.X) * self.E

    def update_converged_count(self) -> int:
        """How many of the first pairs have a residual that rounding could explain."""
        sizes, lengths = [aten.linalg_vector_norm(part, 2, (0,)) for part in (self.R, self.X)]
        scale = self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]
        errors = self.tvars["rerr"] = sizes / (lengths * scale)
        count = 0
        for error in errors.tolist():
            if not error < self.fparams["tol"]:
                break
            count += 1
        count = max(count, self.ivars["converged_count"])
        self.ivars["converged_count"] = count
        return count

    # -- bases ------------------------------------------------------------------------------------

    def normalizer(self, S: Any) -> Any:
        """The triangular N that makes S @ N orthonormal with respect to B."""
        gram = quadratic(self.B, S)
        scale = gram.diagonal() ** -0.5
        factor = aten.linalg_cholesky(gram * scale * scale.unsqueeze(-1), upper=True)
        return aten.linalg_solve_triangular(factor, scale.diag(), upper=True, left=False)

    def orthonormalized(self, U: Any, drop: bool, tau: float) -> Any:
        """An orthonormal basis of the span of U, by the eigenvectors of its Gram matrix. Directions
        shorter than `tau` are dropped, or taken for that long."""
        if U.numel() == 0:
            return U
        gram = quadratic(self.B, U)
        present = gram.diagonal() != 0
        if not bool(present.all()):
            U = U[:, present]
            if U.numel() == 0:
                return U
            gram = quadratic(self.B, U)
        scale = gram.diagonal() ** -0.5
        values, vectors = eigenpairs(gram * scale * scale.unsqueeze(-1), False)
        least = tau * values.abs().max()
        if drop:
            kept = values > least
            values, vectors = values[kept], vectors[:, kept]
        else:
            values = aten.maximum(values, least)
        return (U * scale).matmul(vectors * values**-0.5)

    def orthogonalized(self, U: Any, V: Any) -> Any:
        """An orthonormal basis of what U adds to the span of V, which is orthonormal."""
        limits, precise = self.iparams, self.fparams["ortho_tol"]
        size = size_of(product(self.B, V))
        overlap = V.mT.matmul(product(self.B, U))
        for _ in range(limits["ortho_i_max"]):
            U = U - V.matmul(overlap)
            for j in range(limits["ortho_j_max"]):
                drop = self.bparams["ortho_use_drop"]
                tau = self.fparams["ortho_tol_drop" if drop and j == 0 else "ortho_tol_replace"]
                U = self.orthonormalized(U, drop and j > 0, tau)
                if U.numel() == 0:
                    return U
                BU = product(self.B, U)
                gram = U.mT.matmul(BU)
                identity = eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
                if size_of(gram - identity) < precise * size_of(BU) * size_of(U):
                    break
            overlap = V.mT.matmul(BU)
            if size_of(overlap) < precise * size * size_of(U):
                break
            if self.iparams["m"] < U.shape[-1] + V.shape[-1]:
                raise ValueError(
                    f"Overdetermined shape of U: #B-cols(={self.iparams['m']}) >= "
                    f"#U-cols(={U.shape[-1]}) + #V-cols(={V.shape[-1]}) must hold"
                )
        return U


# -- the gradient ----------------------------------------------------------------------------------


def eigenproblem_gradient(by_values: Any, by_vectors: Any, A: Any, D: Any, U: Any) -> Any:
    """By a symmetric A of functions of some of its eigenpairs."""
    turned = U.mT
    identity = aten.diag_embed(aten.ones_like(D))
    gaps = D.unsqueeze(-2) - D.unsqueeze(-1)
    inverses = (gaps + identity).reciprocal() - identity
    inner = turned.matmul(by_vectors)
    result = U.matmul(aten.diag_embed(by_values) + inner * inverses).matmul(turned)
    if U.shape[-1] == U.shape[-2]:
        return result
    # What a vector gains from the other eigenspaces solves (A - d) y = its gradient there. Adding
    # U U^T makes the equations regular and leaves their solution alone.
    rest = eye(U.shape[-2], dtype=U.dtype, device=U.device) - U.matmul(turned)
    shifted = rest.matmul(A).matmul(rest).unsqueeze(-3)
    shifted = shifted - D.unsqueeze(-1).unsqueeze(-1) * rest.unsqueeze(-3)
    shifted = shifted + U.matmul(turned).unsqueeze(-3)
    targets = rest.matmul(by_vectors).mT.unsqueeze(-1)
    gains = aten.linalg_solve(shifted, targets).squeeze(-1)
    return result - gains.mT.matmul(turned)


class Eigenpairs(Function):
    """`solve` with a gradient by A."""

    @staticmethod
    def forward(ctx: Any, A: Any, B: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        D, U = solve(A, B=B, **options)
        ctx.save_for_backward(A, B, D, U)
        return D, U

    @staticmethod
    def backward(ctx: Any, by_values: Any, by_vectors: Any) -> Any:
        A, B, D, U = ctx.saved_tensors
        if is_sparse(A) or (B is not None and is_sparse(B) and ctx.needs_input_grad[1]):
            raise ValueError(
                "lobpcg.backward does not support sparse input yet. Note that lobpcg.forward does "
                "though."
            )
        if A.is_complex() or (B is not None and B.is_complex()):
            raise ValueError(
                "lobpcg.backward does not support complex input yet. Note that lobpcg.forward does "
                "though."
            )
        if B is not None:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        return eigenproblem_gradient(by_values, by_vectors, A, D, U), None, None


# -- the function ----------------------------------------------------------------------------------


def solve(
    A: Any,
    k: int | None,
    B: Any,
    X: Any,
    n: int | None,
    iK: Any,
    niter: int | None,
    tol: float | None,
    largest: bool | None,
    method: str | None,
    tracker: Any,
    ortho_iparams: dict[str, int] | None,
    ortho_fparams: dict[str, float] | None,
    ortho_bparams: dict[str, bool] | None,
) -> tuple[Any, Any]:
    m = A.shape[-1]
    if A.shape[-2] != m:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    dtype = working_dtype(A)
    tol = TOLERANCES[dtype] if tol is None else tol
    if k is None:
        k = 1 if X is None else X.shape[-1]
    n = X.shape[-1] if X is not None else k if n is None else n
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    method = "ortho" if method is None else method
    iparams = {"m": m, "n": n, "k": k, "niter": 1000 if niter is None else niter}
    fparams = {"tol": tol}
    bparams = {"largest": True if largest is None else largest}
    if method == "ortho":
        iparams.update(ORTHO_DEFAULTS | (ortho_iparams or {}))
        names = ("ortho_tol", "ortho_tol_drop", "ortho_tol_replace")
        fparams.update(dict.fromkeys(names, tol) | (ortho_fparams or {}))
        bparams.update({"ortho_use_drop": False} | (ortho_bparams or {}))

    def one(A: Any, B: Any, X: Any, extra: dict[str, int]) -> tuple[Any, Any]:
        if X is None:
            X = randn((m, n), dtype=dtype, device=A.device)
        if tuple(X.shape) != (m, n):
            raise AssertionError(f"X shape mismatch: got {X.shape}, expected {(m, n)}")
        worker = LOBPCG(A, B, X, iK, iparams | extra, fparams, bparams, method, tracker)
        worker.run()
        return worker.E[:k], worker.X[:, :k]

    with no_grad():
        if A.dim() == 2:
            return one(A, B, X, {})
        batch = tuple(A.shape[:-2])
        flat = [None if t is None else t.reshape(-1, *t.shape[-2:]) for t in (A, B, X)]
        found = [
            one(*[None if t is None else t[i] for t in flat], {"batch_index": i})
            for i in range(flat[0].shape[0])
        ]
        values = aten.stack([entry[0] for entry in found]).reshape(*batch, k)
        return values, aten.stack([entry[1] for entry in found]).reshape(*batch, m, k)


@overridable
def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[LOBPCG], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Any, Any]:
    """The `k` largest (or smallest) eigenvalues of a symmetric A, or of A x = e B x for a positive
    definite B, and their eigenvectors, by iteration from `X` (random when None).

    `iK` preconditions residuals, `tol` bounds their relative size, `niter` the number of steps.
    `method` is "ortho" (robust, the default) or "basic" (fewer operations per step). `tracker` is
    called with the `LOBPCG` object after each step, and may set `bvars["force_stop"]`.
    """
    options: dict[str, Any] = {
        "k": k, "X": X, "n": n, "iK": iK, "niter": niter, "tol": tol, "largest": largest,
        "method": method, "tracker": tracker, "ortho_iparams": ortho_iparams,
        "ortho_fparams": ortho_fparams, "ortho_bparams": ortho_bparams,
    }  # fmt: skip
    if not (A.requires_grad or (B is not None and B.requires_grad)):
        return solve(A, B=B, **options)
    # Through the symmetric part, so that gradients are symmetric too.
    A = (A + A.mT) / 2
    B = None if B is None else (B + B.mT) / 2
    found: tuple[Any, Any] = Eigenpairs.apply(A, B, options)
    return found
