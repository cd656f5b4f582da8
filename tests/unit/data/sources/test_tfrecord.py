"""TFRecord files that are damaged, or whose features are not as declared."""

import pytest

from fleetrec._native import fingerprint64
from fleetrec.core.errors import DataError
from fleetrec.data.source import BadRowError
from making_rows import FORMATS, open_source, to_example, to_record

FORM = next(form for form in FORMATS if form.name == "tfrecord")
RECORD = to_record(to_example({"click": [1], "1": [5], "2": [6, 7], "d": [0.5, 1.5]}))


def decode(tmp_path, data, **options):
    path = tmp_path / "part.tfrecord"
    path.write_bytes(data)
    source, part = open_source(FORM.dataset(path, **options))
    return source.decode(list(source.read(part, offset=0, row=0)))


def test_lists_that_are_not_packed_read_the_same(tmp_path):
    sample = {"click": [1], "1": [5], "2": [6, 7], "d": [0.5, 1.5]}
    block = decode(tmp_path, to_record(to_example(sample, packed=False)))
    assert block.ids.values_N.tolist() == [1, 5, 6, 7]
    assert block.dense["d"].tolist() == [[0.5, 1.5]]


def test_dense_features_may_be_integers(tmp_path):
    assert decode(tmp_path, to_record(to_example({"d": [3, -4]}))).dense["d"].tolist() == [[3, -4]]


def test_text_becomes_ids_as_in_every_format(tmp_path):
    block = decode(tmp_path, to_record(to_example({"2": [b"red", b"7", b""], "1": [b""]})))
    red = fingerprint64("red") - 2**64 * (fingerprint64("red") >= 2**63)
    assert block.ids["2"].values.tolist() == [red, 7]
    assert block.counts.seen.tolist() == [0, 0, 1, 0]


def test_damaged_bytes_are_one_bad_row(tmp_path):
    damaged = bytearray(RECORD * 3)
    damaged[len(RECORD) + 20] ^= 1
    with pytest.raises(BadRowError) as caught:
        decode(tmp_path, bytes(damaged))
    assert caught.value.row == 1
    assert f"part.tfrecord: record 2 at byte {len(RECORD)}: the bytes of the record do not fit" in (
        str(caught.value)
    )


def test_a_damaged_length_ends_the_reading(tmp_path):
    damaged = bytearray(RECORD * 3)
    damaged[len(RECORD)] ^= 1
    with pytest.raises(DataError, match=f"record at byte {len(RECORD)} is damaged: the length"):
        decode(tmp_path, bytes(damaged))


def test_a_file_that_breaks_off_is_refused(tmp_path):
    with pytest.raises(
        DataError, match=f"record at byte {len(RECORD)} is cut off: the file ends 9"
    ):
        decode(tmp_path, RECORD + RECORD[:9])


def test_text_is_no_tfrecord_file(tmp_path):
    with pytest.raises(DataError, match=r"at byte 0 is damaged.*is it a TFRecord file"):
        decode(tmp_path, b"click:1 1:5 2:6 and so on\n")


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        ({"1": [0.5]}, "feature '1' is sparse: expected .*, got a float_list"),
        ({"d": [b"x", b"y"]}, "feature 'd' is dense: expected a float_list or int64_list, got a b"),
        ({"d": [1.0]}, "'d' is dense: expected 2 values in a line, got 1"),
        ({"d": [1.0, float("nan")]}, "'d' is dense: expected finite numbers, got nan"),
    ],
)
def test_a_feature_of_another_kind_is_named(tmp_path, sample, reason):
    with pytest.raises(BadRowError, match=f"record 2 at byte {len(RECORD)}: .*{reason}"):
        decode(tmp_path, RECORD + to_record(to_example(sample)))


def test_bytes_that_are_no_message_are_named(tmp_path):
    with pytest.raises(BadRowError, match=r"record 1 at byte 0: the bytes are no tf\.Example"):
        decode(tmp_path, to_record(b"\x0a\xff"))


def test_the_suffix_tells_the_format(tmp_path):
    path = tmp_path / "part.tfrecord"
    path.write_bytes(RECORD)
    source, _ = open_source(FORM.dataset(path, format=None))
    assert source.name == "tfrecord"
