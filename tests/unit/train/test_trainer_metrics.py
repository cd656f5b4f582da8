"""Metrics of an online run for Prometheus."""

import math

from fleetrec.server.prometheus import to_text
from fleetrec.train.trainer_metrics import TrainerMetrics
from unit.train.making_passes import make_evaluated, make_table, make_trained


class Clock:
    now = 1100.0

    def __call__(self):
        return self.now


def shown(metrics):
    """Return the samples of the page by name and labels."""
    lines = [line for line in to_text(metrics.metrics()).splitlines() if line[0] != "#"]
    pairs = (line.rpartition(" ")[::2] for line in lines)
    return {name.removeprefix("fleetrec_"): float(value) for name, value in pairs}


def test_a_run_that_has_just_begun_counts_nothing():
    found = shown(TrainerMetrics(num_phases=1, now=Clock()))
    assert found == {"train_samples_total": 0.0, "train_passes_total": 0.0}


def test_the_last_pass_is_shown():
    metrics = TrainerMetrics(num_phases=1, now=Clock())
    metrics.pass_done(make_trained(0, tables={"t": make_table(1, created=1)}))
    metrics.pass_done(make_evaluated(1, AUC=0.6, AUC_buy=0.5))
    table = make_table(8, created=10, evicted=2, candidates=3)
    trained = make_trained(1, arrived_at=1040.0, delay_s=50.0, LOSS=0.4, tables={"t": table})
    metrics.pass_done(trained)
    found = shown(metrics)
    assert (
        found.items()
        >= {
            'eval_auc{phase="learn"}': 0.6,
            'eval_auc_buy{phase="learn"}': 0.5,
            'eval_copc{phase="learn"}': 0.8,
            'train_loss{phase="learn"}': 0.4,
            "train_samples_total": 200.0,
            "train_passes_total": 2.0,
            "pass_index": 1.0,
            "pass_event_time_seconds": float(trained.event_time),
            "pass_duration_seconds": 2.0,
            "pass_delay_seconds": 50.0,
            "data_age_seconds": 60.0,
            'table_rows{table="t"}': 8.0,
            'table_created{table="t"}': 10.0,
            'table_evicted{table="t"}': 2.0,
            'table_candidates{table="t"}': 3.0,
        }.items()
    )


def test_the_age_of_data_rises_while_the_run_waits():
    clock = Clock()
    metrics = TrainerMetrics(num_phases=1, now=clock)
    metrics.pass_done(make_trained(0, arrived_at=1000.0))
    clock.now = 1500.0
    metrics.waiting("20261118/0005", 390.0)
    assert shown(metrics).items() >= {"data_age_seconds": 500.0, "waiting_seconds": 390.0}.items()
    metrics.pass_done(make_evaluated(1))
    assert shown(metrics)["waiting_seconds"] == 0.0


def test_what_was_saved_has_its_time_pass_and_age():
    metrics = TrainerMetrics(num_phases=1, now=Clock())
    metrics.saved("checkpoint", "model/3", epoch=3)
    metrics.pass_done(make_trained(4, arrived_at=1000.0))
    metrics.saved("serving model", "model/4", epoch=4)
    found = shown(metrics)
    assert found['saved_pass_index{what="checkpoint"}'] == 3.0
    assert found['saved_time_seconds{what="serving model"}'] == 1100.0
    assert found['saved_age_seconds{what="serving model"}'] == 100.0
    assert 'saved_age_seconds{what="checkpoint"}' not in found


def test_undefined_metrics_are_not_a_number():
    metrics = TrainerMetrics(num_phases=1, now=Clock())
    metrics.pass_done(make_evaluated(0, AUC=math.nan))
    assert 'fleetrec_eval_auc{phase="learn"} NaN' in to_text(metrics.metrics())


def test_tables_of_several_phases_are_named_by_phase():
    metrics = TrainerMetrics(num_phases=2, now=Clock())
    metrics.pass_done(make_trained(0, phase="rank", tables={"t": make_table(1, created=1)}))
    assert shown(metrics)['table_rows{table="rank/t"}'] == 1.0


def test_other_evaluations_are_not_passes():
    metrics = TrainerMetrics(num_phases=1, now=Clock())
    done = make_evaluated(0)
    metrics.pass_done(type(done)(**{**_fields(done), "event_time": None}))
    assert 'eval_auc{phase="learn"}' not in shown(metrics)


def _fields(done):
    return {name: getattr(done, name) for name in done.__dataclass_fields__}
