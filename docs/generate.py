"""Writes the parts of `docs/` and of the README that come from the registries and from the tables of measurements.

python docs/generate.py            # writes
python docs/generate.py --check    # fails when a page is stale
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import man
from page import command, measurement, op, package, report, source
from page.markdown import DOCS, ROOT

sys.path.append(str(ROOT / "bench"))  # chart.py
NOTICE = "<!-- Written by docs/generate.py; edit the code it describes. -->\n"


PAGES: dict[str, Callable[[], str]] = {
    "ops.md": op.ops,
    "mnn-runtime.md": measurement.mnn_runtime,
    "onnx.md": source.onnx,
    "tflite.md": source.tflite,
    "tensorflow.md": source.tensorflow,
    "caffe.md": source.caffe,
    "torch.md": source.torch,
    "passes.md": op.passes,
    "cli.md": command.cli,
    "options.md": command.options,
    "ci-rules.md": report.ci_rules,
}

PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"measured": measurement.summary, "support": source.support},
    "docs/speed.md": {"speed": measurement.speed},
    "docs/ci-reports.md": {"kinds": report.report_kinds},
    "docs/format.md": {"op types": op.op_types},
    "docs/troubleshooting.md": {"exit codes": command.exit_codes, "environment": command.environment},
    "docs/configuration.md": {"keys": command.configuration},
    "docs/mnn.md": {"flags": command.mnn_flags},
    "docs/llm.md": {"architectures": source.architectures, "rotary": source.rotary},
    "docs/express.md": {"names": package.express, "settings": package.session_settings},
}
"""Parts of pages that are written by hand."""


def _filled(page: str, parts: dict[str, Callable[[], str]]) -> str:
    """A page written by hand whose marked parts are made anew."""
    text = (ROOT / page).read_text()
    for name, part in parts.items():
        begin, end = f"<!-- {name}: written by docs/generate.py -->", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{part()}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> int:
    os.environ["COLUMNS"] = "100"
    stale = []
    pages = {DOCS / name: NOTICE + page() for name, page in PAGES.items()}
    pages[DOCS / "speed.svg"] = measurement.chart()
    pages[DOCS / "ci-report.schema.json"] = report.ci_report_schema()
    pages |= {ROOT / page: _filled(page, parts) for page, parts in PARTS.items()}
    pages |= {DOCS / "man" / name: text for name, text in man.pages().items()}
    for path in set((DOCS / "man").glob("*")) - pages.keys():
        stale.append(path.name)  # of a command that is no more
        if "--check" not in sys.argv:
            path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    if "--check" in sys.argv and stale:
        print(f"stale pages in docs/: {', '.join(stale)}; `./dev docs` writes them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
