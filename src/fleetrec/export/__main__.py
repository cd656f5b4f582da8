"""``python -m fleetrec.export``: the same as ``fleetrec export``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("export")
