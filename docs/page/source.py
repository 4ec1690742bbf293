"""What is read: operators of the source formats, language models, and the README's table of all of it."""

from __future__ import annotations

from page.markdown import table


def operators(framework: str, title: str, about: str) -> str:
    """Operators of a source format."""
    from minnow.cli.ops import operator_rows

    rows = [[f"`{name}`", versions, note] for name, versions, note in operator_rows(framework)]
    read = sum(1 for _, versions, _ in rows if versions)
    return (
        f"# {title} operators\n\n{read} supported operators{about} An empty version means that the operator is "
        "unsupported; the note has the reason.\n\n" + table(["operator", "versions", "note"], rows)
    )


def onnx() -> str:
    return operators("onnx", "ONNX", " of all opsets; the versions are opsets.")


def tflite() -> str:
    return operators("tflite", "TFLite", ": builtin operators, and custom operators by their custom code.")


def tensorflow() -> str:
    return operators("tensorflow", "TensorFlow", " of frozen graphs, SavedModels and Keras files.")


def caffe() -> str:
    return operators("caffe", "Caffe", ": the layer types of Caffe and of its forks.")


def torch() -> str:
    about = (
        ", by the schema names of TorchScript and torch.export. A name without an overload stands for all overloads."
    )
    return operators("torch", "PyTorch", about)


def architectures() -> str:
    """The families of language models that are converted."""
    from minnow.converter.llm.architecture import architectures as known
    from minnow.converter.llm.gguf.hyperparameter import MODEL_TYPES

    named: dict[str, list[str]] = {}
    for gguf, model_type in MODEL_TYPES.items():
        named.setdefault(model_type, []).append(f"`{gguf}`")
    named["mixtral"] = named["mistral"] = named["llama"]  # which are the same to GGUF
    rows = [[f"`{k}`", a.title, ", ".join(named.get(k, []))] for k, a in known().items()]
    return table(["`model_type`", "models", "in GGUF"], rows)


def rotary() -> str:
    """How contexts are made longer."""
    from minnow.converter.llm.rotary import WAYS

    names = ", ".join(f"`{name}`" for name in WAYS)
    return f"Rotary positions are scaled in the ways that `rope_parameters` or `rope_scaling` name: {names}.\n"


def support() -> str:
    """The README's table of what is supported."""
    import onnx as onnx_package

    from minnow.converter.formats import frontends
    from minnow.converter.onnx.reader import OLDEST_OPSET
    from minnow.optimizer.rewrite import passes as all_passes
    from minnow.optimizer.rewrite import rules
    from minnow.schema.ops import all_ops

    ops_ = all_ops()
    native = sum(1 for op in ops_ if op.mnn)
    read = {name: len(frontend.mappings) for name, frontend in frontends().items()}
    schemas = {name.partition(".")[0] for name in frontends()["torch"].mappings}
    newest = onnx_package.defs.onnx_opset_version()
    rows = [
        ["sources", f"ONNX, opsets {OLDEST_OPSET} to {newest}: {read['onnx']} operators; functions; external data"],
        ["", f"TFLite: {read['tflite']} operators; float, float16, dynamic range, 8 and 16 bits; signatures; states"],
        [
            "",
            f"TensorFlow: {read['tensorflow']} operators; graphs, SavedModels, Keras files; both kinds of control flow",
        ],
        ["", f"PyTorch: {len(schemas)} operators; torch.export, TorchScript, modules; quantized modules; states"],
        ["", f"Caffe: {read['caffe']} layer types; all versions of the format, SSD and other forks"],
        ["control flow", "If, Loop and Scan, also nested and with captured values; sequences and optionals"],
        ["ops", f"{len(ops_)}, of which the `.mnn` format defines {native}, so that MNN can run them, too"],
        ["optimizer", f"{len(rules)} rewrite rules and {len(all_passes)} passes, levels -O0 to -O3"],
        ["shapes", "static; dynamic dimensions; shapes that depend on values"],
        ["types", "f64, f32, f16, bf16, float8, float4; integers of 2 to 64 bits, bool"],
        ["engine", "CPU, multi-threaded: AVX-512, AVX2 or SSE4, chosen at run time; NEON on Arm"],
        ["", "GPUs: CUDA, Vulkan and OpenCL, alone or together with the CPU"],
        ["language models", "chat, server with OpenAI's paths, continuous batching, speculative decoding, perplexity"],
    ]
    return table(["what", "supported"], rows)
