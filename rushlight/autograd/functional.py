"""Derivatives of functions of tensors: `vjp`, `jvp`, `vhp`, `hvp`, `jacobian` and `hessian`.

Inputs are replaced by fresh tensors, so that a function that also captures one of them from
outside is differentiated through its arguments only. Results mirror the arguments: a tensor for
a tensor, a tuple for a tuple. What does not depend on an input has a derivative of zeros, or is
refused with `strict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rushlight.autograd import forward_ad
from rushlight.autograd.backward import grad
from rushlight.autograd.batched import batched_call, column_blocks, unit_tangents
from rushlight.autograd.grad_mode import enable_grad
from rushlight.core import geometry
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

OUTPUTS = "outputs of the user-provided function"
# A function and its derivatives, as messages call them.
NAMES = ("output", "jacobian", "hessian")
Tensors = tuple[Any, ...]


# -------------------------------------------------------------------- arguments and results


def as_tensors(value: Any, what: str, api: str) -> Tensors:
    """The tensors of an argument or result that may be one tensor or a tuple of them."""
    given = value if isinstance(value, tuple) else (value,)
    for index, entry in enumerate(given):
        if not isinstance(entry, Tensor):
            place = f"value at index {index}" if value is given else f"given {what}"
            raise TypeError(
                f"The {what} given to {api} must be either a Tensor or a tuple of Tensors but the "
                f"{place} has type {type(entry)}."
            )
    return given


def fresh(inputs: Tensors, keeps: bool) -> Tensors:
    """Tensors to differentiate by; with `keeps`, derivatives flow on into the given ones."""
    return tuple(
        x.view_as(x) if keeps and x.requires_grad else x.detach().requires_grad_() for x in inputs
    )


def mirrored(results: Sequence[Any], like: Any, keeps: bool) -> Any:
    """`results` as a tuple where `like` is one, cut from their graph unless it is kept."""
    shown = tuple(results) if keeps else tuple(result.detach() for result in results)
    return shown if isinstance(like, tuple) else shown[0]


def checked_vector(v: Any, like: Tensors, api: str, lone: str) -> Tensors:
    """The tensors of `v`, shaped as `like`; ones where there is none and `like` is one number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {lone} a single Tensor with a single "
                "element."
            )
        return (functions.ones_like(like[0].detach()),)
    vectors = as_tensors(v, "v", api)
    if len(vectors) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}."
        )
    for index, (vector, other) in enumerate(zip(vectors, like)):
        if not geometry.same_sizes(vector.shape, other.shape):
            entry = f"Entry {index} in v" if isinstance(v, tuple) and len(v) > 1 else "v"
            raise RuntimeError(
                f"{entry} has invalid size: should be {other.shape} but got {vector.shape}."
            )
    return vectors


# -------------------------------------------------------------------- derivatives


def refuse_independent(what: str, when: str = "") -> NoReturn:
    raise RuntimeError(f"{what}. This is not allowed in strict mode{when}.")


def check_differentiable(outputs: Tensors) -> None:
    for index, output in enumerate(outputs):
        if not output.requires_grad:
            raise RuntimeError(
                f"Output {index} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when running "
                "in strict mode."
            )


def gradients(
    outputs: Sequence[Any], inputs: Tensors, weights: Sequence[Any] | None, keeps: bool
) -> Tensors:
    """The gradient of each input; None where no output depends on it."""
    weights = [None] * len(outputs) if weights is None else weights
    pairs = [(out, w) for out, w in zip(outputs, weights) if out.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [out for out, _ in pairs],
        inputs,
        [weight for _, weight in pairs],
        retain_graph=True,
        create_graph=keeps,
        allow_unused=True,
    )


def filled(grads: Tensors, inputs: Tensors, strict: bool, keeps: bool, order: int = 1) -> Tensors:
    """Gradients of the given order, with zeros for what is independent of an input."""
    for index, found in enumerate(grads):
        if strict and found is None:
            refuse_independent(
                f"The {NAMES[order - 1]} of the user-provided function is independent of input "
                f"{index}"
            )
        if strict and keeps and not found.requires_grad:
            refuse_independent(
                f"The {NAMES[order]} of the user-provided function is independent of input {index}",
                " when create_graph=True",
            )
    return tuple(
        functions.zeros_like(x) if found is None else found for found, x in zip(grads, inputs)
    )


def single_output(func: Callable[..., Any], inputs: Tensors, api: str, strict: bool) -> Any:
    """The only number that `func` returns."""
    returned = func(*inputs)
    outputs = as_tensors(returned, OUTPUTS, api)
    if strict:
        check_differentiable(outputs)
    if isinstance(returned, tuple):
        raise RuntimeError(f"The function given to {api} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {api} should contain a single element"
        )
    return outputs[0]


def slope(output: Any, inputs: Tensors, strict: bool, fills: bool) -> Tensors:
    """The gradient of one number, itself differentiable. Where the number does not depend on an
    input, strict mode tells so, or with `fills` that its zeros have no gradient."""
    found = list(gradients((output.reshape(()),), inputs, None, True))
    for index, (part, x) in enumerate(zip(found, inputs)):
        if strict and part is None and not fills:
            refuse_independent(
                f"The output of the user-provided function is independent of input {index}"
            )
        if strict and (part is None or not part.requires_grad):
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided "
                f"function with respect to input {index} is independent of the input. This is not "
                "allowed in strict mode. You should ensure that your function is twice "
                "differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )
        if part is None:
            found[index] = functions.zeros_like(x)
    return tuple(found)


# -------------------------------------------------------------------- products


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """What `func` returns, and the product of `v` with its Jacobian.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.autograd.functional.vjp(lambda x: x**2, x, torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        arguments = fresh(as_tensors(inputs, "inputs", "vjp"), create_graph)
        returned = func(*arguments)
        outputs = as_tensors(returned, OUTPUTS, "vjp")
        if strict:
            check_differentiable(outputs)
        vectors = checked_vector(v, outputs, "vjp", "user-provided function returns")
        found = gradients(outputs, arguments, vectors, create_graph)
        found = filled(found, arguments, strict, create_graph)
    return mirrored(outputs, returned, create_graph), mirrored(found, inputs, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """What `func` returns, and the product of its Jacobian with `v`.

    The gradient is linear in its weights: its derivative by them is the product.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.autograd.functional.jvp(lambda x: x**2, x, torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    lone = "input to the user-provided function is"
    with enable_grad():
        given = as_tensors(inputs, "inputs", "jvp")
        vectors = checked_vector(v, given, "jvp", lone)
        arguments = fresh(given, create_graph)
        returned = func(*arguments)
        outputs = as_tensors(returned, OUTPUTS, "jvp")
        if strict:
            check_differentiable(outputs)
        weights = tuple(functions.zeros_like(out).requires_grad_() for out in outputs)
        found = gradients(outputs, arguments, weights, True)
        filled(found, arguments, strict, False)
        reached = [(g, vector) for g, vector in zip(found, vectors) if g is not None]
        products = gradients(
            [g for g, _ in reached], weights, [vector for _, vector in reached], create_graph
        )
        check_products(products, strict, create_graph)
        results = [
            functions.zeros_like(out) if product is None else product
            for product, out in zip(products, outputs)
        ]
    return mirrored(outputs, returned, create_graph), mirrored(results, returned, create_graph)


def check_products(products: Tensors, strict: bool, keeps: bool) -> None:
    for index, product in enumerate(products):
        if strict and product is None:
            refuse_independent(
                f"The gradient with respect to the input is independent of entry {index} in the "
                "grad_outputs when using the double backward trick to compute forward mode "
                "gradients"
            )
        if strict and keeps and not product.requires_grad:
            refuse_independent(
                f"The jacobian of the user-provided function is independent of input {index}",
                " when create_graph=True",
            )


def hessian_product(
    api: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    lone = "input to the user-provided function is"
    with enable_grad():
        given = as_tensors(inputs, "inputs", api)
        vectors = checked_vector(v, given, api, lone)
        arguments = fresh(given, create_graph)
        output = single_output(func, arguments, api, strict)
        found = gradients(slope(output, arguments, strict, False), arguments, vectors, create_graph)
        found = filled(found, arguments, strict, create_graph, order=2)
    return mirrored((output,), output, create_graph), mirrored(found, inputs, create_graph)


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """What a function with one number returns, and the product of `v` with its Hessian.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), x, torch.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """What a function with one number returns, and the product of its (symmetric) Hessian with `v`.

    Costs what `vhp` costs.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), x, torch.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return hessian_product("hvp", func, inputs, v, create_graph, strict)


# -------------------------------------------------------------------- whole matrices


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: of each output by each input, of shape `output.shape + input.shape`.

    >>> import rushlight as torch
    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    check_strategy(create_graph, strict, vectorize, strategy)
    given = as_tensors(inputs, "inputs", "jacobian")
    with enable_grad():
        if strategy == "forward-mode":
            returned, blocks = by_columns(func, given)
        else:
            arguments = fresh(given, create_graph)
            returned = func(*arguments)
            outputs = as_tensors(returned, OUTPUTS, "jacobian")
            if strict:
                check_differentiable(outputs)
            rows = batched_rows if vectorize else single_rows
            blocks = [
                rows(output, arguments, create_graph, number if strict else None)
                for number, output in enumerate(outputs)
            ]
    lines = tuple(mirrored(line, inputs, create_graph) for line in blocks)
    return lines if isinstance(returned, tuple) else lines[0]


def check_strategy(create_graph: bool, strict: bool, vectorize: bool, strategy: str) -> None:
    where = "torch.autograd.functional.jacobian"
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        for given, name, kind in (
            (create_graph, "create_graph", NotImplementedError),
            (strict, "strict", RuntimeError),
        ):
            if given:
                raise kind(
                    f'{where}: `{name}=True` and `strategy="forward-mode"` are not supported '
                    f"together (yet). Please either set `{name}=False` or "
                    '`strategy="reverse-mode"`.'
                )
        if not vectorize:
            # torch: the words.
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is "
                "only implemented for `vectorize=True`."
            )
    elif strict and vectorize:
        raise RuntimeError(
            f"{where}: `strict=True` and `vectorized=True` are not supported together. Please "
            "either set `strict=False` or `vectorize=False`."
        )


def single_rows(output: Any, inputs: Tensors, keeps: bool, number: int | None) -> list[Any]:
    """The blocks of one output, a backward pass for each of its elements.

    `number` is the output's in strict mode.
    """
    flat = output.reshape(-1)
    found = [gradients((flat[k],), inputs, None, keeps) for k in range(flat.shape[0])]
    blocks = []
    for index, x in enumerate(inputs):
        parts = [row[index] for row in found]
        if number is not None:
            for part in parts:
                if part is None:
                    refuse_independent(
                        f"Output {number} of the user-provided function is independent of input "
                        f"{index}"
                    )
                if keeps and not part.requires_grad:
                    refuse_independent(
                        "The jacobian of the user-provided function is independent of input "
                        f"{index}",
                        " when create_graph=True",
                    )
        rows = [functions.zeros_like(x) if part is None else part for part in parts]
        blocks.append(stacked(rows, output, x))
    return blocks


def stacked(rows: list[Any], output: Any, x: Any) -> Any:
    if not rows:
        return x.new_zeros((*output.shape, *x.shape))
    return functions.stack(rows).view((*output.shape, *x.shape))


def batched_rows(output: Any, inputs: Tensors, keeps: bool, number: int | None) -> list[Any]:
    """The blocks of one output, all rows in one backward pass."""
    count = output.numel()
    found: Tensors = (None,) * len(inputs)
    if output.requires_grad and count:
        unit = functions.eye(count, dtype=output.dtype, device=output.device)
        found = grad(
            output, inputs, unit.view((count, *output.shape)), retain_graph=True,
            create_graph=keeps, allow_unused=True, is_grads_batched=True,
        )  # fmt: skip
    return [
        x.new_zeros((*output.shape, *x.shape))
        if rows is None
        else rows.reshape((*output.shape, *x.shape))
        for rows, x in zip(found, inputs)
    ]


def by_columns(func: Callable[..., Any], given: Tensors) -> tuple[Any, list[list[Any]]]:
    """What `func` returns and its blocks, by one forward derivative along all unit vectors."""
    returned: Any = None

    def push(*tangents: Any) -> list[Any]:
        nonlocal returned
        with forward_ad.dual_level():
            arguments = fresh(given, False)
            returned = func(*map(forward_ad.make_dual, arguments, tangents))
            pairs = [
                forward_ad.unpack_dual(output)
                for output in as_tensors(returned, OUTPUTS, "jacobian")
            ]
            return [functions.zeros_like(p) if t is None else t for p, t in pairs]

    if any(x.numel() for x in given):
        columns = batched_call(push, *unit_tangents(list(given)))
    else:
        # There is no unit vector to tell the sizes of the outputs.
        columns = [column[None][:0] for column in push(*[functions.zeros_like(x) for x in given])]
    return returned, [column_blocks(column, list(given)) for column in columns]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one number, by each pair of inputs.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), x)
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    given = as_tensors(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected outer_jacobian_strategy to be either "forward-mode" or "reverse-mode".'
        )

    def gradient(*arguments: Any) -> Any:
        output = single_output(func, arguments, "hessian", strict)
        found = slope(output, arguments, strict, True)
        return found if isinstance(inputs, tuple) else found[0]

    return jacobian(
        gradient, given if isinstance(inputs, tuple) else inputs, create_graph, strict, vectorize,
        outer_jacobian_strategy,
    )  # fmt: skip
