"""Images in messages: answers compared with those of transformers, with its processor."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from fake_llm import fake_llm
from language_families import quiet
from seeing_folder import TEMPLATE, seeing_folder

import minnow.llm
from minnow import convert
from minnow.cli._app import run
from minnow.llm.llm import LLM
from minnow.schema.errors import FormatError, UsageError


def _picture(seed: int, height: int = 40, width: int = 31) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


class Seeing:
    """A model of transformers and ours."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.model, self.processor = seeing_folder(folder / "source", **options)
        convert(folder / "source", output=folder / "made")
        self.folder = folder / "made"
        self.llm = self.load()

    def load(self, **options: Any) -> LLM:
        return minnow.llm.load(self.folder, **{"threads": 1, "precision": "high", "cache": "f32", **options})

    def wanted(self, messages: list[dict[str, Any]], count: int) -> tuple[list[int], list[int]]:
        """The tokens of the prompt, and of the greedy answer."""
        given = self.processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        given.pop("token_type_ids", None)
        made = quiet(lambda: self.model.generate(**given, max_new_tokens=count, do_sample=False))
        size = given["input_ids"].shape[1]
        return made[0, :size].tolist(), made[0, size:].tolist()


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Seeing:
    return Seeing(tmp_path_factory.mktemp("seeing"))


def image(seed: int) -> dict[str, Any]:
    return {"type": "image", "image": PIL.Image.fromarray(_picture(seed))}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


CHATS: dict[str, list[dict[str, Any]]] = {
    "no image": [{"role": "user", "content": [text("What is this?")]}],
    "one image": [{"role": "user", "content": [image(1), text("What is this?")]}],
    "two images": [{"role": "user", "content": [image(1), text("Which is it?"), image(2)]}],
    "a chat": [
        {"role": "user", "content": [text("This is it:"), image(3)]},
        {"role": "assistant", "content": [text("I see.")]},
        {"role": "user", "content": [image(1), text("And this?")]},
    ],
}


@pytest.mark.parametrize("name", CHATS)
def test_answers_are_those_of_transformers(name: str, seeing: Seeing) -> None:
    prompt, answer = seeing.wanted(CHATS[name], 12)
    tokens = seeing.llm.prompt_tokens(CHATS[name])
    mark = seeing.llm.description.image.token  # type: ignore[union-attr]
    assert [t if t < 1 << 32 else mark for t in tokens] == prompt
    result = seeing.llm.generate(CHATS[name], temperature=0, max_tokens=12).result
    ended = answer.index(1) if 1 in answer else len(answer)
    assert result.tokens == answer[:ended]
    assert result.usage.prompt == len(prompt)


def test_answers_of_a_batch_are_those_alone(seeing: Seeing) -> None:
    """Texts with no, one and two images at the same time, and with penalties, for which rows of images count once."""
    options = {"temperature": 0, "max_tokens": 10, "repetition_penalty": 1.3, "frequency_penalty": 0.5}
    alone = [seeing.load().generate(chat, **options).result.tokens for chat in CHATS.values()]
    other = seeing.load()
    together = [other.generate(chat, **options) for chat in CHATS.values()]
    assert [g.result.tokens for g in together] == alone
    assert len({tuple(tokens) for tokens in alone}) > 1


def test_the_forms_of_an_image(seeing: Seeing, tmp_path: Path) -> None:
    picture = _picture(7)
    file = io.BytesIO()
    PIL.Image.fromarray(picture).save(file, "PNG")
    path = tmp_path / "a.png"
    path.write_bytes(file.getvalue())
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    parts: list[dict[str, Any]] = [
        {"type": "image", "image": form} for form in (picture, path, str(path), file.getvalue(), url)
    ]
    parts += [{"type": "image_url", "image_url": {"url": url}}, {"type": "image_url", "image_url": url}]
    llm = seeing.llm
    made = [llm.prompt_tokens([{"role": "user", "content": [part, text("?")]}]) for part in parts]
    made += [
        llm.prompt_tokens("?", images=[path]),
        llm.prompt_tokens([{"role": "user", "content": "?"}], images=[path]),
        llm.prompt_tokens("USER: <image>? ASSISTANT:", images=[path], raw=True),
        llm.prompt_tokens(llm.prompt_tokens("?", images=[path])),
    ]
    assert all(tokens == made[0] for tokens in made)
    want = llm.generate(made[0], temperature=0, max_tokens=5).result.tokens
    assert llm.generate("?", images=picture, temperature=0, max_tokens=5).result.tokens == want
    again = llm.generate(made[0], temperature=0, max_tokens=5).result
    assert again.tokens == want
    assert llm.generate("?", images=[_picture(8)], temperature=0, max_tokens=5).result.tokens is not None


def test_a_template_of_plain_texts(tmp_path: Path) -> None:
    """A mark stands in front of the text then, as LLaVA's own programs write it."""
    plain = "{% for message in messages %}{{ message['content'] + ' ' }}{% endfor %}ASSISTANT:"
    made = Seeing(tmp_path, template=plain)
    llm, mark = made.llm, made.llm.description.image.token  # type: ignore[union-attr]
    assert llm.apply_chat_template([{"role": "user", "content": [text("a"), image(1), text("b")]}]) == (
        "a<image>\nb ASSISTANT:"
    )
    tokens = llm.prompt_tokens("b", images=[_picture(1)])
    want = llm.encode("<image>\nb ASSISTANT:", template=True)
    assert [t for t in tokens if t < 1 << 32] == [t for t in want if t != mark]


def test_a_draft_guesses_nothing_for_prompts_with_images(seeing: Seeing) -> None:
    llm = seeing.load(draft="ngram")
    want = seeing.llm.generate(CHATS["one image"], temperature=0, max_tokens=12).result
    got = llm.generate(CHATS["one image"], temperature=0, max_tokens=12).result
    assert got.tokens == want.tokens
    assert got.usage.drafted == 0


def test_wrong_prompts(seeing: Seeing) -> None:
    llm, picture = seeing.llm, _picture(1)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        ("USER: what? ASSISTANT:", {"images": [picture], "raw": True}, "0 places for images, and 1 image"),
        ("<image>", {}, "1 place for images, and 0 images"),
        ("<image>", {"images": [picture]}, "2 places for images, and 1 image"),
        ("?", {"images": [picture] * 30}, "the prompt is too long"),
        ("?", {"images": ["https://example.com/a.png"]}, "not fetched"),
        ([{"role": "user", "content": [{"type": "image"}]}], {}, "a part of the type 'image'"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": 5}}]}], {}, "'image_url'"),
        ([{"role": "user", "content": [{"type": "video", "video": "a"}]}], {}, "'video'"),
        ([{"role": "user", "content": ["a"]}], {}, "something else than parts"),
        ([{"role": "user", "content": [{"type": "text"}]}], {}, "a part of the type 'text'"),
        ([{"role": "user", "content": [{"type": []}]}], {}, "something else than parts"),
    ]
    for prompt, options, why in cases:
        with pytest.raises(UsageError, match=why):
            llm.generate(prompt, **options)
    with pytest.raises(FormatError, match="no image"):
        llm.generate("?", images=[b"\x89PN"])


def test_the_command_line(
    seeing: Seeing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    llm, folder, path = seeing.llm, str(seeing.folder), str(tmp_path / "a.png")
    PIL.Image.fromarray(_picture(5)).save(path)
    rest = ["--temperature", "0", "-n", "6"]
    monkeypatch.setattr(minnow.llm, "load", lambda where, **options: llm)

    def answer(*images: str) -> str:
        return str(llm.generate("What?", images=images, temperature=0, max_tokens=6).result.text + "\n")

    assert answer(path) != answer()
    assert run(["llm", "run", folder, "-p", "What?", "--image", path, "--image", path, *rest]) == 0
    assert capsys.readouterr().out == answer(path, path)
    assert run(["llm", "run", folder, "-p", "USER: <image>What? ASSISTANT:", "--raw", "--image", path, *rest]) == 0
    assert capsys.readouterr().out == answer(path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("What?\n/reset\nWhat?\n"))
    assert run(["llm", "chat", folder, "--image", path, *rest]) == 0
    assert capsys.readouterr().out == answer(path) * 2
    assert run(["llm", "run", folder, "-p", "What?", "--image", str(tmp_path / "b.png"), *rest]) == 6
    assert "the image cannot be read" in capsys.readouterr().err
    assert run(["llm", "run", folder, "-p", "What?", "--image", "http://example.com/a.png", *rest]) == 2
    assert "not fetched from the network" in capsys.readouterr().err


def test_models_that_see_no_images() -> None:
    llm = fake_llm()
    for prompt, options in (
        ("?", {"images": ["a.png"]}),
        ("?", {"images": ["a.png"], "raw": True}),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}], {}),
    ):
        with pytest.raises(UsageError, match="the model sees no images"):
            llm.generate(prompt, **options)


def test_weights_of_an_encoder_that_does_not_fit(seeing: Seeing, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(seeing.folder, tmp_path / "copy")
    path = tmp_path / "copy/llm.json"
    table = json.loads(path.read_text())
    for change in ({"rows": 5}, {"size": 99, "crop": [99, 99]}, {"token": 1 << 20}, {"mean": None}, {"filter": "x"}):
        path.write_text(json.dumps({**table, "image": {**table["image"], **change}}))
        with pytest.raises(FormatError):
            minnow.llm.load(tmp_path / "copy")
    path.write_text(json.dumps({**table, "image": None}))
    with pytest.raises(FormatError, match="does not fit its encoder"):
        minnow.llm.load(tmp_path / "copy")


def test_the_template_of_transformers(seeing: Seeing) -> None:
    """A text is a list of one part for it."""
    assert seeing.llm.description.chat_template == TEMPLATE
    assert seeing.llm.apply_chat_template([{"role": "user", "content": "Hi"}]) == "USER: Hi ASSISTANT:"
