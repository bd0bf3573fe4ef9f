"""CUDA."""
