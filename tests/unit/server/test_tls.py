"""Servers behind TLS."""

import shutil
import subprocess

import numpy as np
import pytest

from fleetrec.server.client import ClientOptions
from fleetrec.server.endpoint import Endpoint, Security
from fleetrec.server.parameter_client import ParameterClient
from unit.server.serving import MODEL, TOKEN, make_place, make_service


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_a_worker_that_knows_the_certificate_is_served(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    service, durable = make_service(tmp_path / "held")
    security = Security(token=TOKEN, certificate=certificate, key=key)
    with Endpoint(service, "localhost:0", security=security, num_workers=1) as endpoint:
        topology = make_place([f"localhost:{endpoint.port}"])
        options = ClientOptions(token=TOKEN, authority=certificate, deadline_s=30)
        client = ParameterClient(topology, MODEL, options)
        client.set_up(np.zeros(MODEL.num_dense, np.float32))
        assert client.register().sequence == 0
        client.close()
    durable.close()
