"""A tower as a model of its own."""

import pytest
import torch
from torch import nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.errors import ModelError
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.export.inference import plan_inference
from fleetrec.export.tower_model import TowerModel
from fleetrec.export.traced_graph import sample_batch
from fleetrec.models.base import Model
from fleetrec.models.towers import Tower
from fleetrec.tasks.binary import BinaryTask

INPUTS = Inputs(sparse=("user", "item", "seen"), dense={"age": (1,), "price": (1,)})


class TwoTowers(Model):
    """Towers that share one lookup group; ``declared`` changes what the user's declares."""

    def __init__(self, **declared):
        super().__init__(tasks=[BinaryTask(label="click")])
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature="item", table="item"),
                EmbeddedFeature(feature="user", table="user"),
                EmbeddedFeature(feature="seen", table="item", combiner="none"),
            ],
            tables=[TableConfig(name="item", dim=2), TableConfig(name="user", dim=2)],
        )
        self.out = nn.Linear(3, 2)
        self._declared = declared

    def recall_towers(self):
        declared = {"embedded": ("user", "seen"), "dense": ("age",), **self._declared}
        compute = declared.pop("compute", self.users)
        return {
            "user": Tower(output="user_emb", compute=compute, **declared),
            "item": Tower(output="item_emb", embedded=("item",), compute=self.items),
        }

    def users(self, batch: Batch):
        embedded = self.embeddings(batch)
        seen_BD = embedded.sequence("seen").x_BLD.sum(dim=1)
        x_BX = torch.cat([embedded.pooled("user") + seen_BD, batch.dense["age"]], dim=1)
        return self.out(x_BX)

    def items(self, batch: Batch):
        return self.embeddings(batch).pooled("item")

    def forward(self, batch: Batch):
        vectors = {"user_emb": self.users(batch), "item_emb": self.items(batch)}
        logit = (vectors["user_emb"] * vectors["item_emb"]).sum(dim=1) + batch.dense["price"][:, 0]
        return {"logit": logit, **vectors}


def test_a_tower_reads_only_its_inputs_and_computes_what_the_model_computes():
    model = TwoTowers()
    batch = sample_batch(model, INPUTS, num_samples=3)
    batch.embedded["embedded_2"].copy_(torch.randn(3, 4))
    batch.embedded["sequence_seen"].copy_(torch.randn(3, 3, 2))
    batch.dense["age"].copy_(torch.randn(3, 1))
    expected = model(batch)
    user, item = TowerModel(model, "user"), TowerModel(model, "item")
    assert (user.feeds, item.feeds) == (("age", "user", "seen"), ("item",))
    own = {"embedded_2": batch.embedded["embedded_2"][:, 2:]}
    own |= {n: batch.embedded[n] for n in ("sequence_seen", "lengths_seen")}
    torch.testing.assert_close(user(batch.with_embedded(own))["user_emb"], expected["user_emb"])
    own = {"embedded_2": batch.embedded["embedded_2"][:, :2]}
    torch.testing.assert_close(item(batch.with_embedded(own))["item_emb"], expected["item_emb"])


@pytest.mark.parametrize(
    "declared", [{"embedded": ("user",)}, {"embedded": ("seen",)}, {"dense": ()}]
)
def test_an_input_that_is_read_but_not_declared_is_an_error(declared):
    with pytest.raises(ModelError, match="tower 'user' reads inputs that it does not declare"):
        plan_inference(TwoTowers(**declared), INPUTS, feeds=(), fetches=())


def test_a_vector_that_there_is_not_is_an_error():
    with pytest.raises(ModelError, match="no vector is called 'age'; known: item, seen, user"):
        TowerModel(TwoTowers(embedded=("age",)), "user")


def test_numbers_instead_of_vectors_are_an_error():
    model = TwoTowers(compute=lambda batch: batch.dense["age"].sum(dim=1))
    with pytest.raises(ModelError, match=r"expected vectors .*, got \[2\] for 2 samples"):
        plan_inference(model, INPUTS, feeds=(), fetches=())


def test_the_output_of_a_tower_is_one_of_the_model():
    class Other(TwoTowers):
        def forward(self, batch):
            return {"logit": super().forward(batch)["logit"]}

    with pytest.raises(ModelError, match="'user_emb' is no output of the model"):
        plan_inference(Other(), INPUTS, feeds=(), fetches=())
