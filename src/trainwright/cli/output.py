"""Objects the way kubectl writes them: `-o json`, `yaml`, `name`, `jsonpath=…`, and a line about what was done."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from trainwright.core.objects import Object

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Output:
    """The form a user wants objects in: "json", "yaml", "name", "wide" or "jsonpath", with its template."""

    form: str
    template: str = ""


class OutputType(click.ParamType[Output]):
    """`-o` on the command line."""

    name = "form"

    def __init__(self, *forms: str) -> None:
        self._forms = (*forms, "json", "yaml", "name", "jsonpath=…")

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        """Return the forms, to stand in the help."""
        return "|".join(self._forms)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        """Return the form, or fail with those there are."""
        if isinstance(value, Output):
            return value
        form, equals, template = str(value).partition("=")
        known = [each.partition("=")[0] for each in self._forms]
        if form not in known or (form == "jsonpath") != bool(equals and template):
            self.fail(f"{value!r} is no form; write one of {', '.join(self._forms)}", param, ctx)
        return Output(form, template)


def output_option(*forms: str) -> Callable[[_Command], _Command]:
    """Return the option `-o`, with the forms every command has and those of this one."""
    return click.option("-o", "--output", type=OutputType(*forms), help="Print the objects in this form instead.")


def name_of(obj: Object) -> str:
    """Return "pytorchjob.kubeflow.org/mnist": what names an object of any kind, also on our own command lines."""
    group, slash, _ = str(obj.get("apiVersion", "")).rpartition("/")
    kind = f"{obj['kind'].lower()}.{group}" if slash else obj["kind"].lower()
    return f"{kind}/{obj['metadata']['name']}"


def tell(done: Sequence[tuple[Object, str]], output: Output | None) -> None:
    """Say what was done to objects, one line each, or print them as the user wants."""
    if output is None:
        for obj, what in done:
            click.echo(f"{name_of(obj)} {what}")
    else:
        click.echo(printed([obj for obj, _ in done], output), nl=False)


def printed(objects: Sequence[Object], output: Output) -> str:
    """Return objects in the form a user wants: one as itself, several as a List."""
    if output.form == "name":
        return "".join(f"{name_of(obj)}\n" for obj in objects)
    value = objects[0] if len(objects) == 1 else as_list(objects)
    return in_form(value, output)


def in_form(value: Any, output: Output) -> str:
    """Return one value as JSON, as YAML, or as a jsonpath finds it."""
    if output.form != "jsonpath":
        return dump(value, output.form)
    from trainwright.core import jsonpath

    return jsonpath.render(output.template, value)


def dump(value: Any, form: str) -> str:
    """Return an object as one text."""
    if form == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    from trainwright.cli import yaml_text

    return yaml_text.Writer().document(value)


def documents(objects: Iterable[Object]) -> Iterator[str]:
    """Yield the YAML documents of a stream one by one, so that the whole text is never in memory."""
    from trainwright.cli import yaml_text

    return yaml_text.documents(objects)


def stream(objects: Iterable[Object], form: str) -> str:
    """Return several objects as one stream: YAML documents, or a JSON list that kubectl takes."""
    if form == "json":
        return dump(as_list(list(objects)), "json")
    return "".join(documents(objects))


def as_list(objects: Sequence[Object]) -> Object:
    """Return objects as the API's List."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
