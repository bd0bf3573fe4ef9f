"""Untrusted: passes propose steps and kernels; `tang_verified.proofs` disposes."""
