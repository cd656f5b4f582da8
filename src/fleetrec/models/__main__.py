"""``python -m fleetrec.models``: the same as ``fleetrec models``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("models")
