"""Writes docs/cli.md: every command as the code has it, with what `tools/manual/` says beyond it.

    python -m tools.cli_docs            write it
    python -m tools.cli_docs --check    exit code 1 if it is out of date

Usage and flags come from the commands themselves. `tools/manual/COMMAND.md` has an example and whatever a help text is
too short for; a row there (| `--flag` | words |) says more about a flag than its help does, and one for a flag that is
gone is an error. `head.md` opens the manual, `jobs.md` stands before the commands over jobs.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from trainwright.cli import COMMANDS, JOBS

ROOT = Path(__file__).resolve().parent.parent
MANUAL = ROOT / "docs" / "cli.md"
_SOURCES = ROOT / "tools" / "manual"
_ROW = re.compile(r"^\| (`.*?`) \| (.*) \|$")
_FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


def manual() -> str:
    """Return the whole text."""
    parts = [_source("head"), _contents()]
    for section, names in _sections().items():
        if section == JOBS:
            parts.append(_source("jobs"))
        parts += map(_section, names)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _source(name: str) -> str:
    path = _SOURCES / f"{name}.md"
    return path.read_text() if path.exists() else ""


def _sections() -> dict[str, list[str]]:
    """Return the commands under each heading, in the order of the help."""
    sections: dict[str, list[str]] = {}
    for name, row in COMMANDS.items():
        sections.setdefault(row.section, []).append(name)
    return sections


def _contents() -> str:
    rows = (
        f"| {section} | {' · '.join(f'[{name}](#tw-{name})' for name in names)} |"
        for section, names in _sections().items()
    )
    return "\n".join(("| | |", "|---|---|", *rows))


def _section(name: str) -> str:
    """Return what is said about one command."""
    command: click.Command = importlib.import_module(f"trainwright.cli.{name}").command
    before, rows, after = _split(_source(name))
    context = click.Context(command, info_name=f"tw {name}")
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    options = [each for each in command.params if isinstance(each, click.Option)]
    table = "\n".join(("| flag | meaning |", "|---|---|", *_rows(name, options, rows))) if options else ""
    parts = (f"## tw {name}", before or _summary(name), f"Usage: `{usage}`", table, after)
    return "\n\n".join(part.strip() for part in parts if part)


def _summary(name: str) -> str:
    return COMMANDS[name].summary


def _split(text: str) -> tuple[str, list[str], str]:
    """Return what stands before the table of flags, its rows, and what stands after it."""
    lines = text.splitlines()
    table = [place for place, line in enumerate(lines) if line.startswith("| flag |")][:1]
    if not table:
        return text, [], ""
    start, end = table[0], table[0]
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return "\n".join(lines[:start]), lines[start + 2 : end], "\n".join(lines[end:])


def _rows(name: str, options: list[click.Option], told: list[str]) -> Iterator[str]:
    """Yield a row for each flag: the one that was written for it, else one from its help."""
    known = {flag for option in options for flag in (*option.opts, *option.secondary_opts)}
    covered: set[str] = set()
    for row in told:
        match = _ROW.match(row)
        flags = set(_FLAG.findall(match[1])) if match else set()
        if match is None or not flags or flags - known:
            sys.exit(
                f"tools/manual/{name}.md: {row}: 'tw {name}' has no {', '.join(sorted(flags - known)) or 'such flag'}"
            )
        covered |= flags
        yield row
    for option in options:
        if not covered & {*option.opts, *option.secondary_opts}:
            yield _row(option)


def _row(option: click.Option) -> str:
    flags = [*option.opts, *option.secondary_opts]
    if not option.is_flag and not option.count:
        context = click.Context(click.Command("tw"))
        flags[-1] += f" {option.make_metavar(context)}".replace("|", "\\|")
    words = (option.help or "").strip().rstrip(".")
    said = words[:1].lower() + words[1:]
    return f"| {', '.join(f'`{flag}`' for flag in flags)} | {said.replace('|', chr(92) + '|')} |"


def main() -> None:
    """Write the manual, or say that it is out of date."""
    text = manual()
    if "--check" in sys.argv[1:]:
        if not MANUAL.exists() or MANUAL.read_text() != text:
            sys.exit("docs/cli.md is out of date: write it with python -m tools.cli_docs")
        return
    MANUAL.write_text(text)


if __name__ == "__main__":
    main()
