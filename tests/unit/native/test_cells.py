import numpy as np
import pytest

from fleetrec._native import CellError, fingerprint64, hash_text, parse_id_cells, parse_number_cells


def column(*cells, dtype=np.int32):
    offsets = np.cumsum([0, *map(len, cells)]).astype(dtype)
    return offsets, np.frombuffer(b"".join(cells), np.uint8)


def ids_of(*cells, lists=b"|", weights=None, prefix=None, dtype=np.int32):
    return parse_id_cells(
        *column(*cells, dtype=dtype), list_separator=lists, weight_separator=weights, prefix=prefix
    )


def numbers_of(*cells, width=1, padding=0.0):
    return parse_number_cells(*column(*cells), list_separator=b"|", width=width, padding=padding)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_cells_become_lists(dtype):
    ids, offsets, weights = ids_of(b"1|2", b"", b"|", b"x", dtype=dtype)
    assert ids.tolist() == [1, 2, np.uint64(fingerprint64("x")).astype(np.int64)]
    assert offsets.tolist() == [0, 2, 2, 2, 3]
    assert weights is None


def test_without_a_list_separator_a_cell_is_one_value():
    ids, offsets, _ = ids_of(b"1|2", lists=None)
    assert ids.view(np.uint64).tolist() == [fingerprint64("1|2")]
    assert offsets.tolist() == [0, 1]


def test_a_weight_stands_behind_the_last_separator():
    ids, _, weights = ids_of(b"http://x:0.5|7", weights=b":")
    assert ids.view(np.uint64).tolist() == [fingerprint64("http://x"), 7]
    assert weights.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (b"a:", "weight: expected a decimal number"),
        (b"a:b", "weight: expected a decimal number"),
        (b"a:1e39", "weight: the number is out of the range of float32"),
        (b":1", "expected an id before the weight"),
    ],
)
def test_a_bad_weight_is_pointed_at(cell, reason):
    with pytest.raises(CellError) as caught:
        ids_of(b"a:1", b"1:1|" + cell, weights=b":")
    assert (caught.value.row, caught.value.text) == (1, cell.decode())
    assert caught.value.reason == reason


def test_cells_become_vectors():
    numbers, present = numbers_of(b"1|2.5", b"", b"-1e-3|4", width=2, padding=9)
    assert numbers.tolist() == [[1.0, 2.5], [9.0, 9.0], [np.float32(-1e-3), 4.0]]
    assert present.tolist() == [1, 0, 1]


@pytest.mark.parametrize("cell", [b"nan", b"inf", b"0x1", b" 1", b"1|2", b"1e39", b"\xff"])
def test_a_cell_that_is_no_number_is_pointed_at(cell):
    with pytest.raises(CellError) as caught:
        numbers_of(b"1", cell)
    assert caught.value.row == 1
    assert caught.value.text == cell.decode(errors="replace")


@pytest.mark.parametrize("cell", [b"1", b"1|2|3"])
def test_a_vector_of_another_width_is_pointed_at(cell):
    with pytest.raises(CellError, match=r"expected 2 numbers separated by '\|', got"):
        numbers_of(cell, width=2)


def test_a_long_value_is_shown_in_part():
    with pytest.raises(CellError) as caught:
        numbers_of(("ö" * 200).encode())
    assert caught.value.text == "ö" * 80


@pytest.mark.parametrize("offsets", [[], [0, 9], [-1, 2], [2, 1]])
def test_offsets_outside_of_the_text_are_refused(offsets):
    with pytest.raises(ValueError, match="offset"):
        hash_text(np.array(offsets, np.int64), np.frombuffer(b"abc", np.uint8))


def test_a_separator_is_one_byte():
    with pytest.raises(ValueError, match="one byte"):
        ids_of(b"1", lists=b"||")
