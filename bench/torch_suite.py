"""PyTorch's samples of its operators, through torch.export and TorchScript: what passes, is wrong, or crashes.

    PYTHON bench/torch_suite.py BACKEND [--samples N] [--json FILE] [--match REGEXP] [--list]

BACKEND is minnow or openvino; PYTHON has to have it, and torch. Cases run in a process apart, which they may end. One
passes if all its samples (at most N of an operator, 6 by default) are within 1e-4 of the largest value of eager
PyTorch. Operators with random or complex results, and those that PyTorch itself cannot export in that way, are left
out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "suites"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "converter" / "torch"))
from suite import Outcome, options, run


def minnow(name: str, road: str, most: int) -> Outcome:
    from torch_suite.judge import attempt

    return attempt(name, road, most)


def openvino(name: str, road: str, most: int) -> Outcome:
    import openvino as ov
    import torch
    from tf_suite.judge import difference
    from torch_oracle import flat
    from torch_suite.case import samples
    from torch_suite.judge import ORDER, TOLERANCE, attempt_sample

    def one(sample: Any) -> Outcome:
        outcome, said = attempt_sample(sample, road)
        if outcome == "not made":
            return outcome, said
        want = flat(sample(*sample.given()))
        try:
            source = (
                torch.export.export(sample, tuple(sample.given()))
                if road == "export"
                else torch.jit.trace(sample, tuple(sample.given()), check_trace=False)
            )
            model = ov.convert_model(source, example_input=tuple(sample.given()))
            config = {"INFERENCE_PRECISION_HINT": "f32"}
            results = ov.compile_model(model, "CPU", config)([x.numpy() for x in sample.given()])
            got = [results[i] for i in range(len(want))]
        except Exception as e:  # noqa: BLE001
            return "refused", f"{type(e).__name__}: {(str(e).splitlines() or [''])[-1][:200]}"
        texts = [t for g, w in zip(got, want, strict=True) if (t := difference(g.astype(w.dtype), w, TOLERANCE))]
        return ("wrong", texts[0]) if texts else ("pass", "")

    outcomes = [one(s) for s in samples(name, most)]
    made = [o for o in outcomes if o[0] != "not made"]
    return max(made or outcomes or [("not made", "no samples")], key=lambda o: ORDER.index(o[0]))


BACKENDS = {"minnow": minnow, "openvino": openvino}


def main() -> None:
    parser = options(__doc__, BACKENDS)
    parser.add_argument("--samples", type=int, default=6, help="most samples of an operator")
    asked = parser.parse_args()
    from torch_suite.case import names

    chosen = [n for n in names() if re.search(asked.match, n)]

    def attempt(i: int) -> Outcome:
        name, _, road = chosen[i].rpartition(":")
        return BACKENDS[asked.backend](name, road, asked.samples)

    run(attempt, [(n, n.rpartition(":")[2]) for n in chosen], asked, left_out="not made")


if __name__ == "__main__":
    main()
