"""A tensor compiler whose every rewrite carries its proof."""

__version__ = "0.1.0"
