"""Serving models that are made of checkpoints."""

import json
from pathlib import Path

import numpy as np
import pytest

from fleetrec.checkpoint.folder import open_folder
from fleetrec.config.serving import ServingOptions
from fleetrec.core.errors import CheckpointError
from fleetrec.export.follower import Follower
from fleetrec.export.manifest import open_model
from fleetrec.export.row_files import read_removed, read_rows
from making_serving import DAY_S, GROWING, TABLE, ServingRun


@pytest.fixture
def run(tmp_path):
    return ServingRun(tmp_path)


def ids_of(url):
    """Return the ids of rows, and the removed ids, of a serving model."""
    folder, manifest = open_model(url)
    table = manifest.tables[TABLE]
    ids = [ids.tolist() for ids, _ in read_rows(folder, table)]
    return {one for some in ids for one in some}, set(read_removed(folder, table).tolist())


def lines_of(folder, name):
    return [json.loads(line) for line in Path(folder, name).read_text().splitlines()]


def test_a_base_and_its_deltas_answer_as_the_live_model(run, tmp_path):
    follower = Follower(tmp_path)
    made = []
    for _ in range(6):
        made.append(run.make_version())
        assert follower.poll()
        assert follower.version.id == run.num_passes * DAY_S
        run.assert_answers(follower)
    assert [manifest.type for manifest in made] == ["base"] + ["delta"] * 5
    contents = {manifest.tables[TABLE].content for manifest in made[1:]}
    assert contents == {"changes"}
    assert sum(manifest.tables[TABLE].num_removed for manifest in made) > 5  # rows were evicted
    assert Follower(tmp_path).version == follower.version  # from the beginning, the same


def test_a_delta_holds_the_changes_of_all_checkpoints_since_the_last_one(run, tmp_path):
    run.make_version()
    follower = Follower(tmp_path)
    for number in range(3):
        run.train_pass(num_batches=1)
        last = run.save(f"more-{number}")
    made = run.publish(last, "together")
    assert made.tables[TABLE].content == "changes"
    follower.poll()
    run.assert_answers(follower)


def test_a_delta_after_a_full_checkpoint_holds_whole_tables(run, tmp_path):
    run.make_version()
    follower = Follower(tmp_path)
    run.train_pass()
    run.save("full", is_delta=False)
    run.train_pass(num_batches=1)
    made = run.publish(run.save("after"), "whole")
    assert (made.type, made.tables[TABLE].content) == ("delta", "all")
    assert made.tables[TABLE].num_rows == len(run.live_ids())
    follower.poll()
    run.assert_answers(follower)


def test_a_delta_without_changes_has_no_rows(run, tmp_path):
    run.make_version()
    follower = Follower(tmp_path)
    made = run.publish(f"{tmp_path}/checkpoint-1", "same", id=DAY_S + 1)
    table = made.tables[TABLE]
    assert (table.content, table.num_rows, table.num_removed) == ("changes", 0, 0)
    follower.poll()
    run.assert_answers(follower)


def test_done_lines_name_base_and_deltas_with_the_key_of_the_base(run, tmp_path):
    run.make_version(monitor={"AUC": 0.75, "COPC": float("nan")})
    run.make_version()
    (base,), (delta,) = (lines_of(tmp_path, f"{n}_donefile.txt") for n in ("base", "patch"))
    assert base == {
        "id": "86400",
        "key": "86400",
        "input": f"{tmp_path}/model-1",
        "path": "model-1",
        "monitor_data": {"AUC": 0.75, "COPC": None},
    }
    assert (delta["id"], delta["key"], delta["path"]) == ("172800", "86400", "model-2")


def test_a_model_that_was_published_before_stays_and_is_noted_once(run, tmp_path):
    for _ in range(2):
        run.make_version()
    before = (tmp_path / "model-2" / "MANIFEST.json").stat()
    (tmp_path / "patch_donefile.txt").unlink()  # as if the run was killed before it
    for _ in range(2):
        run.publish(f"{tmp_path}/checkpoint-2", "model-2", id=2 * DAY_S)
        assert len(lines_of(tmp_path, "patch_donefile.txt")) == 1
    assert (tmp_path / "model-2" / "MANIFEST.json").stat() == before


def test_a_base_that_was_published_before_is_noted_as_a_base(run, tmp_path):
    run.make_version()
    (tmp_path / "base_donefile.txt").unlink()
    run.publish(f"{tmp_path}/checkpoint-1", "model-1", id=DAY_S)
    assert len(lines_of(tmp_path, "base_donefile.txt")) == 1
    assert not (tmp_path / "patch_donefile.txt").exists()


def test_models_of_another_run_are_replaced_and_not_built_on(run, tmp_path):
    for _ in range(2):
        run.make_version()
    other = ServingRun(tmp_path / "other", place=tmp_path, run_id="f" * 16)
    follower = Follower(tmp_path)
    made = [other.make_version() for _ in range(2)]
    assert [manifest.type for manifest in made] == ["base", "delta"]
    assert made[1].parent.fingerprint == made[0].fingerprint
    fresh = Follower(tmp_path)
    other.assert_answers(fresh)
    assert follower.version.id == fresh.version.id


def test_a_new_base_has_a_key_of_its_own_and_deltas_follow_it(run, tmp_path):
    run.make_version()
    follower = Follower(tmp_path)
    run.make_version(kind="base")
    made = run.make_version()
    assert made.version.key == 2 * DAY_S
    follower.poll()
    assert (follower.version.key, follower.version.id) == (2 * DAY_S, 3 * DAY_S)
    run.assert_answers(follower)


def test_a_delta_of_a_base_that_is_not_there_is_refused(run, tmp_path):
    with pytest.raises(CheckpointError, match="no base with the key 7 and an id below 86400"):
        run.make_version(key=7)
    assert not (tmp_path / "model-1").exists()


def test_a_checkpoint_without_the_tables_of_the_model_is_refused(run, tmp_path):
    run.train_pass()
    url = Path(run.save("checkpoint"))
    manifest = json.loads((url / "MANIFEST.json").read_text())
    manifest["tables"]["learn"] = {"other": manifest["tables"]["learn"][TABLE]}
    (url / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(
        CheckpointError, match="phase learn has no table 'SparseFeatFactors'; it has other"
    ):
        run.publish(str(url), "model")


def test_a_failed_publication_leaves_nothing(run, tmp_path):
    run.train_pass()
    url = Path(run.save("checkpoint"))
    for path in (url / "learn" / "tables" / TABLE).iterdir():
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"\.snap"):
        run.publish(str(url), "model")
    assert not list(tmp_path.glob("*model*"))
    assert not (tmp_path / "base_donefile.txt").exists()


def test_the_network_is_that_of_the_checkpoint_and_not_the_live_one(run, tmp_path):
    run.train_pass()
    checkpoint = run.save("checkpoint")
    run.publish(checkpoint, "early", id=1)
    run.train_pass()
    run.publish(checkpoint, "late", id=2, kind="base")
    graphs = [(tmp_path / name / "model.onnx").read_bytes() for name in ("early", "late")]
    run.publish(run.save("more"), "trained", id=3)
    assert graphs[0] == graphs[1]
    assert graphs[0] != (tmp_path / "trained" / "model.onnx").read_bytes()


@pytest.mark.parametrize("place", ["memory://test-serving/a", None])
def test_models_are_published_and_followed_at_urls(tmp_path, place):
    run = ServingRun(tmp_path, place=place)
    for _ in range(3):
        run.make_version()
    follower = Follower(run.place)
    assert follower.version.id == 3 * DAY_S
    run.assert_answers(follower)


def score(row, options):
    clicks = row["clicks"]
    return options.nonclk_coeff * (row["shows"] - clicks) + options.click_coeff * clicks


def test_rows_with_a_low_score_are_not_served_and_leave_when_they_fall_below(tmp_path):
    options = ServingOptions(nonclk_coeff=0.5, click_coeff=2.0, base_threshold=1.5)
    decaying = (*GROWING, "hyper_parameters.eviction={decay: 0.5}")
    run = ServingRun(tmp_path, overrides=decaying, options=options)
    run.make_version(num_batches=5)
    served = []
    for _ in range(3):
        columns = run.table.snapshot()
        high = score(columns, options) >= options.base_threshold
        served.append(set(columns["ids"].view(np.uint64)[high].tolist()))
        rows, removed = ids_of(f"{tmp_path}/model-{run.num_passes}")
        if len(served) == 1:
            assert rows == served[0]
            assert 0 < len(rows) < len(columns["ids"])
        else:
            assert rows <= served[-1]
            assert removed >= served[-2] - served[-1]
            assert not rows & removed
        run.make_version(num_batches=1)
    assert served[0] - served[-1]  # some rows did fall below
    follower = Follower(tmp_path)
    columns = run.table.snapshot()
    assert follower._predictor.num_rows == int((score(columns, options) >= 1.5).sum())


def test_rows_that_were_not_seen_for_long_are_not_served(tmp_path):
    run = ServingRun(tmp_path, overrides=GROWING, options=ServingOptions(delta_keep_days=1))
    run.train_pass()
    run.train_pass(num_batches=1)
    run.train_pass(num_batches=1)
    columns = run.table.snapshot()
    recent = columns["last_seen"] >= DAY_S  # seen on the second day or later, it is the third
    expected = set(columns["ids"].view(np.uint64)[recent].tolist())
    run.publish(run.save("checkpoint"), "model", id=77, event_time=2 * DAY_S)
    assert ids_of(f"{tmp_path}/model")[0] == expected
    assert 0 < len(expected) < len(recent)


def test_options_of_a_table_override_those_of_all(tmp_path):
    nothing = ServingOptions(base_threshold=1e9)
    run = ServingRun(tmp_path, options=nothing, by_table={TABLE: ServingOptions()})
    assert run.make_version().tables[TABLE].num_rows == len(run.live_ids())


def scores_of(run):
    """Return the score of every live row, with the default weights."""
    columns = run.table.snapshot()
    shows, clicks = columns["shows"].astype(float), columns["clicks"].astype(float)
    scores = 0.1 * (shows - clicks) + clicks
    return dict(zip(columns["ids"].view(np.uint64).tolist(), scores.tolist(), strict=True))


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restarted"])
def test_rows_are_published_when_their_score_has_grown_enough(tmp_path, restarts):
    options = ServingOptions(delta_threshold=0.25)
    counted = (*GROWING, "hyper_parameters.eviction={min_score: 0}")  # then clicks are counted
    run = ServingRun(tmp_path, overrides=counted, options=options)
    run.make_version()
    published = scores_of(run)
    assert ids_of(run.last_url)[0] == published.keys()  # a base has no such threshold
    for _ in range(3):
        if restarts:
            run.new_publisher()
        run.make_version(num_batches=1)
        now = scores_of(run)
        grown = {i for i in now if now[i] >= published.get(i, 0) + 0.25 - 1e-6}
        changed = {i for i in now if now[i] > published.get(i, 0)}
        assert ids_of(run.last_url)[0] == grown
        assert grown < changed  # the others wait for the next delta
        published |= {i: now[i] for i in grown}


def test_the_manifest_names_the_checkpoint(run, tmp_path):
    made = run.make_version(day="20261118")
    checkpoint = open_folder(tmp_path / "checkpoint-1", kind="checkpoint")
    assert made.version.day == "20261118"
    assert made.source.run_id == checkpoint.meta["run_id"]
    table = checkpoint.meta["tables"]["learn"][TABLE]
    assert made.source.tables == {TABLE: table["fingerprint"]}
