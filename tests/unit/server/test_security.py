"""Addresses that only this machine reaches."""

import pytest

from fleetrec.server.security import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.3.2.1", "::1", "[::1]"])
def test_loopback_is_recognised(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.a.b"])
def test_other_hosts_are_not_loopback(host):
    assert not is_loopback(host)
