"""What a model over sequences may rely on: in training, and as an inference model."""

# Shape suffixes: B samples, L longest list, D width of a row.

import itertools

import pytest
import torch
from torch import nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.options import Options
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.table import Initializer, TableConfig
from fleetrec.export.inference import plan_inference
from fleetrec.export.predictor import Predictor
from fleetrec.models import base
from fleetrec.parallel.state import SavedModel
from fleetrec.tasks.binary import BinaryTask
from making import columns_of, write_tables
from making_groups import solo

NAMES = ("click", "item", "seen", "shops")
INPUTS = Inputs(sparse=NAMES, dense={"age": (1,)})
NUM_SHOPS = 5


class Model(base.Model):
    """Attends to what was seen, beside a linear term, a mean, and a cut list of hashed ids."""

    class Config(Options):
        """No options."""

    def __init__(self) -> None:
        super().__init__(tasks=[BinaryTask(label="click")])
        some = Initializer(scale=0.5)
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature="item", table="item"),
                EmbeddedFeature(feature="seen", table="item", combiner="none"),
                EmbeddedFeature(feature="seen", table="item", combiner="mean"),
                EmbeddedFeature(feature="shops", table="shop", combiner="none", max_length=2),
                EmbeddedFeature(feature="item", table="linear", name="bias"),
            ],
            tables=[
                TableConfig(name="item", dim=4, initializer=some),
                TableConfig(
                    name="shop", dim=3, num_rows=NUM_SHOPS, out_of_range="hash", initializer=some
                ),
                TableConfig(name="linear", dim=1, initializer=some),
            ],
        )
        self.out = nn.Linear(4 + 4 + 3 + 1, 1)

    def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
        embedded = self.embeddings(batch)
        seen, shops = embedded.sequence("seen"), embedded.sequence("shops")
        item_BD = embedded.pooled("item")
        scores_BL = torch.einsum("bld,bd->bl", seen.x_BLD, item_BD)
        scores_BL = scores_BL.masked_fill(~seen.mask_BL, -1e9).softmax(dim=1) * seen.mask_BL
        attended_BD = torch.einsum("bl,bld->bd", scores_BL, seen.x_BLD)
        parts = [attended_BD, embedded.pooled("seen"), shops.x_BLD.sum(dim=1), batch.dense["age"]]
        logit_B = self.out(torch.cat(parts, dim=1)).squeeze(1) + embedded.pooled("bias").squeeze(1)
        return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}


# click, item, seen, shops; shops lie beyond their table, and lists may be empty.
SAMPLES = [
    (1, [3], [1, 2, 3], [7, 2**40, 4]),
    (0, [2], [], [2**40]),
    (1, [3], [3], []),
    (0, [9], [4, 4, 9, 1, 2], [9, 11, 1, 8]),
    (1, [1], [1], [4]),
]


def make_batch(samples, *, weights=None) -> Batch:
    lists = [[click] for click, *_ in samples]
    lists += [sample[column] for column in (1, 2, 3) for sample in samples]
    values = torch.tensor([i for some in lists for i in some], dtype=torch.int64)
    return Batch(
        ids=KeyedJagged(
            names=NAMES,
            values_N=values,
            offsets=torch.tensor([0, *(len(some) for some in lists)]).cumsum(0),
            num_samples=len(samples),
            weights_N=None if weights is None else weights(values),
        ),
        dense={"age": torch.arange(len(samples), dtype=torch.float32).unsqueeze(1)},
        cursor=Cursor(),
    )


def uneven(values):
    return 0.5 + (values % 3).to(torch.float32)


ADAGRAD = OptimizerOptions(name="adagrad", lr=0.1)


@pytest.fixture
def member():
    torch.manual_seed(0)
    with solo(model=Model(), optimizer=ADAGRAD) as found:
        yield found


def outputs_of(member, batch):
    with member.stepper.evaluating():
        return member.stepper.evaluate(batch).outputs


def export(member, tmp_path) -> Predictor:
    planned = plan_inference(member.model, INPUTS, feeds=(), fetches=())
    planned.write(tmp_path / "inference", member.state.export_rows())
    return Predictor(tmp_path / "inference")


def feed_of(batch):
    feeds = {"age": batch.dense["age"].numpy()}
    weights = {}
    for name in NAMES[1:]:
        jagged = batch.ids[name]
        bounds = list(itertools.pairwise(jagged.offsets.tolist()))
        feeds[name] = [jagged.values[a:b].tolist() for a, b in bounds]
        if jagged.weights is not None:
            weights[name] = [jagged.weights[a:b].tolist() for a, b in bounds]
    return feeds, weights


def test_gradients_reach_the_rows_of_every_table(member, tmp_path):
    batch = make_batch(SAMPLES)
    losses = [float(member.train(batch).loss) for _ in range(40)]
    assert losses[-1] < 0.3 * losses[0]
    tables = {name: columns_of(it) for name, it in write_tables(member.state, tmp_path).items()}
    assert tables["item"]["ids"].tolist() == [1, 2, 3, 4, 9]
    assert max(tables["shop"]["ids"].tolist()) < NUM_SHOPS
    for table in ("item", "shop", "linear"):
        assert (tables[table]["state"] > 0).any(axis=1).all()


def test_rows_move_as_autograd_says(member):
    """One embedding matrix with gradients of its own, for the item table."""
    batch = make_batch(SAMPLES, weights=uneven)
    model = member.model
    stores = member.state.stores
    looked_up = Lookup(model.embedding_collection(), stores).pull(batch, training=True)
    rows = torch.nn.Parameter(torch.zeros(10, 4))
    taken = stores["item"].snapshot()
    rows.data[taken["ids"]] = taken["rows"]
    item, seen = batch.ids["item"], batch.ids["seen"]
    mean = torch.stack(
        [
            (w.unsqueeze(1) * rows[ids]).sum(0) / w.sum() if len(ids) else torch.zeros(4)
            for ids, w in _lists(seen)
        ]
    )
    lists = [rows[ids] for ids, _ in _lists(seen)]
    own = dict(looked_up.vectors)
    single = torch.stack([(w.unsqueeze(1) * rows[ids]).sum(0) for ids, w in _lists(item)])
    own["embedded_4"] = torch.cat([single, mean], dim=1)
    own["sequence_seen"] = nn.utils.rnn.pad_sequence(lists, batch_first=True)
    outputs = model(batch.with_embedded(own))
    model.loss(outputs, batch).backward()
    ours = model(batch.with_embedded(looked_up.vectors))
    torch.testing.assert_close(ours["logit"], outputs["logit"])
    model.loss(ours, batch).backward()
    lookup = looked_up.lookups["embedded_4"]
    vectors = looked_up.vectors
    ((ids, sums),) = lookup.apply_returning_grads(
        vectors["embedded_4"].grad.numpy(), [vectors["sequence_seen"].grad.numpy()], lr=0.1
    )
    torch.testing.assert_close(torch.from_numpy(sums), rows.grad[torch.from_numpy(ids)])


def _lists(jagged):
    for a, b in itertools.pairwise(jagged.offsets.tolist()):
        yield jagged.values[a:b], jagged.weights[a:b]


@pytest.mark.parametrize("weights", [None, uneven], ids=["plain", "weighted"])
def test_the_inference_model_gives_the_same_outputs_for_any_lengths(member, tmp_path, weights):
    for _ in range(3):
        member.train(make_batch(SAMPLES, weights=weights))
    predictor = export(member, tmp_path)
    unseen = (0, [77], [88, 1] * 6, [2**50, 3])
    empty = (0, [], [], [])
    for samples in (SAMPLES, SAMPLES[:1], [*SAMPLES, unseen] * 3, [empty], [empty, unseen]):
        batch = make_batch(samples, weights=weights)
        feeds, fed_weights = feed_of(batch)
        answers = predictor.predict(feeds, weights=fed_weights)
        for name, value in outputs_of(member, batch).items():
            torch.testing.assert_close(torch.from_numpy(answers[name]), value, atol=1e-5, rtol=1e-5)


def test_outputs_do_not_depend_on_the_split_into_batches(member):
    member.train(make_batch(SAMPLES))
    model = member.model.eval()
    lookup = Lookup(model.embedding_collection(), member.state.stores)
    batch = make_batch(SAMPLES)
    whole = outputs_of(member, batch)["logit"]
    for i, sample in enumerate(SAMPLES):
        alone = make_batch([sample])
        alone.dense["age"].fill_(float(i))
        vectors = lookup.pull(alone, training=False).vectors
        torch.testing.assert_close(model(alone.with_embedded(vectors))["logit"], whole[i : i + 1])


def test_a_run_that_was_saved_and_loaded_goes_on_equal(member, tmp_path):
    batch = make_batch(SAMPLES, weights=uneven)
    member.train(batch)
    cut = member.state.cut(parent=None)
    cut.finish(published=False)
    saved = SavedModel(tensors=cut.dense, tables=write_tables(member.state, tmp_path))
    with solo(model=Model(), optimizer=ADAGRAD) as twin:
        twin.train(make_batch(SAMPLES[:1]))  # so that it cannot pass by chance
        twin.state.load(saved, exact=True)
        for _ in range(2):
            assert torch.equal(member.train(batch).loss, twin.train(batch).loss)


def test_two_sequences_may_be_put_side_by_side_in_an_exported_graph(tmp_path):
    class Pair(base.Model):
        """Two lists of equal lengths, and one that is one id long."""

        def __init__(self) -> None:
            super().__init__(tasks=[BinaryTask(label="click")])
            table = TableConfig(name="t", dim=2)
            self.embeddings = EmbeddingCollection(
                features=[
                    EmbeddedFeature(feature="seen", table="t", combiner="none", max_length=4),
                    EmbeddedFeature(
                        feature="seen", table="t", combiner="none", max_length=4, name="again"
                    ),
                    EmbeddedFeature(feature="item", table="t", combiner="none", max_length=1),
                ],
                tables=[table],
            )
            self.places = nn.Parameter(torch.randn(4, 4))

        def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
            embedded = self.embeddings(batch)
            seen, again = embedded.sequence("seen"), embedded.sequence("again")
            x_BLD = torch.cat([seen.x_BLD, again.x_BLD], dim=2)
            x_BLD = x_BLD + self.places[: x_BLD.shape[1]]
            logit_B = (x_BLD * seen.mask_BL.unsqueeze(2)).sum((1, 2))
            logit_B = logit_B + embedded.sequence("item").x_BLD.sum((1, 2))
            return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}

    with solo(model=Pair(), optimizer=OptimizerOptions()) as member:
        member.train(make_batch(SAMPLES))
        planned = plan_inference(member.model, Inputs(sparse=NAMES), feeds=(), fetches=())
        planned.write(tmp_path / "inference", member.state.export_rows())
        predictor = Predictor(tmp_path / "inference")
        for samples in (SAMPLES, SAMPLES[:1], SAMPLES[1:2]):
            batch = make_batch(samples)
            feeds, _ = feed_of(batch)
            answer = predictor.predict({name: feeds[name] for name in ("seen", "item")}, ["logit"])
            expected = outputs_of(member, batch)["logit"]
            torch.testing.assert_close(
                torch.from_numpy(answer["logit"]), expected, atol=1e-5, rtol=1e-5
            )
