"""``python -m fleetrec.check``: the same as ``fleetrec check``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("check")
