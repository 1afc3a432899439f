"""PyTorch's operators whose bits do not depend on the batch, the threads or the place in memory: the list that strict
modes go by. What is on no list, of a newer PyTorch or another package, counts as what may move.

From python/tests/sweep.py with PyTorch 2.15 on AVX2 and AVX-512: what it saw move is not here, nor what it could not
cut into rows, unless the operator only moves numbers, or each of its results is a function of one element of each
input, or of a few in a fixed sequence. No operator of linear algebra, no transform, no convolution is."""

from __future__ import annotations

import re

from ._dispatcher import has, schema

#: What moves, picks, compares or makes numbers.
_MOVES = """
__ilshift__ __irshift__ __lshift__ __rshift__ _assert_async _assert_scalar _assert_tensor_metadata _chunk_cat
_coalesce _coalesced _conj_copy _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _copy_from
_copy_from_and_resize _cummax_helper _cummin_helper _dimI _dimV _efficientzerotensor _functional_assert_async
_functional_assert_scalar _functional_sym_constrain_range _functional_sym_constrain_range_for_size _fw_primal_copy
_has_same_storage_numel _indices_copy _is_all_true _is_any_true _jagged_to_padded_dense_forward _lazy_clone
_local_scalar_dense _make_dep_token _make_dual_copy _make_per_channel_quantized_tensor
_make_per_tensor_quantized_tensor _mkldnn_reshape _mkldnn_transpose _nested_from_padded
_nested_from_padded_and_nested_example _nested_from_padded_tensor _nested_get_values_copy _nested_select_backward
_nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nested_tensor_from_tensor_list _nested_tensor_size
_nested_tensor_storage_offsets _nested_tensor_strides _nested_compute_contiguous_strides_offsets
_nested_get_jagged_dummy _nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets
_nested_get_ragged_idx _nested_view_from_buffer_copy _nested_view_from_jagged_copy _neg_view_copy
_new_zeros_with_same_feature_meta _nnz _pack_padded_sequence _padded_dense_to_jagged_forward _pin_memory _print
_reshape_alias_copy _reshape_copy _resize_output _sparse_broadcast_to_copy _sparse_compressed_tensor_with_dims
_sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors _sparse_mask_projection _spdiags _stack _to_copy
_to_dense _to_sparse _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr _unique _unique2 _unsafe_index
_unsafe_masked_index _unsafe_view _validate_compressed_sparse_indices _values_copy affine_grid_generator alias_copy
all allclose amax amin aminmax _aminmax any arange argmax argmin as_strided as_strided_copy as_strided_scatter
bartlett_window bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
blackman_window block_diag bucketize cat ccol_indices_copy channel_shuffle clone col_indices_copy constant_pad_nd copy
copy_sparse_to_sparse count_nonzero crow_indices_copy cummax cummin dense_dim dequantize detach detach_copy diag_embed
diagonal_backward diagonal_copy diagonal_scatter embedding empty empty_like empty_permuted empty_quantized
empty_strided _empty_affine_quantized _empty_per_channel_affine_quantized eq equal expand_copy eye fft_fftfreq
fft_rfftfreq fill flip fmax fmin from_file full full_like gather gcd ge gt hamming_window hann_window hash_tensor histc
im2col index index_copy index_fill index_select indices_copy int_repr is_coalesced is_pinned is_same_size is_set_to
isin isinf isnan isneginf isposinf kaiser_window kthvalue lcm le lift lift_fresh_copy linspace logical_and logical_not
logical_or logical_xor logspace lt lu_unpack masked_fill masked_scatter masked_scatter_backward masked_select max
max_pool2d_with_indices max_pool3d_with_indices max_unpool2d max_unpool3d adaptive_max_pool2d adaptive_max_pool3d
fractional_max_pool2d fractional_max_pool3d maximum median min minimum mode nanmedian narrow_copy
native_channel_shuffle ne new_empty new_empty_strided new_full new_ones new_zeros nonzero nonzero_static ones ones_like
permute_copy pixel_shuffle pixel_unshuffle put q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
q_zero_point qscheme quantize_per_channel quantize_per_tensor range record_stream reflection_pad1d reflection_pad2d
reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d resize resize_as
resize_as_sparse roll rot90 row_indices_copy scalar_tensor scatter searchsorted select_backward select_copy
select_scatter set shallow_copy_data signbit slice_backward slice_copy slice_scatter sort sparse_compressed_tensor
sparse_coo_tensor sparse_dim sparse_mask sparse_resize sparse_resize_and_clear split_copy split_with_sizes_copy squeeze
squeeze_copy stack sym_constrain_range sym_constrain_range_for_size t t_copy take to_mkldnn to_padded_tensor topk
transpose transpose_copy tril tril_indices triu triu_indices unbind_copy unfold_copy unique_consecutive unique_dim
unique_dim_consecutive unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy upsample_nearest1d
upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
values_copy view_as_complex_copy view_as_real_copy view_copy where zero zeros zeros_like
"""
#: Element by element, or of a few elements in a fixed sequence: running sums, windows, rows that an index names.
_ELEMENTS = """
_adaptive_avg_pool2d _adaptive_avg_pool3d _conj_physical _prelu_kernel _prelu_kernel_backward abs acos acosh
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d add addcdiv addcmul angle asin asinh atan avg_pool1d
avg_pool2d avg_pool3d binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits ceil celu
clamp clamp_max clamp_min complex conj_physical copysign cos cumprod cumsum deg2rad digamma div
embedding_dense_backward erf erfc erfinv exp expm1 floor floor_divide fmod frac frexp glu glu_backward hardshrink
hardshrink_backward hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh hardtanh_backward heaviside
huber_loss i0 index_add igammac ldexp leaky_relu leaky_relu_backward lerp lgamma linalg_cross log log10 log1p
log2 log_sigmoid_backward log_sigmoid_forward logcumsumexp logit_backward mse_loss mse_loss_backward mul mvlgamma
nan_to_num native_dropout_backward neg nextafter nll_loss2d_backward nll_loss2d_forward nll_loss_backward
nll_loss_forward polar polygamma rad2deg reciprocal relu remainder round rrelu_with_noise_backward rsub scatter_add
scatter_reduce sigmoid_backward sign sin sinc smooth_l1_loss smooth_l1_loss_backward soft_margin_loss
soft_margin_loss_backward softshrink_backward special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_entr special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he
special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr
special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1
special_ndtri special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_xlog1py special_zeta sqrt sub tan tanh
tanh_backward threshold threshold_backward trace trunc unfold_backward xlogy
"""
#: Made of operators that a mode sees.
_MADE_OF_OTHERS = """
_euclidean_dist _grouped_mm _index_put_impl _safe_softmax _sparse_sum _trilinear _unsafe_index_put
_unsafe_masked_index_put_accumulate dist index_put mean mv norm sum
"""
#: Random numbers, which come from a generator one after the other: another batch draws others anyway.
_RANDOM = """
_fused_dropout _sample_dirichlet _standard_gamma bernoulli binomial cauchy exponential geometric log_normal
multinomial native_dropout normal normal_functional poisson rand rand_like randint randint_like randn randn_like
random randperm rrelu_with_noise rrelu_with_noise_functional uniform
"""
STILL = frozenset((_MOVES + _ELEMENTS + _MADE_OF_OTHERS + _RANDOM).split())
#: Those of them whose kernels for complex numbers move, where vector bodies and scalar tails round in other places.
COMPLEX_MOVES = frozenset(
    (
        "addcdiv",
        "addcmul",
        "angle",
        "cumprod",
        "div",
        "lerp",
        "mul",
        "neg",
        "sigmoid_backward",
        "tanh_backward",
    )
)
#: Those of them whose kernels of other devices move: threads add to one place in any sequence, or cut rows into parts
#: by the shape.
MOVES_ELSEWHERE = frozenset(
    (
        "_grouped_mm",
        "bincount",
        "cumprod",
        "cumsum",
        "embedding_dense_backward",
        "index_add",
        "logcumsumexp",
        "nll_loss2d_forward",
        "nll_loss_forward",
        "put",
        "scatter_add",
        "scatter_reduce",
        "trace",
        "unfold_backward",
    )
)
#: Namespaces whose operators are made of others, which a mode sees, or compute nothing.
PASSING = frozenset(
    ("prims", "debugprims", "rngprims", "profiler", "streams", "mempool", "export", "_dtensor", "debug_mode_ops")
)
#: Operators on quantised tensors and packed weights that make and take apart the latter, or ask.
PACKING = re.compile(r"(prepack|unpack)(?!ed)|pack_|::make_|reorder|data_ptr|nbytes|serialized")


def base_of(name: str) -> str:
    """ "add" of "aten::add_.Tensor"."""
    base = name.partition("::")[2].partition(".")[0]
    return base.removesuffix("_") if not base.startswith("__") else base


def stands_still(name: str) -> bool:
    """Whether an operator, with its namespace, moves no bit."""
    namespace = name.partition("::")[0]
    if namespace != "aten":
        return namespace in PASSING or bool(PACKING.search(name))
    base = base_of(name)
    return base in STILL or base.startswith("_foreach_") or _is_view(name) or _only_copies(name)


def _is_view(name: str) -> bool:
    """Whether the result is memory of an argument, which is not written to."""
    return any(a.alias_info is not None and not a.alias_info.is_write for a in schema(name).arguments)


def _only_copies(name: str) -> bool:
    """Whether it calls the operator without `out`, and copies the result."""
    default = has(name, "CompositeExplicitAutograd") or has(name, "CompositeExplicitAutogradNonFunctional")
    return default and not has(name, "CPU") and any(a.is_out for a in schema(name).arguments)


def moves_complex(name: str) -> bool:
    """Whether an operator that stands still does not for complex numbers."""
    return name.startswith("aten::") and base_of(name) in COMPLEX_MOVES


def moves_elsewhere(name: str) -> bool:
    """Whether one that stands still on CPUs does not on other devices."""
    return name.startswith("aten::") and base_of(name) in MOVES_ELSEWHERE
