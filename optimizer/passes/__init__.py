"""Rules and passes, a folder for each topic. Importing this package registers all of them.

`GROUPS` says which rules run together to a fixpoint: the modules of each group, in the order in which rules of the same
root op are tried; within a module it is that of their definition.
"""

import importlib
import pkgutil

GROUPS: dict[str, tuple[str, ...]] = {
    "qdq": ("quantize.qdq",),
    "identity": ("cleanup.identity",),
    "sequence": ("control.sequence",),
    "shape": ("shape.constant", "shape.place", "shape.vector"),
    "logic": ("logic.known", "logic.form"),
    "rotary": ("attention.rotary",),
    "movement": (
        "movement.cancel",
        "movement.blocks",
        "movement.dilation",
        "movement.pad",
        "movement.resize",
        "movement.slice",
        "movement.transpose",
        "movement.view",
    ),
    "ones": ("movement.ones",),
    "activation": ("activation.basic", "activation.mask", "activation.exponential", "activation.swish"),
    "mean": ("reduction.mean",),
    "norm": ("norm.layer", "norm.channel", "norm.softmax"),
    "reduction": ("reduction.spelled",),
    "arithmetic": ("arithmetic.constant",),
    "matmul": ("matmul.linear", "matmul.chain", "matmul.flat", "matmul.form", "matmul.gate"),
    "attention": ("attention.spelled", "attention.join"),
    "convolution": ("convolution.absorb", "convolution.chain", "convolution.group", "convolution.input"),
    "quantized": ("quantize.layer",),
    "tiles": ("movement.tiles",),
    "pooled": ("reduction.pooled",),
    "epilogue": ("fusion.epilogue",),
    "legalize": (
        "legalize.after",
        "legalize.deform",
        "legalize.dilation",
        "legalize.exact",
        "legalize.index",
        "legalize.math",
        "legalize.neural",
        "legalize.recurrent",
        "legalize.resize",
        "legalize.shape",
        "legalize.spectral",
        "legalize.volume",
    ),
}

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
