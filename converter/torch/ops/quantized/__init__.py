"""Quantized tensors of PyTorch, and the operators and layers on them."""
