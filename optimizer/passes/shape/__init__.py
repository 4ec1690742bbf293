"""Shapes that are computed, what follows of them, and what is repeated to have a shape."""
