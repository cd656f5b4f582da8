"""``python -m fleetrec.node -- COMMAND``: one process of a submitted job, on its node."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("node")
