"""Operators that are not converted on purpose, and why."""

from minnow.converter.tflite.frontend import frontend as tflite

tflite.refuse(
    "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE",
    why="tables are looked up by text or by keys of the run",
    hint="put the lookup in front of the model, or use EMBEDDING_LOOKUP or GATHER",
)  # fmt: skip
tflite.refuse(
    "LSH_PROJECTION", "SKIP_GRAM", "EMBEDDING_LOOKUP_SPARSE", "CONCAT_EMBEDDINGS",
    why="an operator for text that no file of today's converters holds",
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
    why="no file of today's converters holds it for inference",
    hint="convert to TFLite's own operators",
)  # fmt: skip
