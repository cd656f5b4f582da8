"""What is promised is what was measured; the training itself is not repeated here."""

import json

import pytest

from tools.promises import Measured, last_figure, table_rows, to_markdown

ROWS = [
    Measured(name="rank/a", best=(0.812, 0.8349), plain=(0.8099, 0.9)),
    Measured(name="multitask/b", best=(0.75, 0.76), plain=(0.77, 0.78)),
    Measured(name="rank/c", best=(0.75, 0.76), plain=()),
]


def test_a_promise_is_the_worst_run_less_a_margin_in_two_digits():
    assert [row.promise for row in ROWS] == [0.79, 0.74, 0.74]


def test_the_table_reads_back():
    page = f"before\n<!-- begin of promises -->\n\n{to_markdown(ROWS)}\n<!-- end of promises -->\n"
    assert list(table_rows(page)) == [
        ("rank/a", [0.812, 0.835, 0.81], 0.79),
        ("multitask/b", [0.75, 0.76, 0.77], 0.74),
        ("rank/c", [0.75, 0.76], 0.74),
    ]


@pytest.mark.parametrize(
    ("figures", "metric", "worst"),
    [
        ({"AUC": 0.7, "BATCH_AUC": 0.1, "LOSS": 0.5}, "AUC", 0.7),
        ({"AUC_income": 0.9, "AUC_marital": 0.8, "LOSS": 0.5}, "AUC", 0.8),
        ({"RECALL@5": 0.6, "LOSS": 0.1}, "RECALL@5", 0.6),
    ],
)
def test_of_several_tasks_and_passes_the_worst_task_of_the_last_pass_counts(
    tmp_path, figures, metric, worst
):
    events = [
        {"event": "pass", "metrics": {"AUC": 0.2}},
        {"event": "pass", "metrics": figures},
        {"event": "interval", "metrics": {"AUC": 0.3}},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in events))
    assert last_figure(tmp_path, metric) == worst
