"""WGSL."""
