"""`mnnconvert ci`: real conversions in child processes, budgets, receipts, cache, and what ends them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from minnow.cli._app import run
from minnow.workflow.config.cells import load_config
from minnow.workflow.config.line import parsed
from minnow.workflow.receipt import receipt_path
from minnow.workflow.run import check_cells

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"

CONFIG = """\
[variants.mnn]
[variants.own]
target = "minnow"

[models.digits]
source = "digits.onnx"

[models.big]
source = "digits.onnx"
output = "out/{name}.mnn"
variants = ["own"]
[models.big.budgets]
bytes = "10 kB"
nodes = 3
macs = 1000
peak_memory = "1 kB"
max_error = 1e-12

[models.strict]
source = "digits.onnx"
output = "out/{name}.mnn"
tolerance = 0.0
variants = []

[models.foreign]
source = "foreign.onnx"
variants = []
[models.cut]
source = "cut.onnx"
variants = []
[models.late]
source = "digits.onnx"
output = "out/{name}.mnn"
variants = []
limits.seconds = 0.01
[models.huge]
source = "digits.onnx"
output = "out/{name}.mnn"
variants = []
limits.memory = "1 MB"

[models.web]
source = "URL"
optimize = 1
output = "out/{name}.mnn"
variants = []

[[exclude]]
model = "digits"
variant = "mnn"
reason = "only for the engine"
"""

CODES = {
    "digits/mnn": ("skipped", 0), "digits/own": ("passed", 0), "big/own": ("failed", 5), "strict": ("failed", 4),
    "foreign": ("error", 3), "cut": ("error", 6), "late": ("error", 9), "huge": ("error", 6), "web": ("passed", 0),
}  # fmt: skip


def write_models(folder: Path) -> None:
    shutil.copy(DIGITS, folder)
    (folder / "cut.onnx").write_bytes(DIGITS.read_bytes()[:5000])
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Mystery", ["x"], ["y"], "n1", domain="d")], "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("d", 1)]), folder / "foreign.onnx")


def ci(folder: Path, *args: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON document and standard error of a run in a process of its own."""
    line = [sys.executable, "-c", "from minnow.cli import main; main()", "ci", "--format=json", *args]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def cells(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {cell["name"]: cell for cell in document["cells"]}


def rules(cell: dict[str, Any]) -> list[str]:
    return [c["rule"] for c in cell["checks"] if c["status"] in ("failed", "error")]


def left_over(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if ".part" in p.name]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, dict[str, Any], str]:
    """A run with every kind of result."""
    folder = tmp_path_factory.mktemp("ci")
    write_models(folder)
    (folder / "minnow.toml").write_text(CONFIG.replace("URL", f"file://{folder}/digits.onnx"))
    return folder, *ci(folder, "--cache", "cache", "--deterministic", "--report", "junit=junit.xml")


def test_every_kind_of_result_is_a_row(done: Any) -> None:
    folder, code, document, stderr = done
    assert {name: (c["status"], c["exit_code"]) for name, c in cells(document).items()} == CODES
    assert code == document["exit_code"] == 3, "that of the first error"
    errors = {name: rules(c) for name, c in cells(document).items() if c["status"] == "error"}
    names = {"foreign": "unsupported-operator", "cut": "unreadable-source", "late": "stopped", "huge": "out-of-memory"}
    assert errors == {name: [rule] for name, rule in names.items()}
    assert cells(document)["foreign"]["checks"][0]["nodes"] == ["n1"]
    assert [c["place"]["line"] for c in document["cells"]][:3] == [5, 5, 8]
    assert stderr.count("\n") == len(CODES), stderr
    assert "failures" in (folder / "junit.xml").read_text()


def test_every_metric_can_exceed_its_budget(done: Any) -> None:
    folder, _, document, _ = done
    big = cells(document)["big/own"]
    assert rules(big) == [f"budget-{name}" for name in ("bytes", "nodes", "macs", "peak-memory", "max-error")]
    assert big["metrics"]["bytes"] == (folder / "out/big.mnn").stat().st_size > 10_000
    assert (folder / "out/big.mnn").exists(), "a file that exceeds a budget is there to be looked at"


def test_only_verified_outputs_are_written(done: Any) -> None:
    folder, _, _, _ = done
    assert sorted(p.name for p in folder.rglob("*.mnn")) == ["big.mnn", "digits-own.mnn", "web.mnn"]
    assert not left_over(folder)


def test_unchanged_models_come_from_the_cache(done: Any) -> None:
    folder, code, document, _ = done
    (folder / "digits-own.mnn").unlink()
    lasting = {name: c for name, c in cells(document).items() if name not in ("late", "huge")}
    only = [word for name in lasting for word in ("--only", name)]
    again, second, stderr = ci(folder, "--cache", "cache", "--deterministic", *only)
    assert (again, cells(second)) == (code, lasting)
    assert "PASS digits/own cached" in stderr
    assert "FAIL strict cached" in stderr, "failures that would come again are kept"
    keys = {name: cell["key"] for name, cell in cells(document).items() if cell["key"]}
    kept = {name for name, key in keys.items() if (folder / "cache/entries" / key[:2] / key[2:]).exists()}
    assert kept == {"digits/own", "big/own", "strict", "foreign", "cut", "web"}
    assert keys.keys() - kept == {"late", "huge"}
    assert (folder / "digits-own.mnn").exists()
    receipt, before = receipt_path(folder / "digits-own.mnn"), (folder / "digits-own.mnn").stat()
    assert ci(folder, "--cache", "cache", "--only", "digits")[0] == 0
    after = (folder / "digits-own.mnn").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns), "it was written again"
    receipt.write_text(receipt.read_text().replace("own", "other") + " ")
    assert ci(folder, "--cache", "cache", "--only", "digits")[0] == 0
    assert receipt.read_text().endswith("}\n")


def test_a_cached_run_imports_nothing_big(done: Any) -> None:
    folder = done[0]
    program = """
import sys
from minnow.cli._app import run
code = run(sys.argv[1:])
heavy = {"numpy", "onnx", "onnxruntime", "google.protobuf", "rich", "networkx", "minnow.schema.ir", "fsspec"}
print(code, sorted(heavy & set(sys.modules)))
"""
    line = [sys.executable, "-c", program, "ci", "-q", "--only", "digits", "--only", "strict", "--cache", "cache"]
    done_ = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done_.stdout.strip() == "4 []", done_
    line = [*line[:4], "-q", "--only", "digits", "--check"]
    done_ = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done_.stdout.strip() == "0 []", done_


def test_a_changed_option_or_a_damaged_cache_misses(done: Any, tmp_path: Path) -> None:
    shutil.copytree(done[0], tmp_path / "copy")
    folder = tmp_path / "copy"
    entries = cells(done[2])["digits/own"]
    object_ = folder / "cache/objects" / entries["sha256"][:2] / entries["sha256"][2:]
    good = object_.read_bytes()
    object_.chmod(0o644)
    object_.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    text = CONFIG.replace("tolerance = 0.0", "tolerance = 0.5")
    (folder / "minnow.toml").write_text(text)
    (folder / "digits-own.mnn").unlink()
    code, document, stderr = ci(folder, "-j1", "--cache", "cache", "--only", "digits/own", "--only", "strict")
    assert (code, [c["cached"] for c in document["cells"]]) == (0, [False, False]), stderr
    assert (folder / "digits-own.mnn").read_bytes() == good
    assert object_.read_bytes() == good, "the cache has been repaired"


@pytest.fixture
def fresh(done: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(done[0], tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def reasons(folder: Path) -> list[str]:
    (cell,) = check_cells(load_config(folder / "minnow.toml").only(["digits/own"]), "").cells
    assert (cell.exit_code != 0) == any(c.rule == "stale-output" for c in cell.checks)
    return [c.message for c in cell.checks if c.status == "failed"]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


STALE: dict[str, tuple[Callable[[Path], object], str]] = {
    "source": (lambda f: shutil.copy(f / "foreign.onnx", f / "digits.onnx"), "the source digits.onnx has changed"),
    "no source": (lambda f: (f / "digits.onnx").unlink(), "cannot read the file: digits.onnx"),
    "option": (
        lambda f: edit(f / "minnow.toml", 'target = "minnow"', 'target = "minnow"\noptimize = 1'),
        "the option optimize is new: 1",
    ),
    "other option": (
        lambda f: edit(f / "minnow.toml", 'target = "minnow"', ""), 'the option target is gone; it was "minnow"',
    ),
    "version": (
        lambda f: edit(receipt_path(f / "digits-own.mnn"), '"minnow": "', '"minnow": "9.'), "it was made by Minnow 9.",
    ),
    "edited": (lambda f: (f / "digits-own.mnn").write_bytes(b"x"), "digits-own.mnn has been edited since it was made"),
    "missing": (lambda f: (f / "digits-own.mnn").unlink(), "digits-own.mnn does not exist"),
    "no receipt": (lambda f: receipt_path(f / "digits-own.mnn").unlink(), "digits-own.mnn.receipt.json does not exist"),
    "damaged": (lambda f: receipt_path(f / "digits-own.mnn").write_text("{"), "digits-own.mnn.receipt.json is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("kind", STALE)
def test_what_makes_an_output_stale_is_named(fresh: Path, kind: str) -> None:
    assert reasons(fresh) == []
    change, reason = STALE[kind]
    change(fresh)
    (found,) = reasons(fresh)
    assert found.startswith(reason), found


def test_data_and_companion_files_make_an_output_stale(fresh: Path) -> None:
    np.savez("d.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    edit(fresh / "minnow.toml", 'target = "minnow"', 'target = "minnow"\ndata = "d.npz"\nside_file = true')
    assert run(["ci", "-q", "--only", "digits/own"]) == 0
    assert reasons(fresh) == []
    np.savez("d.npz", image=np.ones((1, 1, 8, 8), np.float32))
    assert reasons(fresh) == ["the data of the option data has changed"]
    (fresh / "digits-own.mnn.weight").write_bytes(b"")
    assert reasons(fresh)[1:] == ["digits-own.mnn.weight has been edited since it was made"]


def test_check_has_exit_code_4_and_converts_nothing(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.stat().st_mtime_ns for p in fresh.rglob("*")}
    assert run(["ci", "--check", "--only", "digits"]) == 0
    assert run(["ci", "--check"]) == 4
    assert "FAIL  strict  fresh: out/strict.mnn does not exist" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in fresh.rglob("*")} == before


def test_a_source_at_a_url_is_converted_but_not_compared(done: Any, fresh: Path) -> None:
    web = cells(done[2])["web"]
    assert web["source"].startswith("file:///")
    assert web["reproduce"] == "mnnconvert ci --only web"
    (cell,) = check_cells(load_config(fresh / "minnow.toml").only(["web"]), "").cells
    assert [(c.status, c.message) for c in cell.checks] == [("passed", "the source at the URL was not compared")]
    (fresh / "out/web.mnn").write_bytes(b"x")
    (cell,) = check_cells(load_config(fresh / "minnow.toml").only(["web"]), "").cells
    assert cell.exit_code == 4


def test_receipts_can_be_committed(done: Any) -> None:
    folder = done[0]
    text = receipt_path(folder / "digits-own.mnn").read_text()
    receipt = json.loads(text)
    assert str(folder) not in text
    assert not re.search(r"\d\d:\d\d", text), "a time"
    assert receipt["output"][""]["bytes"] == (folder / "digits-own.mnn").stat().st_size
    assert receipt["verification"]["outputs"] == {"probability": "passed"}
    assert receipt["options"] == {"target": "minnow"}


def test_budgets_are_those_of_today(fresh: Path) -> None:
    """A cached result is compared with the budget of the file as it is now."""
    edit(fresh / "minnow.toml", "max_error = 1e-12", "")
    edit(fresh / "minnow.toml", 'bytes = "10 kB"', 'bytes = "10 MB"')
    assert run(["ci", "-q", "--cache", "cache", "--only", "big"]) == 5
    for name in ("nodes", "macs", "peak_memory"):
        edit(fresh / "minnow.toml", f"\n{name} =", f"\n#{name} =")
    assert run(["ci", "-q", "--cache", "cache", "--only", "big"]) == 0


def test_fail_on_decides_about_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from minnow.workflow.result import CellResult, Check, Results
    from minnow.workflow.run import exit_code_of

    cell = CellResult(model="m", variant="", source="", output="", checks=(Check("convert", "passed"),))
    results = Results(cells=(cell,), version="")
    warned = replace(results, cells=(replace(cell, checks=(Check("v", "warning", "verification-inconclusive"),)),))
    failed = replace(results, cells=(replace(cell, checks=(Check("b", "failed", "budget-bytes"),)), *warned.cells))
    table = {"error": (0, 0, 5), "warning": (0, 4, 5), "never": (0, 0, 0)}
    for fail_on, codes in table.items():
        assert tuple(exit_code_of(r, fail_on) for r in (results, warned, failed)) == codes


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--config", "none.toml"], (6, "cannot read the configuration")),
        (["--only", "digit"], (2, "did you mean 'digits'?")),
        (["--report", "junit"], (2, "junit")),
        (["--report", "word=x.doc"], (2, "word")),
    ],
)
def test_mistakes_are_found_before_any_work(
    fresh: Path, args: list[str], said: tuple[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ci", *args]) == said[0]
    assert said[1] in capsys.readouterr().err


def test_the_text_has_a_table_and_the_reasons(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ci", "--cache", "cache", "--only", "digits", "--only", "big", "--only", "foreign"]) == 3
    out, err = capsys.readouterr()
    rows = {line.split()[1]: line.split()[0] for line in out.splitlines()[2:6]}
    assert rows == {"digits/mnn": "SKIP", "digits/own": "PASS", "big/own": "FAIL", "foreign": "ERROR"}
    assert "FAIL  big/own  budget:nodes: nodes: 8, at most 3" in out
    assert re.search(r"mnnconvert convert foreign\.onnx --output=foreign\.mnn", out)
    assert "[4/4]" in err


def test_details_are_in_the_log(fresh: Path) -> None:
    assert run(["ci", "-q", "--cache", "cache", "--only", "digits", "--only", "strict", "--log-file", "log.txt"]) == 4
    log = (fresh / "log.txt").read_text()
    assert "digits/own: passed (cached)" in log
    assert re.search(r"strict: verify:probability: failed verification-failed FAIL  4 runs against", log)


def test_the_schema_describes_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    """Another implementation of JSON schema accepts and refuses the same files."""
    import jsonschema

    assert run(["ci", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    values = parsed(CONFIG, "")
    assert not list(validator.iter_errors(values))
    wrong = [
        {"models": {"m": {}}},
        {**values, "budget": {}},
        {**values, "budgets": {"bytes": "5 lightyears"}},
        {**values, "budgets": {"latency": {"baseline": "onnxruntime"}}},
        {**values, "defaults": {"optimize": 9}},
        {**values, "defaults": {"output": "x"}},
        {**values, "exclude": [{"model": "m"}]},
    ]
    assert [len(list(validator.iter_errors(one))) for one in wrong] == [1] * len(wrong)
    model = schema["properties"]["models"]["additionalProperties"]
    assert model["required"] == ["source"]
    assert model["properties"]["target"]["enum"] == ["mnn", "minnow"]


def test_the_shell_completes_names_of_models(fresh: Path) -> None:
    from click.shell_completion import ShellComplete

    from minnow.cli._app import app

    def completed(*args: str) -> list[str]:
        found = ShellComplete(app, {}, "mnnconvert", "_X").get_completions(["ci", *args[:-1]], args[-1])
        return [item.value for item in found]

    assert completed("--only", "di") == ["digits", "digits/mnn", "digits/own"]
    assert [kind.partition("=")[0] for kind in completed("--report", "ju")] == ["junit"]


# ---- what ends a run


SLOW = """\
[defaults]
check_each = true
check_limit = 1e6
[models]
{models}
"""


def slow(folder: Path, count: int = 3) -> Path:
    """A configuration whose conversions take a minute: the reference implementation runs after each step."""
    layers, weights = [], []
    for i in range(30):
        weights.append(helper.make_tensor(f"w{i}", TensorProto.FLOAT, [24, 24, 3, 3], [0.01] * (24 * 24 * 9)))
        layers.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1] * 4))
        layers.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"], f"relu{i}"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 24, 96, 96]) for n in ("x0", "x30")]
    graph = helper.make_graph(layers, "g", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "slow.onnx")
    models = "\n".join(f'm{i} = {{ source = "slow.onnx", output = "m{i}.mnn" }}' for i in range(count))
    (folder / "minnow.toml").write_text(SLOW.format(models=models))
    return folder


def started(folder: Path, *args: str) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir()
    line = [sys.executable, "-c", "from minnow.cli import main; main()", "ci", *args]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    # A shell may have started the tests in the background, where SIGINT is ignored, and so by all that they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    finally:
        signal.signal(signal.SIGINT, before)


def below(pid: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    found: list[int] = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(c) for task in tasks for c in (task / "children").read_text().split()]
    except OSError:
        return []
    for child in children:
        found += [child, *below(child)]
    return found


def converting(pid: int) -> list[int]:
    """The processes that convert: those below the supervisors."""
    return [p for child in below(pid) for p in below(child)]


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_signal_ends_all_processes_and_leaves_no_files(tmp_path: Path, number: int, code: int) -> None:
    slow(tmp_path)
    process = started(tmp_path, "--jobs", "2")
    wait_for(lambda: len(converting(process.pid)) >= 2)
    pids = below(process.pid)
    time.sleep(0.5)
    process.send_signal(number)
    begin = time.monotonic()
    assert process.wait(30) == code
    wait_for(lambda: not any(map(alive, pids)), 10)
    assert time.monotonic() - begin < 10
    assert sorted(p.name for p in tmp_path.iterdir()) == ["minnow.toml", "slow.onnx", "tmp"]
    wait_for(lambda: not list((tmp_path / "tmp").glob("minnow*")), 5)


@pytest.mark.slow
def test_a_killed_conversion_is_one_row(tmp_path: Path) -> None:
    write_models(tmp_path)
    slow(tmp_path, 1)
    with (tmp_path / "minnow.toml").open("a") as file:
        file.write('digits = { source = "digits.onnx", check_each = false }\n')
    process = started(tmp_path, "--jobs", "1", "--format", "json")
    (first,) = wait_for(lambda: converting(process.pid))
    time.sleep(0.5)
    os.kill(first, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    found = cells(json.loads(out))
    assert (rules(found["m0"]), found["digits"]["status"]) == (["crashed"], "passed"), err
    assert "SIGKILL" in found["m0"]["checks"][0]["message"]
    assert process.returncode == 1
    assert not left_over(tmp_path)
    assert not list((tmp_path / "tmp").glob("minnow*"))


@pytest.mark.slow
def test_two_runs_write_the_same_outputs(tmp_path: Path) -> None:
    write_models(tmp_path)
    (tmp_path / "minnow.toml").write_text(
        "[defaults]\nside_file = true\n[variants.a]\n[variants.b]\noptimize = 1\n[variants.c]\ntarget = 'minnow'\n"
        '[models.digits]\nsource = "digits.onnx"\n'
    )
    line = [sys.executable, "-c", "from minnow.cli import main; main()", "ci", "--cache", "cache"]
    runs = [subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outs = [run_.communicate(timeout=300)[0] for run_ in runs]
    assert [run_.returncode for run_ in runs] == [0, 0, 0], outs
    assert ci(tmp_path, "--check")[0] == 0
    assert len(list(tmp_path.glob("*.mnn"))) == 3
    assert not left_over(tmp_path)


@pytest.mark.slow
def test_many_outputs_are_checked_in_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_models(tmp_path)
    monkeypatch.chdir(tmp_path)
    models = "\n".join(f'[models.m{i}]\nsource = "m{i}.onnx"\n' for i in range(200))
    for i in range(200):
        shutil.copy("digits.onnx", f"m{i}.onnx")
    (tmp_path / "minnow.toml").write_text(models)
    assert run(["ci", "-q", "--cache", "cache"]) == 0
    assert sum(ci(tmp_path, "--check")[0] for _ in range(1)) == 0
    times = []
    for _ in range(3):
        begin = time.process_time(), time.perf_counter()
        assert run(["ci", "-q", "--check"]) == 0
        times.append(time.process_time() - begin[0])
    assert min(times) < 1
