"""Answers as models write them, and what they mean."""

from typing import NamedTuple

from tests.support.format_reading import Call
from tests.support.specimens import four, three, two


class Specimen(NamedTuple):
    """An answer of a model whose calls are read by `parser`, with reasoning by `reasoning`, behind `prompt`.

    `forced`: the answer is what a grammar for calls must let through.
    """

    parser: str
    text: str
    expected: list[Call | str]
    reasoning: str = "none"
    prompt: str = ""
    forced: bool = False


PARIS = Call("weather", '{"city": "Paris"}')
PARIS_3 = Call("weather", '{"city": "Paris", "days": 3}')
NOW = Call("now")

HERMES_PARIS = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
HERMES_NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
ESCAPES = f'{{"path": "{"x" * 80}", "content": "y\\"\\u00e9 é😀"}}'
HERMES = [
    Specimen("hermes", HERMES_PARIS, [PARIS], forced=True),
    Specimen("qwen3", f"{HERMES_PARIS}\n{HERMES_NOW}", [PARIS, NOW], forced=True),
    Specimen(
        "hermes",
        f"<think>\nHm.\n</think>\n\nI look.\n\n{HERMES_NOW}\nDone.",
        ["[Hm.]", "I look.", NOW, "Done."],
        "qwen3",
    ),
    Specimen("hermes", '<tool_call>{"arguments": {"city": "Paris"}, "name": "weather"}</tool_call>', [PARIS]),
    Specimen(
        "hermes",
        '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\", \\"days\\": \\"3\\"}"}</tool_call>',
        [PARIS_3],
    ),
    Specimen(
        "hermes",
        '<tool_call>{"name": "weather", "arguments": {"city":"Paris","days":" 3 ","unit":"C"}}</tool_call>',
        [Call("weather", '{"city":"Paris","days":3,"unit":"C"}')],
    ),
    Specimen(
        "hermes",
        '<tool_call>{"name": "search", "arguments": {"tags": "[\\"a\\"]", "exact": "True", "filter": "{}", '
        '"limit": "x", "query": 7}}</tool_call>',
        [Call("search", '{"tags": ["a"], "exact": true, "filter": {}, "limit": "x", "query": 7}')],
    ),
    Specimen(
        "hermes",
        '<tool_call>{"name": "search", "arguments": {"tags": ["</tool_call>", "b\nc"], "query": "</tool_call>\n"}}'
        "</tool_call>",
        [Call("search", '{"tags": ["</tool_call>", "b\\nc"], "query": "</tool_call>\\n"}')],
    ),
    Specimen("hermes", f'<tool_call>{{"name": "write", "arguments": {ESCAPES}}}</tool_call>', [Call("write", ESCAPES)]),
    Specimen(
        "hermes",
        f'<tool_call>{{"name": "search", "arguments": {{"tags": [ "{"x" * 80}", "b\nc" ], "filter": {{"a": {{}}, '
        f'"b": [[], 1e3, null, "\\u00e9\\"]"]}}}}}}</tool_call>{HERMES_NOW}',
        [
            Call(
                "search",
                f'{{"tags": [ "{"x" * 80}", "b\\nc" ], "filter": {{"a": {{}}, "b": [[], 1e3, null, "\\u00e9\\"]"]}}}}',
            ),
            NOW,
        ],
    ),
    Specimen("hermes", f"<tool_call>nothing {HERMES_NOW}", ["<tool_call>nothing ", NOW]),
    Specimen("hermes", '<tool_call>\n[{"name": "now"}, {"name": "now"}]\n</tool_call>', [NOW, NOW]),
    Specimen("hermes", '<tool_call>\n{"name": "now"}\n{"name": "now"}\n</tool_call>', [NOW, NOW]),
    Specimen("hermes", '<tool_call>{"name": "now", "arguments": {}}}</tool_call>', [NOW]),
]

CODER = "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n{}</function>\n</tool_call>"
DAYS = "<parameter=days>\n3\n</parameter>\n"
THINKING = f"{CODER.format('')}\n{HERMES_NOW}"
QWEN_XML = [
    Specimen("qwen3_coder", CODER.format(""), [PARIS], forced=True),
    Specimen("qwen3_5", f"{CODER.format(DAYS)}\n{CODER.format('')}", [PARIS_3, PARIS], forced=True),
    Specimen(
        "qwen3_coder",
        "<function=search>\n<parameter=tags>\n['a', \"b's\"]\n</parameter>\n<parameter=filter>\n{'x': [None, True]}\n"
        "</parameter>\n<parameter=limit>\n[1]\n</parameter>\n<parameter=query>\n['a']\n</parameter>\n</function>",
        [
            Call(
                "search",
                '{"tags": ["a", "b\'s"], "filter": {"x": [null, true]}, "limit": "[1]", "query": "[\'a\']"}',
            )
        ],
    ),
    Specimen(
        "qwen3_coder",
        f"<tool_call>\n<function=search>\n<parameter=tags>\n[\"{'x' * 80}'\", 'b\n</parameter>',]\n</parameter>\n"
        '<parameter=filter>\n{\'a\': {}, "b": [12, True, "\\u00e9\\/", None]}\n</parameter>\n</function>\n</tool_call>',
        [
            Call(
                "search",
                f'{{"tags": ["{"x" * 80}\'", "b\\n</parameter>"], '
                '"filter": {"a": {}, "b": [12, true, "é/", null]}}',
            )
        ],
    ),
    Specimen("qwen3_coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>", [NOW], forced=True),
    Specimen(
        "qwen3_coder",
        "<tool_call>\n<function=search>\n<parameter=query>\n\na < b </p> </parameter>, </function>\n\n</parameter>\n"
        '<parameter=tags>\n["a"]\n</parameter>\n</function>\n</tool_call>',
        [Call("search", '{"query": "\\na < b </p> </parameter>, </function>\\n", "tags": ["a"]}')],
    ),
    Specimen("qwen3_coder", f"Now.\n\n{CODER.format(DAYS).removeprefix('<tool_call>').lstrip()}", ["Now.", PARIS_3]),
    Specimen("qwen3_coder", CODER.format("").removesuffix("ool_call>"), [PARIS]),
    Specimen("qwen3_coder", CODER.format("").replace("</function>\n", ""), [PARIS]),
    Specimen("qwen3_coder", CODER.format(DAYS).replace("3\n</parameter>\n", "3\n"), [PARIS_3]),
    Specimen(
        "qwen3_coder",
        f"{CODER.replace('</parameter>', '', 1).format('').replace(chr(10) * 2, chr(10))}\n{CODER.format('')}",
        [PARIS, PARIS],
    ),
    Specimen(  # a text may tell of calls
        "qwen3_coder",
        CODER.format(DAYS).replace("Paris", "a\n<parameter=days>\nb\n<parameter=x> c", 1),
        [Call("weather", '{"city": "a\\n<parameter=days>\\nb\\n<parameter=x> c", "days": 3}')],
    ),
    Specimen(
        "qwen3_coder",
        "<tool_call>\n<function=search>\n<parameter=tags>\n['\\u2713', '\\xe9']\n</parameter>\n"
        f"<parameter=filter>\n{{'a': '{'x' * 80}', 'b': '\\0'}}\n</parameter>\n</function>\n</tool_call>",
        [Call("search", f'{{"tags": ["✓", "é"], "filter": {{"a": "{"x" * 80}", "b": "\\u0000"}}}}')],
    ),
    Specimen("json", '{"index": 0, "thought": "hm", "name": "now", "arguments": {}}', [NOW]),
    Specimen(
        "qwen3_coder",
        CODER.format("").replace("Paris", "a </function>\n</tool_call> b </function>\n</tool_call>"),
        [Call("weather", '{"city": "a </function>\\n</tool_call> b </function>\\n</tool_call>"}')],
    ),
    Specimen(
        "qwen3_coder",
        CODER.format("").replace("Paris", f"a</parameter>{' ' * 70}</function> b"),
        [Call("weather", f'{{"city": "a</parameter>{" " * 70}</function> b"}}')],
    ),
    Specimen("qwen3_coder", HERMES_NOW, [NOW]),
    Specimen("qwen3_5", f"Hm.\n{THINKING}", ["[Hm.]", PARIS, NOW], "qwen3", "<think>\n"),
    Specimen("qwen3_5", f"{THINKING}\nSo.", [PARIS, NOW, "So."], "qwen3", "<think>\n"),
    Specimen("qwen3_5", f"Hm.{THINKING}Well\n{HERMES_NOW}", ["[Hm.]", PARIS, NOW, "Well", NOW], "qwen3", "<think>\n"),
    Specimen("qwen3_5", f"{THINKING}\n</think>\n\nNo.", [f"[{THINKING}]", "No."], "qwen3", "<think>\n"),
    Specimen("qwen3_5", f"{THINKING}No.\n</think>\n\nNo.", [f"[{THINKING}No.]", "No."], "qwen3", "<think>\n"),
    Specimen("qwen3_5", f"{THINKING}<tool_call>No.", [PARIS, NOW, "<tool_call>No."], "qwen3", "<think>\n"),
    Specimen("qwen3_5", f"<tool_call>No{THINKING}", ["[<tool_call>No]", PARIS, NOW], "qwen3", "<think>\n"),
    Specimen("qwen3_5", "Hm. <tool_call>", ["[Hm. <tool_call>]"], "qwen3", "<think>\n"),
    Specimen(
        "qwen3_coder",
        "<tool_call>\n<function=search>\n<parameter=exact>\nFalse\n</parameter>\n<parameter=limit>\n0.5\n</parameter>\n"
        "<parameter=filter>\nnone of it\n</parameter>\n</function>\n</tool_call>",
        [Call("search", '{"exact": false, "limit": 0.5, "filter": "none of it"}')],
    ),
    Specimen(
        "qwen3_coder",
        "<tool_call>\n<function=unknown>\n<parameter=a>\n5\n</parameter>\n<parameter=b>\n[5]\n</parameter>\n"
        "<parameter=c>\nnull\n</parameter>\n<parameter=d>\nnothing\n</parameter>\n</function>\n</tool_call>",
        [Call("unknown", '{"a": "5", "b": [5], "c": null, "d": "nothing"}')],
    ),
    Specimen(
        "qwen3_coder",
        '<tool_call>\n<function=write>\n<parameter=path>\na.py\n</parameter>\n<parameter=content>\n  if "x":\n\n'
        f"    {'y' * 80}\n</parameter>\n</function>\n</tool_call>",
        [Call("write", f'{{"path": "a.py", "content": "  if \\"x\\":\\n\\n    {"y" * 80}"}}')],
        forced=True,
    ),
    Specimen(
        "qwen3_coder",
        "<tool_call>\n<function=weather>\n<parameter=until>\nnull\n</parameter>\n<parameter=unit>\nC\n</parameter>\n"
        "</function>\n</tool_call>",
        [Call("weather", '{"until": null, "unit": "C"}')],
    ),
    Specimen(  # a value without lines of its own ends with its last character
        "qwen3_coder",
        "<tool_call>\n<function=write>\n<parameter=path>a.py</parameter>\n<parameter=content>x = 1\n</parameter>\n"
        "</function>\n</tool_call>",
        [Call("write", '{"path": "a.py", "content": "x = 1\\n"}')],
    ),
    Specimen(
        "seed_oss",
        "<seed:tool_call>\n<function=weather>\n<parameter=city>Paris</parameter>\n<parameter=days>3</parameter>\n"
        "</function>\n</seed:tool_call>",
        [PARIS_3],
        forced=True,
    ),
    Specimen(
        "seed_oss",
        "<seed:tool_call>\n<function=write>\n<parameter=path>a.py</parameter>\n<parameter=content>\nx = 1\n\n"
        "</parameter>\n<parameter=any>\n[1]\n</parameter>\n</function>\n</seed:tool_call>",
        [Call("write", '{"path": "a.py", "content": "\\nx = 1\\n\\n", "any": [1]}')],
        forced=True,
    ),
]

MINIMAX_CALLS = (
    '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Paris</parameter>\n'
    '<parameter name="days">3</parameter>\n</invoke>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>'
)
MINIMAX = [
    Specimen("minimax_m2", MINIMAX_CALLS, [PARIS_3, NOW], forced=True),
    Specimen(
        "minimax_m2",
        f"Hm.\n</think>\n\nSo:\n{MINIMAX_CALLS}",
        ["[Hm.]", "So:", PARIS_3, NOW],
        "think",
        "]~b]ai\n<think>\n",
    ),
    Specimen("minimax_m2", MINIMAX_CALLS.removesuffix("</minimax:tool_call>"), [PARIS_3, NOW]),
    Specimen(
        "minimax_m2",
        "<minimax:tool_call><invoke name=write><parameter name=content>\nx\n</parameter></invoke></minimax:tool_call>",
        [Call("write", '{"content": "\\nx\\n"}')],
    ),
]

GLM_CALL = (
    "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
    "<arg_value>3</arg_value>\n</tool_call>"
)
GLM = [
    Specimen("glm45", f"{GLM_CALL}\n{GLM_CALL}", [PARIS_3, PARIS_3], forced=True),
    Specimen("glm45", f"\n<think>Hm.</think>\nI look.\n{GLM_CALL}", ["[Hm.]", "I look.", PARIS_3], "glm45"),
    Specimen("glm45", "<tool_call>now\n</tool_call>", [NOW], forced=True),
    Specimen("glm45", "<tool_call>now</tool_call> and", [NOW, " and"]),
    Specimen("glm47", GLM_CALL.replace("\n", ""), [PARIS_3], forced=True),
    Specimen(
        "glm45",
        '<tool_call>search\n<arg_key>tags</arg_key>\n<arg_value>["</arg_value>", 1]</arg_value>\n</tool_call>',
        [Call("search", '{"tags": ["</arg_value>", 1]}')],
    ),
    Specimen("glm45", GLM_CALL.removesuffix("call>"), [PARIS_3]),
    Specimen(
        "longcat", GLM_CALL.replace("tool_", "longcat_tool_").replace("arg_", "longcat_arg_"), [PARIS_3], forced=True
    ),
    Specimen(
        "longcat",
        "<longcat_think>\nHm.</longcat_think>\n" + HERMES_NOW.replace("tool_call", "longcat_tool_call"),
        ["[Hm.]", NOW],
        "longcat",
    ),
]

NEMOTRON_CALLS = (
    '<TOOLCALL>[{"name": "weather", "arguments": {"city": "Paris"}}, {"name": "now", "arguments": {}}]</TOOLCALL>'
)
HERMES_JSON = HERMES_PARIS.split("\n")[1]
FENCED_PARIS = '<tool_call>weather\n```json\n{"city": "Paris"}\n```</tool_call>'
FENCED_NOW = "<tool_call>now\n```json\n{}\n```</tool_call>"
LISTS = [
    Specimen("nemotron", NEMOTRON_CALLS, [PARIS, NOW], forced=True),
    Specimen("nemotron", NEMOTRON_CALLS.removesuffix("]</TOOLCALL>"), [PARIS, NOW]),
    Specimen("nemotron", '<TOOLCALL>[{"name": "now"}, {bad}]</TOOLCALL>', [NOW, ", {bad}]</TOOLCALL>"]),
    Specimen("granite", '<|tool_call|>[{"name": "weather", "arguments": {"city": "Paris"}}]', [PARIS], forced=True),
    Specimen("granite", '<tool_call>[{"name": "now", "arguments": {}}]', [NOW]),
    Specimen(
        "granite",
        "Here is my thought process: Hm.\n\nHere is my response: \n\nHello",
        ["[ Hm.]", " \n\nHello"],
        "granite",
    ),
    Specimen(
        "granite",
        "<think>Hm.</think>\n\n<response>\nHello\n</response>",
        ["[Hm.]", "Hello"],
        "granite3_3",
    ),
    Specimen(
        "ernie45",
        "Hm.\n</think>\n\n<response>\nHello\n</response>\n",
        ["[Hm.]", "Hello"],
        "ernie45",
        "<|im_start|>assistant\n<think>\n",
    ),
    Specimen("ernie45", f"Hm.\n</think>\n\n{HERMES_PARIS}\n", ["[Hm.]", PARIS], "ernie45", "<think>\n"),
    Specimen("hunyuan_a13b", '<tool_calls>[{"name": "now", "arguments": {}}]</tool_calls>', [NOW], forced=True),
    Specimen("hunyuan", f"<tool_calls>{FENCED_PARIS}\n{FENCED_NOW}</tool_calls>", [PARIS, NOW], forced=True),
    Specimen(
        "hunyuan_a13b",
        f"<think>\nHm.\n</think>\n<answer>\nI look.\n<tool_calls>\n{FENCED_PARIS}\n</tool_calls>\n</answer>",
        ["[Hm.]", "I look.", PARIS],
        "hunyuan_a13b",
    ),
    Specimen("hunyuan", "<answer>\nHello\n</answer>", ["Hello"], "hunyuan_a13b", "<think>\n\n</think>\n"),
    Specimen("hunyuan", "<tool_calls>\n<tool_call>now\n{}</tool_call>\n</tool_calls> So", [NOW, " So"]),
    Specimen("hunyuan", FENCED_NOW, [FENCED_NOW]),
    Specimen("hunyuan", "<tool_calls><tool_call>now</tool_call>", ["<tool_calls><tool_call>now</tool_call>"]),
    Specimen("minimax", f"<tool_calls>\n{HERMES_JSON}\n{HERMES_JSON}\n</tool_calls>", [PARIS, PARIS]),
    Specimen("phi4_mini_json", 'functools[{"name": "now", "arguments": {}}]', [NOW], forced=True),
    Specimen("phi4_mini_json", '<|tool_call|>[{"name": "now", "arguments": {}}]<|/tool_call|>', [NOW]),
]

LLAMA_PARIS = '{"name": "weather", "parameters": {"city": "Paris"}}'
BARE = [
    Specimen("llama3_json", LLAMA_PARIS, [PARIS], forced=True),
    Specimen("llama3_json", f"<|python_tag|>{LLAMA_PARIS}; {LLAMA_PARIS}", [PARIS, PARIS]),
    Specimen("llama3_json", f"{LLAMA_PARIS}; {LLAMA_PARIS}", [PARIS, PARIS], forced=True),
    Specimen("llama3_json", f"{LLAMA_PARIS}, {LLAMA_PARIS}", [PARIS, PARIS]),
    Specimen("llama3_json", f"{LLAMA_PARIS}, I think", [PARIS, ", I think"]),
    Specimen("llama3_json", f"Like {LLAMA_PARIS}", [f"Like {LLAMA_PARIS}"]),
    Specimen("llama3_json", LLAMA_PARIS.replace("weather", "other"), [LLAMA_PARIS.replace("weather", "other")]),
    Specimen("llama3_json", "<|python_tag|>print(1)", ["<|python_tag|>print(1)"]),
    Specimen("json", '{"name": "now", "arguments": {}}', [NOW], forced=True),
    Specimen("json", '```json\n{"name": "now", "arguments": {}}\n```', [NOW]),
    Specimen("json", '[{"name": "now", "arguments": {}}, {"name": "now"}]', [NOW, NOW]),
    Specimen("json", '{"name": "now", "description": "the time", "arguments": {}}', [NOW]),
    Specimen("json", '{"answer": 1}', ['{"answer": 1}']),
    Specimen("json", "```json\n{}\n```", ["```json\n{}\n```"]),
]

MISTRAL = [
    Specimen("mistral", '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}', [PARIS], forced=True),
    Specimen("mistral", '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{}', [PARIS, NOW], forced=True),
    Specimen(
        "mistral",
        'Hi.[TOOL_CALLS]weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Paris"}',
        ["Hi.", PARIS._replace(id="a1b2c3d4e")],
    ),
    Specimen("mistral", "[TOOL_CALLS]now[CALL_ID]a1[ARGS]{}[TOOL_CALLS]now[ARGS]{}", [NOW._replace(id="a1"), NOW]),
    Specimen("mistral", "[THINK]Hm.[/THINK]Hello", ["[Hm.]", "Hello"], "mistral"),
    Specimen("mistral", '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Paris"}}]', [PARIS]),
    Specimen("mistral", '[TOOL_CALLS]weather{"city": "Paris"}', [PARIS]),
    Specimen("mistral_list", '[TOOL_CALLS][{"name": "now", "arguments": {}}]', [NOW], forced=True),
    Specimen("mistral", "[TOOL_CALLS]weather: it is fine", ["[TOOL_CALLS]weather: it is fine"]),
]

_ACTION = (
    '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": {"city": "Paris"}}\n]'
    "<|END_ACTION|>"
)
COHERE = [
    Specimen("cohere", f"<|START_THINKING|>Hm.<|END_THINKING|>{_ACTION}", ["[Hm.]", PARIS], "cohere"),
    Specimen("cohere", "<|START_RESPONSE|>Hi!<|END_RESPONSE|>", ["Hi!"], "cohere", "<|END_THINKING|>"),
    Specimen(
        "cohere",
        "Hm.<|END_THINKING|><|START_TEXT|>Hi!<|END_TEXT|>",
        ["[Hm.]", "Hi!"],
        "cohere_command4",
        "<|START_THINKING|>",
    ),
    Specimen("cohere", "Hi!<|END_RESPONSE|>", ["Hi!"], "cohere", "<|START_RESPONSE|>"),
    Specimen("cohere", "Hm.<|END_THINKING|><|START_RESPONSE|>Hi!", ["[Hm.]", "Hi!"], "cohere", "<|START_THINKING|>"),
    Specimen(
        "cohere",
        '<|START_ACTION|>[{"tool_name": "weather", "parameters": {"city": "Paris"}}]<|END_ACTION|>',
        [PARIS],
        forced=True,
    ),
]

SPECIMENS = [
    *COHERE,
    *HERMES,
    *QWEN_XML,
    *MINIMAX,
    *GLM,
    *LISTS,
    *BARE,
    *MISTRAL,
    *(Specimen(*one) for one in (*two.SPECIMENS, *three.SPECIMENS, *four.SPECIMENS)),
]

# A part of a chat template, added tokens, and the names of the calls' and the reasoning's families.
TEMPLATES: list[tuple[str, set[str], str, tuple[str, str] | None]] = [
    ("no tags", set(), "json", None),
    (
        "<|START_RESPONSE|>",
        {"<|START_ACTION|>", "<|END_ACTION|>", "<|START_THINKING|>", "<|END_THINKING|>"},
        "cohere",
        ("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    ("<mm:think>", set(), "json", ("<mm:think>", "</mm:think>")),
    ('{{ \'\\n<tool_call>\\n{"name": "\' }} <think>', set(), "hermes", ("<think>", "</think>")),
    ("<|START_THINKING|> <|START_TEXT|> <|START_ACTION|>", set(), "cohere", ("<|START_THINKING|>", "<|END_THINKING|>")),
    (
        "<tool_calls> <tool_call>function_name\\n```json\\n <think> '<answer>' in content",
        {"<tool_call>", "</tool_call>"},
        "hunyuan",
        ("<think>", "</think>"),
    ),
    ("'<tool_calls>[' <think>", set(), "hunyuan_a13b", ("<think>", "</think>")),
    ("no tags", {"<think>", "</think>", "<tool_call>", "</tool_call>"}, "hermes", ("<think>", "</think>")),
    ("<tool_call>\\n<function=' + tool_call.name + '>\\n' <parameter=", set(), "qwen3_coder", None),
    (
        "{%- set toolcall_begin_token = '<minimax:tool_call>' -%} <think> <response>",
        set(),
        "minimax_m2",
        ("<think>", "</think>"),
    ),
    (
        "<global_setting> assistant\\n<response>\\n' <think>",
        {"<tool_call>", "</tool_call>"},
        "hermes",
        ("<think>", "</think>"),
    ),
    ("<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>", set(), "glm45", None),
    ("<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>", set(), "glm47", None),
    (
        "<longcat_tool_call> <longcat_arg_key>",
        {"<longcat_think>", "</longcat_think>"},
        "longcat",
        ("<longcat_think>", "</longcat_think>"),
    ),
    ("'<TOOLCALL>[' <think>", set(), "nemotron", ("<think>", "</think>")),
    ("'[TOOL_CALLS]' + name + '[ARGS]' + arguments", {"[THINK]", "[/THINK]"}, "mistral", ("[THINK]", "[/THINK]")),
    ("[TOOL_CALLS] [' + tool_call.function|tojson", set(), "mistral_list", None),
    ("", {"[TOOL_CALLS]", "[ARGS]"}, "mistral", None),
    (
        "assistant<|tool_call|> Here is my thought process:",
        set(),
        "granite",
        ("Here is my thought process:", "Here is my response:"),
    ),
    ('{"name": function name, "parameters": dictionary of argument name and its value}', set(), "llama3_json", None),
    *two.TEMPLATES,
    *three.TEMPLATES,
    *four.TEMPLATES,
]
