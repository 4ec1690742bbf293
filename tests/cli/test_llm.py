"""`mnnconvert llm`, with a language model without weights."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from minnow.cli._app import run

TESTS = Path(__file__).parents[1] / "llm"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder whose model is a fake one."""
    from fake_llm import fake_llm

    import minnow.llm

    (tmp_path / "llm.json").write_text(fake_llm().description.text())
    (tmp_path / "model.mnn").write_bytes(bytes(1000))
    monkeypatch.setattr(minnow.llm, "load", lambda where, **options: fake_llm())
    return str(tmp_path)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def typed(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))

    return typed


def test_run(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["llm", "run", folder, "-p", "say hello;", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert run(["llm", "run", folder, "-p", "say a, b;", "--temperature", "0", "--stop", ",", "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["text"], made["reason"], made["stop"], made["usage"]["answer"]) == ("a", "stop", ",", 2)
    assert run(["llm", "run", folder, "-p", "say abc;", "--raw", "-n", "2", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "ab\n"


def test_run_takes_its_prompt_from_standard_input(
    folder: str, typed: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    typed("say wörter;\n".encode())
    assert run(["llm", "run", folder, "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "wörter\n"
    typed(b"\xff")
    assert run(["llm", "run", folder]) == 2
    assert "no UTF-8" in capsys.readouterr().err


def test_chat_remembers(folder: str, typed: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]) -> None:
    import fake_llm

    typed(b"say one;\n\nsay two;\n/reset\nsay three;\n/exit\nsay four;\n")
    seen = []

    def template(messages: list, **variables: object) -> str:
        seen.append([(m["role"], m["content"]) for m in messages])
        return str(fake_llm.template(messages, **variables))

    import minnow.llm

    llm = fake_llm.fake_llm()
    llm._template = template
    minnow.llm.load = lambda where, **options: llm  # the fixture restores it
    assert run(["llm", "chat", folder, "--temperature", "0", "--system", "be kind"]) == 0
    assert capsys.readouterr().out == "one\ntwo\nthree\n"
    system, first = ("system", "be kind"), ("user", "say one;")
    assert seen[0] == [system, first]
    assert seen[1] == [system, first, ("assistant", "one"), ("user", "say two;")]
    assert seen[2] == [system, ("user", "say three;")]


def test_chat_forgets_what_does_not_fit(
    folder: str, typed: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    typed(b"".join(b"say number %d; %s\n" % (i, b"x" * 90) for i in range(6)) + b"x" * 500 + b"\n")
    assert run(["llm", "chat", folder, "--temperature", "0"]) == 2
    out, err = capsys.readouterr()
    assert out == "".join(f"number {i}\n" for i in range(6))
    assert "oldest messages are forgotten" in err
    assert "too long" in err


def test_bench(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--threads", "3", "-p", "16,32", "-n", "8", "--batch", "1,4", "--runs", "2"]
    assert run(["llm", "bench", folder, *flags, "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [row["test"] for row in made["tests"]] == ["pp16", "pp32", "tg8", "tg8 x4"]
    assert (made["bytes"], made["threads"]) == (1000, 3)
    for row in made["tests"]:
        rates = [row["batch"] * row["tokens"] / s for s in row["seconds"]]
        assert row["rate"] == pytest.approx(sum(rates) / 2)
    assert run(["llm", "bench", folder, *flags]) == 0
    assert re.search(r"^letters +0\.0 +cpu +3 +tg8 x4 +[\d.]+ ± [\d.]+$", capsys.readouterr().out, re.MULTILINE)
    assert run(["llm", "bench", folder, "-p", "1,x"]) == 2
    assert run(["llm", "bench", folder, "-p", "4000"]) == 2


def test_perplexity(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text"
    text.write_text("some words " * 30)
    assert run(["llm", "perplexity", folder, str(text), "--window", "50", "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["tokens"], made["windows"], made["predicted"]) == (330, 7, 323)
    assert made["perplexity"] > 1
    assert run(["llm", "perplexity", folder, str(text), "--window", "50"]) == 0
    assert f"perplexity {made['perplexity']:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "chat", "bench", "perplexity", "serve"])
def test_what_is_no_folder_of_a_model(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rest = {"perplexity": ["file"]}.get(command, [])
    assert run(["llm", command, str(tmp_path), *rest]) == 6
    assert "cannot read the description" in capsys.readouterr().err
    (tmp_path / "llm.json").write_text("[]")
    assert run(["llm", command, str(tmp_path), *rest]) == 6


def test_a_schema_is_a_file(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    for text in (None, "{", "[]"):
        if text is not None:
            path.write_text(text)
        assert run(["llm", "run", folder, "-p", "x", "--json-schema", str(path)]) == 6
        assert "JSON schema" in capsys.readouterr().err


COMMAND = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from fake_llm import fake_llm
import minnow.llm
minnow.llm.load = lambda folder, **options: fake_llm(pause=0.01, context=10000)
from minnow.cli import main
main()
"""


def started(*args: str) -> subprocess.Popen[str]:
    def usual_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(TESTS), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)}, preexec_fn=usual_signals,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_serve_until_a_signal(folder: str, number: signal.Signals) -> None:
    process = started("llm", "serve", folder, "--port", "0")
    assert process.stdout is not None
    url = process.stdout.readline().removeprefix("listening at ").strip()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            assert httpx.get(f"{url}/health").json() == {"status": "ok"}
            break
        except httpx.ConnectError:
            time.sleep(0.05)
    body = {"messages": [{"role": "user", "content": "say yes;"}], "temperature": 0}
    assert httpx.post(f"{url}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"] == "yes"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], err
    assert "Traceback" not in err


def test_ctrl_c_ends_an_answer(folder: str) -> None:
    process = started("llm", "run", folder, "-p", "tell me a story")
    assert process.stdout is not None
    assert process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, "interrupted")


def test_an_address_in_use(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(["llm", "serve", folder, "--port", str(port)]) == 2
    assert "cannot listen" in capsys.readouterr().err


def test_without_the_packages_of_the_server(
    folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["llm", "serve", folder]) == 2
    assert re.search(r"needs the package starlette\n +try: pip install", capsys.readouterr().err)
