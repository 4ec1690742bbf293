"""Normalizations and softmax that sources spell out."""
