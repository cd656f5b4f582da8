"""A folder with checkpoints of an earlier run is not trained into."""

import functools
import json

import pytest

from fleetrec.cli.new_run import check_new_run, check_new_run_together
from fleetrec.config.job import RunOptions
from fleetrec.config.rules import ResumeOptions
from fleetrec.core.errors import ConfigError
from making_groups import thread_ranks, together


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


def refusal(run, group, *, is_new):
    try:
        check_new_run_together(run, group, is_new=is_new)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("peer_is_new", [True, False])
def test_the_chief_refuses_a_used_folder_for_all_ranks(tmp_path, peer_is_new):
    run = make_run(tmp_path, prefix="model.ckpt-")
    publish(tmp_path, "model.ckpt-3")
    chief, peer = thread_ranks()
    found = together(
        [
            functools.partial(refusal, run, chief, is_new=True),
            functools.partial(refusal, run, peer, is_new=peer_is_new),
        ]
    )
    assert "model.ckpt-3 of an earlier run" in found[0]
    assert found[1] == found[0]


def test_a_restarted_chief_goes_on_in_its_folder(tmp_path):
    run = make_run(tmp_path, prefix="model.ckpt-")
    publish(tmp_path, "model.ckpt-3")
    groups = thread_ranks()
    assert together([functools.partial(refusal, run, g, is_new=False) for g in groups]) == ["", ""]
