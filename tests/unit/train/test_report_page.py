"""Parts of a report."""

import re

from fleetrec.train.report_page import (
    Point,
    Series,
    bullets,
    chart,
    charts,
    clock_text,
    folded,
    means,
    number,
    page,
    section,
    table,
    thinned,
    time_text,
)


def points(*values):
    return [Point(x=x, y=y, label=f"p{x}") for x, y in enumerate(values)]


def draw(*series):
    return chart("AUC", [Series(name=n, points=p) for n, p in series], x_text=number)


def lines(drawn):
    return re.findall(r'class="line (\w+)" d="([^"]*)"', drawn)


def test_a_line_is_drawn_between_its_extremes():
    drawn = draw(("AUC", points(0.5, 0.75, 1.0)))
    assert lines(drawn) == [("s0", "M0.0 200.0L500.0 100.0L1000.0 0.0")]
    assert "<span>1</span><span>0.75</span><span>0.5</span>" in drawn
    assert "<title>p1 AUC: 0.75</title>" in drawn


def test_a_value_that_is_not_defined_is_a_gap():
    (line,) = lines(draw(("AUC", points(0.0, 1.0, None, 1.0, 0.0))))
    assert line[1].count("M") == 2


def test_a_level_line_is_in_the_middle():
    (line,) = lines(draw(("AUC", points(150.0, 150.0))))
    assert line[1] == "M0.0 100.0L1000.0 100.0"


def test_lines_of_a_chart_have_colors_and_a_legend():
    drawn = draw(("AUC", points(0.5, 0.6)), ("GAUC", points(0.4, 0.5)))
    assert [color for color, _ in lines(drawn)] == ["s0", "s1"]
    assert '<i class="s1"></i>GAUC' in drawn


def test_a_chart_of_one_point_is_left_out():
    assert draw(("AUC", points(0.5))) == ""
    assert draw(("AUC", points(None, None))) == ""
    assert charts(["", ""]) == ""


def test_many_points_are_thinned_to_their_extremes():
    many = [Point(x=x, y=float(x % 100)) for x in range(10_000)]
    kept = thinned(many, max_points=100)
    assert len(kept) <= 100
    assert {point.y for point in kept} == {0.0, 99.0}
    assert [point.x for point in kept] == sorted(point.x for point in kept)
    assert thinned(many[:100], max_points=100) == many[:100]
    assert draw(("AUC", many)).count("<title>") == 0


def test_a_line_of_many_points_may_have_means():
    many = [Point(x=x, y=None if x < 2 else float(x % 2)) for x in range(1002)]
    found = means(many, num_means=10)
    assert [(point.x, point.y) for point in found[:2]] == [(51.5, 0.5), (151.5, 0.5)]
    assert len(found) == 10
    series = [Series(name="AUC", points=many)]
    assert lines(chart("AUC", series, x_text=number, has_means=True))[0][1].count("L") == 99
    assert "faint s0" in chart("AUC", series, x_text=number, has_means=True)
    assert "faint s0" not in chart("AUC", series, x_text=number)
    few = [Series(name="AUC", points=many[:50])]
    assert "faint s0" not in chart("AUC", few, x_text=number, has_means=True)


def test_text_is_escaped():
    bad = "<script>alert('1')</script>"
    drawn = [
        page(bad, []).decode(),
        section(bad, "x", note=bad),
        table([bad], [[bad]]),
        bullets([bad]),
        folded(bad, bad),
        draw((bad, [Point(x=0, y=1.0, label=bad), Point(x=1, y=2.0)]), (bad, points(1.0, 2.0))),
        chart(bad, [Series(name="a", points=points(1.0, 2.0))], x_text=lambda _: bad, note=bad),
    ]
    for text in drawn:
        assert "script" in text
        assert "<script" not in text
    assert 'data-label="&quot;"' in table(['"'], [["1"]])


def test_a_page_needs_no_other_file():
    text = page("run", [section("Days", table(["day"], [["1"]]))]).decode()
    assert not re.search(r"(?:src|href)=|url\(|@import|<script|<link", text)
    assert "prefers-color-scheme:dark" in text
    assert 'name="viewport"' in text


def test_what_has_no_content_is_left_out():
    assert section("Days", table(["day"], [])) == ""
    assert bullets([]) == ""


def test_numbers_and_times_are_short():
    assert [number(v) for v in (None, float("nan"), 0.123456, 7.0, 1234567.0)] == [
        "-",
        "-",
        "0.1235",
        "7",
        "1,234,567",
    ]
    assert (time_text(1795003500), clock_text(1795003507)) == ("Nov 18 12:05", "12:05:07")
