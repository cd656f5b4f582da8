"""Results of batches as JSON, also after a process was killed while it wrote them."""

import json
from pathlib import Path

import pytest

from fleetrec.core.batch import Batch
from fleetrec.train.dump import open_dump
from making_groups import make_batch
from unit.parallel.linear import Linear


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(url, *batches: Batch):
    with open_dump(url, Linear()) as dump:
        for batch in batches:
            dump.write({"logit": batch.label("click") + 2}, batch)


def test_a_dump_has_outputs_and_labels_of_every_batch():
    write("results", make_batch([1, 2]), make_batch([3]))
    assert json.loads(Path("results").read_text()) == [
        {"click": [1.0, 0.0], "logit": [3.0, 2.0]},
        {"click": [1.0], "logit": [3.0]},
    ]


def test_a_dump_of_no_batches_is_an_empty_list():
    write("results")
    assert json.loads(Path("results").read_text()) == []


def test_without_a_path_nothing_is_written():
    write(None, make_batch([1]))
    assert list(Path().iterdir()) == []


def test_a_failed_run_leaves_no_dump():
    with pytest.raises(ZeroDivisionError), open_dump("results", Linear()):
        raise ZeroDivisionError
    assert list(Path().iterdir()) == []


def test_what_a_killed_process_left_is_deleted_when_its_dump_is_written_again():
    left = (".results_worker_1.0123abcd.part", ".results_worker_1.ffffffff.part")
    of_others = (".results_worker_10.0123abcd.part", ".results.0123abcd.part", "results.part")
    for name in (*left, *of_others):
        Path(name).write_text("[\n")
    write("results_worker_1", make_batch([1]))
    assert {path.name for path in Path().iterdir()} == {"results_worker_1", *of_others}
