"""Where names are defined: module of the opset -> names. Written by `make index`.

In-place forms and aliases are listed like ops. A name whose overloads lie in several modules (of
the foundation only) stands there with its overloads. `families` reads this.
"""

from __future__ import annotations

# Ops of the modules that are imported with the package.
FOUNDATION_OPS: dict[str, str] = {
    "creation.copy": """
        _local_scalar_dense _to_copy clone contiguous copy copy_ fill fill_ is_nonzero is_same_size
        item to type_as zero zero_ zeros_like
    """,
    "creation.create": """
        _new_zeros_with_same_feature_meta empty empty_like empty_permuted empty_strided full
        full_like new_empty new_empty_strided new_full new_ones new_zeros ones ones_like zeros
    """,
    "pointwise.arithmetic": """
        add add_ div div_ divide divide_ float_power float_power_ floor_divide floor_divide_ fmod
        fmod_ mul mul_ multiply multiply_ neg neg_ negative negative_ positive pow pow_ reciprocal
        reciprocal_ remainder remainder_ rsub square square_ sub sub_ subtract subtract_ true_divide
        true_divide_
    """,
    "pointwise.choice": """
        addcdiv addcdiv_ addcmul addcmul_ clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_
        clip clip_ fmax fmin lerp lerp_ maximum minimum where
    """,
    "pointwise.comparison": """
        __and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__
        __xor__ allclose bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not
        bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor
        bitwise_xor_ eq eq_ equal ge ge_ greater greater_ greater_equal greater_equal_ gt gt_
        isclose isfinite isinf isnan isneginf isposinf isreal le le_ less less_ less_equal
        less_equal_ logical_and logical_and_ logical_not logical_not_ logical_or logical_or_
        logical_xor logical_xor_ lt lt_ ne ne_ not_equal not_equal_ signbit
    """,
    "pointwise.elementary": """
        abs abs_ absolute absolute_ acos acos_ acosh acosh_ arccos arccos_ arccosh arccosh_ arcsin
        arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ asin asin_ asinh
        asinh_ atan atan2 atan2_ atan_ atanh atanh_ ceil ceil_ copysign copysign_ cos cos_ cosh
        cosh_ deg2rad deg2rad_ exp exp2 exp2_ exp_ expm1 expm1_ fix fix_ floor floor_ frac frac_
        frexp gcd gcd_ heaviside heaviside_ hypot hypot_ lcm lcm_ ldexp ldexp_ log log10 log10_
        log1p log1p_ log2 log2_ log_ logaddexp logaddexp2 logit logit_ nan_to_num nan_to_num_
        nextafter nextafter_ rad2deg rad2deg_ round round_ rsqrt rsqrt_ sgn sgn_ sigmoid sigmoid_
        sigmoid_backward sign sign_ sin sin_ sinc sinc_ sinh sinh_ sqrt sqrt_ tan tan_ tanh tanh_
        tanh_backward trunc trunc_ xlogy xlogy_
    """,
    "reduction.reduce": "all any count_nonzero mean nanmean nansum prod sum sum_to_size",
    "view.axes": "adjoint mH mT matrix_H moveaxis movedim numpy_T swapaxes swapdims",
    "view.gradients": """
        as_strided_scatter diagonal_backward diagonal_scatter select_backward select_scatter
        slice_backward slice_scatter unfold_backward
    """,
    "view.restride": """
        as_strided_ is_set_to resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_
        unsqueeze_
    """,
    "view.view": """
        _reshape_alias _unsafe_view alias as_strided broadcast_to detach diagonal expand expand_as
        flatten lift_fresh narrow permute ravel reshape reshape_as select slice slice_inverse
        squeeze t transpose unflatten unfold unsqueeze view view_as
    """,
}
# Ops of all other modules.
OPS: dict[str, str] = {
    "creation.dropout": """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_ native_dropout native_dropout_backward
    """,
    "creation.noise": """
        _dirichlet_grad rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_backward
        rrelu_with_noise_functional
    """,
    "creation.pinning": "_pin_memory",
    "creation.random": """
        _sample_dirichlet _standard_gamma _standard_gamma_grad bernoulli bernoulli_ binomial cauchy
        cauchy_ exponential exponential_ geometric geometric_ log_normal log_normal_ multinomial
        normal normal_ normal_functional poisson rand rand_like randint randint_like randn
        randn_like random random_ randperm uniform uniform_
    """,
    "creation.series": """
        arange bartlett_window blackman_window eye hamming_window hann_window kaiser_window linspace
        logspace range scalar_tensor vander
    """,
    "creation.symsizes": """
        dim is_contiguous is_non_overlapping_and_dense is_strides_like_format numel size stride
        sym_numel sym_size sym_storage_offset sym_stride
    """,
    "fourier.fourier": """
        _fft_c2c _fft_c2r _fft_r2c fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft
        fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2
        fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn
    """,
    "fourier.shorttime": "istft stft",
    "indexing.embedding": """
        embedding embedding_backward embedding_dense_backward embedding_renorm embedding_renorm_
    """,
    "indexing.embeddingbag": """
        _embedding_bag _embedding_bag_backward _embedding_bag_dense_backward
        _embedding_bag_forward_only _embedding_bag_per_sample_weights_backward
        _embedding_bag_sparse_backward embedding_bag
    """,
    "indexing.index": """
        _unsafe_index argwhere gather gather_backward index index_select index_select_backward
        masked_select masked_select_backward nonzero nonzero_numpy nonzero_static take
        take_along_dim
    """,
    "indexing.scatter": """
        index_reduce index_reduce_ scatter scatter_ scatter_add scatter_add_ scatter_reduce
        scatter_reduce_
    """,
    "indexing.writing": """
        _index_put_impl_ _unsafe_index_put index_add index_add_ index_copy index_copy_ index_fill
        index_fill_ index_put index_put_ masked_fill masked_fill_ masked_scatter masked_scatter_
        masked_scatter_backward put put_
    """,
    "linalg.factor": """
        _linalg_check_errors _lu_with_info cholesky cholesky_inverse linalg_cholesky
        linalg_cholesky_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_lu linalg_lu_factor
        linalg_lu_factor_ex lu_unpack
    """,
    "linalg.inverse": """
        _linalg_det _linalg_slogdet det inverse linalg_det linalg_inv linalg_inv_ex linalg_lstsq
        linalg_slogdet linalg_tensorinv linalg_tensorsolve logdet slogdet
    """,
    "linalg.matrixfunctions": """
        linalg_cond linalg_matrix_exp linalg_matrix_norm linalg_matrix_rank linalg_norm linalg_pinv
        matrix_exp matrix_exp_backward pinverse
    """,
    "linalg.reflectors": "geqrf linalg_householder_product linalg_qr orgqr ormqr qr",
    "linalg.solve": """
        _linalg_solve_ex cholesky_solve linalg_ldl_solve linalg_lu_solve linalg_solve
        linalg_solve_ex linalg_solve_triangular lu_solve triangular_solve
    """,
    "linalg.spectral": """
        _linalg_eigh _linalg_eigvals _linalg_svd linalg_eig linalg_eigh linalg_eigvals
        linalg_eigvalsh linalg_svd linalg_svdvals svd
    """,
    "linalg.vectors": "frobenius_norm linalg_diagonal linalg_vander linalg_vecdot nuclear_norm",
    "lists.foreach": """
        _foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_
        _foreach_addcdiv _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin
        _foreach_asin_ _foreach_atan _foreach_atan_ _foreach_ceil _foreach_ceil_ _foreach_clamp_max
        _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_ _foreach_clone _foreach_copy
        _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh _foreach_cosh_ _foreach_div
        _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc _foreach_erfc_ _foreach_exp
        _foreach_exp_ _foreach_expm1 _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac
        _foreach_frac_ _foreach_lerp _foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log
        _foreach_log10 _foreach_log10_ _foreach_log1p _foreach_log1p_ _foreach_log2 _foreach_log2_
        _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_ _foreach_minimum
        _foreach_minimum_ _foreach_mm _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_
        _foreach_norm _foreach_pow _foreach_pow_ _foreach_reciprocal _foreach_reciprocal_
        _foreach_round _foreach_round_ _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid
        _foreach_sigmoid_ _foreach_sign _foreach_sign_ _foreach_sin _foreach_sin_ _foreach_sinh
        _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub _foreach_sub_ _foreach_tan
        _foreach_tan_ _foreach_tanh _foreach_tanh_ _foreach_trunc _foreach_trunc_ _foreach_zero
        _foreach_zero_
    """,
    "lists.fused": """
        _amp_foreach_non_finite_check_and_unscale _amp_foreach_non_finite_check_and_unscale_
        _amp_update_scale _amp_update_scale_ _fused_adagrad _fused_adagrad_ _fused_adam _fused_adam_
        _fused_adamw _fused_adamw_ _fused_sgd _fused_sgd_
    """,
    "moving.packing": """
        _pack_padded_sequence _pack_padded_sequence_backward _pad_packed_sequence pad_sequence
    """,
    "moving.pad": """
        _pad_circular channel_shuffle constant_pad_nd native_channel_shuffle pad pixel_shuffle
        pixel_unshuffle reflection_pad1d reflection_pad1d_backward reflection_pad2d
        reflection_pad2d_backward reflection_pad3d reflection_pad3d_backward replication_pad1d
        replication_pad1d_backward replication_pad2d replication_pad2d_backward replication_pad3d
        replication_pad3d_backward
    """,
    "moving.shape": """
        atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cat
        column_stack combinations concat concatenate dstack flip fliplr flipud hstack kron meshgrid
        repeat repeat_interleave roll rot90 row_stack stack tile vstack
    """,
    "network.alignment": "_ctc_loss _ctc_loss_backward ctc_loss",
    "network.batchstats": """
        _native_batch_norm_legit _native_batch_norm_legit_functional
        _native_batch_norm_legit_no_training
    """,
    "network.classify": """
        cosine_embedding_loss cross_entropy_loss hinge_embedding_loss margin_ranking_loss nll_loss
        nll_loss2d nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward
        nll_loss_nd poisson_nll_loss
    """,
    "network.loss": """
        binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits
        huber_loss huber_loss_backward kl_div l1_loss mse_loss mse_loss_backward smooth_l1_loss
        smooth_l1_loss_backward
    """,
    "network.margin": """
        cosine_similarity multi_margin_loss multilabel_margin_loss pairwise_distance
        soft_margin_loss triplet_margin_loss
    """,
    "network.norm": """
        batch_norm group_norm instance_norm layer_norm native_batch_norm native_batch_norm_backward
        native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
        rms_norm
    """,
    "network.softmax": """
        _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data log_softmax softmax
    """,
    "other.asserts": """
        _assert_async _assert_scalar _assert_tensor_metadata _print sym_constrain_range
        sym_constrain_range_for_size
    """,
    "other.methods": "_is_all_true _is_any_true detach_ fill_diagonal_ is_distributed",
    "other.selftest": """
        _test_autograd_multiple_dispatch _test_autograd_multiple_dispatch_view
        _test_autograd_multiple_dispatch_view_copy _test_warn_in_autograd
    """,
    "pointwise.activation": """
        _prelu_kernel _prelu_kernel_backward celu celu_ elu elu_ elu_backward gelu gelu_
        gelu_backward glu glu_backward hardshrink hardshrink_backward hardsigmoid hardsigmoid_
        hardsigmoid_backward hardswish hardswish_ hardswish_backward hardtanh hardtanh_
        hardtanh_backward leaky_relu leaky_relu_ leaky_relu_backward log_sigmoid
        log_sigmoid_backward log_sigmoid_forward mish mish_ mish_backward prelu relu relu6 relu6_
        relu_ rrelu rrelu_ selu selu_ silu silu_ silu_backward softplus softplus_backward softshrink
        softshrink_backward threshold threshold_ threshold_backward
    """,
    "pointwise.complex": """
        _conj _conj_physical _neg_view angle complex conj conj_physical conj_physical_ imag is_conj
        is_neg polar real resolve_conj resolve_neg view_as_complex view_as_real
    """,
    "pointwise.fakequant": """
        _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
        _fake_quantize_per_tensor_affine_cachemask_tensor_qparams fake_quantize_per_channel_affine
        fake_quantize_per_channel_affine_cachemask
        fake_quantize_per_channel_affine_cachemask_backward fake_quantize_per_tensor_affine
        fake_quantize_per_tensor_affine_cachemask fake_quantize_per_tensor_affine_cachemask_backward
    """,
    "pointwise.polynomials": """
        special_airy_ai special_chebyshev_polynomial_t special_chebyshev_polynomial_u
        special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h
        special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p
        special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
    """,
    "pointwise.special": """
        digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ i0 i0_ igamma igamma_ igammac igammac_
        lgamma lgamma_ mvlgamma mvlgamma_ polygamma special_bessel_j0 special_bessel_j1
        special_bessel_y0 special_bessel_y1 special_digamma special_digamma_ special_entr
        special_erf special_erf_ special_erfc special_erfc_ special_erfcx special_erfinv
        special_erfinv_ special_exp2 special_exp2_ special_expit special_expit_ special_expm1
        special_expm1_ special_gammainc special_gammainc_ special_gammaincc special_gammaincc_
        special_gammaln special_gammaln_ special_i0 special_i0_ special_i0e special_i1 special_i1e
        special_log1p special_log1p_ special_log_ndtr special_log_softmax special_logit
        special_logit_ special_logsumexp special_modified_bessel_i0 special_modified_bessel_i1
        special_modified_bessel_k0 special_modified_bessel_k1 special_multigammaln
        special_multigammaln_ special_ndtr special_ndtri special_polygamma special_psi special_psi_
        special_round special_round_ special_scaled_modified_bessel_k0
        special_scaled_modified_bessel_k1 special_sinc special_sinc_ special_softmax
        special_spherical_bessel_j0 special_xlog1py special_xlogy special_xlogy_ special_zeta
    """,
    "product.attention": """
        _fused_sdp_choice _safe_softmax _scaled_dot_product_attention_math
        _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward scaled_dot_product_attention
    """,
    "product.contract": """
        addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_ bmm dot ger inner
        linalg_matmul matmul mm mv outer vdot
    """,
    "product.differences": "_pdist_backward _pdist_forward gradient pdist",
    "product.einsum": "einsum",
    "product.integers": "_int_mm",
    "product.products": """
        _cdist_backward _cdist_forward _euclidean_dist _trilinear bilinear cdist chain_matmul cross
        linalg_cross linalg_matrix_power linalg_multi_dot linear matrix_power tensordot
    """,
    "product.recurrent": """
        gru gru_cell lstm lstm_cell mkldnn_rnn_layer mkldnn_rnn_layer_backward rnn_relu
        rnn_relu_cell rnn_tanh rnn_tanh_cell
    """,
    "reduction.extrema": "amax amin aminmax argmax argmin max min",
    "reduction.histogram": """
        _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors histogramdd
    """,
    "reduction.magnitudes": """
        dist linalg_vector_norm logsumexp norm norm_except_dim renorm renorm_
    """,
    "reduction.scan": """
        _logcumsumexp cummax cummin cumprod cumprod_ cumsum cumsum_ cumulative_trapezoid diff
        logcumsumexp trapezoid trapz
    """,
    "reduction.segment": "_segment_reduce_backward hash_tensor segment_reduce",
    "reduction.sort": """
        _unique _unique2 argsort bincount bucketize histc histogram isin msort one_hot searchsorted
        sort topk unique_consecutive unique_dim unique_dim_consecutive
    """,
    "reduction.statistics": """
        corrcoef cov kthvalue median mode nanmedian nanquantile quantile std std_mean var var_mean
    """,
    "sparse.compressed": """
        _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo
        _sparse_compressed_tensor_unsafe _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr
        _validate_compressed_sparse_indices ccol_indices col_indices crow_indices row_indices
        sparse_compressed_tensor to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr
    """,
    "sparse.convert": """
        _gather_sparse_backward _sparse_mask_projection _to_dense _to_sparse copy_sparse_to_sparse_
        embedding_sparse_backward sparse_mask sparse_resize_ sparse_resize_and_clear_ to_dense
        to_dense_backward to_sparse
    """,
    "sparse.coo": """
        _coalesce _coalesced_ _dimI _dimV _indices _nnz _sparse_coo_tensor_unsafe
        _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors _values coalesce
        dense_dim indices is_coalesced sparse_coo_tensor sparse_dim values
    """,
    "sparse.math": """
        _sparse_addmm _sparse_log_softmax _sparse_log_softmax_backward_data _sparse_mm
        _sparse_softmax _sparse_softmax_backward_data _sparse_sparse_matmul _sparse_sum
        _sparse_sum_backward dsmm spmm
    """,
    "view.copies": """
        alias_copy as_strided_copy detach_copy diagonal_copy expand_copy lift_fresh_copy narrow_copy
        permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy
        transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy
        view_copy
    """,
    "view.diagonal": """
        diag diag_embed diagflat trace tril tril_ tril_indices triu triu_ triu_indices
    """,
    "view.split": """
        chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split
        unsafe_split_with_sizes vsplit
    """,
    "window.adaptive": """
        _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
        _adaptive_avg_pool3d_backward adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d
        adaptive_max_pool3d_backward
    """,
    "window.conv": """
        _convolution _convolution_mode conv1d conv2d conv3d conv_tbc conv_transpose1d
        conv_transpose2d conv_transpose3d convolution convolution_backward
    """,
    "window.gridsample": """
        affine_grid_generator affine_grid_generator_backward grid_sampler grid_sampler_2d
        grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward
    """,
    "window.pool": """
        avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward max_pool1d
        max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward
        max_pool3d max_pool3d_with_indices max_pool3d_with_indices_backward
    """,
    "window.resample": """
        _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa
        _upsample_bilinear2d_aa_backward _upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward
        _upsample_nearest_exact1d _upsample_nearest_exact1d_backward _upsample_nearest_exact2d
        _upsample_nearest_exact2d_backward _upsample_nearest_exact3d
        _upsample_nearest_exact3d_backward upsample_bicubic2d upsample_bicubic2d_backward
        upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d
        upsample_linear1d_backward upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d
        upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward
        upsample_trilinear3d upsample_trilinear3d_backward
    """,
    "window.unpool": """
        col2im fractional_max_pool2d fractional_max_pool2d_backward fractional_max_pool3d
        fractional_max_pool3d_backward im2col max_unpool2d max_unpool3d
    """,
}
# Modules with ops of other namespaces than aten.
NAMESPACES: dict[str, str] = {
    "creation.symsizes": "prim",
    "indexing.scatter": "rushlight",
    "other.profiling": "profiler",
    "pointwise.fakequant": "rushlight",
    "view.restride": "inductor",
    "vision.deform": "torchvision",
    "vision.regions": "torchvision",
}
# What those add to Tensor.
ATTRIBUTES: dict[str, str] = {
    "creation.pinning": "is_pinned is_shared pin_memory share_memory_",
    "creation.random": """
        bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_
        uniform_
    """,
    "fourier.shorttime": "istft stft",
    "indexing.index": """
        argwhere gather index_select masked_select nonzero nonzero_static take take_along_dim
    """,
    "indexing.scatter": """
        index_reduce index_reduce_ scatter scatter_ scatter_add scatter_add_ scatter_reduce
        scatter_reduce_
    """,
    "indexing.writing": """
        index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_
        masked_fill masked_fill_ masked_scatter masked_scatter_ put put_
    """,
    "linalg.factor": "cholesky cholesky_inverse lu",
    "linalg.inverse": "det inverse logdet slogdet",
    "linalg.matrixfunctions": "matrix_exp pinverse",
    "linalg.reflectors": "geqrf orgqr ormqr qr",
    "linalg.solve": "cholesky_solve lu_solve triangular_solve",
    "linalg.spectral": "svd",
    "moving.shape": "flip fliplr flipud kron repeat repeat_interleave roll rot90 tile",
    "network.softmax": "log_softmax softmax",
    "other.methods": """
        _is_all_true _is_any_true _is_zerotensor apply_ const_data_ptr dim_order fill_diagonal_ ipu
        is_distributed is_ipu is_maia is_mps is_mtia is_vulkan is_xla is_xpu map2_ map_ module_load
        mtia reinforce resize resize_as to_sparse_coo xpu
    """,
    "other.quantization": """
        int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
        q_zero_point qscheme
    """,
    "other.refused": "dequantize name record_stream to_mkldnn",
    "pointwise.activation": "hardshrink prelu relu relu_",
    "pointwise.complex": """
        _conj _conj_physical _neg_view angle conj conj_physical conj_physical_ imag real
        resolve_conj resolve_neg
    """,
    "pointwise.special": """
        digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ i0 i0_ igamma igamma_ igammac igammac_
        lgamma lgamma_ mvlgamma mvlgamma_ polygamma polygamma_
    """,
    "product.contract": """
        __matmul__ __rmatmul__ addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_
        bmm dot ger inner matmul mm mv outer vdot
    """,
    "product.products": "cross matrix_power",
    "reduction.extrema": "amax amin aminmax argmax argmin max min",
    "reduction.magnitudes": "dist logsumexp norm renorm renorm_",
    "reduction.scan": "cummax cummin cumprod cumprod_ cumsum cumsum_ diff logcumsumexp",
    "reduction.segment": "hash_tensor",
    "reduction.sort": """
        argsort bincount histc histogram msort sort topk unique unique_consecutive
    """,
    "reduction.statistics": """
        corrcoef cov kthvalue median mode nanmedian nanquantile quantile std var
    """,
    "sparse.compressed": """
        _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr ccol_indices col_indices
        crow_indices row_indices to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr
    """,
    "sparse.convert": """
        _sparse_mask_projection _to_dense _to_sparse sparse_mask sparse_resize_
        sparse_resize_and_clear_ to_dense to_sparse
    """,
    "sparse.coo": """
        _coalesced_ _dimI _dimV _indices _nnz _values coalesce dense_dim indices is_coalesced
        sparse_dim values
    """,
    "sparse.products": "resize_as_sparse_ smm sspaddmm to_padded_tensor",
    "view.copies": "narrow_copy",
    "view.diagonal": "diag diag_embed diagflat trace tril tril_ triu triu_",
    "view.split": """
        chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split
        unsafe_split_with_sizes vsplit
    """,
    "view.subscript": "__contains__ __delitem__ __getitem__ __iter__ __reversed__ __setitem__",
}
# Public functions that are written in Python (TORCH_NAMES of any module).
FUNCTIONS: dict[str, str] = {
    "creation.create": """
        can_cast empty empty_like empty_permuted empty_strided full full_like get_default_device
        is_complex is_conj is_floating_point is_inference is_neg is_signed is_storage numel ones
        ones_like promote_types result_type set_default_device zeros zeros_like
    """,
    "creation.random": """
        Generator default_generator get_rng_state initial_seed manual_seed normal rand rand_like
        randint randint_like randn randn_like randperm seed set_rng_state
    """,
    "creation.series": """
        arange bartlett_window blackman_window eye hamming_window hann_window kaiser_window linspace
        logspace range scalar_tensor
    """,
    "creation.sizes": "broadcast_shapes unravel_index",
    "fourier.shorttime": "stft",
    "indexing.index": "nonzero",
    "linalg.factor": "lu",
    "moving.shape": """
        atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod meshgrid
    """,
    "other.asserts": "_assert",
    "other.methods": "detach_ get_device",
    "other.older": "batch_norm_update_stats mkldnn_convolution sym_fresh_size",
    "other.quantization": """
        int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
        q_zero_point
    """,
    "other.refused": "dequantize",
    "product.einsum": "einsum",
    "product.products": "cdist chain_matmul tensordot",
    "reduction.magnitudes": "norm",
    "reduction.sort": "unique unique_consecutive",
    "sparse.compressed": """
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_csc_tensor
        sparse_csr_tensor
    """,
    "sparse.coo": "sparse_coo_tensor",
    "sparse.products": """
        ccol_indices_copy col_indices_copy crow_indices_copy hsmm hspmm native_norm
        resize_as_sparse_ row_indices_copy saddmm smm sspaddmm values_copy
    """,
    "view.diagonal": "tril_indices triu_indices",
}
