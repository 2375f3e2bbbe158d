"""Steps of optimisers as functions of parameters, gradients and state: `torch.optim.adam.adam`.

Each function is made of the class's own update: the lists it takes become the state of a step.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any, NamedTuple

from rushlight.autograd.grad_mode import set_grad_enabled
from rushlight.base.lazy import load, namespace
from rushlight.base.signatures import function_of

__all__ = ["step_function"]


class Form(NamedTuple):
    """One function: the class it steps for, what its lists are in a state, and its options."""

    cls: str
    # argument -> the state's entry
    lists: dict[str, str]
    # options that may be left out, in order, then those that may not, by name
    optional: str
    required: str


STEPS = {"state_steps": "step"}
MOMENTS = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq"}
_ADAM = {**MOMENTS, "max_exp_avg_sqs": "max_exp_avg_sq", **STEPS}
_SCALED = "fused grad_scale found_inf"
FORMS = {
    "adadelta": Form(
        "Adadelta",
        {"square_avgs": "square_avg", "acc_deltas": "acc_delta", **STEPS},
        "capturable foreach differentiable has_complex",
        "lr rho eps weight_decay maximize",
    ),
    "adagrad": Form(
        "Adagrad",
        {"state_sums": "sum", **STEPS},
        f"{_SCALED} has_sparse_grad foreach differentiable has_complex",
        "lr weight_decay lr_decay eps maximize",
    ),
    "adam": Form(
        "Adam",
        _ADAM,
        f"foreach capturable differentiable {_SCALED} has_complex decoupled_weight_decay",
        "amsgrad beta1 beta2 lr weight_decay eps maximize",
    ),
    "adamw": Form(
        "AdamW",
        _ADAM,
        f"foreach capturable differentiable {_SCALED} has_complex",
        "amsgrad beta1 beta2 lr weight_decay eps maximize",
    ),
    "adamax": Form(
        "Adamax",
        {"exp_avgs": "exp_avg", "exp_infs": "exp_inf", **STEPS},
        "foreach maximize differentiable capturable has_complex",
        "eps beta1 beta2 lr weight_decay",
    ),
    "asgd": Form(
        "ASGD",
        {"axs": "ax", "mus": "mu", "etas": "eta", **STEPS},
        "foreach maximize differentiable capturable has_complex",
        "lambd lr t0 alpha weight_decay",
    ),
    "nadam": Form(
        "NAdam",
        {**MOMENTS, "mu_products": "mu_product", **STEPS},
        "decoupled_weight_decay foreach capturable differentiable has_complex maximize",
        "beta1 beta2 lr weight_decay momentum_decay eps",
    ),
    "radam": Form(
        "RAdam",
        {**MOMENTS, **STEPS},
        "decoupled_weight_decay foreach differentiable capturable has_complex maximize",
        "beta1 beta2 lr weight_decay eps",
    ),
    "rmsprop": Form(
        "RMSprop",
        {
            "square_avgs": "square_avg",
            "grad_avgs": "grad_avg",
            "momentum_buffer_list": "momentum_buffer",
            **STEPS,
        },
        "foreach maximize differentiable capturable has_complex",
        "lr alpha eps weight_decay momentum centered",
    ),
    "rprop": Form(
        "Rprop",
        {"prevs": "prev", "step_sizes": "step_size", **STEPS},
        "foreach capturable maximize differentiable has_complex",
        "step_size_min step_size_max etaminus etaplus",
    ),
    "sgd": Form(
        "SGD",
        {"momentum_buffer_list": "momentum_buffer"},
        f"has_sparse_grad foreach {_SCALED}",
        "weight_decay momentum lr dampening nesterov maximize",
    ),
}
# Options that are given apart and that a group holds in pairs.
PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
MAY_BE_NONE = ("foreach", "fused", "grad_scale", "found_inf")


def step_function(name: str) -> Any:
    """The function `name` of `torch.optim.<name>`; None where there is none."""
    form = FORMS.get(name)
    if form is None:
        return None
    in_order, by_name = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    gradients = "d_p_list" if name == "sgd" else "grads"
    parameters = [Parameter(each, in_order) for each in ("params", gradients, *form.lists)]
    parameters += [
        Parameter(each, in_order, default=None if each in MAY_BE_NONE else False)
        for each in form.optional.split()
    ]
    parameters += [Parameter(each, by_name) for each in form.required.split()]

    def step(given: dict[str, Any]) -> None:
        take_step(form, given, given.pop("params"), given.pop(gradients))

    made = function_of(Signature(parameters), name, step)
    made.__doc__ = f"One step of {form.cls} on lists of parameters, gradients and state, in place."
    return made


def take_step(form: Form, given: dict[str, Any], values: list[Any], grads: list[Any]) -> None:
    cls = getattr(load("rushlight.optim"), form.cls)
    lists = {entry: given.pop(argument) for argument, entry in form.lists.items()}
    group = {**cls.options, **cls.keyword_options, **cls.fixed_options, **given}
    group.update({pair: (given[a], given[b]) for pair, (a, b) in PAIRS.items() if a in given})
    optimizer = object.__new__(cls)
    optimizer.state = {}
    if "step" in lists:
        for count in lists["step"]:
            count += 1
    with set_grad_enabled(bool(group["differentiable"])):
        for position, (value, grad) in enumerate(zip(values, grads, strict=True)):
            state = {
                entry: column[position]
                for entry, column in lists.items()
                if position < len(column) and column[position] is not None
            }
            optimizer.state[value] = state
            before, value.grad = value.grad, grad
            try:
                optimizer.update_one(value, group)
            finally:
                value.grad = before
            for entry, column in lists.items():
                # The first momentum buffer comes from the step itself.
                if position < len(column) and state.get(entry) is not column[position]:
                    column[position] = optimizer.state[value].get(entry)


__getattr__, __dir__ = namespace(__name__, make=step_function, names=FORMS)
