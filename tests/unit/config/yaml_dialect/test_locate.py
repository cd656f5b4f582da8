"""What follows ``-m``, and ``workspace``, lead to files."""

import pytest

from fleetrec.config.yaml_dialect import locate
from fleetrec.config.yaml_dialect.locate import (
    PACKAGE,
    ZOO,
    locate_data,
    locate_job,
    locate_workspace,
    zoo_names,
)
from fleetrec.core.errors import ConfigError

DNN = ZOO / "rank" / "dnn"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own_zoo(tmp_path, monkeypatch):
    """A zoo with a name that holds a dash."""
    folder = tmp_path / "zoo" / "recall" / "look-alike_recall"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("mode: x\n")
    monkeypatch.setattr(locate, "ZOO", tmp_path / "zoo")
    return folder


def refusal(text):
    with pytest.raises(ConfigError) as caught:
        locate_job(text)
    (problem,) = caught.value.problems
    return problem


def test_a_yaml_file_is_taken_as_it_is(tmp_path):
    (tmp_path / "mine.yaml").write_text("mode: x\n")
    assert str(locate_job("mine.yaml").path) == "mine.yaml"
    assert locate_job(str(tmp_path / "mine.yaml")).path == tmp_path / "mine.yaml"


def test_a_folder_means_its_config_yaml(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").write_text("mode: x\n")
    assert str(locate_job("mine").path) == "mine/config.yaml"
    assert str(locate_job("mine/").path) == "mine/config.yaml"


def test_a_folder_without_config_yaml_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    assert refusal("mine") == "-m mine: the folder holds no config.yaml and no pipeline.config"


def test_the_zoo_holds_dnn():
    assert "rank/dnn" in zoo_names()


@pytest.mark.parametrize("text", ["fleetrec.models.rank.dnn", "rank/dnn", "rank/dnn/"])
def test_a_model_of_the_zoo_goes_by_name(text):
    located = locate_job(text)
    assert located.path == DNN / "config.yaml"
    assert located.notices == ()


def test_the_old_dotted_spelling_works_with_a_notice():
    located = locate_job("paddlerec.models.rank.dnn")
    assert located.path == DNN / "config.yaml"
    assert located.notices == ("paddlerec.models.rank.dnn is read as fleetrec.models.rank.dnn",)


def test_the_path_of_the_old_repository_works_with_a_notice():
    located = locate_job("models/rank/dnn")
    assert located.path == DNN / "config.yaml"
    assert located.notices == (
        "no folder models/rank/dnn here; the built-in model rank/dnn is used",
    )


def test_a_folder_of_the_user_goes_before_the_zoo(tmp_path):
    mine = tmp_path / "models" / "rank" / "dnn"
    mine.mkdir(parents=True)
    (mine / "config.yaml").write_text("mode: x\n")
    located = locate_job("models/rank/dnn")
    assert located.path.resolve() == mine / "config.yaml"
    assert located.notices == ()


@pytest.mark.parametrize(
    "text",
    [
        "fleetrec.models.recall.look-alike_recall",
        "models/recall/look-alike_recall",
        "recall/look-alike_recall",
    ],
)
def test_a_name_may_hold_a_dash(own_zoo, text):
    assert locate_job(text).path == own_zoo / "config.yaml"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("fleetrec.models.rank.dmn", "fleetrec.models.rank.dnn"),
        ("paddlerec.models.rank.dmn", "fleetrec.models.rank.dnn"),
        ("models/rank/dmn", "rank/dnn"),
        ("rank/dmn", "rank/dnn"),
        ("fleetrec.models.recall.dnn", "fleetrec.models.rank.dnn"),
        ("models/match/deepmf", "rank/deepfm"),
        ("deepfm", "rank/deepfm"),
    ],
)
def test_an_unknown_model_is_refused_with_a_hint(text, meant):
    assert refusal(text) == f"-m {text}: no such file, folder or model; did you mean {meant!r}?"


@pytest.mark.parametrize(
    "text",
    ["fleetrec.models.recall.xyzzy", "models/recall/xyzzy", "fleetrec.models.rerank"],
)
def test_a_model_that_is_like_none_is_refused_without_naming_one(text):
    assert refusal(text) == (
        f"-m {text}: no such file, folder or model; fleetrec models list prints the built-in models"
    )


def test_a_yaml_that_is_not_there_is_refused_without_a_hint():
    assert refusal("x/config.yaml") == "-m x/config.yaml: no such file, folder or model"


def test_an_empty_name_is_refused():
    assert refusal("") == "-m: expected a job file, a folder or a model such as rank/dnn"


def test_nothing_outside_the_zoo_is_found_by_name():
    assert "no such file" in refusal("fleetrec.models...rank.dnn")
    assert "no such file" in refusal("rank/../rank/dnn")


def test_without_workspace_it_is_the_folder_of_the_yaml(tmp_path):
    path = tmp_path / "deep" / "config.yaml"
    assert locate_workspace(None, job_file=path).path == tmp_path / "deep"


def test_a_workspace_is_relative_to_where_the_command_runs(tmp_path):
    (tmp_path / "here").mkdir()
    path = tmp_path / "elsewhere" / "config.yaml"
    assert locate_workspace("here", job_file=path).path == tmp_path / "here"
    assert locate_workspace("./", job_file=path).path == tmp_path


def test_a_workspace_may_be_absolute(tmp_path):
    assert locate_workspace(str(tmp_path), job_file=DNN / "config.yaml").path == tmp_path


@pytest.mark.parametrize(
    ("text", "num_notices"),
    [
        ("fleetrec.models.rank.dnn", 0),
        ("paddlerec.models.rank.dnn", 1),
        ("models/rank/dnn", 1),
    ],
)
def test_a_workspace_may_be_a_model_of_the_zoo(tmp_path, text, num_notices):
    located = locate_workspace(text, job_file=tmp_path / "config.yaml")
    assert located.path == DNN
    assert len(located.notices) == num_notices


def test_a_workspace_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=f"no such folder: {tmp_path}/none"):
        locate_workspace("none", job_file=tmp_path / "config.yaml")


def test_data_may_lie_in_the_package():
    assert locate_data("paddlerec::models/rank") == str(PACKAGE / "models" / "rank")
    assert locate_data("fleetrec::models/rank") == str(PACKAGE / "models" / "rank")
    assert locate_data("some/dir") == "some/dir"
