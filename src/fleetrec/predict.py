"""``python -m fleetrec.predict``: the same as ``fleetrec predict``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("predict")
