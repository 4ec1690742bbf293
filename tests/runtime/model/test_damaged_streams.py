"""Files with compressed weights that are damaged: refused with an error, or harmless."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_oracle import normal
from quantized_streams import packed
from wire_net import Net

import minnow
from minnow.errors import MinnowError

RNG = np.random.default_rng(1)
SHAPE = (6, 4, 3, 3)  # of the weights
X = normal(RNG, 1, 4, 6, 5)

CHILD = """
import random, sys
import numpy as np
import minnow
from minnow.errors import MinnowError

data, x = open(sys.argv[1], "rb").read(), np.load(sys.argv[2])
places = range(*map(int, sys.argv[3:5]))
dice, refused = random.Random(7), 0
for place in places:
    changed = bytearray(data)
    changed[place] ^= 1 << dice.randrange(8)
    try:
        got = minnow.load(bytes(changed)).run({"x": x})
    except MinnowError:
        refused += 1
print(refused)
"""


def conv(quan: dict[str, Any]) -> bytes:
    net = Net()
    net.input("x", X.shape)
    common = {"kernelX": 3, "kernelY": 3, "outputCount": 6, "inputCount": 4, "pads": [1, 1, 1, 1]}
    main = {"common": common, "bias": np.zeros(6, np.float32), "quanParameter": quan}
    net.op("Convolution", ["x"], ["y"], "Convolution2D", main)
    return net.bytes("y")


def file(kind: str) -> bytes:
    size = int(np.prod(SHAPE))
    if kind == "halves":
        return conv({"type": 3, "buffer": RNG.normal(size=size).astype(np.float16).view(np.int8)})
    if kind == "sparse":
        numbers, steps = RNG.integers(-8, 8, (6, 36)), np.full(40, 5)
        return conv(packed(numbers, 4, 6, "symmetric", False, steps=steps)[0])
    bits = int(kind[3:])
    least = -(1 << (bits - 1))
    form = "zero" if bits == 8 else "least"
    return conv(packed(RNG.integers(least, -least, (6, 36)), bits, 6, form, bits == 3)[0])


@pytest.mark.parametrize("kind", ["int8", "int4", "int3", "sparse", "halves"])
def test_a_part_of_a_file_is_refused(kind: str) -> None:
    data = file(kind)
    assert minnow.load(data).run({"x": X})["y"].shape == (1, 6, 6, 5)
    for end in random.Random(3).sample(range(len(data) - 8), 40):
        with pytest.raises(MinnowError):
            minnow.load(data[:end]).run({"x": X})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "int4", "int3", "sparse", "halves"])
def test_a_changed_bit_anywhere_is_refused_or_harmless(kind: str, tmp_path: Path) -> None:
    """Another weight is no error that can be seen; whatever tells sizes and places is."""
    path, x = tmp_path / "m.mnn", tmp_path / "x.npy"
    data = file(kind)
    path.write_bytes(data)
    np.save(x, X)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, (path, x, 0, len(data)))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 30 < int(done.stdout) < len(data)
