"""Reports of runs, from what is in their folders."""

import re

from fleetrec.train.events import Interval, StepInfo
from fleetrec.train.observers import JsonObserver
from fleetrec.train.report import report_page, write_report
from fleetrec.train.run_folder import RunFolder
from unit.train.making_passes import make_evaluated, make_trained


def make_interval(step, kind="train", **metrics):
    info = StepInfo(
        kind=kind, phase="learn", epoch=0, batch=step, step=step, samples=step, fraction=0.5
    )
    return Interval(
        info=info, seconds=1.0, samples_per_s=2.0, eta_s=1.0, metrics=metrics, costs={}, tables={}
    )


def make_folder(tmp_path, **options):
    folder = RunFolder(path=tmp_path / "dnn.train")
    folder.begin("id", fresh=True, options={"kind": "train", "name": "<slot>", **options})
    return folder


def test_a_run_of_epochs_has_passes_curves_and_its_configuration(tmp_path):
    folder = make_folder(tmp_path)
    observer = JsonObserver(folder.metrics)
    for step in (10, 20):
        observer.interval(make_interval(step, LOSS=step / 100, AUC=0.5))
    observer.pass_done(make_trained(0))
    observer.saved("checkpoint", "ckpt/0", epoch=0)
    write_report(folder)
    text = (folder.path / "report.html").read_text()
    assert "<h1>dnn.train: train</h1>" in text
    assert re.findall(r"<figcaption>([^<]*)", text) == ["LOSS", "AUC"]
    assert "<title>step 20 LOSS: 0.2</title>" in text
    assert ">20261118/0000 learn</td>" in text
    assert "checkpoint of epoch 0: ckpt/0" in text
    assert "&quot;name&quot;: &quot;&lt;slot&gt;&quot;" in text


def test_inference_has_no_curves(tmp_path):
    folder = make_folder(tmp_path, kind="infer")
    observer = JsonObserver(folder.metrics)
    for step in (10, 20):
        observer.interval(make_interval(step, "infer", LOSS=0.5, AUC=0.5))
    assert b"<figure>" not in report_page(folder)


def test_the_records_of_an_online_run_are_shown_over_event_time(tmp_path):
    folder = make_folder(tmp_path)
    observer = JsonObserver(folder.metrics, now=lambda: 1100.0)
    for index in range(2):
        observer.pass_done(make_evaluated(index))
    with folder.metrics.open("a") as stream:
        stream.write('{"event": "pa')  # the run is writing
    text = report_page(folder).decode()
    assert "<h2>Days</h2>" in text
    assert "<span>Nov 18 00:00</span>" in text


def test_a_folder_without_options_still_has_a_report(tmp_path):
    folder = RunFolder(path=tmp_path / "run")
    assert folder.options() is None
    text = report_page(folder).decode()
    assert "No pass over the data was finished." in text
    assert "Configuration" not in text


def test_an_online_run_that_has_just_begun_has_no_pass(tmp_path):
    folder = make_folder(tmp_path, online={"save_path": "model"})
    assert "No pass over the data was finished." in report_page(folder).decode()
