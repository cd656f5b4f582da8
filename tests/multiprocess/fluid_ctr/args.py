"""The flags of the program."""

import argparse


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--is_local", type=int, default=0)
    return parser.parse_args()
