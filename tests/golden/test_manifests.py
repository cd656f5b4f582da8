"""The manifests of every form of a job for Kubernetes, as files in ``manifests/``.

After an intended change, write them again: ``python tests/golden/test_manifests.py``.
"""

import tempfile
from pathlib import Path

import pytest

from making_manifests import FORMS, rendered

GOLDEN = Path(__file__).parent / "manifests"


@pytest.mark.parametrize("name", FORMS)
def test_the_manifests_of_a_form_are_the_known_ones(tmp_path, name):
    known = {path.name: path.read_text() for path in (GOLDEN / name).iterdir()}
    assert dict(rendered(name, tmp_path)) == known


def write() -> None:
    """Write the files again."""
    for name in FORMS:
        (GOLDEN / name).mkdir(parents=True, exist_ok=True)
        for path in (GOLDEN / name).iterdir():
            path.unlink()
        with tempfile.TemporaryDirectory() as folder:
            for file, text in rendered(name, Path(folder)):
                (GOLDEN / name / file).write_text(text)


if __name__ == "__main__":
    write()
