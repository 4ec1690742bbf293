"""Ten thousand requests, most of them wrong: the server answers each, goes on, and its memory does not grow."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

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
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    statuses: Counter[int | str] = Counter()
    sizes = []
    try:
        with httpx.Client(timeout=60) as client, ThreadPoolExecutor(8) as pool:
            for start in range(0, 10_000, 1000):
                numbers = range(start, start + 1000)
                statuses.update(pool.map(lambda n: request(n, url, client), numbers))
                sizes.append(memory(process))
            body = {"messages": [{"role": "user", "content": "say done;"}], "temperature": 0}
            answer = client.post(url + CHAT, json=body).json()
            numbers_ = client.get(f"{url}/metrics").text
        assert answer["choices"][0]["message"]["content"] == "done"
        assert "minnow_answers_running 0.0" in numbers_
        assert "minnow_requests_waiting 0.0" in numbers_
        assert set(statuses) <= {200, 400, 404, 405, 413, 429, "closed", "cut"}, statuses
        assert statuses[200] > 500
        assert statuses[400] > 1000
        assert statuses["cut"] > 1000
        assert sizes[-1] - sizes[2] < 4 << 20, sizes
    finally:
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err[-3000:]
