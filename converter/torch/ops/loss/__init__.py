"""Losses and distances of PyTorch."""
