"""mnnconvert llm bench"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minnow.cli._option import FORMAT, Command, emit, options, table
from minnow.cli._terminal import spinner
from minnow.cli.llm._folder import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minnow.options.generate import BenchLanguageCommand


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=FOLDER)
@options("generate.BenchLanguageCommand")
@FORMAT
def command(folder: str, options: BenchLanguageCommand, format_: str) -> None:
    """Measure how fast a language model reads and writes.

    `pp512` is a prompt of 512 tokens, `tg128` an answer of 128 tokens; `x8` of 8 answers at a time, whose tokens are
    added up.
    """
    from minnow.llm.benchmark import benchmark

    sizes = {name: _numbers(name, getattr(options, name)) for name in ("prefill", "decode", "batch")}
    with spinner() as progress:
        found = benchmark(folder, options, **sizes, progress=progress)
    emit(found, format_, lambda: _text(found.as_dict()))


def _numbers(name: str, texts: Sequence[str]) -> list[int]:
    from minnow.schema.errors import UsageError

    if not all(text.isascii() and text.isdigit() and 0 < int(text) < 1 << 20 for text in texts):
        raise UsageError(f"--{name} is {','.join(texts)!r}", hint="give whole numbers, separated by commas")
    return [int(text) for text in texts]


def _text(found: dict[str, Any]) -> str:
    header = ["model", "size MB", "device", "threads", "test", "tokens/s"]
    rows = [
        [found["model"], f"{found['bytes'] / 1e6:.1f}", found["device"], found["threads"], row["test"],
         f"{row['rate']:.2f} ± {row['deviation']:.2f}"]
        for row in found["tests"]
    ]  # fmt: skip
    end = f"load {1e3 * found['load_s']:.0f} ms, peak memory {found['peak_bytes'] / 1e6:.0f} MB"
    return f"{table(header, rows, right=3)}\n\n{end}"
