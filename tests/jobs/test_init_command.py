"""From a data file to a trained and evaluated model, without editing a file."""

import json
import random

import pytest

from fleetrec.cli.check import check_job
from fleetrec.cli.init import InitRequest, init_job
from fleetrec.cli.run import RunRequest, run_command
from fleetrec.core.errors import ConfigError


def make_clicks(folder, *, num_rows, header=True, name="shop.csv"):
    draw = random.Random(1)
    taste = {n: draw.gauss(0, 2) for n in range(40)}
    lines = ["is_click,user_id,item,price,ts"] if header else []
    for row in range(num_rows):
        user, item = draw.randrange(40), draw.randrange(40)
        click = draw.random() < 1 / (1 + 2.7 ** -(taste[user] + taste[item]))
        lines.append(f"{int(click)},{user},item-{item},{draw.random():.3f},{1000 + row}")
    (folder / name).write_text("\n".join(lines) + "\n")


def test_three_commands_lead_to_a_model_that_has_learnt(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_clicks(tmp_path, num_rows=4000)
    init_job(InitRequest(data="shop.csv"))
    printed = capsys.readouterr().out
    assert "Split 90:10 by ts, the last to evaluate on." in printed
    assert printed.endswith("  fleetrec run -m shop_model\n")
    run_command(RunRequest(model="shop_model"))
    result = json.loads((tmp_path / "shop_model/model/eval_result.txt").read_text())
    assert result["auc"] > 0.75  # the taste behind the clicks gives 0.89
    assert list((tmp_path / "shop_model/model/export/final").glob("*/MANIFEST.json"))


def test_data_without_a_header_and_a_given_label(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_clicks(tmp_path, num_rows=300, header=False)
    init_job(InitRequest(data="shop.csv", label="column1", split="random"))
    check_job("shop_model", overrides=())


def test_of_several_files_the_last_are_held_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days").mkdir()
    for day in range(12):
        make_clicks(tmp_path / "days", num_rows=50, name=f"{day:02}.csv")
    init_job(InitRequest(data="days"))
    text = (tmp_path / "days_model/pipeline.config").read_text()
    (trained,) = (line for line in text.splitlines() if line.startswith("train_input_path"))
    (evaluated,) = (line for line in text.splitlines() if line.startswith("eval_input_path"))
    assert trained.count(".csv") == 11
    assert "11.csv" in evaluated
    check_job("days_model", overrides=())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": "tme"}, "--split: expected auto, time or random"),
        ({"out": "taken"}, "taken: exists already"),
        ({"label": "price"}, "--label price: expected values 0 and 1"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(changes, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    make_clicks(tmp_path, num_rows=300)
    if "out" in changes:
        changes = {"out": tmp_path / "taken"}
    with pytest.raises(ConfigError, match=message):
        init_job(InitRequest(data="shop.csv", **changes))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop.csv", "taken"]
