"""``fleetrec data`` shows data as a model sees it, and writes it in other formats."""

from pathlib import Path

import pytest

from fleetrec.cli.data import _loader, convert_data, show_head, show_stats
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.data.loader import Loader
from making import make_data, make_job, write_job


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_data(tmp_path / "data", num_samples=100)
    with (data / "part-0").open("a") as stream:
        stream.write(f"click:1 1:5 1:6 2:{2**64 - 1} dense_feature:-1.5e-7 dense_feature:3.4e38\n")
    return str(write_job(make_job(data), tmp_path / "config.yaml"))


def test_head_prints_samples_feature_by_feature(job, capsys):
    show_head(None, config=job, dataset=None, num_rows=2)
    printed = capsys.readouterr().out.splitlines()
    first = Path("data/part-0").read_text().split()
    assert printed[0] == "sample 0"
    assert printed[1] == f"  {first[0].replace(':', ': ')}"
    assert sum(line.startswith("sample") for line in printed) == 2


def test_head_may_look_at_other_files(job, capsys, tmp_path):
    (tmp_path / "other").write_text("click:1 1:77 2:1 3:2\n")
    show_head(str(tmp_path / "other"), config=job, dataset="data", num_rows=5)
    assert "  1: 77" in capsys.readouterr().out


def test_stats_count_exactly(job, capsys, tmp_path):
    show_stats(None, config=job, dataset=None, page=tmp_path / "page.html")
    printed = capsys.readouterr().out
    assert "101 samples in 2 files" in printed
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line}
    assert rows["3"][2] == "99.0%"
    assert rows["1"][4] == "1-2"
    assert rows["2"][7] == "1.84467e+19"
    lines = [line for p in (0, 1) for line in Path(f"data/part-{p}").read_text().splitlines()]
    clicks = sum(line.startswith("click:1") for line in lines)
    assert rows["click"][-1] == f"{clicks / 101:.2%}"
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 5
    assert "101 samples" in page


@pytest.mark.parametrize("to", ["slot_text", "csv", "parquet", "arrow", "tfrecord"])
def test_a_converted_file_gives_the_same_batches(job, tmp_path, to):
    target = tmp_path / f"converted.{to}"
    convert_data(None, target, config=job, dataset=None, to=to)
    loaders = [
        _loader(path, config=job, dataset=None, batch_size=7) for path in (None, str(target))
    ]
    want, got = ([*read(loader)] for loader in loaders)
    assert got == want


def read(loader: Loader):
    with loader.epoch(0) as batches:
        for batch in batches:
            yield (
                batch.ids.values_N.tolist(),
                batch.ids.offsets.tolist(),
                {name: tensor.tolist() for name, tensor in batch.dense.items()},
            )


def test_an_unknown_format_is_refused(job, tmp_path):
    with pytest.raises(DataError, match="cannot write 'xml'; known: slot_text, csv"):
        convert_data(None, tmp_path / "x", config=job, dataset=None, to="xml")


def test_an_unknown_data_set_is_refused(job):
    with pytest.raises(ConfigError, match="no data set in use is called 'dta'; known: data"):
        show_head(None, config=job, dataset="dta", num_rows=1)
