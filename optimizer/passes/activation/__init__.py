"""Activations that sources spell out, as one node each."""
