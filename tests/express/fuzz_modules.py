"""Calls `Interpreter`, `minnow.nn`, `minnow.optim` and `minnow.data` with arguments that fit and that do not.

    python tests/express/fuzz_modules.py [--calls 100000] [--seed 0]

The objects that calls give are used by later calls, and freed at any time: a session whose interpreter is gone, arrays
of tensors whose session is gone, Vars of arrays that are written meanwhile. Allowed are the errors that
`fuzz_express.py` allows, and NotImplementedError of a module without `forward`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_express import argument, little_memory, used, var_of

import minnow
from minnow import data, expr, interpreter, nn, optim
from minnow.errors import InternalError, MinnowError
from minnow.expr import Var
from minnow.expr.names import all_names
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn.encoder import encode
from minnow.schema.registry.builder import Builder

CALLS = [e for p in ("nn", "optim", "data") for e in all_names(p) if e.callable and e.name != "Regularization_Method"]
CONSTANTS = [getattr(interpreter, n) for n in dir(interpreter) if n.startswith(("CV_", "Halide_", "Tensor_"))]
SHAPES = [
    (1, 3, 8, 8),
    (2, 3, 8, 8),
    (1, 8, 8, 3),
    (3, 8, 8),
    (2, 4),
    (4,),
    (1, 3, 0, 8),
    (1, 3, 5, 7),
    (),
    (2, 4, 1, 1),
]
NAMES = ["data", "inner", "prob", "nothing", ""]
MOST = 6
"""Objects of a kind that are kept."""


def model() -> bytes:
    """[N, 3, H, W] -> a convolution, its mean over places, 4 probabilities."""
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, ("N", 3, "H", "W")), "data")
    b = Builder(graph)
    weight = np.linspace(-1, 1, 4 * 3 * 9, dtype=np.float32).reshape(4, 3, 3, 3)
    attrs = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    inner = b.Relu(b.node("Conv", [x, weight, np.ones(4, np.float32)], attrs).outputs[0])
    prob = b.Softmax(b.Reshape(b.ReduceMean(inner, axes=(2, 3)), np.array([-1, 4])), axis=1)
    inner.name, prob.name = "inner", "prob"
    graph.outputs = [prob]
    return encode(Model(graph, [("data", x.type)], [("prob", prob.type)]))


class Net(nn.Module):
    """A convolution, its statistics, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop, self.fc = nn.conv(3, 4, 3), nn.batch_norm(4), nn.dropout(0.5), nn.linear(4, 2)

    def forward(self, x: Any) -> Any:
        x = expr.relu(self.norm(self.conv(x)))
        return expr.softmax(self.fc(self.drop(expr.reduce_mean(x, [2, 3]))), 1)


class Rows(data.Dataset):
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def __getitem__(self, index: int) -> Any:
        shape = (3, 8, 8) if self.rng.random() < 0.95 else (3, 8)
        example: Any = [np.full(shape, index, np.float32)], [np.eye(2, dtype=np.float32)[index % 2]]
        return example if self.rng.random() < 0.98 else argument(self.rng)

    def __len__(self) -> int:
        return 5


KINDS: dict[str, list[str]] = {
    kind.__name__: [n for n in dir(kind) if not n.startswith("_") and n not in ("of_cell", "of_array")]
    for kind in (minnow.Interpreter, minnow.Tensor, minnow.CVImageProcess, minnow.CVMatrix, nn.Module, optim.Optimizer,
                 optim.StepSchedule, data.DataLoader)
}  # fmt: skip


class World:
    """What there is to call, and to call with."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng = rng
        self.file = str(folder / "model.mnn")
        Path(self.file).write_bytes(model())
        self.things: dict[str, list[Any]] = {}
        net = minnow.Interpreter(self.file)
        for thing in (net, net.createSession({}), Net(), nn.load_module_from_file(self.file, [], []),
                      minnow.CVMatrix(), minnow.CVImageProcess({}), data.DataLoader(Rows(rng), 2)):  # fmt: skip
            self.keep(thing)

    def keep(self, thing: Any) -> None:
        kind = next((k.__name__ for k in type(thing).__mro__ if k.__name__ in KINDS or k is interpreter.Session), "")
        if isinstance(thing, (list, tuple)):
            for part in thing[:4]:
                self.keep(part)
        elif isinstance(thing, dict):
            for part in list(thing.values())[:4]:
                self.keep(part)
        elif kind or isinstance(thing, (np.ndarray, Var)):
            row = self.things.setdefault(kind or type(thing).__name__, [])
            row.append(thing)
            if len(row) > MOST:
                row.pop(self.rng.randrange(len(row)))

    def one(self, kind: str) -> Any:
        row = self.things.get(kind)
        return self.rng.choice(row) if row else None

    def fitting(self) -> Any:
        """Something that calls may want."""
        rng = self.rng
        shape = rng.choice(SHAPES)
        array = np.random.default_rng(rng.getrandbits(30)).random(shape, np.float32)
        makes: list[Callable[[], Any]] = [
            *[lambda: self.one("Session")] * 3,
            *[lambda: self.one("Tensor")] * 3,
            *[lambda: self.one("Module")] * 2,
            lambda: self.one("Var"),
            lambda: self.one("ndarray"),
            lambda: self.one("Interpreter"),
            lambda: self.one("Optimizer"),
            lambda: self.one("CVMatrix"),
            lambda: rng.choice(NAMES),
            lambda: [rng.choice(NAMES)],
            lambda: self.file,
            lambda: shape,
            lambda: array,
            lambda: expr.const(array, shape, rng.choice([expr.NCHW, expr.NHWC, expr.NC4HW4])),
            lambda: minnow.Tensor(shape, interpreter.Halide_Type_Float, array, rng.choice(CONSTANTS[-3:])),
            lambda: rng.choice(CONSTANTS),
            lambda: rng.choice([optim.L1, optim.L2, optim.L1L2]),
            lambda: {"backend": rng.choice(["CPU", "CUDA", "x", 0]), "numThread": rng.choice([1, 2, "2", -1])},
            lambda: {"inputPaths": (rng.choice(NAMES),), "outputPaths": (rng.choice(NAMES),)},
            lambda: {"saveTensors": (rng.choice(NAMES),), "precision": rng.choice(["low", "high", "x"])},
            lambda: {"sourceFormat": rng.choice(CONSTANTS), "destFormat": rng.choice(CONSTANTS), "mean": (1.0, 2, 3)},
            lambda: lambda tensors, name: rng.random() < 0.9,
            lambda: list(getattr(self.one("Module"), "parameters", ())),
            lambda: rng.choice([1e-3, 0.9, 0.0, 1.0, 2, 4, 8]),
        ]
        return rng.choice(makes)()

    def arguments(self) -> list[Any]:
        count = self.rng.choice([0, 1, 1, 2, 2, 3, 4])
        return [argument(self.rng) if self.rng.random() < 0.25 else self.fitting() for _ in range(count)]

    def train(self) -> Any:
        """A step, and what comes of it."""
        expr.lazy_eval(True)
        net, optimizer = self.one("Module"), self.one("Optimizer")
        if optimizer is None or self.rng.random() < 0.2:
            optimizer = self.rng.choice([optim.SGD, optim.ADAM, optim.AdamW])(net, 0.01)
            self.keep(optimizer)
        x = var_of(self.rng) if self.rng.random() < 0.3 else self.fitting()
        made = net(x) if self.rng.random() < 0.9 else net(self.fitting(), x)
        loss = nn.loss.cross_entropy(made, self.fitting() if self.rng.random() < 0.3 else np.ones((2, 2), np.float32))
        optimizer.step(loss)
        return [loss, *net.parameters]

    def disturb(self) -> None:
        """Frees or writes something that others may use."""
        rng = self.rng
        row = self.things.get(rng.choice(sorted(self.things)), [])
        if len(row) > 1:
            row.pop(rng.randrange(len(row)))
        array = self.one("ndarray")
        if array is not None and array.flags.writeable and array.dtype != object and rng.random() < 0.5:
            array[...] = array.dtype.type(0)
        if rng.random() < 0.02:
            gc.collect()

    def call(self) -> str:
        """One random call. Gives what it was; raises what is not an error of ours."""
        rng = self.rng
        text, result = "", None
        expr.lazy_eval(rng.random() < 0.3)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                draw = rng.random()
                if draw < 0.04:
                    text = "a step of training"
                    result = self.train()
                elif draw < 0.25:
                    entry = rng.choice(CALLS)
                    args = self.arguments()
                    text = f"{entry.ours}({args!r:.300})"
                    result = entry.value(*args)
                elif draw < 0.4:
                    kind = rng.choice([minnow.Interpreter, minnow.Tensor, minnow.CVImageProcess, minnow.CVMatrix])
                    args = self.arguments()
                    text = f"{kind.__name__}({args!r:.300})"
                    result = kind(*args)
                else:
                    name = rng.choice(sorted(KINDS))
                    thing = self.one(name)
                    if thing is None:
                        return "nothing"
                    member = rng.choice(KINDS[name])
                    args = self.arguments()
                    text = f"{type(thing).__name__}.{member}({args!r:.300})"
                    result = getattr(thing, member)
                    if callable(result):
                        result = result(*args)
                    elif args and rng.random() < 0.5:
                        setattr(thing, member, args[0])
                    if name == "Module" and rng.random() < 0.3:
                        result = thing(*self.arguments())
                self.keep(result)
                if isinstance(result, minnow.Tensor):
                    result.getShape(), result.getData(), result.getNumpyData(), repr(result)
                used(result)
        except InternalError as error:
            raise AssertionError(f"{text}: {error!r}") from error
        except (MinnowError, TypeError, MemoryError, NotImplementedError):
            pass
        except LookupError as error:
            if not text.startswith("DataLoader.next"):  # of what is no data set, but has items
                raise AssertionError(f"{text}: {error!r}") from error
        except AttributeError as error:
            if "setter" not in str(error):
                raise AssertionError(f"{text}: {error!r}") from error
        except Exception as error:
            raise AssertionError(f"{text}: {error!r}") from error
        finally:
            expr.lazy_eval(False)
        if rng.random() < 0.1:
            self.disturb()
        return text


BLOCK = 500
"""Calls after which everything is made anew."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, str] = {}
    home = os.getcwd()
    for block in range(-(-chosen.calls // BLOCK)):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            seed = chosen.seed * 10_000 + block
            world = World(random.Random(seed), Path(folder))
            for i in range(BLOCK):
                try:
                    with little_memory():
                        world.call()
                except AssertionError as error:
                    text = str(error)
                    key = text.partition("(")[0] + text[-60:]
                    if key not in found:
                        found[key] = text
                        print(seed, i, text[:900], flush=True)  # noqa: T201
            os.chdir(home)
    print(f"{chosen.calls} calls, {len(found)} kinds of findings")  # noqa: T201
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
