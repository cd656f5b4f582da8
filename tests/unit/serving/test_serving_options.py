"""Options that are not safe, or contradict each other, are refused."""

from pathlib import Path

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.serving.options import ServeOptions

PEM = Path("some.pem")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected a model, or --follow"),
        ({"model": "a", "follow": "b"}, "expected a model, or --follow"),
        ({"model": "a", "certificate": PEM}, "--tls-certificate and --tls-key: expected both"),
        ({"model": "a", "name": "a/b"}, "--name: expected a name without '/'"),
        ({"model": "a", "host": "0.0.0.0"}, "--host 0.0.0.0: other machines could reach it"),
        ({"model": "a", "host": "::"}, "--host ::: other machines could reach it"),
        ({"model": "a", "host": "example.com"}, "set FLEETREC_TOKEN"),
    ],
)
def test_a_mistake_is_named(options, message):
    with pytest.raises(ConfigError, match=message):
        ServeOptions(**options).check()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"host": "::1"},
        {"host": "localhost"},
        {"host": "0.0.0.0", "token": "secret"},
        {"host": "0.0.0.0", "certificate": PEM, "key": PEM},
    ],
)
def test_loopback_token_or_tls_will_do(options):
    ServeOptions(model="a", **options).check()


def test_the_token_is_not_shown():
    assert "hunter2" not in repr(ServeOptions(model="a", token="hunter2"))
