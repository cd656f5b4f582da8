"""The documents keep their word: commands run, examples are used, links lead somewhere."""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fleetrec.config.options import Options
from fleetrec.config.yaml_dialect import schema
from fleetrec.core.env import environment_with

ROOT = Path(__file__).parents[2]
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
WITH_COMMANDS = [*READMES, *sorted((ROOT / "docs").glob("*.md"))]
ALL = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
SKIPPED = ("make ", "pip ")  # they install and test: the developer has just done that
TIMEOUT_S = 300
SHELL_SYNTAX = re.compile(r"[|;&<>$`]")

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclasses.dataclass(frozen=True)
class Fence:
    language: str
    options: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        given = [o.removeprefix("file=") for o in self.options if o.startswith("file=")]
        return given[0] if given else None

    @property
    def commands(self) -> list[str]:
        if self.language != "shell" or "no-run" in self.options:
            return []
        return [line for line in self.text.splitlines() if not line.startswith(SKIPPED)]


def fences(document: Path) -> list[Fence]:
    found = []
    for match in FENCE.finditer(document.read_text(encoding="utf-8")):
        language, *options = match["info"].split() or [""]
        found.append(Fence(language, tuple(options), match["text"]))
    return found


def prose(document: Path) -> str:
    return FENCE.sub("", document.read_text(encoding="utf-8"))


def anchors(document: Path) -> set[str]:
    """Return the names that GitHub gives to headings."""
    titles = (match[2] for match in HEADING.finditer(prose(document)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def section(document: Path, title: str) -> str:
    """Return the text below a heading of the second level."""
    return prose(document).split(f"\n## {title}\n")[1].split("\n## ")[0]


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def run(command: str, folder: Path) -> None:
    """Run one line of a fence with the tools of this venv."""
    tools = Path(sys.executable).parent
    first, *rest = shlex.split(command)
    is_plain = first in ("fleetrec", "python") and not SHELL_SYNTAX.search(command)
    done = subprocess.run(
        [tools / first, *rest] if is_plain else ["bash", "-c", command],
        cwd=folder,
        env=environment_with({"PATH": f"{tools}{os.pathsep}{os.defpath}"}, unless_set={}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, "\n".join([command, done.stdout[-2000:], done.stderr])


# The Chinese page has the same fences, which a test below holds it to.
@pytest.mark.parametrize("document", [d for d in WITH_COMMANDS if d != READMES[1]], ids=name)
def test_the_commands_of_a_document_run_in_order(document, tmp_path):
    for fence in fences(document):
        if fence.file is not None:
            path = tmp_path / fence.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text, encoding="utf-8")
        for command in fence.commands:
            run(command, tmp_path)


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=name)
def test_every_example_file_is_used_by_a_command_below_it(document):
    found = fences(document)
    for place, fence in enumerate(found):
        if fence.file is None:
            continue
        below = "\n".join(command for later in found[place:] for command in later.commands)
        folder = fence.file.partition("/")[0]
        assert re.search(rf"\b{re.escape(folder)}\b", below), fence.file


@pytest.mark.parametrize("document", ALL, ids=name)
def test_every_config_in_a_document_is_complete(document):
    assert [f.text for f in fences(document) if f.language == "yaml" and not f.file] == []


def test_both_readmes_have_the_same_commands_and_files():
    english, chinese = (fences(readme) for readme in READMES)
    assert english == chinese


def test_both_readmes_have_the_same_sections():
    english, chinese = (
        [match[1] for match in HEADING.finditer(prose(readme))] for readme in READMES
    )
    assert english == chinese


def test_both_readmes_have_the_same_links():
    english, chinese = (LINK.findall(prose(readme)) for readme in READMES)
    assert english[1:] == chinese[1:]
    assert (english[0], chinese[0]) == ("README.zh-CN.md", "README.md")


@pytest.mark.parametrize("document", ALL, ids=name)
def test_relative_links_lead_to_a_file_and_a_heading(document):
    for link in LINK.findall(prose(document)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path) if path else document
        assert target.is_file(), link
        assert target.resolve().is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize(
    ("title", "options"),
    [
        ("Top level", schema.TopLevel),
        ("Top level", schema.TrainKeys),
        ("Top level", schema.StrategyKeys),
        ("Top level", schema.GeoKeys),
        ("dataset", schema.Dataset),
        ("hyper_parameters", schema.OptimizerKeys),
        ("phase", schema.Phase),
        ("runner", schema.Runner),
        ("runner", schema.OnlineKeys),
        ("runner", schema.CommunicatorKeys),
        ("runner", schema.EvalInterval),
        ("runner", schema.KeepBest),
        ("runner", schema.EarlyStop),
    ],
)
def test_every_key_of_the_dialect_is_in_its_section_of_the_config_page(title, options):
    code = re.findall(r"`([^`]*)`", section(ROOT / "docs/config.md", title))
    words = {word for span in code for word in re.findall(r"\w+", span)}
    keys = {field.alias or key for key, field in options.model_fields.items()}
    assert keys - words == set()


def test_the_config_page_test_knows_every_class_of_the_dialect():
    marker = test_every_key_of_the_dialect_is_in_its_section_of_the_config_page.pytestmark[0]
    listed = {options for _, options in marker.args[1]}
    classes = [value for value in vars(schema).values() if isinstance(value, type)]
    declared = {c for c in classes if issubclass(c, Options)} - {Options, schema.Section}
    assert listed == declared


def test_every_dependency_has_a_line_that_says_why():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    for group in project["dependency-groups"].values():
        wanted += group
    names = {re.match(r"[\w.-]+", item)[0] for item in wanted}
    page = (ROOT / "docs/decisions/dependencies.md").read_text(encoding="utf-8")
    assert names == set(re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE))
