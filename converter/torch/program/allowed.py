"""The operators that a program may name if PyTorch is to load it: those that are converted, and some harmless ones.

A program may name any operator of any library that is loaded, and some write files. So nothing is loaded that names
another: what has a mapping computes with tensors and numbers, and nothing else.
"""

from __future__ import annotations

from functools import cache

from minnow.converter.torch.frontend import frontend

HARMLESS = frozenset({
    # questions about a tensor or a type whose answers decide branches that conversion leaves out
    "aten::device", "aten::element_size", "aten::get_device", "aten::is_contiguous", "aten::is_leaf",
    "aten::is_nonzero",
    "aten::is_pinned", "aten::is_same_size", "aten::is_signed", "aten::promote_types", "aten::result_type",
    "aten::storage_offset", "aten::stride", "aten::can_cast", "aten::hash", "aten::get_autocast_dtype",
    "prim::name", "prim::nbytes", "prim::itemsize", "prim::is_cpu", "prim::is_sparse_csr", "prim::is_ipu",
    "prim::is_mtia", "prim::is_maia", "prim::grad", "prim::tolist", "prim::shape",
    # modes, and what training needs
    "aten::set_grad_enabled", "aten::seed", "aten::initial_seed", "aten::broadcast_shapes", "aten::_shape_as_tensor",
    "aten::_no_grad_fill_", "aten::_no_grad_normal_", "aten::_no_grad_uniform_", "aten::_no_grad_zero_",
    "profiler::_record_function_enter", "profiler::_record_function_enter_new", "profiler::_record_function_exit",
    # how quantized weights are packed when a module is made, and unpacked when it is saved
    *(f"quantized::{layer}_{how}" for how in ("prepack", "unpack") for layer in (
        "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "embedding_bag", "linear_fp16", "embedding_bag_byte", "embedding_bag_4bit", "embedding_bag_2bit")),
    "quantized::linear_prepack_fp16", "quantized::linear_unpack_fp16", "quantized::make_quantized_cell_params",
    "quantized::make_quantized_cell_params_dynamic", "quantized::make_quantized_cell_params_fp16",
    "aten::q_per_channel_scales", "aten::q_per_channel_zero_points", "aten::q_per_channel_axis", "aten::qscheme",
    "aten::_choose_qparams_per_tensor",
})  # fmt: skip
"""Operators without a mapping that programs name beside those that are converted. None knows of files."""

CLASSES = ("quantized.LinearPackedParamsBase", "quantized.Conv2dPackedParamsBase", "quantized.Conv3dPackedParamsBase",
           "quantized.EmbeddingPackedParamsBase", "rnn.CellParamsBase")  # fmt: skip
"""The classes of PyTorch's own, not written in the file, whose objects may be in it: packed weights."""


@cache
def _named() -> frozenset[str]:
    """Refused operators are allowed, too: they are harmless, and their error should give the reason."""
    return frozenset(name.partition(".")[0] for name in (*frontend.mappings, *frontend.refusals))


def is_allowed(operator: str) -> bool:
    """Whether a program may name an operator: "aten::add", "aten::add_", "aten::max.dim"."""
    name = operator.partition(".")[0]
    in_place = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return name in HARMLESS or name in _named() or in_place in _named()
