"""What a run promises of the storage that it saves to: ``place`` is the URL of an empty folder."""

import json
from pathlib import Path

import numpy as np
import pytest

from fleetrec.checkpoint.folder import open_folder, published_names
from fleetrec.checkpoint.import_rows import import_rows
from fleetrec.checkpoint.staging import delete_folder
from fleetrec.checkpoint.table_view import compare, open_tables, write_parquet
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.export.predictor import Predictor
from making import make_data, make_job, run, tensors_of, write_job

TABLE = "learn/SparseFeatFactors"


def write_config(folder: Path, place: str) -> Path:
    """Two epochs of 14 batches: checkpoints with deltas, and a dump."""
    data = folder / "data"
    if not data.exists():
        make_data(data, num_samples=214, num_files=3)
    job = make_job(
        data,
        epochs=2,
        batch_size=16,
        save_checkpoint_path=storage.join(place, "ckpt"),
        save_step_path=storage.join(place, "steps"),
        save_step_interval=5,
        save_checkpoint_base_interval=9,
        runner_result_dump_path=storage.join(place, "dump"),
    )
    job["runner"][1]["init_model_path"] = storage.join(place, "ckpt")
    job["hyper_parameters"]["distributed_embedding"] = 1
    return write_job(job, folder / f"{storage.name_of(place)}.yaml")


def feeds() -> dict[str, np.ndarray]:
    ids = np.arange(12).reshape(4, 3)
    dense = np.linspace(0, 1, 8, dtype=np.float32).reshape(4, 2)
    return {"dense_feature": dense, "1": ids[:, :1], "2": ids[:, 1:2], "3": ids[:, 2:]}


class RunContract:
    """Over ``place``, in a folder of its own."""

    @pytest.fixture(autouse=True)
    def _in_tmp_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    @pytest.fixture
    def local(self, tmp_path):
        """What the same job leaves in local folders."""
        folder = str(tmp_path / "local")
        run(write_config(tmp_path, folder))
        return folder

    def test_a_run_leaves_the_same_as_in_local_folders(self, place, tmp_path):
        local = str(tmp_path / "local")
        for folder in (place, local):
            inference = f"runner.train.save_inference_path={storage.join(folder, 'inference')}"
            run(write_config(tmp_path, folder), inference)
        assert published_names(storage.join(place, "ckpt")) == ["0", "1"]
        last, its = (storage.join(folder, "ckpt/1") for folder in (place, local))
        assert tensors_of(last) == tensors_of(its)
        dump, other = (storage.join(folder, "dump_epoch_1") for folder in (place, local))
        assert json.loads(storage.read_bytes(dump)) == json.loads(storage.read_bytes(other))
        models = [Predictor(storage.join(folder, "inference/1")) for folder in (place, local)]
        answers = [model.predict(feeds())["predict"] for model in models]
        np.testing.assert_array_equal(*answers)

    def test_a_broken_run_resumes_from_a_chain_of_deltas(self, place, local, tmp_path):
        config = write_config(tmp_path, place)
        run(config, "runner.train.epochs=1")
        delete_folder(storage.join(place, "ckpt/0"))  # as if it was killed before
        run(config, resume=True)
        resumed = open_folder(storage.join(place, "ckpt/1"), kind="checkpoint")
        assert resumed.meta["tables"]["learn"]["SparseFeatFactors"]["kind"] == "delta"
        assert tensors_of(resumed.url) == tensors_of(storage.join(local, "ckpt/1"))

    def test_a_chain_is_moved_together(self, place, tmp_path):
        run(write_config(tmp_path, place), "runner.train.epochs=1")
        expected = tensors_of(storage.join(place, "ckpt/0"))
        with storage.local_copy(place) as copy:
            assert tensors_of(copy / "ckpt" / "0") == expected

    def test_a_missing_parent_is_named(self, place, tmp_path):
        run(write_config(tmp_path, place), "runner.train.epochs=1")
        delete_folder(storage.join(place, "steps/epoch_0_batch_0"))
        with pytest.raises(CheckpointError, match="epoch_0_batch_0, which cannot be opened"):
            open_tables(storage.join(place, "ckpt/0"))

    def test_checkpoints_are_evaluated_where_they_are(self, place, tmp_path):
        config = write_config(tmp_path, place)
        run(config)
        run(config, "mode=infer")
        (record, *_) = (
            record
            for line in next(Path("logs").glob("*.infer/metrics.jsonl")).read_text().splitlines()
            if (record := json.loads(line))["event"] == "pass"
        )
        assert record["metrics"]["AUC"] > 0.5

    def test_tables_are_read_written_and_imported(self, place, tmp_path):
        run(write_config(tmp_path, place), "runner.train.epochs=1")
        table = open_tables(storage.join(place, "ckpt/0"))[TABLE]
        assert table.num_bytes() > 0
        num_rows = write_parquet(table, storage.join(place, "rows.parquet"))
        assert num_rows == table.record.rows
        target = storage.join(place, "imported")
        source = storage.join(place, "rows.parquet")
        assert import_rows(source, target, table="SparseFeatFactors") == num_rows
        (imported,) = open_tables(target).values()
        found = compare(table, imported)
        assert (len(found.common), found.num_changed) == (num_rows, 0)
