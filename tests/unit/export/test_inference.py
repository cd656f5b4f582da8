"""What an inference model may be made of; the contract of all models is elsewhere."""

import pytest
import torch
from torch import nn

from fleetrec.core.batch import Inputs
from fleetrec.core.errors import ConfigError, ModelError
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.export.inference import plan_inference
from fleetrec.models.base import Model
from fleetrec.tasks.binary import BinaryTask

INPUTS = Inputs(sparse=("item",), dense={"click": (1,), "price": (2,)})


class TwoSided(Model):
    """Compares an item with sampled ones, if there are any."""

    def __init__(self, *, side=None):
        super().__init__(tasks=[BinaryTask(label="click")])
        features = [EmbeddedFeature(feature="item", table="items")]
        if side is not None:
            features.append(
                EmbeddedFeature(feature="item", table="items", side=side, name="negative")
            )
        self.embeddings = EmbeddingCollection(
            features=features, tables=[TableConfig(name="items", dim=2)]
        )
        self.out = nn.Linear(4, 1)

    def forward(self, batch):
        item_BD = self.embeddings(batch).cat(["item"])
        logit_B = self.out(torch.cat([item_BD, batch.dense["price"]], dim=1)).squeeze(1)
        return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}


class Untraceable(TwoSided):
    """Has control flow that depends on values."""

    def forward(self, batch):
        outputs = super().forward(batch)
        return outputs if bool(outputs["logit"].sum() > 1e6) else dict(outputs)


def plan(model, **names):
    return plan_inference(model, INPUTS, **{"feeds": (), "fetches": (), **names})


def test_empty_lists_mean_all_inputs_but_labels_and_all_outputs():
    planned = plan(TwoSided())
    assert planned.feeds == ("price", "item")
    assert planned.fetches == ("logit", "predict")


def test_planning_does_not_change_the_model():
    model = TwoSided().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plan(model)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"fetches": ("score",)}, "no output 'score'; known: logit, predict"),
        ({"feeds": ("price", "item", "user")}, "'user' is not an input of the model"),
        ({"feeds": ("item",)}, "the model also needs price"),
    ],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(ConfigError, match=message):
        plan(TwoSided(), **names)


def test_a_label_may_be_named_as_a_feed_and_is_left_out():
    assert plan(TwoSided(), feeds=("click", "item", "price")).feeds == ("item", "price")


def test_a_model_of_further_sides_is_refused_with_the_side():
    with pytest.raises(ConfigError, match="vectors of the side others, but an inference model"):
        plan(TwoSided(side="others"))


def test_a_model_that_cannot_be_traced_is_refused_in_one_line():
    with pytest.raises(ModelError, match="cannot be exported for save_inference_path: ") as caught:
        plan(Untraceable()).check_exportable()
    assert "\n" not in str(caught.value)
