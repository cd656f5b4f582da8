"""``python -m fleetrec.serve_table``: the same as ``fleetrec serve-table``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("serve-table")
