"""``python -m fleetrec``: the same as ``fleetrec``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main()
