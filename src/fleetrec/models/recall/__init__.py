"""Models that find candidates."""
