"""More answers as models write them: text, reasoning, one call, two, text and a call, and one that is cut off."""

from typing import Any

from tests.support.format_reading import Call

PARIS = Call("weather", '{"city": "Paris"}')
PARIS_3 = Call("weather", '{"city": "Paris", "days": 3}')
NOW = Call("now")

_M = "]<]minimax[>["
_M3_NOW = f'{_M}<invoke name="now">{_M}</invoke>\n'


def _m3(name: str, arguments: str) -> str:
    return f'{_M}<tool_call>\n{_M}<invoke name="{name}">{arguments}{_M}</invoke>\n{_M}</tool_call>'


def _element(name: str, value: str) -> str:
    return f"{_M}<{name}>{value}{_M}</{name}>"


_M3_CITY = _element("city", "Paris")
_M3_CALL = _m3("weather", _M3_CITY)
_M3_DEEP = _element("filter", _element("a", _element("b", "1") + _element("c", _element("item", "x") * 2)))
MINIMAX_M3 = [
    ("minimax_m3", "</mm:think>Hi <b>!", ["Hi <b>!"], "minimax_m3"),
    ("minimax_m3", "<mm:think>Hm.</mm:think>Hi", ["[Hm.]", "Hi"], "minimax_m3"),
    ("minimax_m3", "Hm.</mm:think>Hi", ["[Hm.]", "Hi"], "minimax_m3", "]~b]ai\n<mm:think>"),
    ("minimax_m3", _M3_CALL, [PARIS], "none", "", True),
    ("minimax_m3", _m3("weather", _M3_CITY + _element("days", "3")), [PARIS_3], "none", "", True),
    (
        "minimax_m3",
        _M3_CALL.replace(f"{_M}</tool_call>", f"{_M3_NOW}{_M}</tool_call>"),
        [PARIS, NOW],
        "none",
        "",
        True,
    ),
    ("minimax_m3", f"<mm:think>Hm.</mm:think>I look.{_M3_CALL}", ["[Hm.]", "I look.", PARIS], "minimax_m3"),
    (
        "minimax_m3",
        _m3("search", _element("query", "a\n< b") + _element("tags", _element("item", "x") * 2)),
        [Call("search", '{"query": "a\\n< b", "tags": ["x", "x"]}')],
        "none",
        "",
        True,
    ),
    (
        "minimax_m3",
        _m3("search", f"{_M3_DEEP}{_element('tags', '')}{_element('exact', 'true')}{_element('limit', '0.5')}"),
        [Call("search", '{"filter": {"a": {"b": "1", "c": ["x", "x"]}}, "tags": [], "exact": true, "limit": 0.5}')],
    ),
    (
        "minimax_m3",
        _m3("search", _element("tags", '["x"]') + _element("filter", '{"a": 1}')),
        [Call("search", '{"tags": ["x"], "filter": {"a": 1}}')],
    ),
    (
        "minimax_m3",
        _m3("write", _element("content", f"{_M}<b>{_M}</b>") + _element("any", _element("x", "1"))),
        [Call("write", f'{{"content": "{_M}<b>{_M}</b>", "any": {{"x": "1"}}}}')],
    ),
    ("minimax_m3", _M3_CALL.removesuffix(f"\n{_M}</tool_call>"), [PARIS]),
    ("minimax_m3", _M3_CALL[:-60], [_M3_CALL[:-60]]),
    (
        "minimax_m3",
        _m3("search", _element("tags", _element("x", "1"))),
        [_m3("search", _element("tags", _element("x", "1")))],
    ),
]

_MUSE = "<|start|>assistant"
_USER, _SELF = " to=user<|message|>", " to=self<|message|>"


def _atem(name: str, parameters: str = "") -> str:
    call = f'<atem:invoke name="{name}">\n{parameters}</atem:invoke>'
    return f" to={name}<|message|><atem:function_calls>\n{call}\n</atem:function_calls>"


_ATEM_CITY = '<atem:parameter name="city">Paris</atem:parameter>\n'
_ATEM_CALL = _atem("weather", _ATEM_CITY)
_ATEM_BLOCK = _ATEM_CALL.partition("<|message|>")[2]


def _muse(
    text: str, expected: list[Call | str], prompt: str = f"<|eot|>{_MUSE}", *, forced: bool = False
) -> tuple[Any, ...]:
    return "muse_glimmer", text, expected, "muse_glimmer", prompt, forced


MUSE = [
    _muse(f"{_USER}Hi <b>!<|eot|>", ["Hi <b>!"]),
    _muse(f"{_USER}Hi", ["Hi"]),
    _muse("<|message|>Hi<|eot|>", ["Hi"]),
    _muse("Hi", ["Hi"]),
    _muse(f"{_SELF}Hm.\n<|eom|>{_MUSE}{_USER}Hi<|eot|>", ["[Hm.\n]", "Hi"]),
    _muse(f"{_SELF}Hm.{_MUSE}{_USER}Hi", ["[Hm.]", "Hi"]),
    _muse(_ATEM_CALL, [PARIS], forced=True),
    _muse(f"{_ATEM_CALL}<|eom|>{_MUSE}{_atem('now')}", [PARIS, NOW], forced=True),
    _muse(f"{_ATEM_CALL}{_atem('now').partition('<|message|>')[2]}<|eot|>", [PARIS, NOW]),
    _muse(f"{_USER}I look.<|eom|>{_MUSE}{_ATEM_CALL}<|eot|>", ["I look.", PARIS]),
    _muse(
        f"{_SELF}Maybe {_ATEM_BLOCK}?<|eom|>{_MUSE}{_USER}So: {_ATEM_BLOCK}",
        [f"[Maybe {_ATEM_BLOCK}?]", f"So: {_ATEM_BLOCK}"],
    ),
    _muse(_ATEM_CALL.replace("<atem:function_calls>\n", "").replace("\n</atem:function_calls>", ""), [PARIS]),
    _muse(" to=weather<|message|>Nothing.<|eot|>", ["Nothing."]),
    _muse(f"{_USER}Hi<|eom|>{_MUSE} to=", ["Hi"]),
    _muse(f"{_USER}Hi<|eom|>{_MUSE} to me", [f"Hi{_MUSE} to me"]),
    _muse(_ATEM_CALL[:-60], [_ATEM_BLOCK[:-60]]),
    _muse(" more.<|eot|>", [" more."], f"{_MUSE}{_USER}So"),
    _muse(f" more.<|eom|>{_MUSE}{_USER}Hi", ["[ more.]", "Hi"], f"{_MUSE}{_SELF}Hm"),
]


def _functionary(
    text: str, expected: list[Call | str], prompt: str = "<|end_header_id|>\n\n>>>", *, forced: bool = False
) -> tuple[Any, ...]:
    return "functionary_v3_2", text, expected, "functionary_v3_2", prompt, forced


FUNCTIONARY = [
    _functionary("all\nHi", ["Hi"]),
    _functionary("Hi\nthere", ["Hi\nthere"]),
    _functionary('weather\n{"city": "Paris"}', [PARIS], forced=True),
    _functionary('weather\n{"city": "Paris"}>>>now\n{}', [PARIS, NOW], forced=True),
    _functionary('all\nI look.\n>>>weather\n{"city": "Paris", "days": "3"}\n>>>now\n{}', ["I look.\n", PARIS_3, NOW]),
    _functionary("all\n>>> 1 + 1\n>>>all of it", [">>> 1 + 1\n>>>all of it"]),
    _functionary('weather\n{"city": "Pa', ['{"city": "Pa']),
    _functionary('weather\n{"city": "Paris"}\nDone.', [PARIS, "Done."]),
    _functionary(" it is.", [" it is."], "<|end_header_id|>\n\n>>>all\nSo"),
    ("functionary_v3_1", "Hi <b>!", ["Hi <b>!"]),
    ("functionary_v3_1", '<function=weather>{"city": "Paris"}</function>', [PARIS], "none", "", True),
    (
        "functionary_v3_1",
        '<function=weather>{"city": "Paris"}</function><function=now>{}</function>',
        [PARIS, NOW],
        "none",
        "",
        True,
    ),
    ("functionary_v3_1", 'I look.\n<function=weather>\n{"city": "Paris"}\n</function>', ["I look.", PARIS]),
    ("functionary_v3_1", '<function=weather>{"city": "Paris"}', [PARIS]),
    ("functionary_v3_1", '<function=weather>{"city": "Pa', ['<function=weather>{"city": "Pa']),
    ("functionary_v3_1", "<function=>{}</function>", ["<function=>{}</function>"]),
]

_MINI = '<function name="weather"><param name="city">Paris</param></function>'
_MINI_NOW = '<function name="now"></function>'
MINICPM = [
    ("minicpm5", "Hi <b>!", ["Hi <b>!"]),
    ("minicpm5", "<think>\nHm.\n</think>\n\nHi", ["[Hm.]", "Hi"], "think"),
    ("minicpm5", _MINI, [PARIS], "none", "", True),
    ("minicpm5", f"{_MINI}\n{_MINI_NOW}", [PARIS, NOW], "none", "", True),
    ("minicpm5", f"Hm.\n</think>\n\nI look.\n{_MINI}", ["[Hm.]", "I look.", PARIS], "think", "<think>\n"),
    (
        "minicpm5",
        '<function name="write"><param name="content"><![CDATA[a</param>]]\n&amp;<b>]]></param>'
        '<param name="path"> x </param></function>',
        [Call("write", '{"content": "a</param>]]\\n&amp;<b>", "path": " x "}')],
    ),
    (
        "minicpm5",
        '<function name="search"><param name="tags">["a", "b"]</param><param name="exact">True</param></function>',
        [Call("search", '{"tags": ["a", "b"], "exact": true}')],
    ),
    ("minicpm5", _MINI[:-5], [PARIS]),
    ("minicpm5", _MINI[:-20], [_MINI[:-20]]),
    ("minicpm5", "<function name=>", ["<function name=>"]),
]

_STEP_CITY = '<steptml:parameter name="city">Paris</steptml:parameter>\n'


def _step(name: str, parameters: str = "") -> str:
    invoke = f'<steptml:invoke name="{name}">\n{parameters}</steptml:invoke>'
    return f"<｜tool_call_begin｜>function<｜tool_sep｜>{invoke}<｜tool_call_end｜>\n"


_STEPS, _END_STEPS = "<｜tool_calls_begin｜>\n", "<｜tool_calls_end｜>"
STEP = [
    ("step3", "Hi <b>!", ["Hi <b>!"]),
    ("step3", "Hm.\n</think>\n\nHi", ["[Hm.]", "Hi"], "think", "<think>\n"),
    ("step3", f"{_STEPS}{_step('weather', _STEP_CITY)}{_END_STEPS}", [PARIS], "none", "", True),
    ("step3", f"{_STEPS}{_step('weather', _STEP_CITY)}{_step('now')}{_END_STEPS}", [PARIS, NOW], "none", "", True),
    ("step3", f"I look.\n\n{_STEPS}{_step('weather', _STEP_CITY)}{_END_STEPS}", ["I look.", PARIS]),
    ("step3", f"{_STEPS}{_step('weather', _STEP_CITY)}"[:-5], [PARIS]),
    ("step3", f"{_STEPS}{_step('weather', _STEP_CITY)}"[:-70], [f"{_STEPS}{_step('weather', _STEP_CITY)}"[:-70]]),
]

_ACTION = 'Action:\n```json\n[\n    {"tool_name": "weather", "parameters": {"city": "Paris"}}'
_JSON = '{"name": "weather", "arguments": {"city": "Paris"}}'
_JSON_NOW = '{"name": "now", "arguments": {}}'
_PLUGIN = '<|action_start|><|plugin|>\n{{"name": "{}", "parameters": {}}}<|action_end|>'
_PLUGIN_PARIS = _PLUGIN.format("weather", '{"city": "Paris"}')
LISTS = [
    ("command_r_plus", "Action: none.", ["Action: none."]),
    ("command_r_plus", f"{_ACTION}\n]```", [PARIS], "none", "", True),
    (
        "command_r_plus",
        f'{_ACTION},\n    {{"tool_name": "now", "parameters": {{}}}}\n]```',
        [PARIS, NOW],
        "none",
        "",
        True,
    ),
    (
        "command_r_plus",
        'Plan: I look.\nAction: ```json\n[\n    {\n        "tool_name": "weather",\n        "parameters": {\n'
        '            "city": "Paris"\n        }\n    }\n]\n```',
        ["Plan: I look.", Call("weather", '{\n            "city": "Paris"\n        }')],
    ),
    ("command_r_plus", _ACTION, [PARIS]),
    ("command_r_plus", _ACTION[:-4], [_ACTION[:-4]]),
    ("granite_20b_fc", "Hi <b>!", ["Hi <b>!"]),
    ("granite_20b_fc", f"<function_call> {_JSON}", [PARIS], "none", "", True),
    ("granite_20b_fc", f"<function_call> {_JSON}<function_call> {_JSON_NOW}", [PARIS, NOW], "none", "", True),
    ("granite_20b_fc", f"I look. <function_call>{_JSON}\n<function_call>{_JSON_NOW}", ["I look. ", PARIS, NOW]),
    ("granite_20b_fc", f"<function_call> {_JSON[:-8]}", [f"<function_call> {_JSON[:-8]}"]),
    ("internlm", "Hi <b>!", ["Hi <b>!"]),
    ("internlm", _PLUGIN_PARIS, [PARIS], "none", "", True),
    ("internlm", f"{_PLUGIN_PARIS}{_PLUGIN.format('now', '{}')}", [PARIS, NOW], "none", "", True),
    (
        "internlm2",
        f"I look.{_PLUGIN_PARIS.replace('parameters', 'arguments')}",
        ["I look.", PARIS],
    ),
    ("internlm", _PLUGIN_PARIS.removesuffix("<|action_end|>"), [PARIS]),
    ("internlm", _PLUGIN_PARIS[:-25], [_PLUGIN_PARIS[:-25]]),
    (
        "internlm",
        "<|action_start|><|interpreter|>\nx = 1<|action_end|>",
        ["<|action_start|><|interpreter|>\nx = 1<|action_end|>"],
    ),
]

_HY_CITY = "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Paris</arg_value:opensource>\n"


def _hy(name: str, arguments: str = "") -> str:
    return f"<tool_call:opensource>{name}<tool_sep:opensource>\n{arguments}</tool_call:opensource>\n"


_HY_CALLS, _HY_END = "<tool_calls:opensource>\n", "</tool_calls:opensource>"
_HY_CUT = f"{_HY_CALLS}{_hy('weather', _HY_CITY)[:-60]}"
HY3 = [
    ("hy_v3", "Hi <think>!", ["Hi <think>!"]),
    ("hy_v3", "Hm.</think:opensource>Hi", ["[Hm.]", "Hi"], "hy_v3", "<｜hy_Assistant:opensource｜><think:opensource>"),
    ("hy_v3", f"{_HY_CALLS}{_hy('weather', _HY_CITY)}{_HY_END}", [PARIS], "none", "", True),
    ("hy_v3", f"{_HY_CALLS}{_hy('weather', _HY_CITY)}{_hy('now')}{_HY_END}", [PARIS, NOW], "none", "", True),
    (
        "hy_v3",
        f"<think:opensource>Hm.</think:opensource>I look.{_HY_CALLS}{_hy('weather', _HY_CITY)}{_HY_END}",
        ["[Hm.]", "I look.", PARIS],
        "hy_v3",
    ),
    ("hy_v3", f"{_HY_CALLS}{_hy('weather', _HY_CITY)}", [PARIS]),
    ("hy_v3", _HY_CUT, [_HY_CUT]),
]

_APRIEL = "\n<|begin_assistant|>\nHere are my reasoning steps:\n"
APRIEL = [
    ("hunyuan_a13b", "Hm.\n[BEGIN FINAL RESPONSE]\nHi", ["[Hm.]", "Hi"], "apriel", _APRIEL),
    ("hunyuan_a13b", "Hm.\n[BEGIN FINAL RESPONSE]\nHi\n[END FINAL RESPONSE]\n", ["[Hm.]", "Hi"], "apriel", _APRIEL),
    (
        "hunyuan_a13b",
        f"Hm.\n[BEGIN FINAL RESPONSE]\nI look.\n<tool_calls>[{_JSON}, {_JSON_NOW}]</tool_calls>",
        ["[Hm.]", "I look.", PARIS, NOW],
        "apriel",
        _APRIEL,
    ),
    (
        "hunyuan_a13b",
        f"Hm.\n[BEGIN FINAL RESPONSE]\n<tool_calls>[{_JSON}]</tool_calls>",
        ["[Hm.]", PARIS],
        "apriel",
        _APRIEL,
    ),
    ("hunyuan_a13b", "Hm.\n[BEGIN FI", ["[Hm.\n[BEGIN FI]"], "apriel", _APRIEL),
]

_UNWRAPPED = "<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>"
QWEN_UNWRAPPED = [
    ("qwen3_coder", _UNWRAPPED, [PARIS]),
    ("qwen3_coder", f"I look.\n{_UNWRAPPED}\n<function=now>\n</function>", ["I look.", PARIS, NOW]),
    ("qwen3_coder", f"{_UNWRAPPED}\n</tool_call>\n<function=now>\n</function>\n</tool_call>", [PARIS, NOW]),
    ("qwen3_coder", _UNWRAPPED[:-3], [PARIS]),
]

KIMI_K3 = [
    (
        "kimi_k3",
        "<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message<|sep|>",
        ["Hi"],
        "kimi_k3",
        '<|open|>message role="assistant"<|sep|><|open|>think<|sep|>',
    ),
]

SPECIMENS: list[tuple[Any, ...]] = [
    *MINIMAX_M3,
    *MUSE,
    *FUNCTIONARY,
    *MINICPM,
    *STEP,
    *LISTS,
    *HY3,
    *APRIEL,
    *QWEN_UNWRAPPED,
    *KIMI_K3,
]
"""The fields of specimens.Specimen."""

_THINK = ("<think>", "</think>")
TEMPLATES: list[tuple[str, set[str], str, tuple[str, str] | None]] = [
    (
        "{%- set ns_token = ']<]minimax[>[' -%} ns_token ~ '<tool_call>' '<mm:think>'",
        {"<tool_call>", "</tool_call>"},
        "minimax_m3",
        ("<mm:think>", "</mm:think>"),
    ),
    (
        "'<|start|>assistant to=' + recipient '<atem:function_calls>\\n<atem:invoke name=\"'",
        set(),
        "muse_glimmer",
        (" to=self<|message|>", "<|eom|>"),
    ),
    (
        '<function name="function-name"><param name="param-name">param-value</param></function> <think>',
        {"<tool_call>", "</tool_call>"},
        "minicpm5",
        _THINK,
    ),
    ("<|im_start|>", {"<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", "<think>", "</think>"}, "step3", _THINK),
    ("format:\\n<{start_tag}={function_name}>{parameters}{end_tag}\\n <|python_tag|>", set(), "functionary_v3_1", None),
    ("{{ '>>>all\\n' + message['content'] }}", set(), "functionary_v3_2", None),
    ("<|function_call_library|> '<function_call> ' + tool_call|tojson", set(), "granite_20b_fc", None),
    (
        "{%- set toolcalls_begin_token = '<tool_calls{}>'.format(HYTK) %} '<tool_sep{}>'",
        {"<tool_call:opensource>"},
        "hy_v3",
        ("<think:opensource>", "</think:opensource>"),
    ),
    ("Write \\'Action:\\' followed by a json-formatted list of actions", set(), "command_r_plus", None),
    ("<|im_start|>", {"<|action_start|>", "<|action_end|>"}, "internlm", None),
    (
        "<tool_calls>[ 'Here are my reasoning steps:\\n' [BEGIN FINAL RESPONSE]",
        set(),
        "hunyuan_a13b",
        ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    ),
]
