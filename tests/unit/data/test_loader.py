"""Batches of an epoch come in order, from any cursor, with errors that name file and line."""

import gzip
import threading

import pytest

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.data import text
from fleetrec.data.loader import Loader


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def lines(first, last):
    return "".join(f"click:{i % 2} a:{i} d:{i}.5 d:0\n" for i in range(first, last))


def make_loader(folder, *, seed=0, **options):
    defaults = {
        "name": "data",
        "data_path": folder,
        "batch_size": 3,
        "sparse": ("click", "a"),
        "dense": (DenseSlot(name="d", shape=(2, 1)),),
    }
    return Loader(DatasetOptions(**(defaults | options)), seed=seed)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "0", lines(0, 4))
    write(tmp_path / "1.gz", lines(4, 9))
    write(tmp_path / "2", lines(9, 11))
    return tmp_path


def ids(batch):
    return batch.ids["a"].values.tolist()


def read(loader, *, epoch=0, start=None):
    with loader.epoch(epoch, start=start) as batches:
        return list(batches)


def reading_threads():
    return [t.name for t in threading.enumerate() if t.name.startswith("fleetrec-")]


def test_an_epoch_gives_every_sample_once_and_in_order(folder):
    batches = read(make_loader(folder))
    assert [ids(b) for b in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


def test_the_last_partial_batch_is_kept(folder):
    assert read(make_loader(folder))[-1].num_samples == 2


def test_dense_features_have_their_shape(folder):
    batch = read(make_loader(folder))[0]
    assert batch.dense["d"].shape == (3, 2, 1)
    assert batch.dense["d"][:, 0, 0].tolist() == [0.5, 1.5, 2.5]


def test_inputs_are_declared_in_the_order_of_the_data_set(folder):
    inputs = make_loader(folder).inputs
    assert inputs.sparse == ("click", "a")
    assert dict(inputs.dense) == {"d": (2, 1)}


def test_a_second_epoch_reads_the_same_again(folder):
    loader = make_loader(folder)
    assert [ids(b) for b in read(loader, epoch=1)] == [ids(b) for b in read(loader, epoch=0)]


@pytest.mark.parametrize("num_threads", [None, 1, 3])
def test_the_number_of_threads_does_not_change_the_order(tmp_path, num_threads):
    for i in range(10):
        write(tmp_path / f"{i}", lines(i * 100, i * 100 + 100))
    batches = read(make_loader(tmp_path, thread_num=num_threads, batch_size=7))
    assert [i for b in batches for i in ids(b)] == list(range(1000))


@pytest.mark.parametrize("batch_size", [1000, 30_000, 60_000])
def test_threads_that_decode_one_batch_together_find_every_sample(tmp_path, batch_size):
    for i in range(2):
        write(tmp_path / f"{i}", lines(i * 30_000, i * 30_000 + 30_000))
    batches = read(make_loader(tmp_path, batch_size=batch_size))
    assert [b.num_samples for b in batches] == [batch_size] * (60_000 // batch_size)
    assert [i for b in batches for i in ids(b)] == list(range(60_000))


def test_a_line_between_two_blocks_of_a_file_is_read_once(tmp_path, monkeypatch):
    write(tmp_path / "0", lines(0, 300))
    for num_bytes in range(1, 90):
        monkeypatch.setattr(text, "BLOCK_BYTES", num_bytes)
        assert [i for b in read(make_loader(tmp_path)) for i in ids(b)] == list(range(300))


@pytest.mark.parametrize("shuffle", [False, True], ids=["sorted", "shuffled"])
def test_reading_goes_on_from_every_cursor(folder, shuffle):
    whole = read(make_loader(folder, shuffle_files=shuffle, seed=4), epoch=2)
    for i, batch in enumerate(whole):
        loader = make_loader(folder, shuffle_files=shuffle, seed=4)
        rest = read(loader, epoch=2, start=batch.cursor)
        assert [ids(b) for b in rest] == [ids(b) for b in whole[i + 1 :]]
        assert [b.cursor for b in rest] == [b.cursor for b in whole[i + 1 :]]


def test_a_cursor_survives_its_plain_form(folder):
    cursor = read(make_loader(folder))[1].cursor
    assert Cursor.from_dict(cursor.to_dict()) == cursor


def test_shuffled_files_are_fixed_by_seed_and_differ_by_epoch(tmp_path):
    for i in range(12):
        write(tmp_path / f"{i:02}", lines(i, i + 1))

    def order(seed, epoch):
        loader = make_loader(tmp_path, shuffle_files=True, seed=seed)
        return [i for b in read(loader, epoch=epoch) for i in ids(b)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)
    assert sorted(order(1, 0)) == list(range(12))


def test_a_bad_line_names_file_line_and_token(folder):
    write(folder / "1.gz", lines(4, 6) + "click:1 a:x\n" + lines(7, 9))
    with pytest.raises(DataError, match=r"1\.gz:3: column 9: 'a:x': "):
        read(make_loader(folder))


def test_batches_before_a_bad_line_arrive_first(folder):
    write(folder / "2", "click:1 a:x\n")
    arrived = []
    with pytest.raises(DataError), make_loader(folder).epoch(0) as batches:
        arrived.extend(ids(batch) for batch in batches)
    assert arrived == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_bad_line_after_a_resume_has_the_same_number(folder):
    start = read(make_loader(folder))[1].cursor
    write(folder / "1.gz", lines(4, 8) + "click:1 a:x\n")
    with pytest.raises(DataError, match=r"1\.gz:5: "):
        read(make_loader(folder), start=start)


def test_a_truncated_gz_file_reaches_the_caller(folder):
    path = folder / "1.gz"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"1\.gz: cannot be read: "):
        read(make_loader(folder))


def test_an_error_leaves_no_thread_behind(folder):
    write(folder / "0", "click:x\n" * 500)
    with pytest.raises(DataError):
        read(make_loader(folder, thread_num=3))
    assert reading_threads() == []


def test_leaving_an_epoch_early_stops_the_threads(tmp_path):
    write(tmp_path / "0", lines(0, 5000))
    with make_loader(tmp_path, thread_num=3).epoch(0) as batches:
        next(batches)
        assert reading_threads() != []
    assert reading_threads() == []


def test_an_error_of_the_caller_stops_the_threads(tmp_path):
    write(tmp_path / "0", lines(0, 5000))
    with pytest.raises(ZeroDivisionError), make_loader(tmp_path).epoch(0) as batches:
        next(batches)
        raise ZeroDivisionError
    assert reading_threads() == []


def test_an_epoch_that_was_never_read_stops_too(tmp_path):
    write(tmp_path / "0", lines(0, 5000))
    with make_loader(tmp_path).epoch(0):
        pass
    assert reading_threads() == []


def test_batches_cannot_be_read_after_their_epoch(tmp_path):
    write(tmp_path / "0", lines(0, 5000))
    with make_loader(tmp_path).epoch(0) as batches:
        next(batches)
    with pytest.raises(RuntimeError, match="the epoch is closed"):
        next(batches)


def test_an_epoch_that_has_ended_stays_ended(folder):
    with make_loader(folder).epoch(0) as batches:
        assert len(list(batches)) == 4
        assert list(batches) == []


def warnings_of(folder, text, **options):
    write(folder / "0", text)
    loader = make_loader(folder, **options)
    read(loader)
    return loader.report.take_warnings()


def test_clean_data_gives_no_warning(tmp_path):
    assert warnings_of(tmp_path, lines(0, 5)) == []


def test_a_declared_slot_that_never_comes_is_a_warning(tmp_path):
    found = warnings_of(tmp_path, lines(0, 5), sparse=("click", "a", "b", "c"))
    assert found == [
        "declared slots that none of 5 samples has (they are all padding): b, c",
    ]


def test_a_slot_that_comes_once_is_no_warning(tmp_path):
    text = lines(0, 5) + "click:1 a:1 b:1 d:1 d:1\n"
    assert warnings_of(tmp_path, text, sparse=("click", "a", "b")) == []


def test_undeclared_slots_are_listed_with_their_counts(tmp_path):
    text = "click:1 a:1 x:1 x:2 y:3 d:1 d:1\nclick:1 a:1 x:1 d:1 d:1\n"
    assert warnings_of(tmp_path, text) == [
        "slots in the data that are not declared (ignored in 2 samples): x (3 values), y (1 values)"
    ]


def test_a_flood_of_undeclared_slots_is_cut_short(tmp_path):
    text = lines(0, 1) + "".join(f"{i}:1 " for i in range(1000))
    (found,) = warnings_of(tmp_path, text)
    assert found.endswith(", and 980 more")
    assert found.count("values") == 20


def test_empty_lines_are_counted(tmp_path):
    assert warnings_of(tmp_path, lines(0, 2) + "\n \n") == [
        "2 empty lines were read as samples of padding"
    ]


def test_each_warning_is_given_once(tmp_path):
    write(tmp_path / "0", "click:1 x:1\n\n")
    loader = make_loader(tmp_path, dense=(), sparse=("click", "b"))
    read(loader)
    assert len(loader.report.take_warnings()) == 3
    read(loader, epoch=1)
    assert loader.report.take_warnings() == []


def test_a_new_undeclared_slot_is_a_new_warning(tmp_path):
    write(tmp_path / "0", "click:1 x:1\n")
    loader = make_loader(tmp_path, dense=(), sparse=("click",))
    read(loader)
    assert len(loader.report.take_warnings()) == 1
    write(tmp_path / "0", "click:1 x:1 y:1\n")
    read(loader)
    (found,) = loader.report.take_warnings()
    assert found.endswith("y (1 values)")


def test_nothing_is_missed_where_nothing_was_read(folder):
    loader = make_loader(folder, sparse=("click", "a", "b"))
    end = read(loader)[-1].cursor
    resumed = make_loader(folder, sparse=("click", "a", "b"))
    assert read(resumed, start=end) == []
    assert resumed.report.take_warnings() == []
