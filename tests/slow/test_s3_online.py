"""An online run whose data and models are on S3: killed, continued, equal to a local run."""

import pytest

from chaos.online import (
    OnlinePlan,
    OnlineProcess,
    make_online_workspace,
    online_problems,
    online_result,
    order,
)
from fleetrec.core import storage
from fleetrec.core.remote_files import upload

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiprocess,
    # botocore's own, of Python versions and dates
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PLAN = OnlinePlan(mode="one process")
POINTS = ("publish", "serving_rows", "donefile", "compute", "pass_frozen")


def test_a_run_on_s3_that_is_killed_leaves_what_a_local_run_leaves(bucket, tmp_path):
    place = f"s3://{bucket}/place"
    make_online_workspace(tmp_path, PLAN)
    with OnlineProcess(tmp_path) as run:
        assert run.wait() == 0, run.tail()
    local = online_result(tmp_path, PLAN)

    upload(tmp_path / "data", storage.join(place, "data"))
    model = storage.join(place, "model")
    words = [f"train_data_dir={storage.join(place, 'data')}", f"model_save_path={model}"]
    overrides = [word for text in words for word in ("-o", f"runner.online.{text}")]
    (tmp_path / "logs").rename(tmp_path / "logs of the local run")
    for point in POINTS:
        with OnlineProcess(tmp_path, *overrides) as run:
            placed = order(run.faults, point, count=2)
            assert run.wait() == -9, run.tail()
            assert not placed.exists()
    with OnlineProcess(tmp_path, *overrides) as run:
        assert run.wait() == 0, run.tail()
    assert online_problems(online_result(tmp_path, PLAN, model=model), PLAN, local) == []
