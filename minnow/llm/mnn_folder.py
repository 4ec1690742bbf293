"""Writes a language model as a folder that MNN's own runtime for language models loads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from minnow.output import replaced, writing
from minnow.schema.errors import UnsupportedError
from minnow.schema.notice import Notice

if TYPE_CHECKING:
    from minnow.conversion_report import Clock
    from minnow.converter.llm.mnn.step import MnnStep
    from minnow.optimizer.effect import Effect
    from minnow.options.convert import ConvertOptions
    from minnow.schema.ir import Graph, Model


@dataclass
class MnnFolder:
    """A language model that is to become a folder.

    Args:
        step: the graph as it was built, with its table of tokens.
        model: the same, optimized.
    """

    step: MnnStep
    model: Model

    def write(self, folder: Path, step: Clock, options: ConvertOptions) -> tuple[int, Effect]:
        """Writes all files or none; the bytes, and what the graph costs.

        Args:
            options: those of the conversion; with `verify` the folder is read again and compared with the checkpoint.

        Raises:
            VerifyError: what is read again gives other results than the checkpoint.
            UnsupportedError: MNN's runtime has no form for an op, or for the tokenizer.
            WriteError: the folder cannot be written.
        """
        from minnow.converter.llm.mnn import setting
        from minnow.converter.llm.mnn.table import table_of
        from minnow.optimizer.effect import effect_of
        from minnow.schema.mnn import save, wire
        from minnow.schema.mnn.side_file import SUFFIX, side_path

        check_runs(self.model, str(self.step.checkpoint.path))
        after = effect_of(self.model.graph)
        with step("pack"):
            place_products(self.model.graph)
            assert self.step.table is not None
            table = table_of(self.step.table)
        if not table.exact:
            self.model.notices.append(Notice("the table of tokens is rounded to 16 bits", "lossy-form"))
        with step("tokenizer"):
            tokenizer, tokens, same_tokens = self._tokenizer()
        new = not folder.exists()
        with writing(folder):
            folder.mkdir(exist_ok=True)
        try:
            with ExitStack() as stack, step("write"):
                # What is entered first is moved to its place last: without settings there is no model.
                names = (setting.RUN, setting.FACTS, setting.TOKENIZER)
                parts = {name: stack.enter_context(replaced(folder / name)) for name in names}
                path = stack.enter_context(replaced(folder / setting.GRAPH, beside=(SUFFIX,)))
                with writing(folder):
                    size = save(self.model, path, biz_code=options.biz_code, side_file=True)
                table = table.among(wire.read(path.read_bytes()), side_path(path))
                contents = {
                    setting.RUN: setting.run_settings(self.step, table).encode(),
                    setting.FACTS: setting.facts(self.step, table, tokens).encode(),
                    setting.TOKENIZER: tokenizer,
                }
                if table.name:
                    parts[table.name] = stack.enter_context(replaced(folder / table.name))
                    contents[table.name] = table.content
                with writing(folder):
                    size += sum(parts[name].write_bytes(content) for name, content in contents.items())
                if options.verify:
                    with step("verify"):
                        files = {**parts, setting.GRAPH: path, setting.WEIGHTS: side_path(path)}
                        lossy = not table.exact or options.compression is not None
                        self.model.notices.append(self._compared(files, lossy=lossy, same_tokens=same_tokens))
        except BaseException:
            if new and not any(folder.iterdir()):
                folder.rmdir()
            raise
        return size, after

    def _compared(self, files: Mapping[str, Path], **how: bool) -> Notice:
        """What comes of the comparison with the checkpoint. The files are read under the names that they will have."""
        from minnow.llm.proof import compare_read

        with TemporaryDirectory() as place:
            for name, file in files.items():
                Path(place, name).symlink_to(file.resolve())
            return compare_read(self.step.checkpoint, Path(place), **how)

    def _tokenizer(self) -> tuple[bytes, dict[int, str], bool]:
        """The file of the tokenizer, the tokens by their ids, and whether texts have the tokens of the source."""
        from minnow.converter.llm.tokenizer.mtok_writer import Mtok
        from minnow.llm.tokenizer import Tokenizer

        checkpoint = self.step.checkpoint
        if checkpoint.tokenizer is None:
            raise UnsupportedError(
                "the source has no tokenizer, which MNN's runtime needs",
                where=str(checkpoint.path),
                hint="put tokenizer.json beside it, or leave out `--mnn-llm`",
            )
        source = checkpoint.tokenizer()
        Tokenizer.from_json(source, engine="minnow")  # which checks it
        whole: dict[str, Any] = json.loads(source)
        begin = [] if checkpoint.bos is None else [checkpoint.bos]
        prefix = begin if checkpoint.add_bos else []
        texts = _texts(whole)
        tokens = Mtok(whole)
        if tokens.lost:
            text = f"MNN's runtime splits some texts otherwise: it {', '.join(dict.fromkeys(tokens.lost))}"
            self.model.notices.append(Notice(text, "lossy-form"))
        eos, bos = ("".join(texts.get(id, "") for id in ids[:1]) for ids in (checkpoint.eos, begin))
        template = checkpoint.chat_template or ""
        content = tokens.content(stop=checkpoint.eos, prefix=prefix, template=template, eos=eos, bos=bos)
        return content, texts, not tokens.lost


def _texts(whole: Mapping[str, Any]) -> dict[int, str]:
    vocabulary = whole["model"]["vocab"]
    rows = vocabulary.items() if isinstance(vocabulary, dict) else ((row[0], i) for i, row in enumerate(vocabulary))
    found = {id: text for text, id in rows}
    return found | {entry["id"]: entry["content"] for entry in whole.get("added_tokens") or ()}


def check_runs(model: Model, where: str) -> None:
    """Raises UnsupportedError if there is something that MNN's runtime cannot run."""
    from minnow.optimizer.facts.format import foreign_nodes

    if refused := foreign_nodes(model.graph):
        raise UnsupportedError("MNN's runtime cannot run the model", where=where, refused=refused,
                               hint="leave out `--mnn-llm`: Minnow's engine runs it")  # fmt: skip


def place_products(graph: Graph) -> None:
    """Makes convolutions of one element of all products with constants, which is what MNN's runtime is fast at: weights
    of few bits stay as they are, and those in 16 bits where the format has a form for them."""
    from minnow.optimizer.layout.product import matrix_of, to_convolution
    from minnow.schema.ir import DType, LazyBlob, QuantizedBlob, RoundedBlob
    from minnow.schema.ir.compressed import reshaped

    for part in graph.walk():
        for node in list(part):
            matrix = matrix_of(node)
            if matrix is None or not matrix.transposed:
                continue
            blob = matrix.weight.data
            assert blob is not None
            shape = (*blob.shape, 1, 1)
            if isinstance(blob, QuantizedBlob):
                to_convolution(node, matrix, reshaped(blob, shape))
            elif isinstance(blob, RoundedBlob) and blob.stored is DType.F16:
                numbers = LazyBlob(blob.source.numpy, DType.F32, shape, [blob.source])
                to_convolution(node, matrix, RoundedBlob(numbers, DType.F16))
            else:
                to_convolution(node, matrix)
