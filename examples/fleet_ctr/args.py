"""What can be said on the command line."""

import argparse


def parse_args() -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(description="Click-through rate with the Fleet API")
    parser.add_argument("--is_local", type=int, default=0, help="1: this process alone")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--data", default="raw_data", help="folder of part-0, part-1, ...")
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--save", default="", help="where the first worker saves the model")
    return parser.parse_args()
