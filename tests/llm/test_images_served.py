"""Images in the messages of a server, through OpenAI's own client and through plain HTTP."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import openai
import PIL.Image
import pytest
from fake_llm import fake_llm, served
from seeing_folder import seeing_folder

import minnow.llm
from minnow import convert
from minnow.llm.llm import LLM

http = httpx.Client(timeout=120)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> LLM:
    folder = tmp_path_factory.mktemp("served")
    seeing_folder(folder / "source")
    convert(folder / "source", output=folder / "made", verify=False)
    return minnow.llm.load(folder / "made", threads=1, sequences=4)


@pytest.fixture(scope="module")
def url(llm: LLM) -> Iterator[str]:
    with served(llm, max_images=2, max_pixels=5000, max_body=100_000) as url:
        yield url


def _file(seed: int, height: int = 40, width: int = 31, form: str = "PNG") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def _data(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _part(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def test_answers_are_those_of_python(llm: LLM, url: str) -> None:
    """Several at a time, with no, one and two images each."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    files = [_file(1), _file(2, form="JPEG")]
    chosen = [[], files[:1], files[1:], files, files[::-1], files[:1] * 2]

    def asked(images: list[bytes]) -> tuple[str | None, int]:
        parts: Any = [{"type": "text", "text": "What is this?"}, *(_part(_data(file)) for file in images)]
        made = client.chat.completions.create(
            model=llm.description.name, messages=[{"role": "user", "content": parts}], temperature=0, max_tokens=6
        )
        assert made.usage is not None
        return made.choices[0].message.content, made.usage.prompt_tokens

    with ThreadPoolExecutor(len(chosen)) as pool:
        got = list(pool.map(asked, chosen))
    assert llm.description.image is not None
    for images, (answer, size) in zip(chosen, got, strict=True):
        want = llm.generate("What is this?", images=images, temperature=0, max_tokens=6).result
        assert answer == want.text
        assert size == got[0][1] + len(images) * llm.description.image.rows
    assert len({answer for answer, _ in got}) > 2


_GOOD = _part(_data(_file(3)))
WRONG: dict[str, tuple[Any, str]] = {
    "an address": (_part("https://example.com/a.png"), "not fetched from the network"),
    "a file": (_part("/etc/hostname"), "no data: URL"),
    "a file by its address": (_part("file:///etc/hostname"), "not fetched from the network"),
    "no comma": (_part("data:image/png;base64"), "no comma"),
    "no base64": (_part("data:image/png;base64,&&&&"), "no base64"),
    "no image": (_part(_data(b"hello")), "no image"),
    "nothing": (_part(_data(b"")), "no bytes"),
    "half an image": (_part(_data(_file(4)[:300])), "damaged"),
    "too large": (_part(_data(_file(4, 80, 80))), "too large"),
    "no url": (_part(None), "without a url"),
    "a number": ({"type": "image_url", "image_url": 5}, "without a url"),
    "of Python": ({"type": "image", "image": "/etc/hostname"}, "the model reads text and images only"),
    "sound": ({"type": "input_audio", "input_audio": {}}, "the model reads text and images only"),
    "a mark": ({"type": "text", "text": "<image>"}, "2 places for images, and 1 image"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_images(name: str, url: str) -> None:
    part, why = WRONG[name]
    for parts in ([_GOOD, part], [part, _GOOD]):
        answer = http.post(
            f"{url}/v1/chat/completions", json={"messages": [{"role": "user", "content": parts}], "max_tokens": 1}
        )
        assert answer.status_code == 400, answer.text
        assert why in answer.json()["error"]["message"]
        if name != "a mark":
            assert answer.json()["error"]["param"] == "messages[0].content"


def test_too_many_images(url: str) -> None:
    messages = [{"role": "user", "content": [_GOOD]}] * 3
    answer = http.post(f"{url}/v1/chat/completions", json={"messages": messages})
    assert answer.status_code == 400
    assert "more than 2 images" in answer.json()["error"]["message"]
    answer = http.post(
        f"{url}/v1/chat/completions", json={"messages": [{"role": "user", "content": [_part("x" * 100_000)]}]}
    )
    assert answer.status_code == 413


def test_a_model_that_sees_no_images() -> None:
    with served(fake_llm()) as url:
        answer = http.post(f"{url}/v1/chat/completions", json={"messages": [{"role": "user", "content": [_GOOD]}]})
    assert answer.status_code == 400
    assert "the model reads text only" in answer.json()["error"]["message"]
