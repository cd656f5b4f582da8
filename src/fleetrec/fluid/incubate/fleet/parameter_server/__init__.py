"""Training with parameter servers."""
