import pytest

from fleetrec.config.pipeline_dialect.text import parse_tree
from fleetrec.core.errors import ConfigError


def plain(tree):
    return {
        name: [
            plain(node.tree) if node.kind == "message" else (node.kind, node.text) for node in nodes
        ]
        for name, nodes in tree.items()
    }


def parse(text):
    return plain(parse_tree(text, where="x.config"))


def test_values_are_text_numbers_words_and_messages():
    assert parse("""a: "x" b: -1.5e-3 c: true d { e: 'y' "z" } f <g: 1>  # and a comment""") == {
        "a": [("text", "x")],
        "b": [("number", "-1.5e-3")],
        "c": [("word", "true")],
        "d": [{"e": [("text", "yz")]}],
        "f": [{"g": [("number", "1")]}],
    }


def test_a_field_may_repeat_and_may_be_a_list():
    assert parse("a: 1 a: [2, 3], a: [] b: [{c: 1}, {c: 2}];") == {
        "a": [("number", "1"), ("number", "2"), ("number", "3")],
        "b": [{"c": [("number", "1")]}, {"c": [("number", "2")]}],
    }


def test_escapes_are_those_of_protobuf():
    assert parse(r'a: "\001\t\x41"') == {"a": [("text", "\x01\tA")]}


def test_places_are_remembered():
    tree = parse_tree("a {\n  b: 1\n   c: 2\n}", where="x.config")
    inner = tree["a"][0].tree
    assert [(inner[n][0].line, inner[n][0].column) for n in "bc"] == [(2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a {\n b: 1", "x.config:2:6: not valid pipeline text: the text ends, but '}' is missing"),
        (
            "a 1",
            "x.config:1:3: not valid pipeline text: 'a 1': expected ':' or '{' after 'a', got '1'",
        ),
        (
            "a: [1 2]",
            "x.config:1:7: not valid pipeline text: 'a: [1 2]': expected ',' or ']', got '2'",
        ),
    ],
)
def test_bad_text_is_pointed_at(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_a_nest_without_end_is_refused():
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse("a { " * 5000)
