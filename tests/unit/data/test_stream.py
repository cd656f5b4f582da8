"""Files are cut into batches of lines, and reading goes on from any cursor."""

import gzip
from pathlib import Path

import pytest

from fleetrec.config.job import DatasetOptions
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.data import text as text_module
from fleetrec.data.files import fingerprint, list_files, shuffled_files
from fleetrec.data.plan import whole_file
from fleetrec.data.sources.slot_text import SlotText
from fleetrec.data.stream import raw_batches


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def make_folder(folder, **files):
    for name, text in files.items():
        write(folder / name.replace("_gz", ".gz"), text)
    return list_files(str(folder))


def read(files, *, batch_size, start=None):
    source = SlotText(DatasetOptions(name="lines", data_path="", batch_size=1))
    parts = [whole_file(file) for file in files]
    return list(raw_batches(source, parts, batch_size=batch_size, start=start or Cursor()))


def words(batch):
    """Return the lines of a batch."""
    return [line for p in batch.chunks for line in bytes(p.text).decode().splitlines()]


def test_lines_come_in_batches(tmp_path):
    files = make_folder(tmp_path, a="1\n2\n3\n4\n")
    assert [words(b) for b in read(files, batch_size=2)] == [["1", "2"], ["3", "4"]]


def test_the_last_batch_may_be_smaller(tmp_path):
    files = make_folder(tmp_path, a="1\n2\n3\n")
    assert [words(b) for b in read(files, batch_size=2)] == [["1", "2"], ["3"]]


def test_a_batch_reaches_over_the_border_of_files(tmp_path):
    files = make_folder(tmp_path, a="1\n2\n3\n", b="4\n", c="5\n6\n")
    batches = read(files, batch_size=4)
    assert [words(b) for b in batches] == [["1", "2", "3", "4"], ["5", "6"]]
    assert [p.file_slice.file.name for p in batches[0].chunks] == ["a", "b"]


def test_a_missing_final_newline_ends_a_line(tmp_path):
    files = make_folder(tmp_path, a="1\n2", b="3\n4")
    batches = read(files, batch_size=3)
    assert [words(b) for b in batches] == [["1", "2", "3"], ["4"]]
    assert [b.end.samples for b in batches] == [3, 4]


def test_an_empty_line_is_a_line(tmp_path):
    files = make_folder(tmp_path, a="1\n\n3\n\n")
    assert [b.end.samples for b in read(files, batch_size=3)] == [3, 4]


def test_empty_files_are_passed_over(tmp_path):
    files = make_folder(tmp_path, a="", b="1\n", c="", d="2\n", e="")
    assert [words(b) for b in read(files, batch_size=2)] == [["1", "2"]]


def test_files_without_a_line_give_no_batch(tmp_path):
    assert read(make_folder(tmp_path, a="", b_gz=""), batch_size=2) == []


def test_compressed_and_plain_files_mix(tmp_path):
    files = make_folder(tmp_path, a_gz="1\n2\n3", b="4\n", c_gz="5\n")
    assert [words(b) for b in read(files, batch_size=2)] == [["1", "2"], ["3", "4"], ["5"]]


def test_segments_know_their_first_line(tmp_path):
    files = make_folder(tmp_path, a="1\n2\n3\n", b="4\n5\n")
    batches = read(files, batch_size=2)
    assert [[p.first_row for p in b.chunks] for b in batches] == [[0], [2, 0], [1]]


def test_a_cursor_stands_just_behind_its_batch(tmp_path):
    files = make_folder(tmp_path, a="11\n22\n33\n", b="44\n55\n")
    cursors = [b.end for b in read(files, batch_size=2)]
    assert cursors == [
        Cursor(file=0, offset=6, row=2, samples=2),
        Cursor(file=1, offset=3, row=1, samples=4),
        Cursor(file=1, offset=6, row=2, samples=5),
    ]


def test_progress_grows_to_1(tmp_path):
    files = make_folder(tmp_path, a="1\n2\n", b="3\n4\n")
    assert [b.progress for b in read(files, batch_size=1)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("block_bytes", [1, 3, 7, 64])
def test_the_size_of_a_block_does_not_show(tmp_path, monkeypatch, block_bytes):
    files = make_folder(tmp_path, a="1\n\n333\n4444444444\n5", b_gz="66\n7\n")
    want = [(words(b), b.end) for b in read(files, batch_size=2)]
    monkeypatch.setattr(text_module, "BLOCK_BYTES", block_bytes)
    assert [(words(b), b.end) for b in read(files, batch_size=2)] == want


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("epoch", [None, 0, 1])
def test_reading_goes_on_from_every_cursor(tmp_path, batch_size, epoch):
    files = make_folder(
        tmp_path, a="1\n22\n3", b_gz="4\n55\n\n6\n", c="", d="7\n", e_gz="88\n9\n10"
    )
    if epoch is not None:
        files = shuffled_files(files, seed=1, epoch=epoch)
    whole = [(words(b), b.end) for b in read(files, batch_size=batch_size)]
    for i, (_, cursor) in enumerate(whole):
        rest = read(files, batch_size=batch_size, start=cursor)
        assert [(words(b), b.end) for b in rest] == whole[i + 1 :]


def test_progress_goes_on_from_a_cursor(tmp_path):
    files = make_folder(tmp_path, a="1\n2\n", b="3\n4\n")
    rest = read(files, batch_size=1, start=Cursor(file=1, offset=2, row=1, samples=3))
    assert [b.progress for b in rest] == [1.0]


def test_a_truncated_gz_file_is_refused_by_name(tmp_path):
    files = make_folder(tmp_path, a_gz="1\n" * 5000)
    path = tmp_path / "a.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"a\.gz: cannot be read: "):
        read(files, batch_size=2)


def test_a_damaged_gz_file_is_refused_by_name(tmp_path):
    files = make_folder(tmp_path, a_gz="".join(f"{i}\n" for i in range(5000)))
    path = tmp_path / "a.gz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.gz: cannot be read: "):
        read(files, batch_size=2)


def test_a_plain_file_called_gz_is_refused_by_name(tmp_path):
    (tmp_path / "a.gz").write_text("click:1\n")
    with pytest.raises(DataError, match=r"a\.gz: cannot be read: Not a gzipped file"):
        read(list_files(str(tmp_path)), batch_size=2)


def test_a_file_that_has_gone_is_refused_by_name(tmp_path):
    files = make_folder(tmp_path, a="1\n", b="2\n")
    (tmp_path / "b").unlink()
    with pytest.raises(DataError, match=r"b: cannot be read: "):
        read(files, batch_size=2)


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(text_module, "MAX_LINE_BYTES", 1 << 12)
    files = make_folder(tmp_path, a="x" * 9000)
    with pytest.raises(DataError, match=r"a: a line is longer than .*; is it a text file\?"):
        read(files, batch_size=2)


def test_files_are_listed_recursively_in_the_order_of_their_paths(tmp_path):
    for name in ("b", "a/2", "a/10", "a/c/1", "a-b"):
        write(tmp_path / name, "x\n")
    found = [f.name for f in list_files(str(tmp_path))]
    assert found == ["a-b", "a/10", "a/2", "a/c/1", "b"]


def test_hidden_files_and_folders_are_left_out(tmp_path):
    for name in (".a", ".git/b", "c/.d", "c/e", "c/.f/g"):
        write(tmp_path / name, "x\n")
    assert [Path(f.path).name for f in list_files(str(tmp_path))] == ["e"]


def test_a_data_folder_may_lie_below_a_hidden_one(tmp_path):
    write(tmp_path / ".cache" / "data" / "a", "x\n")
    assert [Path(f.path).name for f in list_files(str(tmp_path / ".cache" / "data"))] == ["a"]


def test_a_data_path_may_be_one_file(tmp_path):
    write(tmp_path / "a", "12\n")
    assert [(f.path, f.num_bytes) for f in list_files(str(tmp_path / "a"))] == [
        (str(tmp_path / "a"), 3)
    ]


def test_a_data_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="none: no such file or folder"):
        list_files(str(tmp_path / "none"))


def test_a_folder_of_hidden_files_holds_no_data(tmp_path):
    write(tmp_path / ".a", "x\n")
    with pytest.raises(DataError, match="the folder holds no data file"):
        list_files(str(tmp_path))


def test_shuffling_is_fixed_by_seed_and_epoch(tmp_path):
    files = make_folder(tmp_path, **{f"f{i}": "x\n" for i in range(20)})
    first = shuffled_files(files, seed=1, epoch=0)
    assert shuffled_files(files, seed=1, epoch=0) == first
    assert sorted(first, key=lambda f: str(f.path)) == list(files)
    assert shuffled_files(files, seed=1, epoch=1) != first
    assert shuffled_files(files, seed=2, epoch=0) != first


def test_a_fingerprint_changes_with_a_size_and_not_with_the_place(tmp_path):
    one = fingerprint(make_folder(tmp_path / "one", a="1\n", b="2\n"))
    assert fingerprint(make_folder(Path(tmp_path / "two"), a="1\n", b="2\n")) == one
    assert fingerprint(make_folder(Path(tmp_path / "three"), a="1\n", b="22\n")) != one
