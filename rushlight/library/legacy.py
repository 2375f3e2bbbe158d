"""Custom operators as they were declared before `torch.library.custom_op`.

A prototype gives the schema; kernels, fake implementation, what is saved and the gradient are
registered one by one, each once. The gradient is a dict by argument names.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from rushlight.base.pytree import tree_flatten, tree_unflatten
from rushlight.core.keys import has_kernel
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.library import gradients
from rushlight.library.registration import Library, find_op, get_ctx, key_of_device, library_for
from rushlight.library.schemas import infer_schema

__all__ = ["CustomOp", "custom_op", "get_ctx", "impl", "impl_abstract", "impl_backward"]
__all__ += ["impl_save_for_backward"]

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {
    "prim", "prims", "aten", "at", "torch", "pytorch",
}  # fmt: skip
# "ns::name" -> the operator.
global_registry: dict[str, CustomOp] = {}


def warn_deprecated() -> None:
    warnings.warn(
        "torch._custom_op is deprecated and will be removed in PyTorch 2.6, please use the "
        "equivalent torch.library API instead.",
        DeprecationWarning,
        stacklevel=3,
    )


# -- names and schemas ----------------------------------------------------------------------------


def parse_qualname(qualname: str) -> tuple[str, str]:
    names = qualname.split("::", 1)
    if len(names) != 2:
        raise ValueError(
            f"Expected there to be a namespace in {qualname}, i.e. The operator name should look "
            "something like ns::foo"
        )
    if "." in names[1]:
        raise ValueError(
            "The torch.custom_ops APIs do not handle overloads, i.e. operator names with '.' in "
            f"them. Please name your operator something like ns::foo. Got: {qualname}"
        )
    return names[0], names[1]


def validate_namespace(ns: str) -> None:
    if "." in ns:
        raise ValueError(
            f'custom_op(..., ns="{ns}"): expected ns to not contain any . (and be a valid variable '
            "name)"
        )
    if ns in RESERVED_NS:
        raise ValueError(
            f"custom_op(..., ns='{ns}'): '{ns}' is a reserved namespace, please choose something "
            "else. "
        )


def validate_schema(op: OpOverload) -> None:
    schema = op._schema
    if schema.is_mutable or op.is_view_op or not schema.returns:
        raise ValueError(
            "custom_op only supports functional operators (ops that do not mutate any inputs, do "
            "not return views of the inputs, and has at least one return). Got the following "
            f"non-functional schema: {schema}"
        )
    if any([argument.name == "self" for argument in schema.arguments]):
        raise ValueError(
            "custom_op does not support arguments named 'self'. Please rename your argument. Got: "
            f"{schema}"
        )


def validate_device_type(device_type: str) -> None:
    if device_type not in SUPPORTED_DEVICE_TYPE_TO_KEY:
        raise ValueError(
            f"CustomOp.impl(device_types=[{device_type}, ...]): we only support device_type in "
            f"{SUPPORTED_DEVICE_TYPE_TO_KEY.keys()}."
        )


def supported_param(param: inspect.Parameter) -> bool:
    return param.kind in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY)


def validate_function_matches_schema(op: OpOverload, function: Any) -> None:
    """The function has the schema's arguments: names, order, defaults."""
    signature = inspect.signature(function)
    given = list(signature.parameters.values())
    if not all([supported_param(parameter) for parameter in given]):
        raise ValueError(
            "custom_op(..., manual_schema)(func): positional-only args, varargs, and kwargs are "
            f"not supported. Please rewrite `func` to not have them. Got `func` with signature "
            f"{signature}"
        )
    if any(p.annotation is not p.empty for p in given) or (
        signature.return_annotation is not signature.empty
    ):
        raise ValueError(
            "custom_op(..., manual_schema)(func): When passing in a manual schema, we expect "
            "`func` to have no type annotations to avoid ambiguity. Got `func` with signature "
            f"{signature}"
        )
    expected = [(a.name, a.kwarg_only) for a in op._schema.arguments]
    found = [(p.name, p.kind is p.KEYWORD_ONLY) for p in given]
    if expected != found:
        raise ValueError(
            "custom_op(..., manual_schema)(func): When passing in a manual schema, we expect "
            f"`func`'s signature to match `manual_schema` (aside from type annotations). func's "
            f"signature: {signature}, manual_schema: {op._schema}"
        )


# -- operators ------------------------------------------------------------------------------------


class CustomOp:
    """An operator whose parts are registered with its methods."""

    def __init__(self, lib: Library, op: OpOverload) -> None:
        self._lib = lib
        self._op = op
        self._schema = op._schema
        self._qualname = f"{op.namespace}::{op.base_name}"
        # What was registered: "backward" ... -> (function, where).
        self._impls: dict[str, tuple[Any, str]] = {}
        self._differentiability: list[bool] | None = None
        self.__name__ = op.base_name
        global_registry[self._qualname] = self

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def _destroy(self) -> None:
        """Take the operator out again."""
        self._lib._destroy()
        global_registry.pop(self._qualname, None)

    def _has_impl(self, kind: str) -> bool:
        return kind in self._impls

    def _register_impl(self, kind: str, func: Any, stacklevel: int = 2) -> None:
        if self._has_impl(kind):
            raise RuntimeError(
                f"Attempting to register a {kind} impl for operator {self._qualname} that already "
                f"has a {kind} impl registered from Python at {self._impls[kind][1]}. This is not "
                "supported."
            )
        frame = sys._getframe(stacklevel)
        self._impls[kind] = (func, f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def impl(self, device_types: Any, _stacklevel: int = 2) -> Callable[[Any], Any]:
        """Decorator: the kernel for some device types."""
        listed = (device_types,) if isinstance(device_types, str) else tuple(device_types)
        for device_type in listed:
            validate_device_type(device_type)

        def register(function: Any) -> Any:
            for device_type in dict.fromkeys(listed):
                key = key_of_device(device_type)
                if not self._has_impl(device_type) and has_kernel(self._op, key):
                    raise RuntimeError(
                        f"impl(..., device_types={device_type}): the operator {self._qualname} "
                        "already has an implementation for this device type via a pre-existing "
                        "torch.library or TORCH_LIBRARY registration."
                    )
                self._register_impl(device_type, function, _stacklevel)
                self._lib.impl(self._op, function, key)
            return function

        return register

    def impl_factory(self) -> Callable[[Any], Any]:
        """Decorator: the kernel of an operator without tensor arguments."""

        def register(function: Any) -> Any:
            self._register_impl("factory", function)
            self._lib.impl(self._op, function, "BackendSelect")
            return function

        return register

    def impl_abstract(self, _stacklevel: int = 2) -> Callable[[Any], Any]:
        """Decorator: what the operator does to tensors without values."""

        def register(function: Any) -> Any:
            self.check_no_composite("impl_abstract(...)", "an abstract impl", "abstract impls")
            if not self._has_impl("abstract") and has_kernel(self._op, "Meta"):
                raise RuntimeError(
                    f"impl_abstract(...): the operator {self._qualname} already has a "
                    "DispatchKey::Meta implementation via a pre-existing torch.library or "
                    "TORCH_LIBRARY registration. Please either remove that registration or don't "
                    "call impl_abstract."
                )
            self._register_impl("abstract", function, _stacklevel)
            self._lib._register_fake(self._op, function)
            return function

        return register

    def check_no_composite(self, caller: str, need: str, defined: str) -> None:
        if has_kernel(self._op, "CompositeImplicitAutograd"):
            raise RuntimeError(
                f"{caller}: the operator {self._qualname} already has an implementation for this "
                "device type via a pre-existing registration to "
                "DispatchKey::CompositeImplicitAutograd. CompositeImplicitAutograd operators do "
                f"not need {need}; instead, the operator will decompose into its constituents and "
                f"those can have {defined} defined on them."
            )

    def check_can_register_backward(self) -> None:
        schema = self._schema

        def refuse(detail: str) -> None:
            raise RuntimeError(
                "Cannot use torch._custom_ops APIs to register backward formula for "
                f"{detail}. Got operator {self._qualname} with schema: {schema}"
            )

        if schema.is_mutable or self._op.is_view_op:
            refuse("non-functional operator")
        if not schema.returns:
            refuse("operator with no returns")
        if any(
            [argument.kwarg_only and argument.type.is_tensor_like for argument in schema.arguments]
        ):
            refuse("operator with kwarg-only Tensor arguments")
        caller = "impl_backward/impl_save_for_backward"
        self.check_no_composite(caller, "an autograd formula", "autograd formulas")
        for key in ("Autograd", "AutogradCPU", "AutogradCUDA"):
            if has_kernel(self._op, key) and not self._has_impl("autograd"):
                raise RuntimeError(
                    f"{caller}: the operator {self._qualname} already has an Autograd kernel "
                    f"registered to DispatchKey::{key} vi a pre-existing torch.library or "
                    "TORCH_LIBRARY registration. Please either remove those registrations or don't "
                    "use the torch._custom_ops APIs"
                )

    def impl_save_for_backward(self, _stacklevel: int = 2) -> Callable[[Any], Any]:
        """Decorator: what of `(inputs, output)` the backward needs."""

        def register(function: Any) -> Any:
            self.check_can_register_backward()
            self._register_impl("save_for_backward", function, _stacklevel)
            self.register_gradient()
            return function

        return register

    def impl_backward(
        self, output_differentiability: Any = None, _stacklevel: int = 2
    ) -> Callable[[Any], Any]:
        """Decorator: `(ctx, saved, *grads)` to a dict of gradients by argument name."""
        count = len(self._schema.returns)
        if output_differentiability is not None and not (
            isinstance(output_differentiability, list)
            and all([isinstance(flag, bool) for flag in output_differentiability])
            and len(output_differentiability) == count
        ):
            raise RuntimeError(
                "impl_backward(output_differentiability): expected output_differentiability to be "
                "a list of bools with length equal to the number of outputs of this CustomOp got: "
                f"{output_differentiability}"
            )

        def register(function: Any) -> Any:
            self.check_can_register_backward()
            self._differentiability = output_differentiability
            self._register_impl("backward", function, _stacklevel)
            self.register_gradient()
            return function

        return register

    # -- the gradient -----------------------------------------------------------------------------

    def register_gradient(self) -> None:
        """Enter the autograd kernel; it looks for both halves when a gradient is recorded."""
        if not self._has_impl("autograd"):
            self._impls["autograd"] = (None, "")
            kernel = gradients.autograd_kernel(self._op, self.run_backward, self.save)
            self._lib.entries.install(self._op, "Autograd", kernel)

    def find_half(self, kind: str, other: str) -> Any:
        if not self._has_impl(kind):
            raise RuntimeError(
                f"We found a '{other}' registration for {self} at {self._impls[other][1]} but were "
                f"unable to find a '{kind}' registration. To use the CustomOp API to register a "
                "backward formula, please provide us both a backward function and a 'save for "
                "backward' function via `impl_backward` and `impl_save_for_backward` respectively."
            )
        return self._impls[kind][0]

    def save(self, ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        self.find_half("backward", "save_for_backward")
        function = self.find_half("save_for_backward", "backward")
        values = (*inputs, *(keyword_only_inputs or {}).values())
        names = [argument.name for argument in self._schema.arguments]
        saved = function(namedtuple(f"{self._op.base_name}_args", names)(*values), output)
        flat, ctx.spec = tree_flatten(saved)
        ctx.save_for_backward(*[leaf for leaf in flat if isinstance(leaf, Tensor)])
        ctx.others = [None if isinstance(leaf, Tensor) else (leaf,) for leaf in flat]
        ctx.given = dict(zip(names, values, strict=True))
        ctx.given = {name: describe(value) for name, value in ctx.given.items()}
        self.mark_results(ctx, output if isinstance(output, tuple) else (output,))

    def mark_results(self, ctx: Any, results: tuple[Any, ...]) -> None:
        flags = self._differentiability
        if flags is None:
            return
        constant: list[Any] = []
        for place, (is_differentiable, result) in enumerate(zip(flags, results, strict=True)):
            if isinstance(result, (Tensor, list)):
                if not is_differentiable:
                    constant += result if isinstance(result, list) else [result]
            elif is_differentiable:
                raise RuntimeError(
                    f"With output_differentiability={flags}. At idx {place}, we received an object "
                    f"of type {type(result)} that is not a Tensor, so it cannot have be marked as "
                    "differentiable in output_differentiability."
                )
        if constant:
            ctx.mark_non_differentiable(*constant)

    def run_backward(self, ctx: Any, *grads: Any) -> Any:
        tensors = iter(ctx.saved_tensors)
        flat = [next(tensors) if other is None else other[0] for other in ctx.others]
        function = self.find_half("backward", "save_for_backward")
        answer = function(object(), tree_unflatten(flat, ctx.spec), *grads)
        self.check_gradients(answer, ctx.given)
        positional = [a.name for a in self._schema.arguments if not a.kwarg_only]
        return tuple([as_list(answer.get(name)) for name in positional])

    def check_gradients(self, answer: Any, given: dict[str, Any]) -> None:
        """The dict has a gradient, or None, for each argument that may be a tensor."""

        def refuse(what: str) -> None:
            raise RuntimeError(
                f"In the backward function defined for {self} at {self._impls['backward'][1]} "
                f"using the CustomOp API, {what}"
            )

        if not isinstance(answer, dict):
            refuse(
                f"expected the output of the backward function to be a dict but got {type(answer)}"
            )
        expected = {a.name for a in self._schema.arguments if a.type.is_tensor_like}
        if expected != answer.keys():
            refuse(
                f"expected the returned grad_input dict to have keys {expected} but got "
                f"{answer.keys()}. The backward function must return a gradient (can be None) for "
                "each arg to the CustomOp that may be a Tensor or Sequence[Tensor]. Args declared "
                "to be non-Tensor-like types should not appear in the grad_input dict"
            )
        for name, gradient in answer.items():
            if isinstance(given[name], list):
                check_list_gradient(name, gradient, given[name], refuse)
            elif gradient is not None and not isinstance(gradient, Tensor):
                refuse(
                    f"got object of type {type(gradient)} as the gradient for input '{name}', but "
                    "expected the gradient to be either None or a Tensor"
                )
            elif gradient is not None and not issubclass(given[name], Tensor):
                refuse(
                    f"got a Tensor as the gradient for input '{name}' but expected None as the "
                    f"gradient because input '{name}' was not a Tensor (it was type {given[name]})."
                )


def describe(value: Any) -> Any:
    """The type of a value, or those of a list's entries."""
    return [type(item) for item in value] if isinstance(value, (list, tuple)) else type(value)


def as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def check_list_gradient(name: str, gradient: Any, given: list[type], refuse: Any) -> None:
    if not isinstance(gradient, (tuple, list)):
        refuse(
            f"for input '{name}' expected the grad_input dict to hold a list of gradients but got "
            f"object of type {type(gradient)}."
        )
    if len(gradient) != len(given):
        refuse(
            f"for input '{name}' expected the grad_input dict to hold a list of {len(given)} "
            f"gradients but got {len(gradient)}"
        )
    for place, entry in enumerate(gradient):
        if entry is not None and not isinstance(entry, Tensor):
            refuse(
                f"for input '{name}' expected the grad_input dict to hold a list of None or Tensor "
                f"gradients but got object of {type(entry)} at index {place}"
            )


# -- functions of names ---------------------------------------------------------------------------


def custom_op(qualname: str, manual_schema: Any = None) -> Any:
    """Decorator: an operator with the schema of the prototype function, or with the given one."""
    warn_deprecated()

    def make(function: Any) -> CustomOp:
        if not inspect.isfunction(function):
            raise ValueError(
                "custom_op(...)(func): Expected `func` to be a Python function, got: "
                f"{type(function)}"
            )
        namespace, name = parse_qualname(qualname)
        validate_namespace(namespace)
        if function.__name__ != name:
            raise ValueError(
                f"custom_op(qualname='{qualname}', ...)(func): expected `func` to have name "
                f"'{name}' but got '{function.__name__}'. Please either change the name of `func` "
                "or the qualname that is passed to `custom_op`"
            )
        schema = manual_schema or infer_schema(function, mutates_args=())
        return define(namespace, f"{name}{schema}", manual_schema and function)

    return make


def define(namespace: str, schema: str, prototype: Any = None) -> CustomOp:
    library = Library(namespace, "FRAGMENT")
    name = library.define(schema)
    op = find_op(name, namespace)
    validate_schema(op)
    if prototype is not None:
        validate_function_matches_schema(op, prototype)
    return CustomOp(library, op)


def define_op(qualname: str, manual_schema: Any = None) -> Any:
    """`torch._custom_ops.custom_op`: as a decorator the function stays as it is; with a schema the
    operator is made at once."""
    namespace, name = parse_qualname(qualname)
    validate_namespace(namespace)
    if manual_schema is not None:
        define(namespace, f"{name}{manual_schema}")
        return None

    def attach(function: Any) -> Any:
        if not inspect.isfunction(function):
            raise ValueError(
                "custom_op(...)(func): Expected `func` to be a Python function, got: "
                f"{type(function)}"
            )
        define(namespace, f"{name}{infer_schema(function, mutates_args=())}")
        return function

    return attach


def find_custom_op(qualname: str, also_check_torch_library: bool = False) -> CustomOp:
    """The operator of a name; one that a Library defined too where that is asked."""
    found = global_registry.get(qualname)
    if found is not None:
        return found
    if not also_check_torch_library:
        raise RuntimeError(
            f'Could not find custom op "{qualname}". Did you register it via the '
            "torch._custom_ops API?"
        )
    return custom_op_from_existing(find_op(qualname))


def custom_op_from_existing(op: OpOverload) -> CustomOp:
    """The methods of CustomOp for an operator that exists."""
    return CustomOp(Library(op.namespace, "FRAGMENT"), op)


def get_op(qualname: str) -> OpOverload:
    namespace, name = parse_qualname(qualname)
    return find_op(name, namespace)


def impl(qualname: str, *, device_types: Any = ("cpu", "cuda"), func: Any = None) -> Any:
    """Register a kernel for an operator of that name; also a decorator."""

    def register(function: Any) -> Any:
        return find_custom_op(qualname, True).impl(device_types, _stacklevel=3)(function)

    return register if func is None else register(func)


def impl_abstract(qualname: str, *, func: Any = None) -> Any:
    """Register what an operator does to tensors without values; also a decorator."""

    def register(function: Any) -> Any:
        library_for(None, qualname)._register_fake(parse_qualname(qualname)[1], function)
        return function

    return register if func is None else register(func)


def impl_save_for_backward(qualname: str, *, func: Any = None) -> Any:
    """Register what an operator's backward needs; also a decorator."""

    def register(function: Any) -> Any:
        found = find_custom_op(qualname, True)
        return found.impl_save_for_backward(_stacklevel=3)(function)

    return register if func is None else register(func)


def impl_backward(qualname: str, output_differentiability: Any = None, *, func: Any = None) -> Any:
    """Register an operator's gradient; also a decorator."""

    def register(function: Any) -> Any:
        found = find_custom_op(qualname, True)
        return found.impl_backward(output_differentiability, _stacklevel=3)(function)

    return register if func is None else register(func)


def destroy(qualname: str) -> None:
    """Take an operator out again."""
    find_custom_op(qualname)._destroy()
