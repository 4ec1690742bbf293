"""The smallest pipeline, as the command line takes it: pictures, errors, and folders that strangers have made."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import minnow.diffusion
from minnow import convert
from minnow.diffusion.description import DESCRIPTION, MODELS
from minnow.schema.errors import FormatError, MinnowError, ModelError, UnsupportedError, UsageError

TINY = Path(__file__).with_name("tiny")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "tiny"
    convert(TINY, output=folder)
    return folder


def _run(*arguments: object, cwd: Path | None = None) -> tuple[int, str, str]:
    """The exit code of a command, and what it prints."""
    line = [sys.executable, "-c", "from minnow.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=cwd, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_writes_the_picture_that_python_gives(made: Path, tmp_path: Path) -> None:
    code, out, err = _run("diffusion", "run", made, "-p", "a red boat", "--steps", 3, "--seed", 5,
                          "--scheduler", "ddim", "--width", 16, "-o", tmp_path / "boat.png")  # fmt: skip
    assert code == 0, err
    assert "16 x 8 pixels" in out
    want = minnow.diffusion.load(made).generate("a red boat", steps=3, seed=5, scheduler="ddim", width=16)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "boat.png")), want.pixels)
    want.save(tmp_path / "boat.bmp")
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "boat.bmp")), want.pixels)
    other = minnow.diffusion.load(made, threads=1).generate("a cat", steps=3, seed=5, scheduler="ddim", width=16)
    assert not np.array_equal(other.pixels, want.pixels)


def test_the_same_folder_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    convert(TINY, output=tmp_path / "tiny")
    names = sorted(p.name for p in made.iterdir())
    assert names == sorted(p.name for p in (tmp_path / "tiny").iterdir())
    for name in names:
        assert (made / name).read_bytes() == (tmp_path / "tiny" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--steps", "0"], 2, "steps"),
        (["--steps", "1001"], 2, "steps"),
        (["--width", "10"], 2, "multiples of 4"),
        (["--height", "65536", "--width", "65536"], 2, "too large"),
        (["-o", "picture.txt"], 2, "extension"),
        (["-o", "no/such/picture.png"], 2, "folder of the output"),
        (["--scheduler", "dpm"], 2, "dpm"),
    ],
)
def test_errors_of_the_command(
    made: Path, arguments: list[str], code: int, said: str, tmp_path: Path,
) -> None:  # fmt: skip
    found, _, err = _run("diffusion", "run", made, *arguments, cwd=tmp_path)
    assert found == code, err
    assert said in err
    assert not list(tmp_path.iterdir())


def test_what_is_no_folder_of_a_pipeline(tmp_path: Path) -> None:
    assert _run("diffusion", "run", tmp_path)[0] == 6
    assert _run("diffusion", "run", TINY)[0] == 6
    (tmp_path / DESCRIPTION).write_text("[]")
    assert _run("diffusion", "run", tmp_path)[0] == 6


def test_options_of_other_conversions_are_refused(tmp_path: Path) -> None:
    for options in ({"strict_target": True}, {"testdir": "x"}, {"prune": 0.5}):
        with pytest.raises(UsageError):
            convert(TINY, output=tmp_path / "made", **options)
    with pytest.raises(UsageError, match="the output folder is the source"):
        convert(TINY)
    with pytest.raises(UsageError, match="the output is a file"):
        convert(TINY, output=tmp_path / "made.mnn")
    assert not list(tmp_path.iterdir())


def _changed(file: str, **changes: Any) -> Any:
    """Changes a table in JSON; None takes an entry away."""

    def change(folder: Path) -> None:
        path = folder / file
        table = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({k: v for k, v in table.items() if v is not None}))

    return change


def _removed(file: str) -> Any:
    return lambda folder: shutil.rmtree(folder / file) if (folder / file).is_dir() else (folder / file).unlink()


def _cut(file: str, count: int) -> Any:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:count])


def _renamed(folder: Path) -> None:
    """Another name for a tensor, of as many letters."""
    path = folder / "unet" / "diffusion_pytorch_model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"conv_in.bias"', b'"conv_in.best"'))


def _huge(folder: Path) -> None:
    path = folder / "vae" / "diffusion_pytorch_model.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 62) + path.read_bytes()[8:])


_UNET, _VAE, _TEXT = "unet/config.json", "vae/config.json", "text_encoder/config.json"
_WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (_changed("model_index.json", _class_name="FluxPipeline"), UnsupportedError),
        (_changed("model_index.json", unet=None), FormatError),
        (_changed("model_index.json", unet=["diffusers", "UNet3D"]), UnsupportedError),
        (_changed("model_index.json", unet=["a", "b", "c"]), FormatError),
        (_changed("model_index.json", scheduler={"a": 1}), FormatError),
        (_changed("scheduler/scheduler_config.json", _class_name="LCMScheduler"), UnsupportedError),
        (_changed("scheduler/scheduler_config.json", beta_start=-1), FormatError),
        (_changed(_UNET, block_out_channels=[4, 9]), ModelError),
        (_changed(_UNET, block_out_channels=[1 << 40, 8]), ModelError),
        (_changed(_UNET, block_out_channels=[4, float("nan")]), ModelError),
        (_changed(_UNET, block_out_channels=4), ModelError),
        (_changed(_UNET, block_out_channels=[4] * 100), ModelError),
        (_changed(_UNET, layers_per_block=1 << 19), ModelError),
        (_changed(_UNET, transformer_layers_per_block=1 << 19), ModelError),
        (_changed(_UNET, norm_num_groups=3), ModelError),
        (_changed(_UNET, attention_head_dim=3), ModelError),
        (_changed(_UNET, attention_head_dim=[2]), ModelError),
        (_changed(_UNET, freq_shift=2), ModelError),
        (_changed(_UNET, class_embed_type="timestep"), UnsupportedError),
        (_changed(_UNET, addition_embed_type="text_time"), UnsupportedError),
        (_changed(_UNET, down_block_types=["DownBlock2D", "SimpleDown"]), UnsupportedError),
        (_changed(_UNET, in_channels=9), UnsupportedError),
        (_changed(_UNET, cross_attention_dim=16), ModelError),
        (_changed(_UNET, sample_size="large"), ModelError),
        (_changed(_UNET, sample_size=[8, float("inf")]), ModelError),
        (_changed(_VAE, latents_mean=[0.0] * 4), UnsupportedError),
        (_changed(_VAE, layers_per_block=60), ModelError),
        (_changed(_VAE, scaling_factor=0), ModelError),
        (_changed(_VAE, up_block_types=["AttnUpDecoderBlock2D"] * 2), UnsupportedError),
        (_changed(_TEXT, model_type="t5"), UnsupportedError),
        (_changed(_TEXT, num_attention_heads=0), ModelError),
        (_changed(_TEXT, vocab_size=1 << 27), ModelError),
        (_changed("tokenizer/tokenizer_config.json", pad_token=None), ModelError),
        (_changed("tokenizer/tokenizer_config.json", pad_token="nowhere"), ModelError),
        (_changed("tokenizer/tokenizer.json", model={"type": "WordPiece", "vocab": [1]}), FormatError),
        (_removed("tokenizer"), FormatError),
        (_removed("tokenizer/tokenizer.json"), FormatError),
        (_removed("scheduler/scheduler_config.json"), FormatError),
        (_removed(_UNET), FormatError),
        (_removed(_WEIGHTS), FormatError),
        (_cut(_WEIGHTS, 5), FormatError),
        (_cut(_WEIGHTS, 20000), FormatError),
        (_cut(_VAE, 50), FormatError),
        (_cut("model_index.json", 3), FormatError),
        (_renamed, ModelError),
        (_huge, FormatError),
    ],
)
def test_damaged_folders_are_refused(damage: Any, error: type[MinnowError], tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(TINY, source)
    damage(source)
    with pytest.raises(MinnowError) as raised:
        convert(source, output=tmp_path / "made")
    assert type(raised.value) is error, raised.value
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", [*(f"{m}.mnn" for m in MODELS), "tokenizer.json", f"{MODELS[1]}.mnn.weight"])
def test_folders_without_a_file(made: Path, name: str, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "copy")
    (tmp_path / "copy" / name).unlink()
    with pytest.raises(FormatError):
        minnow.diffusion.load(tmp_path / "copy")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2}, {"channels": 0}, {"scale": 3}, {"height": 7}, {"scaling": 0}, {"scaling": "1"},
        {"length": 1 << 40}, {"padding": 99}, {"padding": -1}, {"vocab_size": None}, {"scheduler": []},
        {"scheduler": {"_class_name": "DDIMScheduler", "num_train_timesteps": -4}}, {"shift": float("nan")},
        {"name": 3}, {"step": True},
    ],
)  # fmt: skip
def test_descriptions_that_are_wrong(made: Path, change: dict[str, Any], tmp_path: Path) -> None:
    table = json.loads((made / DESCRIPTION).read_text()) | change
    (tmp_path / DESCRIPTION).write_text(json.dumps(table))
    with pytest.raises(FormatError):
        minnow.diffusion.load(tmp_path)


def test_inspect_and_help_name_the_parts() -> None:
    code, out, err = _run("inspect", TINY)
    assert code == 0, err
    assert "encoder_hidden_states" in out
    assert "GroupNorm" in out
