"""Contrib operators that are deliberately unsupported."""

from __future__ import annotations

from minnow.converter.onnx.contrib.domain import DOMAIN
from minnow.converter.onnx.frontend import frontend as onnx


def _refuse(*names: str, why: str, hint: str = "") -> None:
    onnx.refuse(*(f"{DOMAIN}::{n}" for n in names), why=why, hint=hint)


_refuse(
    *("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"),
    why="it searches for the best text, with the whole decoder as a graph inside of one operator",
    hint="export the decoder by itself, and run the search outside of the model",
)
_refuse(
    "Tokenizer",
    why="the engine has no tensors of strings",
    hint="turn text into tokens before the model",
)
_refuse("MurmurHash3", why="hashes of text are not computed", hint="hash the features before the model")
_refuse("SparseToDenseMatMul", why="the engine has no sparse tensors", hint="store the matrix as a dense one")
_refuse(
    *("BifurcationDetector", "MaxpoolWithMask", "UnfoldTensor", "DynamicTimeWarping"),
    why="onnxruntime has it for the needs of a single model",
)
_refuse(
    *("MoE", "QMoE"),
    why="mixtures of experts are not converted",
    hint="export the experts as separate matrix products: the model has them before onnxruntime optimizes it",
)
_refuse(
    *("RemovePadding", "RestorePadding", "PackedAttention", "PackedMultiHeadAttention", "PagedAttention"),
    *("LongformerAttention", "DecoderAttention", "DecoderMaskedSelfAttention", "SparseAttention"),
    *("RelativePositionBias", "GemmFloat8"),
    why="onnxruntime writes it for accelerators only",
    hint="export without optimizations for CUDA, or optimize for the CPU",
)
_refuse(
    *("EPContext", "Snpe"),
    why="it holds a program compiled for another engine",
    hint="convert the model it was compiled from",
)
_refuse(
    "*",
    why="it is one of onnxruntime's own operators, which Minnow has no mapping for",
    hint="export without onnxruntime's optimizations, or with those of level 1 only",
)
onnx.refuse(
    *("com.microsoft.nchwc::*", "com.ms.internal.nhwc::*"),
    why="onnxruntime has laid the weights out for the processor that it ran on, and does not write down how",
    hint="optimize with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL",
)
