"""Every test process computes with one thread: tests run side by side."""

import os
import subprocess

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for child processes


@pytest.fixture(autouse=True)
def warm_processes(request, monkeypatch):
    """Let Python processes of a test be forks of one that has torch imported."""
    if any(request.node.get_closest_marker(name) for name in ("cold", "slow")):
        return
    from warm_start import WarmPopen, template

    monkeypatch.setattr(WarmPopen, "fork", lambda *given: template().fork(*given), raising=False)
    monkeypatch.setattr(subprocess, "Popen", WarmPopen)
