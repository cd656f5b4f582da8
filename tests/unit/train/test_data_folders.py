"""Which files are there, and whether a folder is complete."""

import os

import pytest

from fleetrec.config.online import FollowOptions
from fleetrec.train.data_folders import DataFolders, Split
from making_online import DONE, make_split

SPLIT = Split(day="20261118", minute=65, event_time=0)
NOW = 1_795_000_000.0


def make_folders(*roots, now=lambda: NOW, **options):
    given = {"folders": [str(root) for root in roots], "start_day": "20261118", "poll_s": 10}
    return DataFolders(FollowOptions(**{**given, **options}), now=now)


def touch(folder, seconds_ago):
    for path in folder.iterdir():
        os.utime(path, (NOW - seconds_ago, NOW - seconds_ago))


def names(arrival):
    return [file.name for file in arrival.files]


def test_a_folder_is_complete_with_its_done_file(tmp_path):
    folders = make_folders(tmp_path, done_file=DONE)
    folder = make_split(tmp_path / "20261118/0105", seed=0, done=False)
    arrival = folders.look([SPLIT])
    assert arrival.missing == f"{folder} has 2 files, but no {DONE} yet"
    (folder / DONE).write_text("")
    arrival = folders.look([SPLIT])
    assert arrival.is_complete
    assert names(arrival) == ["20261118/0105/part-0", "20261118/0105/part-1"]


def test_a_done_file_without_data_is_an_empty_folder(tmp_path):
    folder = tmp_path / "20261118/0105"
    folder.mkdir(parents=True)
    (folder / DONE).write_text("")
    arrival = make_folders(tmp_path, done_file=DONE).look([SPLIT])
    assert (arrival.is_complete, arrival.files) == (True, ())


def test_hidden_files_and_markers_are_no_data(tmp_path):
    folder = make_split(tmp_path / "20261118/0105", seed=0)
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-2.tmp").write_text("1:1")
    assert len(make_folders(tmp_path, done_file=DONE).look([SPLIT]).files) == 2


def test_without_a_done_file_a_folder_is_complete_when_it_is_quiet(tmp_path):
    folder = make_split(tmp_path / "20261118/0105", seed=0, done=False)
    touch(folder, seconds_ago=3)
    assert "still changes" in make_folders(tmp_path).look([SPLIT]).missing
    touch(folder, seconds_ago=12)
    assert make_folders(tmp_path).look([SPLIT]).is_complete


def test_quiet_is_also_what_has_not_changed_while_it_was_watched(tmp_path):
    folder = make_split(tmp_path / "20261118/0105", seed=0, done=False)
    touch(folder, seconds_ago=-3600)  # the clock of the writer is wrong
    times = iter([NOW, NOW + 5, NOW + 6, NOW + 12, NOW + 17])
    folders = make_folders(tmp_path, now=lambda: next(times))
    assert not folders.look([SPLIT]).is_complete
    assert not folders.look([SPLIT]).is_complete
    (folder / "part-2").write_text("click:1\n")
    assert not folders.look([SPLIT]).is_complete
    assert not folders.look([SPLIT]).is_complete
    assert folders.look([SPLIT]).is_complete


def test_a_folder_that_is_not_there_is_missing(tmp_path):
    missing = make_folders(tmp_path).look([SPLIT]).missing
    assert missing == f"{tmp_path}/20261118/0105 holds no file yet"


def test_folders_of_whole_hours_may_be_named_by_the_hour(tmp_path):
    make_split(tmp_path / "20261118/02", seed=0)
    split = Split(day="20261118", minute=120, event_time=0)
    assert len(make_folders(tmp_path, done_file=DONE, split_minutes=60).look([split]).files) == 2
    assert not make_folders(tmp_path, done_file=DONE, split_minutes=5).look([split]).files


def test_several_roots_and_splits_are_one_arrival(tmp_path):
    later = Split(day="20261118", minute=70, event_time=300)
    for root in ("a", "b"):
        for time in ("0105", "0110"):
            make_split(tmp_path / root / "20261118" / time, seed=0)
    folders = make_folders(tmp_path / "a", tmp_path / "b", done_file=DONE)
    arrival = folders.look([SPLIT, later])
    assert len(arrival.files) == 8
    assert arrival.arrived_at is not None


def test_evaluation_data_has_folders_of_its_own(tmp_path):
    make_split(tmp_path / "a/20261118/0105", seed=0)
    folders = make_folders(tmp_path / "a", done_file=DONE, evaluation_folders=[str(tmp_path / "b")])
    assert f"no {DONE} yet" in folders.look([SPLIT]).missing
    make_split(tmp_path / "b/20261118/0105", seed=1)
    arrival = folders.look([SPLIT])
    assert (len(arrival.files), len(arrival.evaluation_files)) == (2, 2)


@pytest.mark.parametrize("minute", [0, 5, 1435])
def test_a_split_is_named_by_its_time(minute):
    split = Split(day="20261118", minute=minute, event_time=0)
    assert split.name == f"20261118/{minute // 60:02d}{minute % 60:02d}"
