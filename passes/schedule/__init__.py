"""Untrusted: choose a kernel for a definition (loops, tiles, lanes, buffers, claims)."""
