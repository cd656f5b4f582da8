"""YAML that every reader reads as the same objects."""

import pytest
from ruamel.yaml import YAML

from fleetrec.launch.manifests.yaml_text import to_yaml

TEXTS = (
    "plain",
    "yes",
    "No",
    "null",
    "1",
    "1e3",
    "0x10",
    "",
    " ",
    "a: b",
    "# x",
    "a\nb\n",
    "a\n\nb\n",
    "a\n\n",
    "\n",
    "a \nb\n",
    " a\nb\n",
    "a\tb\n",
    "a\r\nb\n",
    "no end",
    "two\nlines",
    "quotes \" and ' and \\\n",
    "äöü\n",
    "---\n",
    "%YAML 1.1\n",
)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_stays_what_it_is(text, version):
    yaml = YAML(typ="safe")
    yaml.version = version
    item = {"value": text, "list": [text, {text: 1}], "number": 1, "flag": True}
    assert yaml.load(to_yaml([item])) == item
