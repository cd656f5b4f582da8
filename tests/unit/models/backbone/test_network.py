"""What is wrong with a backbone is reported with its block, or with its place in the file."""

import pytest
import torch

from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.core.errors import ConfigError
from fleetrec.models.pipeline_classes import pipeline_classes
from making_backbones import BST, LIST, MLP, SEQUENCE, block, keras, rank, struct
from making_phases import evaluate, phase_of, train
from making_pipelines import write_data, write_pipeline

WRONG_TEXT = {
    "hidden_unitz": "unknown field; did you mean 'hidden_units'",
    "keras_layer { class_name: 'MLPP' }": "no layer is called 'MLPP'; did you mean 'MLP'",
    "keras_layer { class_name: 'MLP' fm {} }": "fm is not for class_name MLP",
    "keras_layer { class_name: 'MLP' }": "hidden_units: Field required",
    "keras_layer { class_name: 'TextEncoder' }": "known, but not supported here",
    "lambda { expression: 'lambda x: x.y' }": "x.y is not supported here",
    "raw_input {} lambda { expression: 'lambda x: x' }": "expected one of",
}
WRONG_GRAPH = {
    "depends on itself": rank(block("a", "b"), block("b", "a"), concat=["a"], groups=["all"]),
    "no block is called 'zz'": rank(block("a", "group:all"), concat=["zz"], groups=["all"]),
    "no package is called 'zz'": rank(block("a", "package:zz"), groups=["all"]),
    "needs a feature group 'zz'": rank(block("a", "group:zz"), groups=["all"]),
    "block dot: expected features of one width": rank(
        block("dot", ["group:all => lambda x: [x]", "list"], keras("DotInteraction")),
        block("list", "group:user", LIST),
        groups=["all", "user"],
    ),
    "some inputs are lists and others are not": rank(
        block("list", "group:user", LIST),
        block("both", ["group:all", "list"]),
        groups=["all", "user"],
    ),
    "block bst: expected sequences": rank(
        block("bst", "group:all", keras("BST", BST % "")), groups=["all"]
    ),
    "DIN needs a target": rank(
        block("history", "group:sequence => lambda x: x[:2]"),
        block("steps", "group:sequence", SEQUENCE),
        block(
            "din",
            "steps => lambda x: x[:2]",
            keras("DIN", "din { attention_dnn { hidden_units: 1 } }"),
        ),
        concat=["din"],
        groups=["sequence"],
    ),
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=64, num_eval=64)


@pytest.fixture(scope="module")
def classes():
    return pipeline_classes()


def decoded(folder, model, paths, classes):
    path = write_pipeline(folder, model, paths=paths)
    (run,) = decode_pipeline(path, classes=classes, changes=Changes(), kind="train").job.runs
    return run


def phase_for(folder, model, paths, classes):
    run = decoded(folder, model, paths, classes)
    return phase_of(run.phases[0], run)


@pytest.mark.parametrize("layer", WRONG_TEXT)
def test_a_wrong_layer_is_reported_with_its_place(layer, tmp_path, paths, classes):
    text = MLP % "hidden_unitz: 3" if layer == "hidden_unitz" else layer
    model = rank(block("net", "group:all", text), groups=["all"])
    with pytest.raises(ConfigError) as raised:
        decoded(tmp_path, model, paths, classes)
    assert WRONG_TEXT[layer] in str(raised.value)
    assert "pipeline.config:" in str(raised.value)


@pytest.mark.parametrize("problem", WRONG_GRAPH)
def test_a_wrong_graph_is_reported_with_its_block(problem, tmp_path, paths, classes):
    with pytest.raises((ConfigError, ValueError), match=problem):
        phase_for(tmp_path, WRONG_GRAPH[problem], paths, classes)


def test_defaults_differ_between_a_message_and_a_struct(tmp_path, paths, classes):
    models = {
        "message": keras("MLP", "mlp { hidden_units: 8 use_final_bn: false }"),
        "struct": keras("MLP", struct(hidden_units=8, use_final_bn=False)),
    }
    lowest = {}
    for name, layer in models.items():
        if name == "struct":
            layer = layer.replace(
                "{ number_value: 8 }", "{ list_value { values { number_value: 8 } } }"
            )
        model = rank(block("net", "group:all", layer), top=None, groups=["all"])
        phase = phase_for(tmp_path, model, paths, classes)
        with phase.loader.epoch(0) as found:
            batch = next(iter(found))
        with phase.stepper.evaluating():
            phase.stepper.evaluate(batch)
            (net,) = [layer for name, layer in phase.model.backbone.layers.items() if name == "net"]
            lowest[name] = float(net(torch.randn(100, net.inner[0][0].in_features)).detach().min())
    assert lowest["message"] == 0
    assert lowest["struct"] < 0


def test_only_what_the_outputs_need_is_built(tmp_path, paths, classes):
    model = rank(
        block("used", "group:all", MLP % ""),
        block("unused", "group:all", MLP % ""),
        concat=["used"],
        groups=["all"],
    )
    phase = phase_for(tmp_path, model, paths, classes)
    assert "used" in phase.model.backbone.layers
    assert "unused" not in phase.model.backbone.layers


def test_copies_select_their_part_by_number(tmp_path, paths, classes):
    repeat = (
        "repeat { num_repeat: 2 input_fn: 'lambda x, i: x[i]' output_concat_axis: -1 "
        "keras_layer { class_name: 'Dense' st_params { fields { key: 'units' value { "
        "number_value: 3 } } } } }"
    )
    model = rank(
        block("parts", ["group:user => lambda x: [x]", "group:all => lambda x: [x]"]),
        block("net", "parts", repeat),
        top=None,
        groups=["all", "user"],
    )
    phase = phase_for(tmp_path, model, paths, classes)
    first, second = (phase.model.backbone.layers[f"net_{i}"].inner[0] for i in range(2))
    assert first.in_features == 16
    assert second.in_features > 16
    assert phase.model.backbone.out_dim == 6


def test_an_auxiliary_loss_is_part_of_training_only(tmp_path, paths, classes):
    model = rank(
        block("left", "group:user", MLP % ""),
        block("right", "group:all", MLP % ""),
        block(
            "distance",
            ["left", "right"],
            keras("AuxiliaryLoss", struct(loss_type="l2_loss", loss_weight=1000.0)),
            "merge_inputs_into_list: true",
        ),
        concat=["right"],
        groups=["all", "user"],
    )
    phase = phase_for(tmp_path, model, paths, classes)
    with phase.loader.epoch(0) as found:
        batch = next(iter(found))
    assert all("distance" not in name for name in evaluate(phase, batch))
    before = phase.model.backbone.layers["left"].inner[0][0].weight.detach().clone()
    train(phase, batch)
    assert not torch.equal(before, phase.model.backbone.layers["left"].inner[0][0].weight)
