"""``python -m fleetrec.new``: the same as ``fleetrec new``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("new")
