"""Runs the files of cases in MNN's runtime and in Minnow's engine.

python -m mnn_suite.sweep [SUITE...]   # from tests/, with PYTHONPATH=.:suites:oracles:converter/torch

Prints what is neither right nor listed, and writes the counts to docs/mnn_runtime.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
from not_passing import read as read_list
from tf_suite.judge import difference

import minnow
from minnow.optimizer import optimize
from minnow.optimizer.facts.limits import limits_of
from minnow.schema.errors import MinnowError, UsageError
from minnow.schema.ir import Model
from minnow.schema.mnn import encode
from minnow.schema.notice import kind_of
from mnn_suite.case import SUITES, Array, Case

RECORD = Path(__file__).parents[3] / "docs" / "mnn_runtime.json"
KNOWN = read_list(Path(__file__).with_name("not_same.txt"))
NOT_SAME = ("differs", "fails")
BATCH = 100
SHARE, ERROR = 0.05, 0.01
"""Of elements that differ after roundings; of the error, relative to how much the right numbers vary."""
ERRORS = {"shared": 0.26, "tf": 0.4}
"""Of suites with networks of many layers of 8-bit integers, whose roundings add up. Three shared models are above
0.01 in more than SHARE of their elements: person_detect (0.25: 6 steps where its two results are 48 apart), MoveNet
(0.22) and mobilenet_quantized.pt (0.07)."""


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        name: of the case.
        kind: "" until MNN has run it; "right": MNN gives our engine's numbers, or of a second graph those beside them;
            "rounded": the report says that there is a second graph, and the errors of its layers have added up to more;
            "named": the report says that MNN does not give them, and why; "noted": it says that MNN may not, depending
            on the numbers; "differs"; "fails": MNN refuses the file, or ends; "not converted": the source is refused.
        text: what was said or is wrong.
        ops: of the file.
        ours: what is wrong with the numbers of our engine.
        second: the file has a second graph for MNN, which these ops are of.
    """

    name: str
    kind: str
    text: str = ""
    ops: list[str] = field(default_factory=list)
    ours: str = ""
    second: bool = False


def wrong(got: Mapping[str, Any], want: Mapping[str, Array], case: Case, steps: float = 0.0) -> str:
    """What is wrong with outputs; "" for nothing. MNN has i32 for what is a truth or wider.

    Args:
        steps: by how much an integer may be off.
    """
    texts = []
    for name, right in want.items():
        array = np.asarray(got[name]) if name in got else None
        if array is None:
            texts.append(f"there is no {name}")
        elif array.size and right.dtype.kind in "biu" and array.dtype.kind == "f":
            texts.append(f"{name} has the type {array.dtype}")
        else:
            quantum = max(case.quanta.get(name, 0.0), steps if right.dtype.kind in "iu" else 0.0)
            if text := difference(array.astype(right.dtype), right, case.tolerance, quantum):
                texts.append(f"{name}: {text}")
    return "; ".join(texts)


def is_near(got: Mapping[str, Any], want: Mapping[str, Array], error: float = ERROR) -> bool:
    """Whether outputs differ as they do after many roundings: by little on average, or in few elements."""
    for name, right in want.items():
        a, b = (np.asarray(v, np.float64) for v in (got[name], right))
        if a.shape != b.shape:
            return False
        if (a != b).mean() > SHARE and np.linalg.norm(a - b) > error * max(np.linalg.norm(b - b.mean()), 1e-9):
            return False
    return True


def steps_of(model: Model, want: Mapping[str, Array]) -> float:
    """By how much an integer may be off that MNN computes in floats: a step, or the last bits of a large one."""
    if model.portable is None:
        return 0.0
    sizes = [np.abs(a.astype(np.float64)).max(initial=0) for a in want.values() if a.dtype.kind in "iu"]
    return max([1.0, *(size * 2**-21 for size in sizes)])


def outcomes(cases: Iterable[Case], level: int, error: float = ERROR) -> Iterator[Outcome]:
    """The outcome of each case, in order.

    Args:
        level: of optimization.
        error: by which results of second graphs may be off, see `is_near`.
    """
    cases = iter(cases)
    while batch := list(islice(cases, BATCH)):
        made = [converted(case, level) for case in batch]
        jobs = [rest[1] for _, rest in made if rest is not None]
        with tempfile.TemporaryDirectory() as folder:
            answers = iter(mnn_oracle.run(jobs, Path(folder)))
        for case, (outcome, rest) in zip(batch, made, strict=True):
            if rest is not None:
                model, _, ours = rest
                _judge(outcome, next(answers), model, ours, case, error)
            yield outcome


_Rest = tuple[Model, mnn_oracle.Job, dict[str, Array]]


def converted(case: Case, level: int) -> tuple[Outcome, _Rest | None]:
    """The outcome as far as it is known before MNN runs, and what MNN is to run."""
    try:
        model = case.model()
        optimize(model, level)
        ops = ops_of(model)
        session = minnow.load(encode(model), threads=1)
    except MinnowError as e:
        return Outcome(case.name, "not converted", str(e)), None
    named = "; ".join(text for text in model.notices if kind_of(text) == "not-for-mnn")
    try:
        results = session.run(dict(case.inputs))
    except UsageError as e:  # numbers beyond 32 bits
        return Outcome(case.name, "not converted", str(e), ops), None
    ours = {n: a for n, a in results.items() if isinstance(a, np.ndarray)}
    second = model.portable is not None
    outcome = Outcome(case.name, "named" if named else "", named, ops, wrong(ours, case.expected, case), second)
    if named:
        return outcome, None
    feed = {**case.inputs, **{s.input: s.value for s in model.states}}
    return outcome, (model, mnn_oracle.Job(model, feed), ours)


def _judge(
    outcome: Outcome, answer: mnn_oracle.Answer, model: Model, ours: dict[str, Array], case: Case, error: float
) -> None:
    if answer.outputs is None:
        outcome.kind, outcome.text = "fails", answer.log
        if said := _said(model, (*case.inputs.values(), *ours.values())):
            outcome.kind, outcome.text = "noted", said
        return
    got = {name: array for (name, _), array in zip(model.outputs, answer.outputs, strict=False)}
    outcome.text = wrong(got, ours, case, steps_of(model, ours))
    outcome.kind = "differs" if outcome.text else "right"
    if outcome.text and model.portable is not None and is_near(got, ours, error):
        outcome.kind = "rounded"
    elif outcome.text and (said := _said(model, (*case.inputs.values(), *ours.values()))):
        outcome.kind, outcome.text = "noted", said


def _said(model: Model, numbers: Iterable[Any]) -> str:
    """What the report of the conversion says of MNN's limits, as far as numbers like these meet them."""
    arrays = [np.asarray(a) for a in numbers]
    finite = all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")
    reasons = limits_of(model.portable or model.graph, always=False)
    return "; ".join(reason for reason in reasons if not (finite and reason.startswith("NaN")))


def level_of(suite: str) -> int:
    """Of optimization: single ops stay what they are."""
    return 0 if suite == "op" else 2


def error_of(suite: str) -> float:
    """By which results of second graphs may be off, relative to how much the right numbers vary."""
    return ERRORS.get(suite, ERROR)


def ops_of(model: Model) -> list[str]:
    """The ops of the graph that MNN runs."""
    return sorted({n.op for g in (model.portable or model.graph).walk() for n in g})


def form(op: str, outcome: Outcome) -> str:
    """How the file has a sample of an op: "own", "combination", in a "second" graph; or for Minnow, because of a "type"
    or a "form"."""
    if outcome.second:
        return "second"
    if outcome.kind == "named":
        return "type" if "it has no" in outcome.text or "keeps the bits" in outcome.text else "form"
    return "own" if set(outcome.ops) <= {op, "ConvertLayout", "Cast"} else "combination"


def counts(suite: str, found: Iterable[Outcome]) -> dict[str, Any]:
    """What the documentation says of a suite: outcomes by kind or reason; of "op", these and the forms of each op."""
    kinds: Counter[str] = Counter()
    ops: dict[str, Counter[str]] = {}
    for outcome in found:
        kind = KNOWN.get(f"{suite}/{outcome.name}", ("", ""))[1] if outcome.kind in NOT_SAME else outcome.kind
        kinds[kind] += 1
        op = outcome.name.partition(" ")[0]
        if suite == "op" and outcome.kind != "not converted":
            ops.setdefault(op, Counter())[form(op, outcome)] += 1
            if outcome.kind != "named":
                ops[op][kind] += 1
    made: dict[str, Any] = {"kinds": dict(sorted(kinds.items()))}
    return made | ({"ops": {op: dict(sorted(ops[op].items())) for op in sorted(ops)}} if ops else {})


def main(argv: list[str]) -> None:
    said = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for suite in argv or SUITES:
        found = list(outcomes(SUITES[suite](), level_of(suite), error_of(suite)))
        said[suite] = counts(suite, found)
        rows = [f"{suite} {said[suite]['kinds']}"]
        rows += [
            f"  {suite}/{o.name} | {o.kind} | {o.text[-200:]} | {' '.join(o.ops)}"
            for o in found
            if o.kind in NOT_SAME and f"{suite}/{o.name}" not in KNOWN
        ]
        sys.stdout.write("\n".join(rows) + "\n")
        sys.stdout.flush()
        RECORD.write_text(json.dumps({s: said[s] for s in SUITES if s in said}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
