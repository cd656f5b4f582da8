"""Whole jobs, from the yaml to what they leave behind."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fleetrec._native import has_tiles
from fleetrec.config.yaml_dialect.locate import ZOO
from fleetrec.core.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    ModelError,
    UnavailableError,
)
from making import make_data, make_job, make_slot_text, run, tensors_of, write_job

SEED_YAML = """\
mode: single_cpu_train # 执行名为 single_cpu_train 的运行器
# mode 也支持多个runner的执行，此处可以改为 mode: [single_cpu_train, single_cpu_infer]

runner:
- name: single_cpu_train # 定义 runner 名为 single_cpu_train
  class: train # 执行单机训练，亦可为 single_train
  device: cpu # 执行在 cpu 上
  epochs: 10 # 训练轮数

  save_checkpoint_interval: 2 # 每隔2轮保存一次checkpoint
  save_inference_interval: 4 # 每个4轮保存依次inference model
  save_checkpoint_path: "increment" # checkpoint 的保存地址
  save_inference_path: "inference" # inference model 的保存地址
  save_inference_feed_varnames: [] # inference model 的feed参数的名字
  save_inference_fetch_varnames: [] # inference model 的fetch参数的名字
  init_model_path: "" # 如果是加载模型热启，则可以指定初始化模型的地址
  print_interval: 10 # 训练信息的打印间隔，以batch为单位
  phases: [phase_train] # 若没有指定phases，则会默认运行所有phase
  # phase 也支持自定多个phase的执行，此处可以改为 phases: [phase_train, phase_infer]

phase:
- name: phase_train # 该阶段名为 phase1
  model: "{workspace}/model.py" # 模型文件为workspace下的model.py
  dataset_name: dataset_train # reader的名字

dataset:
- name: dataset_train
  type: DataLoader # 使用DataLoader的数据读取方式
  batch_size: 2
  data_path: "{workspace}/train_data" # 数据地址
  sparse_slots: "click 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26"
  dense_slots: "dense_var:13"  # dense参数的维度定义
"""


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def job(tmp_path) -> dict:
    return make_job(make_data(tmp_path / "data", num_samples=200))


def passes(name: str) -> list[dict]:
    lines = Path("logs", name, "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["event"] == "pass"]


def test_the_built_in_model_learns_and_leaves_everything_behind():
    run("fleetrec.models.rank.dnn")
    aucs = [record["metrics"]["AUC"] for record in passes("dnn.single_cpu_infer")]
    assert len(aucs) == 4
    assert aucs[-1] > 0.70
    assert sorted(p.name for p in Path("increment_dnn").iterdir()) == ["0", "1", "2", "3"]
    assert (Path("inference_dnn") / "3" / "model.onnx").is_file()
    assert "single_cpu_train" in Path("logs/dnn.single_cpu_train/report.html").read_text()
    assert "Finish" in Path("logs/dnn.single_cpu_train/run.log").read_text()


@pytest.mark.parametrize("mode", ["single_cpu_train", "[single_cpu_train]"])
def test_the_guide_s_config_runs_as_it_is(mode):
    shutil.copy(ZOO / "rank/dnn/model.py", "model.py")
    make_slots = " ".join(f"{slot}:{slot}" for slot in range(1, 27))
    Path("train_data").mkdir()
    dense = " ".join(["dense_var:0.5"] * 13)
    Path("train_data/part-0").write_text(f"click:1 {dense} {make_slots}\n" * 5)
    text = SEED_YAML.replace("mode: single_cpu_train", f"mode: {mode}")
    Path("config.yaml").write_text(text, encoding="utf-8")
    run("config.yaml")
    assert sorted(p.name for p in Path("increment").iterdir()) == ["1", "3", "5", "7", "9"]
    assert sorted(p.name for p in Path("inference").iterdir()) == ["3", "7", "9"]


def test_every_spelling_of_a_model_is_the_same_run(tmp_path):
    options = ("mode=single_cpu_train", "runner.single_cpu_train.epochs=1")
    options += ("runner.single_cpu_train.save_inference_path=",)
    found = []
    for spelling in ("fleetrec.models.rank.dnn", str(ZOO / "rank/dnn"), "rank/dnn"):
        run(spelling, *options)
        found.append(tensors_of(Path("increment_dnn/0")))
    run(ZOO / "rank/dnn/config.yaml", *options)
    assert all(tensors == found[0] for tensors in (*found, tensors_of(Path("increment_dnn/0"))))


def test_the_old_spelling_is_read_with_one_notice(capsys):
    run("paddlerec.models.rank.dnn", "mode=single_cpu_train", "runner.single_cpu_train.epochs=1")
    printed = capsys.readouterr().out
    assert printed.count("is read as fleetrec.models.rank.dnn") == 1


def test_an_edited_model_of_a_copied_workspace_is_the_one_that_runs(tmp_path):
    shutil.copytree(ZOO / "rank/dnn", "mine")
    model = Path("mine/model.py")
    text = model.read_text().replace('"predict": torch', '"mine": torch')
    model.write_text(
        text.replace("BinaryTask(label=label)", 'BinaryTask(label=label, prediction="mine")')
    )
    config = Path("mine/config.yaml")
    config.write_text(config.read_text().replace('fleetrec.models.rank.dnn"', f'{tmp_path}/mine"'))
    run(config, "mode=single_cpu_train", "runner.single_cpu_train.epochs=1")
    manifest = json.loads(Path("inference_dnn/0/MANIFEST.json").read_text())
    assert manifest["graphs"][0]["fetches"] == ["logit", "mine"]


def test_a_yaml_elsewhere_uses_the_model_of_the_package(tmp_path):
    shutil.copy(ZOO / "rank/dnn/config.yaml", "other.yaml")
    run("other.yaml", "mode=single_cpu_train", "runner.single_cpu_train.epochs=1")
    assert Path("logs/dnn.single_cpu_train").is_dir()


def test_two_files_called_model_py_do_not_collide(job):
    for name, output in (("a", "first"), ("b", "second")):
        text = (ZOO / "rank/dnn/model.py").read_text()
        Path(name).mkdir()
        Path(name, "model.py").write_text(
            text.replace('{"logit"', f'{{"{output}": logit_B, "logit"')
        )
    for phase, folder in zip(job["phase"], "ab", strict=True):
        phase["model"] = f"{folder}/model.py"
    job["runner"][0] |= {"phases": ["learn", "judge"], "save_inference_path": "inf", "epochs": 1}
    run(write_job(job, Path("config.yaml")))
    manifests = {
        phase: json.loads(Path("inf/0", phase, "MANIFEST.json").read_text())
        for phase in ("learn", "judge")
    }
    fetches = {phase: found["graphs"][0]["fetches"][0] for phase, found in manifests.items()}
    assert fetches == {"learn": "first", "judge": "second"}


def test_the_last_partial_batch_counts(job):
    run(write_job(job, Path("config.yaml")), "mode=[train,infer]", "dataset.data.batch_size=64")
    done = passes(f"{Path.cwd().name}.infer")
    assert [record["metrics"]["SAMPLES"] for record in done] == [200.0, 200.0]


def test_metrics_start_anew_in_every_epoch_and_every_evaluation(job):
    run(write_job(job, Path("config.yaml")), "mode=[train,infer]")
    folder = Path.cwd().name
    counted = [
        r["metrics"]["SAMPLES"] for r in (*passes(f"{folder}.train"), *passes(f"{folder}.infer"))
    ]
    assert counted == [200.0] * 4


def test_inference_takes_epochs_in_numeric_order(job):
    run(write_job(job, Path("config.yaml")), "mode=[train,infer]", "runner.train.epochs=11")
    assert [r["epoch"] for r in passes(f"{Path.cwd().name}.infer")] == [str(e) for e in range(11)]


def test_inference_over_one_checkpoint(job):
    run(
        write_job(job, Path("config.yaml")),
        "mode=[train,infer]",
        "runner.infer.init_model_path=ckpt/1",
        "runner.infer.runner_result_dump_path=out/result.json",
    )
    assert len(passes(f"{Path.cwd().name}.infer")) == 1
    batches = json.loads(Path("out/result.json").read_text())
    assert [len(batch["predict"]) for batch in batches] == [32] * 6 + [8]
    assert set(batches[0]) == {"click", "logit", "predict"}


def test_training_dumps_every_epoch(job):
    run(write_job(job, Path("config.yaml")), "runner.train.runner_result_dump_path=result")
    assert Path("result_epoch_0").is_file()
    assert Path("result_epoch_1").is_file()


def test_step_checkpoints_are_named_by_epoch_and_batch(job):
    run(
        write_job(job, Path("config.yaml")),
        "runner.train.save_step_interval=3",
        "runner.train.save_step_path=steps",
        "runner.train.epochs=1",
    )
    found = sorted(path.name for path in Path("steps").iterdir())
    assert found == ["epoch_0_batch_0", "epoch_0_batch_3", "epoch_0_batch_6"]


def test_a_warm_start_begins_with_the_weights_of_the_checkpoint(job):
    config = write_job(job, Path("config.yaml"))
    run(config)
    # A step so small that it moves nothing shows what was loaded.
    options = ("runner.train.init_model_path=ckpt/1", "runner.train.save_checkpoint_path=again")
    run(config, *options, "hyper_parameters.optimizer.learning_rate=1e-30", "runner.train.epochs=1")
    before, after = tensors_of(Path("ckpt/1")), tensors_of(Path("again/0"))
    model = [name for name in before if "model.safetensors" in name]
    assert model
    assert all(before[name] == after[name] for name in model)


def test_variables_can_be_chosen_and_frozen(job):
    config = write_job(job, Path("config.yaml"))
    run(config)
    run(
        config,
        "runner.train.init_model_path=ckpt/1",
        "runner.train.load_vars=[SparseFeatFactors]",
        "runner.train.finetuning_aspect_varnames=[SparseFeatFactors]",
        "runner.train.save_checkpoint_path=again",
    )
    table = "learn/tables/SparseFeatFactors:rows"
    assert tensors_of(Path("again/1"))[table] == tensors_of(Path("ckpt/1"))[table]
    model = "learn/model.safetensors:out.weight"
    assert tensors_of(Path("again/1"))[model] != tensors_of(Path("ckpt/1"))[model]


def test_unknown_variables_are_listed(job):
    config = write_job(job, Path("config.yaml"))
    run(config)
    with pytest.raises(ConfigError, match=r"no nothing; known: mlp\.0\.0\.weight"):
        run(config, "runner.train.init_model_path=ckpt/1", "runner.train.load_vars=[nothing]")
    with pytest.raises(ConfigError, match=r"no nothing; known: .*SparseFeatFactors"):
        run(config, "runner.train.finetuning_aspect_varnames=[nothing]")


def test_a_seed_fixes_a_run(job):
    config = write_job(job, Path("config.yaml"))
    found = []
    for seed in (1, 1, 2):
        run(config, f"runner.train.seed={seed}", "runner.train.epochs=1")
        found.append(tensors_of(Path("ckpt/0")))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_undeclared_and_missing_slots_are_reported_with_counts(job, capsys):
    job["dataset"][0]["dense_slots"] = "dense_var:2"
    job["dataset"][0]["sparse_slots"] = "click 1 2 33"
    run(write_job(job, Path("config.yaml")))
    printed = capsys.readouterr().out
    assert printed.count("none of 200 samples has (they are all padding): 33, dense_var") == 1
    assert "dense_feature (400 values), 3 (200 values)" in printed


def test_a_broken_token_names_file_and_line(job):
    Path("data/part-1").write_text(make_slot_text(50) + "click:1 1:x\n")
    with pytest.raises(DataError, match=r"data/part-1:51: column 9: '1:x': slot '1' is sparse"):
        run(write_job(job, Path("config.yaml")))


def test_an_id_outside_the_table_names_slot_and_id(job):
    with pytest.raises(DataError, match=r"slot '1': id \d+ is outside \[0, 20\)"):
        run(write_job(job, Path("config.yaml")), "hyper_parameters.sparse_feature_number=20")


def test_hashed_ids_share_the_rows_of_a_small_table(job):
    run(
        write_job(job, Path("config.yaml")),
        "hyper_parameters.sparse_feature_number=20",
        "hyper_parameters.hash_ids=1",
        "runner.train.epochs=1",
    )
    table = tensors_of(Path("ckpt/0"))["learn/tables/SparseFeatFactors:ids"]
    ids = np.frombuffer(table.removesuffix(b"uint64"), np.uint64)
    assert ids.tolist() == list(range(20))


def test_a_table_that_grows_has_no_ids_to_hash(job):
    options = ("hyper_parameters.hash_ids=1", "hyper_parameters.distributed_embedding=1")
    with pytest.raises(ConfigError, match="hash_ids and distributed_embedding exclude each other"):
        run(write_job(job, Path("config.yaml")), *options)


def test_any_64_bit_id_grows_the_table(job):
    ids = ("18446744073709551615", "9223372036854775808", "0")
    lines = [
        f"click:{n % 2} dense_feature:1 dense_feature:0 1:{i} 2:{i} 3:{i}\n"
        for n, i in enumerate(ids)
    ]
    Path("data/part-0").write_text("".join(lines))
    Path("data/part-1").unlink()
    run(
        write_job(job, Path("config.yaml")),
        "hyper_parameters.distributed_embedding=1",
        "runner.train.epochs=1",
    )
    table = tensors_of(Path("ckpt/0"))["learn/tables/SparseFeatFactors:ids"]
    assert len(table.removesuffix(b"uint64")) == 3 * 8


def test_a_gpu_that_is_not_there_is_an_error_that_helps(job):
    with pytest.raises(UnavailableError, match="finds no GPU here; use device: cpu"):
        run(write_job(job, Path("config.yaml")), "runner.train.device=gpu")


def test_gpus_that_are_not_there_are_refused_before_the_first_runner_trains(job):
    job["mode"] = ["train", "infer"]
    job["runner"][1] |= {"class": "train", "epochs": 1, "device": "gpu", "selected_gpus": "0,3"}
    with pytest.raises(UnavailableError, match="runner infer: device: gpu asks for GPU 0, 3, but"):
        run(write_job(job, Path("config.yaml")), "runner.train.device=cpu")
    assert not Path("ckpt").exists()
    assert not Path("logs").exists()


def test_a_fleet_mode_that_is_not_there_is_refused_before_anything_runs(job):
    with pytest.raises(UnavailableError, match="fleet_mode pslib is not available"):
        run(
            write_job(job, Path("config.yaml")),
            "runner.train.class=local_cluster",
            "runner.train.fleet_mode=pslib",
        )
    assert not Path("logs").exists()


def test_the_first_failure_stops(job):
    with pytest.raises(CheckpointError, match="nowhere: no such checkpoint"):
        run(
            write_job(job, Path("config.yaml")),
            "mode=[infer,train]",
            "runner.infer.init_model_path=nowhere",
        )
    assert not Path("ckpt").exists()


def test_wrong_feed_and_fetch_names_fail_before_the_first_step(job):
    with pytest.raises(ConfigError) as caught:
        run(
            write_job(job, Path("config.yaml")),
            "runner.train.save_inference_path=inf",
            "runner.train.save_inference_feed_varnames=[1, 2, dense]",
            "runner.train.save_inference_fetch_varnames=[prediction]",
        )
    assert caught.value.problems == (
        "save_inference_fetch_varnames: the model has no output 'prediction'; known: logit, "
        "predict",
        "save_inference_feed_varnames: 'dense' is not an input of the model; known: "
        "dense_feature, 1, 2, 3",
        "save_inference_feed_varnames: the model also needs dense_feature, 3 (leave the list empty "
        "to feed all)",
    )
    assert not Path("ckpt").exists()


def test_labels_are_zero_or_one(job):
    Path("data/part-1").write_text(make_slot_text(50) + "click:7 1:1\n")
    with pytest.raises(DataError, match="label 'click' must be 0 or 1, got 7"):
        run(write_job(job, Path("config.yaml")))


def test_missing_labels_are_reported(job, capsys):
    Path("data/part-1").write_text(make_slot_text(50) + "1:1\n")
    run(write_job(job, Path("config.yaml")))
    assert "label click is missing in 1 of 151 samples" in capsys.readouterr().out


def test_a_loss_that_is_no_number_ends_the_run_and_stands_in_its_log(job):
    job["hyper_parameters"]["optimizer"] = {"class": "SGD", "learning_rate": 1e30}
    with pytest.raises(ModelError, match=r"the loss is (nan|inf)"):
        run(write_job(job, Path("config.yaml")))
    log = next(Path("logs").glob("*.train/run.log")).read_text()
    assert "ERROR: the loss is" in log


def test_another_optimizer_can_infer_and_warm_start(job):
    config = write_job(job, Path("config.yaml"))
    run(config)
    other = "hyper_parameters.optimizer.class=SGD"
    run(config, other, "mode=[infer]")
    run(config, other, "runner.train.init_model_path=ckpt/1", "runner.train.epochs=1")
    assert passes(f"{Path.cwd().name}.train")[0]["metrics"]["AUC"] > 0.5


def test_a_folder_of_checkpoints_is_no_warm_start(job):
    config = write_job(job, Path("config.yaml"))
    run(config)
    with pytest.raises(CheckpointError, match=r"ckpt: holds several .*did you mean ckpt/1\?"):
        run(config, "runner.train.init_model_path=ckpt")


def test_a_run_that_cannot_start_leaves_the_logs_of_the_last_one(job):
    config = write_job(job, Path("config.yaml"))
    run(config)
    log = next(Path("logs").glob("*.train/run.log"))
    before = log.read_text()
    with pytest.raises(UnavailableError):
        run(config, "runner.train.device=gpu")
    assert log.read_text() == before


def test_tied_weights_are_saved_and_loaded(job):
    text = (ZOO / "rank/dnn/model.py").read_text()
    tied = "self.out = scaled_linear(self.mlp.out_dim, 1)\n        self.again = self.out\n"
    Path("model.py").write_text(
        text.replace("self.out = scaled_linear(self.mlp.out_dim, 1)\n", tied)
    )
    for phase in job["phase"]:
        phase["model"] = "model.py"
    run(write_job(job, Path("config.yaml")), "mode=[train,infer]")
    tensors = tensors_of(Path("ckpt/1"))
    assert (
        tensors["learn/model.safetensors:out.weight"]
        == tensors["learn/model.safetensors:again.weight"]
    )


def test_a_model_may_choose_its_own_optimizer(job):
    text = (ZOO / "rank/dnn/model.py").read_text()
    own = '''
    def optimizer(self, configured):
        """Descend plainly."""
        return OptimizerOptions(name="sgd", lr=0.5)

    def forward('''
    text = text.replace("\n    def forward(", own, 1)
    Path("model.py").write_text("from fleetrec.config.job import OptimizerOptions\n" + text)
    for phase in job["phase"]:
        phase["model"] = "model.py"
    run(write_job(job, Path("config.yaml")))
    assert not any("exp_avg" in name for name in tensors_of(Path("ckpt/1")))


def test_a_label_among_the_dense_slots_is_no_feed(job):
    text = (ZOO / "rank/dnn/model.py").read_text()
    text = text.replace(
        'label, *slots = inputs.sparse or ("click",)', 'label, slots = "y", inputs.sparse'
    )
    text = text.replace(
        "DenseValues(inputs)", 'DenseValues(inputs, [n for n in inputs.dense if n != "y"])'
    )
    Path("model.py").write_text(text)
    for phase in job["phase"]:
        phase["model"] = "model.py"
    lines = make_slot_text(64).replace("click:", "y:")
    for part in Path("data").iterdir():
        part.write_text(lines)
    job["dataset"][0] |= {"sparse_slots": "1 2 3", "dense_slots": "y:1 dense_feature:2"}
    run(write_job(job, Path("config.yaml")), "runner.train.save_inference_path=inf")
    manifest = json.loads(Path("inf/1/MANIFEST.json").read_text())
    feeds = [feed["name"] for feed in manifest["graphs"][0]["feeds"]]
    assert feeds == ["dense_feature", "1", "2", "3"]


def test_a_growing_table_shows_what_comes_and_goes(job, capsys):
    run(
        write_job(job, Path("config.yaml")),
        "hyper_parameters.distributed_embedding=1",
        "hyper_parameters.admission={kind: count, threshold: 2}",
        "hyper_parameters.eviction={max_rows: 20}",
        "runner.train.print_interval=2",
    )
    stats = passes(f"{Path.cwd().name}.train")[-1]["tables"]["SparseFeatFactors"]
    assert stats["rows"] == 20
    assert stats["created"] - stats["evicted"] == 20
    counts = f"{stats['created']} made, {stats['evicted']} evicted: 0 unseen, 0 low score, "
    counts += f"{stats['evicted_capacity']} beyond max_rows; {stats['candidates']} waiting"
    assert f"SparseFeatFactors: 20 rows ({counts})" in capsys.readouterr().out
    assert stats["evicted_capacity"] == stats["evicted"]


@pytest.mark.parametrize("where", ["taken", "taken/below"])
def test_a_file_where_checkpoints_should_go_is_found_before_training(job, where):
    Path("taken").touch()
    with pytest.raises(ConfigError, match="save_checkpoint_path: cannot be a folder: taken is"):
        run(write_job(job, Path("config.yaml")), f"runner.train.save_checkpoint_path={where}")


def test_an_output_that_a_task_needs_is_named(job):
    text = (ZOO / "rank/dnn/model.py").read_text()
    Path("model.py").write_text(text.replace('{"logit": logit_B, ', "{"))
    for phase in job["phase"]:
        phase["model"] = "model.py"
    with pytest.raises(
        ModelError, match=r"needs an output 'logit'; the model returns \['predict'\]"
    ):
        run(write_job(job, Path("config.yaml")))


def test_a_run_may_be_content_with_less_exact_products(tmp_path, caplog):
    data = make_data(tmp_path / "data", num_samples=2000)
    job = make_job(data, epochs=1, batch_size=1000)
    job["hyper_parameters"] |= {"sparse_feature_dim": 40, "fc_sizes": [80, 64]}
    path = write_job(job, tmp_path / "job.yaml")
    found = {}
    for name, precision in (("exact", "highest"), ("high", "high"), ("again", "high")):
        run(
            path,
            f"runner.train.matmul_precision={precision}",
            f"runner.train.save_checkpoint_path={name}",
        )
        found[name] = tensors_of(Path(name) / "0")
    assert found["again"] == found["high"]
    assert (found["high"] == found["exact"]) is not has_tiles()
    assert ("there are no tiles" in caplog.text) is not has_tiles()
