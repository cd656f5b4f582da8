import numpy as np
import pytest

from fleetrec._native import fingerprint64
from fleetrec.config.features import IdRule
from fleetrec.config.job import DenseSlot
from fleetrec.data.source import BadRowError
from making_data import make_source, read_block, read_chunks, write_text

SPARSE = ("label", "C1", "C2", "C26")
DENSE = (DenseSlot(name="I", shape=(13,)),)
CATEGORIES = ["68fd1e64", "25000000", *[""] * 23, 'a"b']


def line(integers, categories=CATEGORIES, label="1"):
    return "\t".join([label, *integers, *categories]) + "\n"


def test_a_line_is_a_label_integers_and_hashed_categories(tmp_path):
    text = line([str(i) for i in range(13)]) + line([""] * 12 + ["-2"], label="0")
    path = write_text(tmp_path / "day_0", text)
    block = read_block(path, format="criteo", sparse=SPARSE, dense=DENSE)
    assert block.ids["label"].values.tolist() == [1, 0]
    assert block.dense["I"].tolist() == [list(range(13)), [0] * 12 + [-2]]
    expected = [fingerprint64(text) for text in ("C1=68fd1e64", "C2=25000000", 'C26=a"b')]
    found = [block.ids[name].values.numpy().view(np.uint64)[0] for name in ("C1", "C2", "C26")]
    assert found == expected
    assert set(block.counts.undeclared) == {f"C{i}" for i in range(3, 26)}


def test_a_missing_category_is_padding(tmp_path):
    path = write_text(tmp_path / "day_0", line(["1"] * 13, [""] * 26))
    rules = {"C1": IdRule(buckets=1000)}
    block = read_block(path, format="criteo", sparse=("C1",), dense=(), padding=5, id_rules=rules)
    assert block.ids["C1"].values.tolist() == [5]
    assert block.counts.seen.tolist() == [0]


def test_buckets_apply(tmp_path):
    path = write_text(tmp_path / "day_0", line(["1"] * 13))
    rules = {"C1": IdRule(buckets=1000)}
    block = read_block(path, format="criteo", sparse=("C1",), dense=(), id_rules=rules)
    assert block.ids["C1"].values.tolist() == [fingerprint64("C1=68fd1e64") % 1000]


def test_a_single_integer_may_be_a_feature(tmp_path):
    path = write_text(tmp_path / "day_0", line([str(i) for i in range(13)]))
    dense = (DenseSlot(name="I7", shape=(1,)),)
    block = read_block(path, format="criteo", sparse=("label",), dense=dense)
    assert block.dense["I7"].tolist() == [[6]]


def test_a_short_line_is_named(tmp_path):
    source, (file,) = make_source(
        write_text(tmp_path / "day_0", line(["1"] * 13) + "1\t2\n"), format="criteo", sparse=SPARSE
    )
    with pytest.raises(BadRowError, match=r"day_0:2: '1\\t2': expected 40 cells, got 2"):
        source.decode(read_chunks(source, file))
