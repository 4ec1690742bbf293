"""What is fuzzed: the frontends and the reader of `.mnn` files, by the names that `./dev fuzz` has for them."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from fuzz import checkpoints, folders, language, samples
from fuzz.members import of_folder, unpacked
from fuzz.messages import damaged_message
from fuzz.probe import Target
from fuzz.tables import damaged_bytes, damaged_mnn, damaged_tflite

import minnow
from minnow.converter.formats import formats
from minnow.schema.errors import FormatError, UnsupportedError, UsageError

Change = Callable[[bytes, random.Random], bytes]
_CONVERTED = 16
"""Of so many files that can be read, one is converted."""


def _or_bytes(change: Callable[[bytes, bytes, random.Random], bytes]) -> Callable[[bytes, bytes, random.Random], bytes]:
    """Where the schema says nothing, bytes are changed: for a few in any case."""

    def damage(data: bytes, other: bytes, dice: random.Random) -> bytes:
        if dice.random() < 0.85:
            try:
                return change(data, other, dice)
            except Exception:  # noqa: BLE001  (the seed is damaged already, or cannot be written down any more)
                pass
        return damaged_bytes(data, dice)

    return damage


def _conversion(framework: str) -> Callable[[Path, random.Random], object]:
    def run(path: Path, _: random.Random) -> object:
        model = formats()[framework].frontend().read(path)
        content = (path / folders.GRAPH if path.is_dir() else path).read_bytes()
        if zlib.crc32(content) % _CONVERTED == 0:
            return minnow.convert(path, framework=framework, output=path.with_name("out.mnn"), verify=False)
        return model

    return run


def _onnx(data: bytes, other: bytes, dice: random.Random) -> bytes:
    import onnx

    return damaged_message(onnx.ModelProto, data, dice, other)


def _tensorflow(data: bytes, other: bytes, dice: random.Random) -> bytes:
    from minnow.converter.tensorflow.message import GraphDef

    return damaged_message(GraphDef, data, dice, other)


def _caffe(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """The definition as text or as a message; both are read."""
    from google.protobuf import text_format

    from minnow.converter.caffe.message import NetParameter

    what, is_text = dice.random(), samples.is_text(data)
    if is_text and what < 0.3:
        return samples.damaged_text(data, dice)

    changed = damaged_message(NetParameter, _as_message(data), dice, _as_message(other))
    if not is_text or what > 0.8:
        return changed
    return text_format.MessageToString(NetParameter.FromString(changed)).encode()


@lru_cache(4096)
def _as_message(data: bytes) -> bytes:
    from google.protobuf import text_format

    from minnow.converter.caffe.message import NetParameter

    if not samples.is_text(data):
        return data
    return bytes(text_format.Parse(data.decode(), NetParameter(), allow_unknown_field=True).SerializeToString())


def _read_mnn(path: Path, _: random.Random) -> object:
    from minnow.converter import read

    model = read(path)
    if zlib.crc32(path.read_bytes()) % _CONVERTED == 0:
        minnow.convert(path, output=path.with_name("out.mnn"), verify=False)
    return model


def _archive(data: bytes, other: bytes, dice: random.Random) -> bytes:
    from torch_damage import archive_of, damaged, damaged_json, files_of

    if dice.random() < 0.5:
        return bytes(damaged(dice, data))
    files = files_of(data)
    name = dice.choice(sorted(n for n in files if n.endswith(".json")))
    files[name] = damaged_json(dice, files[name])
    return bytes(archive_of(files))


def _script(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """The code, pickles and numbers of a TorchScript file change, or its files."""
    from torch_damage import archive_of, damaged_files, files_of

    files = list(files_of(data).items())
    if dice.random() < 0.2:
        damaged_files(dice, files)
        return bytes(archive_of(files))
    i = dice.choice([i for i, (n, _) in enumerate(files) if n.endswith((".py", ".pkl"))])
    name, content = files[i]
    if name.endswith(".pkl"):
        content = damaged_bytes(content, dice)
    elif dice.random() < 0.3:
        content = samples.damaged_text(content, dice)
    else:  # other operators, names and numbers: words of this program and of another
        words = _WORD.findall(content)
        spare = [*words, *(w for n, d in files_of(other).items() if n.endswith(".py") for w in _WORD.findall(d))]
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(words))
            words[at] = dice.choice(spare)
        content = b"".join(words)
    files[i] = (name, content)
    return bytes(archive_of(files))


def _read_script(path: Path, _: random.Random) -> object:
    """What the process for TorchScript checks before PyTorch gets the file; of some, the whole reading there."""
    import torch
    from torch_damage import files_of

    from minnow.converter.torch.program.script_vetting import vet

    data = path.read_bytes()
    if zlib.crc32(data) % _IN_PROCESS == 0:
        return formats()["torch"].frontend().read(path, inputs={"x": (2, 4)})
    try:
        files = {name.partition("/")[2]: content for name, content in files_of(data).items()}
        found = vet(files, files.__getitem__, lambda op: bool(torch._C._jit_get_schemas_for_operator(op)))
    except Exception as e:  # noqa: BLE001  (as the process does)
        raise FormatError("the process says so, and ends", why=str(e)[:200]) from None
    if found.refused:
        raise UnsupportedError("operators that are not allowed")
    return found


def _read_folder(path: Path, _: random.Random) -> object:
    return _conversion("tensorflow")(unpacked(path), _)


def _read_keras(path: Path, _: random.Random) -> object:
    """What is looked at before Keras is imported; of some, all that follows."""
    if zlib.crc32(path.read_bytes()) % _WITH_KERAS == 0:
        return formats()["tensorflow"].frontend().read(path)
    return folders.check_keras(path)


def _read_checkpoint(path: Path, _: random.Random) -> object:
    """The graph of a language model; of some, the whole folder that is made of it."""
    from minnow.schema.mnn import encode

    model = formats()["llm"].frontend().read(path)
    if zlib.crc32((path / "config.json" if path.is_dir() else path).read_bytes()) % _CONVERTED == 0:
        minnow.convert(path, framework="llm", output=path.with_name("out"), verify=False)
        return encode(model)
    return model


def _read_checkpoint_folder(path: Path, _: random.Random) -> object:
    return _read_checkpoint(unpacked(path), _)


def _read_seeing_folder(path: Path, _: random.Random) -> object:
    """Both graphs of a model that sees, and how it wants its images; of some, the whole folder that is made of them."""
    from minnow.converter.file.door import guarded
    from minnow.converter.llm.build import build
    from minnow.converter.llm.checkpoint import open_checkpoint
    from minnow.converter.llm.llava import image_graph
    from minnow.llm.conversion import description_of

    folder = unpacked(path)
    with guarded(folder):
        checkpoint = open_checkpoint(folder)
        model = build(checkpoint)
        eyes = None if checkpoint.sight is None else image_graph(checkpoint)
        found = description_of(checkpoint, model, eyes)
    if zlib.crc32(path.read_bytes()) % _CONVERTED == 0:
        minnow.convert(folder, framework="llm", output=path.with_name("out"), verify=False)
    return found


_IMAGES = {"token": 1, "rows": 4, "size": 8, "shortest": 8, "crop": [8, 8], "square": True}


def _read_picture(path: Path, _: random.Random) -> object:
    """The numbers that a model that sees reads."""
    from minnow.llm.image.description import ImageDescription
    from minnow.llm.image.preprocessing import prepared
    from minnow.llm.image.source import read_image

    try:
        return prepared(read_image(path, most_pixels=1 << 16), ImageDescription.of(_IMAGES))
    except UsageError as e:
        raise FormatError(e.message) from e


def _read_pipeline(path: Path, _: random.Random) -> object:
    """The graphs of a diffusion pipeline; of some, the whole folder that is made of them."""
    from minnow.converter.diffusion.pipeline import graphs, open_pipeline
    from minnow.converter.file.door import guarded
    from minnow.diffusion.conversion import description_of

    folder = unpacked(path)
    with guarded(folder):
        pipeline = open_pipeline(folder)
        found = description_of(pipeline).text(), graphs(pipeline)
    if zlib.crc32(path.read_bytes()) % _CONVERTED == 0:
        minnow.convert(folder, output=path.with_name("out"), verify=False)
    return found


_WITH_KERAS = 4096
_WORD = re.compile(rb"\w+|\s+|[^\w\s]")
_IN_PROCESS = 1024

TARGETS = {
    t.name: t
    for t in (
        Target("onnx", "m.onnx", _conversion("onnx"), _or_bytes(_onnx), samples.onnx, samples.onnx_suite),
        Target("tensorflow", "m.pb", _conversion("tensorflow"), _or_bytes(_tensorflow), samples.graphs,
               samples.tf_suite),
        Target("tflite", "m.tflite", _conversion("tflite"), _or_bytes(lambda d, _, dice: damaged_tflite(d, dice)),
               samples.tflite, samples.tflite_suite),
        Target("caffe", "m.prototxt", _conversion("caffe"), _or_bytes(_caffe), samples.caffe, samples.caffe_suite),
        Target("mnn", "m.mnn", _read_mnn, _or_bytes(lambda d, _, dice: damaged_mnn(d, dice)), samples.mnn,
               samples.mnn_suite),
        Target("torchscript", "m.pt", _read_script, _or_bytes(_script), samples.scripts, forks=True),
        Target("saved_model", "m.zip", _read_folder, of_folder(folders.damaged_folder), folders.saved_models,
               folders.saved_model_suite),
        Target("keras", "m.keras", _read_keras, folders.damaged_keras, folders.keras_files, forks=True),
        Target("gguf", "m.gguf", _read_checkpoint, checkpoints.damaged_gguf, checkpoints.gguf_files),
        Target("checkpoint", "m.zip", _read_checkpoint_folder, of_folder(checkpoints.damaged_model_folder),
               checkpoints.model_folders),
        Target("seeing", "m.zip", _read_seeing_folder, of_folder(checkpoints.damaged_seeing_folder),
               checkpoints.seeing_folders),
        Target("picture", "m.png", _read_picture, lambda d, _, dice: damaged_bytes(d, dice), checkpoints.pictures),
        Target("mnn_llm", "m.zip", _read_checkpoint_folder, of_folder(language.damaged_mnn_folder),
               language.mnn_folders),
        Target("tokenizer", "tokenizer.json", language.read_tokenizer, language.damaged_tokenizer,
               language.tokenizer_files),
        Target("template", "chat_template.jinja", language.render_template, language.damaged_template,
               language.templates, language.harmful_templates),
        Target("adapter", "m.zip", language.read_adapter, of_folder(language.damaged_adapter), language.adapters),
        Target("diffusion", "m.zip", _read_pipeline, of_folder(folders.damaged_pipeline), folders.pipelines),
        Target("export", "m.pt2", _conversion("torch"), _or_bytes(_archive), samples.archives, samples.archive_suite),
    )
}  # fmt: skip
