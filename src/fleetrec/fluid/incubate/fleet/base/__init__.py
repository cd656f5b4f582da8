"""Roles of processes."""
