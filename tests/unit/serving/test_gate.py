"""The outermost layer of the server."""

import asyncio
import json

import pytest

from fleetrec.server.prometheus import to_text
from fleetrec.serving.gate import Gate, json_response
from fleetrec.serving.metrics import ServingMetrics
from unit.serving.test_serving_metrics import Source

TOKEN = "of this test"


async def answer(scope, receive, send):
    if scope["path"] == "/broken":
        raise ZeroDivisionError("a secret of the request")
    await json_response({"path": scope["path"]})(scope, receive, send)


def ask(path, *, token=TOKEN, headers=()):
    """Return status and content of a response, and the metrics page."""
    metrics = ServingMetrics()
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    asyncio.run(Gate(answer, metrics, token=token)(scope, None, send))
    return (
        sent[0]["status"],
        json.loads(sent[1]["body"]),
        to_text(metrics.collect(Source(), lambda: 0)),
    )


@pytest.mark.parametrize(
    "headers", [(), [(b"authorization", b"Bearer wrong")], [(b"authorization", TOKEN.encode())]]
)
def test_without_the_token_there_is_no_answer(headers):
    status, content, page = ask("/predict", headers=headers)
    assert (status, content) == (401, {"error": "the token is missing or wrong"})
    assert 'requests_total{code="401"} 1.0' in page


def test_with_the_token_there_is():
    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    assert ask("/predict", headers=headers)[:2] == (200, {"path": "/predict"})
    assert ask("/predict", token=None)[0] == 200


def test_probes_need_no_token():
    assert ask("/v2/health/ready")[0] == 200
    assert ask("/v2/health/ready/")[0] == 401


def test_a_fault_of_the_server_is_not_shown(caplog):
    status, content, page = ask("/broken", token=None)
    assert status == 500
    assert content == {"error": "internal error; see the log of the server"}
    assert 'requests_total{code="500"} 1.0' in page
    assert "POST /broken failed" in caplog.text
