"""libminnow_text: its tokenizers give the ids of the package `tokenizers`, its answers are those of Python."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest
from language_model_files import STORIES, STORY, smollm2
from sampling import some_of
from text_library import MARKS, PARSE, ROOT, CModel, CTokenizer, Library, TextError, built, installed, run
from vocabularies import NAMES, random_text, tokenizer_json, vectors

import minnow
import minnow.llm
from minnow.llm.tokenizer import Tokenizer

_BPE = [name for name in NAMES if name != "bert-bge"]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(built())


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stories") / "model"
    minnow.convert(STORIES, output=folder, verify=False)
    return folder


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", _BPE)
def test_ids_and_text_are_those_of_the_package(library: Library, name: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json(name), encoding="utf-8")
    compare(library, path, 300)
    ours = CTokenizer(library, path)
    assert len(vectors(name)) > 40
    for text, ids in vectors(name):
        assert ours.encode(text, flags=PARSE) == ids, text
    ours.close()


def test_the_tokenizer_of_stories(library: Library, stories: Path) -> None:
    compare(library, stories / "tokenizer.json", 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", _BPE)
def test_a_hundred_thousand_random_texts(library: Library, name: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json(name), encoding="utf-8")
    compare(library, path, 100_000)


def compare(library: Library, path: Path, count: int) -> None:
    """Ids, texts of any ids, and texts that stream."""
    ours, theirs = CTokenizer(library, path), Tokenizer.from_file(path, engine="tokenizers")
    plain, rng = Tokenizer.from_file(path, engine="minnow"), random.Random(0)
    for _ in range(count):
        text = random_text(rng, old=True)  # PCRE2 has a newer Unicode than the package
        special, parse = rng.random() < 0.5, rng.random() < 0.5
        ids = theirs.encode(text, special=special, parse=parse)
        assert ours.encode(text, flags=MARKS * special | PARSE * parse) == ids, text
        if rng.random() < 0.3:
            ids = [rng.randrange(plain.size) for _ in range(rng.randint(0, 12))]
        assert ours.decode(ids) == plain.decode(ids), ids
        stream = plain.stream()
        assert ours.pieces(ids) == [*(stream.push(id) for id in ids), stream.finish()], ids
    ours.close()


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


def test_normal_forms_and_expressions(library: Library, tmp_path: Path) -> None:
    """What Qwen and Llama 3 have: NFC, possessive and scoped expressions."""
    whole = json.loads(tokenizer_json("gpt-2"))
    whole["normalizer"] = {"type": "NFC"}
    regex = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
    regex += r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    whole["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": regex}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    ours, theirs = CTokenizer(library, tmp_path), Tokenizer.from_file(tmp_path, engine="tokenizers")
    for text in ["e\u0301te\u0301", "I'LL GO", *(random_text(random.Random(seed), old=True) for seed in range(200))]:
        assert ours.encode(text) == theirs.encode(text), text
    ours.close()


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
        (json.dumps({**base, "model": {"type": "Unigram", "vocab": []}}).encode(), 3),
        (json.dumps({**base, "model": {**base["model"], "merges": [["a", "b"]]}}).encode(), 6),
        (json.dumps({**base, "model": {**base["model"], "vocab": {"a": -1}}}).encode(), 6),
        (json.dumps({**base, "normalizer": {"type": "Lowercase"}}).encode(), 3),
        (json.dumps({**base, "pre_tokenizer": _split("(a")}).encode(), 6),
        (json.dumps({**base, "pre_tokenizer": _split("[a[b]]")}).encode(), 3),
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
