"""The metrics page of a server."""

import urllib.error
import urllib.request

import pytest

from fleetrec.server.prometheus import ByLabel, MetricsPage, to_text
from unit.server.serving import RunningService


def test_metrics_are_in_the_text_format_of_prometheus():
    text = to_text({"table_rows": {"t": 3.0, "u": 0.0}, "calls_total": 7.0})
    assert text == (
        "# TYPE fleetrec_table_rows gauge\n"
        'fleetrec_table_rows{table="t"} 3.0\n'
        'fleetrec_table_rows{table="u"} 0.0\n'
        "# TYPE fleetrec_calls_total counter\n"
        "fleetrec_calls_total 7.0\n"
    )


def test_metrics_may_have_another_label_and_any_text_in_it():
    values = {'a "b"\\\n': float("nan")}
    text = to_text({"alarm_active": ByLabel(label="alarm", values=values)})
    assert text.splitlines()[1] == r'fleetrec_alarm_active{alarm="a \"b\"\\\n"} NaN'


def test_the_page_shows_current_metrics(tmp_path):
    running = RunningService(tmp_path)
    with MetricsPage(0, running.service.metrics) as page:
        url = f"http://127.0.0.1:{page.port}/metrics"
        assert 'fleetrec_table_rows{table="t"} 0.0' in read(url)
        running.push(1)
        assert 'fleetrec_table_rows{table="t"} 1.0' in read(url)
        assert "fleetrec_steps_total 1.0" in read(url)
        with pytest.raises(urllib.error.HTTPError):
            read(url.replace("metrics", "other"))


def read(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()
