"""Latent diffusion pipelines -> IR: folders of diffusers, and a graph for each of their models."""

from minnow.converter.diffusion.frontend import frontend

__all__ = ["frontend"]
