"""A folder appears whole or not at all."""

import pytest

from fleetrec.checkpoint.publish import publish


def write_files(**contents):
    def write(staging):
        for name, text in contents.items():
            (staging / name).write_text(text)

    return write


def fail_half_way(staging):
    (staging / "a").write_text("half")
    raise RuntimeError("disk on fire")


def contents(directory):
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_a_folder_is_published_with_its_parents(tmp_path):
    publish(tmp_path / "deep" / "er" / "0", write_files(a="1"))
    assert contents(tmp_path / "deep" / "er" / "0") == {"a": "1"}


def test_nothing_else_is_left_beside_it(tmp_path):
    publish(tmp_path / "0", write_files(a="1"))
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_while_it_is_written_nothing_is_visible_under_its_name(tmp_path):
    seen = []

    def write(staging):
        seen.append((tmp_path / "0").exists())
        assert staging.name.startswith(".")
        assert staging.parent == tmp_path

    publish(tmp_path / "0", write)
    assert seen == [False]


def test_a_failed_write_publishes_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="disk on fire"):
        publish(tmp_path / "0", fail_half_way)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_folder_as_it_was(tmp_path):
    publish(tmp_path / "0", write_files(a="old", b="old"))
    with pytest.raises(RuntimeError):
        publish(tmp_path / "0", fail_half_way)
    assert contents(tmp_path / "0") == {"a": "old", "b": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_an_interrupt_publishes_nothing(tmp_path):
    def interrupt(staging):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path / "0", interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    publish(tmp_path / "0", write_files(a="old", b="old"))
    publish(tmp_path / "0", write_files(a="new"))
    assert contents(tmp_path / "0") == {"a": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_the_old_folder_is_whole_until_the_new_one_takes_its_place(tmp_path):
    publish(tmp_path / "0", write_files(a="old", b="old"))
    seen = []

    def write(staging):
        (staging / "a").write_text("new")
        seen.append(contents(tmp_path / "0"))

    publish(tmp_path / "0", write)
    assert seen == [{"a": "old", "b": "old"}]


def test_leftovers_of_a_crash_do_not_matter(tmp_path):
    left = tmp_path / ".0.abcdef"
    left.mkdir()
    (left / "a").write_text("half")
    publish(tmp_path / "0", write_files(a="1"))
    publish(tmp_path / "0", write_files(a="2"))
    assert contents(tmp_path / "0") == {"a": "2"}


def test_an_open_file_of_the_old_folder_can_still_be_read(tmp_path):
    publish(tmp_path / "0", write_files(a="old"))
    with (tmp_path / "0" / "a").open() as old:
        publish(tmp_path / "0", write_files(a="new"))
        assert old.read() == "old"


def test_others_may_read_a_published_folder(tmp_path):
    publish(tmp_path / "0", write_files(a="1"))
    assert (tmp_path / "0").stat().st_mode & 0o777 == 0o755


def test_sub_folders_are_published_too(tmp_path):
    def write(staging):
        (staging / "phase").mkdir()
        (staging / "phase" / "a").write_text("1")

    publish(tmp_path / "0", write)
    assert (tmp_path / "0" / "phase" / "a").read_text() == "1"
