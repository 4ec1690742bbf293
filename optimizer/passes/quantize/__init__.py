"""Quantized networks: what they say of numbers in integers, as layers that compute with the integers."""
