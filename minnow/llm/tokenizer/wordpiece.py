"""WordPiece: from the left, the longest token each time."""

from __future__ import annotations

from minnow.llm.tokenizer.model import MODELS, Model, vocabulary_of
from minnow.llm.tokenizer.part import Part


@MODELS.add("WordPiece")
class WordPiece(Model):
    """The model of BERT. A word with a part that is no token is one unknown token."""

    def __init__(self, part: Part) -> None:
        super().__init__(part, vocabulary_of(part))
        self.prefix: str = part.text("continuing_subword_prefix", "##")
        self.most: int = part.number("max_input_chars_per_word", 100)
        self._longest = max(map(len, self.vocabulary), default=0)
        unknown = part.text("unk_token", "[UNK]")
        if unknown not in self.vocabulary:
            raise part.error(f"'unk_token' is {unknown[:40]!r}, which is not in the vocabulary")
        self.unknown = self.vocabulary[unknown]

    def tokens(self, piece: str) -> list[int]:
        """The ids of one piece."""
        if len(piece) > self.most:
            return [self.unknown]
        ids: list[int] = []
        start = 0
        while start < len(piece):
            prefix = self.prefix if start else ""
            for end in range(min(len(piece), start + self._longest), start, -1):
                id = self.vocabulary.get(prefix + piece[start:end])
                if id is not None:
                    ids.append(id)
                    start = end
                    break
            else:
                return [self.unknown]
        return ids
