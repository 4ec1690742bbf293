"""Operators that are deliberately unsupported, and why."""

from minnow.converter.tflite.frontend import frontend as tflite

tflite.refuse(
    "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE",
    why="lookup tables with text or other keys are not converted",
    hint="do the lookup outside of the model, or use EMBEDDING_LOOKUP or GATHER",
)  # fmt: skip
tflite.refuse(
    "LSH_PROJECTION", "SKIP_GRAM", "EMBEDDING_LOOKUP_SPARSE", "CONCAT_EMBEDDINGS",
    why="it is an operator for text that current converters do not write",
)  # fmt: skip
tflite.refuse(
    "CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES",
    why="it stands for code outside of the file",
    hint="export the model without delegates",
)  # fmt: skip
tflite.refuse("STABLEHLO_CUSTOM_CALL", why="it stands for code outside of the file")
tflite.refuse(
    *(f"STABLEHLO_{n}" for n in ("CONVOLUTION", "DOT_GENERAL", "DYNAMIC_UPDATE_SLICE", "GATHER", "REDUCE",
                                 "REDUCE_WINDOW", "RNG_BIT_GENERATOR", "SCATTER", "SORT", "WHILE")),
    why="current converters do not write it for inference",
    hint="convert the model to TFLite's own operators",
)  # fmt: skip
