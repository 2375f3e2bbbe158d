"""Custom differentiable functions: `Function`, its context, and nodes that exist for tests of it.

A Function's ctx is the backward node itself, an instance of `<Name>Backward`; attributes set by
the user live in its `__dict__`. `run_function` is the one place that turns a forward's raw
results into outputs with history (Note [Function outputs]).
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from rushlight.autograd.engine import with_user_code
from rushlight.base import callthrough
from rushlight.base.callthrough import callback
from rushlight.base.errors import error
from rushlight.core import history
from rushlight.core.node import (
    FREED,
    GraphNode,
    SavedTensor,
    edge,
    needs_grad,
    next_sequence,
    output_meta,
    pack,
    pack_output,
    raw_saved,
    unpack,
)
from rushlight.core.state import (
    LAYER_PRE_PROXY,
    LOCAL,
    OVERRIDES,
    ThreadState,
    as_python,
    changed,
)
from rushlight.core.tensor import PLAIN, Tensor, ViewInfo
from rushlight.opset import functions

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "SingleLevelFunction",
    "once_differentiable",
]


class FunctionCtx:
    """What `forward` and `setup_context` tell about a call."""

    to_save: Any
    saved_for_forward: tuple[Any, ...] | None
    dirty_tensors: Any
    non_differentiable: Any
    materialize_grads: bool

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`, where `saved_tensors` gives them back."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`, where `saved_tensors` gives them back."""
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; argument "
                    f"{position} is of type {type(tensor).__name__}"
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Declare inputs that forward modified in place; each must be returned."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically "
            "tracked. Note that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args: Any) -> None:
        """Declare outputs that carry no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing gradients reach `backward` as zeros (the default) or as None."""
        self.materialize_grads = value


class BackwardCFunction(FunctionCtx, GraphNode):
    """Base of the `<Name>Backward` classes: node of the graph and ctx in one object."""

    __slots__ = (
        "_materialize_non_diff_grads",
        "dirty_tensors",
        "function_freed",
        "function_inputs",
        "function_opaque_grads",
        "function_ran",
        "materialize_grads",
        "needs_input_grad",
        "non_differentiable",
        "saved_for_forward",
        "to_save",
    )

    frees_saved = True
    _forward_cls: Any

    def __init__(self) -> None:
        self.sequence_nr = next_sequence()
        self.next_nodes = ()
        self.next_nrs = ()
        self.output_metas = ()
        self.saved_slots = None
        self.node_hooks = None
        self.node_extra = None
        self.to_save = None
        self.saved_for_forward = None
        self.dirty_tensors = None
        self.non_differentiable = None
        self.materialize_grads = True
        self._materialize_non_diff_grads = True
        self.needs_input_grad: tuple[bool, ...] = ()
        # Which forward arguments were tensors; positions of outputs without a gradient.
        self.function_inputs: tuple[bool, ...] = ()
        self.function_opaque_grads: frozenset[int] = frozenset()
        self.function_freed = False
        self.function_ran = False

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        slots = self.saved_slots
        if (self.function_ran and not LOCAL.state.tasks) or self.function_freed:
            self.check_alive()
        return () if slots is None else tuple([unpack(self, entry) for entry in slots])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        slots = self.saved_slots
        if (self.function_ran and not LOCAL.state.tasks) or self.function_freed:
            self.check_alive()
        return () if slots is None else tuple([raw_saved(self, i) for i in range(len(slots))])

    def check_alive(self) -> None:
        """Refuse saved tensors that were freed, and those of a ctx that `backward` put aside and
        whose graph has gone since. Not asked inside a backward, where the graph is there.
        """
        if self.function_freed:
            raise RuntimeError(FREED)
        if self.saved_slots and not is_in_graph(self):
            self.release()
            raise error("RL0609", name=self.name())

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        formula = backward_of(self._forward_cls)
        self.function_ran = True
        if self.materialize_grads and any([grad is None for grad in grads]):
            grads = self.materialized(grads)
        state = LOCAL.state
        returned = with_user_code(state, formula, self, *grads)
        return self.checked(returned if isinstance(returned, tuple) else (returned,))

    def materialized(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Zeros in the place of missing gradients."""
        filled = list(grads)
        for number, grad in enumerate(grads):
            meta = self.output_metas[number]
            if grad is not None or meta is None:
                continue
            if self._materialize_non_diff_grads or number not in self.function_opaque_grads:
                filled[number] = zeros_like_meta(meta)
        return tuple(filled)

    def checked(self, returned: tuple[Any, ...]) -> tuple[Any, ...]:
        """What `backward` returned, as one gradient for each tensor argument."""
        inputs = self.function_inputs
        count = len(inputs)
        if len(returned) > count and all([value is None for value in returned[count:]]):
            returned = returned[:count]
        if len(returned) != count:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{count}, got {len(returned)})"
            )
        results = []
        for position, value in enumerate(returned):
            if not inputs[position]:
                if value is not None:
                    raise RuntimeError(
                        f"function {self.name()} returned a gradient different than None at "
                        f"position {position + 1}, but the corresponding forward input was not a "
                        "Variable"
                    )
                continue
            if value is not None and not isinstance(value, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(value).__name__})")
            results.append(value)
        return tuple(results)

    def note_run(self) -> None:
        self.function_ran = True

    def release(self) -> None:
        self.function_freed = True
        self.saved_slots = None

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"


def is_in_graph(node: Any) -> bool:
    """Whether a tensor or another node leads to this one, as opposed to user code holding it."""
    import gc

    # Edges are tuples; everything else in a graph refers to nodes directly.
    parts = (Tensor, GraphNode, SavedTensor, tuple)
    return any([isinstance(holder, parts) for holder in gc.get_referrers(node)])


def zeros_like_meta(meta: tuple[Any, Any, Any]) -> Any:
    """A zero gradient for an output known by (shape, dtype, unusual)."""
    shape, dtype, unusual = meta
    if unusual is None:
        return functions.zeros(shape, dtype=dtype)
    return functions.zeros(shape, dtype=dtype, device=unusual.device, layout=unusual.layout)


def backward_of(cls: Any) -> Any:
    """The user's backward (or vjp) of a Function class."""
    backward, vjp = cls.backward, cls.vjp
    if vjp is DEFAULT_VJP:
        return backward
    if backward is not DEFAULT_BACKWARD:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
            "should only implement one of them."
        )
    return vjp


class FunctionMeta(type):
    """Gives every Function class its node class."""

    _backward_cls: type

    def __init__(cls, name: str, bases: Any, namespace: dict[str, Any]) -> None:
        cls._backward_cls = node_class(f"{name}Backward", BackwardCFunction, cls)
        super().__init__(name, bases, namespace)

    @property
    def _generated_backward_cls(cls) -> type:
        """torch: the node of a call inside of `grad` and `jvp` has another name."""
        found: type | None = cls.__dict__.get("_generated_node")
        if found is None:
            found = node_class(f"{cls.__name__}GeneratedBackward", cls._backward_cls, cls)
            cls._generated_node = found
        return found


def node_class(name: str, base: type, function: type) -> type:
    members = {"__slots__": (), "__module__": "torch.autograd.function", "_forward_cls": function}
    return type(name, (base,), members)


LEGACY_CALL = (
    "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
    "autograd function with static forward method. (Example: "
    "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
)


def invalid_attribute(name: str) -> Any:
    """A node attribute looked up on an instance of a Function, which is no node."""

    def access(self: Any) -> Any:
        raise RuntimeError(
            f"Attribute '{name}' is invalid for this instance of _C._FunctionBase. Accessing this "
            "attribute directly on an instance of autograd.Function is a legacy access pattern "
            "that is no longer supported; a tensor's grad_fn is the node that has it."
        )

    return property(access)


class Function(metaclass=FunctionMeta):
    """Base of custom differentiable functions; subclass it and call `apply`.

    >>> import rushlight as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return 2 * ctx.saved_tensors[0] * grad
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor([6.])
    """

    _backward_cls: type
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(LEGACY_CALL)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        return DEFAULT_BACKWARD(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the call."""
        split = cls.setup_context is not DEFAULT_SETUP
        state = LOCAL.state
        if split:
            args, kwargs = with_defaults(cls.forward, args, kwargs)
        if state.transforms:
            level = state.transforms[-1]
            if not split and not getattr(level, "plain", False):
                raise RuntimeError(
                    "In order to use an autograd.Function with functorch transforms (vmap, grad, "
                    "jvp, jacrev, ...), it must override the setup_context staticmethod. For more "
                    "details, please see https://pytorch.org/docs/main/notes/extending.func.html"
                )

            def direct() -> Any:
                return run_function(cls, args, kwargs, split, state)

            return level.apply_function(cls, args, kwargs, direct, cls.vmap is not DEFAULT_VMAP)
        if state.tracer is not None and not state.excluded & LAYER_PRE_PROXY:
            run = functools.partial(run_function, cls, args, kwargs, split, state)
            return state.tracer.apply_function(cls, args, run)
        return run_function(cls, args, kwargs, split, state)

    _register_hook_dict = invalid_attribute("_register_hook_dict")
    register_hook = invalid_attribute("register_hook")
    next_functions = invalid_attribute("next_functions")
    name = invalid_attribute("name")

    @property
    def metadata(self) -> Any:
        raise RuntimeError(
            "You attempted to access the anomaly metadata of a custom autograd function but the "
            "underlying PyNode has already been deallocated."
        )


DEFAULT_SETUP = Function.setup_context
DEFAULT_BACKWARD = Function.backward
DEFAULT_VJP = Function.vjp
DEFAULT_VMAP = Function.vmap


class SingleLevelFunction(Function):
    """A Function that is recorded where it is called, by the innermost of the active transforms,
    whose tensors its methods get. For the rules of higher-order ops."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the call."""
        split = cls.setup_context is not DEFAULT_SETUP
        if split:
            args, kwargs = with_defaults(cls.forward, args, kwargs)
        return run_function(cls, args, kwargs, split, LOCAL.state)


class InplaceFunction(Function):
    """A Function that remembers whether it works in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def with_defaults(
    forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a split forward with its default values filled in, and what was given of
    those that are keywords only."""
    if not kwargs and not getattr(forward, "__defaults__", True):
        return args, {}
    import inspect

    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, {name: value for name, value in bound.kwargs.items() if name in kwargs}


def run_function(
    cls: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    split: bool,
    state: ThreadState,
    level: Any = None,
) -> Any:
    """Run a Function's forward with grad mode off, then give its outputs their history."""
    if split and kwargs:
        # `setup_context` is not told of them; only rules for batches are.
        raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(kwargs))}'")
    ctx = cls._backward_cls() if level is None else cls._generated_backward_cls()
    is_tensor = tuple([isinstance(value, Tensor) for value in args])
    needs = tuple([is_tensor[i] and needs_grad(value) for i, value in enumerate(args)])
    ctx.function_inputs = is_tensor
    ctx.needs_input_grad = needs
    grad, forward_enabled, excluded = state.grad, state.forward_enabled, state.excluded
    executable = grad and True in needs
    if executable:
        tensors = [value for i, value in enumerate(args) if is_tensor[i]]
        ctx.next_nodes = tuple([edge(tensor) for tensor in tensors])
        ctx.next_nrs = tuple([tensor._output_nr for tensor in tensors])
    try:
        state.grad = False
        state.forward_enabled = False
        state.excluded = as_python(excluded)
        state.refresh()
        if level is not None:
            # The levels below record the Function themselves.
            output = level.forward(cls, args, grad, forward_enabled)
            cls.setup_context(ctx, args, output)
        elif split:
            output = callback(cls.forward, *args) if callthrough.count else cls.forward(*args)
            cls.setup_context(ctx, args, output)
        elif callthrough.count:
            output = callback(cls.forward, ctx, *args, **kwargs)
        else:
            output = cls.forward(ctx, *args, **kwargs)
    finally:
        state.grad, state.forward_enabled, state.excluded = grad, forward_enabled, excluded
        state.refresh()
    outputs = output if isinstance(output, tuple) else (output,)
    results = finish_outputs(ctx, args, outputs, executable, state)
    if (state.forward_level >= 0 or hasattr(level, "duals")) and forward_enabled:
        from rushlight.autograd.functionjvp import function_tangents

        function_tangents(cls, ctx, args, outputs, results)
    if executable:
        save_tensors(ctx)
        if state.anomaly:
            history.note_creation(ctx, state)
    ctx.to_save = ctx.dirty_tensors = ctx.non_differentiable = ctx.saved_for_forward = None
    return tuple(results) if isinstance(output, tuple) else results[0]


def save_tensors(ctx: Any) -> None:
    """Pack what `save_for_backward` was given, now that outputs have their history."""
    if ctx.to_save is None:
        return
    node = ctx
    entries: list[Any] = []
    for position, tensor in enumerate(ctx.to_save):
        if tensor is None:
            entries.append(None)
        elif not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {position} is of type "
                f"{type(tensor).__name__}"
            )
        elif tensor._node is ctx:
            entries.append(pack_output(tensor, tensor._output_nr, node))
        else:
            entries.append(pack(tensor, ctx))
    ctx.saved_slots = entries


def tensor_ids(values: Any, refusal: str) -> set[int]:
    """The identities of the tensors given to `mark_dirty` or `mark_non_differentiable`."""
    for position, value in enumerate(values or ()):
        if not isinstance(value, Tensor):
            raise RuntimeError(refusal.format(position=position, kind=type(value).__name__))
    return {id(value) for value in values or ()}


def finish_outputs(
    ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...], executable: bool, state: ThreadState
) -> list[Any]:
    """Note [Function outputs]: attach raw results to the node.

    A dirty input keeps its identity and is rebased; an input returned as it is becomes a view of
    itself, so that the node has something to hang on; views are marked as made in a Function,
    which forbids writing to them; everything else just gets the node. Without a node (grad mode
    off, or nothing requires grad) inputs still come back as aliases, never as themselves.
    """
    input_ids = {id(value) for value in args if isinstance(value, Tensor)}
    dirty = tensor_ids(
        ctx.dirty_tensors,
        "mark_dirty can only accept variables, but argument {position} is of type {kind}",
    )
    opaque = tensor_ids(
        ctx.non_differentiable,
        "mark_non_differentiable only accepts variable arguments, but got {kind}",
    )
    for tensor in ctx.dirty_tensors or ():
        history.bump_version(tensor, state)
    returned = {id(value) for value in outputs}
    results: list[Any] = []
    metas: list[Any] = []
    opaque_numbers: list[int] = []
    tensor_count = sum([isinstance(value, Tensor) for value in outputs])
    differentiable_count = 0
    for number, value in enumerate(outputs):
        if not isinstance(value, Tensor):
            metas.append(None)
            results.append(value)
            continue
        metas.append(output_meta(value))
        is_input, is_dirty = id(value) in input_ids, id(value) in dirty
        if not executable or id(value) in opaque or not history.is_differentiable(value):
            opaque_numbers.append(number)
            result = without_history(value, is_input, is_dirty)
        else:
            differentiable_count += 1
            if is_dirty:
                result = rebased(ctx, value, number, is_input, tensor_count)
            else:
                result = alias_of_input(value) if is_input else value
                set_producer(result, ctx, number)
        if state.grad and result._view is not None and not (is_input and is_dirty):
            result._view.kind = ViewInfo.CUSTOM_FUNCTION
        results.append(result)
    if differentiable_count > 1:
        for result in results:
            if isinstance(result, Tensor) and result._view is not None:
                result._view.kind = ViewInfo.MULTI_OUTPUT
    if not dirty <= returned:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
    ctx.output_metas = tuple(metas)
    ctx.function_opaque_grads = frozenset(opaque_numbers)
    return results


def set_producer(tensor: Any, node: Any, number: int) -> None:
    tensor._node = node
    tensor._output_nr = number
    tensor._requires_grad = True
    if tensor._view is not None and tensor._counter is not None:
        tensor._view.version = tensor._counter.value


def without_history(value: Any, is_input: bool, is_dirty: bool) -> Any:
    """An output that gets no node."""
    if not needs_grad(value):
        return alias_of_input(value) if is_input and not is_dirty else value
    if is_input:
        return value.detach()
    if value._view is None:
        value.detach_()
    return value


def rebased(ctx: Any, value: Any, number: int, is_input: bool, tensor_count: int) -> Any:
    if value._requires_grad and value.is_leaf:
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation."
        )
    if not is_input:
        warnings.warn(
            "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, "
            "there is no need to pass it to mark_dirty().",
            UserWarning,
            stacklevel=5,
        )
    if value._view is not None:
        if tensor_count > 1:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your "
                "Function cannot return more than one Tensor. This is not supported by the current "
                "autograd engine. You should either make sure the input is not a view (using "
                ".clone() for example) or make your Function only return one Tensor."
            )
        history.check_inplace(value, True, True)
    if value._autograd is not None:
        value._autograd.grad = None
    history.rebase_history(value, ctx, number)
    storage = getattr(value, "functional_storage", None)
    if storage is not None:
        # Traced: grad mode was off when forward wrote, but this write has a gradient.
        storage.quiet_writes = 0
    return value


def alias_of_input(value: Any) -> Any:
    """An input returned as it is: the same memory as a view, made below function overrides."""
    with changed(grad=False, excluded=LOCAL.state.excluded | OVERRIDES):
        alias = value.view_as(value)
    cls = type(value)
    if cls in PLAIN or isinstance(alias, cls):
        return alias
    return alias.as_subclass(cls)


def once_differentiable(fn: Any) -> Any:
    """Decorate a `backward` that must not itself be differentiated."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        grad = LOCAL.state.grad
        with changed(grad=False):
            outputs = fn(ctx, *args)
        if not grad or not any([isinstance(a, Tensor) and a.requires_grad for a in args]):
            return outputs
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        refuse = DelayedError(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            len(outputs),
        )
        return refuse(*[None if o is None else o.detach().requires_grad_() for o in outputs])

    return wrapper


# -- nodes made by hand ---------------------------------------------------------------------------


class Passing(GraphNode):
    """Base of callables that hand tensors on unchanged under a node of their own."""

    __slots__ = ()

    def pass_through(self, node: GraphNode, tensors: tuple[Any, ...]) -> Any:
        given = [tensor for tensor in tensors if tensor is not None]
        needed = LOCAL.state.grad and any([needs_grad(tensor) for tensor in given])
        results: list[Any] = []
        if needed:
            node.next_nodes = tuple([None if t is None else edge(t) for t in tensors])
            node.next_nrs = tuple([0 if t is None else t._output_nr for t in tensors])
            node.output_metas = tuple([None if t is None else output_meta(t) for t in tensors])
        for number, tensor in enumerate(tensors):
            alias = None if tensor is None else tensor._alias(share_counter=False)
            if needed and alias is not None:
                set_producer(alias, node, number)
            results.append(alias)
        return results[0] if len(results) == 1 else tuple(results)


class DelayedError(Passing):
    """Hands tensors on; differentiating through them raises the given message."""

    __slots__ = ("count", "message")

    def __init__(self, message: str, num_inputs: int) -> None:
        super().__init__()
        self.message = message
        self.count = num_inputs

    def __call__(self, *tensors: Any) -> Any:
        if len(tensors) != self.count:
            raise TypeError(f"expected {self.count} arguments, got {len(tensors)} instead")
        return self.pass_through(Error(self.message), tensors)


class Error(GraphNode):
    """The node behind a DelayedError."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        raise RuntimeError(self.message)

    def name(self) -> str:
        return "torch::autograd::Error"


class UndefinedGrad(Passing):
    """Hands a tensor on; its gradient is dropped."""

    __slots__ = ()

    def __call__(self, *tensors: Any) -> Any:
        return self.pass_through(UndefinedGradBackward(), tensors)


class UndefinedGradBackward(GraphNode):
    """The node behind an UndefinedGrad."""

    __slots__ = ()

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        return (None,) * len(self.next_nodes)

    def name(self) -> str:
        return "torch::autograd::UndefinedGradBackward"


class Resize(Function):
    """Another shape with the same number of elements."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: Any) -> Any:
        ctx.input_sizes = tensor.shape
        count = 1
        for size in sizes:
            count *= size
        if tensor.numel() != count:
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({count} elements in total), but "
                f"the given tensor has a size of {'x'.join(map(str, tensor.shape))} "
                f"({tensor.numel()} elements). autograd's resize can only change the shape of a "
                "given tensor, while preserving the number of elements."
            )
        return tensor.clone().contiguous().view(*sizes)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.contiguous().view(ctx.input_sizes), None
