"""`backward` and `grad`: the public entries to the engine."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from rushlight.autograd.engine import accumulate_by_hand, no_history, run_backward, run_root
from rushlight.autograd.programs import run_known
from rushlight.base.config import config
from rushlight.core import geometry, ports
from rushlight.core.dispatch import try_function_override
from rushlight.core.node import gradient_node
from rushlight.core.size import Size
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import PLAIN, Tensor, wrap
from rushlight.opset import functions

__all__ = ["GradientEdge", "backward", "get_gradient_edge", "grad"]


class GradientEdge(NamedTuple):
    """The place in the graph where a tensor's gradient arrives."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of a tensor that requires grad, as of now."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    node = gradient_node(tensor)
    return GradientEdge(node, tensor._output_nr if tensor.grad_fn is not None else 0)


def as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, GradientEdge):
        return (value,)
    if isinstance(value, Tensor) or hasattr(type(value), "__torch_function__"):
        return (value,)
    return tuple(value)


def root_of(tensor: Any, position: int) -> tuple[Any, int]:
    if isinstance(tensor, GradientEdge):
        return tensor.node, tensor.output_nr
    # A view made without grad mode requires a gradient as its base does, and has no history.
    node = gradient_node(tensor) if tensor.requires_grad else None
    if node is None:
        raise no_history(position)
    return node, tensor._output_nr if tensor.grad_fn is not None else 0


def calculate_shape(output: Any, grad: Any, is_grads_batched: bool) -> tuple[Any, Any]:
    """The shapes of an output and of its gradient, one sample's where those are batched."""
    if isinstance(output, GradientEdge):
        return output.node.output_metas[output.output_nr][0], grad.shape
    if output.is_nested and not is_grads_batched:
        return output._nested_tensor_size(), grad._nested_tensor_size()
    return output.shape, grad.shape[1:] if is_grads_batched else grad.shape


def shape_error(position: int, grad: Any, output: Any, batched: bool) -> RuntimeError:
    inner = Size(grad.shape[1:]) if batched else grad.shape
    facts = (
        f"grad_output[{position}] has a shape of {inner} and output[{position}] has a shape of "
        f"{output.shape}."
    )
    if not batched:
        return RuntimeError(f"Mismatch in shape: {facts}")
    return RuntimeError(
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
        "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
        f"corresponding output, but a mismatch was detected: {facts} If you only want some tensors "
        "in `grad_output` to be considered batched, consider using vmap."
    )


def make_grads(outputs: Any, grads: Any, batched: bool = False) -> list[Any]:
    """The given output gradients checked, the missing ones made."""
    made: list[Any] = []
    if len(outputs) > len(grads):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    # torch: gradients beyond the outputs are ignored.
    for position, (output, value) in enumerate(zip(outputs, grads, strict=False)):
        if isinstance(output, GradientEdge):
            made.append(value)
            continue
        if not isinstance(output, Tensor):
            raise AssertionError(
                f"Expected output to be a torch.Tensor, but got {type(output).__name__}"
            )
        if isinstance(value, Tensor):
            given = value.shape[1:] if batched else value.shape
            if not geometry.same_sizes(tuple(given), tuple(output.shape)):
                raise shape_error(position, value, output, batched)
            if output.dtype.is_complex != value.dtype.is_complex:
                raise RuntimeError(
                    "For complex Tensors, both grad_output and output are required to have the "
                    f"same dtype. Mismatch in dtype: grad_output[{position}] has a dtype of "
                    f"{value.dtype} and output[{position}] has a dtype of {output.dtype}."
                )
            made.append(value)
        elif value is None:
            if not output.requires_grad:
                made.append(None)
                continue
            if output.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if output.dtype.is_complex:
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got "
                    f"{output.dtype}"
                )
            made.append(ones_for(output))
        else:
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(value).__name__}"
            )
    return made


def ones_for(output: Any) -> Any:
    """The gradient of a scalar output with respect to itself."""
    if not PROCESS.special and type(output) is Tensor and output._unusual is None:
        one = np.empty(output._array.shape, output._dtype.np)
        one.fill(1)
        return wrap(one, output._dtype)
    from rushlight.core.device import preserve_format

    return functions.ones_like(output, memory_format=preserve_format)


warned_create_graph = False


def warn_create_graph() -> None:
    global warned_create_graph
    if not warned_create_graph or PROCESS.warn_always:
        warned_create_graph = True
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the "
            "parameter and its gradient which can cause a memory leak. We recommend using "
            "autograd.grad when creating the graph to avoid this. If you have to use this "
            "function, make sure to reset the .grad fields of your parameters to None after use "
            "to break the cycle and avoid the leak.",
            UserWarning,
            stacklevel=3,
        )


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the leaves they were computed from.

    >>> import rushlight as torch
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> (x * x).backward()
    >>> x.grad
    tensor([4.])
    """
    if LOCAL.state.transforms:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    edges = None
    if inputs is not None:
        inputs = as_tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        edges = [input_edge(value, position) for position, value in enumerate(inputs)]
        for value in inputs:
            if isinstance(value, Tensor):
                value.retain_grad()
    outputs = as_tuple(tensors)
    if not PLAIN.issuperset(map(type, outputs)):
        options = {
            "grad_tensors": grad_tensors,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "inputs": inputs,
        }
        if try_function_override(backward, (outputs,), options)[0]:
            return
    given = (None,) * len(outputs) if grad_tensors is None else grad_tuple(grad_tensors)
    grads = make_grads(outputs, given)
    if retain_graph is None:
        retain_graph = create_graph
    if create_graph:
        warn_create_graph()
    roots = [
        (*root_of(output, position), value)
        for position, (output, value) in enumerate(zip(outputs, grads, strict=True))
    ]
    run_backward(roots, retain_graph, create_graph, edges, accumulate=True)


def grad_tuple(values: Any) -> tuple[Any, ...]:
    return (values,) if isinstance(values, Tensor) else tuple(values)


def input_edge(value: Any, position: int) -> tuple[Any, int]:
    if isinstance(value, GradientEdge):
        return value.node, value.output_nr
    if not isinstance(value, Tensor):
        raise RuntimeError(
            f"all inputs have to be Tensors or GradientEdges, but got {type(value).__name__}"
        )
    if not value.requires_grad:
        raise RuntimeError(
            f"One of the differentiated Tensors does not require grad (inputs[{position}]). "
            "Call requires_grad_() on it before it is used."
        )
    return gradient_node(value), value._output_nr if value.grad_fn is not None else 0


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`; nothing is accumulated.

    >>> import rushlight as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor([6.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    outputs = as_tuple(outputs)
    inputs = as_tuple(inputs)
    if not PLAIN.issuperset(map(type, (*outputs, *inputs))):
        options = {
            "grad_outputs": grad_outputs,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "only_inputs": only_inputs,
            "allow_unused": allow_unused,
            "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }
        handled, answer = try_function_override(grad, (outputs, inputs), options)
        if handled:
            return answer  # type: ignore[no-any-return]
    if not inputs:
        raise ValueError("grad requires non-empty inputs.")
    given = (None,) * len(outputs) if grad_outputs is None else grad_tuple(grad_outputs)
    grads = make_grads(outputs, given, is_grads_batched)
    if retain_graph is None:
        retain_graph = create_graph
    roots = [root_of(output, position) for position, output in enumerate(outputs)]
    edges = [input_edge(value, position) for position, value in enumerate(inputs)]

    def run(values: Any) -> list[Any]:
        starts = [(node, nr, value) for (node, nr), value in zip(roots, values, strict=True)]
        return run_backward(starts, retain_graph, create_graph, edges)

    if is_grads_batched:
        from rushlight.autograd.batched import run_batched

        found = run_batched(run, grads)
    else:
        found = run(grads)
    results: list[Any] = []
    for position, (value, result) in enumerate(zip(inputs, found, strict=True)):
        if result is None:
            if materialize_grads:
                if isinstance(value, GradientEdge):
                    raise RuntimeError(
                        "materialize_grads cannot be used when the given input is a GradientEdge"
                    )
                result = functions.zeros_like(value).requires_grad_()
            elif not allow_unused:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior. (inputs"
                    f"[{position}])"
                )
        results.append(result)
    return tuple(results)


def is_plain_gradient(gradient: Any, output: Any) -> bool:
    """Whether a gradient is as plain as the output that it is given for."""
    return (
        type(gradient) is Tensor
        and gradient._dtype is output._dtype
        and gradient._is_contiguous
        and gradient._unusual is None
        and not gradient._requires_grad
        and geometry.same_sizes(gradient._array.shape, output._array.shape)
    )


def tensor_backward(
    self: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate this tensor's gradient into the leaves it was computed from."""
    if (
        type(self) is Tensor
        and inputs is None
        and not create_graph
        and (not PROCESS.special or not LOCAL.state.counted)
        and self._node is not None
        and self._view is None
        and self._unusual is None
        and (self._array.size == 1 if gradient is None else is_plain_gradient(gradient, self))
        and self._dtype.is_floating_point
    ):
        if gradient is None:
            one = np.empty(self._array.shape, self._dtype.np)
            one.fill(1)
            gradient = wrap(one, self._dtype)
        if not config.backward_programs or not run_known(
            self._node, self._output_nr, gradient, bool(retain_graph), LOCAL.state
        ):
            run_root(self._node, self._output_nr, gradient, bool(retain_graph))
        return
    if type(self) is not Tensor:
        from rushlight.core.dispatch import try_function_override

        arguments = dict(
            gradient=gradient, retain_graph=retain_graph, create_graph=create_graph, inputs=inputs
        )
        handled, value = try_function_override(Tensor.backward, (self,), arguments)  # type: ignore[attr-defined]
        if handled:
            return value  # type: ignore[no-any-return]
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


tensor_backward.__name__ = tensor_backward.__qualname__ = "backward"
Tensor.backward = tensor_backward  # type: ignore[attr-defined]
ports.fill(accumulate=accumulate_by_hand, gradients_of=grad)
