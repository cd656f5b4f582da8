"""``python -m fleetrec.serve``: the same as ``fleetrec serve``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("serve")
