"""Metal shading language."""
