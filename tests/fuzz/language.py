"""What stands beside the graph of a language model: tokenizers, chat templates, adapters; and folders of MNN-LLM."""

from __future__ import annotations

import json
import random
import re
import struct
import tempfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.checkpoints import gguf_files, model_folders
from fuzz.members import Files, damaged_document, damaged_tensors, members, unpacked
from fuzz.probe import Finding
from fuzz.tables import damaged_bytes, damaged_mnn

import minnow
from minnow.llm.lora import CONFIG, WEIGHTS, adapt, open_adapter
from minnow.llm.template import ChatTemplate
from minnow.llm.tokenizer import Tokenizer, pattern
from minnow.schema.errors import UsageError
from minnow.schema.ir import Model
from minnow.schema.mnn import decode, encode

_TEXTS = ("ab <x> abab 中 é\r\n 12,345", "a" * 50, "")
_PACKAGE = 8
"""Of so many tokenizers, one is given to the package `tokenizers`, too."""
_PATTERN_SECONDS = 0.5


def tokenizer_files() -> list[bytes]:
    """Each kind of model, and each kind of step around one."""
    from test_tokenizer_damage import files

    return [json.dumps(file).encode() for file in files()]


def damaged_tokenizer(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """Another file; or one of its parts is that of another."""
    if dice.random() < 0.3:
        try:
            whole, spare = json.loads(data), json.loads(other)
            key = dice.choice(sorted(spare))
            whole[key] = spare[key]
            return json.dumps(whole).encode()
        except (ValueError, TypeError, RecursionError):
            pass
    return damaged_document(data, dice)


def read_tokenizer(path: Path, _: random.Random) -> object:
    """A tokenizer, with which texts are split and put together again."""
    pattern.SECONDS = _PATTERN_SECONDS
    data = path.read_bytes()
    tokenizer = Tokenizer.from_json(data, engine="minnow")
    for text in _TEXTS:
        ids = tokenizer.encode(text, text)
        tokenizer.decode(ids)
        stream = tokenizer.stream()
        stream.push(*ids)
        stream.finish()
    if zlib.crc32(data) % _PACKAGE == 0:
        Tokenizer.from_json(data).encode(_TEXTS[0])
    return tokenizer


_WORD = re.compile(rb"\w+|\s+|[^\w\s]")
_INNER = ("class '", "function ", "built-in", "bound method", "module '", " object at 0x", "generator object")
_FRAGMENTS = [
    b"__class__", b"__mro__", b"__subclasses__()", b"__globals__", b"__init__", b"__builtins__", b"|attr('__class__')",
    b"['__class__']", b".format_map", b".format", b"self", b"self._TemplateReference__context", b"loop", b"caller",
    b"cycler", b"joiner", b"lipsum", b"namespace", b"range(10**9)", b"range(999)", b"environment", b"environment.spend",
    b"raise_exception", b"strftime_now", b"{% import 'x' as x %}", b"{% include '/etc/passwd' %}", b"{% extends 'x' %}",
    b"{% for a in range(9999) %}", b"{% endfor %}", b"{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(1) }}", b"|map(",
    b"|selectattr(", b"|groupby('role')", b"|sort(attribute='__class__')", b"|tojson(indent=9)", b"'%9999d'", b"*10**8",
    b"~", b"|list", b"|join", b"|first", b"|items", b"|string", b"|safe", b"|batch(2)", b"|pprint", b"|xmlattr",
    b"|urlize", b"{% set ns = namespace(a=ns) %}", b"{% call m() %}", b"{% filter upper %}", b"{% do 1 %}", b"**",
    b"//0", b"messages.append(1)", b"messages.pop", b".__doc__", b"{% generation %}", b"{% endgeneration %}",
    b"{% raw %}",
    b"{% with a = 1 %}", b"{% autoescape true %}", b"{% trans %}", b"{% break %}", b"{{ ", b" }}", b"\\x00", b"\xff",
]  # fmt: skip


def templates() -> list[bytes]:
    """Those of well-known families."""
    from chat_templates import TEMPLATES

    return [text.encode() for text in TEMPLATES.values()]


def harmful_templates() -> list[bytes]:
    from test_template import HARMFUL

    return [text.encode() for text in HARMFUL if len(text) < 1 << 14]


def damaged_template(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """Words are others, of this template, of another one, or such as lead out of a sandbox."""
    if dice.random() < 0.1:
        return damaged_bytes(data, dice)
    words = _WORD.findall(data) or [b" "]
    spare = [*words, *_WORD.findall(other)]
    for _ in range(dice.randint(1, 4)):
        at, what = dice.randrange(len(words)), dice.random()
        new = dice.choice(spare) if what < 0.4 else dice.choice(_FRAGMENTS)
        if what < 0.6:
            words[at] = new
        elif what < 0.9:
            words.insert(at, new)
        elif len(words) > 1:
            del words[at]
    return b"".join(words)


def render_template(path: Path, _: random.Random) -> object:
    """The texts of chats. What a template shows of Python itself is a way out."""
    from chat_templates import CHATS, TOOLS

    data = path.read_bytes()
    source = data.decode(errors="replace")
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    given = source + str(CHATS) + str(TOOLS)
    for i, chat in enumerate(CHATS.values()):
        try:
            text = template.render(chat, tools=TOOLS if i % 2 else None)
        except UsageError as e:  # the template does not accept this chat
            text = str(e)
        shown = [word for word in _INNER if word in text and word not in given]
        if shown:
            raise Finding(f"shows a {shown[0].strip()}", "", text[:3000])
    return template


@lru_cache(1)
def _checkpoint() -> Files:
    return members(model_folders()[0])


_graphs: list[bytes] = []


def _step_graph(folder: Path) -> bytes:
    """The graph that adapters change; made in a folder the first time."""
    from minnow.converter.llm.build import build
    from minnow.converter.llm.checkpoint import open_checkpoint

    if not _graphs:
        files = {folder / name: data for name, data in _checkpoint().items()}
        for file, data in files.items():
            file.write_bytes(data)
        _graphs.append(encode(build(open_checkpoint(folder))))
        for file in files:
            file.unlink()
    return _graphs[0]


def adapters() -> list[bytes]:
    """Adapters for some products of a small model, with and without tables of their own."""
    from torch_damage import archive_of

    found = []
    size = struct.unpack("<Q", _checkpoint()["model.safetensors"][:8])[0]
    table = json.loads(_checkpoint()["model.safetensors"][8 : 8 + size])
    for parts, more in (
        (("q_proj", "v_proj"), {}),
        (("k_proj", "o_proj", "up_proj"), {"use_rslora": True, "alpha_pattern": {"k_proj": 3}}),
    ):
        rows: dict[str, Any] = {}
        data = b""
        for name, entry in table.items():
            if name.split(".")[-2] not in parts:
                continue
            outputs, inputs = entry["shape"]
            for letter, shape in (("A", (2, inputs)), ("B", (outputs, 2))):
                numbers = np.full(shape, 0.25, np.float32).tobytes()
                place = [len(data), len(data) + len(numbers)]
                key = f"base_model.model.{name.removesuffix('.weight')}.lora_{letter}.weight"
                rows[key] = {"dtype": "F32", "shape": list(shape), "data_offsets": place}
                data += numbers
        head = json.dumps(rows).encode()
        config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": list(parts), "bias": "none", **more}
        weights = struct.pack("<Q", len(head)) + head + data
        found.append(archive_of({CONFIG: json.dumps(config).encode(), WEIGHTS: weights}))
    return found


def damaged_adapter(files: Files, _: Files, dice: random.Random) -> None:
    name = dice.choice((CONFIG, WEIGHTS, WEIGHTS))
    files[name] = (damaged_tensors if name == WEIGHTS else damaged_document)(files.get(name, b""), dice)


def read_adapter(path: Path, _: random.Random) -> object:
    """A model that an adapter has changed, as a file."""
    model: Model = decode(np.frombuffer(_step_graph(path.parent), np.uint8))
    adapt(model.graph, open_adapter(unpacked(path)))
    return encode(model)


_GRAPH = "llm.mnn"


def mnn_folders() -> list[bytes]:
    """What we write for MNN's runtime, with float weights and with packed ones."""
    from torch_damage import archive_of

    found = []
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "model.gguf")
        for i, data in enumerate(gguf_files()):
            source.write_bytes(data)
            folder = Path(place, f"{i}")
            minnow.convert(source, output=folder, mnn_llm=True, verify=False)
            found.append(archive_of({p.name: p.read_bytes() for p in sorted(folder.iterdir())}))
    return found


def damaged_mnn_folder(files: Files, _: Files, dice: random.Random) -> None:
    """The graph, the settings, the vocabulary or the numbers are others."""
    name = dice.choice([_GRAPH, _GRAPH, _GRAPH, "llm_config.json", "llm_config.json", *sorted(files)])
    data = files.get(name, b"")
    if name == _GRAPH and dice.random() < 0.9:
        try:
            files[name] = damaged_mnn(data, dice)
            return
        except Exception:  # noqa: BLE001  (the file is damaged already, or cannot be written down any more)
            pass
    files[name] = damaged_document(data, dice) if name.endswith(".json") else damaged_bytes(data, dice)
