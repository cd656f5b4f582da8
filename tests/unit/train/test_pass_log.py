"""Passes that have begun, as files."""

import dataclasses

import pytest

from fleetrec.core.errors import CheckpointError
from fleetrec.data.files import DataFile
from fleetrec.train.pass_log import FrozenPass, LateFile, PassLog, fingerprints
from fleetrec.train.pass_plan import PassSpec

FILE = DataFile(path="data/20261118/0005/part-0", name="20261118/0005/part-0", num_bytes=7)
LATE = DataFile(path="data/20261118/0000/part-9", name="20261118/0000/part-9", num_bytes=3)


def make_frozen():
    files = {"learn": (LATE, FILE)}
    return FrozenPass(
        spec=PassSpec(
            name="20261118/0005",
            index=1,
            event_time=1795000000,
            files=files,
            fingerprint=fingerprints(files),
            day="20261118",
            number=2,
            ends_day=False,
        ),
        late=(LateFile(file=LATE, of="20261118/0000", is_trained=True),),
        arrived_at=1795000300.5,
        positions={"0": 12},
    )


def test_a_pass_is_read_as_it_was_written(tmp_path):
    log = PassLog(str(tmp_path))
    assert not log.has_any()
    assert log.read(day="20261118", number=2) is None
    log.write(make_frozen())
    assert log.has_any()
    assert log.read(day="20261118", number=2) == make_frozen()
    assert (tmp_path / "passes/20261118/2.json").is_file()


def test_the_last_pass_is_that_of_the_last_day(tmp_path):
    log = PassLog(str(tmp_path))
    assert log.last() is None
    for day, number in (("20261118", 2), ("20261118", 10), ("20261117", 11)):
        spec = dataclasses.replace(make_frozen().spec, day=day, number=number)
        log.write(dataclasses.replace(make_frozen(), spec=spec))
    (tmp_path / "passes/20261119").mkdir()  # a kill before the first pass of the day
    found = log.last()
    assert found is not None
    assert (found.spec.day, found.spec.number) == ("20261118", 10)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "damaged: JSONDecodeError"),
        (b"[]", "damaged: TypeError"),
        (b'{"format_version": 2}', "written in format 2, this version reads format 1"),
        (b'{"format_version": 1}', "damaged: KeyError"),
    ],
)
def test_a_damaged_pass_is_named(tmp_path, content, problem):
    path = tmp_path / "passes/20261118/2.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"2.json: {problem}"):
        PassLog(str(tmp_path)).read(day="20261118", number=2)
