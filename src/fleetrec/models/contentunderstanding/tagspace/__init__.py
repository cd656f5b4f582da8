"""TagSpace."""
