"""Means, sums and poolings that sources spell out."""
