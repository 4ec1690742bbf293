"""The server, through OpenAI's own client and through plain HTTP."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from fake_llm import fake_llm, served

from minnow.llm.llm import LLM

http = httpx.Client(timeout=60)  # making one takes longer than a request


@pytest.fixture(scope="module")
def llm() -> LLM:
    return fake_llm(sequences=8, queue=8)


@pytest.fixture(scope="module")
def url(llm: LLM) -> Iterator[str]:
    with served(llm, max_body=100_000, max_choices=4) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def say(text: str) -> list:
    return [{"role": "user", "content": f"say {text};"}]


def test_a_chat(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(model="letters", messages=say("hello wörld"), temperature=0)
    (choice,) = made.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "hello wörld", "stop")
    assert made.object == "chat.completion"
    assert made.model == "letters"
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (
        len("user\nsay hello wörld;\nassistant\n") + 1,
        12,
    )
    assert made.usage.total_tokens == made.usage.prompt_tokens + 12


def test_a_chat_piece_by_piece(client: openai.OpenAI) -> None:
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model="letters", messages=say("hello"), temperature=0, stream=True, stream_options=options, stop="lo"
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].delta.content for c in chunks[1:-2]] == ["h", "e", "l"]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 5
    assert {c.object for c in chunks} == {"chat.completion.chunk"}
    assert len({c.id for c in chunks}) == 1


def test_the_last_event_is_done(url: str) -> None:
    with http.stream("POST", f"{url}/v1/chat/completions", json={"messages": say("a"), "stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = list(answer.iter_lines())
    assert lines[-2:] == ["data: [DONE]", ""]
    assert all(line.startswith("data: ") for line in lines[::2])
    assert not any(lines[1::2])


def test_parts_and_roles_of_messages(client: openai.OpenAI) -> None:
    parts = [{"type": "text", "text": "say "}, {"type": "text", "text": "x;"}]
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}]
    made = client.chat.completions.create(model="letters", messages=messages, temperature=0)  # type: ignore[arg-type]
    assert made.choices[0].message.content == "x"
    assert made.usage.prompt_tokens == len("system\nbe brief\nuser\nsay x;\nassistant\n")  # type: ignore[union-attr]


def test_completions(client: openai.OpenAI) -> None:
    made = client.completions.create(model="letters", prompt=["say a;", "say b;"], n=2, temperature=0, echo=True)
    assert [c.text for c in made.choices] == ["say a;a", "say a;a", "say b;b", "say b;b"]
    assert [c.index for c in made.choices] == [0, 1, 2, 3]
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (12, 4)
    tokens = client.completions.create(model="letters", prompt=list(b"say abc;"), temperature=0, max_tokens=2)
    assert (tokens.choices[0].text, tokens.choices[0].finish_reason) == ("ab", "length")
    assert client.completions.create(model="letters", prompt="abc").usage.completion_tokens == 16  # type: ignore[union-attr]
    pieces = client.completions.create(model="letters", prompt="say ab;", temperature=0, stream=True)
    assert [c.choices[0].text for c in pieces] == ["a", "b", ""]


def test_seeds_and_choices(client: openai.OpenAI) -> None:
    def texts(seed: int, n: int = 3) -> list[str | None]:
        made = client.chat.completions.create(
            model="letters", messages=[{"role": "user", "content": "x"}], seed=seed, n=n, temperature=1, max_tokens=12
        )
        return [c.message.content for c in made.choices]

    first = texts(5)
    assert texts(5) == first
    assert len(set(first)) == 3
    assert texts(6) != first
    assert texts(6, n=1) == first[1:2], "each choice has the next seed"


def test_logprobs(client: openai.OpenAI, llm: LLM) -> None:
    made = client.chat.completions.create(
        model="letters", messages=say("hü"), temperature=0, logprobs=True, top_logprobs=2
    )
    rows = made.choices[0].logprobs.content  # type: ignore[union-attr]
    assert rows is not None
    assert bytes(b for row in rows for b in row.bytes or []).decode() == "hü"
    assert all(row.top_logprobs[0].logprob == row.logprob <= 0 for row in rows)
    assert all(len(row.top_logprobs) == 2 for row in rows)
    pieces = client.chat.completions.create(
        model="letters", messages=say("hü"), temperature=0, logprobs=True, stream=True
    )
    streamed = [c.choices[0].logprobs for c in pieces if c.choices[0].logprobs]
    assert [row.logprob for part in streamed for row in part.content or []] == [row.logprob for row in rows]
    plain = client.completions.create(model="letters", prompt="say hi;", temperature=0, logprobs=1)
    logprobs = plain.choices[0].logprobs
    assert logprobs is not None
    assert (logprobs.tokens, logprobs.text_offset) == (["h", "i"], [0, 1])
    assert [list(top) for top in logprobs.top_logprobs or []] == [["h"], ["i"]]


TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Rom"}}</tool_call>'


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_tools(client: openai.OpenAI, stream: bool) -> None:
    made = client.chat.completions.create(
        model="letters", messages=say(f"I see {CALL}"), temperature=0, tools=TOOLS, stream=stream
    )  # type: ignore[call-overload]
    if stream:
        chunks = list(made)
        text = "".join(c.choices[0].delta.content or "" for c in chunks)
        calls = [call for c in chunks for call in c.choices[0].delta.tool_calls or []]
        reason = chunks[-1].choices[0].finish_reason
    else:
        choice = made.choices[0]
        text, calls, reason = choice.message.content, choice.message.tool_calls, choice.finish_reason
    assert text.strip() == "I see"
    assert [(c.type, c.function.name, json.loads(c.function.arguments)) for c in calls] == [
        ("function", "weather", {"city": "Rom"})
    ]
    assert reason == "tool_calls"


def test_a_conversation_about_tools(client: openai.OpenAI) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rom"}'}}
    messages = [
        {"role": "user", "content": "how is it?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "say warm;"},
    ]
    made = client.chat.completions.create(model="letters", messages=messages, temperature=0, tools=TOOLS)  # type: ignore[arg-type]
    assert made.choices[0].message.content == "warm"
    assert made.choices[0].message.tool_calls is None


def test_models(client: openai.OpenAI) -> None:
    assert [m.id for m in client.models.list()] == ["letters"]
    assert client.models.retrieve("letters").owned_by == "minnow"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other/model")


def test_health_and_metrics(url: str, client: openai.OpenAI) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    def numbers() -> dict[str, float]:
        text = http.get(f"{url}/metrics").text
        found = {}
        for family in text_string_to_metric_families(text):
            for s in family.samples:
                found[s.name + "".join(sorted(s.labels.values()))] = s.value
        return found

    assert http.get(f"{url}/health").json() == {"status": "ok"}
    before = numbers()
    client.chat.completions.create(model="letters", messages=say("abc"), temperature=0)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="letters", messages=[])
    after = numbers()

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown("minnow_tokens_totalanswer") == 3
    assert grown("minnow_answers_totalstop") == 1
    assert grown("minnow_requests_total/v1/chat/completions200") == 1
    assert grown("minnow_requests_total/v1/chat/completions400") == 1
    assert grown("minnow_first_token_seconds_count") == 1
    assert after["minnow_answers_running"] == 0


def test_embeddings() -> None:
    with served(fake_llm(kind="embed")) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        made = client.embeddings.create(model="letters", input=["ab", "abc"])  # base64 on the wire
        assert [len(row.embedding) for row in made.data] == [8, 8]
        plain = client.embeddings.create(model="letters", input="abc", encoding_format="float")
        assert plain.data[0].embedding == made.data[1].embedding
        assert (plain.usage.prompt_tokens, plain.usage.total_tokens) == (3, 3)
        with pytest.raises(openai.BadRequestError, match="not what was asked for"):
            client.chat.completions.create(model="letters", messages=say("a"))


CHAT = "/v1/chat/completions"
WRONG = [
    (CHAT, b"", 400, "invalid_json"),
    (CHAT, b"{", 400, "invalid_json"),
    (CHAT, b"[]", 400, "invalid_json"),
    (CHAT, b'{"messages": NaN}', 400, "invalid_json"),
    (CHAT, b'{"messages": ' + b"[" * 500 + b"]" * 500 + b"}", 400, "invalid_json"),
    (CHAT, b"[" * 50_000, 400, "invalid_json"),
    (CHAT, b'{"messages": "\xff\xfe"}', 400, "invalid_utf8"),
    (CHAT, b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "invalid_utf8"),
    (CHAT, b" " * 100_001, 413, "body_too_large"),
    (CHAT, {}, 400, "invalid_value"),
    (CHAT, {"messages": []}, 400, "invalid_value"),
    (CHAT, {"messages": [5]}, 400, "invalid_value"),
    (CHAT, {"messages": [{"role": "user"}]}, 400, "invalid_value"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "unsupported"),
    (CHAT, {"messages": say("x" * 500)}, 400, "context_length_exceeded"),
    (CHAT, {"messages": say("x"), "model": "other"}, 404, "model_not_found"),
    (CHAT, {"messages": say("x"), "temperature": -1}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "temperature": "hot"}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "top_p": 2}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "max_tokens": 0}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "n": 5}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "n": True}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "stop": [""]}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "stop": ["a"] * 17}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "stream": 1}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "top_logprobs": 2}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "logit_bias": {"257": 1}}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "logit_bias": {"1": 1000}}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "tools": [{"type": "function"}]}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "tool_choice": "required"}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "response_format": {"type": "xml"}}, 400, "invalid_value"),
    (CHAT, {"messages": say("x"), "functions": [{"name": "f"}]}, 400, "unsupported"),
    ("/v1/completions", {"prompt": ""}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": [1, "a"]}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": [300]}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": [1, True]}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": ["a"] * 65}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "unsupported"),
    ("/v1/embeddings", {"input": "a"}, 400, "invalid_value"),
    ("/v1/rerank", {"query": "a", "documents": ["b"]}, 400, "invalid_value"),
    ("/v1/rerank", {"documents": ["b"]}, 400, "invalid_value"),
    ("/v1/rerank", {"query": "a", "documents": []}, 400, "invalid_value"),
    ("/v1/rerank", {"query": "a", "documents": "b"}, 400, "invalid_value"),
    ("/v1/rerank", {"query": "a", "documents": [{"title": "b"}]}, 400, "invalid_value"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": 0}, 400, "invalid_value"),
    ("/v1/nothing", {}, 404, "not_found"),
    ("/health", {}, 405, "not_found"),
]


@pytest.mark.parametrize(("path", "body", "status", "code"), WRONG, ids=lambda v: str(v)[:40])
def test_what_is_wrong_is_said(url: str, path: str, body: bytes | dict, status: int, code: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = http.post(url + path, content=content, headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error"), error
    assert error["message"]


def test_only_json_is_taken(url: str) -> None:
    """A page of another site can send a form without asking, but no JSON."""
    answer = http.post(url + CHAT, content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


def test_the_key(llm: LLM) -> None:
    with served(fake_llm(), api_key="sésame") as url:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
            answer = http.get(f"{url}/v1/models", headers=given)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        key = b"Bearer " + "sésame".encode()
        assert http.get(f"{url}/v1/models", headers=[(b"Authorization", key)]).status_code == 200
        assert http.get(f"{url}/health").status_code == 200
        assert http.get(f"{url}/metrics").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
def test_other_names_of_this_machine_are_refused(url: str, host: str) -> None:
    assert http.get(f"{url}/v1/models", headers={"Host": host}).status_code == 403


def test_a_full_queue_is_told() -> None:
    llm = fake_llm(sequences=1, queue=1)
    llm.model.gate = threading.Event()
    with served(llm) as url:
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
        threads = [threading.Thread(target=http.post, args=(url + CHAT,), kwargs={"json": body, "timeout": 60})]
        threads += [threading.Thread(target=http.post, args=(url + CHAT,), kwargs={"json": body, "timeout": 60})]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 30
        while llm.batch.running + llm.batch.waiting < 2 and time.monotonic() < end:
            time.sleep(0.005)
        answer = http.post(url + CHAT, json=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (429, "rate_limit_error")
        assert answer.headers["retry-after"] == "1"
        llm.model.gate.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_when_its_client_goes(stream: bool) -> None:
    llm = fake_llm(pause=0.01, context=10_000)
    with served(llm) as url:
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9000, "stream": stream}
        if stream:
            with http.stream("POST", url + CHAT, json=body) as answer:
                next(answer.iter_lines())
                assert llm.batch.running == 1
        else:
            with pytest.raises(httpx.ReadTimeout):
                http.post(url + CHAT, json=body, timeout=0.5)
        end = time.monotonic() + 10
        while llm.batch.running and time.monotonic() < end:
            time.sleep(0.01)
        assert llm.batch.running == 0


@pytest.mark.slow
def test_slow_headers_end_a_connection_and_slow_answers_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minnow.llm.server.connection.SLOWEST_HEADERS", 5.0)
    llm = fake_llm()
    llm.model.gate = threading.Event()
    with served(llm) as url, ThreadPoolExecutor() as pool:
        answer = pool.submit(http.post, url + CHAT, json={"messages": say("a"), "temperature": 0}, timeout=60)
        end = time.monotonic() + 30
        while not llm.batch.running + llm.batch.waiting and time.monotonic() < end:
            time.sleep(0.005)
        host, _, port = url.removeprefix("http://").rpartition(":")
        parts = (
            b"",
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n",
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        )
        silent, begun, kept = connections = [socket.create_connection((host, int(port)), timeout=60) for _ in parts]
        for connection, part in zip(connections, parts, strict=True):
            connection.sendall(part)
        text = b""
        while not text.endswith(b'{"status":"ok"}'):
            text += kept.recv(1000) or pytest.fail(text.decode())
        kept.sendall(b"GET /he")  # its second request
        assert [connection.recv(100) for connection in (silent, begun, kept)] == [b"", b"", b""]
        for connection in connections:
            connection.close()
        llm.model.gate.set()
        assert answer.result().json()["choices"][0]["message"]["content"] == "a"


def test_answers_together_are_those_alone(llm: LLM, url: str) -> None:
    def ask(prompt: str) -> str:
        body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 40}
        answer = http.post(url + CHAT, json=body, timeout=60)
        return answer.json()["choices"][0]["message"]["content"]

    prompts = [f"prompt {i}" + " more" * i for i in range(8)]
    alone, together = [ask(prompt) for prompt in prompts], {}
    threads = [threading.Thread(target=lambda p: together.update({p: ask(p)}), args=(p,)) for p in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[p] for p in prompts] == alone
    assert len(set(alone)) > 1


def test_an_error_of_the_model_is_an_error_of_the_answer(llm: LLM, url: str) -> None:
    llm.model.fails = RuntimeError("broken")
    answer = http.post(url + CHAT, json={"messages": say("a")})
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
    assert "broken" not in answer.text
    llm.model.fails = MemoryError()
    with http.stream("POST", url + CHAT, json={"messages": say("a"), "stream": True}) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert events[-1]["error"]["code"] == "out_of_memory"
    assert http.post(url + CHAT, json={"messages": say("a")}).status_code == 200
