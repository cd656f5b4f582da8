"""What libsvm and libffm data sets must declare."""

import pytest

from fleetrec.core.errors import DataError
from making_rows import FORMATS, open_source

SVM, FFM = (next(f for f in FORMATS if f.name == name) for name in ("libsvm", "libffm"))


def decode(form, tmp_path, text, **options):
    path = tmp_path / f"part{form.suffix}"
    path.write_text(text)
    source, part = open_source(form.dataset(path, **options))
    return source.decode(list(source.read(part, offset=0, row=0)))


def test_values_are_weights(tmp_path):
    block = decode(SVM, tmp_path, "1 3:0.5 4:2\n0 9:1\n")
    assert block.ids["2"].values.tolist() == [3, 4, 9]
    assert block.ids.weights_N.tolist() == [1, 1, 0.5, 2, 1]


def test_a_label_can_be_any_number_if_it_is_dense(tmp_path):
    options = {"sparse": ("features",), "dense": [{"name": "rating", "shape": [1]}]}
    block = decode(SVM, tmp_path, "3.5 3:1\n-1 4:1\n", **options)
    assert block.dense["rating"].tolist() == [[3.5], [-1]]


def test_fields_are_slots(tmp_path):
    block = decode(FFM, tmp_path, "1 2:30:0.5 1:20:1 7:1:1\n")
    assert block.ids["1"].values.tolist() == [20]
    assert block.ids["2"].values.tolist() == [30]
    assert block.counts.undeclared == {"7": 1}


@pytest.mark.parametrize(
    ("form", "options", "reason"),
    [
        (SVM, {"sparse": ("click",)}, "expected sparse_slots 'label features', got 'click'"),
        (SVM, {"sparse": ("a", "b", "c")}, "expected sparse_slots 'label features', got 'a b c'"),
        (FFM, {"sparse": ("click",)}, "expected sparse_slots 'label 0 1 2' "),
        (SVM, {"dense": [{"name": "x", "shape": [2]}]}, "only the label can be dense"),
    ],
)
def test_other_declarations_are_refused(tmp_path, form, options, reason):
    with pytest.raises(DataError, match=reason):
        decode(form, tmp_path, "", **options)
