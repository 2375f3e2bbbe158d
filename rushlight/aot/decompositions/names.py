"""Which ops torch's tables have, as far as no record here says it. Data only."""

from __future__ import annotations

__all__ = ["CORE_TABLE", "DEFAULT_TABLE", "TEXTS"]

# Elementwise ops whose texts say them by others.
TEXTS = """
    _prelu_kernel _prelu_kernel_backward addcdiv addcmul celu clamp_max clamp_max.Tensor clamp_min
    clamp_min.Tensor deg2rad elu elu_backward floor_divide floor_divide.Scalar frac gelu
    gelu_backward hardshrink hardshrink_backward hardsigmoid hardsigmoid_backward hardswish
    hardswish_backward hardtanh hardtanh_backward heaviside isfinite isneginf isposinf leaky_relu
    leaky_relu_backward lerp.Scalar lerp.Tensor log_sigmoid_backward log_sigmoid_forward logaddexp
    logaddexp2 logit mish mish_backward mvlgamma rad2deg rsub.Scalar rsub.Tensor sgn
    sigmoid_backward silu silu_backward sinc softplus softplus_backward softshrink
    softshrink_backward special_entr special_xlog1py special_xlog1py.other_scalar
    special_xlog1py.self_scalar tanh_backward threshold threshold_backward xlogy.Scalar_Other
    xlogy.Scalar_Self xlogy.Tensor
"""

# Primitives that no graph of core ops holds.
CORE_TABLE = """
    _prelu_kernel _prelu_kernel_backward addcdiv addcmul bernoulli celu clamp_max clamp_max.Tensor
    clamp_min clamp_min.Tensor deg2rad elu_backward floor_divide floor_divide.Scalar frac
    gelu_backward hardshrink hardshrink_backward hardsigmoid hardsigmoid_backward hardswish
    hardswish_backward hardtanh_backward heaviside isfinite isneginf isposinf leaky_relu_backward
    lerp.Scalar lerp.Tensor log_sigmoid_backward log_sigmoid_forward logaddexp logaddexp2 logit mish
    mish_backward mvlgamma rad2deg rsub.Scalar rsub.Tensor sgn sigmoid_backward silu silu_backward
    sinc softplus softplus_backward softshrink softshrink_backward special_entr special_log_ndtr
    special_xlog1py special_xlog1py.other_scalar special_xlog1py.self_scalar tanh_backward threshold
    threshold_backward xlogy.Scalar_Other xlogy.Scalar_Self xlogy.Tensor

    _log_softmax_backward_data _safe_softmax _softmax_backward_data binary_cross_entropy_backward
    binary_cross_entropy_with_logits fill.Tensor glu glu_backward huber_loss_backward
    mse_loss_backward nan_to_num native_batch_norm_backward native_dropout_backward
    nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward
    smooth_l1_loss_backward zero native_batch_norm _native_batch_norm_legit_functional view_copy

    mkldnn_rnn_layer

    _reshape_alias _unsafe_view detach split.Tensor squeeze t transpose.int unbind.int
    unfold unsafe_split.Tensor unsafe_split_with_sizes

    all all.dim all.dims aminmax count_nonzero count_nonzero.dim_IntList dist linalg_vector_norm
    logsumexp nansum norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype
    renorm std.correction std_mean.correction sum var_mean.correction max min

    _unsafe_index_put diagonal_backward index_add index_copy index_fill.int_Scalar
    index_fill.int_Tensor masked_fill.Scalar masked_fill.Tensor select_backward slice_backward
    unfold_backward diagonal_scatter

    alias_copy detach_copy lift_fresh_copy block_diag channel_shuffle diag_embed diagonal_copy
    expand_copy permute_copy
    pixel_shuffle pixel_unshuffle reflection_pad1d_backward reflection_pad2d_backward
    reflection_pad3d_backward replication_pad1d roll rot90 select_copy.int slice_copy.Tensor
    split_with_sizes_copy squeeze_copy squeeze_copy.dim squeeze_copy.dims stack t_copy trace
    transpose_copy.int tril triu unbind_copy.int unfold_copy unsqueeze_copy

    _unsafe_index.Tensor take isin.Scalar_Tensor isin.Tensor_Scalar isin.Tensor_Tensor

    arange arange.start empty_like eye eye.m hann_window hann_window.periodic linspace logspace
    new_empty new_empty_strided new_full new_ones new_zeros ones ones_like zeros zeros_like

    _euclidean_dist addbmm addmv addr baddbmm dot linalg_cross mv vdot
    _scaled_dot_product_flash_attention_for_cpu

    binary_cross_entropy huber_loss mse_loss smooth_l1_loss soft_margin_loss

    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    affine_grid_generator im2col max_unpool2d max_unpool3d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d
"""

# What functorch's compilers take apart: activations and their gradients.
DEFAULT_TABLE = """
    detach elu elu_backward gelu_backward hardsigmoid hardsigmoid_backward hardswish
    hardswish_backward hardtanh hardtanh_backward leaky_relu leaky_relu_backward masked_fill.Scalar
    masked_fill.Tensor sigmoid_backward silu_backward tanh_backward threshold_backward
"""
