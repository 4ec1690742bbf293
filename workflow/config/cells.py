"""Finds the configuration file, and makes the cells of it."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from minnow.schema.errors import FormatError, UsageError
from minnow.workflow.cell import Budget, Cell, Limits, Place
from minnow.workflow.config.keys import FILE, option_keys
from minnow.workflow.config.kind import At, List, Text, unknown
from minnow.workflow.config.line import Lines, parsed
from minnow.workflow.metric import METRICS

NAME, PROJECT = "minnow.toml", "pyproject.toml"
_TABLE = ("tool", "minnow")
_PATTERN = frozenset("*?[")
_WRITTEN = (".weight", ".packed", ".receipt.json")
"""Files that conversions write beside their outputs; no pattern of sources means them."""
_NO_VARIANT = "default"


@dataclass(frozen=True)
class Config:
    """A configuration.

    Attributes:
        path: of the file.
        cells: of all models in their variants, in the order of the file.
        store: folder or URL of the store; "" for none.
    """

    path: Path
    cells: tuple[Cell, ...]
    store: str = ""

    def only(self, patterns: Sequence[str]) -> tuple[Cell, ...]:
        """The cells whose model, or "model/variant", is one of the names or fits one of the patterns; without any: all.

        Raises:
            UsageError: one of them fits nothing.
        """
        found: dict[str, Cell] = {}
        for pattern in patterns:
            own = [c for c in self.cells if any(fnmatch.fnmatchcase(n, pattern) for n in (c.name, c.model))]
            if not own:
                at = At(str(self.path), Lines(""))
                names = dict.fromkeys(n for c in self.cells for n in (c.name, c.model))
                try:
                    unknown(pattern, names, at, "model")
                except UsageError as e:
                    raise UsageError(e.message, where=str(self.path), hint=e.hint) from None
            found |= {c.name: c for c in own}
        return tuple(c for c in self.cells if c.name in found) if patterns else self.cells


def find_config(folder: Path) -> Path:
    """The configuration of a folder: `minnow.toml`, or `pyproject.toml` with a table `tool.minnow`, in it or above it.

    Raises:
        UsageError: there is none.
    """
    for place in (folder, *folder.parents):
        if (own := place / NAME).is_file():
            return own
        project = place / PROJECT
        if project.is_file():
            try:
                text = project.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if "tool" in text and "minnow" in parsed(text, str(project)).get("tool", {}):
                return project
    raise UsageError(
        "there is no configuration",
        where=str(folder),
        why=f"neither {NAME}, nor {PROJECT} with a table [tool.minnow], in this folder or above it",
        hint="write one, or name one with `--config FILE`",
    )


def load_config(path: Path | None = None) -> Config:
    """Reads a configuration; by default that of the current folder.

    Raises:
        UsageError: there is none, or it is wrong; with file and line. FormatError: it cannot be read.
    """
    path = find_config(Path.cwd()) if path is None else path
    path = Path(os.path.relpath(path))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise FormatError("cannot read the configuration", where=str(path), why=e.strerror or str(e)) from None
    except UnicodeDecodeError as e:
        raise UsageError("the configuration is not UTF-8", where=str(path), why=str(e)) from None
    values = parsed(text, str(path))
    at = At(str(path), Lines(text))
    if path.name == PROJECT:
        for key in _TABLE:
            values = values.get(key, {})
        at = At(at.file, at.lines, _TABLE, len(_TABLE))
    expansion = _Expansion(path, FILE.read(values, at), at)
    return Config(path, expansion.cells(), expansion.store())


class _Expansion:
    """The cells of a configuration that has been read."""

    def __init__(self, path: Path, values: Mapping[str, Any], at: At) -> None:
        self._path, self._values, self._at = path, values, at
        self._variants: Mapping[str, Any] = values.get("variants", {})

    def cells(self) -> tuple[Cell, ...]:
        cells = [cell for name in self._values["models"] for cell in self._of_model(name)]
        self._check_unique(cells)
        return tuple(self._excluded(cells))

    def store(self) -> str:
        """The store, relative to the current folder."""
        return self._here(self._values["store"]) if self._values.get("store") else ""

    def _of_model(self, name: str) -> Iterator[Cell]:
        table, at = self._values["models"][name], self._at / "models" / name
        chosen: Mapping[str, Any] = table.get("variants", {key: {} for key in self._variants})
        for variant in chosen:
            if variant not in self._variants:
                unknown(variant, self._variants, at / "variants" / variant, "variant")
        for model, source in self._sources(name, table["source"], at / "source"):
            for variant in chosen or {"": {}}:
                own = chosen.get(variant, {}) if chosen else {}
                layers = [
                    {**self._values.get("defaults", {}), "budgets": self._values.get("budgets", {}),
                     "limits": self._values.get("limits", {})},
                    self._variants.get(variant, {}), table, own,
                ]  # fmt: skip
                yield self._cell(model, variant, source, layers, at)

    def _cell(self, model: str, variant: str, source: str, layers: Sequence[Mapping[str, Any]], at: At) -> Cell:
        options = {n: self._option(n, v) for layer in layers for n, v in layer.items() if n in option_keys()}
        budgets = {n: b for layer in layers for n, b in layer.get("budgets", {}).items()}
        limits = {n: limit for layer in layers for n, limit in layer.get("limits", {}).items()}
        parts = self._parts(model, variant, source)
        output = self._output(parts, layers, at)
        parts["output"] = os.path.relpath(output, self._path.parent)
        cell = Cell(
            model=model,
            variant=variant,
            source=source,
            output=output,
            options=options,
            budgets=tuple(self._budget(n, budgets[n], parts, at / "budgets" / n) for n in METRICS if n in budgets),
            limits=Limits(**limits),
            place=Place(self._path.name, at.line),
        )
        from minnow.workflow.convert_cell import options_of

        try:
            options_of(cell)
        except UsageError as e:
            at.error(f"{cell.name}: {e.message}", e.hint)
        return cell

    def _option(self, name: str, value: Any) -> Any:
        """The value of an option; paths become relative to the current folder."""
        kind = option_keys()[name].kind
        if isinstance(kind, Text) and kind.path:
            return self._here(value) if value else value
        if isinstance(kind, List) and isinstance(kind.of, Text) and kind.of.path:
            return [self._here(one) for one in value]
        return value

    def _budget(self, metric: str, value: Any, parts: Mapping[str, str], at: At) -> Budget:
        if METRICS[metric].measured == "timed":
            if "baseline" not in value and "python" not in value:
                at.error("the budget has neither 'baseline' nor 'python'", "add a file, a runtime, or another build")
            baseline = _filled(value.get("baseline", ""), parts, at / "baseline")
            if baseline.endswith(".mnn") or "/" in baseline:
                baseline = self._here(baseline)
            known = {n: value[n] for n in ("retries", "threads") if n in value}
            python = self._here(value["python"]) if "python" in value else ""
            return Budget(metric, value["ratio"], baseline, python=python, **known)
        limit, relative = value if isinstance(value, tuple) else (value, False)
        return Budget(metric, limit, relative=relative)

    def _here(self, path: str) -> str:
        """A path of the configuration, relative to the current folder; URLs and absolute paths stay as they are."""
        if "://" in path or os.path.isabs(path):
            return path
        return os.path.normpath(os.path.join(self._path.parent, path))

    def _sources(self, name: str, source: str, at: At) -> Iterator[tuple[str, str]]:
        """Names and sources of the models of one table: several of a pattern, sorted."""
        if not _PATTERN & set(source) or os.path.exists(self._here(source)):
            yield name, self._here(source)
            return
        found = sorted(_urls(source, at) if "://" in source else glob.glob(self._here(source), recursive=True))
        found = [f for f in found if not f.endswith(_WRITTEN) and (not f.endswith(".mnn") or source.endswith(".mnn"))]
        if not found:
            at.error(f"no file fits the pattern {source!r}", "the pattern is relative to the configuration file")
        models: dict[str, str] = {}
        for path in found:
            model = f"{name}.{_stem(path)}"
            if model in models:
                at.error(f"{models[model]} and {path} are both called {model}", "use a table for each of the folders")
            models[model] = path
        yield from models.items()

    def _parts(self, model: str, variant: str, source: str) -> dict[str, str]:
        """What the names in braces of a pattern for outputs stand for."""
        folder = "." if "://" in source else os.path.relpath(os.path.dirname(source) or ".", self._path.parent)
        return {"name": model, "stem": _stem(source), "folder": folder, "variant": variant or _NO_VARIANT}

    def _output(self, parts: Mapping[str, str], layers: Sequence[Mapping[str, Any]], at: At) -> str:
        suffix = "" if parts["variant"] == _NO_VARIANT else "-{variant}"
        own = next((layer["output"] for layer in reversed(layers[2:]) if "output" in layer), None)
        key = at / "output" if own is not None else self._at / "output"
        text = _filled(own or self._values.get("output", "{folder}/{stem}" + suffix + ".mnn"), parts, key)
        if text.endswith("/") or not text:
            key.error(f"the output is {text!r}, a folder", "give the name of a file")
        return self._here(text)

    def _check_unique(self, cells: Sequence[Cell]) -> None:
        seen: dict[str, Cell] = {}
        for cell in cells:
            path = os.path.realpath(cell.output)
            if other := seen.get(path):
                where = f"{self._path}:{cell.place.line}"
                raise UsageError(
                    f"{other.name} and {cell.name} have the same output {cell.output}",
                    where=where,
                    hint="use {name} and {variant} in the output",
                )
            seen[path] = cell
        for cell in cells:
            if other := seen.get(os.path.realpath(cell.source)):
                raise UsageError(
                    f"the output of {other.name} is the source of {cell.name}", where=f"{self._path}:{cell.place.line}"
                )

    def _excluded(self, cells: Sequence[Cell]) -> list[Cell]:
        found = list(cells)
        for n, table in enumerate(self._values.get("exclude", ())):
            at = self._at / "exclude" / n
            model, variant = table.get("model", "*"), table.get("variant", "*")
            if not {"model", "variant"} & table.keys():
                at.error("the exclusion names neither a model nor a variant")
            fits = [fnmatch.fnmatchcase(c.model, model) and fnmatch.fnmatchcase(c.variant, variant) for c in cells]
            if not any(fits):
                at.error(f"the exclusion of {model}/{variant} fits no model", "correct or remove it")
            found = [replace(c, excluded=table["reason"]) if fit else c for c, fit in zip(found, fits, strict=True)]
        return found


def _filled(pattern: str, parts: Mapping[str, str], at: At) -> str:
    """A pattern with its names in braces replaced."""
    try:
        return pattern.format_map(parts)
    except (KeyError, ValueError, IndexError, AttributeError) as e:
        at.error(f"{at.key} is {pattern!r}, which has an unknown name in braces: {e}", f"known: {', '.join(parts)}")


def _stem(source: str) -> str:
    return PurePosixPath(source.rstrip("/")).stem


def _urls(pattern: str, at: At) -> list[str]:
    """The URLs that fit a pattern."""
    from minnow.workflow.fetch import matching

    try:
        return matching(pattern)
    except UsageError as e:
        at.error(e.message, e.hint)
