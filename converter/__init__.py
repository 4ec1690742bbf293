"""Foreign file -> IR. `read(path)` finds the format by content and gives a Model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.converter.file.door import guarded
from minnow.converter.formats import check_readable, find_format, is_mnn
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from minnow.schema.ir import Model

__all__ = ["read"]


def read(path: str | Path, framework: str | None = None, **options: Any) -> Model:
    """Reads a model file, also one that was written by us.

    Args:
        path: the file.
        framework: name of the format, or "mnn"; None finds it by content, ".mnn" by the suffix.
        options: `op_plugins`, see `op_plugin.load`; for the frontend: `inputs`, what is said of the inputs, in any form
            that `given.Inputs` takes; `batch`, a number for the first dynamic dimension of every input; and those in
            `base.OPTIONS`, where the format has a use for them.

    Raises:
        FormatError, ModelError, UnsupportedError: the file cannot be read, is invalid, or holds unknown operators.
        UsageError: there is no format of that name.
    """
    path = Path(path)
    if plugins := options.pop("op_plugins", ()):
        from minnow.converter import op_plugin

        op_plugin.load(plugins)
    if is_mnn(path, framework):
        return _read_mnn(path, **options)
    format = find_format(path, framework)

    from minnow.schema.collector import SeldomCollected

    with SeldomCollected():
        return format.frontend().read(path, **options)


_HINTS = {"dequantize": "make it anew of a float model, or of a quantized TFLite model with `--dequantize`"}
"""What to do instead of giving an option with a .mnn file, where that is not the same for all."""


def _read_mnn(path: Path, **options: Any) -> Model:
    check_readable(path)

    from minnow.converter.inputs.given import Inputs

    inputs = Inputs.of(options.pop("inputs", None))
    if given := sorted(
        [name for name, value in options.items() if value and name != "trust"] + ["inputs"] * inputs.say_more
    ):
        raise UsageError(
            f"a .mnn file is read as it is: it does not take {', '.join(given)}",
            where=str(path),
            hint=_HINTS.get(given[0], "give these options where the source model is converted"),
        )

    from minnow.converter.inputs.dimension import fix_inputs
    from minnow.schema.collector import SeldomCollected
    from minnow.schema.limit import file_bytes
    from minnow.schema.mnn import read_file
    from minnow.schema.registry.constant import check_constants

    with SeldomCollected(), guarded(path):
        model = read_file(path)
        check_constants(model, file_bytes(path))
    fix_inputs(dict(model.user_inputs), inputs)
    return model
