"""``python -m fleetrec.eval``: the same as ``fleetrec eval``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("eval")
