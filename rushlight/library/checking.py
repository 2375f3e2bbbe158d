"""`opcheck`: whether a custom operator keeps the promises that tracing and autograd rely on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from rushlight.core import keys
from rushlight.core.fake import FakeTensorMode
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.tensor import Tensor
from rushlight.library.dispatcher import has_kernel_for_key
from rushlight.library.registration import find_op
from rushlight.library.schema_check import SchemaCheckMode

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """A custom operator breaks a rule that `opcheck` looks at."""

    __module__ = "rushlight.library"


def copied(value: Any) -> Any:
    """Arguments with tensors of their own, which require gradients as the originals do."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        made: Any = leaf.detach().clone()
        return made.requires_grad_(leaf.requires_grad)

    return tree_map(copy, value)


def check_schema(op: OpOverload, args: Any, kwargs: Any, **tolerance: Any) -> None:
    """The operator writes to what its schema marks, and to nothing else."""
    args, kwargs = copied((args, kwargs))
    with SchemaCheckMode():
        op(*args, **kwargs)


AUTOGRAD_MISSING = (
    "{op}: at least one output of this operator has requires_grad=True but the operator does not "
    "have an autograd kernel defined at an autograd key (e.g. DispatchKey::Autograd). This could "
    "mean that you have incorrectly registered an autograd kernel to a non-Autograd DispatchKey, "
    "which may lead to silently incorrect results. If your operator consists of regular PyTorch "
    "operations, consider not using an operator at all or registering your operator as "
    "CompositeImplicitAutograd. If you have an autograd.Function registered to a backend "
    "(CPU/CUDA/XPU) key, the correct location for it is the Autograd key."
)


def check_autograd_registration(op: OpOverload, args: Any, kwargs: Any, **tolerance: Any) -> None:
    """Gradients go through the autograd layer, not through a kernel below it."""
    args, kwargs = copied((args, kwargs))
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if not any([tensor.requires_grad for tensor in tensors]):
        return
    device = keys.DEVICE_NAMES[tensors[0].device.type]
    for key in (f"Autograd{device}", "Autograd", "CompositeImplicitAutograd"):
        if has_kernel_for_key(op.name(), key):
            return
    for leaf in tree_leaves(op(*args, **kwargs)):
        if isinstance(leaf, Tensor) and leaf.requires_grad and not any(leaf is t for t in tensors):
            raise AssertionError(AUTOGRAD_MISSING.format(op=op.name()))


def metadata_mismatch(real: Tensor, fake: Tensor) -> str | None:
    """How a fake result differs from the real one; None where it does not."""
    if real.dtype is not fake.dtype:
        return f"Dtypes {real.dtype} and {fake.dtype} are not equal!"
    if len(real.shape) != len(fake.shape):
        return f"Shapes {real.shape} and {fake.shape} are not equal!"
    for ours, theirs in zip(real.shape, fake.shape, strict=True):
        if isinstance(theirs, int) and ours != theirs:
            return f"Shapes {real.shape} and {fake.shape} are not equal!"
    if real.device != fake.device:
        return f"Devices {real.device} and {fake.device} are not equal!"
    for place, (ours, theirs) in enumerate(zip(real.stride(), fake.stride(), strict=True)):
        if isinstance(theirs, int) and ours != theirs and real.shape[place] > 1:
            return (
                f"Stride mismatch! Strides are {real.stride()} and {fake.stride()} (mismatched at "
                f"{place})!"
            )
    return None


def check_fake(op: OpOverload, args: Any, kwargs: Any, **tolerance: Any) -> None:
    """The fake implementation answers shapes, dtypes and strides like the real one."""
    from rushlight.symbolic import ShapeEnv

    args, kwargs = copied((args, kwargs))
    mode = FakeTensorMode(shape_env=ShapeEnv())
    shown = tree_map(
        lambda leaf: (
            mode.from_tensor(leaf, static_shapes=True) if isinstance(leaf, Tensor) else leaf
        ),
        (args, kwargs),
    )
    with mode:
        fake = tree_leaves(op(*shown[0], **shown[1]))
    real = tree_leaves(op(*args, **kwargs))
    context = f"When comparing the output of {op} on FakeTensor and concrete Tensors, found"
    if len(real) != len(fake):
        raise AssertionError(f"{context} mismatch in number of returns: {len(fake)} != {len(real)}")
    for expected, found in zip(real, fake, strict=True):
        if isinstance(expected, Tensor) is not isinstance(found, Tensor):
            raise AssertionError(f"{context} a Tensor where the other has {type(found)}")
        difference = metadata_mismatch(expected, found) if isinstance(expected, Tensor) else None
        if difference is not None:
            raise AssertionError(f"{context} mismatched tensor metadata: {difference}")


def check_aot(op: OpOverload, args: Any, kwargs: Any, *, dynamic: bool, **tolerance: Any) -> None:
    """Results and gradients stay the same when the operator is traced ahead of time."""
    from rushlight.aot.api import aot_function
    from rushlight.aot.compilers import nop
    from rushlight.autograd.backward import grad
    from rushlight.testing.comparison import assert_close

    def run(call: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
        given = copied((args, kwargs))
        flat, spec = tree_flatten(given)
        tensors = [leaf for leaf in flat if isinstance(leaf, Tensor)]
        places = [place for place, leaf in enumerate(flat) if isinstance(leaf, Tensor)]

        def of_tensors(*values: Tensor) -> Any:
            full = list(flat)
            for place, value in zip(places, values, strict=True):
                full[place] = value
            positional, keywords = tree_unflatten(full, spec)
            return op(*positional, **keywords)

        results = [leaf for leaf in tree_leaves(call(of_tensors)(*tensors)) if is_tensor(leaf)]
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        recorded = [result for result in results if result.requires_grad]
        if not wanted or not recorded:
            return results, tensors
        seeds = [result.detach().clone().fill_(1) for result in recorded]
        return results, [*tensors, *grad(recorded, wanted, seeds, allow_unused=True)]

    eager = run(lambda function: function)
    traced = run(lambda function: aot_function(function, nop, dynamic=dynamic))
    for expected, found in zip((*eager[0], *eager[1]), (*traced[0], *traced[1]), strict=True):
        if expected is None or found is None:
            assert expected is found, "a gradient is undefined in one of eager and traced"
            continue
        assert_close(
            found.detach(),
            expected.detach(),
            atol=tolerance.get("atol"),
            rtol=tolerance.get("rtol"),
            msg=lambda text: (
                f"Outputs of the operator differ between eager-mode PyTorch and "
                f"AOTDispatcher tracing. This could be an error in the operator's gradient or fake "
                f"implementation.\n{text}"
            ),
        )


def is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def check_aot_static(op: OpOverload, args: Any, kwargs: Any, **tolerance: Any) -> None:
    check_aot(op, args, kwargs, dynamic=False, **tolerance)


def check_aot_dynamic(op: OpOverload, args: Any, kwargs: Any, **tolerance: Any) -> None:
    check_aot(op, args, kwargs, dynamic=True, **tolerance)


CHECKS: dict[str, Callable[..., None]] = {
    "test_schema": check_schema,
    "test_autograd_registration": check_autograd_registration,
    "test_faketensor": check_fake,
    "test_aot_dispatch_static": check_aot_static,
    "test_aot_dispatch_dynamic": check_aot_dynamic,
}
DEFAULT_CHECKS = tuple(name for name in CHECKS if name != "test_aot_dispatch_static")


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: Any = DEFAULT_CHECKS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check a custom operator on sample arguments; {check: "SUCCESS" or the error}."""
    if (atol is None) ^ (rtol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    if isinstance(op, OpOverloadPacket) and len(op.overloads()) > 1:
        raise ValueError(
            f"opcheck(op, ...): {op} has more than one overload: {op.overloads()}. Give one of "
            "them."
        )
    if not isinstance(op, (OpOverload, OpOverloadPacket)) and not hasattr(op, "_opoverload"):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
            f"torch.ops.aten.sin.default, got {type(op)}"
        )
    record = find_op(op)
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not isinstance(names, (tuple, list)) or not set(names) <= set(CHECKS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of "
            f"{tuple(CHECKS)} but it was not"
        )
    results: dict[str, Any] = {}
    for name in names:
        try:
            CHECKS[name](record, args, kwargs or {}, atol=atol, rtol=rtol)
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error
        else:
            results[name] = "SUCCESS"
    return results
