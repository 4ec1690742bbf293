"""Runs the corpus in our engine: python -m interop.run FOLDER [RESULTS] [--match REGEXP] [--class OUTCOME]

Only cases that MNN runs right itself. RESULTS (default FOLDER/results.jsonl) gets a line for each; the table says how
many are right, wrong, refused or end in an error, by source.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from . import jobs


def run(folder: Path, results: Path, match: str = "") -> list[dict[str, Any]]:
    """An entry for each case that MNN runs right."""
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    names = [c["case"] for c in cases if c["mnn"] == "right" and re.search(match, c["case"])]
    results.unlink(missing_ok=True)
    places = [(folder / "cases" / n).absolute() for n in names]
    ended = jobs.run([sys.executable, "-m", f"{__package__}.engine_runs", str(results)], places)
    with results.open("a") as out:
        for place, why in ended.items():
            entry = {"case": f"{place.parent.name}/{place.name}", "outcome": "crash", "why": why}
            out.write(json.dumps(entry) + "\n")
    return [json.loads(line) for line in results.read_text().splitlines()]


def summary(entries: list[dict[str, Any]]) -> str:
    """Outcomes by source, and what was said how often."""
    counts = Counter((e["case"].partition("/")[0], e["outcome"]) for e in entries)
    sources = sorted({s for s, _ in counts})
    outcomes = ["right", "wrong", "refused", "error", "raised", "crash"]
    lines = [f"{'':10}" + "".join(f"{o:>9}" for o in outcomes)]
    lines += [f"{s:10}" + "".join(f"{counts[s, o]:9}" for o in outcomes) for s in sources]
    total = Counter(e["outcome"] for e in entries)
    lines.append(f"{'all':10}" + "".join(f"{total[o]:9}" for o in outcomes))
    lines.append(f"{100 * total['right'] / max(1, len(entries)):.2f} % of {len(entries)} right")
    return "\n".join(lines)


def _said(why: str) -> str:
    """A message without names and numbers: ops and reasons, where it lists them."""
    lines = [line for line in why.splitlines() if line.startswith("  - ")]
    text = "; ".join(sorted({re.sub(r"\s*'[^']*'", "", line[4:]) for line in lines})) or why.partition("\n")[0]
    return re.sub(r"\S*/model\.mnn: |'[^']*'", "", re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "_", text))[:150]


def classes(entries: list[dict[str, Any]]) -> str:
    """What is not right, by what was said, the most frequent first."""
    found: dict[str, list[str]] = {}
    for e in entries:
        if e["outcome"] != "right":
            found.setdefault(f"{e['outcome']}: {_said(e['why'])}", []).append(e["case"])
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return "\n".join(f"{len(cases):5} {text}  [{', '.join(cases[:3])}]" for text, cases in ordered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--match", default="")
    options = parser.parse_args()
    entries = run(options.folder, options.results or options.folder / "results.jsonl", options.match)
    sys.stdout.write(f"{summary(entries)}\n\n{classes(entries)}\n")


if __name__ == "__main__":
    main()
