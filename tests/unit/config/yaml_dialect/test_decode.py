"""A job file becomes a Job, or one error with all its problems."""

import copy

import pytest
from pydantic import Field
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from fleetrec.config.document import read_document
from fleetrec.config.options import Options
from fleetrec.config.yaml_dialect.decode import decode
from fleetrec.core.errors import ConfigError, ModelError


class SmallOptions(Options):
    """Hyper-parameters of a fake model."""

    fc_sizes: tuple[int, ...] = (8,)
    act: str = "relu"


class OtherOptions(Options):
    """Hyper-parameters of another fake model."""

    num_crosses: int = Field(default=2, gt=0)
    act: str = "tanh"


def fake_model_options(path):
    """Stand in for the import of a model file."""
    if path.name == "broken.py":
        raise ModelError(f"{path}: cannot be imported")
    return OtherOptions if path.name == "other.py" else SmallOptions


BASE = {
    "mode": "train",
    "runner": [
        {"name": "train", "class": "train", "epochs": 2, "phases": "learn"},
        {"name": "infer", "class": "infer", "init_model_path": "ckpt", "phases": ["judge"]},
    ],
    "phase": [
        {"name": "learn", "model": "{workspace}/model.py", "dataset_name": "data"},
        {"name": "judge", "model": "{workspace}/model.py", "dataset_name": "data"},
    ],
    "dataset": [
        {
            "name": "data",
            "type": "DataLoader",
            "batch_size": 4,
            "data_path": "{workspace}/data",
            "sparse_slots": "click 1",
            "dense_slots": "d:[2,3]",
        }
    ],
    "hyper_parameters": {"optimizer": {"class": "SGD", "learning_rate": 0.1}, "fc_sizes": [4]},
}


@pytest.fixture
def job_file(tmp_path):
    """A function that writes a job file: BASE, changed in place by ``change``."""
    for name in ("model.py", "other.py", "broken.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "data").mkdir()

    def write(change=lambda job: None):
        job = CommentedMap(copy.deepcopy(BASE))
        change(job)
        with (tmp_path / "job.yaml").open("w") as stream:
            YAML().dump(job, stream)
        return tmp_path / "job.yaml"

    return write


def decode_file(path, *assignments):
    document = read_document(path)
    return decode(document, assignments=assignments, model_options=fake_model_options)


def problems(path, *assignments):
    with pytest.raises(ConfigError) as caught:
        decode_file(path, *assignments)
    return [problem.replace(f"{path.parent}/", "") for problem in caught.value.problems]


def test_a_job_is_complete(job_file, tmp_path):
    job = decode_file(job_file())
    (run,) = job.runs
    (phase,) = run.phases
    assert (job.workspace, run.name, run.kind, run.engine) == (tmp_path, "train", "train", "single")
    assert run.num_epochs == 2
    assert phase.name == "learn"
    assert phase.model == SmallOptions(fc_sizes=(4,))
    assert phase.model_path == tmp_path / "model.py"
    assert phase.optimizer is not None
    assert (phase.optimizer.name, phase.optimizer.lr) == ("sgd", 0.1)
    assert phase.dataset.data_path == str(tmp_path / "data")
    assert phase.dataset.sparse == ("click", "1")
    assert [(slot.name, slot.shape) for slot in phase.dataset.dense] == [("d", (2, 3))]


@pytest.mark.parametrize(
    ("spelling", "kind", "engine"),
    [
        ("train", "train", "single"),
        ("single_train", "train", "single"),
        ("infer", "infer", "single"),
        ("single_infer", "infer", "single"),
        ("local_cluster", "train", "local_cluster"),
        ("LOCAL_CLUSTER_TRAIN", "train", "local_cluster"),
        ("cluster", "train", "cluster"),
        ("cluster_train", "train", "cluster"),
    ],
)
def test_every_class_of_a_runner_means_a_kind_and_an_engine(job_file, spelling, kind, engine):
    keys = (f"runner.train.class={spelling}", "runner.train.init_model_path=x")
    (run,) = decode_file(job_file(), *keys).runs
    assert (run.kind, run.engine) == (kind, engine)


def test_several_gpus_mean_several_processes(job_file):
    keys = ("runner.train.device=gpu", "runner.train.selected_gpus='0,1'")
    (run,) = decode_file(job_file(), *keys).runs
    assert (run.engine, run.device.gpus) == ("local_cluster", (0, 1))


def test_runs_come_in_the_order_of_mode(job_file):
    job = decode_file(job_file(), "mode=[infer, train]")
    assert [run.name for run in job.runs] == ["infer", "train"]


def test_phases_come_in_the_order_of_their_section(job_file):
    (run,) = decode_file(job_file(), "runner.train.phases=[judge, learn]").runs
    assert [phase.name for phase in run.phases] == ["learn", "judge"]


def test_without_phases_a_runner_takes_all(job_file):
    (run,) = decode_file(job_file(), "runner.train.phases=[]").runs
    assert [phase.name for phase in run.phases] == ["learn", "judge"]


def test_a_phase_is_selected_by_its_whole_name(job_file):
    keys = ("phase.0.name=p1", "phase.1.name=p10", "runner.train.phases=p10")
    (run,) = decode_file(job_file(), *keys).runs
    assert [phase.name for phase in run.phases] == ["p10"]


def test_the_workspace_is_put_into_lists_and_nested_values(job_file, tmp_path):
    def change(job):
        job["hyper_parameters"]["act"] = "{workspace}/x"
        job["runner"][0]["save_inference_feed_varnames"] = ["{workspace}/y"]
        job["runner"][0]["save_inference_path"] = "{workspace}/z"

    (run,) = decode_file(job_file(change)).runs
    assert run.phases[0].model.act == f"{tmp_path}/x"
    assert run.inference.feeds == (f"{tmp_path}/y",)
    assert f"{tmp_path}/z/{{pass}}" in [rule.path for rule in run.rules]


def test_the_workspace_is_put_into_values_of_the_command_line(job_file, tmp_path):
    (run,) = decode_file(job_file(), "runner.train.save_checkpoint_path={workspace}/c").runs
    assert f"{tmp_path}/c/{{pass}}" in [rule.path for rule in run.rules]


def test_a_workspace_may_be_written_with_backslashes(job_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    job = decode_file(job_file(lambda job: job.update(workspace=f".\\{tmp_path.name}\\")))
    assert job.workspace.resolve() == tmp_path


def test_a_workspace_that_is_not_there_is_named_with_its_line(job_file):
    (problem,) = problems(job_file(lambda job: job.insert(0, "workspace", "/none/such")))
    assert problem.startswith("job.yaml:1: workspace: no such folder: /none/such")


def test_a_workspace_that_is_no_text_is_refused(job_file):
    assert problems(job_file(), "workspace=[a]") == ["-o: workspace: expected text"]


@pytest.mark.parametrize("section", ["mode", "runner", "phase", "dataset"])
def test_a_missing_section_is_named(job_file, section):
    found = problems(job_file(lambda job: job.pop(section)))
    assert f"job.yaml:1: {section}: required, but missing" in found


@pytest.mark.parametrize("section", ["mode", "runner", "phase", "dataset", "hyper_parameters"])
@pytest.mark.parametrize("value", ["5", "yes", "~", "{a: 1}", "[5]", "[[]]", "[~]", "''", "2.5"])
def test_a_section_of_nonsense_is_a_problem_and_no_crash(job_file, section, value):
    if (section, value) == ("hyper_parameters", "~"):  # nothing: all defaults
        decode_file(job_file(), "hyper_parameters=~")
        return
    assert problems(job_file(), f"{section}={value}")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("runnr=[]", "-o: runnr: unknown key; did you mean 'runner'?"),
        ("runner.train.epoch=1", "-o: runner.train.epoch: unknown key; did you mean 'epochs'?"),
        ("phase.learn.modelx=x", "-o: phase.learn.modelx: unknown key; did you mean 'model'?"),
        (
            "dataset.data.paddingg=1",
            "-o: dataset.data.paddingg: unknown key; did you mean 'padding'?",
        ),
        (
            "hyper_parameters.optimizer.learning_rat=1",
            "-o: hyper_parameters.optimizer.learning_rat: unknown key; "
            "did you mean 'learning_rate'?",
        ),
        (
            "hyper_parameters.fc_size=[1]",
            "-o: hyper_parameters.fc_size: unknown key; did you mean 'fc_sizes'?",
        ),
        (
            "train.strategy.mode.push=5",
            "-o: train.strategy.mode.push: unknown key; did you mean 'push_num'?",
        ),
        (
            "runner.train.class=trainn",
            "-o: runner.train.class: expected 'online', 'online_train', 'train', "
            "'single_train', 'infer', 'single_infer', 'local_cluster', 'local_cluster_train', "
            "'local_cluster_infer', 'cluster', "
            "'cluster_train' or 'cluster_infer', got 'trainn'; did you mean 'train'?",
        ),
        (
            "dataset.data.type=dataloader",
            "-o: dataset.data.type: expected 'DataLoader', 'QueueDataset' or 'InMemoryDataset', "
            "got 'dataloader'; did you mean 'DataLoader'?",
        ),
        (
            "hyper_parameters.optimizer.class=adamm",
            "-o: hyper_parameters.optimizer.class: expected 'sgd', 'adam', 'adagrad', 'momentum', "
            "'momentumw', 'lazy_adam', 'lazy_adamw', 'rmsprop_momentum' or 'ftrl_power', "
            "got 'adamm'; did you mean 'adam'?",
        ),
        ("mode=[train, trainn]", "-o: mode: nothing is called 'trainn'; did you mean 'train'?"),
        (
            "phase.learn.dataset_name=dta",
            "-o: phase.learn.dataset_name: nothing is called 'dta'; did you mean 'data'?",
        ),
        (
            "runner.train.phases=learm",
            "-o: runner.train.phases: nothing is called 'learm'; did you mean 'learn'?",
        ),
        ("runner.train.epochs=~", "-o: runner.train.epochs: required for training, but missing"),
        ("dataset.data.batch_size=~", "-o: dataset.data.batch_size: required, but missing"),
        (
            "hyper_parameters.fc_sizes=[4, x]",
            "-o: hyper_parameters.fc_sizes[1]: expected a valid integer, unable to parse string "
            "as an integer, got 'x'",
        ),
        (
            "dataset.data.dense_slots=d",
            "-o: dataset.data.dense_slots: expected name:width or name:[a,b,c], not 'd', got 'd'",
        ),
        (
            "dataset.data.sparse_slots=click 1 1",
            "-o: dataset.data.sparse_slots: slots declared twice: 1",
        ),
    ],
)
def test_a_problem_says_where_what_and_what_was_meant(job_file, change, problem):
    assert problem in problems(job_file(), change)


def test_many_problems_come_at_once_in_the_order_of_their_lines(job_file):
    def change(job):
        job["runner"][0]["epochs"] = 0
        job["runner"][0]["device"] = "tpu"
        job["phase"][1]["dataset_name"] = "none"
        job["dataset"][0]["batch_size"] = "many"
        job["hyper_parameters"]["optimizer"]["learning_rate"] = "fast"

    found = problems(job_file(change))
    assert [problem.split(": ")[1] for problem in found] == [
        "runner.train.epochs",
        "runner.train.device",
        "phase.judge.dataset_name",
        "dataset.data.batch_size",
        "hyper_parameters.optimizer.learning_rate",
    ]
    places = [problem.split(": ")[0].split(":") for problem in found]
    assert all(name == "job.yaml" for name, _ in places)
    numbers = [int(line) for _, line in places]
    assert numbers == sorted(numbers)
    assert numbers[0] == 5


def test_a_missing_file_is_named(job_file):
    found = problems(job_file(), "phase.learn.model=/none.py", "dataset.data.data_path=/none")
    assert sorted(found) == [
        "-o: dataset.data.data_path: no such file or folder: /none",
        "-o: phase.learn.model: no such file: /none.py",
    ]


def test_a_model_that_cannot_be_imported_does_not_make_its_keys_unknown(job_file):
    found = problems(job_file(), "phase.learn.model={workspace}/broken.py")
    assert found == ["-o: phase.learn.model: broken.py: cannot be imported"]


def test_a_phase_that_no_runner_uses_may_be_broken(job_file):
    decode_file(
        job_file(), "mode=train", "phase.judge.model=/none.py", "phase.judge.dataset_name=nothing"
    )


def test_a_phase_with_a_problem_does_not_make_its_keys_unknown(job_file):
    found = problems(
        job_file(lambda job: job.update(phase=job["phase"][:1])), "phase.learn.thread_num=0"
    )
    assert [problem.split(": ")[1] for problem in found] == ["phase.learn.thread_num"]


def test_a_phase_without_a_name_is_one_problem(job_file):
    def change(job):
        for phase in job["phase"]:
            del phase["name"]
        job["runner"][0]["phases"] = []

    assert [problem.split(": ")[1:] for problem in problems(job_file(change))] == [
        ["phase[0].name", "required, but missing"],
        ["phase[1].name", "required, but missing"],
    ]


def test_two_entries_of_one_name_are_a_problem(job_file):
    (problem,) = problems(job_file(lambda job: job["dataset"].append(job["dataset"][0])))
    assert problem.endswith("dataset.data.name: two entries of dataset are called 'data'")


def test_each_model_takes_its_own_hyper_parameters(job_file):
    keys = (
        "phase.judge.model={workspace}/other.py",
        "hyper_parameters.num_crosses=3",
        "hyper_parameters.act=gelu",
        "mode=[train, infer]",
    )
    train, infer = decode_file(job_file(), *keys).runs
    assert train.phases[0].model == SmallOptions(fc_sizes=(4,), act="gelu")
    assert infer.phases[0].model == OtherOptions(num_crosses=3, act="gelu")


def test_a_key_of_no_model_is_unknown_though_there_are_two(job_file):
    keys = ("phase.judge.model={workspace}/other.py", "hyper_parameters.num_cross=3")
    assert problems(job_file(), *keys) == [
        "-o: hyper_parameters.num_cross: unknown key; did you mean 'num_crosses'?"
    ]


def test_a_job_may_leave_the_optimizer_to_the_model(job_file):
    job = decode_file(job_file(lambda job: job.pop("hyper_parameters")))
    assert job.runs[0].phases[0].optimizer is None


def test_an_optimizer_strategy_is_a_notice(job_file):
    job = decode_file(job_file(), "hyper_parameters.optimizer.strategy=async")
    assert job.notices == (
        "-o: hyper_parameters.optimizer.strategy: has no effect; "
        "runner.distribute_strategy decides",
    )


def test_what_is_read_differently_is_a_notice_given_once(job_file):
    keys = ("mode=[infer, infer]", "runner.infer.epochs=3")
    assert decode_file(job_file(), *keys).notices == (
        "-o: runner.infer.epochs: inference makes one pass",
    )


def test_inference_needs_a_model_and_no_epochs(job_file):
    assert problems(job_file(), "mode=infer", "runner.infer.init_model_path=''") == [
        "-o: runner.infer.init_model_path: required for inference, but missing"
    ]
    (run,) = decode_file(job_file(), "mode=infer", "runner.infer.epochs=3").runs
    assert run.num_epochs == 1


def test_a_runner_that_mode_does_not_name_may_be_incomplete(job_file):
    decode_file(job_file(), "runner.infer.init_model_path=''")


def test_a_file_that_is_no_mapping_is_refused(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("- a\n")
    assert problems(path) == ["job.yaml: expected a mapping with mode, runner, phase, ..."]


def test_credentials_in_a_url_are_refused_and_not_shown(job_file):
    (problem,) = problems(job_file(), "runner.train.save_checkpoint_path=sftp://me:secret@host/x")
    assert "expected a URL without credentials" in problem
    assert problem.endswith("got 'sftp://***@host/x'")


def test_a_runner_that_mode_does_not_name_need_not_be_complete(job_file):
    path = job_file(lambda job: job["runner"][1].pop("class"))
    (notice,) = decode_file(path).notices
    assert "runner.infer.class: missing; mode does not name this runner" in notice
    (problem,) = problems(path, "mode=[train,infer]")
    assert problem.endswith("runner.infer.class: required, but missing")


def test_keys_that_old_configs_carry_have_a_notice_and_other_unknown_ones_an_error(job_file):
    (notice,) = decode_file(job_file(), "hyper_parameters.use_DataLoader=True").notices
    assert notice.endswith("hyper_parameters.use_DataLoader: has no effect on this model")
    (problem,) = problems(job_file(), "hyper_parameters.use_DataLoadr=True")
    assert "use_DataLoadr: unknown key" in problem


def test_old_names_of_runner_keys_are_read(job_file):
    def change(job):
        del job["runner"][0]["phases"]
        job["runner"][0] |= {"phase": "learn", "fetch_period": 7}

    (run,) = decode_file(job_file(change)).runs
    assert run.print_interval == 7
    assert [phase.name for phase in run.phases] == ["learn"]


def test_a_decay_of_the_learning_rate_becomes_its_schedule(job_file):
    steps = "hyper_parameters.optimizer.decay_steps=10"
    (run,) = decode_file(job_file(), steps, "hyper_parameters.optimizer.decay_rate=0.5").runs
    schedule = run.phases[0].optimizer.schedule
    assert (schedule.decay_steps, schedule.factor, schedule.staircase) == (10, 0.5, True)
    (problem,) = problems(job_file(), steps)
    assert "decay_steps and decay_rate belong together" in problem
