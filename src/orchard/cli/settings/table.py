"""Every setting of `orchard serve`, as the fields of Structs describe it (`orchard.core.setting`), and its flags."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

import typer
from msgspec import NODEFAULT, Struct, structs
from msgspec.inspect import StructType, UnionType
from typer.core import TyperCommand

from orchard.cli.settings.values import SWITCH, Kind, fields_of, format_size, kind_of_type, kind_or_zero, unwrap_type
from orchard.config import IgnoredSettings, ModelSettings, Settings, Shorthands
from orchard.core.setting import GROUPS, Scope

Function = TypeVar("Function", bound=Callable[..., None])


class Setting(Struct, frozen=True, kw_only=True):
    """One setting; `name` is the field that it sets in each of `homes`. `orchard.core.setting` explains the rest."""

    name: str
    homes: tuple[type[Struct], ...]
    kind: Kind
    default: Any
    help: str
    group: str
    scope: Scope
    zero_is_none: bool
    also: tuple[str, ...] = ()
    flag: str = ""
    unset: str = ""
    example: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the flag's first. Each is valid in the file, as a flag and as ORCHARD_NAME."""
        default = [f"default_{self.name}"] if self.group == "requests" else []
        return tuple(dict.fromkeys((self.flag or self.name, self.name, *default, *filter(str.islower, self.also))))

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that other servers use for it."""
        return tuple(filter(str.isupper, self.also))

    @property
    def only_in_file(self) -> bool:
        """Whether neither a flag nor a variable can set it."""
        return self.scope == "entry" or (self.kind.shape is dict and self.kind.instead is None)

    @property
    def default_words(self) -> str:
        """The default as shown to users; empty for a setting that has no effect."""
        if self.unset or self.group == "ignored":
            return self.unset
        if self.default in (None, (), {}):
            return "the model's" if self.group == "requests" else "none"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if self.kind.metavar == "SIZE":
            return format_size(self.default)
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def flag_of(name: str) -> str:
    """Return the flag of a setting's name."""
    return f"--{name.replace('_', '-')}"


def settings_of(struct: type[Struct], scope: Scope) -> Iterator[Setting]:
    """Yield the settings that the fields of a Struct describe, and those of the Structs in it."""
    for field in fields_of(struct).values():
        found, extra = unwrap_type(field.type)
        for inner in found.types if isinstance(found, UnionType) else (found,):
            if isinstance(inner, StructType):
                yield from settings_of(inner.cls, "all")
        if "group" in extra:
            own = kind_of_type(found, extra.pop("kind", None))
            yield Setting(
                name=field.name,
                homes=(struct,),
                kind=kind_or_zero(own) if extra["zero_is_none"] else own,
                default={} if field.default is NODEFAULT else field.default,
                help=extra.pop("description"),
                scope=extra.pop("scope") or scope,
                **extra,
            )


def build_table(scopes: Mapping[type[Struct], Scope]) -> tuple[Setting, ...]:
    """Return the settings of these Structs, in the order of their groups.

    A field that several Structs have is one setting, which applies to the server and to all models. Raise TypeError
    if two Structs describe it differently.
    """
    found: dict[str, Setting] = {}
    for struct, scope in scopes.items():
        for setting in settings_of(struct, scope):
            other = found.setdefault(setting.name, setting)
            if (setting.help, setting.kind.words) != (other.help, other.kind.words):
                raise TypeError(f"{struct.__name__}.{setting.name} is described differently in {other.homes}")
            if not set(setting.homes) <= set(other.homes):
                found[setting.name] = structs.replace(other, homes=other.homes + setting.homes, scope="all")
    groups = list(GROUPS)
    return tuple(sorted(found.values(), key=lambda setting: groups.index(setting.group)))


TABLE = build_table({ModelSettings: "entry", Settings: "server", Shorthands: "server", IgnoredSettings: "all"})


@cache
def settings_by_name() -> dict[str, Setting]:
    """Return every setting by each of its names."""
    return {name: setting for setting in TABLE for name in setting.names}


@cache
def settings_by_variable() -> dict[str, Setting]:
    """Return settings by their environment variables."""
    settings = [setting for setting in TABLE if not setting.only_in_file]
    own = {f"ORCHARD_{name.upper()}": setting for setting in settings for name in setting.names}
    return own | {variable: setting for setting in settings for variable in setting.variables}


class LongHelp(TyperCommand):
    """A command whose --help is plain text under headings, because boxes cut flag names in narrow terminals."""

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


def add_setting_flags(command: Function) -> Function:
    """Replace a command's `**values` by a flag for each name of each setting. Absent flags are None.

    --help shows the first name of each setting that has an effect. Raise typer.BadParameter for a wrong value.
    """
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(setting, name))
        for setting in TABLE
        if not setting.only_in_file
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
