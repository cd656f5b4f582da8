"""``fleetrec submit --serve``: what it makes, and what it refuses."""

import stat

import pytest
from ruamel.yaml import YAML

from fleetrec.cli.submit_serving import ServeRequest, submit_serving
from fleetrec.core.errors import ConfigError

BACKEND = """
backend: kubernetes
kubernetes: {image: fleetrec, namespace: ads}
config: {env: {AWS_SECRET_ACCESS_KEY: hidden}}
submit: {job_name: Click_Model, workers: 3, worker_cpus: 2}
"""


def request(folder, *, backend=BACKEND, **model):
    (folder / "backend.yaml").write_text(backend)
    given = {"model": "s3://models/7", "follow": None, **model}
    return ServeRequest(backend_file=folder / "backend.yaml", dry_run=True, **given)


def test_a_dry_run_makes_the_objects_and_shows_no_secret(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETREC_TOKEN", "s3cret")
    submit_serving(request(tmp_path))
    printed = capsys.readouterr().out
    assert "s3cret" not in printed
    assert "hidden" not in printed
    assert "not submitted (--dry-run)" in printed
    (folder,) = tmp_path.glob("Click_Model_*")
    service, deployment = YAML(typ="safe").load_all(
        (folder / "kubernetes/4-workers.yaml").read_text()
    )
    assert service["metadata"] == {**service["metadata"], "name": "click-model", "namespace": "ads"}
    assert deployment["spec"]["replicas"] == 3
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "2"}
    assert "s3://models/7" in container["command"]
    assert stat.S_IMODE((folder / "kubernetes/2-secrets.yaml").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "backend.yaml").stat().st_mode) == 0o600


def test_other_backends_serve_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="backend: local cannot serve; use kubernetes"):
        submit_serving(request(tmp_path, backend="backend: local\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["backend.yaml"]


def test_a_followed_run_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    submit_serving(request(tmp_path, model=None, follow="/data/online"))
    (manifest,) = tmp_path.glob("*/kubernetes/4-workers.yaml")
    assert '- "--follow"\n            - /data/online\n' in manifest.read_text()
