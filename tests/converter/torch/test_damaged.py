"""Files of PyTorch that are damaged, or made to do harm: an error says what is wrong, and nothing of them is run."""

from __future__ import annotations

import io
import json
import pickle
import random
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sampling import one_in

torch = pytest.importorskip("torch")

from torch_damage import archive_of, copied, damaged, edited, files_of  # noqa: E402

import minnow  # noqa: E402
from minnow.converter import read  # noqa: E402
from minnow.converter.formats import find_format  # noqa: E402
from minnow.errors import FormatError, MinnowError, ModelError, UnsupportedError  # noqa: E402
from minnow.schema.mnn import encode  # noqa: E402

REFUSED = (FormatError, ModelError, UnsupportedError)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, 3, padding=1)
        self.linear = torch.nn.Linear(5, 4)
        self.register_buffer("seen", torch.zeros(4))
        self.factor = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x: Any) -> Any:
        y = self.linear(self.conv(x).relu().mean((2, 3)))
        self.seen.add_(y.sum(0))
        z = y.clone()
        z[:, 1:3] = 0
        return {"a": y * self.factor + self.seen, "b": [z, y.view(y.shape[0], -1)]}


class Branches(torch.nn.Module):
    def forward(self, x: Any, n: int) -> Any:
        def rounds(i: Any, x: Any) -> Any:
            return i + 1, x * 2

        a = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        _, b = torch.while_loop(lambda i, _: i < 3, rounds, (torch.tensor(0), a))
        return b + n, torch.chunk(x, 2, 0)[0]


class Sequence(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(11, 8)
        self.attend = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, t: Any) -> Any:
        x = self.rows(t)
        y, _ = self.attend(x, x, x, need_weights=False)
        y = y.masked_fill((torch.arange(t.shape[1]).unsqueeze(0) < 3).unsqueeze(-1), float("-inf"))
        return y.softmax(1), torch.nonzero(t), torch.full((t.shape[0], 3), 2.5), tuple(t.sort(1))


def saved(module: Any, args: tuple[Any, ...], dynamic: Any = None, decompose: bool = False) -> bytes:
    program = torch.export.export(module.eval(), args, dynamic_shapes=dynamic)
    out = io.BytesIO()
    torch.export.save(program.run_decompositions() if decompose else program, out)
    return out.getvalue()


@pytest.fixture(scope="module")
def archives() -> dict[str, bytes]:
    torch.manual_seed(0)
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=4, max=100)
    picture = torch.randn(2, 3, 6, 6)
    return {
        "net": saved(Net(), (picture,)),
        "core": saved(Net(), (picture,), ({0: batch},), decompose=True),
        "branches": saved(Branches(), (torch.randn(4, 3), 2)),
        "sequence": saved(Sequence(), (torch.randint(11, (2, 5)),), ({0: batch, 1: length},)),
    }


def write(content: bytes, folder: Path, name: str = "model.pt2") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_damaged_archives_end_with_an_error(archives: dict[str, bytes], tmp_path: Path) -> None:
    sources = list(archives.values())
    frontend = find_format(write(sources[0], tmp_path), "torch").frontend()
    outcomes = {"read": 0, "refused": 0}
    for i in range(0, 400, one_in(10)):
        rng = random.Random(f"torch {i}")
        path = write(damaged(rng, rng.choice(sources)), tmp_path)
        begin = time.process_time()
        for use in (lambda path: frontend.describe(path, ""), lambda path: encode(read(path, "torch"))):
            try:
                use(path)
                outcomes["read"] += 1
            except REFUSED:
                outcomes["refused"] += 1
        assert time.process_time() - begin < 10, i
    assert outcomes["read"] > 100 // one_in(10)
    assert outcomes["refused"] > 300 // one_in(10)


def weight(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def of(config: Any) -> None:
        change(config["config"]["conv.weight"])

    return lambda content: edited(content, "model_weights_config.json", of)


def program(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    return lambda content: edited(content, "models/model.json", change)


def files(change: Callable[[dict[str, bytes]], None], method: int = zipfile.ZIP_STORED) -> Callable[[bytes], bytes]:
    def of(content: bytes) -> bytes:
        found = {n.partition("/")[2]: data for n, data in files_of(content).items()}
        change(found)
        return archive_of({f"m/{n}": data for n, data in found.items()}, method)

    return of


def nodes(document: Any) -> Any:
    return document["graph_module"]["graph"]["nodes"]


def _strided(sizes: Any, strides: Any, offset: int = 0) -> Callable[[Any], None]:
    def change(payload: Any) -> None:
        meta = payload["tensor_meta"]
        meta["sizes"], meta["strides"] = ([{"as_int": n} for n in v] for v in (sizes, strides))
        meta["storage_offset"] = {"as_int": offset}

    return change


def _cycle(document: Any) -> None:
    first = nodes(document)[0]
    first["inputs"][0]["arg"] = {"as_tensor": {"name": first["outputs"][0]["as_tensor"]["name"]}}


def _deep(found: dict[str, bytes]) -> None:
    found["models/model.json"] = b'{"graph_module":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "weights too short": files(lambda f: f.update({"data/weights/weight_0": f["data/weights/weight_0"][:-4]})),
    "weights missing": files(lambda f: f.pop("data/weights/weight_0") and None),
    "a list of weights missing": files(lambda f: f.pop("data/weights/model_weights_config.json") and None),
    "a stride out of range": weight(_strided([5, 3, 3, 3], [27, 9, 3, 200])),
    "a negative stride": weight(_strided([5, 3, 3, 3], [27, 9, 3, -1], 50)),
    "an offset out of range": weight(_strided([5, 3, 3, 3], [27, 9, 3, 1], 1)),
    "a negative offset": weight(_strided([5, 3, 3, 3], [27, 9, 3, 1], -1)),
    "a negative size": weight(_strided([-5, 3, 3, 3], [27, 9, 3, 1])),
    "a size that repeats numbers without end": weight(_strided([1 << 38, 3, 3, 3], [0, 0, 0, 0])),
    "a stride beyond all numbers": weight(_strided([5, 3, 3, 3], [1 << 200, 9, 3, 1])),
    "another element type": weight(lambda p: p["tensor_meta"].update(dtype=99)),
    "a name that is a list": program(lambda d: nodes(d)[0]["inputs"][0].update(arg={"as_tensor": {"name": []}})),
    "a number that is infinite": program(lambda d: nodes(d)[0]["inputs"][0].update(arg={"as_int": float("inf")})),
    "a node that reads itself": program(_cycle),
    "nodes in another order": program(lambda d: nodes(d).reverse()),
    "no nodes": program(lambda d: d["graph_module"]["graph"].pop("nodes") and None),
    "a description so deep": files(_deep),
    "a description of another kind": files(lambda f: f.update({"models/model.json": b"[]"})),
    "no description": files(lambda f: f.pop("models/model.json") and None),
    "two descriptions": files(lambda f: f.update({"models/other.json": f["models/model.json"]})),
    "a description that grows": files(
        lambda f: f.update({"models/model.json": b'{"graph_module":[' + b"[]," * (1 << 23) + b"0]}"}),
        zipfile.ZIP_DEFLATED,
    ),
    "weights that grow": files(lambda f: f.update({"byteorder": bytes(1 << 26)}), zipfile.ZIP_DEFLATED),
    "a future version": program(lambda d: d["schema_version"].update(major=9)),
    "big endian": files(lambda f: f.update(byteorder=b"big")),
    "two files of one name": lambda c: archive_of([*files_of(c).items(), *files_of(c).items()]),
    "names that differ in case": files(lambda f: f.update({"models/MODEL.json": f["models/model.json"]})),
    "two folders": lambda c: archive_of({**files_of(c), "other/models/model.json": b"{}"}),
    "pickled weights of PyTorch 2.8": files(lambda f: f.update({"data/weights/model.pt": b""})),
    "an archive of PyTorch 2.4": lambda c: archive_of({"serialized_exported_program.json": b"{}", "version": b"8.1"}),
    "a compiled package": files(lambda f: f.update({"data/aotinductor/model/x.so": b"\x7fELF"})),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_output_is_written(damage: str, archives: dict[str, bytes], tmp_path: Path) -> None:
    source = write(DAMAGES[damage](archives["net"]), tmp_path)
    with pytest.raises(REFUSED) as caught:
        minnow.convert(source, verify=False)
    assert caught.value.exit_code == (3 if isinstance(caught.value, UnsupportedError) else 6)
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt2"]


@pytest.mark.parametrize(("damage", "said"), [
    ("pickled weights of PyTorch 2.8", "2.9"), ("an archive of PyTorch 2.4", "2.9"), ("a compiled package", "compiled"),
])  # fmt: skip
def test_what_is_refused_is_said(damage: str, said: str, archives: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=said):
        read(write(DAMAGES[damage](archives["net"]), tmp_path), "torch")


# ---- files that are made to do harm: each would make a file if it were run


class Harm:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (open, (str(self.mark), "w"))


def attacks(content: bytes, mark: Path) -> dict[str, bytes]:
    code = f"open({str(mark)!r}, 'w')"
    pickled = pickle.dumps(Harm(mark))
    saved_pickle = io.BytesIO()
    torch.save([Harm(mark)], saved_pickle)

    def renamed(old: str, new: str) -> Callable[[Any], None]:
        def change(document: Any) -> None:
            text = json.dumps(document)
            assert json.dumps(old) in text
            document.update(json.loads(text.replace(json.dumps(old), json.dumps(new))))

        return change

    def formula(document: Any) -> None:
        values = document["graph_module"]["graph"]["tensor_values"]
        next(iter(values.values()))["sizes"][0] = {"as_expr": {"expr_str": code, "hint": None}}

    def target(document: Any) -> None:
        command = {"name": "", "arg": {"as_string": f"touch {mark}"}, "kind": 1}
        nodes(document)[0].update(target="torch.os.system", inputs=[command])

    def spec(document: Any) -> None:
        signature = document["graph_module"]["module_call_graph"][0]["signature"]
        context = json.dumps({"default_factory_module": "antigravity", "default_factory_name": "x", "dict_context": []})
        nested = {"type": "collections.defaultdict", "context": context, "children_spec": []}
        whole = json.loads(signature["in_spec"])
        whole[1]["children_spec"][0]["children_spec"][0] = nested
        signature["in_spec"] = json.dumps(whole)

    def pickled_weight(config: Any) -> None:
        config["config"]["conv.weight"].update(use_pickle=True, path_name="evil")

    def pickled_object(config: Any) -> None:
        config["config"]["thing"] = {"path_name": "custom_obj_0", "use_pickle": True, "is_param": False,
                                     "tensor_meta": None}  # fmt: skip

    def opaque(config: Any) -> None:
        pickled_object(config)
        config["config"]["thing"]["path_name"] = "opaque_obj_0"

    weights, constants = "model_weights_config.json", "model_constants_config.json"
    return {
        "guards": program(lambda d: d.update(guards_code=[code]))(content),
        "placeholder": program(renamed("x", f"x={code}"))(content),
        "formula": program(formula)(content),
        "target": program(target)(content),
        "spec": program(spec)(content),
        "parameter": edited(program(renamed("linear.bias", f'a", {code}, "'))(content), weights,
                            renamed("linear.bias", f'a", {code}, "')),
        "sample inputs": files(lambda f: f.update({"data/sample_inputs/model.pt": saved_pickle.getvalue()}))(content),
        "weight": files(lambda f: f.update({"data/weights/evil": saved_pickle.getvalue()}))(
            edited(content, weights, pickled_weight)),
        "constant": files(lambda f: f.update({"data/constants/custom_obj_0": pickled}))(
            edited(content, constants, pickled_object)),
        "opaque constant": files(lambda f: f.update({"data/constants/opaque_obj_0": pickled}))(
            edited(content, constants, opaque)),
        "old weights": files(lambda f: f.update({"data/weights/model.pt": saved_pickle.getvalue()}))(content),
        "library": files(lambda f: f.update({"data/aotinductor/model/x.so": b"\x7fELF"}))(content),
    }  # fmt: skip


UNSEEN = {"guards", "sample inputs", "constant", "opaque constant"}
"""The converter does not look at what is harmful in these."""

BY_PYTORCH = """
import sys, torch
from minnow.runtime.verify.torch_worker import Exported
for path in sys.argv[1:]:
    try:
        Exported(path)({"x": torch.zeros(2, 3, 6, 6)})
        print("ran")
    except Exception as e:
        print("refused")
"""


def test_nothing_of_a_file_is_run(archives: dict[str, bytes], tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    paths = {}
    for name, content in attacks(archives["net"], mark).items():
        paths[name] = write(content, tmp_path, f"{name}.pt2")
        if name in UNSEEN:
            read(paths[name], "torch")
        else:
            with pytest.raises(REFUSED):
                read(paths[name], "torch")
    # The process that verifies is the last to keep harm away, whatever the converter has made of a file.
    done = subprocess.run([sys.executable, "-c", BY_PYTORCH, *map(str, paths.values())], capture_output=True, text=True,
                          check=True, timeout=300)  # fmt: skip
    outcomes = dict(zip(paths, done.stdout.split(), strict=True))
    assert outcomes == {name: "ran" if name == "guards" else "refused" for name in paths}
    assert not mark.exists()


@pytest.mark.slow
def test_a_file_whose_samples_are_harmful_is_verified_all_the_same(archives: dict[str, bytes], tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = write(attacks(archives["net"], mark)["sample inputs"], tmp_path)
    report = minnow.convert(source)
    assert report.verification is not None
    assert "cannot" in report.verification.note or "not" in report.verification.note
    assert not mark.exists()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["truncated", "flipped", "no code"])
def test_damaged_torchscript_ends_with_an_error(damage: str, tmp_path: Path) -> None:
    made = torch.jit.trace(torch.nn.Linear(3, 2), torch.zeros(1, 3))
    out = io.BytesIO()
    torch.jit.save(made, out)
    content = bytearray(out.getvalue())
    if damage == "truncated":
        del content[len(content) // 2 :]
    elif damage == "flipped":
        for i in range(300, len(content) - 3000, 97):
            content[i] ^= 0x15
    else:
        content = bytearray(
            archive_of({n: d for n, d in files_of(bytes(content)).items() if ".debug" in n or "code" not in n})
        )
    source = write(bytes(content), tmp_path, "model.pt")
    with pytest.raises(MinnowError) as caught:
        minnow.convert(source, framework="torch", inputs={"input": (1, 3)}, verify=False)
    assert caught.value.exit_code == 6
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]


class Writes(torch.nn.Module):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.path)
        return torch.relu(x)


@pytest.mark.slow
def test_torchscript_that_writes_files_is_not_run(tmp_path: Path) -> None:
    mark, source = tmp_path / "mark", tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(Writes(str(mark))), source)
    with pytest.raises(UnsupportedError, match="aten::save"):
        minnow.convert(source)
    worker = [sys.executable, "-m", "minnow.runtime.verify.torch_worker", str(source), "torchscript"]
    done = subprocess.run(worker, capture_output=True, text=True, input="", timeout=300, check=False)
    assert "aten::save" in done.stdout
    assert not mark.exists()


class Padded(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nn.functional.pad(x, (2, -1), mode="reflect")


def test_a_padding_larger_than_any_memory(tmp_path: Path) -> None:
    def enlarge(document: Any) -> None:
        (padding,) = (i["arg"]["as_ints"] for n in nodes(document) for i in n["inputs"] if "as_ints" in i["arg"])
        padding[0] = 10**12

    source = write(program(enlarge)(saved(Padded(), (torch.zeros(3, 5),))), tmp_path)
    with pytest.raises(ModelError, match="the result of a padding would have 1000000000004 elements"):
        minnow.convert(source, verify=False)


def test_what_is_too_deep_is_not_copied() -> None:
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    assert copied(deep) == 0
