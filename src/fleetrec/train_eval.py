"""``python -m fleetrec.train_eval``: the same as ``fleetrec train-eval``."""

from fleetrec.cli.main import main

if __name__ == "__main__":
    main("train-eval")
