"""Printers and runtimes. They accept certified kernels only."""
