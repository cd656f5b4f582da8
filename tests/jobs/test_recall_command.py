"""``fleetrec export --items``, ``fleetrec recall`` and the route ``/recall`` of a server."""

import csv
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetrec.cli.export import ExportRequest, export_model
from fleetrec.cli.items import item_writer, items_request
from fleetrec.cli.recall import RecallRequest, recall_items
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.cli.trained import open_trained
from fleetrec.core.errors import ConfigError, DataError, UnavailableError
from fleetrec.export.answer import Answer
from fleetrec.export.inference import plan_inference
from fleetrec.export.item_files import choose_index
from fleetrec.export.manifest import open_model
from fleetrec.export.predictor import Predictor
from fleetrec.export.retriever import Retriever
from fleetrec.serving.options import Limits
from fleetrec.serving.recall import RecallModel
from fleetrec.serving.request_error import RequestError
from fleetrec.train.checkpoint_export import publish_export
from fleetrec.train.stored_run import stored_run
from making import make_data, make_job, run, write_job
from making_phases import phase_of
from making_pipelines import MODELS, write_data, write_pipeline
from making_served import served

USERS = {"user": ["u3", "u20"], "city": ["rome", "oslo"], "history": ["3|5", ""]}
NUM_ITEMS = 60


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a trained model with two towers."""
    folder = tmp_path_factory.mktemp("trained")
    paths = write_data(folder, num_train=640, num_eval=64)
    source = write_pipeline(folder, MODELS["DSSM"], paths=paths, num_steps=10)
    train_and_evaluate(TrainEvalRequest(source=str(source)), continue_train=False)
    write_items(folder / "items.csv", range(NUM_ITEMS))
    return folder


@pytest.fixture(scope="module")
def export(trained):
    """Export the model with items; it is converted to ONNX once, which takes seconds."""
    checkpoint = open_trained(str(trained / "model"))
    options = stored_run(checkpoint)
    phase = phase_of(options.phases[0], options)
    inputs, rules = phase.loader.inputs, phase.loader.input_rules
    planned = plan_inference(phase.model, inputs, feeds=(), fetches=(), rules=rules)

    def exported(out, data="items.csv", *, item_id="item", index=None, with_header=True):
        request = items_request(data, item_id, index, with_header=with_header)
        items = None if data is None else item_writer(request, options)
        publish_export(planned, checkpoint, phase.name, out, items=items)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(trained)
        exported("exported")
    return exported


@pytest.fixture(autouse=True)
def there(trained, export, monkeypatch):
    monkeypatch.chdir(trained)


@pytest.fixture(scope="module")
def retriever(trained, export):
    return Retriever(Predictor(trained / "exported"))


def write_items(path, numbers):
    rows = "".join(f"{number},0.{number % 10}\n" for number in numbers)
    Path(path).write_text(f"item,price\n{rows}")


def best(topk, *, model="exported"):
    """Return ids and scores for USERS by comparing all vectors in the file."""
    stored = pq.read_table(f"{model}/items/vectors.parquet").to_pydict()
    users = Predictor(model).tower("user").predict_raw(USERS)["user_emb"]
    scores = users @ np.array(stored["vector"], np.float32).T
    places = np.argsort(-scores, axis=1)[:, :topk]
    return [[stored["id"][i] for i in row] for row in places], -np.sort(-scores, axis=1)[:, :topk]


def test_the_vectors_of_items_are_those_of_their_tower():
    _, manifest = open_model("exported")
    assert manifest.items.model_dump() == {
        "num_items": NUM_ITEMS,
        "dim": 8,
        "id_column": "item",
        "vectors": "items/vectors.parquet",
        "index": "items/index.faiss",
        "index_type": "exact",
    }
    stored = pq.read_table("exported/items/vectors.parquet").to_pydict()
    assert stored["id"] == [str(number) for number in range(NUM_ITEMS)]  # text, as in the CSV
    prices = [f"0.{number % 10}" for number in range(NUM_ITEMS)]
    tower = Predictor("exported").tower("item")
    expected = tower.predict_raw({"item": stored["id"], "price": prices})["item_emb"]
    np.testing.assert_allclose(stored["vector"], expected, atol=1e-6)


def test_the_whole_model_scores_as_it_does_without_items(export):
    export("plain", None)
    columns = {**USERS, "item": ["5", "7"], "price": ["0.5", "0.7"]}
    with_items, plain = Predictor("exported"), Predictor("plain")
    assert plain.items is None
    for name, value in plain.predict_raw(columns).items():
        np.testing.assert_array_equal(with_items.predict_raw(columns)[name], value)


def test_the_best_items_of_one_user_are_printed(capsys):
    user = [f"{name}={values[0]}" for name, values in USERS.items()]
    recall_items(RecallRequest(model="exported", user=user, topk=3))
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["user", "rank", "item", "score"]
    ids, scores = best(3)
    found = [line.split() for line in lines]
    assert [cells[:3] for cells in found] == [["1", str(n + 1), ids[0][n]] for n in range(3)]
    np.testing.assert_allclose([float(cells[3]) for cells in found], scores[0], atol=1e-5)


def test_the_best_items_of_many_users_are_written(capsys):
    rows = [USERS, {name: values[:1] for name, values in USERS.items()}]
    pq.write_table(pa.concat_tables(pa.table(one) for one in rows), "users.parquet")
    ids, scores = best(4)
    for out in ("recalled.parquet", "recalled.csv"):
        request = RecallRequest(
            model="exported", users="users.parquet", topk=4, out=out, keep="user", batch_size=2
        )
        recall_items(request)
        recall_items(request)  # complete already
    found = pq.read_table("recalled.parquet/part-00000.parquet").to_pydict()
    assert found["user"] == ["u3", "u20", "u3"]
    assert found["items"] == [ids[0], ids[1], ids[0]]
    np.testing.assert_allclose(found["scores"][:2], scores, atol=1e-5)
    with Path("recalled.csv/part-00000.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert lines[1]["items"] == "|".join(ids[1])


def test_the_recall_of_an_index_is_measured(capsys, export):
    write_items("more.csv", range(90))
    export("lists", "more.csv", index="ivf")
    pq.write_table(pa.table(USERS), "two.parquet")
    for model in ("exported", "lists"):
        recall_items(RecallRequest(model=model, users="two.parquet", topk=5, measure=True))
    exact, lists = capsys.readouterr().out.splitlines()[-2:]
    assert exact == "recall@5 against brute force: 1.0000 (2 users, 60 items, index: exact)"
    assert re.fullmatch(
        r"recall@5 against brute force: [01]\.\d{4} \(2 users, 90 items, index: ivf\)", lists
    )


def test_rows_of_training_data_are_items_and_the_first_row_of_an_id_counts(caplog, export):
    with caplog.at_level("INFO"):
        export("of_training", "train.csv", index="none", with_header=False)
    stored = pq.read_table("of_training/items/vectors.parquet").to_pydict()
    assert len(stored["id"]) == len(set(stored["id"])) == NUM_ITEMS
    assert f"{640 - NUM_ITEMS} rows have an id that came before" in caplog.text
    assert not Path("of_training/items/index.faiss").exists()
    found = Retriever(Predictor("of_training")).recall(USERS, topk=3)
    assert found.ids == best(3, model="of_training")[0]


def test_without_faiss_a_small_set_of_items_is_exported_and_recalled(
    monkeypatch, retriever, export
):
    monkeypatch.setitem(sys.modules, "faiss", None)
    export("without_faiss")
    assert not Path("without_faiss/items/index.faiss").exists()
    for model in ("without_faiss", "exported"):
        found = Retriever(Predictor(model)).recall(USERS, topk=5)
        assert found.ids == retriever.recall(USERS, topk=5).ids
    with pytest.raises(UnavailableError, match=r"--index hnsw needs faiss: pip install 'fleetrec"):
        export("refused", index="hnsw")
    with pytest.raises(UnavailableError, match="an index of 500,000 items needs faiss"):
        choose_index(500_000, "auto")
    assert not Path("refused").exists()


def test_ids_are_integers_or_text_and_never_missing(export):
    table = {"item": [1, 2], "price": [0.1, 0.2]}
    pq.write_table(pa.table({**table, "sku": pa.array([7, 2**63], pa.uint64())}), "ids.parquet")
    export("of_parquet", "ids.parquet", item_id="sku", index="none", with_header=False)
    assert Retriever(Predictor("of_parquet")).recall(USERS, topk=9).ids[0] in (
        [7, 2**63],
        [2**63, 7],
    )
    pq.write_table(pa.table({**table, "sku": ["a", None]}), "ids.parquet")
    with pytest.raises(DataError, match="--item-id: row 2 of the items has no id"):
        export("refused", "ids.parquet", item_id="sku", with_header=False)
    pq.write_table(pa.table({**table, "sku": [0.5, 1.5]}), "ids.parquet")
    with pytest.raises(DataError, match="--item-id: expected integers or text, got double"):
        export("refused", "ids.parquet", item_id="sku", with_header=False)
    with pytest.raises(ConfigError, match="the data has no column 'brand'"):
        export("refused", "ids.parquet", item_id="brand", with_header=False)
    assert not Path("refused").exists()


def test_wrong_arguments_are_reported_together():
    items = items_request("items.csv", None, "tree", with_header=False)
    with pytest.raises(ConfigError) as caught:
        export_model(ExportRequest(checkpoint="model", out="x", items=items))
    assert "--items: expected --item-id" in str(caught.value)
    assert "--index: expected auto, none, exact, ivf, hnsw, got 'tree'" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        recall_items(RecallRequest(model="exported", user=["u3"], users="u.csv", topk=0, out="x"))
    for text in ("expected either --user", "--user: expected name=value, got 'u3'", "--topk"):
        assert text in str(caught.value)
    with pytest.raises(ConfigError, match="no column 'price'; known: user, city, history"):
        recall_items(RecallRequest(model="exported", user=["user=u3", "price=0.1"]))
    with pytest.raises(DataError, match="is made of column 'city', which the data does not have"):
        recall_items(RecallRequest(model="exported", user=["user=u3"]))


def test_a_model_without_towers_or_items_is_refused(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    data = make_data(tmp_path / "data", num_samples=20)
    run(write_job(make_job(data, epochs=1), Path("config.yaml")))
    write_items("items.csv", [1])
    items = items_request("items.csv", "item", None, with_header=True)
    with pytest.raises(ConfigError, match="has no towers user and item"):
        export_model(ExportRequest(checkpoint="ckpt", out="x", items=items))
    export_model(ExportRequest(checkpoint="ckpt", out="plain"))
    with pytest.raises(DataError, match="the model has no items to recall"):
        recall_items(RecallRequest(model="plain", user=["1=5"]))
    with pytest.raises(DataError, match="the model has no tower 'user'; it has none"):
        Predictor("plain").tower("user")


def test_items_never_answer_for_vectors_of_another_version(retriever):
    answer = retriever.tower.answer_values(retriever.tower.rules.transform(USERS))
    newer = Answer(
        outputs=answer.outputs, manifest=answer.manifest.model_copy(update={"fingerprint": "x"})
    )
    with pytest.raises(UnavailableError, match="export the newest checkpoint with --items"):
        retriever.search(newer, topk=3)


@pytest.fixture(scope="module")
def served_model(trained, export):
    return RecallModel(Predictor(trained / "exported"), Limits(max_samples=3, max_topk=50))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "users: expected an object of columns"),
        ({"users": {}}, "users: expected an object of columns"),
        ({"users": [1]}, "users: expected an object of columns"),
        ({"users": USERS, "k": 3}, "expected 'users' and 'topk', got 'k'"),
        ({"users": {**USERS, "city": "rome"}}, "column 'city': expected a list with one value"),
        ({"users": {**USERS, "city": ["rome"]}}, "expected columns of one length"),
        ({"users": {**USERS, "age": [1, 2]}}, r"column 'age': .* \['user', 'city', 'history'\]"),
        ({"users": {"user": ["u3"]}}, "is made of column 'city'"),
        ({"users": {**USERS, "city": [["rome"], [{}]]}}, "column 'city'"),
        ({"users": [{"user": "a"}, {"city": "b"}]}, r"users\[1\]: expected the columns of"),
        ({"users": {n: v * 2 for n, v in USERS.items()}}, "expected 1 to 3 samples, got 4"),
        ({"users": {n: [] for n in USERS}}, "expected 1 to 3 samples, got 0"),
        ({"users": USERS, "topk": 51}, "topk: expected 1 to 50, got 51"),
        ({"users": USERS, "topk": True}, "topk: expected 1 to 50, got True"),
    ],
)
def test_a_wrong_request_is_refused_with_a_reason(served_model, body, reason):
    with pytest.raises(RequestError, match=reason) as caught:
        served_model.decode(json.dumps(body).encode())
    assert caught.value.status == 400


def test_users_are_columns_or_objects(served_model):
    rows = [{name: values[n] for name, values in USERS.items()} for n in range(2)]
    found = []
    for users in (USERS, rows):
        decoded = served_model.decode(json.dumps({"users": users, "topk": 4}).encode())
        answer = served_model.tower.answer_values(decoded.values)
        found.append(json.loads(served_model.encode(answer, decoded.topk, "7")))
    assert found[0] == found[1]
    assert (found[0]["version"], found[0]["ids"]) == ("7", best(4)[0])
    np.testing.assert_allclose(found[0]["scores"], best(4)[1], atol=1e-5)


@pytest.mark.multiprocess
def test_a_server_recalls_and_after_a_reload_answers_with_the_new_items(trained, export):
    shutil.copytree("exported", "live")
    body = {"users": USERS, "topk": 3}
    with served("live", token="of this test") as server:
        found = server.post("/recall", body)
        assert (found.status, found.json["ids"]) == (200, best(3)[0])
        assert server.post("/recall", {"users": 3}).status == 400
        assert server.ask("GET", "/recall").status == 405
        server.token = None
        assert server.post("/recall", body).status == 401
        server.token = "of this test"
        write_items("others.csv", range(30, 60))
        export("live", "others.csv")
        assert server.post("/v2/repository/models/model/load", {}).status == 200
        assert server.post("/recall", body).json["ids"] == best(3, model="live")[0]
        export("live", None)
        assert server.post("/v2/repository/models/model/load", {}).status == 200
        refused = server.post("/recall", body)
        assert (refused.status, "export it with --items" in refused.json["error"]) == (404, True)
