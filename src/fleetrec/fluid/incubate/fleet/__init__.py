"""Fluid's place of Fleet."""
