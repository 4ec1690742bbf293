"""The two files of settings in a folder of MNN-LLM: `llm_config.json`, of the model, and `config.json`, of its runs."""

from __future__ import annotations

import json
from typing import Any

from minnow.converter.llm.mnn.step import MnnStep
from minnow.converter.llm.mnn.table import Table

GRAPH, WEIGHTS, FACTS, RUN, TOKENIZER = "llm.mnn", "llm.mnn.weight", "llm_config.json", "config.json", "tokenizer.mtok"
"""The files of a folder."""


def facts(step: MnnStep, table: Table, tokens: dict[int, str]) -> str:
    """The content of `llm_config.json`.

    Args:
        step: the graph.
        table: its table of tokens.
        tokens: texts of the tokens that begin and end texts, by their ids.
    """
    checkpoint = step.checkpoint
    found: dict[str, Any] = {
        "model_type": checkpoint.model_type,
        "hidden_size": step.hidden,
        "layer_nums": step.layers,
        "attention_mask": "float",
        "attention_type": "mix" if step.window else "full",
        "sliding_window": step.window,
        "key_value_shape": [2, 1, 0, step.kv_heads, step.head_size],
        "max_position_embeddings": step.context,
        "is_mrope": False,
    }
    if table.layout:
        found["tie_embeddings"] = table.settings()
    if checkpoint.chat_template is not None:
        template: dict[str, Any] = {"chat_template": checkpoint.chat_template}
        if checkpoint.bos is not None:
            template["bos"] = tokens.get(checkpoint.bos, "")
        if checkpoint.eos:
            template["eos"] = tokens.get(checkpoint.eos[0], "")
        found["jinja"] = template
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def run_settings(step: MnnStep, table: Table) -> str:
    """The content of `config.json`. Its precision and memory are those with which MNN's runtime computes in float32:
    with "low" it rounds what goes into each product to 8 bits."""
    found = {
        "llm_model": GRAPH,
        "llm_weight": WEIGHTS,
        **({"embedding_file": table.name} if table.name else {}),
        "tokenizer_file": TOKENIZER,
        "backend_type": "cpu",
        "thread_num": 4,
        "precision": "high",
        "memory": "high",
        "max_all_tokens": step.context,
        "sampler_type": "greedy",
        "use_template": step.checkpoint.chat_template is not None,
    }
    return json.dumps(found, indent=1) + "\n"
