"""`Node`: one statement of a graph, and the functions that walk its arguments.

Invariant: `users` and `all_input_nodes` always mirror `args` and `kwargs`; both are updated
together, by assignment only, and the containers in them cannot be changed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rushlight.graph import host
from rushlight.graph.immutable_collections import immutable_dict, immutable_list
from rushlight.graph.names import qualified_name, type_name

if TYPE_CHECKING:
    from rushlight.graph.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

# A node argument: Nodes, plain values, and tuples, lists, dicts and slices of them.
Argument = object
Target = Callable[..., Any] | str
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

LEGAL_OPS = frozenset(
    ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
)

NO_KEYWORDS = immutable_dict()
# Classes of arguments that hold nothing.
PLAIN_ARGUMENTS = frozenset((int, float, bool, str, type(None)))

# Functions to keep although nothing uses their result.
_side_effectful_functions: set[Any] = {operator.setitem}
# The same by name, for functions that live above this package.
SIDE_EFFECT_NAMES = frozenset(
    (
        "rushlight.autograd.grad_mode.write_grad",
        "rushlight.amp.autocasting.enter_autocast",
        "rushlight.amp.autocasting.exit_autocast",
        "rushlight.fx.proxy.assert_fn",
        "rushlight.fx.tracing.assert_is_none",
        "rushlight.opset.other.asserts._assert",
        "rushlight.func.nesting.vmap_decrement_nesting",
        "rushlight.func.nesting.vmap_increment_nesting",
        "aten::_assert_async.msg",
        "aten::_assert_async",
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "profiler::_record_function_exit._RecordFunction",
    )
)


def has_side_effect(fn: F) -> F:
    """Mark a function that dead code elimination must keep; returns it."""
    _side_effectful_functions.add(fn)
    return fn


def is_impure_function(target: Any, impure_random: bool = True) -> bool:
    """Whether a call of `target` does more than return a value."""
    overloads = getattr(target, "overloads", None)
    if overloads is not None and "default" in overloads():
        return target in _side_effectful_functions or is_impure_function(
            target.default, impure_random
        )
    schema = getattr(target, "_schema", None)
    if schema is not None and (schema.is_mutable or not schema.returns):
        # What returns nothing is called for its effect.
        return True
    try:
        if target in _side_effectful_functions:
            return True
    except TypeError:
        return False
    if schema is None:
        name = f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', '')}"
    else:
        name = target.name()
    if name in SIDE_EFFECT_NAMES:
        return True
    return impure_random and "nondeterministic_seeded" in getattr(target, "tags", ())


# -- arguments ------------------------------------------------------------------------------------


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every value in nested tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        # A named tuple stays one; subclasses such as Size become plain tuples.
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(value, fn)) for key, value in a.items()])
    if isinstance(a, slice):
        return slice(
            map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn)
        )
    return fn(a)


def frozen(value: Any, found: dict[Node, None]) -> Any:
    """An argument that cannot be changed any more; the nodes in it are added to `found`."""
    if value.__class__ is Node:
        found[value] = None
    elif value.__class__ not in PLAIN_ARGUMENTS:

        def note(inner: Any) -> Any:
            if isinstance(inner, Node):
                found[inner] = None
            return inner

        return map_aggregate(value, note)
    return value


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply `fn` to every Node in nested tuples, lists, dicts and slices."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


def format_arg(arg: Argument, max_list_len: float = float("inf")) -> str:
    """An argument as `str(graph)` shows it."""
    custom = getattr(arg, "_custom_fx_repr_fn", None)
    if custom is not None:
        return str(custom())
    if isinstance(arg, (list, tuple)):
        items = ", ".join(format_arg(a) for i, a in enumerate(arg) if i < max_list_len)
        if len(arg) > max_list_len:
            items += f", ...[total_len={len(arg)}]"
        if isinstance(arg, list):
            return f"[{items}]"
        return f"({items},)" if len(arg) == 1 else f"({items})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def key_between(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """A key that sorts between two others; `()` is the end of the list on either side."""
    if len(before) > len(after):
        return (*before[: len(after)], before[len(after)] + 1)
    if len(before) < len(after):
        return (*after[: len(before)], after[len(before)] - 1)
    return (*before, 0)


class Node:
    """One operation in a graph.

    `op` says what `target` is: placeholder (a parameter name), get_attr and call_module (a dotted
    path below the module), call_function (a callable), call_method (a method's name, `args[0]`
    its object), output (`args[0]` is returned).
    """

    __module__ = "rushlight.fx.node"

    graph: Graph
    name: str
    op: str
    target: Any
    type: Any
    users: dict[Node, None]
    meta: dict[str, Any]

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: Args,
        kwargs: Kwargs,
        return_type: object = None,
    ) -> None:
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{typename(target)} but a Callable is expected"
                )
        else:
            if op not in LEGAL_OPS:
                raise AssertionError(f"op '{op}' is not in _legal_ops")
            if not isinstance(target, str):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{typename(target)} but a str is expected"
                )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users = {}
        self.meta = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: Args = ()
        self._kwargs: Kwargs = {}
        self._prev = self
        self._next = self
        self._erased = False
        self._sort_key: tuple[int, ...] = ()
        self._repr_fn: Callable[[Node], str] | None = None
        self._update_args_kwargs(args, kwargs)

    # -- place in the graph -----------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one; after the last comes the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move or insert `x` right before this node."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        x._sort_key = key_between(before._sort_key, self._sort_key)

    def append(self, x: Node) -> None:
        """Move or insert `x` right after this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # -- arguments --------------------------------------------------------------------------------

    @property
    def args(self) -> Args:
        """Positional arguments; assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: Args) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> Kwargs:
        """Keyword arguments; assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: Kwargs) -> None:
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, in the order of their first mention."""
        return list(self._input_nodes)

    def _update_args_kwargs(self, args: Args, kwargs: Kwargs) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        found: dict[Node, None] = {}
        plain = args.__class__ is tuple
        self._args = tuple([frozen(arg, found) for arg in args]) if plain else frozen(args, found)
        self._kwargs = frozen(kwargs, found) if kwargs else NO_KEYWORDS
        self._input_nodes = found
        for used in found:
            used.users[self] = None

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the positional argument at `idx`."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before position `idx`."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the keyword argument `key`."""
        self.kwargs = {**self._kwargs, key: arg}

    def _replace_input_with(self, old_input: Node, new_input: Node) -> None:
        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update_args_kwargs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever this node's arguments mention `old_input`."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old_input, new=new_input.name, user=self)
        self._replace_input_with(old_input, new_input)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let every user of this node, or those `delete_user_cb` accepts, use another instead.

        Returns the users that were changed. `propagate_meta` copies this node's meta over; the
        replacement must have none.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb is None or delete_user_cb(user):
                changed.append(user)
                user.replace_input_with(self, replace_with)
        return changed

    # -- facts ------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the traced program made this node, innermost frame last."""
        return cast("str | None", self.meta.get("stack_trace"))

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay although nothing uses it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(
                getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False)
            )
        # A call of graphs does what they do.
        return self.op == "call_function" and (
            bool(self.meta.get("has_effects")) or is_impure_function(self.target, impure_random)
        )

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments of a call with the defaults written out, and with all by name if so asked;
        None where there is no signature to go by."""
        schemas = host.library.fx.operator_schemas
        target: Any = self.target
        args, kwargs = self.args, dict(self.kwargs)
        if self.op == "call_function":
            return schemas.normalize_function(
                target, args, kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return schemas.normalize_module(
                root, target, args, kwargs, normalize_to_only_use_kwargs
            )
        return None

    def _rename(self, candidate: str) -> None:
        if candidate == self.name:
            return
        self.name = self.graph._graph_namespace.create_name(candidate, None)
        self.graph._graph_namespace._rename_object(self, self.name)

    # -- text -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    @staticmethod
    def _pretty_print_target(target: Target) -> str:
        if isinstance(target, str):
            return target
        name = getattr(target, "__name__", None)
        module = getattr(target, "__module__", None)
        if name is not None and module == "builtins":
            return f"builtins.{name}"
        if name is not None and module == "_operator":
            return f"operator.{name}"
        return qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node's line in `str(graph)`."""
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self.args[0]}"
        if self.op == "placeholder" and placeholder_names:
            placeholder_names.append(self.target)
            return None
        shown = "" if self.type is None else f"{type_name(self.type)} "
        if include_tensor_metadata and self.op not in ("placeholder", "get_attr"):
            from rushlight.graph.annotations import tensor_annotation

            text = tensor_annotation(self.meta, include_stride=True, include_device=True)
            shown = shown if text is None else f'Tensor "{text}"'
        head = f"%{self.name} : {shown}[num_users={len(self.users)}] = {self.op}"
        head += f"[target={self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {format_arg(self.args)}, kwargs = {format_arg(self.kwargs)})"


def typename(value: object) -> str:
    """The type of `value` as error texts name it."""
    cls = value if isinstance(value, type) else type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else type_name(cls)


def last_uses(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """For each node, the values that nothing after it uses, in the order it mentions them."""
    seen: set[Node] = set()
    freed: dict[Node, list[Node]] = {}
    for user in reversed(list(nodes)):
        dying = [node for node in user._input_nodes if node not in seen]
        if dying:
            seen.update(dying)
            freed[user] = dying
    return freed
