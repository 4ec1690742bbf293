"""Ten thousand requests, most of them wrong: the server answers each, goes on, and its memory does not grow."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from language_model_files import STORIES

import minnow

HERE = Path(__file__).parent
CHAT = "/v1/chat/completions"
SERVER = """
import sys
from fake_llm import fake_llm
from minnow.llm.server import serve
from minnow.options.generate import ServerOptions
serve(fake_llm(context=300, sequences=8, queue=16), ServerOptions(port=0, max_body=1 << 16),
      lambda url: print(url, flush=True))
"""

MODEL_SERVER = """
import sys, threading
import minnow.llm
from minnow.llm.server import serve
from minnow.options.generate import ServerOptions
llm = minnow.llm.load(sys.argv[1], sequences=8, queue=16, cached_tokens=4096, threads=2)
def tell():
    for _ in sys.stdin:
        print(llm.model.blocks.used, "blocks in use", flush=True)
threading.Thread(target=tell, daemon=True).start()
serve(llm, ServerOptions(port=0, max_body=1 << 16, max_answer=12), lambda url: print(url, flush=True))
"""


def good(r: random.Random) -> bytes:
    body = {"messages": [{"role": "user", "content": f"say {r.random()};"}], "temperature": 0}
    return json.dumps({**body, "stream": r.random() < 0.5, "n": r.randint(1, 3)}).encode()


def changed(r: random.Random) -> bytes:
    """A good body with a few bytes changed, cut off, or repeated."""
    data = bytearray(good(r))
    for _ in range(r.randint(1, 4)):
        place = r.randrange(len(data))
        match r.randrange(4):
            case 0:
                data[place] = r.randrange(256)
            case 1:
                del data[place:]
            case 2:
                data[place:place] = data[place : place + 9] * r.randint(1, 50)
            case 3:
                data[place:place] = r.choice([b"null", b"-1", b"1e999", b"NaN", b'"\\ud800"', b"[[[[", b"\xff", b"\0"])
        data = data or bytearray(b" ")
    return bytes(data)


def field(r: random.Random) -> bytes:
    """A good body with a field that is something else."""
    body = json.loads(good(r))
    names = ("messages", "n", "stop", "seed", "temperature", "tools", "max_tokens", "logit_bias", "response_format")
    odd = (None, True, -1, 10**30, 1.5, "", "x" * 5000, [], [[]], {}, {"a": [1, {"b": None}]}, "\ud800")
    body[r.choice([*names, "logprobs", "stream", "user", "tool_choice", "stream_options"])] = r.choice(odd)
    return json.dumps(body).encode()


def huge(r: random.Random) -> bytes:
    text = "x" * r.choice([400, 5000, 60_000, 200_000])
    return json.dumps({"messages": [{"role": "user", "content": text}]}).encode()


def deep(r: random.Random) -> bytes:
    return b'{"messages": ' + r.choice([b"[", b'{"a":']) * r.choice([50, 500, 9000])


BODIES = (good, changed, changed, field, field, huge, deep)


def request(number: int, url: str, client: httpx.Client) -> int | str:
    """Sends a request; gives its status, or what was done to the connection."""
    r = random.Random(number)
    body = r.choice(BODIES)(r)
    if r.random() < 0.15:
        return cut(r, url, body)
    path = r.choice([CHAT] * 8 + ["/v1/completions", "/v1/embeddings", "/v1/models", "/x"])
    try:
        answer = client.post(url + path, content=body, headers={"Content-Type": "application/json"})
    except (httpx.RemoteProtocolError, httpx.WriteError, httpx.ReadError):
        return "closed"  # in the middle of a body that is too large
    if answer.status_code >= 400:
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"], error
    return answer.status_code


def cut(r: random.Random, url: str, body: bytes) -> str:
    """Sends a part of a request, or leaves before the answer has come."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    size = len(body) + r.choice([0, 0, 10])
    head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    data = head.encode() + body
    if r.random() < 0.5:
        data = data[: r.randrange(len(data))] + r.choice([b"", b"\xff\r\n\r\n", b"\0" * 100])
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            connection.sendall(data)
            if r.random() < 0.5:
                connection.settimeout(0.02)
                connection.recv(1)
        except OSError:
            pass
    return "cut"


def memory(process: subprocess.Popen[str]) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_ten_thousand_requests() -> None:
    sizes = ask(SERVER, 10_000)
    assert sizes[-1] - sizes[2] < 4 << 20, sizes


def test_requests_to_a_model(tmp_path: Path) -> None:
    served(tmp_path, 150)


@pytest.mark.slow
def test_ten_thousand_requests_to_a_model(tmp_path: Path) -> None:
    sizes = served(tmp_path, 10_000)
    assert sizes[-1] - sizes[2] < 8 << 20, sizes


def served(folder: Path, count: int) -> list[int]:
    """The same with the engine, whose cache must have no sequence left."""
    minnow.convert(STORIES, output=folder / "model", verify=False)
    path = folder / "model" / "llm.json"
    description = json.loads(path.read_text())
    description["chat_template"] = "{% for message in messages %}{{ message.content }}{% endfor %}"
    path.write_text(json.dumps(description))
    return ask(MODEL_SERVER, count, str(folder / "model"))


def ask(program: str, count: int, *arguments: str) -> list[int]:
    """Sends requests to a server, eight at a time, and then a good one. The memory it had after each tenth of them."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    url = process.stdout.readline().strip()
    statuses: Counter[int | str] = Counter()
    sizes = []
    try:
        with httpx.Client(timeout=120) as client, ThreadPoolExecutor(8) as pool:
            for start in range(0, count, count // 10):
                numbers = range(start, start + count // 10)
                statuses.update(pool.map(lambda n: request(n, url, client), numbers))
                sizes.append(memory(process))
            body = {"messages": [{"role": "user", "content": "say done;"}], "temperature": 0}
            text = client.post(url + CHAT, json=body).json()["choices"][0]["message"]["content"]
            assert text == "done" if program == SERVER else text
            for _ in range(600):  # until what was cut off has ended, too
                told = client.get(f"{url}/metrics").text
                if "minnow_answers_running 0.0" in told and "minnow_requests_waiting 0.0" in told:
                    break
                time.sleep(0.1)
            else:
                pytest.fail(told)
        if program == MODEL_SERVER:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "0 blocks in use\n"
        assert set(statuses) <= {200, 400, 404, 405, 413, 429, "closed", "cut"}, statuses
        assert statuses[200] > count // 20
        assert statuses[400] > count // 10
        assert statuses["cut"] > count // 10
    finally:
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err[-3000:]
    return sizes
