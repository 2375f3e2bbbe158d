"""Modules in a row that become one: `fuse_modules`, and what may be fused."""

from __future__ import annotations

import copy
from typing import Any

from rushlight import nn
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from rushlight.quantization import intrinsic as nni
from rushlight.quantization.intrinsic import type_of

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_known_modules",
    "fuse_linear_bn", "fuse_modules", "fuse_modules_qat", "get_fuser_method",
    "get_fuser_method_new",
]  # fmt: skip

CONVS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


def check_modes(*modules: Any) -> None:
    if len({module.training for module in modules}) > 1:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def check_learnable(bn: Any, count: int) -> None:
    """Whether a batch norm can be folded into weights that are still learnt."""
    if bn.num_features != count:
        raise AssertionError("Output channels of the layer must match num_features of batch norm.")
    if not bn.affine:
        raise AssertionError("Only support fusing batch norm with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError(
            "Only support fusing batch norm with tracking_running_stats set to True"
        )


def fused_class(name: str, conv: Any, *others: Any) -> Any:
    dims = CONVS.get(type(conv))
    if dims is None:
        # torch: the class of the error.
        raise NotImplementedError(f"Cannot fuse modules: {(conv, *others)}")
    return getattr(nni, f"{name}{dims}d")


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """A convolution with the batch norm after it: for training as two, otherwise as one."""
    check_modes(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    check_learnable(bn, conv.out_channels)
    return fused_class("ConvBn", conv, bn)(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """A convolution with batch norm and ReLU after it."""
    check_modes(conv, bn, relu)
    if not is_qat:
        return fused_class("ConvReLU", conv, bn, relu)(fuse_conv_bn_eval(conv, bn), relu)
    check_learnable(bn, conv.out_channels)
    return fused_class("ConvBnReLU", conv, bn, relu)(conv, bn, relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """A linear layer with the batch norm after it."""
    check_modes(linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    check_learnable(bn, linear.out_features)
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Any:
    """A transposed convolution with the batch norm after it; not while it learns."""
    check_modes(convt, bn)
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def in_a_row(cls: Any) -> Any:
    def fuse(is_qat: bool, *modules: Any) -> Any:
        return cls(*modules)

    return fuse


NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
METHODS: dict[tuple[Any, ...], Any] = {
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): in_a_row(nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): in_a_row(nni.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): in_a_row(nni.BNReLU3d),
    (nn.ConvTranspose1d, nn.BatchNorm1d): fuse_convtranspose_bn,
    (nn.ConvTranspose2d, nn.BatchNorm2d): fuse_convtranspose_bn,
    (nn.ConvTranspose3d, nn.BatchNorm3d): fuse_convtranspose_bn,
}
for _conv, _dims in CONVS.items():
    METHODS[_conv, NORMS[_dims]] = fuse_conv_bn
    METHODS[_conv, NORMS[_dims], nn.ReLU] = fuse_conv_bn_relu
    METHODS[_conv, nn.ReLU] = in_a_row(getattr(nni, f"ConvReLU{_dims}d"))


def get_fuser_method(op_list: Any, additional_fuser_method_mapping: Any = None) -> Any:
    """The function `(is_qat, *modules) -> module` for classes of modules in a row."""
    found = {**METHODS, **(additional_fuser_method_mapping or {})}.get(op_list)
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return found


def get_fuser_method_new(op_pattern: Any, fuser_method_mapping: Any) -> Any:
    """The function for a pattern of a graph, by a table of one's own."""
    found = fuser_method_mapping.get(op_pattern)
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_pattern} ")
    return found


def fuse_known_modules(
    mod_list: Any, is_qat: bool, additional_fuser_method_mapping: Any = None
) -> list[Any]:
    """The fused module, and identities in the others' places; hooks of either end go with it."""
    first, last = mod_list[0], mod_list[-1]
    fuse = get_fuser_method(tuple(map(type_of, mod_list)), additional_fuser_method_mapping)
    fused = fuse(is_qat, *mod_list)
    for hook in first._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    for hook in last._forward_hooks.values():
        fused.register_forward_hook(hook)
    first._forward_pre_hooks.clear()
    last._forward_hooks.clear()
    others = [nn.Identity().train(first.training) for _ in mod_list[1:]]
    return [fused, *others]


def fuse_lists(model: Any, lists: Any, is_qat: bool, inplace: bool, fuse: Any, options: Any) -> Any:
    model = model if inplace else copy.deepcopy(model)
    if all(isinstance(name, str) for name in lists):
        lists = [lists]
    additional = (options or {}).get("additional_fuser_method_mapping", {})
    for names in lists:
        found = [model.get_submodule(name) for name in names]
        for name, made in zip(names, fuse(found, is_qat, additional), strict=True):
            outer, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(outer), leaf, made)
    return model


def fuse_modules(
    model: Any, modules_to_fuse: Any, inplace: bool = False,
    fuser_func: Any = fuse_known_modules, fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The model with modules in a row as one, for inference. Names are a list, or lists of them.

    >>> import rushlight as torch
    >>> from rushlight.quantization import fuse_modules
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
    >>> type(fuse_modules(model, ["0", "1"])[0]).__name__
    'LinearReLU'
    """
    return fuse_lists(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Any, modules_to_fuse: Any, inplace: bool = False,
    fuser_func: Any = fuse_known_modules, fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The model with modules in a row as one, for training."""
    return fuse_lists(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
