"""GGUF, the format of llama.cpp: one file with a model's hyperparameters, tokenizer and packed tensors."""
