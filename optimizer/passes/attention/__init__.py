"""Attention and what belongs to it: rotary positions, the layers that make its operands, its cache."""
