"""Parse the words on the command line into a command object.

tyro reads the words into forms, which hold only what was given. The command is built from that, on top of the
settings of a file and the defaults of its class.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

import tyro
from tyro.conf import DisallowNone, FlagCreatePairsOff, OmitArgPrefixes, Positional, arg, subcommand
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from gradsync.cli.commands import Gradsync, Studies, StudyRuns
from gradsync.cli.flags import GROUPS, WITH_COMMAS, Flag, flags_of, settings_in_command
from gradsync.cli.refused import OPTIONS, explain
from gradsync.config import read_file, read_values, settings_in
from gradsync.config.run import over
from gradsync.config.values import flag, listed, parsed, shown
from gradsync.errors import InputError, unknown
from gradsync.study import STUDIES
from gradsync.version import __version__

FEW = 12
"""A command with at most this many flags lists them without groups."""


class Form:
    """What tyro fills in: one class is made for every command, and one for every group of its flags."""

    command: ClassVar[Any] = None

    def __init__(self, **values: Any) -> None:
        self.values = values

    @classmethod
    def fields(cls) -> list[StructFieldSpec]:
        """Its fields, which tyro asks for only when the command is typed."""
        raise NotImplementedError

    @property
    def given(self) -> dict[str, Any]:
        """Name -> value of every flag that was typed, over all groups."""
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            setting, dot, option = name.partition(".")
            if isinstance(value, Form):
                found |= value.given
            elif value is not None:
                found[setting] = {**found.get(setting, {}), option: value} if dot else value
        return found


RULES = ConstructorRegistry()


@RULES.struct_rule
def form_rule(info: StructTypeInfo) -> StructConstructorSpec | None:
    if isinstance(info.type, type) and issubclass(info.type, Form):
        return StructConstructorSpec(instantiate=info.type, fields=tuple(info.type.fields()))
    return None


def parse(argv: Sequence[str]) -> Any:
    """Arguments to a command object."""
    if argv[:1] == ["--version"]:
        print(f"gradsync {__version__}")
        raise SystemExit(0)
    if argv[:1] == ["study"] and argv[1:] and argv[1].endswith(".toml"):
        return study_from_file(Path(argv[1]), argv[2:])
    return made(read(Gradsync, argv, "gradsync"))


def read(command: Any, argv: Sequence[str], place: str) -> Form:
    """Read the words into forms. What tyro refuses is reported in a sentence instead of its box."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            form = tyro.cli(
                form_of(command, options_in(argv)),
                args=argv,
                prog=place,
                description=described(command),
                config=(OmitArgPrefixes,),
                registry=RULES,
            )
    except SystemExit as end:
        if not end.code:  # --help
            raise
        raise explain(argv, command, place, said.getvalue()) from None
    while isinstance(form.values.get("action"), Form):
        form = form.values["action"]
    return form


def options_in(argv: Sequence[str]) -> tuple[str, ...]:
    """The options that are named, as ``--options.bucket-mb``: each is given a flag of its own.

    Which options there are only the class of the strategy knows, which may be the user's own, and needs torch.
    """
    named = (word.partition("=")[0] for word in argv if word.startswith(OPTIONS))
    return tuple(dict.fromkeys(name.replace("_", "-") for name in named if name not in OPTIONS))


def made(form: Form, beneath: Mapping[str, Any] | None = None) -> Any:
    """The command that a form describes; ``beneath``: settings that its flags override."""
    command, given = form.command, form.given
    within = settings_in_command(command)
    if within is None:
        return in_its_place(command, command(**given))
    name, kind = within
    if given.get("config"):
        beneath = read_file(given["config"], kind)
    own = {item.name for item in flags_of(kind)}
    flags = {key: value for key, value in given.items() if key in own}
    beside = {key: value for key, value in given.items() if key not in own}
    return in_its_place(command, command(**{name: kind(**over(dict(beneath or {}), flags))}, **beside))


def in_its_place(kind: Any, command: Any) -> Any:
    """An action goes into its command, as ``up`` into ``cluster``; a study is a command itself."""
    for outer in Gradsync.actions.values():
        if kind in getattr(outer, "actions", {}).values() and not isinstance(command, StudyRuns):
            return outer(action=command)
    return command


def study_from_file(path: Path, argv: Sequence[str]) -> StudyRuns[Any]:
    """The user's own grid, settings and [vary] with lists of values; or another study, with its settings."""
    values = read_values(path)
    name = values.pop("study", "sweep")
    if not isinstance(name, str) or name not in STUDIES:
        raise unknown(f"study in {path}:", shown(name), STUDIES)
    if name == "sweep":
        varied = values.pop("vary", {})
        if not isinstance(varied, dict) or not all(isinstance(items, list) for items in varied.values()):
            raise InputError(f"{path}: [vary] must be a table of lists, for instance lr = [0.01, 0.1].")
        if varied:
            values["vary"] = [f"{key}={','.join(map(text_of, items))}" for key, items in varied.items()]
    settings = settings_in(values, path, STUDIES[name])
    command = made(read(Studies.actions[name], argv, f"gradsync study {path}"), settings)
    command.run.called = path.stem
    return command


def text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def form_of(kind: Any, options: tuple[str, ...] = ()) -> type[Form]:
    """The form of a command: its actions, or its flags, in groups if there are many; ``options``: those named."""

    class CommandForm(Form):
        command = kind

        @classmethod
        def fields(cls) -> list[StructFieldSpec]:
            if actions := getattr(kind, "actions", None):
                return [StructFieldSpec("action", one_of(actions, options), tyro.MISSING_NONPROP)]
            flags = list(flags_of(kind))
            loose = [item for item in flags if len(flags) <= FEW or item.is_positional]
            groups = {name: [item for item in flags if item.group == name and item not in loose] for name in GROUPS}
            grouped = (group_of(name, items, options) for name, items in groups.items() if items)
            return [*fields_of(loose, options), *grouped]

    return CommandForm


def one_of(actions: dict[str, Any], options: tuple[str, ...]) -> Any:
    """The forms of the actions, as subcommands."""
    forms = [
        Annotated[form_of(kind, options), subcommand(name, prefix_name=False, description=described(kind))]
        for name, kind in actions.items()
    ]
    return Union[tuple(forms)]  # noqa: UP007 - built at run time


def described(command: Any) -> str:
    """The docstring of a command; for a study, that of the study."""
    within = settings_in_command(command) if get_origin(command) else None
    return " ".join(((within[1] if within else command).__doc__ or "").split())


def group_of(name: str, flags: Sequence[Flag], options: Sequence[str]) -> StructFieldSpec:
    class GroupForm(Form):
        __doc__ = GROUPS[name]

        @classmethod
        def fields(cls) -> list[StructFieldSpec]:
            return list(fields_of(flags, options))

    return StructFieldSpec(name, GroupForm, tyro.MISSING_NONPROP)


def fields_of(flags: Sequence[Flag], options: Sequence[str]) -> Iterator[StructFieldSpec]:
    """The flags, and after one that holds options a flag for each of them that was named."""
    for item in flags:
        yield field_of(item)
        for name in options:
            begin, _, option = name.partition(".")
            if begin == flag(item.name):
                kind: Any = Annotated[Any, ONE_TEXT, arg(name=name.removeprefix("--"))]
                yield StructFieldSpec(f"{item.name}.{option}", kind, None)


ONE_TEXT = PrimitiveConstructorSpec[Any](1, "VALUE", itemgetter(0), lambda _: True, lambda _: [])


def field_of(item: Flag) -> StructFieldSpec:
    """A flag as tyro sees it. A flag that is not typed gets no value, so that a file can set it."""
    typed = arg(aliases=item.aliases or None, help_behavior_hint=item.hint)
    default = tyro.MISSING_NONPROP if item.is_required else None
    kind: Any = Annotated[Any, primitive(item), typed]
    if item.kind is bool:
        kind = marked(DisallowNone, Annotated[bool | None, typed])
        kind = marked(FlagCreatePairsOff, kind) if item.is_one_way else kind
    elif item.is_positional:
        kind = marked(Positional, kind)
    return StructFieldSpec(item.name, kind, default, lambda: item.help)


def marked(marker: Any, kind: Any) -> Any:
    """A type with one of tyro's markers."""
    return marker[kind]


def primitive(item: Flag) -> PrimitiveConstructorSpec[Any]:
    """How many words belong to a flag, and what they become."""

    def value(words: Sequence[str]) -> Any:
        if get_origin(item.kind) is dict:
            return pairs(words)
        if get_origin(item.kind) is not tuple:
            return parsed(words[0], item.kind)
        whole = item.name in WITH_COMMAS or item.is_positional
        texts = words if whole else [part for word in words for part in listed(word)]
        return tuple(parsed(text, get_args(item.kind)[0]) for text in texts)

    return PrimitiveConstructorSpec(
        nargs="*" if item.takes_several else 1,
        metavar=metavar(item),
        instance_from_str=value,
        is_instance=lambda _: True,
        str_from_instance=lambda _: [],
    )


def pairs(words: Sequence[str]) -> dict[str, str]:
    if len(words) % 2:
        raise ValueError(f"{flag('options')} ends with {shown(words[-1])}: every name needs a value")
    return dict(zip(words[::2], words[1::2], strict=True))


def metavar(item: Flag) -> str:
    if item.is_positional:
        return f"{item.name.upper()} ..." if item.takes_several else item.name.upper()
    if get_origin(item.kind) is dict:
        return "NAME VALUE ..."
    names = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
    one = "|".join(names.get(kind) or "|".join(get_args(kind)) for kind in item.kinds)
    return f"{one},..." if get_origin(item.kind) is tuple and item.name not in WITH_COMMAS else one
