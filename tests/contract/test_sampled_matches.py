"""Models of two vectors learn from sampled items."""

import pytest
import torch

from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.models.pipeline_classes import pipeline_classes
from fleetrec.tasks.in_batch import SIMILARITY
from making_models import MODELS
from making_phases import evaluate, phase_of, train
from making_pipelines import write_data, write_pipeline

SAMPLED = 7
SOFTMAX = "loss_type: SOFTMAX_CROSS_ENTROPY"


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    lines = [f"{item}\x01{1.0}\x01{item}:{item / 60}\n" for item in range(60)]
    (folder / "items").write_text("id:int64\x01weight:float\x01feature:string\n" + "".join(lines))
    return write_data(folder, num_train=128, num_eval=64)


@pytest.mark.parametrize("name", ["DSSM", "DSSM_SENet", "DAT", "MatchModel", "MIND"])
def test_a_user_is_compared_with_items_of_the_batch_and_sampled_ones(name, tmp_path, paths):
    text = MODELS[name]
    if SOFTMAX not in text:
        text = text.rstrip()[:-1] + SOFTMAX + "}"
    sampler = (
        f"negative_sampler {{ input_path: '{paths['train'].parent / 'items'}' "
        f"num_sample: {SAMPLED} attr_fields: ['item', 'price'] item_id_field: 'item' }}"
    )
    path = write_pipeline(
        tmp_path,
        text,
        paths=paths,
        data_config=sampler,
        eval_config="metrics_set { recall_at_topk { topk: 2 } }",
    )
    decoded = decode_pipeline(path, classes=pipeline_classes(), changes=Changes(), kind="train")
    (run,) = decoded.job.runs
    phase = phase_of(run.phases[0], run)
    with phase.loader.epoch(0) as found:
        first, second = found
    before = {name: p.detach().clone() for name, p in phase.model.named_parameters()}
    train(phase, first)
    train(phase, second)
    still = [n for n, p in phase.model.named_parameters() if torch.equal(p, before[n])]
    assert still == []
    outputs = evaluate(phase, first)
    assert outputs[SIMILARITY].shape == (64, 64 + SAMPLED)
    assert outputs["probs"].shape == (64,)
