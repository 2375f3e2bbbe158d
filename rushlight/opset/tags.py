"""torch's tags of operators, where they do not follow from a record. Data, and `tags_of`."""

from __future__ import annotations

from rushlight.core.op import OpOverload, Tag

__all__ = ["tags_of"]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CORE = words(
    """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _cdist_forward
    _embedding_bag _fft_c2r _fft_r2c _local_scalar_dense _log_softmax _native_batch_norm_legit
    _native_batch_norm_legit.no_stats _native_batch_norm_legit_no_training _pdist_forward
    _softmax _to_copy abs acos acosh adaptive_avg_pool1d add.Scalar add.Tensor addmm alias amax
    amin any any.dim any.dims arange.start_step argmax argmin as_strided asin asinh atan atan2
    atan2.out atanh avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d bitwise_and.Scalar
    bitwise_and.Tensor bitwise_not bitwise_or.Scalar bitwise_or.Tensor bitwise_xor.Scalar
    bitwise_xor.Tensor bmm cat ceil clamp clamp.Tensor clone col2im constant_pad_nd convolution
    convolution_backward copy cos cosh cumsum diagonal div.Scalar div.Scalar_mode div.Tensor
    div.Tensor_mode elu embedding embedding_dense_backward empty.memory_format empty_strided
    eq.Scalar eq.Tensor erf exp expand expm1 fill.Scalar flip floor fmod.Scalar fmod.Tensor full
    full_like gather ge.Scalar ge.Tensor gelu grid_sampler_2d gt.Scalar gt.Tensor hardtanh
    index.Tensor index_put index_select isinf isnan le.Scalar le.Tensor leaky_relu log log10
    log1p log2 logical_and logical_not logical_or logical_xor lt.Scalar lt.Tensor masked_scatter
    max.dim max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
    maximum mean mean.dim min.dim minimum mm mul.Scalar mul.Tensor native_dropout
    native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
    ne.Scalar ne.Tensor neg nonzero permute pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prod
    prod.dim_int rand randn randperm reciprocal reflection_pad1d reflection_pad2d
    reflection_pad3d relu remainder.Scalar remainder.Tensor repeat replication_pad2d
    replication_pad3d resize_ round rsqrt scalar_tensor scatter.src scatter.value scatter_add
    scatter_reduce.two select.int select_scatter sigmoid sign sin sinh slice.Tensor
    slice_scatter sort split_with_sizes sqrt squeeze.dim squeeze.dims sub.Scalar sub.Tensor
    sum.dim_IntList sym_is_contiguous sym_numel sym_size.int sym_storage_offset sym_stride.int
    tan tanh topk trunc unsqueeze upsample_bilinear2d.vec upsample_nearest2d.vec var.correction
    var.dim view where.self
    """
)
REDUCTIONS = words(
    """
    all all.all_out all.dim all.dims all.dims_out all.out amax amax.out amin amin.out aminmax
    aminmax.out any any.all_out any.dim any.dims any.dims_out any.out argmax argmax.out argmin
    argmin.out count_nonzero count_nonzero.dim_IntList linalg__powsum linalg_vector_norm
    linalg_vector_norm.out logsumexp logsumexp.out max max.dim max.dim_max max.unary_out mean
    mean.dim mean.dtype_out mean.out min min.dim min.dim_min min.unary_out nansum nansum.out
    norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype norm.dtype_out
    norm.out prod prod.dim_int prod.int_out std std.correction std.correction_out std.dim
    std.out std_mean std_mean.correction std_mean.dim sum sum.IntList_out sum.dim_IntList var
    var.correction var.correction_out var.dim var.out var_mean var_mean.correction var_mean.dim
    """
)
# Composites that torch counts as elementwise, and elementwise ops that it does not.
ALSO_POINTWISE = words(
    """
    clone conj_physical equal float_power.Scalar float_power.Tensor_Scalar
    float_power.Tensor_Tensor float_power_.Scalar float_power_.Tensor masked_fill.Scalar
    max.other min.other nan_to_num native_dropout_backward positive relu6 rrelu selu selu_
    square square_
    """
)
NOT_POINTWISE = words(
    """
    _prelu_kernel _prelu_kernel_backward complex elu_backward floor_divide floor_divide.Scalar
    hardshrink_backward hardsigmoid_backward hardswish hardswish_backward hardtanh_backward
    leaky_relu_backward log_sigmoid_backward log_sigmoid_forward mish_backward polar rsub.Tensor
    softplus_backward softshrink_backward
    """
)


def tags_of(op: OpOverload) -> set[str]:
    """The tags that torch has for an op besides those that the op states."""
    found = {Tag.pt2_compliant_tag}
    name = op.name().partition("::")[2]
    kind = (op.functional or op).kind.name
    if name in ALSO_POINTWISE or (kind == "POINTWISE" and name not in NOT_POINTWISE):
        found.add(Tag.pointwise)
    if name in CORE:
        found.add(Tag.core)
    if name in REDUCTIONS:
        found.add(Tag.reduction)
    if op.out_positions:
        found.add(Tag.out)
    elif op.base_name.endswith("_") and not op.base_name.endswith("__"):
        found.add(Tag.inplace)
    return found
