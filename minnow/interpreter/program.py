"""`Program`: a model, or a part of it, that runs on inputs of whatever shapes fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minnow.interpreter.model_file import IMAGE, ModelFile, Slot, refused
from minnow.interpreter.setting import Configuration
from minnow.runtime.session import Model, Session, TensorInfo
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]
Shapes = tuple[tuple[int, ...], ...]


class Program:
    """The computation of some tensors of a model from others.

    Args:
        file: the model.
        inputs: names of tensors to be given; all inputs of the model, or tensors between nodes.
        outputs: names of tensors to compute.
        configuration: how to run.

    Attributes:
        inputs: what the inputs are, in order.
        outputs: names of the outputs, in order.
    """

    def __init__(
        self, file: ModelFile, inputs: Sequence[str], outputs: Sequence[str], configuration: Configuration
    ) -> None:
        self.file = file
        self.outputs = list(outputs)
        self.configuration = configuration
        self._given = list(inputs)
        whole = set(inputs) == set(file.input_names)
        self._model = file.model if whole else file.part(inputs, outputs)
        self._is_whole = whole
        self._sessions: dict[int, Session] = {}
        session = self._open(self._model)
        self.infos = {info.name: info for info in session.inputs}
        self.inputs = [file.slot(self.infos[name]) for name in inputs]
        self._fetch = None if not whole or list(outputs) == file.output_names else self.outputs

    def _open(self, model: Model) -> Session:
        if id(model) not in self._sessions:
            self._sessions[id(model)] = self.configuration.open(model)
        return self._sessions[id(model)]

    def session(self, shapes: Mapping[str, Sequence[int]]) -> Session:
        """The session for inputs of these shapes, by their names. Raises UsageError if they have another rank."""
        return self._open(self._fitting(shapes))

    def _fitting(self, shapes: Mapping[str, Sequence[int]]) -> Model:
        if not self._is_whole:
            return self._model
        for slot in self.inputs:
            if slot.shape is None:
                continue
            given = tuple(shapes[slot.name])
            if len(given) != len(slot.shape):
                raise UsageError(f"input '{slot.name}' has the shape {list(given)}", hint=f"the model wants {slot}")
            # The first axis of a file of MNN's converter may have any size, and the engine knows that.
            first = 0 if self.file.is_ours else 1
            if any(want >= 0 and want != n for want, n in zip(slot.shape[first:], given[first:], strict=True)):
                return self.file.dynamic()
        return self._model

    def declared(self, name: str) -> TensorInfo | None:
        """What the model says of an output, None if it is a tensor between nodes."""
        infos = {info.name: info for info in self._open(self._model).outputs}
        return infos.get(name)

    def slot(self, name: str, shape: Sequence[int], dtype: str) -> Slot:
        """An output with its data format."""
        return self.file.slot(TensorInfo(name, dtype, tuple(shape)))

    def run(
        self,
        arrays: Mapping[str, Array],
        before: Callable[..., Any] | None = None,
        after: Callable[..., Any] | None = None,
    ) -> dict[str, Array]:
        """The outputs by name, for arrays of the types and in the layout of the inputs.

        Raises:
            The errors of `Session.run`.
        """
        session = self.session({name: array.shape for name, array in arrays.items()})
        try:
            return session.run(arrays, fetch=self._fetch, before=before, after=after)
        except UsageError as error:
            if self._fetch is None or not refused(error):
                raise
        # The engine has fused what makes a value away: in a part that ends with it, it is there.
        self._model, self._is_whole, self._fetch = self.file.part(self._given, self.outputs), False, None
        return self._open(self._model).run(arrays, before=before, after=after)

    @property
    def whole(self) -> Session:
        """A session of the model as it is in the file."""
        return self._open(self.file.model)

    def close(self) -> None:
        """Frees the sessions; the next run makes new ones."""
        self._sessions.clear()


def is_image(slot: Slot) -> bool:
    """Whether it may be a batch of images."""
    return slot.shape is not None and len(slot.shape) == IMAGE
