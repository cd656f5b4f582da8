"""Every test process computes with one thread: tests run side by side."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for child processes
