"""More answers as models write them: the families of 2026."""

from typing import Any

from tests.support.format_reading import Call

PARIS = Call("weather", '{"city": "Paris"}')
PARIS_3 = Call("weather", '{"city": "Paris", "days": 3}')
NOW = Call("now")
_PARIS = '{"city": "Paris"}'


def _marked(parser: str, mark: str, section: str) -> list[tuple[Any, ...]]:
    """Specimens of tags with a mark before their names."""

    def parameter(name: str, value: str, string: str) -> str:
        return f'<{mark}parameter name="{name}" string="{string}">{value}</{mark}parameter>\n'

    def call(name: str, parameters: str = "") -> str:
        return f'<{mark}invoke name="{name}">\n{parameters}</{mark}invoke>\n'

    opening, closing = f"<{mark}{section}>\n", f"</{mark}{section}>"
    city, days = parameter("city", "Paris", "true"), parameter("days", "3", "false")
    weather = f"{opening}{call('weather', city)}{closing}"
    return [
        (parser, weather, [PARIS], "none", "", True),
        (parser, f"{opening}{call('weather', city + days)}{call('now')}{closing}", [PARIS_3, NOW], "none", "", True),
        (parser, f"Hm.</think>I look.\n\n{weather}", ["[Hm.]", "I look.", PARIS], "think", "<think>"),
        (parser, f"</think>Hi <{mark}!", [f"Hi <{mark}!"], "think", "<think></think>"),
        (parser, f"{opening}{call('weather', city)}", [PARIS]),
        (parser, call("now"), [NOW]),
        (
            parser,
            f"{opening}{call('write', parameter('any', '[1]', 'true') + parameter('mixed', '5', 'false'))}{closing}",
            [Call("write", '{"any": "[1]", "mixed": 5}')],
            "none",
            "",
            True,
        ),
        (parser, f"So.\n\n{opening}<{mark}invoke>", [f"So.\n\n{opening}<{mark}invoke>"]),
    ]


DEEPSEEK_V41 = _marked("deepseek_v41", "｜DSML｜ ", "calls")
GIGACHAT_35 = _marked("gigachat35", "｜GCML｜", "tool_calls")


def _plamo(tag: str) -> str:
    return f"<|plamo:{tag}:plamo|>"


_THINK, _END_THINK = _plamo("begin_think"), _plamo("end_think")
_REQUESTS, _END_REQUESTS = _plamo("begin_tool_requests"), _plamo("end_tool_requests")
_JSON = "<|plamo:constrain|>json"


def _request(name: str, arguments: str, kind: str = _JSON) -> str:
    named = f"{_plamo('begin_tool_name')}{name}{_plamo('end_tool_name')}"
    given = f"{_plamo('begin_tool_arguments')}{kind}<|plamo:msg|>{arguments}{_plamo('end_tool_arguments')}"
    return f"{_plamo('begin_tool_request')}{named}{given}{_plamo('end_tool_request')}"


_PLAMO_CALL = f"{_REQUESTS}{_request('weather', _PARIS)}{_END_REQUESTS}"
_PLAMO_OPEN = _PLAMO_CALL[: _PLAMO_CALL.index("}") + 1]
PLAMO = [
    ("plamo3", _PLAMO_CALL, [PARIS], "none", "", True),
    (
        "plamo3",
        f"{_REQUESTS}{_request('weather', _PARIS)}{_request('now', '{}')}{_END_REQUESTS}",
        [PARIS, NOW],
        "none",
        "",
        True,
    ),
    ("plamo3", f"{_REQUESTS}{_request('weather', _PARIS, '')}{_END_REQUESTS}", [PARIS]),
    (
        "plamo3",
        f"{_THINK}Hm.{_END_THINK}I look.{_PLAMO_CALL}<|plamo:tag|>",
        ["[Hm.]", "I look.", PARIS],
        "plamo3",
    ),
    ("plamo3", f"Hm.{_END_THINK}Hi", ["[Hm.]", "Hi"], "plamo3", f"<|plamo:msg|>{_THINK}"),
    ("plamo3", f"{_END_THINK}A{_THINK}R{_END_THINK}B{_END_THINK}C", ["A", "[R]", "BC"], "plamo3"),
    ("plamo3", f"{_THINK}Hm.{_PLAMO_CALL}", ["[Hm.]", PARIS], "plamo3"),
    ("plamo3", _PLAMO_OPEN, [PARIS]),
    ("plamo3", _PLAMO_OPEN[:-3], [_PLAMO_OPEN[:-3]]),
]


def _hy4(suffix: str) -> tuple[str, str, str]:
    """The text of one call of Hy4, of two, and of one that breaks."""

    def pair(name: str, value: str) -> str:
        key = f"<arg_key{suffix}>{name}</arg_key{suffix}>"
        return f"{key}<arg_value{suffix}>{value}</arg_value{suffix}>"

    def call(name: str, pairs: str = "") -> str:
        return f"<tool_call{suffix}>{name}{pairs}</tool_call{suffix}>"

    opening, closing = f"<tool_calls{suffix}>", f"</tool_calls{suffix}>"
    weather = call("weather", pair("city", "Paris"))
    several = call("weather", pair("city", "Paris") + pair("days", "3")) + call("now")
    return f"{opening}{weather}{closing}", f"{opening}{several}{closing}", f"{opening}{weather[:-40]}"


_HY4_ONE, _HY4_TWO, _HY4_BROKEN = _hy4(":6124c78e")
HY4 = [
    ("hy_v4", "Hi <think>!", ["Hi <think>!"]),
    ("hy_v4", "Hm.</think:6124c78e>Hi", ["[Hm.]", "Hi"], "hy_v4", "<think:6124c78e>"),
    ("hy_v4", _HY4_ONE, [PARIS], "none", "", True),
    ("hy_v4", _HY4_TWO, [PARIS_3, NOW], "none", "", True),
    ("hy_v4", f"Hm.</think:6124c78e>\n\nI look.{_HY4_ONE}", ["[Hm.]", "I look.", PARIS], "hy_v4", "<think:6124c78e>"),
    ("hy_v4", _HY4_ONE.replace("><", ">\n<"), [PARIS]),
    ("hy_v4", _HY4_BROKEN, [_HY4_BROKEN]),
]


def _ifm(name: str, *pairs: tuple[str, ...]) -> str:
    """A call of K2 Horizon; a pair may have a type."""
    written = ""
    for key, value, *kind in pairs:
        written += f"<ifm|arg_key>{key}</ifm|arg_key>\n"
        written += "".join(f"<ifm|arg_type>{one}</ifm|arg_type>\n" for one in kind)
        written += f"<ifm|arg_value>{value}</ifm|arg_value>\n"
    return f"<ifm|tool_call>{name}\n{written}</ifm|tool_call>\n"


def _ifms(*calls: str) -> str:
    return f"<ifm|tool_calls>\n{''.join(calls)}</ifm|tool_calls>"


_K2_PARIS = _ifm("weather", ("city", "Paris"))
_K2_JSON = '<ifm|tool_call>{"name": "weather", "arguments": {"city": "Paris", "days": "3"}}</ifm|tool_call>'
_FAST = "<ifm|think_fast>"
K2_HORIZON = [
    ("k2_horizon", _ifms(_K2_PARIS), [PARIS], "none", "", True),
    (
        "k2_horizon",
        _ifms(_ifm("weather", ("city", "Paris"), ("days", "3")), _ifm("now")),
        [PARIS_3, NOW],
        "none",
        "",
        True,
    ),
    ("k2_horizon", _ifms(_ifm("weather", ("city", "Paris", "string"), ("days", "3", "integer"))), [PARIS_3]),
    (
        "k2_horizon",
        _ifms(_ifm("write", ("any", "[1]", "array[integer]"), ("mixed", "5", "string"))),
        [Call("write", '{"any": [1], "mixed": "5"}')],
    ),
    ("k2_horizon", _ifms(_ifm("write", ("any", "[1]", "string"))), [Call("write", '{"any": "[1]"}')]),
    ("k2_horizon", _ifms(_K2_JSON), [PARIS_3]),
    (
        "k2_horizon",
        _ifms(_K2_JSON, '\n<ifm|tool_call>{"name": "now"}</ifm|tool_call>'),
        [PARIS_3, NOW],
    ),
    ("k2_horizon", _ifms(_K2_PARIS).replace("\n", ""), [PARIS]),
    ("k2_horizon", f"Hm.</ifm|think>Hi{_ifms(_K2_PARIS)}", ["[Hm.]", "Hi", PARIS], "k2_horizon", "<ifm|think>"),
    ("k2_horizon", "Hm.</ifm|think_fast>Hi", ["[Hm.]", "Hi"], "k2_horizon", _FAST),
    ("k2_horizon", "Hm.</ifm|think>Hi", ["[Hm.]", "Hi"], "k2_horizon", _FAST),  # not the tag that it was opened with
    ("k2_horizon", f"Hm.{_ifms(_K2_PARIS)}", ["[Hm.]", PARIS], "k2_horizon", "<ifm|think_faster>"),
    ("k2_horizon", _ifms(_K2_PARIS)[:-70], [_ifms(_K2_PARIS)[:-70]]),
]

_MODEL, _END = "<|message_model|>", "<|end_message|>"
_THINKING, _TEXT = "<|content_thinking|>", "<|content_text|>"


def _block(name: str, arguments: str, header: str = "") -> str:
    return f'{header}<|content_invoke_tool_json|>{{"name":"{name}","args":{arguments}}}'


def _inkling(text: str, expected: list[Call | str], prompt: str = _MODEL, *, forced: bool = False) -> tuple[Any, ...]:
    return "inkling", text, expected, "inkling", prompt, forced


_PAYLOAD = '{"city":"Paris"}'
INKLING_PARIS = Call("weather", _PAYLOAD)
INKLING = [
    _inkling(_block("weather", _PAYLOAD, "weather"), [INKLING_PARIS], forced=True),
    _inkling(
        f"{_block('weather', _PAYLOAD, 'weather')}{_END}{_MODEL}{_block('now', '{}', 'now')}",
        [INKLING_PARIS, NOW],
        forced=True,
    ),
    _inkling(f"{_TEXT}Hi{_END}", ["Hi"]),
    _inkling("Hi <there>!", ["Hi <there>!"]),
    _inkling(f"hello{_END}", ["hello"]),
    _inkling(
        f"{_THINKING}Hm.{_END}{_MODEL}{_TEXT}I look.{_END}{_MODEL}{_block('weather', _PAYLOAD)}{_END}",
        ["[Hm.]", "I look.", INKLING_PARIS],
    ),
    _inkling(f"{_THINKING}A{_END}{_MODEL}{_TEXT}B{_END}{_MODEL}{_THINKING}C{_END}", ["[A]", "B", "[C]"]),
    _inkling(f"{_THINKING}Hm.{_END}{_MODEL}{_TEXT}Hi<|content_model_end_sampling|>", ["[Hm.]", "Hi"]),
    _inkling(f"{_THINKING}Hm.{_block('now', '{}')}{_END}", ["[Hm.]", NOW]),
    _inkling(f"{_block('now', '{}')}{_END}{_MODEL}{_TEXT}So.{_END}", [NOW, "So."]),
    _inkling("<|content_invoke_tool_text|>do it<|end_message|>", ["do it"]),
    _inkling("<|content_tool_error|>no<|end_message|>", ["no"]),
    _inkling(f"{_TEXT}see {_TEXT} it{_END}", ["see  it"]),
    _inkling(f"m.{_END}{_MODEL}{_TEXT}Hi", ["[m.]", "Hi"], f"{_MODEL}{_THINKING}H"),
    _inkling(f"{_block('weather', 'none')}{_END}{_MODEL}{_TEXT} So.", ['{"name":"weather","args":none} So.']),
    _inkling(_block("weather", '{"city":"Paris","days":"3"}') + _END, [Call("weather", '{"city":"Paris","days":3}')]),
]

SPECIMENS: list[tuple[Any, ...]] = [*DEEPSEEK_V41, *GIGACHAT_35, *PLAMO, *HY4, *K2_HORIZON, *INKLING]
"""The fields of specimens.Specimen."""

_TAGS = ("<think>", "</think>")
_HY4_TAGS = ("<think:6124c78e>", "</think:6124c78e>")
TEMPLATES: list[tuple[str, set[str], str, tuple[str, str] | None]] = [
    ("'<｜DSML｜ calls>' <think>", set(), "deepseek_v41", _TAGS),
    ("dsml = '｜DSML｜' '<' ~ dsml ~ ' calls>' <think>", set(), "deepseek_v41", _TAGS),
    ("'<｜DSML｜other_calls>' <think>", set(), "json", _TAGS),
    ("<|role_sep|> function call '<｜GCML｜tool_calls>' <think>", set(), "gigachat35", _TAGS),
    ("<|role_sep|>", set(), "json", None),
    (
        f"{_REQUESTS} {_THINK}",
        {"<|plamo:begin_", ":plamo|>"},
        "plamo3",
        (_THINK, _END_THINK),
    ),
    ("{%- set HYTK = ':6124c78e' %} '<tool_calls{}>'.format(HYTK)", set(), "hy_v4", _HY4_TAGS),
    ("'<tool_calls{}>'.format(HYTK)", {"<tool_calls:6124c78e>"}, "hy_v4", _HY4_TAGS),
    ("'<tool_calls{}>'.format(HYTK)", {"<tool_calls>"}, "hy_v4", _TAGS),
    ("", {"<tool_calls:1a>", "<tool_sep:1a>"}, "hy_v3", ("<think:1a>", "</think:1a>")),
    ("<ifm|tool_calls> <ifm|think>", {"<tool_call>", "</tool_call>"}, "k2_horizon", ("<ifm|think>", "</ifm|think>")),
    ("<|message_model|> <|content_invoke_tool_json|>", set(), "inkling", ("<|content_thinking|>", "<|end_message|>")),
    ("", {"<|content_invoke_tool_json|>"}, "inkling", ("<|content_thinking|>", "<|end_message|>")),
]
