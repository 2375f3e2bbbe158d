"""Names that low modules of the engine leave to higher ones to provide, all of them.

A low module reads `ports.name`; the module that has it calls `ports.fill(name=...)` when it is
imported. Where a read is hot the low module keeps a global of its own, which `mirror` lets `fill`
set too. Until a port is filled its default stands: it does nothing, or says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from rushlight.core.op import OpOverload, OpOverloadPacket
    from rushlight.core.state import ThreadState

    Args = tuple[Any, ...]

__all__ = ["fill", "mirror"]


def nothing(*args: object, **options: object) -> None:
    """Where there is no such thing, nothing is done or found."""


def never(*args: object) -> bool:
    return False


def copied(array: Any) -> Any:
    return array.copy()


def unchanged(*args: object) -> Any:
    return args[-1]


def no_packet(namespace: str, name: str) -> NoReturn:
    raise LookupError(f"no operator {namespace}::{name}")


def not_set_up(*args: object, **options: object) -> NoReturn:
    raise RuntimeError("the engine is not set up; import rushlight first")


# -- core.tensor, core.construct -------------------------------------------------------------------

# (Tensor,): isinstance() against a tuple is quick.
tensor_types: tuple[type, ...] = ()
# Tensor(...) and its kin, as torch's oldest programs call them.
legacy_new: Callable[[type, Any, Any], Any] = not_set_up

# -- core.history, core.levels ---------------------------------------------------------------------

# The node of a view whose base was written since: Note [Stale views].
stale_view_node: Callable[[Any], Any] = not_set_up
# The tensors of grad and jvp levels, and what one stands for once its level has ended.
level_tensor: type | None = None
alive: Callable[[Any], Any] = unchanged
# Whether an operand belongs to a level that has ended, and the operands without such.
has_dead: Callable[[OpOverload, Args], bool] = never
revived: Callable[[OpOverload, Args], Args] = unchanged

# -- opset -----------------------------------------------------------------------------------------

# An out= overload made on first use; a packet by its name; the out= form of an overload.
derive_overload: Callable[[OpOverloadPacket, str], OpOverload | None] = nothing
find_packet: Callable[[str, str], OpOverloadPacket] = no_packet
out_overload: Callable[[OpOverload], OpOverload | None] = nothing
# The module of the opset that an op is written in; "" for ops of users.
family_of: Callable[[OpOverload], str] = not_set_up
# The tags that torch has for an op besides those that the op states.
torch_tags: Callable[[OpOverload], set[str]] = not_set_up
# Shows a tensor that was made from data to the active modes.
lift_fresh: Callable[[Any], Any] = unchanged
# A function (level, op, *args) that batches an op, a refusal, or None.
find_batch_rule: Callable[[OpOverload], Any] = nothing

# Modules above the opset with operators of a namespace; they are imported on first use.
namespace_modules: dict[str, tuple[str, ...]] = {}
# The number of elements from which on operands are large.
large_size: int = 0
# A large array in another dtype, by native code; None where there is none.
converted: Callable[[Any, Any, Any], Any] = nothing
# A C-ordered copy of an array.
row_major: Callable[[Any], Any] = copied

# -- codegen --------------------------------------------------------------------------------------

# The native kernels of heavy ops; None where there is nothing to compile them with.
native_kernels: Callable[[], Any] = nothing

# -- autograd --------------------------------------------------------------------------------------

# Adds a gradient to a leaf, for accumulators that are called by hand.
accumulate: Callable[[Any, Any], None] = not_set_up
# `autograd.grad`, for formulas that are the gradient of other ops.
gradients_of: Callable[..., Any] = not_set_up
# Forward mode: whether an operand has a tangent, and giving results theirs.
has_tangents: Callable[[OpOverload, Args, ThreadState], bool] = never
push_tangents: Callable[[OpOverload, Args, Any, ThreadState], None] = nothing

# -- compat ----------------------------------------------------------------------------------------

# Every class of results with named fields.
all_return_types: Callable[[], Any] = not_set_up

# -- func ------------------------------------------------------------------------------------------

# A tensor with first-class dims, or entries of a subscript, at some of its dims.
index_by_dims: Callable[[Any, Any, Any], Any] = not_set_up

# -- fx, aot ---------------------------------------------------------------------------------------

# The graph of a recorder, ended by these outputs, as a module.
graph_module: Callable[[Any, Any, str], Any] = not_set_up

# -- codegen ---------------------------------------------------------------------------------------

# Native code for large operands, `opset.large`: of an elementwise text, of an op's `lower` rule.
native_text: Callable[..., Any] = nothing
native_lowered: Callable[..., Any] = nothing
native_picked: Callable[..., Any] = nothing
# A function of a list of arrays of a dtype and a dim, perhaps a new one.
native_joining: Callable[..., Any] = nothing
# A loop by its name, for arrays of a dtype.
native_loop: Callable[..., Any] = nothing
# A loop of long draws by its name, `core.longdraws`.
native_draw: Callable[..., Any] = nothing

# -- nn --------------------------------------------------------------------------------------------

# The class Module, once `nn` is loaded.
module_type: type | None = None

# -- distributed -----------------------------------------------------------------------------------

# Batch norm over the batches of all processes; None until there may be any.
synced_norm: Callable[..., Any] | None = None


PORTS = frozenset(__annotations__)
# Port -> the namespaces that have a global for it, and its name there.
MIRRORS: dict[str, list[tuple[dict[str, Any], str]]] = {}


def fill(**values: Any) -> None:
    """Provide ports."""
    scope = globals()
    for name, value in values.items():
        if name not in PORTS:
            raise LookupError(f"no port {name!r}; the ports are {', '.join(sorted(PORTS))}")
        scope[name] = value
        for copies, copy in MIRRORS.get(name, ()):
            copies[copy] = value


def mirror(scope: dict[str, Any], **copies: str) -> None:
    """Let `fill` set globals of a module, too: `mirror(globals(), ITS_NAME="port")`."""
    for copy, name in copies.items():
        MIRRORS.setdefault(name, []).append((scope, copy))
