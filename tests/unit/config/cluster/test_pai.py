"""Commands of PAI: what is converted, and what is refused."""

import json
import re
import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from fleetrec.cli.pai2job import convert
from fleetrec.config.cluster.pai import decode_pai
from fleetrec.core.errors import ConfigError

COMMAND = """pai -name easy_rec_ext -project algo_public
-Dconfig=deepfm.config
-Dcmd=train
-Dtrain_tables=data/a.csv,data/b.csv
-Deval_tables=data/c.csv
-Dcluster='{"ps":{"count":2, "cpu":1000}, "worker" : {"count":3, "cpu":250, "memory":40000}}'
-Dmodel_dir=oss://easyrec/model
-Dbuckets=oss://easyrec/
-DossHost=oss-cn-beijing-internal.aliyuncs.com
-Dedit_config_json='{"train_config.fine_tune_checkpoint": "oss://easyrec/model.ckpt-50"}'
-Deval_method=separate;
"""
REFUSED = {
    "train_tables=odps://p/tables/t": "cannot be read; export it .* with --train_input_path",
    "eval_tables=odps://p/tables/t": "cannot be read; export it .* with --eval_input_path",
    "arn=acs:ram::1:role/x": "refused: roles are for PAI; .*config.env",
    "selected_cols=a,b": "refused: .*data_config.input_fields",
    "cmd=predict": "refused: use fleetrec predict",
    "distribute_strategy=ess": "ess is not supported; expected ps",
    "with_evaluator=1": "use -Deval_method",
    'cluster={"ps":{"count":1},"worker":{"gpu":100}}': "workers of servers compute on the CPU",
}
WRONG = {
    "cmd=traim": "did you mean 'train'",
    "cluster={": "not JSON",
    'cluster={"worker":{"cnt":1}}': "worker.cnt",
    "eval_method=all": "unknown; known: master, none, separate",
    "edit_config_json=[]": "expected an object",
    "traintables=a": "did you mean 'train_tables'",
    "num_gpus_per_worker=x": "expected a whole number",
    "continue_train=maybe": "expected true or false",
    "buckets=oss://other/": "-Dmodel_dir=oss://easyrec/model: in none of -Dbuckets",
}


def with_option(option: str) -> str:
    name = option.partition("=")[0]
    given = COMMAND.replace(";", "").splitlines()
    lines = [line for line in given if not line.startswith(f"-D{name}=")]
    return "\n".join([*lines, f"-D{option!s}"]).replace(f"-D{option}", shlex.quote(f"-D{option}"))


def test_a_training_becomes_a_command_and_resources():
    job = decode_pai(COMMAND, replaced={})
    words = shlex.split(job.start_cmd)
    assert words[:3] == ["python", "-m", "fleetrec.train_eval"]
    assert words[-1] == "--continue_train"  # PAI's default
    given = list(zip(words[3:-1:2], words[4:-1:2], strict=True))
    assert ("--train_input_path", "data/a.csv") in given
    assert ("--train_input_path", "data/b.csv") in given
    assert ("--model_dir", "oss://easyrec/model") in given
    assert ("--pipeline_config_path", "deepfm.config") in given
    edits = json.loads(dict(given)["--edit_config_json"])
    assert edits == {"train_config.fine_tune_checkpoint": "oss://easyrec/model.ckpt-50"}
    assert job.submit == {
        "workers": 2,  # the third one only evaluates
        "servers": 2,
        "worker_cpus": 3,
        "worker_memory": "40000Mi",
        "server_cpus": 10,
    }
    assert job.env == {"FSSPEC_OSS_ENDPOINT": "https://oss-cn-beijing-internal.aliyuncs.com"}


def test_options_become_edits():
    text = with_option("distribute_strategy=mirrored") + " -Dnum_gpus_per_worker=2"
    words = shlex.split(decode_pai(text, replaced={}).start_cmd)
    edits = json.loads(words[words.index("--edit_config_json") + 1])
    assert edits["train_config.train_distribute"] == "MirroredStrategy"
    assert edits["train_config.num_gpus_per_worker"] == 2
    assert (
        "--continue_train"
        not in decode_pai(with_option("continue_train=false"), replaced={}).start_cmd
    )


def test_an_evaluation_reads_no_training_data():
    command = decode_pai(with_option("cmd=evaluate"), replaced={}).start_cmd
    assert command.startswith("python -m fleetrec.eval --pipeline_config_path deepfm.config")
    assert "--train_input_path" not in command


@pytest.mark.parametrize(("option", "message"), [*REFUSED.items(), *WRONG.items()])
def test_each_option_that_is_not_converted_has_a_line(option, message):
    with pytest.raises(ConfigError) as failure:
        decode_pai(with_option(option), replaced={})
    (problem,) = failure.value.problems
    assert re.search(message, problem)


def test_refused_options_can_be_replaced_or_left_out():
    text = with_option("train_tables=odps://p/tables/t") + "\n-Darn=acs:ram::1:role/x"
    job = decode_pai(text, replaced={"train_tables": "new.csv"}, skips_refused=True)
    assert "--train_input_path new.csv" in job.start_cmd
    (left_out,) = [notice for notice in job.notices if notice.startswith("left out:")]
    assert "-Darn=" in left_out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pai -name xgboost -Dconfig=a", "-name xgboost: expected easy_rec_ext"),
        ("pai -name easy_rec_ext", "-Dconfig: required"),
        ("pai -name easy_rec_ext config=a", "config=a: expected -Dname=value"),
        ("pai -name easy_rec_ext -Dconfig='a", "No closing quotation"),
    ],
)
def test_what_is_no_command_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        decode_pai(text, replaced={})


def test_the_file_can_be_submitted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("job.sql").write_text(COMMAND)
    convert("job.sql", Path("b.yaml"), backend="slurm", replaced={}, skips_refused=False)
    written = YAML(typ="safe").load(Path("b.yaml"))
    assert written["backend"] == "slurm"
    assert written["submit"]["job_name"] == "deepfm"
    assert "fleetrec submit -m deepfm.config -b b.yaml" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="is there already"):
        convert("job.sql", Path("b.yaml"), backend="slurm", replaced={}, skips_refused=False)
