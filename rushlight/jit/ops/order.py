"""The order in which a call tries the overloads of an operator, where it is not that of definition.

As torch has it: the first that takes the arguments is meant, and errors list them so.
"""

from __future__ import annotations

# Kind -> names of overloads; those not named come last.
ORDER: dict[str, str] = {
    "aten::Bool": "Tensor int float",
    "aten::Complex": """
        Scalar Tensor_Tensor int_bool bool_int float_bool bool_float float_int int_float int_int
        bool_bool float_float Tensor_float float_Tensor Tensor_int int_Tensor Tensor_bool
        bool_Tensor
    """,
    "aten::Delete": "t Dict_str Dict_int Dict_bool Dict_float Dict_complex Dict_Tensor",
    "aten::Float": "Tensor Scalar int bool str",
    "aten::Int": "Tensor bool float Scalar str",
    "aten::__and__": "Scalar Tensor bool int",
    "aten::__contains__": "int_list str_list str int bool float complex Tensor float_list",
    "aten::__getitem__": "t str Dict_str Dict_int Dict_bool Dict_float Dict_complex Dict_Tensor",
    "aten::__interpolate": "scale_list size_list_scale_list default size_list",
    "aten::_set_item": "t str int bool float complex Tensor",
    "aten::_sparse_log_softmax": "int default",
    "aten::_sparse_softmax": "int default",
    "aten::_test_autograd_multiple_dispatch": "fullcoverage fullcoverage_out ntonly",
    "aten::_upsample_lanczos2d_aa": "default out vec",
    "aten::_upsample_nearest_exact1d": "default out vec",
    "aten::_upsample_nearest_exact2d": "default out vec",
    "aten::_upsample_nearest_exact3d": "default out vec",
    "aten::add": """
        Tensor Scalar out Scalar_out t str int complex float int_complex complex_int float_complex
        complex_float int_float float_int default
    """,
    "aten::all": "default dim dims out dims_out all_out int float bool",
    "aten::angle": "default out int float complex Scalar",
    "aten::any": "default dim dims out dims_out all_out str int float bool",
    "aten::arange": "default start start_step start_out out",
    "aten::as_tensor": "bool float int complex default list",
    "aten::atleast_1d": "default Sequence",
    "aten::atleast_2d": "default Sequence",
    "aten::atleast_3d": "default Sequence",
    "aten::bernoulli": "default out p Tensor Tensor_out",
    "aten::bitwise_left_shift_": "Tensor_Scalar Tensor",
    "aten::bitwise_right_shift_": "Tensor_Scalar Tensor",
    "aten::clear": "t str int bool float complex Tensor",
    "aten::copy": "default out t Dict_str Dict_int Dict_bool Dict_float Dict_complex Dict_Tensor",
    "aten::count": "default int float bool Tensor str",
    "aten::count_nonzero": "default dim_IntList dim_IntList_out out",
    "aten::dict": """
        default str Dict_str int Dict_int bool Dict_bool float Dict_float complex Dict_complex
        Tensor Dict_Tensor
    """,
    "aten::div_": "Tensor Tensor_mode Scalar Scalar_mode",
    "aten::divide_": "Tensor Tensor_mode Scalar_mode Scalar",
    "aten::eq": """
        Tensor Scalar Scalar_out int_list device bool enum int complex float int_float float_int
        float_complex complex_float default str float_list Tensor_list bool_list str_list
    """,
    "aten::eq_": "Scalar Tensor",
    "aten::fill": "Scalar Scalar_out Tensor",
    "aten::fill_": "Scalar Tensor",
    "aten::float_power": """
        Tensor_Tensor Tensor_Scalar Scalar Tensor_Tensor_out Scalar_out Tensor_Scalar_out
    """,
    "aten::float_power_": "Tensor Scalar",
    "aten::ge_": "Scalar Tensor",
    "aten::get": """
        str default_str int default_int bool default_bool float default_float complex
        default_complex Tensor default_Tensor
    """,
    "aten::gradient": """
        scalarint scalararray array scalarrayint scalarrayarray tensorarrayint tensorarray
    """,
    "aten::greater_": "Scalar Tensor",
    "aten::greater_equal_": "Scalar Tensor",
    "aten::gt_": "Scalar Tensor",
    "aten::histogram": "bins_tensor bins_tensor_out bin_ct bin_ct_out",
    "aten::index": """
        Tensor Tensor_hacked_twin str list_int list_float list_bool list_Tensor list_str
    """,
    "aten::index_fill": "int_Tensor int_Scalar int_Scalar_out int_Tensor_out",
    "aten::isin": """
        Tensor_Tensor Tensor_Tensor_out Tensor_Scalar Tensor_Scalar_out Scalar_Tensor
        Scalar_Tensor_out
    """,
    "aten::le_": "Scalar Tensor",
    "aten::len": "t Tensor str Dict_str Dict_int Dict_bool Dict_float Dict_complex Dict_Tensor any",
    "aten::lerp": "Scalar Tensor Scalar_out",
    "aten::lerp_": "Scalar Tensor",
    "aten::less_": "Scalar Tensor",
    "aten::less_equal_": "Scalar Tensor",
    "aten::linalg_matrix_rank": """
        default tol_tensor atol_rtol_tensor atol_rtol_float atol_rtol_tensor_out
        atol_rtol_float_out out
    """,
    "aten::linalg_pinv": """
        default atol_rtol_float atol_rtol_tensor atol_rtol_tensor_out atol_rtol_float_out out
        rcond_tensor
    """,
    "aten::linspace": """
        Tensor_Tensor Tensor_Scalar Scalar_Tensor default out Tensor_Tensor_out Tensor_Scalar_out
        Scalar_Tensor_out
    """,
    "aten::list": "default t",
    "aten::log": """
        default out int float complex Scalar int_int float_float complex_complex int_float
        float_int int_complex complex_int float_complex complex_float Scalar_Scalar
    """,
    "aten::logspace": """
        Tensor_Tensor Tensor_Scalar Scalar_Tensor default out Tensor_Tensor_out Tensor_Scalar_out
        Scalar_Tensor_out
    """,
    "aten::lt_": "Scalar Tensor",
    "aten::masked_fill": "Scalar Scalar_out Tensor",
    "aten::masked_fill_": "Scalar Tensor",
    "aten::max": "other default dim dim_max unary_out out",
    "aten::mean": "default dim out dtype_out",
    "aten::median": "default dim dim_values out",
    "aten::meshgrid": "default indexing",
    "aten::min": "other default dim dim_min unary_out out",
    "aten::movedim": "int intlist",
    "aten::mul": """
        Tensor Scalar out Scalar_out left_t right_ int complex float int_complex complex_int
        float_complex complex_float int_float float_int default
    """,
    "aten::nanmedian": "default dim dim_values out",
    "aten::ne": """
        Tensor Scalar Scalar_out int_list device bool enum int complex float int_float float_int
        float_complex complex_float default str float_list Tensor_list bool_list str_list
    """,
    "aten::ne_": "Scalar Tensor",
    "aten::norm": """
        Scalar ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype ScalarOpt_dtype_out Scalar_out
    """,
    "aten::normal": """
        Tensor_float Tensor_float_out float_Tensor_out float_Tensor Tensor_Tensor
        Tensor_Tensor_out float_float float_float_out
    """,
    "aten::not_equal_": "Scalar Tensor",
    "aten::pop": """
        t Dict_str Dict_default_str Dict_int Dict_default_int Dict_bool Dict_default_bool
        Dict_float Dict_default_float Dict_complex Dict_default_complex Dict_Tensor
        Dict_default_Tensor
    """,
    "aten::pow": """
        Tensor_Tensor Tensor_Scalar Scalar Tensor_Tensor_out Scalar_out Tensor_Scalar_out int
        complex float int_float float_int float_complex complex_float Scalar_Scalar int_to_int
    """,
    "aten::prod": "default dim_int int_out out",
    "aten::randint_like": """
        default Tensor low_dtype generator Tensor_generator low_generator_dtype out generator_out
        Tensor_out Tensor_generator_out low_dtype_out low_generator_dtype_out
    """,
    "aten::random": "from from_out to to_out default out",
    "aten::remove": "int float bool Tensor str",
    "aten::scatter": "value src reduce value_reduce src_out value_out reduce_out value_reduce_out",
    "aten::set_": """
        source_Storage_storage_offset source_Tensor default source_Storage
        source_Tensor_storage_offset
    """,
    "aten::size": "int default",
    "aten::smooth_l1_loss_backward": "grad_input default",
    "aten::sort": "default stable int float Tensor bool str any",
    "aten::sorted": "int float Tensor bool str any",
    "aten::special_chebyshev_polynomial_t": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_chebyshev_polynomial_u": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_chebyshev_polynomial_v": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_chebyshev_polynomial_w": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_hermite_polynomial_h": "default out x_scalar x_scalar_out n_scalar n_scalar_out",
    "aten::special_hermite_polynomial_he": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_laguerre_polynomial_l": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_legendre_polynomial_p": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_shifted_chebyshev_polynomial_t": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_shifted_chebyshev_polynomial_u": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_shifted_chebyshev_polynomial_v": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_shifted_chebyshev_polynomial_w": """
        default out x_scalar x_scalar_out n_scalar n_scalar_out
    """,
    "aten::special_xlog1py": """
        default other_scalar self_scalar out self_scalar_out other_scalar_out
    """,
    "aten::special_zeta": "default other_scalar self_scalar out self_scalar_out other_scalar_out",
    "aten::split": "Tensor sizes str default",
    "aten::std": "default dim correction correction_out out",
    "aten::stride": "int default",
    "aten::sub": """
        Tensor Scalar out Scalar_out int complex float int_complex complex_int float_complex
        complex_float int_float float_int default
    """,
    "aten::subtract": "Tensor out Scalar",
    "aten::sum": "dim_IntList default IntList_out out int float complex bool",
    "aten::sym_size": "int default",
    "aten::sym_stride": "int default",
    "aten::tensor": "bool float int complex default",
    "aten::to": "device dtype other dtype_layout prim_Device prim_dtype prim_other",
    "aten::var": "default dim correction correction_out out",
    "aten::xlogy": "Tensor Scalar_Other Scalar_Self",
    "prim::max": """
        int float int_float float_int default int_list self_int float_list self_float bool_list
        self_bool
    """,
    "prim::min": """
        int float int_float float_int default int_list self_int float_list self_float bool_list
        self_bool
    """,
}

# Kinds of aten for which graphs have no out= form.
WITHOUT_OUT = """
    _embedding_bag_backward _embedding_bag_sparse_backward _is_all_true _is_any_true
    _linalg_eigvals _lu_with_info _pad_circular _prelu_kernel _prelu_kernel_backward _unsafe_index
    _unsafe_index_put alpha_dropout argwhere atleast_1d atleast_2d atleast_3d bilinear
    cartesian_prod cdist combinations corrcoef cosine_embedding_loss cosine_similarity cov
    cross_entropy_loss det diagflat dropout embedding_backward embedding_bag feature_alpha_dropout
    feature_dropout fliplr flipud gather_backward hinge_embedding_loss index_select_backward
    kl_div l1_loss linalg_vander logdet margin_ranking_loss masked_scatter_backward
    masked_select_backward matrix_exp matrix_exp_backward mish_backward nll_loss_nd
    norm_except_dim normal_functional one_hot pad pairwise_distance pdist pinverse
    poisson_nll_loss prelu relu6 rrelu rrelu_with_noise_functional selu sum_to_size tile
    triplet_margin_loss type_as vander
"""
