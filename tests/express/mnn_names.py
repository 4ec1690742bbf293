"""The public names of MNN 3.6.1's Python package, as `dir()` lists them there."""

from __future__ import annotations

EXPR = """
AVEPOOL BILINEAR Backend CAFFE CONSTANT CPU CUDA HIAI High Interp_Method Low Low_BF16 MAXPOOL METAL MemoryMode NC4HW4
NCHW NEAREST NHWC Normal OPENCL OPENGL PadValue_Mode Padding_Mode Pooling_Mode PowerMode PrecisionMode REFLECT SAME
SYMMETRIC TRT VALID VULKAN Var abs acos acosh add argmax argmin asin asinh atan atan2 atanh avg_pool batch_to_space_nd
bias_add bitwise_and bitwise_or bitwise_xor broadcast_to cast ceil channel_shuffle clone concat const conv2d
conv2d_transpose convert cos cosh crop crop_and_resize cumprod cumsum data_format depth_to_space dequant
detection_post_process divide double dtype eltwise_max eltwise_prod eltwise_sub eltwise_sum elu equal erf erfc erfinv
exp expand_dims expm1 fill float floor floordiv floormod gather gather_nd gc gelu get_inputs_and_outputs greater
greater_equal histogram int int64 int8 jsonop lazy_eval less less_equal load_as_dict load_as_list log log1p logical_or
matmul matrix_band_part max_pool maximum minimum mod moments multiply negative nms normalize not_equal one_hot pad
placeholder pow prelu quant randomuniform range rank raster reciprocal reduce_all reduce_any reduce_max reduce_mean
reduce_min reduce_prod reduce_sum relu relu6 reshape resize reverse reverse_sequence roi_align roi_pooling round rsqrt
save scalar scale scatter_nd select selu set_global_executor_config set_lazy_mode set_thread_number setdiff1d shape
sigmoid sign sin sinh size slice softmax softplus softsign sort space_to_batch_nd space_to_depth split sqrt square
squared_difference squeeze stack strided_slice subtract svd tan tanh tile transpose uint8 unravel_index unsqueeze
unstack where zeros_like
"""

NUMPY = """
abs absolute add all amax amin any append arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
argpartition argsort argwhere around array array_equal array_equiv array_split asanyarray asarray asarray_chkfinite
ascontiguousarray asfarray asfortranarray asmatrix asscalar atleast_1d atleast_2d atleast_3d average base_repr
binary_repr bincount bitwise_and bitwise_or bitwise_xor block bmat broadcast broadcast_arrays broadcast_to cbrt ceil
choose clip column_stack compress concatenate convolve copy copysign copyto corrcoef correlate cos cosh count_nonzero
cov cross cumprod cumsum deg2rad degrees delete diag diag_indices diag_indices_from diagflat diagonal diff digitize
divide divmod dot dsplit dstack ediff1d empty empty_like equal exp exp2 expand_dims expm1 extract eye fabs fill
fill_diagonal fix flatiter flatnonzero flip fliplr flipud float32 float64 float_power floor floor_divide fmax fmin
fmod frexp frombuffer fromfile fromfunction fromiter fromstring full full_like gcd geomspace gradient greater
greater_equal heaviside histogram histogram2d histogram_bin_edges histogramdd hsplit hstack hypot i0 identity indices
inf inner insert int32 int64 interp invert ix_ lcm ldexp left_shift less less_equal lexsort linspace loadtxt log log10
log1p log2 logaddexp logaddexp2 logspace mask_indices mat matmul matrix max maximum mean median meshgrid min minimum
mod modf moveaxis msort multiply nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin
nanpercentile nanprod nanquantile nanstd nansum nanvar ndenumerate ndindex nditer negative nested_iters newaxis
nextafter nonzero not_equal ones ones_like outer packbits pad partition percentile pi place positive power prod ptp
put put_along_axis putmask quantile rad2deg radians ravel ravel_multi_index real_if_close reciprocal remainder repeat
repmat require reshape resize right_shift rint roll rollaxis rot90 round round_ row_stack searchsorted select shape
sign signbit sin sinc sinh sort sort_complex spacing split sqrt square squeeze stack std subtract sum swapaxes take
take_along_axis tan tanh tensordot tile transpose trapz tri tril tril_indices tril_indices_from trim_zeros triu
triu_indices triu_indices_from true_divide trunc uint8 unique unpackbits unravel_index unwrap vander var vdot vsplit
vstack where zeros zeros_like
"""

PARTS = {
    "numpy.linalg": "norm solve svd",
    "numpy.random": "rand randint randn random",
    "nn.loss": "cross_entropy hinge kl mae mse",
    "optim": "ADAM Grad L1 L1L2 L2 Optimizer Regularization_Method SGD",
    "data": "DataLoader Dataset",
}

VAR = """
all any argmax argmin argpartition argsort astype clip close copy copy_from copy_to_device_ptr data_format dot dtype
fill fix_as_const fix_as_placeholder fix_as_trainable flatten inputs item max mean min name ndim nonzero op_type prod
ptp ptr ravel read read_as_tuple reorder repeat replace reshape resize round searchsorted set_device_ptr set_inputs
set_order shape size sort squeeze std sum swapaxes sync transpose valid var write
"""
