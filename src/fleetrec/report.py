"""``python -m fleetrec.report``: the same as ``fleetrec report``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("report")
