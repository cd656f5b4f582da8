"""``python -m fleetrec.run``: the same as ``fleetrec run``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("run")
