"""One front door for both dialects."""

import pytest

from fleetrec.cli.job import load_requested
from fleetrec.config.load import Components, JobRequest, dialect_of, load_job
from fleetrec.config.pipeline_dialect.decode import Changes
from fleetrec.core.errors import ConfigError
from making import make_data, make_job, write_job
from making_pipelines import MODELS, write_data, write_pipeline


@pytest.fixture
def yaml_job(tmp_path):
    return write_job(make_job(make_data(tmp_path / "data", num_samples=4)), tmp_path / "job.yaml")


@pytest.fixture
def pipeline(tmp_path):
    paths = write_data(tmp_path, num_train=8, num_eval=8)
    return write_pipeline(tmp_path, MODELS["FM"], paths=paths)


def load(source, **request):
    return load_requested(JobRequest(source=str(source), **request))


def test_both_dialects_become_jobs(yaml_job, pipeline, tmp_path):
    job = load(yaml_job)
    assert [(run.name, run.log_style) for run in job.runs] == [("train", "epochs")]
    assert (job.folder, job.files) == (None, {})
    job = load(pipeline)
    assert [(run.kind, run.log_style) for run in job.runs] == [("train", "steps")]
    assert job.folder == str(tmp_path / "model")
    assert "model_class" in job.files["pipeline.config"]


@pytest.mark.parametrize(
    ("name", "text", "dialect"),
    [
        ("a.yaml", "model_config {", "yaml"),
        ("a.config", "mode: train", "pipeline"),
        ("a", "# comment\ntrain_config {\n}\n", "pipeline"),
        ("a.txt", 'model_dir: "here"\n', "pipeline"),
        ("a.txt", "feature_configs : {\n", "pipeline"),
        ("a", "mode: train\nrunner:\n- name: train_config\n", "yaml"),
        ("a.txt", "workspace: here # train_config {\n", "yaml"),
    ],
)
def test_the_suffix_names_the_dialect_else_the_content(tmp_path, name, text, dialect):
    path = tmp_path / name
    path.write_text(text)
    assert dialect_of(path) == dialect


def test_a_model_folder_is_a_job(pipeline):
    assert load(pipeline.parent).source == pipeline


def test_an_override_changes_either_dialect(yaml_job, pipeline, tmp_path):
    (run,) = load(yaml_job, overrides=["runner.train.epochs=7"]).runs
    assert run.num_epochs == 7
    job = load(pipeline, overrides=["train_config.num_steps=7", f"model_dir={tmp_path}/other"])
    assert job.runs[0].num_steps == 7
    assert job.folder == str(tmp_path / "other")


@pytest.mark.parametrize("override", ["train_config.num_stepz=7", "train_config.num_steps"])
def test_a_wrong_override_is_named_as_it_was_typed(pipeline, override):
    with pytest.raises(ConfigError, match=f"-o {override}: "):
        load(pipeline, overrides=[override])


def test_flags_of_pipelines_are_refused_for_yaml_jobs(yaml_job):
    with pytest.raises(ConfigError) as caught:
        load(yaml_job, changes=Changes(model_dir="here"), seed=3)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "--model_dir",
        "--seed",
    ]


def test_evaluation_takes_the_inference_runners(yaml_job, pipeline):
    assert [run.name for run in load(yaml_job, purpose="evaluate").runs] == ["infer"]
    (run,) = load(pipeline, purpose="evaluate").runs
    assert (run.kind, run.phases[0].dataset.data_path) == (
        "infer",
        str(pipeline.parent / "eval.csv"),
    )


def test_a_job_without_anything_to_evaluate_says_so(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=4))
    del job["runner"][1]
    with pytest.raises(ConfigError, match="nothing to evaluate: expected a runner of class infer"):
        load(write_job(job, tmp_path / "job.yaml"), purpose="evaluate")


def test_a_file_that_is_not_there_loads_no_models(tmp_path):
    def refuse(*_):
        raise AssertionError("no model is needed to find out that there is no file")

    components = Components(model_options=refuse, pipeline_classes=refuse)
    for name in ("none.yaml", "none.config", "rank/dmn"):
        with pytest.raises(ConfigError, match="no such file, folder or model"):
            load_job(JobRequest(source=name), components=components)
