"""The configuration file described for editors (JSON schema) and for readers (tables)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minnow.workflow.config.keys import BUDGETS, EXCLUDE, FILE, LATENCY, LIMITS, MODEL, VARIANT, option_keys
from minnow.workflow.config.kind import Table

TABLES = (FILE, MODEL, VARIANT, BUDGETS, LATENCY, LIMITS, EXCLUDE)


def json_schema() -> dict[str, Any]:
    """The JSON schema of `minnow.toml`, draft 2020-12."""
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Configuration of mnnconvert ci"}
    return {**about, **FILE.schema()}


def key_tables() -> Iterator[tuple[str, str, list[list[str]]]]:
    """Heading, text and rows (key, value, default, meaning) for each table of the file, and for the options."""
    for table in TABLES:
        own = {n: k for n, k in table.keys().items() if n not in option_keys()}
        rows = [[f"`{n}`", k.kind.text, "required" if k.required else k.default, k.doc] for n, k in own.items()]
        yield f"`{_heading(table)}`" if table.name else "Top", table.doc, rows
    rows = [[f"`{n}`", k.kind.text, k.default and f"`{k.default}`", k.doc] for n, k in option_keys().items()]
    yield "Options", "For `[defaults]`, `[variants.NAME]` and `[models.NAME]`.", rows


def _heading(table: Table) -> str:
    return {"exclude": "[[exclude]]", "latency": "budgets.latency"}.get(table.name, f"[{table.name}]")
