"""Pipelines whose data are topics of Kafka."""

import itertools
import json
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.table_view import open_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.core.env import FAULTS, environment_with
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.data.streams.client import opened
from making_pipelines import ADAM, WIDE_AND_DEEP, model_config, write_data, write_pipeline
from streaming import KafkaCluster

NUM_TRAIN = 640
MODEL = model_config(
    "WideAndDeep",
    "wide_and_deep { dnn { hidden_units: [4] use_bn: false } }",
    groups=WIDE_AND_DEEP,
)


@pytest.fixture(scope="module")
def cluster():
    return KafkaCluster()


@pytest.fixture(scope="module")
def paths(cluster, tmp_path_factory):
    """Files, and the same lines as messages."""
    made = write_data(tmp_path_factory.mktemp("data"), num_train=NUM_TRAIN, num_eval=200)
    for part, path in made.items():
        cluster.send(*path.read_bytes().splitlines(), topic=part)
    return made


def kafka_input(cluster, part, more=""):
    return (
        f'kafka_{part}_input {{ server: "{cluster.hosts}" topic: "{part}" group: "{part}ers" '
        f"{more} }}"
    )


def write(folder, cluster, paths, *, train="", evaluate="", **changes):
    """Write a pipeline that reads the topics."""
    changes = {"num_steps": 10, "input_type": "KafkaInput", **changes}
    path = write_pipeline(folder, MODEL, paths=paths, **changes)
    text = path.read_text()
    for part, more in (("train", train), ("eval", evaluate)):
        line = f'{part}_input_path: "{paths[part]}"'
        assert line in text
        text = text.replace(line, kafka_input(cluster, part, more))
    path.write_text(text)
    return path


def train(path, *, continue_train=False, **request):
    request = TrainEvalRequest(source=str(path), **request)
    train_and_evaluate(request, continue_train=continue_train)


def rows(checkpoint, table="deep.user"):
    found = {}
    for block in open_tables(checkpoint)[f"model/{table}"].blocks():
        found.update(zip(block["ids"].tolist(), block["rows"].tolist(), strict=True))
    return found


def test_a_topic_trains_and_evaluates_like_a_file(tmp_path, cluster, paths):
    for name in ("stream", "file"):
        (tmp_path / name).mkdir()
    train(write(tmp_path / "stream", cluster, paths))
    train(write_pipeline(tmp_path / "file", MODEL, paths=paths, num_steps=10))
    models = [tmp_path / name / "model" for name in ("stream", "file")]
    assert rows(models[0] / "model.ckpt-10") == rows(models[1] / "model.ckpt-10")
    results = [json.loads((model / "eval_result.txt").read_text()) for model in models]
    assert results[0] == results[1]
    manifest = json.loads((models[0] / "passes" / "0.json").read_text())
    assert [file["name"] for file in manifest["files"]["model"]] == [f"train/0/0-{NUM_TRAIN}"]


def test_a_continued_run_equals_an_unbroken_one(tmp_path, cluster, paths):
    path = write(tmp_path, cluster, paths)
    train(path)
    parts = str(tmp_path / "parts")
    train(path, model_dir=parts, arguments=["--train_config.num_steps=4"])
    with pytest.raises(ConfigError, match="of an earlier run; resume with --continue_train"):
        train(path, model_dir=parts)
    train(path, model_dir=parts, continue_train=True)
    whole = rows(tmp_path / "model" / "model.ckpt-10")
    assert rows(tmp_path / "parts" / "model.ckpt-10") == whole


def test_a_continued_run_with_other_options_is_refused(tmp_path, cluster, paths):
    path = write(tmp_path, cluster, paths, num_steps=3)
    train(path)
    with pytest.raises(ConfigError, match=r"--continue_train: .*batch_size was 64"):
        train(path, continue_train=True, arguments=["--data_config.batch_size=32"])


def test_training_begins_at_the_given_offsets(tmp_path, cluster, paths):
    path = write(tmp_path, cluster, paths, train="offset_info: '{\"0\": 600}'", num_steps=1)
    train(path)
    manifest = json.loads((tmp_path / "model" / "passes" / "0.json").read_text())
    assert manifest["files"]["model"][0]["name"] == f"train/0/600-{NUM_TRAIN}"
    assert manifest["positions"] == {"0": NUM_TRAIN, "1": 0, "2": 0, "3": 0}


def test_evaluation_reads_from_the_given_offsets_up_to_now(tmp_path, cluster, paths):
    path = write(tmp_path, cluster, paths, evaluate="offset_info: '{\"0\": 150}'", num_steps=2)
    train(path)
    evaluate_checkpoint(EvalRequest(source=str(path)))
    lines = (tmp_path / "model" / "eval" / "metrics.jsonl").read_text().splitlines()
    done = json.loads(lines[-1])
    assert round(done["seconds"] * done["samples_per_s"]) == 50


def test_a_pass_that_is_not_read_to_its_end_is_continued_in_the_next_run(tmp_path, cluster, paths):
    path = write(tmp_path, cluster, paths, num_steps=4)
    train(path)
    train(path, continue_train=True, arguments=["--train_config.num_steps=6"])
    point = open_folder(str(tmp_path / "model" / "model.ckpt-6"), kind="checkpoint")
    assert point.meta["progress"]["cursor"]["samples"] == 6 * 64
    assert [p.name for p in (tmp_path / "model" / "passes").iterdir()] == ["0.json"]


def test_passwords_are_written_nowhere(tmp_path, cluster, paths):
    secret = 'config_global: "sasl.password=hunter2" config_global: "fetch.max.bytes=1000000"'
    path = write(tmp_path, cluster, paths, train=secret, evaluate=secret, num_steps=2)
    train(path)
    model = tmp_path / "model"
    assert "sasl.password=***" in (model / "pipeline.config").read_text()
    for file in model.rglob("*"):
        assert not file.is_file() or b"hunter2" not in file.read_bytes(), file


def decode_message(content):
    """Return step, number and values of a message: ids and rows of a table, or variables."""
    kind, count, step, *places = struct.unpack_from("<5i", content)
    if kind == 1:
        (number, num_rows) = places
        ids = np.frombuffer(content, "<u8", num_rows, offset=20)
        rows = np.frombuffer(content, "<f4", offset=20 + 8 * num_rows).reshape(num_rows, -1)
        return step, number, dict(zip(ids.tolist(), rows.tolist(), strict=True))
    sizes = struct.unpack_from(f"<{2 * count}i", content, 12)[1::2]
    values = np.frombuffer(content, "<f4", offset=12 + 8 * count)
    return step, None, np.split(values, np.cumsum(sizes)[:-1])


def test_increments_are_sent_to_a_topic(tmp_path, cluster, paths):
    topic = f"increments-{tmp_path.name}"
    sink = f'kafka {{ server: "{cluster.hosts}" topic: "{topic}" }}'
    saving = f"incr_save_config {{ sparse_save_steps: 4 {sink} }}"
    path = write_pipeline(tmp_path, MODEL, paths=paths, num_steps=f"8 {saving}")
    train(path)
    with opened(cluster.url(topic)) as client:
        messages = [
            decode_message(message.value)
            for partition, end in client.end_offsets().items()
            for some in client.read(partition, 0, end)
            for message in some
        ]
    assert {step for step, _, _ in messages} == {8}  # 4 is the base
    names = json.loads((tmp_path / "model" / "incr_save" / "increments.json").read_text())
    checkpoint = str(tmp_path / "model" / "model.ckpt-8")
    weights = read_tensors(open_folder(checkpoint, kind="checkpoint"), "model")["model"]
    (dense,) = (values for _, number, values in messages if number is None)
    for variable, values in zip(names["variables"], dense, strict=True):
        assert values.tolist() == weights[variable["name"]].flatten().tolist()
    sent = {names["tables"][n]["name"]: values for _, n, values in messages if n is not None}
    assert {"deep.user", "wide.item"} <= sent.keys()
    for table, values in sent.items():
        assert values.items() <= rows(checkpoint, table).items()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"train": "offset_time: 'yesterday'"}, "kafka_train_input: start: expected earliest"),
        ({"evaluate": "offset_info: '[5]'"}, "kafka_eval_input: start: expected "),
        (
            {"train": "config_global: 'fetch'"},
            r"kafka_train_input.config_global\[0\]: expected key",
        ),
        ({"train": "offset_time: '1' offset_info: '{}'"}, "expected one of offset_info, offset"),
        ({"input_type": "ParquetInput"}, "kafka_train_input: messages are lines of text, but"),
        ({"data_config": "with_header: true"}, "with_header: the messages of a stream have no"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, cluster, paths, part, message):
    path = write(tmp_path, cluster, paths, **part)
    with pytest.raises(ConfigError, match=message):
        train(path)


def test_an_option_that_would_skip_messages_is_refused(tmp_path, cluster, paths):
    option = "config_topic: 'auto.offset.reset=latest'"
    path = write(tmp_path, cluster, paths, train=option, num_steps=1)
    with pytest.raises(DataError, match=r"auto.offset.reset: offsets are stored in checkpoints"):
        train(path)


def test_epochs_of_a_stream_are_noticed_and_steps_are_optional(tmp_path, cluster, paths, caplog):
    path = write(tmp_path, cluster, paths, data_config="num_epochs: 3", num_steps=1)
    train(path)
    assert "data_config.num_epochs: a stream is read once" in caplog.text


@pytest.mark.multiprocess
@pytest.mark.parametrize("fault", ["pass_frozen 1", "compute 7", "publish 3"])
def test_a_killed_run_ends_as_an_unbroken_one(tmp_path, cluster, paths, fault):
    point, number = fault.split()
    path = write(tmp_path, cluster, paths)
    saving = "--train_config.save_checkpoints_steps=4"
    faults = tmp_path / "faults" / "process.0"
    faults.mkdir(parents=True)
    (faults / point).write_text(f"{number} kill")
    command = [sys.executable, "-m", "fleetrec.train_eval", "--pipeline_config_path", str(path)]
    done = subprocess.run(
        [*command, saving],
        cwd=tmp_path,
        env=environment_with({FAULTS: str(faults.parent)}, unless_set={}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    train(path, continue_train=True, arguments=[saving])
    train(path, model_dir=str(tmp_path / "unbroken"), arguments=[saving])
    killed, unbroken = (rows(tmp_path / n / "model.ckpt-10") for n in ("model", "unbroken"))
    assert killed == unbroken


SERVERS = ("PSStrategy sync_replicas: false", ["--num_servers", "1"], (0, 320, 640))
RANKS = ("CollectiveAllReduceStrategy", [], (0, 640))  # which share every batch


@pytest.mark.multiprocess
@pytest.mark.parametrize(("strategy", "options", "cuts"), [SERVERS, RANKS])
def test_workers_share_a_topic(tmp_path, cluster, paths, strategy, options, cuts):
    path = write(
        tmp_path,
        cluster,
        paths,
        num_steps=10 if options else 5,
        train_config=f"train_distribute: {strategy} {ADAM}",
    )
    command = [sys.executable, "-m", "fleetrec.train_eval", "--pipeline_config_path", str(path)]
    done = subprocess.run(
        [*command, "--num_workers", "2", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((tmp_path / "model" / "passes" / "0.json").read_text())
    names = [file["name"] for file in manifest["files"]["model"]]
    assert names == [f"train/0/{begin}-{end}" for begin, end in itertools.pairwise(cuts)]
    assert (tmp_path / "model" / "model.ckpt-5").is_dir()  # five steps of each
