"""``python -m fleetrec.plan``: the same as ``fleetrec plan``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("plan")
