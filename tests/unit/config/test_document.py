"""YAML text becomes plain data with line numbers; bad text becomes one clear message."""

from pathlib import Path

import pytest

from fleetrec.config.document import MAX_NODES, parse_document, parse_value, read_document
from fleetrec.core.errors import ConfigError

JOB = Path("job.yaml")


def parse(text):
    return parse_document(text, path=JOB)


def fault(text):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert len(caught.value.problems) == 1
    return str(caught.value)


def test_every_value_knows_its_line():
    document = parse("mode: train\nrunner:\n- name: train\n  epochs: 2\n")
    assert document.data == {"mode": "train", "runner": [{"name": "train", "epochs": 2}]}
    assert document.lines[("runner", 0, "epochs")] == 4
    assert document.where(("runner", 0, "epochs")) == "job.yaml:4"


def test_a_value_that_was_not_written_has_the_line_of_its_parent():
    document = parse("mode: train\nrunner:\n- name: train\n")
    assert document.where(("runner", 0, "epochs")) == "job.yaml:3"


def test_a_key_that_was_not_written_at_the_top_has_the_first_line():
    assert parse("\n\nmode: train\n").where(("runner",)) == "job.yaml:3"


def test_a_missing_location_in_an_empty_file_is_the_file():
    document = parse("")
    assert document.data is None
    assert document.where(("mode",)) == "job.yaml"


def test_elements_of_a_list_have_lines_of_their_own():
    document = parse("a:\n- 1\n- 2\nb: [3,\n 4]\n")
    assert [document.lines[at] for at in (("a", 0), ("a", 1), ("b", 1))] == [2, 3, 5]


def test_of_duplicate_keys_the_last_wins_with_a_notice():
    document = parse("epochs: 1\nmode: x\nepochs: 2\n")
    assert document.data == {"epochs": 2, "mode": "x"}
    assert document.notices == (
        "job.yaml:3: 'epochs' is written twice (first in line 1); the last one counts",
    )
    assert document.where(("epochs",)) == "job.yaml:3"


def test_the_same_key_in_two_mappings_is_no_duplicate():
    assert parse("- {name: a}\n- {name: b}\n").notices == ()


def test_chinese_comments_and_values_are_read(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text('# 训练配置\nmode: "训练" # 模式\n', encoding="utf-8")
    assert read_document(path).data == {"mode": "训练"}


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    assert parse("\ufeffmode: x\n").data == {"mode": "x"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.001", 0.001),
        ("1.0e-3", 0.001),
        ('"1e-3"', "1e-3"),
        ("10", 10),
        ("yes", True),
        ("No", False),
        ("on", True),
        ("~", None),
        ("", None),
        ("2020-01-01", "2020-01-01"),
        ("[1, two]", [1, "two"]),
        ("{a: 1}", {"a": 1}),
        ("'yes'", "yes"),
    ],
)
def test_a_value_is_read_as_yaml_1_1(text, value):
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_an_exponent_without_a_dot_can_be_read_as_a_number():
    assert float(parse_value("1e-3")) == 0.001


def test_keys_are_text_whatever_they_look_like():
    assert parse("1: a\nyes: b\nnull: c\n").data == {"1": "a", "yes": "b", "null": "c"}


def test_an_alias_repeats_what_its_anchor_holds():
    document = parse("a: &slots [1, 2]\nb: *slots\n")
    assert document.data == {"a": [1, 2], "b": [1, 2]}
    assert document.data["a"] is not document.data["b"]


def test_a_merge_key_takes_over_the_keys_of_a_mapping():
    document = parse("a: &base {x: 1, y: 2}\nb:\n  y: 3\n  <<: *base\n")
    assert document.data["b"] == {"x": 1, "y": 3}
    assert document.where(("b", "x")) == "job.yaml:1"
    assert document.where(("b", "y")) == "job.yaml:3"
    assert document.notices == ()


def test_of_several_merged_mappings_the_first_wins():
    document = parse("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}\n")
    assert document.data["c"] == {"x": 1, "y": 2}


def test_a_merge_key_needs_a_mapping():
    assert fault("a: &a 5\nb:\n  <<: *a\n") == (
        "job.yaml:1: << takes over the keys of mappings only"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: c: d\n", "job.yaml:2: not valid YAML: mapping values are not allowed here"),
        ("a: 1\n\tb: 2\n", "job.yaml:2: not valid YAML: "),
        ("a: [1, 2\nb: 3\n", "job.yaml:2: not valid YAML: "),
        ("a: 1\nb: *none\n", "job.yaml:2: not valid YAML: found undefined alias 'none'"),
        ("a: 1\n---\nb: 2\n", "job.yaml:2: not valid YAML: "),
        ("a: 1\nb: \x07\n", "job.yaml:2: not valid YAML: a character that is not text"),
        ("a: 1\n? [b]\n: 2\n", "job.yaml:2: a key must be plain text"),
        ("a: !!int x\n", "job.yaml:1: cannot read 'x' as !!int"),
    ],
)
def test_bad_yaml_is_one_message_with_a_line(text, message):
    assert fault(text).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object:os.system {x: 1}",
        "!!python/object/apply:os.system ['echo x']",
        "!!python/object/new:os.system ['echo x']",
        "!!python/name:os.system",
        "!!python/module:os",
        "!mine {a: 1}",
    ],
)
def test_a_tag_never_makes_an_object(text):
    message = fault(f"a: 1\nb: {text}\n")
    assert message.startswith("job.yaml:2: ")
    assert text.split()[0] in message


def test_a_bomb_of_aliases_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert fault("\n".join(lines)) == (f"job.yaml: more than {MAX_NODES} values; is it a job file?")


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: *a}\n", "[" * 1500 + "]" * 1500])
def test_endless_nesting_is_refused(text):
    assert fault(text) == "job.yaml: nested too deeply; is it a job file?"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file"):
        read_document(tmp_path / "none.yaml")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read: .*directory"):
        read_document(tmp_path)


def test_text_that_is_not_utf8_is_refused_by_name(tmp_path):
    path = tmp_path / "gbk.yaml"
    path.write_bytes("mode: 训练\n".encode("gbk"))
    with pytest.raises(ConfigError, match=r"gbk\.yaml: cannot be read: .*utf-8"):
        read_document(path)
