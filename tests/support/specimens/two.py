"""More answers as models write them: the families beside `specimens`."""

from typing import Any

from tests.support.format_reading import Call

PARIS = Call("weather", '{"city": "Paris"}')
PARIS_3 = Call("weather", '{"city": "Paris", "days": 3}')
NOW = Call("now")

_HEADER = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
_ANALYSIS = "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant"
_FINAL = "<|channel|>final<|message|>"
_ASSISTANT = "<|start|>assistant"


def _harmony(
    text: str, expected: list[Call | str], prompt: str = _ASSISTANT, *, forced: bool = False
) -> tuple[Any, ...]:
    return "harmony", text, expected, "harmony", prompt, forced


HARMONY = [
    _harmony(f"{_ANALYSIS}{_FINAL}2 + 2 = 4.<|return|>", ["[Need the weather.]", "2 + 2 = 4."]),
    _harmony(f"{_FINAL}Hi", ["Hi"]),
    _harmony(f'{_ANALYSIS}{_HEADER}{{"city": "Paris"}}<|call|>', ["[Need the weather.]", PARIS]),
    _harmony(f'{_HEADER}{{\n"city":"Paris", "days": "3"}}', [Call("weather", '{\n"city":"Paris", "days": 3}')]),
    _harmony(
        f'{_ANALYSIS} to=functions.weather<|channel|>commentary json<|message|>{{"city": "Paris"}}<|call|>',
        ["[Need the weather.]", PARIS],
    ),
    _harmony(' to=functions.weather<|channel|>commentary json<|message|>{"city": "Paris"}', [PARIS], forced=True),
    _harmony(' to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}', [PARIS], forced=True),
    _harmony(
        '<|channel|>commentary to=functions.weather<|constrain|>json<|message|>{"city": "Paris"}<|call|>', [PARIS]
    ),
    _harmony('<|channel|>commentary to=weather code<|message|>{"city": "Paris"}<|call|>', [PARIS]),
    _harmony('<|channel|>analysis to=functions.weather<|message|>{"city": "Paris"}', [PARIS]),
    _harmony("<|channel|>commentary to=functions.now<|message|>", [NOW]),
    _harmony("<|channel|>commentary to=functions.now<|message|><|call|>", [NOW]),
    _harmony(
        f'<|channel|>commentary<|message|>**Plan**: look.<|end|>{_ASSISTANT}{_HEADER}{{"city": "Paris"}}<|call|>'
        f"{_ASSISTANT}<|channel|>commentary to=functions.now<|message|>{{}}<|call|>",
        ["**Plan**: look.", PARIS, NOW],
    ),
    _harmony(f'{_FINAL[:-11]} <|constrain|>json<|message|>{{"result": true}}<|return|>', ['{"result": true}']),
    _harmony(f"I must refuse.<|end|>{_ASSISTANT}{_FINAL}Sorry.", ["I must refuse.Sorry."]),
    _harmony(f"<|channel|>analysis I refuse.<|end|>{_ASSISTANT}{_FINAL}Sorry.", ["[I refuse.]", "Sorry."]),
    _harmony("Just text, <|channel|> or not.", ["Just text, or not."]),
    _harmony('<|channel|>analysis to=browser.search code<|message|>{"q": 1}<|call|>', ['[{"q": 1}]']),
    _harmony(
        "<|start|>functions.now to=assistant<|channel|>commentary<|message|>12:00<|end|>",
        ["[12:00]"],
    ),
    _harmony(f"{_HEADER}{{city: Paris}}<|call|>", ["{city: Paris}"]),
    _harmony(f'{_HEADER}{{"city": "Pa', ['{"city": "Pa']),
    _harmony("The rest.<|return|>", ["The rest."], f"{_ASSISTANT}{_FINAL}So: "),
    _harmony(f" more.<|end|>{_ASSISTANT}{_FINAL}Hi", ["[ more.]", "Hi"], f"{_ASSISTANT}<|channel|>analysis<|message|>"),
    _harmony(f"{_FINAL}Hi<|end|>{_ASSISTANT}", ["Hi"]),
    _harmony(f"{_FINAL}Hi<|end|>\n", ["Hi"]),
]

_VALUES = (
    "search(query='it\\'s \"so\"\\n\\x41\\u00e9\\q', tags=[\"a\", 'b',], filter={'a': [1, (2.5, None)], 'b': {},"
    ' 3: True}, exact=False, limit=1_000, more="""x"y\n""")'
)
_JSON_VALUES = (
    '{"query": "it\'s \\"so\\"\\nAé\\\\q", "tags": ["a", "b"], "filter": {"a": [1, [2.5, null]], "b": {}, "3": true}, '
    '"exact": false, "limit": 1000, "more": "x\\"y\\n"}'
)
_LONG = "x" * 90

PYTHONIC = [
    ("pythonic", '[weather(city="Paris")]', [PARIS], "none", "", True),
    ("pythonic", "[weather(city='Paris', days=3), now()]", [PARIS_3, NOW]),
    ("pythonic", '[weather(city="Paris", days="3"), now()]', [PARIS_3, NOW]),
    ("llama4_pythonic", "<|python_start|>[weather(city='Paris'),now()]<|python_end|>", [PARIS, NOW]),
    ("pythonic", "<|python_start|>[weather(city='Paris'), other.tool()]", [PARIS, Call("other.tool")]),
    ("pythonic", f"[{_VALUES}]", [Call("search", _JSON_VALUES)]),
    ("pythonic", '[weather(city="Paris"), ]', [PARIS]),
    ("llama4_pythonic", "<|python_start|>[now(),]<|python_end|>It is.", [NOW, "It is."]),
    ("pythonic", "I look.\n[now()]\nDone.", ["I look.", NOW, "Done."]),
    ("pythonic", "[1] and [now] and [elsewhere(a=1)]", ["[1] and [now] and [elsewhere(a=1)]"]),
    ("pythonic", '[weather("Paris")]', ['[weather("Paris")]']),
    ("pythonic", "[weather(city=open('x'))]", ["[weather(city=open('x'))]"]),
    ("pythonic", "[weather(city=1e999)]", ["[weather(city=1e999)]"]),
    ("pythonic", "[now(), now(", [NOW, " now("]),
    (
        "pythonic",
        f"[write(path='{_LONG}', content='C:\\users\\n', any=-.5)]",
        [Call("write", f'{{"path": "{_LONG}", "content": "C:\\\\users\\n", "any": -0.5}}')],
    ),
    (
        "olmo3",
        '<function_calls>weather(city="Paris", days=3)\nnow()</function_calls>',
        [PARIS_3, NOW],
        "none",
        "",
        True,
    ),
    (
        "olmo3",
        "<function_calls>search(exact=true, any=null)</function_calls>",
        [Call("search", '{"exact": true, "any": null}')],
    ),
    ("olmo3", "<function_calls>now()\nand so on", [NOW, "\nand so on"]),
    ("lfm2", '<|tool_call_start|>[weather(city="Paris"), now()]<|tool_call_end|>It is.', [PARIS, NOW, "It is."]),
    ("lfm2", '<|tool_call_start|>[weather(city="Paris"), now()]<|tool_call_end|>', [PARIS, NOW], "none", "", True),
    (
        "lfm2",
        '<|tool_call_start|>[{"name": "weather", "arguments": {"city": "Paris"}}, {"name": "now"}]'
        "<|tool_call_end|>It is.",
        [PARIS, NOW, "It is."],
    ),
    ("lfm2", '<|tool_call_start|>{"name": "now", "arguments": {}}<|tool_call_end|>', [NOW]),
    ("lfm2", "<|tool_call_start|>[{}]<|tool_call_end|>", ["<|tool_call_start|>[{}]<|tool_call_end|>"]),
    ("gemma3", 'I look.\n```tool_code\nweather(city="Paris")\n```', ["I look.", PARIS]),
    ("gemma3", '```tool_code\nweather(city="Paris", days=3)\nnow()\n```', [PARIS_3, NOW], "none", "", True),
    ("gemma3", "```tool_code\nprint(default_api.weather(city='Paris'))\n```", [PARIS]),
    ("gemma3", "```tool_code\nimport os\n```", ["```tool_code\nimport os\n```"]),
]

_Q = '<|"|>'
GEMMA = [
    (
        "functiongemma",
        "<start_function_call>call:weather{city:<escape>Paris<escape>}<end_function_call>",
        [PARIS],
        "none",
        "",
        True,
    ),
    (
        "functiongemma",
        "<start_function_call>call:weather{city:<escape>Paris<escape>,days:<escape>3<escape>}<end_function_call>"
        "<start_function_call>call:now{}<end_function_call>",
        [PARIS_3, NOW],
    ),
    (
        "functiongemma",
        "Sure. <start_function_call>call:search{exact:true,limit:-2.5,query:plain words,"
        "tags:[<escape>a, {b}<escape>,c]}<end_function_call>",
        ["Sure. ", Call("search", '{"exact": true, "limit": -2.5, "query": "plain words", "tags": ["a, {b}", "c"]}')],
    ),
    (
        "functiongemma",
        "<start_function_call>call:weather{city:<escape>Par",
        ["<start_function_call>call:weather{city:<escape>Par"],
    ),
    (
        "gemma4",
        f"<|channel>thought\nHm.\n<channel|><|tool_call>call:weather{{city:{_Q}Paris{_Q},days:3}}<tool_call|>",
        ["[Hm.]", PARIS_3],
        "gemma4",
    ),
    ("gemma4", "It is <sunny>.", ["It is <sunny>."], "gemma4", "<|turn>model\n<|channel>thought\n<channel|>"),
    ("gemma4", "I think.\n<channel|>So.", ["[I think.]", "So."], "gemma4", "<|turn>model\n<|channel>thought\n"),
    (
        "gemma4",
        f"<|tool_call>call:search{{filter:{{a:{{{_Q}3{_Q}:{_Q}x{_Q}}},b:[]}},"
        f'query:{_Q}a "b"\n<i>{_Q},tags:[{_Q}a{_Q},{_Q}b{_Q}]}}<tool_call|>',
        [Call("search", '{"filter": {"a": {"3": "x"}, "b": []}, "query": "a \\"b\\"\\n<i>", "tags": ["a", "b"]}')],
    ),
    (
        "gemma4",
        f"<|tool_call>call:weather{{city:{_Q}Paris{_Q},unit:{_Q}C{_Q}}}<tool_call|>",
        [Call("weather", '{"city": "Paris", "unit": "C"}')],
        "none",
        "",
        True,
    ),
    ("gemma4", '<|tool_call>call:weather{"city": "Paris"}<tool_call|>', [PARIS]),
    ("gemma4", "<|tool_call>call:weather{city:}<tool_call|>", ["<|tool_call>call:weather{city:}<tool_call|>"]),
]

_V3 = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{}\n```json\n{}\n```<｜tool▁call▁end｜>"
_V31 = "<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
_BEGIN, _END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_PARIS = '{"city": "Paris"}'
_DSML = '<｜DSML｜invoke name="{}">\n{}</｜DSML｜invoke>'
_DSML_CITY = '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
_DSML_DAYS = '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'


def _dsml_values(string: str) -> str:
    values = (("any", "[1]"), ("mixed", "5"))
    return "".join(
        f'<｜DSML｜parameter name="{name}" string="{string}">{value}</｜DSML｜parameter>\n' for name, value in values
    )


DEEPSEEK = [
    (
        "deepseek_v3",
        f"{_BEGIN}{_V3.format('weather', _PARIS)}\n{_V3.format('now', '{}')}{_END}",
        [PARIS, NOW],
        "none",
        "",
        True,
    ),
    (
        "deepseek_r1",
        f"Hm.\n</think>\n\nI look.{_BEGIN}{_V3.format('weather', _PARIS)}{_END}",
        ["[Hm.]", "I look.", PARIS],
        "qwen3",
        "<｜Assistant｜><think>\n",
    ),
    (
        "deepseek_v3",
        f"{_BEGIN}{_V3.format('weather', _PARIS[:-2])}{_END}",
        [f"{_BEGIN}{_V3.format('weather', _PARIS[:-2])}{_END}"],
    ),
    (
        "deepseek_v31",
        f"{_BEGIN}{_V31.format('weather', _PARIS)}{_V31.format('now', '{}')}{_END}",
        [PARIS, NOW],
        "none",
        "",
        True,
    ),
    ("deepseek_v31", f"{_V31.format('weather', _PARIS)}", [PARIS]),
    ("deepseek_v31", f"{_BEGIN}{_V31.format('weather', _PARIS)}\n text", [PARIS, " text"]),
    ("deepseek_v31", f"{_BEGIN}nothing{_END}", [f"{_BEGIN}nothing{_END}"]),
    (
        "deepseek_v32",
        "<｜DSML｜function_calls>\n"
        + _DSML.format("weather", _DSML_CITY + _DSML_DAYS)
        + "\n"
        + _DSML.format("now", "")
        + "\n</｜DSML｜function_calls>",
        [PARIS_3, NOW],
        "none",
        "",
        True,
    ),
    (
        "deepseek_v4",
        f"<｜DSML｜tool_calls>\n{_DSML.format('weather', _DSML_CITY)}\n</｜DSML｜tool_calls>",
        [Call("weather", '{"city": "Paris"}')],
        "none",
        "",
        True,
    ),
    (
        "deepseek_v32",
        "<｜DSML｜function_calls>\n"
        + _DSML.format("weather", _DSML_CITY.replace("true", "false") + _DSML_DAYS.replace("false", "true"))
        + "\n</｜DSML｜function_calls>",
        [PARIS_3],
    ),
    (
        "deepseek_v32",
        "So.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke>",
        ["So.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke>"],
    ),
    *(
        (
            "deepseek_v32",
            "<｜DSML｜function_calls>\n" + _DSML.format("write", _dsml_values(string)) + "\n</｜DSML｜function_calls>",
            [Call("write", arguments)],
            "none",
            "",
            True,
        )
        for string, arguments in (
            ("true", '{"any": "[1]", "mixed": "5"}'),
            ("false", '{"any": [1], "mixed": 5}'),
        )
    ),
]

_KIMI = "<|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
_SECTION, _END_SECTION = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
KIMI = [
    (
        "kimi_k2",
        f"{_SECTION}{_KIMI.format('functions.weather:0', _PARIS)}{_KIMI.format('functions.now:1', '{}')}{_END_SECTION}",
        [PARIS._replace(id="functions.weather:0"), NOW._replace(id="functions.now:1")],
        "none",
        "",
        True,
    ),
    (
        "kimi_k2",
        f"<think>Hm.</think>I look. {_SECTION}{_KIMI.format(' weather:12 ', _PARIS)}",
        ["[Hm.]", "I look. ", PARIS._replace(id="weather:12")],
        "kimi_k2",
    ),
    (
        "kimi_k2",
        f"{_SECTION}{_KIMI.format('0', _PARIS)}{_END_SECTION}",
        [f"{_SECTION}{_KIMI.format('0', _PARIS)}{_END_SECTION}"],
    ),
]

_TOOLS, _END_TOOLS = "<|tools_prefix|>", "<|tools_suffix|>"
APERTUS = [
    (
        "apertus",
        f'{_TOOLS}[{{"weather": {{"city": "Paris"}}}}, {{"now": {{}}}}]{_END_TOOLS}',
        [PARIS, NOW],
        "none",
        "",
        True,
    ),
    (
        "apertus",
        f'<|inner_prefix|>Hm.<|inner_suffix|>I look.\n{_TOOLS}[{{"weather":{{"city":"Paris", "days": "3"}} }}]',
        ["[Hm.]", "I look.", Call("weather", '{"city":"Paris", "days": 3}')],
        "apertus",
    ),
    ("apertus", f"{_TOOLS}[]{_END_TOOLS}", [f"{_TOOLS}[]{_END_TOOLS}"]),
    ("apertus", f'{_TOOLS}[{{"now": 3}}]{_END_TOOLS}', [f'{_TOOLS}[{{"now": 3}}]{_END_TOOLS}']),
]

_ROLE = "function call<|role_sep|>\n"
_WEATHER = '{"name": "weather", "arguments": {"city": "Paris"}}'
GIGACHAT = [
    ("gigachat3", f"<|message_sep|>\n\n{_ROLE}{_WEATHER}", [PARIS], "none", "", True),
    ("gigachat3", f"I look.<|message_sep|>\n\n{_ROLE}{_WEATHER}<|message_sep|>\n\n", ["I look.", PARIS]),
    ("gigachat3", "A function call.", ["A function call."]),
    ("gigachat31", f"<|function_call|>{_WEATHER}", [PARIS], "none", "", True),
    ("gigachat31", f"I look.<|function_call|>{_WEATHER}<|message_sep|>\n\n", ["I look.", PARIS]),
]

_SOLAR = "<|tool_call:begin|>{}<|tool_call:name|>{}<|tool_call:args|>{}<|tool_call:end|>"
_TURN = "<|end|><|begin|>assistant"
SOLAR = [
    (
        "solar_open",
        f"<|tool_calls|>{_SOLAR.format('a1', 'weather', _PARIS)}{_SOLAR.format('b2', 'now', '{}')}",
        [PARIS._replace(id="a1"), NOW._replace(id="b2")],
        "none",
        "",
        True,
    ),
    (
        "solar_open",
        f"<|think|>Hm.{_TURN}<|tool_calls|>{_SOLAR.format('a1', 'weather', _PARIS)}<|calls|>",
        ["[Hm.]", PARIS._replace(id="a1")],
        "solar_open",
        "<|begin|>assistant",
    ),
    (
        "solar_open",
        f"<|content|>I look.{_TURN}<|tool_calls|>{_SOLAR.format('', 'now', '{}')}<|calls|>",
        ["I look.", NOW],
        "solar_open",
        "<|begin|>assistant<|think|><|end|><|begin|>assistant",
    ),
    (
        "solar_open",
        f"<|think|>Hm.{_TURN}<|content|>It is <|end|> of it.",
        ["[Hm.]", "It is <|end|> of it."],
        "solar_open",
        "<|begin|>assistant",
    ),
    ("solar_open", f"{_SOLAR.format('a1', '', '{}')}", [f"{_SOLAR.format('a1', '', '{}')}"]),
]

_K3 = '<|open|>call tool="{}" index="{}"<|sep|>{}<|close|>call<|sep|>'
_K3_ARGUMENT = '<|open|>argument key="{}" type="{}"<|sep|>{}<|close|>argument<|sep|>'
_K3_CITY, _K3_DAYS = _K3_ARGUMENT.format("city", "string", "Paris"), _K3_ARGUMENT.format("days", "number", "3")
_K3_TOOLS, _K3_END = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
_K3_OVER = "<|close|>message<|sep|>"
_K3_ASKED = '<|open|>message role="assistant"<|sep|><|open|>{}<|sep|>'
KIMI_K3 = [
    (
        "kimi_k3",
        f"{_K3_TOOLS}{_K3.format('weather', 1, _K3_CITY + _K3_DAYS)}{_K3.format('now', 2, '')}{_K3_END}",
        [PARIS_3, NOW],
        "none",
        "",
        True,
    ),
    (
        "kimi_k3",
        "Hm.<|close|>think<|sep|><|open|>response<|sep|>I look.<|close|>response<|sep|>"
        f"{_K3_TOOLS}{_K3.format('weather', 1, _K3_CITY)}{_K3_END}{_K3_OVER}",
        ["[Hm.]", "I look.", PARIS],
        "kimi_k3",
        _K3_ASKED.format("think"),
    ),
    (
        "kimi_k3",
        f"A <b>.<|close|>response<|sep|>{_K3_OVER}",
        ["A <b>."],
        "kimi_k3",
        _K3_ASKED.format("response"),
    ),
    (
        "kimi_k3",
        f"{_K3_TOOLS}"
        + _K3.format("weather", 1, f'<|open|>json type="object"<|sep|>{_PARIS}<|close|>json<|sep|>')
        + _K3_END,
        [PARIS],
    ),
    *(
        (
            "kimi_k3",
            f"{_K3_TOOLS}{_K3.format('write', 1, _K3_ARGUMENT.format(name, type_, value))}{_K3_END}",
            [Call("write", f'{{"{name}": {expected}}}')],
            "none",
            "",
            True,
        )
        for name, type_, value, expected in (
            ("any", "number", "5", "5"),
            ("any", "boolean", "true", "true"),
            ("any", "object", "{}", "{}"),
            ("any", "string", "null", '"null"'),
            ("mixed", "string", "5", '"5"'),
            ("mixed", "number", "5", "5"),
        )
    ),
    (
        "kimi_k3",
        f"{_K3_TOOLS}{_K3.format('weather', 1, _K3_ARGUMENT.format('days', 'string', '3'))}{_K3_END}",
        [Call("weather", '{"days": 3}')],
    ),
    ("kimi_k3", f"{_K3_TOOLS}{_K3_END}", [f"{_K3_TOOLS}{_K3_END}"]),
]

SPECIMENS: list[tuple[Any, ...]] = [
    *HARMONY,
    *PYTHONIC,
    *GEMMA,
    *DEEPSEEK,
    *KIMI,
    *APERTUS,
    *GIGACHAT,
    *SOLAR,
    *KIMI_K3,
]
"""The fields of specimens.Specimen."""

_THINK = ("<think>", "</think>")
TEMPLATES: list[tuple[str, set[str], str, tuple[str, str] | None]] = [
    (
        "<|start|>assistant<|channel|>analysis<|message|>",
        set(),
        "harmony",
        ("<|channel|>analysis<|message|>", "<|end|>"),
    ),
    (
        "'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '\\n' + '```json' </think>",
        set(),
        "deepseek_v3",
        _THINK,
    ),
    ("'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'+ tool['function']['name'] <think>", set(), "deepseek_v31", _THINK),
    ('{%- set dsml_token = "｜DSML｜" -%} function_calls <think>', set(), "deepseek_v32", _THINK),
    ("{%- set dsml_token = \"｜DSML｜\" -%} <' + dsml_token + 'tool_calls> <think>", set(), "deepseek_v4", _THINK),
    ("<|tool_calls_section_begin|> <think></think>", set(), "kimi_k2", _THINK),
    ("<|im_middle|>", {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}, "kimi_k2", None),
    ("<start_of_turn> <start_function_call>call:", set(), "functiongemma", None),
    (
        "'<|tool_call>call:' '}<tool_call|>' '<|channel>thought\\n'",
        set(),
        "gemma4",
        ("<|channel>thought", "<channel|>"),
    ),
    ("'<function_calls>' + message", set(), "olmo3", None),
    ("<|im_start|>", {"<|tool_call_start|>", "<|tool_call_end|>"}, "lfm2", None),
    ("Use exact format: [func_name1(param1=value1)", set(), "pythonic", None),
    ("<start_of_turn>user [func_name1(params_name1=", set(), "pythonic", None),
    ("<start_of_turn>", set(), "gemma3", None),
    (
        "{%- set tool_calls_token = '<|tools_prefix|>' -%}",
        {"<|inner_prefix|>", "<|inner_suffix|>", "<think>", "</think>"},
        "apertus",
        ("<|inner_prefix|>", "<|inner_suffix|>"),
    ),
    (
        '"<|begin|>assistant<|think|>" + message.reasoning "<|tool_call:begin|>" + tool_call.id',
        set(),
        "solar_open",
        ("<|think|>", "<|end|><|begin|>assistant"),
    ),
    (
        "{{- '<|open|>' + tag -}}",
        set(),
        "kimi_k3",
        ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ),
    ("", {"<|open|>", "<|close|>", "<|sep|>"}, "kimi_k3", ("<|open|>think<|sep|>", "<|close|>think<|sep|>")),
    ("'role': 'function call', role_sep=\"<|role_sep|>\\n\"", set(), "gigachat3", None),
    ("function call <|function_call|>", set(), "gigachat31", None),
]
