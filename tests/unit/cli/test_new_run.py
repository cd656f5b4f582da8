"""A folder with checkpoints of an earlier run is not trained into."""

import json

import pytest

from fleetrec.cli.new_run import check_new_run
from fleetrec.config.job import RunOptions
from fleetrec.config.rules import ResumeOptions
from fleetrec.core.errors import ConfigError


def make_run(folder, **options):
    resume = ResumeOptions(folders=(str(folder),), flag="--continue_train", **options)
    return RunOptions(name="run", kind="train", phases=(), resume=resume)


def publish(folder, name):
    (folder / name).mkdir()
    (folder / name / "MANIFEST.json").write_text(json.dumps({}))


def test_checkpoints_that_are_found_by_their_step_must_be_of_one_run(tmp_path):
    run = make_run(tmp_path, prefix="model.ckpt-")
    check_new_run(run)
    publish(tmp_path, "model.ckpt-3")
    with pytest.raises(
        ConfigError, match=r"holds model\.ckpt-3 of an earlier run; resume with --c"
    ):
        check_new_run(run)
    check_new_run(run.model_copy(update={"kind": "infer"}))


def test_checkpoints_that_are_found_by_the_id_of_the_run_may_be_replaced(tmp_path):
    publish(tmp_path, "model.ckpt-3")
    check_new_run(make_run(tmp_path))
