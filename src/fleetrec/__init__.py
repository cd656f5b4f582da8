"""FleetRec trains recommendation models from a config file."""

__version__ = "0.1.0"
