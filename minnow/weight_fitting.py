"""Fits the weights of layers to their outputs: runs the model with the inputs of a calibration, layer after layer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.calibration_data import spread
from minnow.optimizer.quantize.compress import FLOAT, Compressor, Width
from minnow.optimizer.quantize.prune import can_prune, fitted_to
from minnow.optimizer.quantize.seen import MOST_INPUTS, Seen, by_output, groups_of, takes_bias
from minnow.options.run import RunOptions
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from minnow.optimizer.quantize.layers import Layer
    from minnow.runtime.session import Session
    from minnow.schema.ir import Model

_log = logging.getLogger("minnow.quantize")

_ROUNDED = 64
"""Inputs of a calibration that weights of few bits are rounded by."""


class WeightFitting:
    """Weights that keep the outputs of their layers for the inputs of a calibration.

    Args:
        compressor: has the layers; it gets their weights.
        given: gives the inputs, the same ones each time.
        float_path: the file with float weights, in a folder for others.
        write: writes a model to a path, and returns the bytes.
        options: of the sessions.
        reasons: by the name of a layer why it was not fitted, to which more are added.
    """

    def __init__(
        self,
        compressor: Compressor,
        given: Callable[[], Iterator[Mapping[str, Any]]],
        float_path: Path,
        write: Callable[[Model, Path], int],
        options: RunOptions,
        reasons: dict[str, str],
    ) -> None:
        self.compressor, self.given, self.float_path = compressor, given, float_path
        self.write, self.options, self.reasons = write, options, reasons

    def prune(self) -> None:
        """Prunes the layers of the main graph so that they keep their outputs."""
        compressor = self.compressor
        path = self.float_path.with_name("fitted.mnn")
        widths = dict.fromkeys((layer.name for layer in compressor.layers), FLOAT)
        for layer in compressor.layers:
            recipe = compressor.recipe.of(layer.name)
            if not recipe.prune or not can_prune(layer):
                continue
            found = None
            if groups_of(layer) == 1 and self._is_seen(layer):
                # The inputs of a layer are those behind pruned layers: it makes up for what these have lost, too.
                self.write(compressor.apply(widths)[0], path)
                found = Seen.mean_of(self._seen(path, layer, self.given()))
            if found is None:
                self.reasons[layer.name] = "pruned without its inputs, which were not measured"
            else:
                fitted, shift = fitted_to(layer, recipe.prune, recipe.sparsity, found, takes_bias(layer))
                compressor.fitted[layer.name] = fitted
                if shift is not None:
                    compressor.shifts[layer.name] = shift
            widths[layer.name] = recipe.width

    def round(self, widths: Mapping[str, Width] | None, grows: bool = True) -> None:
        """Rounds weights so that layers keep their outputs.

        Args:
            widths: of the layers; None: those of the recipe.
            grows: layers without a bias may get one.
        """
        compressor = self.compressor
        inputs = spread(self.given(), sum(1 for _ in self.given()), _ROUNDED)
        path = self.float_path.with_name("rounded.mnn")
        done: dict[str, Width] = dict.fromkeys((layer.name for layer in compressor.layers), FLOAT)
        for layer in compressor.layers:
            width = compressor.recipe.of(layer.name).width if widths is None else widths[layer.name]
            if width not in range(2, 9):
                continue
            found = None
            if self._is_seen(layer):
                # As for pruned layers: those in front are rounded already.
                self.write(compressor.apply(done)[0], path)
                found = Seen.mean_of(self._seen(path, layer, iter(inputs)))
            if found is None:
                self.reasons[layer.name] = "to the nearest integers: its inputs were not measured"
            else:
                compressor.round_by_outputs(layer, width, found, grows)
            done[layer.name] = width

    def _is_seen(self, layer: Layer) -> bool:
        """Whether a run shows the inputs of a layer, of which there are not too many."""
        if layer.form not in ("stream", "product") or layer.node.op == "ConvTranspose":
            return False
        node = layer.node
        is_fetched = node.graph is self.compressor.model.graph and node.input(0).data is None
        return is_fetched and by_output(layer, layer.numbers()).shape[1] <= MOST_INPUTS

    def _seen(self, path: Path, layer: Layer, given: Iterator[Mapping[str, Any]]) -> Iterator[Seen | None]:
        """What each run of a file shows of the inputs of a layer beside those in the float model."""
        from minnow.runtime.session import load

        name = layer.node.input(0).name
        session = load(path, **vars(self.options))
        for inputs in given:
            found = []
            for one in (session, self._floats):
                if self.compressor.model.states:
                    one.reset()
                try:
                    found.append(one.run(inputs, fetch=[name])[name])
                except UsageError as e:
                    _log.debug("the input of a layer is not there: %s", e)
                    yield None
                    return
            yield Seen.of(layer, *found)

    @cached_property
    def _floats(self) -> Session:
        from minnow.runtime.session import load

        return load(self.float_path, **vars(self.options))
