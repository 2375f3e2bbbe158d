"""gradcheck and gradgradcheck: derivatives against central differences.

The gradient of a complex output is checked once for its imaginary and once for its real part; so is
forward mode for a complex input. Fast mode compares one fixed projection of each Jacobian, slow
mode all entries. Only failures of a check are `GradcheckError`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.autograd.backward import grad
from rushlight.autograd.differences import (
    FULL,
    IMAGINARY,
    REAL,
    Differences,
    Perturbed,
    array_of,
    as_tuple,
    gradients,
    is_differentiable,
    random_array,
    repeats,
    tensor_of,
    wants_grad,
)
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import strided
from rushlight.core.dtype import dtype
from rushlight.core.tensor import Tensor, strides_of, wrap

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


class GradcheckError(RuntimeError):
    """A derivative failed a check."""


def differentiable_outputs(value: Any) -> tuple[Any, ...]:
    return tuple(out for out in as_tuple(value) if out.requires_grad)


# -- the check -------------------------------------------------------------------------------------


class Check:
    """One call of gradcheck."""

    def __init__(
        self,
        fn: Callable[..., Any],
        inputs: tuple[Any, ...],
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
        check_grad_dtypes: bool,
        fast: bool,
        masked: bool,
    ) -> None:
        self.fn = fn
        self.inputs = inputs
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.nondet_tol = nondet_tol
        self.check_grad_dtypes = check_grad_dtypes
        self.fast = fast
        self.masked = masked
        check_inputs(inputs)
        self.positions = [i for i, x in enumerate(inputs) if wants_grad(x) and is_differentiable(x)]
        self.targets = [inputs[i] for i in self.positions]
        self.raw = as_tuple(fn(*inputs))
        self.outputs = tuple(out for out in self.raw if out.requires_grad)
        check_outputs(self.outputs)
        self.floats = [out for out in self.raw if is_differentiable(out)]
        self.differences: list[Differences] = []

    def difference(self) -> None:
        count = [out.numel() for out in self.floats]
        self.differences = [
            Differences(self.fn, Perturbed(self.inputs, i, self.masked), count, self.eps, self.fast)
            for i in self.positions
        ]

    def nothing_differentiable(self) -> None:
        """No output has a gradient: the function must not depend on its inputs."""
        for j in range(len(self.positions)):
            for i in range(len(self.floats)):
                for part in (REAL, IMAGINARY):
                    slope = self.differences[j].gradient(i, part)
                    if slope.size and np.abs(slope).max() > self.atol:
                        raise GradcheckError("Numerical gradient for function expected to be zero")

    # -- backward -----------------------------------------------------------------------------

    def backward(self) -> None:
        if not self.outputs:
            self.nothing_differentiable()
            return
        if any(out.dtype.is_complex for out in self.floats):
            self.backward_part(IMAGINARY)
            self.backward_part(REAL)
        else:
            self.backward_part(FULL)

    def backward_part(self, part: str) -> None:
        for i, out in enumerate(self.outputs):
            among = next(k for k, other in enumerate(self.floats) if other is out)
            own = part if out.dtype.is_complex else FULL
            if part == IMAGINARY and own == FULL:
                continue
            vector: Any = None
            if self.fast:
                vector = random_array(0xF00 + i, out.numel())
                norm = float(np.sqrt((vector**2).sum()))
                vector = vector / norm if norm else vector
            rows = self.analytical(out, own, vector)
            for j, difference in enumerate(self.differences):
                wanted = difference.gradient(among, own)
                found = rows[j]
                tolerance = self.atol
                if self.fast:
                    wanted = (wanted * vector).sum()
                    found = (found[:, 0] * difference.direction).sum()
                    tolerance *= float(difference.direction.sum() * vector.sum()) or 1.0
                elif self.masked:
                    kept = np.zeros_like(found)
                    chosen = difference.source.chosen
                    kept[chosen] = found[chosen]
                    found = kept
                if not close(found, wanted, self.rtol, tolerance):
                    self.mismatch(found, wanted, i, j, part if own != FULL else None, False)

    def analytical(self, out: Any, part: str, vector: Any) -> list[Any]:
        """Per input, a matrix (input elements × cotangents) of gradients; run twice."""
        found, sizes_ok, types_ok = gradients(out, self.targets, part, vector)
        again, _, _ = gradients(out, self.targets, part, vector)
        same = repeats(found, again, self.nondet_tol)
        if not types_ok and self.check_grad_dtypes:
            raise GradcheckError("Gradient has dtype mismatch")
        if not sizes_ok:
            raise GradcheckError("Analytical gradient has incorrect size")
        if not same:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                "multiple times gives different values, although analytical gradient matches "
                f"numerical gradient. The tolerance for nondeterminism was {self.nondet_tol}. "
                "Raise nondet_tol if the function is meant to be nondeterministic."
            )
        return found

    def mismatch(
        self, found: Any, wanted: Any, i: int, j: int, part: str | None, forward: bool
    ) -> None:
        element = "inputs" if forward else "outputs"
        prefix = (
            "" if part is None else f"While considering the {part} part of complex {element} only, "
        )
        mode = "computed with forward mode " if forward else ""
        text = (
            f"{prefix}Jacobian {mode}mismatch for output {i} with respect to input {j},\n"
            f"numerical:{shown(wanted)}\nanalytical:{shown(found)}\n"
        )
        if self.fast:
            text += (
                "\nThese are projections of the Jacobians on random vectors. Call gradcheck with "
                "fast_mode=False to see all entries.\n"
            )
        raise GradcheckError(text)

    # -- forward ------------------------------------------------------------------------------

    def forward(self) -> None:
        if any(target.dtype.is_complex for target in self.targets):
            self.forward_part(IMAGINARY)
            self.forward_part(REAL)
        else:
            self.forward_part(FULL)

    def forward_part(self, part: str) -> None:
        for j, (position, difference) in enumerate(
            zip(self.positions, self.differences, strict=True)
        ):
            target = self.inputs[position]
            own = part if target.dtype.is_complex else FULL
            if part == IMAGINARY and own == FULL:
                continue
            if self.fast:
                directions: Any = [(0, difference.direction.astype(target.dtype.np))]
                if own == IMAGINARY:
                    directions = [(0, directions[0][1] * 1j)]
                rows = 1
            else:
                directions = difference.source.directions(own)
                rows = target.numel()
            found = [np.zeros((rows, out.numel()), np.complex128) for out in self.floats]
            for index, direction in directions:
                for k, row in enumerate(self.push({position: direction})):
                    found[k][index] = row
            for i, matrix in enumerate(found):
                wanted = difference.tangent(i, own)
                tolerance = self.atol
                if self.fast:
                    tolerance *= max(1.0, float(difference.direction.sum()))
                if not close(matrix, wanted, self.rtol, tolerance):
                    self.mismatch(matrix, wanted, i, j, part if own != FULL else None, True)

    def push(self, directions: dict[int, Any], plain: frozenset[int] = frozenset()) -> list[Any]:
        """Tangents of the floating point outputs; inputs without a direction get zeros, those in
        `plain` no tangent at all."""
        from rushlight.autograd import forward_ad

        with forward_ad.dual_level():
            arguments = list(self.inputs)
            for position in self.positions:
                source = self.inputs[position]
                if position in plain:
                    arguments[position] = source.detach()
                    continue
                direction = directions.get(position)
                if direction is None:
                    direction = np.zeros(source.numel())
                tangent = tensor_of(direction, source.dtype, source)
                arguments[position] = forward_ad.make_dual(source.detach(), tangent)
            found = []
            for out in as_tuple(self.fn(*arguments)):
                if not is_differentiable(out):
                    continue
                primal, tangent = forward_ad.unpack_dual(out)
                if tangent is None:
                    found.append(np.zeros(primal.numel()))
                    continue
                if self.check_grad_dtypes and primal.is_complex() != tangent.is_complex():
                    raise GradcheckError("Forward AD gradient has dtype mismatch.")
                found.append(array_of(tangent))
        return found

    def undefined_forward(self) -> None:
        """A missing tangent must mean what a tangent of zeros means."""
        everyone = {
            position: random_array(0xD1 + position, self.inputs[position].numel())
            for position in self.positions
        }
        for position in self.positions:
            others = {k: v for k, v in everyone.items() if k != position}
            zeros = self.push(others)
            missing = self.push(others, frozenset((position,)))
            for i, (a, b) in enumerate(zip(zeros, missing, strict=True)):
                if not np.allclose(a, b):
                    raise GradcheckError(
                        f"Mismatch in tangent values for output with index: {i} when input: "
                        f"{position} has an undefined tangent value. Got: {a} but expected: {b}"
                    )

    # -- further checks -----------------------------------------------------------------------

    def batched_forward(self) -> None:
        from rushlight.autograd import forward_ad
        from rushlight.autograd.batched import batched_call

        for position in self.positions:

            def jvp(tangent: Any, position: int = position) -> tuple[Any, ...]:
                with forward_ad.dual_level():
                    arguments = [detached(x) for x in self.inputs]
                    arguments[position] = forward_ad.make_dual(arguments[position], tangent)
                    results = []
                    for out in as_tuple(self.fn(*arguments)):
                        if out is None:
                            continue
                        primal, pushed = forward_ad.unpack_dual(out)
                        results.append(primal * 0 if pushed is None else pushed)
                return tuple(results)

            target = self.inputs[position]
            tangents = [
                random_array(0xBA7 + k, target.numel(), -1.0, 1.0).reshape(tuple(target.shape))
                for k in range(2)
            ]
            expected = [jvp(tensor_of(t, target.dtype, target)) for t in tangents]
            stacked = tensor_of(np.stack(tangents), target.dtype)
            try:
                result = batched_call(jvp, stacked)
            except RuntimeError as error:
                raise GradcheckError(f"{batched_failure(error)}{BATCHED_FORWARD}") from error
            compare_batched(result, expected, position, BATCHED_FORWARD)

    def batched_backward(self) -> None:
        for i, out in enumerate(self.outputs):
            cotangents = [
                random_array(0xBA8 + k, out.numel(), -1.0, 1.0).reshape(tuple(out.shape))
                for k in range(2)
            ]
            options: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
            expected = [
                self.filled(grad(out, self.targets, tensor_of(c, out.dtype, out), **options))
                for c in cotangents
            ]
            stacked = tensor_of(np.stack(cotangents), out.dtype)
            try:
                found = grad(out, self.targets, stacked, is_grads_batched=True, **options)
            except RuntimeError as error:
                raise GradcheckError(f"{batched_failure(error)}{BATCHED}") from error
            for j, result in enumerate(found):
                if result is not None:
                    pairs = [(rows[j],) for rows in expected]
                    compare_batched((result,), pairs, i, BATCHED, j)

    def filled(self, grads: tuple[Any, ...]) -> list[Any]:
        return [
            tensor_of(np.zeros(t.numel()), t.dtype, t) if g is None else g
            for g, t in zip(grads, self.targets, strict=True)
        ]

    def multiplied_by_grad_output(self) -> None:
        """A gradient of zeros must give zeros, of the right kind."""
        zeros = [tensor_of(np.zeros(o.numel()), o.dtype, o) for o in self.outputs]
        found = grad(self.outputs, self.targets, zeros, retain_graph=True, allow_unused=True)
        for gradient, target in zip(found, self.targets, strict=True):
            if gradient is None:
                continue
            if gradient.layout is not strided and gradient.layout is not target.layout:
                raise GradcheckError(
                    f"grad is incorrect layout ({gradient.layout} is not {target.layout})"
                )
            values = array_of(gradient)
            if not (np.allclose(values, 0) if self.masked else not np.any(values != 0)):
                raise GradcheckError("backward not multiplied by grad_output")
            if gradient.dtype is not target.dtype:
                raise GradcheckError("grad is incorrect type")
            if gradient.device != target.device:
                raise GradcheckError("grad is incorrect device")
            if not geometry.same_sizes(tuple(gradient.shape), tuple(target.shape)):
                raise GradcheckError("grad is incorrect size")

    def undefined_backward(self) -> None:
        """Backward must take undefined gradients, of all outputs and of each alone."""
        groups: list[frozenset[int]] = [frozenset(range(len(self.outputs)))]
        if len(self.outputs) > 1:
            groups += [frozenset((i,)) for i in range(len(self.outputs))]
        undefined = undefining()
        for group in groups:
            fresh = differentiable_outputs(self.fn(*self.inputs))
            routed = [undefined(out) if i in group else out for i, out in enumerate(fresh)]
            zeros = [tensor_of(np.zeros(o.numel()), o.dtype, o) for o in routed]
            try:
                found = grad(routed, self.targets, zeros, allow_unused=True)
            except RuntimeError as error:
                warn_undefined()
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads. A gradient of "
                    "None stands for zeros."
                ) from error
            for gradient in found:
                if gradient is not None and np.any(array_of(gradient) != 0):
                    warn_undefined()
                    raise GradcheckError(
                        "Expected all input grads to be undefined or zero when all output grads "
                        "are undefined or zero."
                    )


BATCHED = (
    "\n\ngradcheck or gradgradcheck failed while testing batched gradient computation: backward "
    "with a batch of gradients (is_grads_batched=True) must equal one backward for each of them. "
    "Pass check_batched_grad=False to leave this check out.\n"
)
BATCHED_FORWARD = (
    "\n\ngradcheck failed while testing batched gradient computation with forward-mode AD: a batch "
    "of tangents pushed under vmap must equal one push for each of them. Pass "
    "check_batched_forward_grad=False to leave this check out.\n"
)


def detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def batched_failure(error: BaseException) -> str:
    return f"While computing batched gradients, got: {error}"


def compare_batched(
    result: Any, expected: Any, output: int, advice: str, first_input: int = 0
) -> None:
    for position, value in enumerate(result):
        wanted = np.concatenate([array_of(row[position]) for row in expected])
        if not np.allclose(array_of(value), wanted):
            raise GradcheckError(
                f"For output {output} and input {first_input + position}: batched gradients are "
                f"{shown(array_of(value))}, one by one they are {shown(wanted)}.{advice}"
            )


def undefining() -> Any:
    """A function whose output has no gradient to pass on."""
    from rushlight.autograd.function import Function

    class UndefinedGrad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return None

    return UndefinedGrad.apply


def warn_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by "
        "default, but it may break existing callers of this function. If this is true for you, "
        'you can call this function with "check_undefined_grad=False" to disable the feature',
        stacklevel=2,
    )


def close(found: Any, wanted: Any, rtol: float, atol: float) -> bool:
    return bool(np.allclose(found, wanted, rtol, atol))


def shown(value: Any) -> str:
    """Numbers as a tensor, real where they are."""
    array = np.asarray(value)
    if array.dtype.kind == "c" and not np.any(array.imag):
        array = array.real
    return str(wrap(np.array(array), dtypes.from_numpy(array.dtype)))


# -- validation ------------------------------------------------------------------------------------


def check_inputs(inputs: tuple[Any, ...]) -> None:
    found = False
    for position, value in enumerate(inputs):
        if not wants_grad(value):
            continue
        if value.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point "
                "or complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. ",
                stacklevel=4,
            )
        if str(value.layout) == "torch._mkldnn":
            raise ValueError("MKLDNN inputs are not support for forward AD gradcheck.")
        if value.layout is strided and any(
            step == 0 and size > 1
            for step, size in zip(strides_of(value), value.shape, strict=True)
        ):
            raise RuntimeError(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports "
                "inputs that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )
        found = True
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )


def check_outputs(outputs: tuple[Any, ...]) -> None:
    for out in outputs:
        if out.layout is not strided:
            what = "MKLDNN" if str(out.layout) == "torch._mkldnn" else "Sparse"
            raise ValueError(
                f"{what} output is not supported at gradcheck yet. Please call "
                "to_dense(masked_grad=...) on the output of fn for gradcheck."
            )


# -- public ----------------------------------------------------------------------------------------


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of `func` at `inputs` equal central differences.

    >>> import rushlight as torch
    >>> x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(lambda x: x * x, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    try:
        check = Check(
            func,
            as_tuple(inputs),
            eps,
            atol,
            rtol,
            nondet_tol,
            check_grad_dtypes,
            fast_mode,
            bool(masked),
        )
        check.difference()
        if check_backward_ad:
            check.backward()
        if check_forward_ad and check.floats:
            check.forward()
            if check_undefined_grad:
                check.undefined_forward()
        if check_batched_forward_grad:
            check.batched_forward()
        if check_backward_ad and check.outputs:
            if check_batched_grad:
                check.batched_backward()
            check.multiplied_by_grad_output()
            if check_undefined_grad:
                check.undefined_backward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of `func` equal differences of its gradients."""
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
        )
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_rev_over_rev to be True"
        )
    given = as_tuple(inputs)
    if grad_outputs is None:
        cotangents = tuple(
            random_cotangent(i, out, gen_non_contig_grad_outputs)
            for i, out in enumerate(differentiable_outputs(func(*given)))
        )
    else:
        cotangents = as_tuple(grad_outputs)
    count = len(cotangents)
    split = len(given)
    varied = [i for i, x in enumerate((*given, *cotangents)) if wants_grad(x)]

    def gradient(*args: Any) -> tuple[Any, ...]:
        ready = [x.requires_grad_() if i in varied else x for i, x in enumerate(args)]
        outputs = differentiable_outputs(func(*ready[:split]))
        targets = [ready[i] for i in varied if i < split]
        found = grad(
            outputs, targets, ready[split : split + count], create_graph=True, allow_unused=True
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient,
        (*given, *cotangents),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def random_cotangent(position: int, out: Any, non_contiguous: bool) -> Any:
    """A fixed gradient for an output."""
    dtype = out.dtype if is_differentiable(out) else dtypes.float64
    shape = tuple(out.shape)
    wide = (*shape, 2) if non_contiguous and out.numel() > 1 else shape
    count = int(np.prod(wide, dtype=np.int64))
    values = random_array(0x6C0 + position, count, -1.0, 1.0)
    if dtype.is_complex:
        values = values + 1j * random_array(0x6C1 + position, count, -1.0, 1.0)
    made: Any = wrap(values.reshape(wide).astype(dtype.np), dtype)
    if wide is not shape:
        made = made.select(-1, 0)
    if out.device.type != "cpu":
        made = made.to(out.device)
    return made.detach().requires_grad_()


# -- older names -----------------------------------------------------------------------------------


def warn_private(name: str) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. It is kept for "
        "compatibility; call gradcheck instead.",
        FutureWarning,
        stacklevel=3,
    )


def as_matrix(matrix: Any, dtype: dtype) -> Any:
    values = matrix if dtype.is_complex else matrix.real
    return wrap(np.ascontiguousarray(values).astype(dtype.np), dtype)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Any,
    outputs: Any,
    eps: float,
    input: Any = None,
    is_forward_ad: bool = False,
) -> tuple[Any, ...]:
    """Central differences of every output with respect to one input."""
    source = Perturbed(as_tuple(inputs), input_idx, False)
    if input is not None and input is not source.tensor:
        source.tensor = input
        source.original = array_of(input)
        source.inputs[input_idx] = input
    floats = [out for out in as_tuple(outputs) if is_differentiable(out)]
    found = Differences(fn, source, [out.numel() for out in floats], eps, False)
    parts = [found.gradient(i, FULL) for i in range(len(floats))]
    return tuple(as_matrix(part, source.tensor.dtype) for part in parts)


def get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Any,
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Any, ...]:
    """The Jacobian of the first output of `fn(inputs)` by central differences, per input."""
    warn_private("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of "
            "grad_out != 1.0."
        )
    given = as_tuple(inputs)
    outputs = as_tuple(fn(given))
    if any(out.is_complex() for out in outputs):
        raise ValueError(
            "Expected output to be non-complex. get_numerical_jacobian no longer supports "
            "functions that return complex outputs."
        )
    wanted = given if target is None else as_tuple(target)
    positions = [i for i, x in enumerate(given) if any(x is w for w in wanted) and wants_grad(x)]
    return tuple(
        get_numerical_jacobian_wrt_specific_input(
            lambda *args: fn(args), position, given, outputs, eps
        )[0]
        for position in positions
    )


def get_analytical_jacobian(
    inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Any, ...], bool, bool, bool]:
    """(Jacobians of `output` per input, repeatable, sizes right, dtypes right)."""
    warn_private("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of "
            "grad_out != 1.0."
        )
    if output.is_complex():
        raise ValueError(
            "Expected output to be non-complex. get_analytical_jacobian no longer supports "
            "functions that return complex outputs."
        )
    targets = [x for x in as_tuple(inputs) if wants_grad(x)]
    found, sizes_ok, types_ok = gradients(output, targets, FULL, None)
    again, _, _ = gradients(output, targets, FULL, None)
    jacobians = tuple(as_matrix(m, t.dtype) for m, t in zip(found, targets, strict=True))
    return jacobians, repeats(found, again, nondet_tol), sizes_ok, types_ok
