"""Models that order a list."""
