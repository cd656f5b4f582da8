"""``python -m fleetrec.launch_ps``: the same as ``fleetrec launch-ps``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("launch-ps")
