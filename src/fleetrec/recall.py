"""``python -m fleetrec.recall``: the same as ``fleetrec recall``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("recall")
