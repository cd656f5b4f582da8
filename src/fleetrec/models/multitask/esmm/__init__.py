"""ESMM."""
