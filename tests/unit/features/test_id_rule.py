import numpy as np
import pyarrow as pa
import pytest

from fleetrec._native import fingerprint64
from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.features import IdRule
from fleetrec.core.errors import DataError
from fleetrec.features.id_rule import IdMap, text_ids
from making_data import make_options


def hashed(text):
    return int(np.uint64(fingerprint64(text)).astype(np.int64))


def mapped(rule, ids):
    return IdMap(rule, where="feature 'f'")(np.array(ids, np.int64)).tolist()


def test_without_a_rule_ids_stay():
    assert mapped(IdRule(), [5, -1, 0]) == [5, -1, 0]


def test_buckets_are_a_modulo_without_sign():
    assert mapped(IdRule(buckets=10), [5, 13, -1]) == [5, 3, (2**64 - 1) % 10]


def test_a_vocabulary_counts_from_one_and_knows_no_others():
    rule = IdRule(vocabulary=("red", "7", "green"))
    assert mapped(rule, [hashed("green"), 7, 8, hashed("red"), 0]) == [3, 2, 0, 1, 0]


def test_a_vocabulary_may_be_a_file(tmp_path):
    path = tmp_path / "colours"
    path.write_bytes("red\r\ngrün\n".encode())
    assert mapped(IdRule(vocabulary_path=str(path)), [hashed("grün"), hashed("red")]) == [2, 1]


def test_numbers_in_text_are_numbers():
    assert text_ids(pa.array(["007", "18446744073709551615", "-5", "1.0"])).tolist() == [
        7,
        -1,
        -5,
        hashed("1.0"),
    ]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (IdRule(vocabulary=("a", "b", "a")), "feature 'f': values 1 and 3 are the same, 'a'"),
        (IdRule(vocabulary=("7", "007")), "values 1 and 2 are the same, '007'"),
        (IdRule(vocabulary=("a", "")), "feature 'f': value 2 is empty"),
        (IdRule(vocabulary=("a",), buckets=3), "a vocabulary or buckets, got both"),
        (IdRule(vocabulary=("a",), vocabulary_path="x"), "or the path of one, got both"),
        (IdRule(vocabulary_path="no/such/file"), "no/such/file: cannot be read: "),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule, message):
    with pytest.raises(DataError, match=message) as caught:
        IdMap(rule, where="feature 'f'")
    assert "\n" not in str(caught.value)


def test_an_empty_vocabulary_file_is_refused(tmp_path):
    (tmp_path / "v").touch()
    with pytest.raises(DataError, match=r"vocabulary .*/v: is empty; expected one word per line"):
        IdMap(IdRule(vocabulary_path=str(tmp_path / "v")), where="feature 'f'")


def test_a_vocabulary_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "v").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="expected text in UTF-8"):
        IdMap(IdRule(vocabulary_path=str(tmp_path / "v")), where="feature 'f'")


def test_a_rule_for_an_unknown_feature_is_refused(tmp_path):
    with pytest.raises(DataError, match="'items', which is no sparse feature; known: click"):
        dataset_features(make_options(tmp_path, id_rules={"items": IdRule(buckets=3)}))
