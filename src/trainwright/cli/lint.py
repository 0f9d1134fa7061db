"""`tw lint`: everything that is wrong with manifests, each with its file and line."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from trainwright import admission
from trainwright.api import manifest
from trainwright.cli import exits
from trainwright.cli.flags import lenient_option
from trainwright.cli.words import counted
from trainwright.core.errors import Severity
from trainwright.core.objects import Object, at


@dataclass(frozen=True)
class Row:
    """One problem, as `-o json` prints it; line 0 is a file that could not be read at all."""

    file: str
    line: int
    path: str
    problem: str
    severity: Severity = "error"

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}" if self.line else self.file, self.path]
        parts.append(f"warning: {self.problem}" if self.severity == "warning" else self.problem)
        return ": ".join(part for part in parts if part)


@click.command(
    "lint",
    short_help="Say everything that is wrong with manifests.",
    epilog="""
    \b
    Examples:
      tw lint job.yaml                  say what is wrong with a manifest
      tw lint -o json jobs/*.yaml       the same for a program to read
      kubectl get pytorchjob mnist -o yaml | tw lint -
    """,
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print rows of file, line, path, problem, severity.")
@lenient_option
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], output: str | None, lenient: bool) -> None:
    """Say everything that is wrong with the jobs in FILE... ("-" reads standard input).

    Each problem is a line "file:line: path: problem". Nothing is run and no cluster is asked: these are the words of
    `tw run` and of the admission webhook. Exit code 0 if nothing is wrong (warnings are allowed), 126 if something is,
    127 if a file cannot be read.
    """
    rows = [row for file in dict.fromkeys(files) for row in _lint(file, lenient=lenient)]
    if output == "json":
        click.echo(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
    else:
        for row in rows:
            click.echo(str(row))
        click.echo(_summary(rows, len(set(files))), err=True)
    ctx.exit(_code(rows))


def _lint(file: str, *, lenient: bool) -> list[Row]:
    """Return the problems of one file in the order of its lines."""
    name = "<stdin>" if file == "-" else file
    try:
        text = read_text(file)
    except OSError as error:
        return [Row(name, 0, "", unreadable(error))]
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return [Row(name, line, "", "this is not text; save the file as UTF-8")]
    return sorted(rows_of(name, manifest.parse(text), lenient=lenient), key=lambda row: row.line)


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input for "-"."""
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    return data.decode("utf-8")


def unreadable(error: OSError) -> str:
    """Say why a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a folder; name the files in it"
    return f"the file cannot be read: {(error.strerror or str(error)).lower()}"


def rows_of(name: str, documents: list[manifest.Document], *, lenient: bool) -> Iterator[Row]:
    """Yield every problem of a file's documents, with its line."""
    seen: dict[tuple[str, ...], int] = {}
    for document in documents:
        problems = list(document.problems)
        if document.object is not None:
            problems += admission.review(document.object, lenient=lenient)
            if (key := _key(document.object)) is not None:
                if key in seen:
                    twice = f"{key[1]} {key[3]} stands in this file a second time; the first begins on line {seen[key]}"
                    yield Row(name, document.line("metadata.name"), "metadata.name", f"{twice}; give it another name")
                seen.setdefault(key, document.place.line)
        for problem in problems:
            yield Row(name, document.line_of(problem), problem.path, problem.message, problem.severity)


def _key(obj: Object) -> tuple[str, ...] | None:
    """Return what tells objects apart; None for one without a name."""
    metadata = obj.get("metadata")
    key = (obj.get("apiVersion"), obj.get("kind"), at(metadata, ("namespace",)) or "", at(metadata, ("name",)))
    return tuple(map(str, key)) if all(isinstance(part, str) for part in key) and key[3] else None


def _summary(rows: list[Row], files: int) -> str:
    errors = sum(row.severity == "error" for row in rows)
    warnings = len(rows) - errors
    found = [counted(number, word) for number, word in ((errors, "problem"), (warnings, "warning")) if number]
    return f"{' and '.join(found) or 'no problems'} in {counted(files, 'file')}"


def _code(rows: list[Row]) -> int:
    errors = [row for row in rows if row.severity == "error"]
    if any(row.line == 0 for row in errors):
        return exits.NOT_FOUND
    return exits.REJECTED if errors else exits.OK
