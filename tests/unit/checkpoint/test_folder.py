"""What a manifest vouches for is read back exactly; what is damaged is refused by name."""

import json
import uuid

import pytest

from fleetrec.checkpoint.folder import MANIFEST, is_published, open_folder, write_folder
from fleetrec.core.errors import CheckpointError

CONTENTS = {"phase/model.bin": b"weights", "phase/table.bin": b"rows", "note.txt": b""}


@pytest.fixture
def saved(tmp_path):
    write_folder(
        tmp_path / "0", contents=CONTENTS, meta={"kind": "checkpoint", "epoch": 3, "auc": 0.5}
    )
    return tmp_path / "0"


def edit_manifest(directory, **changes):
    path = directory / MANIFEST
    manifest = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in manifest.items() if v is not None}))


def refusal(directory, *, kind="checkpoint", name="phase/model.bin"):
    with pytest.raises(CheckpointError) as caught:
        open_folder(directory, kind=kind).read_bytes(name)
    return str(caught.value)


def test_files_come_back_as_they_were_written(saved):
    folder = open_folder(saved, kind="checkpoint")
    assert {name: folder.read_bytes(name) for name in folder.files} == CONTENTS


def test_meta_comes_back_as_it_was_written(saved):
    folder = open_folder(saved, kind="checkpoint")
    assert folder.meta == {"kind": "checkpoint", "epoch": 3, "auc": 0.5}


def test_the_parts_of_a_folder_are_its_sub_folders(saved):
    assert open_folder(saved, kind="checkpoint").parts() == ["phase"]


def test_figures_that_are_undefined_are_written_as_null(tmp_path):
    meta = {"kind": "checkpoint", "auc": float("nan"), "deep": [{"x": float("inf")}]}
    write_folder(tmp_path / "0", contents={}, meta=meta)
    folder = open_folder(tmp_path / "0", kind="checkpoint")
    assert folder.meta == {"kind": "checkpoint", "auc": None, "deep": [{"x": None}]}


def test_a_published_folder_is_told_from_others(saved, tmp_path):
    (tmp_path / "empty").mkdir()
    assert is_published(saved)
    assert not is_published(tmp_path / "empty")
    assert not is_published(tmp_path / "none")


def test_a_write_that_fails_publishes_no_folder(tmp_path):
    with pytest.raises(TypeError):
        write_folder(tmp_path / "0", contents=CONTENTS, meta={"kind": "checkpoint", "x": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_a_folder_that_was_replaced_is_not_read():
    url = f"memory://{uuid.uuid4().hex}/0"
    meta = {"kind": "checkpoint"}
    write_folder(url, contents={"a": b"old", "phase/b": b"old"}, meta=meta)
    old = open_folder(url, kind="checkpoint")
    assert old.read_bytes("a") == b"old"
    write_folder(url, contents={"a": b"new", "phase/b": b"new"}, meta=meta)
    replaced = r"\(was the folder replaced or deleted meanwhile\?\)"
    with pytest.raises(CheckpointError, match=rf"/a: cannot be read: .*{replaced}"):
        old.read_bytes("a")
    with pytest.raises(CheckpointError, match=rf"/b: cannot be read: .*{replaced}"):
        old.check_sizes("phase")
    assert open_folder(url, kind="checkpoint").read_bytes("a") == b"new"


def test_files_that_vanish_before_the_manifest_is_written_are_noticed(tmp_path):
    def fill(staging):
        staging.discard()  # as the cleaning of another process that publishes the same folder
        return {}

    with pytest.raises(CheckpointError, match=r"is gone; does another process write .*0 too\?"):
        write_folder(tmp_path / "0", contents=CONTENTS, meta={"kind": "checkpoint"}, fill=fill)
    assert list(tmp_path.iterdir()) == []


def write_large(staging):
    with staging.folder("phase") as folder:
        (folder / "large.bin").write_bytes(b"12345")
    return {"large": {"x": float("nan")}}


def test_large_files_are_written_in_place_and_listed_by_size(tmp_path):
    meta = {"kind": "checkpoint"}
    write_folder(tmp_path / "0", contents=CONTENTS, meta=meta, fill=write_large)
    folder = open_folder(tmp_path / "0", kind="checkpoint")
    assert folder.meta["large"] == {"x": None}
    assert folder.files["phase/large.bin"] == {"bytes": 5}
    assert folder.read_bytes("phase/model.bin") == b"weights"
    folder.check_sizes("phase")


@pytest.mark.parametrize("content", [b"", b"1234", b"123456"])
def test_a_large_file_of_another_size_is_refused(tmp_path, content):
    write_folder(tmp_path / "0", contents={}, meta={"kind": "checkpoint"}, fill=write_large)
    folder = open_folder(tmp_path / "0", kind="checkpoint")
    (tmp_path / "0/phase/large.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"large.bin: damaged: its size is not as in"):
        folder.check_sizes("phase")
    (tmp_path / "0/phase/large.bin").unlink()
    with pytest.raises(CheckpointError, match=r"large.bin: cannot be read"):
        folder.check_sizes("phase")


def test_a_large_file_that_cannot_be_written_publishes_no_folder(tmp_path):
    def fill(staging):
        write_large(staging)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_folder(tmp_path / "0", contents=CONTENTS, meta={"kind": "checkpoint"}, fill=fill)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_no_checkpoint(tmp_path):
    assert refusal(tmp_path / "0") == f"{tmp_path / '0'}: no checkpoint (it has no {MANIFEST})"


def test_a_file_is_no_checkpoint(saved):
    path = saved / "note.txt"
    assert refusal(path) == f"{path}: no checkpoint (it has no {MANIFEST})"


def test_a_folder_of_another_kind_is_refused(saved):
    assert refusal(saved, kind="inference model") == (
        f"{saved}: expected kind 'inference model', found 'checkpoint'"
    )


def test_a_flipped_bit_is_found(saved):
    path = saved / "phase" / "model.bin"
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    assert refusal(saved) == f"{path}: damaged: size or checksum is not as in {MANIFEST}"


@pytest.mark.parametrize("content", [b"", b"weight", b"weightss"])
def test_a_wrong_length_is_found(saved, content):
    (saved / "phase" / "model.bin").write_bytes(content)
    assert "model.bin: damaged: size or checksum" in refusal(saved)


def test_damage_in_one_file_does_not_hide_the_others(saved):
    (saved / "phase" / "model.bin").write_bytes(b"")
    assert open_folder(saved, kind="checkpoint").read_bytes("phase/table.bin") == b"rows"


def test_a_missing_file_is_named(saved):
    (saved / "phase" / "model.bin").unlink()
    message = refusal(saved)
    assert message.startswith(f"{saved / 'phase' / 'model.bin'}: cannot be read: ")


def test_a_file_the_manifest_does_not_vouch_for_is_not_read(saved):
    (saved / "stray.bin").write_bytes(b"x")
    assert refusal(saved, name="stray.bin") == f"{saved / 'stray.bin'}: not listed in {MANIFEST}"


@pytest.mark.parametrize("version", [0, 1, 3, "1.0"])
def test_another_format_version_is_refused_by_number(saved, version):
    edit_manifest(saved, format_version=version)
    assert refusal(saved) == (
        f"{saved / MANIFEST}: written in format {version}, this version reads format 2"
    )


def test_a_later_format_may_look_quite_different(saved):
    edit_manifest(saved, format_version=3, kind=None, files=None)
    assert "written in format 3" in refusal(saved)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"{", b"[]", b"[1, 2]", b"5", b"null", b'"text"', b"\xff\xfe", b"{}", b"[" * 100_000],
)
def test_a_manifest_of_garbage_is_refused(saved, garbage):
    (saved / MANIFEST).write_bytes(garbage)
    assert refusal(saved).startswith(f"{saved / MANIFEST}: damaged: ")


@pytest.mark.parametrize("key", ["kind", "files", "format_version"])
def test_a_manifest_without_a_key_is_refused(saved, key):
    edit_manifest(saved, **{key: None})
    assert refusal(saved).startswith(f"{saved / MANIFEST}: damaged: ")


@pytest.mark.parametrize("files", [5, "text", [1], {"phase/model.bin": 5}, {"phase/model.bin": []}])
def test_a_manifest_whose_files_make_no_sense_is_refused(saved, files):
    edit_manifest(saved, files=files)
    assert "damaged: " in refusal(saved)


@pytest.mark.parametrize("name", ["../secret", "phase/../../secret", "/etc/passwd", ".."])
def test_a_file_outside_the_folder_is_never_read(saved, name):
    (saved.parent / "secret").write_bytes(b"secret")
    edit_manifest(saved, files={name: {"bytes": 6, "sha256": "0"}})
    assert refusal(saved, name=name) == (
        f"{saved / MANIFEST}: damaged: a file lies outside the folder"
    )
