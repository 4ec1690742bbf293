"""Operators that are deliberately unsupported: why, and what to do instead."""

from __future__ import annotations

from minnow.converter.tensorflow.frontend import frontend as tf

_CUT = "cut the model where its input has become numbers: `--inputs NAME`"

tf.refuse(
    "AsString", "DecodeBase64", "EncodeBase64", "RegexFullMatch", "RegexReplace", "StaticRegexFullMatch",
    "StaticRegexReplace", "StringFormat", "StringJoin", "StringLength", "StringLower", "StringNGrams", "StringSplit",
    "StringSplitV2", "StringStrip", "StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong",
    "StringToNumber", "StringUpper", "Substr", "ReduceJoin", "UnicodeDecode", "UnicodeDecodeWithOffsets",
    "UnicodeEncode", "UnicodeTranscode", "UnsortedSegmentJoin", "DecodeCSV", "DecodeJSONExample",
    why="the engine has no tensors of strings",
    hint=_CUT,
)  # fmt: skip

tf.refuse(
    "DecodeImage", "DecodeJpeg", "DecodeAndCropJpeg", "DecodePng", "DecodeBmp", "DecodeGif", "DecodeWav", "DecodeRaw",
    "DecodePaddedRaw", "DecodeCompressed", "EncodeJpeg", "EncodePng", "EncodeWav", "ReadFile", "WriteFile",
    "ParseExample", "ParseExampleV2", "ParseSingleExample", "ParseSequenceExample", "ParseTensor", "SerializeTensor",
    why="reading files is up to the program that runs the model",
    hint=_CUT,
)  # fmt: skip

tf.refuse(
    "IteratorGetNext", "IteratorV2", "OneShotIterator", "MakeIterator", "FIFOQueue", "FIFOQueueV2",
    "PaddingFIFOQueueV2", "QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "RandomShuffleQueueV2",
    "ReaderReadV2", "TensorSliceDataset", "BatchDatasetV2", "MapDataset", "PrefetchDataset",
    why="it feeds data to a model in training",
    hint=_CUT,
)  # fmt: skip

tf.refuse(
    "HashTable", "HashTableV2", "LookupTableFind", "LookupTableFindV2", "LookupTableImportV2", "LookupTableSizeV2",
    "MutableHashTableV2", "InitializeTableV2", "InitializeTableFromTextFileV2",
    why="the engine has no lookup tables for text",
    hint=_CUT,
)  # fmt: skip

tf.refuse(
    "ApplyGradientDescent", "ApplyMomentum", "ApplyAdam", "ApplyAdagrad", "ApplyRMSProp", "ApplyFtrl",
    "ResourceApplyAdam", "ResourceApplyGradientDescent", "ResourceApplyMomentum", "ResourceApplyKerasMomentum",
    "ResourceApplyRMSProp", "ResourceApplyAdagrad", "SparseApplyAdagrad", "Conv2DBackpropFilter",
    "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter", "MaxPoolGrad", "AvgPoolGrad",
    "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3",
    "LRNGrad", "ResizeBilinearGrad", "ResizeNearestNeighborGrad", "StridedSliceGrad",
    "MirrorPadGrad", "BlockLSTMGrad", "BlockLSTMGradV2", "LSTMBlockCellGrad", "GRUBlockCellGrad", "CudnnRNNBackprop",
    "CudnnRNNBackpropV2", "CudnnRNNBackpropV3", "SymbolicGradient", "NegTrain",
    "CTCLoss", "CTCLossV2", "SaveV2", "RestoreV2", "MergeV2Checkpoints",
    why="it is for training only",
    hint="cut the model before it: `--outputs NAME`",
)  # fmt: skip

tf.refuse(
    "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "CudnnRNNParamsToCanonical", "CudnnRNNCanonicalToParams",
    why="its weights are in a vendor-specific format (cuDNN)",
    hint="save the model on a machine without a GPU: Keras then writes a loop",
)  # fmt: skip

tf.refuse("PyFunc", "PyFuncStateless", "EagerPyFunc", why="it calls a Python program that the file does not hold",
          hint="write it in TensorFlow's operators, or cut the model there")  # fmt: skip

tf.refuse("CollectiveReduce", "CollectiveGather", "_Send", "_Recv", "_HostSend", "_HostRecv", "NcclAllReduce",
          why="it communicates with other machines", hint="export the model for inference on one machine")  # fmt: skip

tf.refuse("Svd", "SelfAdjointEigV2", "Eig", "Qr", "Lu", "Cholesky", "MatrixExponential", "MatrixLogarithm",
          "MatrixSquareRoot", "BatchCholesky", "BatchSvd", why="the engine does not decompose matrices")  # fmt: skip

tf.refuse("Dense", "CustomQuantize", "CustomDequantize",
          why="TensorFlow has no operator of that name: it is a custom one")  # fmt: skip

tf.refuse("Igamma", "Igammac", "Zeta", "Polygamma", "Betainc", why="the engine has no such special function")
