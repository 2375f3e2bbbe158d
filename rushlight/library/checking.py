"""`opcheck`: whether a custom operator keeps the promises that tracing and autograd rely on."""

from __future__ import annotations

from typing import Any

from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.library.registration import find_op
from rushlight.opset import custom

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """A custom operator breaks a rule that `opcheck` looks at."""

    __module__ = "rushlight.library"


def check_schema(op: OpOverload, args: Any, kwargs: Any) -> None:
    """The operator writes to what its schema marks, and to nothing else."""
    bound = op.bind(*args, **kwargs)
    copies = [value.clone() if isinstance(value, Tensor) else value for value in bound]
    op(*args, **kwargs)
    for position, (before, after) in enumerate(zip(copies, bound, strict=True)):
        argument = op._schema.arguments[position]
        if isinstance(after, Tensor) and not argument.is_write:
            same = before.detach().eq(after.detach()) | before.ne(before).detach()
            if not bool(same.all()):
                raise RuntimeError(
                    f"Argument {argument.name} is not defined to alias output but was changed by "
                    f"{op.name()}; mark it in mutates_args."
                )


def check_fake(op: OpOverload, args: Any, kwargs: Any) -> None:
    """The fake implementation answers shapes, dtypes and strides like the real one."""

    def meta(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().to("meta")
        if isinstance(value, (list, tuple)):
            return type(value)([meta(item) for item in value])
        return value

    real = op(*args, **kwargs)
    fake = op(*[meta(value) for value in args], **{k: meta(v) for k, v in kwargs.items()})
    pairs = zip(
        real if isinstance(real, (tuple, list)) else (real,),
        fake if isinstance(fake, (tuple, list)) else (fake,),
        strict=True,
    )
    for expected, found in pairs:
        if isinstance(expected, Tensor) and (
            expected.shape != found.shape
            or expected.dtype is not found.dtype
            or expected.stride() != found.stride()
        ):
            raise RuntimeError(
                f"{op.name()}: the fake implementation gives {found.dtype} of shape "
                f"{tuple(found.shape)} and strides {found.stride()}, the real one "
                f"{expected.dtype} of shape {tuple(expected.shape)} and strides "
                f"{expected.stride()}."
            )


def check_autograd_registration(op: OpOverload, args: Any, kwargs: Any) -> None:
    """Gradients go through the autograd layer, not through a kernel below it."""
    bound = op.bind(*args, **kwargs)
    if not custom.records_gradient(bound) or op.kind is not custom.CUSTOM:
        return
    if op.body is None:
        result = op(*args, **kwargs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        if any(isinstance(value, Tensor) and value.requires_grad for value in results):
            raise RuntimeError(
                f"{op.name()}: it is not registered with autograd, but its kernel for the backend "
                "records gradients itself. Use register_autograd, or register the function under "
                "CompositeImplicitAutograd."
            )


CHECKS = {
    "test_schema": check_schema,
    "test_autograd_registration": check_autograd_registration,
    "test_faketensor": check_fake,
}


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: Any = tuple(CHECKS),
    raise_exception: bool = True,
    atol: Any = None,
    rtol: Any = None,
) -> dict[str, Any]:
    """Check a custom operator on sample arguments; {check: "SUCCESS" or the error}."""
    record = find_op(op)
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    results: dict[str, Any] = {}
    for name in names:
        if name not in CHECKS:
            raise RuntimeError(
                f"opcheck(op, ...): `test_utils` must be a subset of {set(CHECKS)}, got {names}."
            )
        try:
            CHECKS[name](record, args, kwargs or {})
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
        else:
            results[name] = "SUCCESS"
    return results
