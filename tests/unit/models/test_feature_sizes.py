import pytest

from fleetrec.models.feature_sizes import dim_for, read_feature_sizes


def test_sizes_are_read_by_slot(tmp_path):
    path = tmp_path / "sizes"
    path.write_text("C1 139\n\nC2 3\n")
    assert read_feature_sizes(path) == {"C1": 139, "C2": 3}


@pytest.mark.parametrize("line", ["C1", "C1 many", "C1 0", "C1 -3"])
def test_a_line_that_is_no_size_is_named(tmp_path, line):
    path = tmp_path / "sizes"
    path.write_text(f"C0 5\n{line}\n")
    with pytest.raises(ValueError, match=r"sizes:2: expected a slot and its number of ids"):
        read_feature_sizes(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nothing: cannot be read: No such file"):
        read_feature_sizes(tmp_path / "nothing")


@pytest.mark.parametrize(("num_ids", "dim"), [(1, 6), (16, 12), (10_000, 60)])
def test_the_width_is_six_fourth_roots(num_ids, dim):
    assert dim_for(num_ids) == dim
