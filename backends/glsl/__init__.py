"""GLSL, compiled to SPIR-V."""
