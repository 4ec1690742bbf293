"""Subgraphs, whatever format they come from: what branches capture, types that hold in every round, and variables."""
