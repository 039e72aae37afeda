"""The flags of `orchard serve`, made from the table of settings."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from orchard.cli.settings.table import TABLE, Setting, flag_of
from orchard.cli.settings.values import SWITCH
from orchard.core.setting import GROUPS

Function = TypeVar("Function", bound=Callable[..., None])


class LongHelp(TyperCommand):
    """A command whose --help is plain text under headings: boxes cut the names of flags in narrow terminals."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.rich_markup_mode = None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the flags, each group under its heading."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if line := parameter.get_help_record(ctx):
                kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or kind, []).append(line)
        for heading, lines in groups.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


def with_settings(command: Function) -> Function:
    """Replace a command's `**values` by a flag for each name of each setting; flags that are absent are None.

    --help shows the first name of each setting that has an effect. Raise typer.BadParameter for a wrong value.
    """
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(setting, name))
        for setting in TABLE
        if setting.scope != "entry"
        for name in setting.names
    ]
    command.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
    return command


def _annotation(setting: Setting, name: str) -> Any:
    flag = flag_of(name)
    words = setting.default_words
    more: dict[str, Any] = {
        "help": f"{setting.help} [default: {words}]" if words else setting.help,
        "hidden": name != setting.names[0] or setting.group == "ignored",
        "rich_help_panel": GROUPS[setting.group],
        "show_default": False,
    }
    if setting.kind is SWITCH:
        names = flag if name.startswith("no_") else f"{flag}/--no-{flag[2:]}"
        return Annotated[bool | None, typer.Option(names, **more)]

    def parse(text: str) -> Any:
        try:
            return setting.kind.read(text)
        except ValueError as error:
            raise typer.BadParameter(f"{error}.") from None

    option = typer.Option(flag, parser=parse, metavar=setting.kind.metavar, **more)
    may_repeat = setting.kind.shape is list or setting.name == "model_path"
    return Annotated[list[Any] | None, option] if may_repeat else Annotated[Any, option]
