"""Several models on one server."""

import contextlib

import numpy as np
import pytest

from fleetrec.embedding.sharding import WHOLE_TABLE
from fleetrec.server.durable_state import DurableState
from fleetrec.server.served_models import MAX_MODELS, ServedModels
from fleetrec.server.service import Service
from fleetrec.server.service_options import FINISHED, ServiceOptions
from fleetrec.server.wire import Kind, Message, WireError, json_array, text_array
from unit.server.serving import MODEL, make_push


@contextlib.contextmanager
def opened(directory):
    models = ServedModels(
        directory,
        open_state=lambda folder: DurableState(folder, durability="process"),
        open_service=lambda _, durable: Service(
            durable, ServiceOptions(shard=WHOLE_TABLE, num_workers=1)
        ),
    )
    with contextlib.closing(models):
        yield models


def call(models, model, kind, **fields):
    return models.service(model).handle(Message(kind=kind, **fields))


def set_up(models, model, *, num_pushes=0):
    dense_P = np.zeros(MODEL.num_dense, np.float32)
    call(models, model, Kind.SETUP, arrays=[json_array(MODEL.to_plain()), dense_P])
    call(models, model, Kind.HELLO, incarnation=1)
    for sequence in range(1, num_pushes + 1):
        push = make_push().to_message(worker=0, incarnation=1, sequence=sequence)
        models.service(model).handle(push)


def weights(models, model):
    return call(models, model, Kind.DENSE).array(1, np.float32)[0]


def test_every_model_has_steps_of_its_own(tmp_path):
    with opened(tmp_path) as models:
        set_up(models, 0, num_pushes=1)
        set_up(models, 3, num_pushes=2)
        assert (weights(models, 0), weights(models, 3)) == (-1, -2)
        assert models.service(3) is models.service(3)


def test_all_models_are_recovered_at_once(tmp_path):
    with opened(tmp_path) as models:
        set_up(models, 0, num_pushes=1)
        set_up(models, 2, num_pushes=3)
    with opened(tmp_path) as models:
        assert models.metrics()["steps_total"] == 4
        assert (weights(models, 0), weights(models, 2)) == (-1, -3)


def test_metrics_are_summed_and_tables_of_further_models_are_named_by_them(tmp_path):
    with opened(tmp_path) as models:
        set_up(models, 0, num_pushes=1)
        set_up(models, 1, num_pushes=1)
        found = models.metrics()
        assert found["steps_total"] == 2
        (rows,) = [value for name, value in found.items() if name.endswith("rows")]
        assert {"t", "1:t"} <= {label.split('"')[1] if '"' in label else label for label in rows}
        assert models.num_pending() == 0


def test_a_server_is_finished_when_all_models_are(tmp_path):
    arrays = [text_array(FINISHED), np.zeros(0, np.uint8)]
    with opened(tmp_path) as models:
        models.service(1)
        call(models, 0, Kind.GATHER, arrays=arrays)
        assert not models.is_finished()
        call(models, 1, Kind.GATHER, arrays=arrays)
        assert models.is_finished()


@pytest.mark.parametrize("model", [-1, MAX_MODELS])
def test_the_number_of_models_is_limited(tmp_path, model):
    with opened(tmp_path) as models, pytest.raises(WireError, match=f"below {MAX_MODELS}, got"):
        models.service(model)
