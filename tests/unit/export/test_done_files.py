"""Done files: every entry once, whole lines only."""

import pytest

from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.export.done_files import (
    CheckpointDone,
    ModelDone,
    add_checkpoint,
    add_model,
    read_checkpoints,
    read_models,
)

FIRST = CheckpointDone(day="20261117", key=86400, path="out/20261117/5", pass_number=5)
LAST = CheckpointDone(day="20261118", key=172800, path="out/20261118/0")


def model(number, **changes):
    values = {"id": number, "key": 1, "input": f"out/{number}", "path": str(number), **changes}
    return ModelDone(**values)


@pytest.fixture(params=["local", "url"])
def folder(request, tmp_path):
    return str(tmp_path) if request.param == "local" else f"memory://done{tmp_path}"


def text_of(folder, name):
    return storage.read_bytes(storage.join(folder, name)).decode()


def write(folder, name, content):
    storage.write_bytes(storage.join(folder, name), content)


def test_a_folder_without_done_files_has_no_entries(folder):
    assert read_checkpoints(folder) == []
    assert read_models(folder, "base") == read_models(folder, "delta") == []


def test_checkpoints_are_lines_of_five_columns(folder):
    assert add_checkpoint(folder, FIRST)
    assert add_checkpoint(folder, LAST)
    assert text_of(folder, "donefile.txt") == (
        "20261117\t86400\tout/20261117/5\t5\t0\n20261118\t172800\tout/20261118/0\t-1\t0\n"
    )
    assert read_checkpoints(folder) == [FIRST, LAST]


def test_models_are_lines_of_json(folder):
    add_model(folder, "base", model(1, monitor_data={"AUC": 0.5, "COPC": float("inf")}))
    add_model(folder, "delta", model(2, input="où/2"))
    assert text_of(folder, "base_donefile.txt") == (
        '{"id": "1", "key": "1", "input": "out/1", "path": "1", '
        '"monitor_data": {"AUC": 0.5, "COPC": null}}\n'
    )
    assert '"input": "où/2"' in text_of(folder, "patch_donefile.txt")
    assert read_models(folder, "delta") == [model(2, input="où/2")]
    assert read_models(folder, "base")[0].monitor_data == {"AUC": 0.5, "COPC": None}


def test_an_entry_that_is_there_is_not_written_again(folder):
    for _ in range(3):
        add_checkpoint(folder, FIRST)
        add_model(folder, "base", model(1))
    assert not add_model(folder, "base", model(1, monitor_data={"AUC": 0.9}))
    assert len(read_checkpoints(folder)) == len(read_models(folder, "base")) == 1
    assert add_model(folder, "base", model(1, path="elsewhere"))


@pytest.mark.parametrize("num_bytes", [1, 9, 40, 60])
def test_a_torn_last_line_is_ignored_and_replaced(folder, num_bytes):
    for number in (1, 2):
        add_model(folder, "delta", model(number, input=f"où/{number}"))
    whole = text_of(folder, "patch_donefile.txt")
    first, second = whole.splitlines(keepends=True)
    torn = first.encode() + second.encode()[:num_bytes]
    write(folder, "patch_donefile.txt", torn)
    assert [one.id for one in read_models(folder, "delta")] == [1]
    assert add_model(folder, "delta", model(2, input="où/2"))
    assert text_of(folder, "patch_donefile.txt") == whole


def test_a_line_that_lacks_only_its_newline_is_torn_too(folder):
    add_checkpoint(folder, FIRST)
    write(folder, "donefile.txt", text_of(folder, "donefile.txt")[:-1].encode())
    assert read_checkpoints(folder) == []
    assert add_checkpoint(folder, FIRST)
    assert read_checkpoints(folder) == [FIRST]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("donefile.txt", "20261117\tsoon\tout\t5\t0"),
        ("donefile.txt", "20261117 86400 out 5 0"),
        ("base_donefile.txt", "{"),
        ("base_donefile.txt", "[1]"),
        ("base_donefile.txt", '{"id": "1", "key": "1", "input": "x"}'),
    ],
)
def test_a_line_that_cannot_be_read_is_named(folder, name, line):
    write(folder, name, f"\n{line}\n".encode())
    with pytest.raises(CheckpointError, match=f"{name}:2: damaged"):
        read_checkpoints(folder) or read_models(folder, "base")


def test_paths_are_relative_to_the_folder_of_the_file(folder):
    assert model(3).url(folder) == storage.join(folder, "3")
    with pytest.raises(CheckpointError, match="expected a relative reference"):
        model(3, path="/etc").url(folder)


def test_a_path_with_a_tab_or_a_newline_is_refused(folder):
    for path in ("a\tb", "a\nb"):
        with pytest.raises(CheckpointError, match="must not hold a tab or a newline"):
            add_checkpoint(folder, CheckpointDone(day="20261117", key=1, path=path))
