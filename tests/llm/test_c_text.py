"""libminnow_text: its tokenizers give the ids of the package `tokenizers`, its answers are those of Python."""

from __future__ import annotations

import base64
import json
import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest
from language_model_files import STORIES, STORY, smollm2
from sampling import some_of
from text_library import ROOT, CModel, CTokenizer, Library, TextError, built, installed, run

import minnow
import minnow.llm


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(built())


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stories") / "model"
    minnow.convert(STORIES, output=folder, verify=False)
    return folder


@pytest.mark.slow
def test_the_library_by_itself(stories: Path, tmp_path: Path) -> None:
    """Built against an installed libminnow, and an example against both, with what pkg-config says."""
    prefix = installed(tmp_path)
    (folder,) = prefix.glob("lib*/**/pkgconfig")
    asked = ["pkg-config", "--cflags", "--libs", "minnow_text"]
    flags = subprocess.run(
        asked, env={**os.environ, "PKG_CONFIG_PATH": str(folder)}, capture_output=True, text=True, check=True
    ).stdout
    assert all(word in flags for word in ("-lminnow ", "-lminnow_text", "-I"))
    program, rpath = tmp_path / "story", f"-Wl,-rpath,{folder.parent}"
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    run("cc", ROOT / "examples/text/story.c", *strict, *shlex.split(flags), rpath, "-o", program)
    done = subprocess.run([program, stories, "Once upon a time"], capture_output=True, text=True, check=True)
    assert ("Once upon a time" + done.stdout).startswith(STORY[:100])
    assert done.stdout.endswith("\n60 tokens after 5\n")
    done = subprocess.run([program, tmp_path, "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 6
    assert "llm.json: the file cannot be read" in done.stderr


def test_answers_are_those_of_python(library: Library, stories: Path) -> None:
    python, c = minnow.llm.load(stories), CModel(library, stories)
    for prompt in ["Once upon a time", "The dog", "Once upon a hill", "Lily  \u00e9"]:
        want = python.generate(prompt, temperature=0, max_tokens=60).result
        text, tokens, result = c.generate(prompt, temperature=0, max_tokens=60)
        assert (text, tokens) == (want.text, list(want.tokens)), prompt
        assert result.prompt_tokens == len(python.encode(prompt))
        for options in (
            {},
            {"temperature": 1.3, "top_k": 0, "min_p": 0.02, "top_p": 0.9},
            {"temperature": 1.0, "repetition_penalty": 1.3, "presence_penalty": 0.2, "frequency_penalty": 0.1},
        ):
            c.generate([3], max_tokens=1)  # else the prompt is in the cache, and what is left of it rounds otherwise
            want = python.generate(prompt, seed=7, max_tokens=50, **options).result
            assert c.generate(prompt, seed=7, max_tokens=50, **options)[1] == list(want.tokens), (prompt, options)
    python.close()
    c.close()


def test_the_ends_of_answers(library: Library, stories: Path) -> None:
    c = CModel(library, stories)
    whole, tokens, result = c.generate("Once upon a time", temperature=0, max_tokens=40)
    assert (result.reason, result.num_tokens, len(tokens)) == (1, 40, 40)
    stop = whole[30:36]
    text, _, result = c.generate("Once upon a time", temperature=0, stop=("@@", stop))
    assert (text, result.reason) == (whole[: whole.index(stop)], 0)
    assert result.cached_tokens == result.prompt_tokens - 1
    text, tokens, result = c.generate("Once upon a time", temperature=0, end_after=5)
    assert result.reason == 2
    assert len(tokens) <= 6
    assert whole.startswith(text)
    full, _, result = c.generate("Once upon a time", temperature=0)
    assert full.startswith(whole)
    assert result.prompt_tokens + result.num_tokens <= 512
    for prompt, options in (
        ("", {"flags": 0}), ([], {}), ([-1], {}), ([512], {}), ([5] * 600, {}), ("x", {"temperature": -1.0}),
        ("x", {"top_p": 0.0}), ("x", {"min_p": 2.0}), ("x", {"top_k": -1}), ("x", {"stop": ("",)}),
        ("x", {"repetition_penalty": 0.0}), ("x", {"max_tokens": -1}),
    ):  # fmt: skip
        with pytest.raises(TextError) as caught:
            c.generate(prompt, **options)
        assert caught.value.code == 2
    assert c.generate("Once upon a time", temperature=0, max_tokens=40)[0] == whole
    c.close()


@pytest.mark.slow
def test_smollm2_answers_as_in_python(library: Library, tmp_path: Path) -> None:
    minnow.convert(smollm2(), output=tmp_path / "model", verify=False)
    python, c = minnow.llm.load(tmp_path / "model"), CModel(library, tmp_path / "model")
    for question in ("What is the capital of France?", "Count to five.", "Why is the sky blue?"):
        prompt = python.apply_chat_template([{"role": "user", "content": question}])
        want = python.generate(question, temperature=0, max_tokens=40).result
        text, tokens, _ = c.generate(prompt, temperature=0, max_tokens=40, flags=2)
        assert (text, tokens) == (want.text, list(want.tokens))
    python.close()
    c.close()


def test_damaged_files_are_errors(library: Library, stories: Path, tmp_path: Path) -> None:
    """Random changes of both texts: a code, never a crash; what loads works."""
    source = {name: (stories / name).read_bytes() for name in ("llm.json", "tokenizer.json")}
    for name in ("model.mnn", "model.mnn.weight"):
        (tmp_path / name).symlink_to(stories / name)
    rng = random.Random(3)
    codes: dict[int, int] = {}
    count = some_of(400)
    for i in range(count):
        for name, data in source.items():
            (tmp_path / name).write_bytes(data)
        name = "tokenizer.json" if i % 2 else "llm.json"
        (tmp_path / name).write_bytes(_changed(source[name], rng))
        try:
            tokenizer = CTokenizer(library, tmp_path)
            tokenizer.decode(tokenizer.encode("Lily \u00e9 <s> \U0001f600"))
            tokenizer.close()
            model = CModel(library, tmp_path)
            model.generate("x", temperature=0, max_tokens=2)
            model.close()
        except TextError as e:
            codes[e.code] = codes.get(e.code, 0) + 1
    assert set(codes) <= {2, 3, 6}
    assert codes[6] > count // 8


def test_models_that_see_are_refused(library: Library, stories: Path, tmp_path: Path) -> None:
    for path in stories.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "llm.json").unlink()
    about = json.loads((stories / "llm.json").read_text())
    (tmp_path / "llm.json").write_text(json.dumps({**about, "image": {"token": 1, "rows": 4, "size": 8}}))
    with pytest.raises(TextError, match="the model sees images") as e:
        CModel(library, tmp_path)
    assert e.value.code == 3


def _changed(data: bytes, rng: random.Random) -> bytes:
    at, kind = rng.randrange(min(len(data), 3000)), rng.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + data[at + rng.randrange(40) :]
    if kind == 3:
        return (
            data[:at] + rng.choice([b"-1", b"null", b"[[[[", b"{", b"99999999999999999999", b'"', b"1e9"]) + data[at:]
        )
    words = [b"true", b"false", b"null", b"1", b"0", b"BPE", b"Replace", b"Sequence", b"32", b"512"]
    return data.replace(rng.choice(words), rng.choice(words), 1)


def test_hostile_files_are_errors(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    base = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
    cases: list[tuple[bytes, int]] = [
        (b"[" * 2_000_000, 6),
        (b'{"model":' * 200_000, 6),
        (b"{}", 6),
        (json.dumps({**base, "model": {"type": "WordLevel", "vocab": {}}}).encode(), 3),
        (json.dumps({**base, "model": {"type": "Unigram", "vocab": [["a", 1e99]]}}).encode(), 6),
        (json.dumps({**base, "model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": 1}}).encode(), 6),
        (json.dumps({**base, "model": {"type": "WordPiece", "vocab": {"a": 0}}}).encode(), 6),
        (json.dumps({**base, "model": {**base["model"], "merges": [["a", "b"]]}}).encode(), 6),
        (json.dumps({**base, "model": {**base["model"], "vocab": {"a": -1}}}).encode(), 6),
        (json.dumps({**base, "normalizer": {"type": "Uppercase"}}).encode(), 3),
        (json.dumps({**base, "normalizer": _table(b"\xff\xff\xff\x7f")}).encode(), 6),
        (json.dumps({**base, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "A==="}}).encode(), 6),
        (json.dumps({**base, "pre_tokenizer": _split("(a")}).encode(), 6),
        (json.dumps({**base, "pre_tokenizer": _split("[a[b]]")}).encode(), 3),
        (json.dumps({**base, "pre_tokenizer": _split(r"[^\W]")}).encode(), 3),
    ]
    for data, code in cases:
        path.write_bytes(data)
        with pytest.raises(TextError) as caught:
            CTokenizer(library, path)
        assert caught.value.code == code, data[:80]
    path.write_text(json.dumps({**base, "pre_tokenizer": _split("(a+)+$")}))
    slow = CTokenizer(library, path)
    with pytest.raises(TextError, match="takes too long"):
        slow.encode("a" * 5000 + "b")
    with pytest.raises(TextError, match="no UTF-8"):
        slow.encode(b"\xff")
    assert slow.encode("aa") == [0, 0]
    slow.close()
    with pytest.raises(TextError, match="cannot be read") as caught:
        CModel(library, tmp_path / "none")
    assert caught.value.code == 6


def _split(regex: str) -> dict[str, object]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated"}


def _table(data: bytes) -> dict[str, str]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()}
