"""``python -m fleetrec.online``: the same as ``fleetrec online``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("online")
