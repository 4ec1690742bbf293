"""The configuration file of MNN's mnnquant: what its keys stand for here.

{"path": "pictures/", "format": "RGB", "mean": [127.5], "normal": [0.00784314], "width": 224, "height": 224,
 "used_image_num": 100, "feature_quantize_method": "KL", "weight_quantize_method": "MAX_ABS"}
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from minnow.options.quantize import QuantizeOptions
from minnow.schema.errors import FormatError, UsageError

_ORDERS = {"RGB": ("rgb", 3), "BGR": ("bgr", 3), "GRAY": ("rgb", 1)}
"""Formats of pictures: the order of the channels, and how many there are. Pictures have no fourth one, alpha, here."""
_METHODS = {"KL": "kl", "ADMM": "admm"}


def with_mnnquant(options: QuantizeOptions) -> QuantizeOptions:
    """The options, with the flags that the keys of a configuration file stand for, if `calibration` names one.

    Flags that are given as well count: only `--exclude` takes the layers of both.

    Raises:
        FormatError: the file cannot be read.
        UsageError: a key or value has no meaning here.
    """
    given = options.calibration
    if not isinstance(given, (str, Path)) or Path(given).suffix.lower() != ".json":
        return options
    path = Path(given)
    table = _table(path)
    taken = _Keys(table, path)
    found: dict[str, Any] = {"calibration": taken.text("path", "", lambda text: bool(text))}
    kind = taken.text("input_type", "image", ("image", "sequence").__contains__)
    number = taken.integer("used_image_num" if kind == "image" else "used_sample_num", 0, 0, 1 << 31)
    if number:
        found["calibration_limit"] = number
    preprocess = _preprocess(taken)
    if kind == "image":
        found["preprocess"] = preprocess
    found["activation_method"] = _METHODS[taken.text("feature_quantize_method", "KL", _METHODS.__contains__)]
    taken.text("weight_quantize_method", "MAX_ABS", ("MAX_ABS",).__contains__)
    taken.integer("quant_bits", 8, 8, 8)
    taken.integer("feature_clamp_value", 127, 127, 127)
    taken.integer("weight_clamp_value", 127, 127, 127)
    taken.integer("batch_size", 1, 1, 1 << 31)  # the statistics do not depend on it
    taken.flag("winogradOpt")  # of EMA, which is not taken
    taken.flag("debug")  # the report has the error of each layer in any case
    names = taken.texts("skip_quant_op_names")
    taken.finish()
    own = options.changed()
    kept = {name: value for name, value in found.items() if name == "calibration" or name not in own}
    exclude = [options.exclude] if isinstance(options.exclude, str) else list(options.exclude)
    return replace(options, **kept, exclude=(*exclude, *names))


def _preprocess(taken: _Keys) -> str:
    """The text of `--preprocess`."""
    order, channels = _ORDERS[taken.text("format", "BGR", _ORDERS.__contains__)]
    mean, normal = (taken.numbers(key, channels) for key in ("mean", "normal"))
    if 0.0 in normal:
        taken.refuse("normal", "a factor of 0 leaves nothing of a channel")
    height, width = (taken.integer(name, 0, 1, 1 << 16) for name in ("height", "width"))
    crop = [taken.number(f"center_crop_{axis}", 1.0, lambda share: 0 < share <= 1) for axis in "hw"]
    parts = [f"order={order}", f"crop={crop[0]!r},{crop[1]!r}"]
    parts.append("mean=" + (",".join(map(repr, mean)) or "0"))
    parts.append("std=" + (",".join(repr(1 / n) for n in normal) or "1"))
    if height and width:
        parts.append(f"size={height},{width}")
    return ":".join(parts)


def _table(path: Path) -> dict[str, Any]:
    hint = "it is the JSON file that MNN's mnnquant takes"
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as e:
        raise FormatError("cannot read the configuration", where=str(path), why=e.strerror or str(e)) from None
    except (ValueError, RecursionError) as e:
        raise FormatError("the configuration is invalid", where=str(path), why=str(e)[:200], hint=hint) from None
    if not isinstance(table, dict):
        raise FormatError("the configuration is invalid", where=str(path), why="it is no object", hint=hint)
    return table


class _Keys:
    """The keys of a configuration, which are taken one by one."""

    def __init__(self, table: dict[str, Any], path: Path) -> None:
        self.left, self.path = dict(table), path

    def refuse(self, key: str, why: str = "") -> None:
        hint = "docs/quantize.md lists the keys and values that are taken"
        raise UsageError(f"the configuration has '{key}', which is not taken", where=str(self.path), why=why, hint=hint)

    def _take(self, key: str, otherwise: Any, kinds: tuple[type, ...], check: Callable[[Any], bool]) -> Any:
        if key not in self.left:
            return otherwise
        value = self.left.pop(key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds) or not check(value):
            self.refuse(key, f"its value is {json.dumps(value)[:100]}")
        return value

    def text(self, key: str, otherwise: str, check: Callable[[str], bool]) -> str:
        if key == "path" and key not in self.left:
            raise UsageError("the configuration has no 'path'", where=str(self.path), hint="the folder of inputs")
        return str(self._take(key, otherwise, (str,), check))

    def number(self, key: str, otherwise: float, check: Callable[[float], bool]) -> float:
        return float(self._take(key, otherwise, (int, float), check))

    def integer(self, key: str, otherwise: int, least: int, most: int) -> int:
        return int(self._take(key, otherwise, (int, float), lambda n: least <= n <= most and n == int(n)))

    def flag(self, key: str) -> bool:
        return bool(self._take(key, False, (bool,), lambda _: True))

    def numbers(self, key: str, channels: int) -> list[float]:
        """One number for each channel, or none. More are of channels that are not there, as in mnnquant."""
        given = self._take(key, [], (list,), lambda rows: len(rows) <= 4)
        for n in given:
            if not isinstance(n, (int, float)) or isinstance(n, bool) or n != n or abs(n) == float("inf"):
                self.refuse(key, "its values are no numbers")
        if given and len(given) < channels:
            self.refuse(key, f"it has {len(given)} values, for {channels} channels")
        return [float(n) for n in given[:channels]]

    def texts(self, key: str) -> list[str]:
        given = self._take(key, [], (list,), lambda rows: all(isinstance(row, str) for row in rows))
        return [str(row) for row in given]

    def finish(self) -> None:
        """Refuses the first key that was not taken."""
        if self.left:
            self.refuse(next(iter(self.left)))
