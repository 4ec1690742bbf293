"""Matrix products with constant weights take in what follows them, with the numbers of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_spelling import Spelling, check


def weights(s: Spelling, *shape: int) -> str:
    return s.constant(s.rng.standard_normal(shape) / 20)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Identity"])
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"), [(1, 64, 48), (1, 515, 203), (1, 1, 5), (1, 3001, 70), (37, 90, 131), (30, 2500, 96)]
)
def test_a_residual_is_added_while_the_product_is_written(
    rows: int, inputs: int, outputs: int, activation: str, threads: int, tmp_path: Path
) -> None:
    def spelled(s: Spelling) -> str:
        product = s.MatMul(s.input(rows, inputs), weights(s, inputs, outputs))
        residual = s.Neg(s.input(rows, outputs))
        return getattr(s, activation)(s.Add(residual, s.Add(product, weights(s, outputs))))

    assert not check(spelled, str(tmp_path), threads) & {"Add", activation} - {"Identity"}


def test_what_has_another_shape_is_no_residual(tmp_path: Path) -> None:
    def spelled(s: Spelling) -> str:
        product = s.MatMul(s.input(6, 20), weights(s, 20, 30))
        return s.Add(s.Neg(s.input(1, 30)), product)

    assert "Add" in check(spelled, str(tmp_path), 1)


def test_a_product_with_two_readers_is_kept(tmp_path: Path) -> None:
    def spelled(s: Spelling) -> str:
        product = s.MatMul(s.input(6, 20), weights(s, 20, 30))
        return s.Mul(s.Add(product, s.Neg(s.input(6, 30))), product)

    assert "Add" in check(spelled, str(tmp_path), 1)


def test_not_a_number_passes_through_one_row(tmp_path: Path) -> None:
    def spelled(s: Spelling) -> str:
        x = s.input(1, 40)
        s.inputs[x][0, 3] = np.nan
        return s.Relu(s.MatMul(x, weights(s, 40, 33)))

    check(spelled, str(tmp_path), 1)
