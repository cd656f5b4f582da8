"""Shares of workers are each row exactly once, also when a worker goes on from a cursor."""

import gzip

import pytest

from fleetrec.config.job import DatasetOptions
from fleetrec.data import stream
from fleetrec.data.loader import Loader
from fleetrec.data.plan import DataShard

NUM_ROWS = 1000


@pytest.fixture
def make_folder(tmp_path):
    def make(num_files, suffix=""):
        bounds = [NUM_ROWS * i // num_files for i in range(num_files + 1)]
        for i in range(num_files):
            rows = range(bounds[i], bounds[i + 1])
            text = "".join(f"click:{row % 2} id:{row}\n" for row in rows).encode()
            path = tmp_path / f"part-{i}{suffix}"
            path.write_bytes(gzip.compress(text) if suffix == ".gz" else text)
        return tmp_path

    return make


def make_loader(folder, *, index=0, count=1, by="files", **options):
    defaults = {"name": "rows", "data_path": folder, "batch_size": 7, "sparse": ("click", "id")}
    shard = DataShard(index=index, count=count, by=by)
    return Loader(DatasetOptions(**(defaults | options)), seed=3, shard=shard)


def read(loader, *, start=None, num_batches=None):
    """Return ids and the cursor behind them."""
    ids, cursor = [], start
    with loader.epoch(0, start=start) as batches:
        for i, batch in enumerate(batches):
            if i == num_batches:
                break
            ids += batch.ids["id"].values.tolist()
            cursor = batch.cursor
    return ids, cursor


WAYS = [
    {},
    {"kind": "QueueDataset", "thread_num": 3},
    {"shuffle_rows": 50},
    {"kind": "QueueDataset", "thread_num": 2, "shuffle_rows": 30},
    {"kind": "InMemoryDataset"},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("num_files", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_row_has_one_worker(make_folder, monkeypatch, count, num_files, suffix, options):
    monkeypatch.setattr(stream, "TURN_ROWS", 16)
    folder = make_folder(num_files, suffix)
    shares = [read(make_loader(folder, index=i, count=count, **options))[0] for i in range(count)]
    assert sorted(row for share in shares for row in share) == list(range(NUM_ROWS))
    assert all(shares), "no worker idles"


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("num_files", [1, 3])
@pytest.mark.parametrize("num_batches", [1, 4, 9, 30])
def test_a_worker_goes_on_where_it_was_stopped(make_folder, num_files, options, num_batches):
    folder = make_folder(num_files)
    whole, _ = read(make_loader(folder, index=1, count=2, **options))
    first, cursor = read(make_loader(folder, index=1, count=2, **options), num_batches=num_batches)
    rest, _ = read(make_loader(folder, index=1, count=2, **options), start=cursor)
    assert first + rest == whole


def read_batches(loader, *, start=None):
    with loader.epoch(0, start=start) as batches:
        return [(batch.ids["id"].values.tolist(), batch.cursor) for batch in batches]


@pytest.mark.parametrize(
    "options",
    [*WAYS, {"sample_ratio": 0.7}, {"bad_rows": {"policy": "skip"}}, {"thread_num": 3}],
    ids=str,
)
@pytest.mark.parametrize("num_files", [1, 3])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_workers_that_share_batches_see_those_of_one_worker(make_folder, count, num_files, options):
    folder = make_folder(num_files)
    alone = read_batches(make_loader(folder, **options, batch_size=8 * count))
    shares = [
        read_batches(make_loader(folder, index=i, count=count, by="batch", batch_size=8, **options))
        for i in range(count)
    ]
    for step, (rows, cursor) in enumerate(alone):
        portions = [share[step] for share in shares if step < len(share)]
        assert [row for portion, _ in portions for row in portion] == rows
        assert {own for _, own in portions} == {cursor}
        sizes = [len(portion) for portion, _ in portions]
        assert max(sizes) - min(sizes) <= 1
    assert len(shares[0]) == len(alone), "the first has a portion of every batch"
    middle = alone[len(alone) // 2][1]
    rest = read_batches(
        make_loader(folder, index=1, count=count, by="batch", batch_size=8, **options),
        start=middle,
    )
    assert rest == shares[1][len(alone) // 2 + 1 :], "any worker can go on from that cursor"


def test_whole_files_are_dealt_in_blocks(make_folder):
    folder = make_folder(5)
    shares = [make_loader(folder, index=i, count=2)._slices for i in range(2)]
    names = [[part.file.name for part in share] for share in shares]
    assert names == [["part-0", "part-1", "part-2"], ["part-3", "part-4"]]


def test_an_error_in_the_middle_of_a_cut_file_names_its_line(tmp_path):
    lines = [f"click:0 id:{i}" for i in range(100)]
    lines[80] = "click:0 id:bad"
    (tmp_path / "part").write_text("\n".join(lines))
    with pytest.raises(Exception, match=r"part:81: column 9: 'id:bad'"):
        read(make_loader(tmp_path, index=1, count=2))


def test_a_share_must_exist():
    with pytest.raises(ValueError, match="worker 2 of 2 does not exist"):
        DataShard(index=2, count=2)
