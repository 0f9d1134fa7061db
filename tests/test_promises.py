"""What must exist for each kind, framework, command and flag: a page, an example, a golden file. Says what is missing.

Adding a row somewhere makes one of these fail until the rest of the promise is kept.
"""

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from tests.conftest import ROOT
from tools.cli_docs import manual

from trainwright.admission import admit
from trainwright.cli import COMMANDS
from trainwright.core.objects import Object
from trainwright.frameworks import FRAMEWORKS
from trainwright.kinds import KINDS, Kind, kind_of

MANUAL = ROOT / "docs" / "cli.md"


def word(kind: Kind) -> str:
    """Return the one word that finds a kind everywhere: the name of its modules."""
    return kind.build.__module__.rpartition(".")[2]


def examples() -> Iterator[tuple[Path, Object]]:
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if isinstance(document, dict):
                yield path, document


def section(command: str) -> str:
    """Return what the manual says about a command, or nothing."""
    found = re.search(rf"^## `?tw {command}`?.*?$(.*?)(?=^## |\Z)", MANUAL.read_text(), re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def options(command: str) -> list[click.Option]:
    loaded: click.Command = importlib.import_module(f"trainwright.cli.{command}").command
    return [parameter for parameter in loaded.params if isinstance(parameter, click.Option)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
class TestEveryKind:
    def test_has_a_page(self, kind):
        page = ROOT / "docs" / "kinds" / f"{word(kind).replace('_', '-')}.md"

        assert page.exists(), f"{kind.name} has no page: write {page.relative_to(ROOT)}"

    def test_has_an_example(self, kind):
        found = [path for path, obj in examples() if kind_of(obj) is kind]

        assert found, f"{kind.name} has no example: put a manifest of that kind into examples/"

    def test_has_a_golden_file(self, kind):
        folder = ROOT / "tests" / "golden" / word(kind)

        assert list(folder.rglob("*.yaml")), f"{kind.name} has no golden file: put one into {folder.relative_to(ROOT)}"


@pytest.mark.parametrize("name", FRAMEWORKS)
class TestEveryFramework:
    def test_has_a_page(self, name):
        page = ROOT / "docs" / "frameworks" / f"{name.replace('_', '-')}.md"

        assert page.exists(), f"the framework {name} has no page: write {page.relative_to(ROOT)}"

    def test_has_an_example(self, name):
        jobs = [kind.read(admit(obj).object) for _, obj in examples() if (kind := kind_of(obj))]
        used = {request.framework for job in jobs for request in job.requests}
        used |= {need for framework in used for need in FRAMEWORKS[framework].needs}

        assert name in used, f"no example uses the framework {name}: put one into examples/"

    def test_is_kept_apart_from_the_others(self, name):
        contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        (apart,) = [each["modules"] for each in contracts if each["type"] == "independence"]

        assert FRAMEWORKS[name].wire.__module__ in apart, f"{name} may import others: name it in pyproject.toml"


@pytest.mark.parametrize("command", COMMANDS)
class TestEveryCommand:
    def test_has_a_section_in_the_manual_with_an_example(self, command):
        text = section(command)

        assert text, (
            f"docs/cli.md says nothing about it: write tools/manual/{command}.md and run python -m tools.cli_docs"
        )
        assert re.search(rf"^(\$ )?(.*\| )?tw {command}\b", text, re.MULTILINE), f"'tw {command}' has no example there"

    def test_has_every_flag_in_the_manual(self, command):
        text = section(command)
        missing = [
            flag
            for option in options(command)
            for flag in option.opts
            if not re.search(rf"`[^`]*(?<![\w-]){re.escape(flag)}\b[^`]*`", text)
        ]

        assert not missing, f"docs/cli.md, section 'tw {command}', lacks {', '.join(missing)}"

    def test_helps_itself(self, command):
        loaded: click.Command = importlib.import_module(f"trainwright.cli.{command}").command
        silent = [option.opts[-1] for option in options(command) if not option.help]

        assert loaded.help, f"'tw {command} --help' says nothing"
        assert not silent, f"'tw {command} --help' does not explain {', '.join(silent)}"


def test_the_manual_is_up_to_date():
    assert MANUAL.read_text() == manual(), "docs/cli.md is out of date: write it with python -m tools.cli_docs"


def test_every_exit_code_is_in_the_manual():
    from trainwright.cli import exits

    text = MANUAL.read_text()
    codes = sorted({value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)})
    missing = [code for code in codes if not re.search(rf"^\| {code} \|", text, re.MULTILINE)]

    assert not missing, f"docs/cli.md has no row for exit code {', '.join(map(str, missing))}"


def test_the_manual_names_no_command_that_is_not_there():
    named = set(re.findall(r"^## `?tw ([a-z]+)", MANUAL.read_text(), re.MULTILINE))

    assert named <= set(COMMANDS), (
        f"docs/cli.md describes {', '.join(sorted(named - set(COMMANDS)))}, which is not there"
    )
