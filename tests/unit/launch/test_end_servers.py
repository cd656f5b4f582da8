"""The program that ends servers, against a small API."""

import http.server
import json
import threading

import pytest

from fleetrec.launch.end_servers import Api, end_servers

JOBS = "/apis/batch/v1/namespaces/ads/jobs/w"
SERVERS = "/apis/apps/v1/namespaces/ads/statefulsets/s"


@pytest.fixture
def api(tmp_path):
    """Answers requests for the workers in turn with the answers of ``api.jobs``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        jobs: list = []
        requests: list = []

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.requests.append((self.command, self.path, body.decode()))
            job = self.jobs.pop(0) if self.command == "GET" else {}
            is_known = job is not None and self.headers["Authorization"] == "Bearer secret"
            content = json.dumps(job or {}).encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.answer()

        def do_PATCH(self):
            self.answer()

        def do_DELETE(self):
            self.answer()

        def log_message(self, *_):
            """Stay silent."""

    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("ads")
    handler = type("Own", (Handler,), {"jobs": [], "requests": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        handler.api = Api(address=f"http://127.0.0.1:{server.server_port}", credentials=tmp_path)
        yield handler
        server.shutdown()
        thread.join()


def job(end=None):
    conditions = [{"type": end, "status": "True"}] if end else []
    return {"status": {"conditions": [{"type": "Suspended", "status": "True"}, *conditions]}}


def run(api):
    return end_servers(api.api, workers="w", servers="s", poll_s=0)


def test_servers_are_deleted_when_the_workers_have_succeeded(api):
    api.jobs += [None, job(), job(), job("Complete")]
    assert run(api) == "Complete"
    assert api.requests == [("GET", JOBS, "")] * 4 + [("DELETE", SERVERS, "")]


def test_servers_that_may_be_needed_again_keep_their_volumes(api):
    api.jobs += [job(), job("Failed")]
    assert run(api) == "Failed"
    assert api.requests[-1] == ("PATCH", f"{SERVERS}/scale", '{"spec": {"replicas": 0}}')


def test_servers_of_deleted_workers_are_deleted(api):
    api.jobs += [job(), None]
    assert run(api) == "deleted"
    assert api.requests[-1][0] == "DELETE"
