"""A program that trains in this process alone."""

import re

import pytest
import torch
from torch import nn

from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.fleet import Adam, QueueDataset, StrategyFactory, data
from fleetrec.fleet.fleet import Fleet
from fleetrec.models import base
from fleetrec.tasks.binary import BinaryTask


class Clicks(base.Model):
    def __init__(self):
        super().__init__(tasks=[BinaryTask(label="click")])
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature="item", table="items")],
            tables=[TableConfig(name="items", dim=4)],
        )
        self.out = nn.Linear(4, 1)

    def forward(self, batch):
        logit_B = self.out(self.embeddings(batch).cat()).squeeze(1)
        return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}


@pytest.fixture
def dataset(tmp_path):
    rows = [row % 20 for row in range(200)]
    lines = "".join(f"1 {row} 1 {int(row % 3 == 0)}\n" for row in rows)
    (tmp_path / "part").write_text(lines)
    dataset = QueueDataset()
    dataset.set_use_var(
        [data("item", [1], dtype="int64", lod_level=1), data("click", [1], dtype="int64")]
    )
    dataset.set_filelist([str(tmp_path / "part")])
    dataset.set_batch_size(20)
    return dataset


def make_program(seed=0):
    torch.manual_seed(seed)
    return Adam(learning_rate=0.05).minimize(Clicks(), seed=seed)


def test_a_loss_in_the_place_of_a_model_is_refused():
    with pytest.raises(ConfigError, match=r"minimize: expected a model, .* got a Tensor"):
        Adam(learning_rate=0.05).minimize(torch.zeros(()))


def test_a_program_learns_and_prints_what_was_asked_for(dataset, capsys):
    fleet, program = Fleet(), make_program()
    for _ in range(6):
        figures = fleet.train_from_dataset(
            program, dataset, fetch_list=["AUC"], fetch_info=["auc"], print_period=5
        )
    assert figures["AUC"] > 0.95
    assert figures["SAMPLES"] == 200
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert re.fullmatch(r"batch 5, auc: [\d.]+, samples/s: \d+", lines[0])
    assert re.fullmatch(r"pass 5 done, auc: [\d.]+, samples/s: \d+", lines[-1])


def test_a_program_shrinks_by_the_days_that_are_given(dataset):
    fleet, program = Fleet(), make_program()
    fleet.train_from_dataset(program, dataset)
    fleet.shrink(program, 1)  # the rows were seen a day ago: a pass counts as a day
    assert program._model.state.stats()["items"]["rows"] == 20
    fleet.shrink(program)
    assert program._model.state.stats()["items"]["rows"] == 20
    fleet.shrink(program, threshold=2)
    assert program._model.state.stats()["items"]["rows"] == 0
    with pytest.raises(ConfigError, match="expected a threshold of at least 0, got -1"):
        fleet.shrink(program, -1)


def test_a_saved_program_is_loaded_by_another(dataset, tmp_path):
    fleet, program = Fleet(), make_program()
    fleet.train_from_dataset(program, dataset)
    expected = fleet.infer_from_dataset(program, dataset)
    fleet.save_persistables(program, str(tmp_path / "model"))
    other = make_program(seed=1)
    assert fleet.infer_from_dataset(other, dataset) != expected
    fleet.load_model(other, str(tmp_path / "model"))
    assert fleet.infer_from_dataset(other, dataset) == expected


def test_a_metric_that_does_not_exist_is_refused(dataset):
    with pytest.raises(ConfigError, match="fetch_list: no metric is called 'auc'; known: AUC"):
        Fleet().train_from_dataset(make_program(), dataset, fetch_list=["auc"], print_period=1)
    with pytest.raises(ConfigError, match="fetch_info: expected 1 names, got 2"):
        Fleet().train_from_dataset(
            make_program(), dataset, fetch_list=["AUC"], fetch_info=["a", "b"]
        )


def test_what_needs_data_or_servers_says_so(tmp_path):
    fleet, program = Fleet(), make_program()
    with pytest.raises(RuntimeError, match="call train_from_dataset first"):
        fleet.save_persistables(program, str(tmp_path / "model"))
    with pytest.raises(UnavailableError, match=r"mode 1 is not available; use 0 \(all\)"):
        fleet.save_persistables(program, str(tmp_path / "model"), mode=1)
    with pytest.raises(RuntimeError, match=r"call fleet.init\(\) first"):
        fleet.distributed_optimizer(Adam(), StrategyFactory.create_sync_strategy())
    with pytest.raises(RuntimeError, match=r"workers communicate between fleet\.init_worker"):
        fleet.barrier_worker()
