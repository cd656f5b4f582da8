"""What formats read row by row promise: the same samples give the same block, from any place."""

import itertools
import pickle

import pytest

from fleetrec.config.features import IdRule
from fleetrec.config.job import BadRowOptions
from fleetrec.data import program, text
from fleetrec.data.loader import Loader
from fleetrec.data.source import BadRowError, FileSlice, Source, source_names
from fleetrec.data.sources import tfrecord, user_reader
from making_rows import DENSE, FORMATS, Format, gzipped, make_samples, open_source
from reference.samples import contents_of, expected_block

each_format = pytest.mark.parametrize("form", FORMATS, ids=str)
each_that_cuts = pytest.mark.parametrize("form", [f for f in FORMATS if f.can_cut], ids=str)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(text, "BLOCK_BYTES", 150)
    monkeypatch.setattr(tfrecord, "BLOCK_BYTES", 150)
    monkeypatch.setattr(tfrecord, "SEARCH_BYTES", 40)
    monkeypatch.setattr(program, "CHUNK_BYTES", 150)
    monkeypatch.setattr(user_reader, "SAMPLES_PER_CHUNK", 5)


def written(form: Format, samples, tmp_path, *, extra=b""):
    path = tmp_path / f"part{form.suffix}"
    path.write_bytes(form.write(samples) + extra)
    return path


def expected(form: Format, samples, padding=0):
    dense = dict([DENSE]) if form.has_dense else {}
    return expected_block(samples, sparse=form.sparse, dense=dense, padding=padding)


def decoded(source: Source, chunks):
    return contents_of(source.decode(list(chunks)))


def test_every_format_is_here():
    known_elsewhere = {"csv", "criteo", "parquet", "arrow"}
    known_elsewhere |= {"criteo_binary", "example_columns", "rtp"}  # tests/easyrec
    assert {form.name for form in FORMATS} >= set(source_names()) - known_elsewhere


@each_format
def test_samples_come_as_they_were_written(form, tmp_path):
    samples = make_samples(40)
    source, part = open_source(form.dataset(written(form, samples, tmp_path)))
    chunks = list(source.read(part, offset=0, row=0))
    assert sum(chunk.num_rows for chunk in chunks) == 40
    assert len(chunks) > 1
    assert decoded(source, chunks) == expected(form, samples)


@each_format
def test_what_is_missing_is_padded(form, tmp_path):
    samples = make_samples(12)
    options = form.dataset(written(form, samples, tmp_path), padding=7)
    source, part = open_source(options)
    assert decoded(source, source.read(part, offset=0, row=0)) == expected(form, samples, padding=7)


@each_format
def test_rules_for_ids_leave_padding_alone(form, tmp_path):
    samples = make_samples(12)
    rules = {"2": IdRule(buckets=10)}
    options = form.dataset(written(form, samples, tmp_path), padding=777, id_rules=rules)
    ids = read_ids(options, "2")
    wanted = [[i % 10 for i in sample.get("2", ())] or [777] for sample in samples]
    assert any(row == [777] for row in wanted)
    assert ids == [i for row in wanted for i in row]


@each_format
def test_rules_leave_padding_alone_where_bad_rows_are_passed_over(form, tmp_path):
    samples = make_samples(12)
    path = written(form, samples, tmp_path, extra=form.bad + form.write(samples[:2]))
    options = form.dataset(
        path,
        padding=777,
        id_rules={"2": IdRule(vocabulary=("5", "777"))},
        bad_rows=BadRowOptions(policy="skip"),
    )
    if form.name == "pipe" or form.options.get("id") == "file_reader":
        pytest.skip("its program ends at a bad row")
    ids = read_ids(options, "2")
    places = {5: 1, 777: 2}
    wanted = [
        [places.get(i, 0) for i in sample.get("2", ())] or [777]
        for sample in [*samples, *samples[:2]]
    ]
    assert ids == [i for row in wanted for i in row]


def read_ids(options, feature):
    with Loader(options, seed=0).epoch(0) as batches:
        return [i for batch in batches for i in batch.ids[feature].values.tolist()]


@each_format
def test_weights_are_there_where_a_format_has_them(form, tmp_path):
    source, part = open_source(form.dataset(written(form, make_samples(9), tmp_path)))
    weights = source.decode(list(source.read(part, offset=0, row=0))).ids.weights_N
    if form.has_weights:
        assert weights is not None and set(weights.tolist()) == {1.0}
    else:
        assert weights is None


@each_format
def test_reading_goes_on_behind_every_piece(form, tmp_path):
    samples = make_samples(23)
    source, part = open_source(form.dataset(written(form, samples, tmp_path)))
    for chunk in source.read(part, offset=0, row=0):
        row = chunk.first_row + chunk.num_rows
        rest = list(source.read(part, offset=chunk.end, row=row))
        assert [p.first_row for p in rest[:1]] in ([row], [])
        assert decoded(source, [*rest]) == expected(form, samples[row:])


@each_format
def test_reading_goes_on_behind_every_row(form, tmp_path):
    samples = make_samples(11)
    source, part = open_source(form.dataset(written(form, samples, tmp_path)))
    for chunk in source.read(part, offset=0, row=0):
        rest = chunk
        while rest is not None:
            head, rest = rest.take(2)
            row = head.first_row + head.num_rows
            assert head.num_rows in (1, 2)
            assert decoded(source, [head]) == expected(form, samples[head.first_row : row])
            after = source.read(part, offset=head.end, row=row)
            assert decoded(source, after) == expected(form, samples[row:])


@each_that_cuts
def test_stretches_have_every_row_once(form, tmp_path):
    samples = make_samples(31)
    source, part = open_source(form.dataset(written(form, samples, tmp_path)))
    for num_workers in (2, 3, 5, 64):
        places = [source.cut(part.file, i / num_workers) for i in range(num_workers)] + [None]
        assert places[0] == 0
        chunks = []
        for begin, end in itertools.pairwise(places):
            if begin != end and begin < part.num_bytes:
                stretch = FileSlice(file=part.file, begin=begin, end=end, num_bytes=part.num_bytes)
                chunks += source.read(stretch, offset=begin, row=0)
        assert decoded(source, chunks) == expected(form, samples)


@each_format
def test_an_empty_file_has_no_piece(form, tmp_path):
    source, part = open_source(form.dataset(written(form, [], tmp_path)))
    assert list(source.read(part, offset=0, row=0)) == []
    assert decoded(source, []) == expected(form, [])


@each_format
def test_a_bad_row_is_named(form, tmp_path):
    path = written(form, make_samples(13), tmp_path, extra=form.bad)
    source, part = open_source(form.dataset(path))
    chunks = list(source.read(part, offset=0, row=0))
    with pytest.raises(BadRowError) as caught:
        source.decode(chunks)
    assert caught.value.row == 13
    assert str(path) in str(caught.value)
    assert "14" in str(caught.value)
    assert "\n" not in str(caught.value)


@each_that_cuts
def test_a_bad_row_is_named_in_a_stretch_too(form, tmp_path):
    samples = make_samples(13)
    path = written(form, samples, tmp_path, extra=form.bad)
    source, part = open_source(form.dataset(path))
    begin = source.cut(part.file, 0.6)
    assert begin
    chunks = list(source.read(FileSlice(file=part.file, begin=begin), offset=begin, row=0))
    with pytest.raises(BadRowError, match="14"):
        source.decode(chunks)


@each_format
def test_a_compressed_file_reads_the_same(form, tmp_path):
    if form.options.get("id") == "file_reader":
        pytest.skip("such a reader opens the file itself")
    samples = make_samples(17)
    path = tmp_path / f"part{form.suffix}.gz"
    path.write_bytes(gzipped(form.write(samples)))
    source, part = open_source(form.dataset(path))
    assert source.cut(part.file, 0.5) is None
    chunks = list(source.read(part, offset=0, row=0))
    assert decoded(source, chunks) == expected(form, samples)
    middle = chunks[len(chunks) // 2]
    row = middle.first_row + middle.num_rows
    rest = source.read(part, offset=middle.end, row=row)
    assert decoded(source, rest) == expected(form, samples[row:])


@each_format
def test_features_that_nobody_declared_are_counted(form, tmp_path):
    if form.name in ("wire_text", "pipe", "libsvm"):
        pytest.skip("its values have no names")
    samples = make_samples(6)
    options = form.dataset(written(form, samples, tmp_path), sparse=("click", "1"))
    source, part = open_source(options)
    counts = source.decode(list(source.read(part, offset=0, row=0))).counts
    assert set(counts.undeclared) == {"2"}


@each_format
def test_python_sources_work_in_another_process(form, tmp_path):
    samples = make_samples(9)
    source, part = open_source(form.dataset(written(form, samples, tmp_path)))
    if not (source.decodes_in_python or source.reads_in_python):
        pytest.skip("threads decode it")
    chunks = list(source.read(part, offset=0, row=0))
    there, sent = pickle.loads(pickle.dumps((source, chunks)))
    assert decoded(there, sent) == expected(form, samples)
    assert contents_of(there.decode(list(there.read(part, offset=0, row=0)))) == expected(
        form, samples
    )
