"""Texts about tool calls, and code that looks like calls, none of which is one."""

_FENCE = "```"

PROSE = [
    "Qwen models wrap each call in `<tool_call>` and `</tool_call>`. Between the tags stands JSON.",
    "The tag <tool_call> opens a call, and </tool_call> ends it.",
    "<tool_call> is a tag. Models write it before a call.",
    "Write <tool_call>{...}</tool_call>, with your arguments in place of the dots.",
    "A call is <tool_call>, then JSON, then </tool_call>. A doubled <tool_call><tool_call> is a mistake.",
    "To call weather, name it: the city is a string, the days are a number. I can't call it from here.",
    'JSON has objects such as {"name": "weather"} and lists such as [1, 2]. True and None are Python\'s, not JSON\'s.',
    "In JSON a string stands in double quotes. {'city': 'Paris'} is Python, and {\"city\": \"Paris\"} is JSON.",
    'The last brace was missing: {"name": "weather", "arguments": {"city": "Paris"}',
    "[weather] and [search] are the tools. Call weather(city) first.",
    "I would call weather(city='Paris', days=3) and then search(query='Paris').",
    "The parser saw <function=weather> without </function>, so it failed.",
    "Each parameter has a tag: <parameter=city>. Without </parameter> the value swallows the next one.",
    "`<function=write>` takes `<parameter=path>` and `<parameter=content>`.",
    "GLM writes <tool_call>weather, then <arg_key>city</arg_key>, then <arg_value>Paris</arg_value>.",
    "Mistral's marker is [TOOL_CALLS]; older versions put a list behind it.",
    "[TOOL_CALLS] is a token of Mistral's, not a word.",
    "Kimi numbers its calls: functions.weather:0. The section opens with <|tool_calls_section_begin|>.",
    "Gemma 4 writes <|tool_call>, call:, a name and braces, and then <tool_call|>.",
    "Llama's <|python_tag|> stands before code, too.",
    "<think> and </think> surround reasoning; <tool_call> comes behind it.",
    "Python's quotes are the mistake: `<tool_call>{'name': 'weather', 'arguments': {'city': 'Paris'}}</tool_call>`",
    "<tool_call>\nThis tag opens a call. Its JSON names a tool.\n</tool_call>",
    "<tool_call>\n{name of the tool, arguments}\n</tool_call>",
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
    "<tool_call>\n{'name': the tool's name, 'arguments': its arguments}\n</tool_call>",
    "<tool_call>\n{'name': 'get_stock', 'arguments': {'symbol': 'AAPL'}}\n</tool_call>",
    "<tool_call>\n{'name': 'weather', 'arguments': {'place': 'Paris'}}\n</tool_call>",
    "<tool_call>\n{'name': 'weather', 'arguments': {'city': 'Paris', 'days': 'three'}}\n</tool_call>",
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</tool_call>",
]

CODE = [
    f'Hermes\' calls look so:\n\n{_FENCE}\n<tool_call>\n{{"name": "get_stock", "arguments": {{"symbol": "AAPL"}}}}\n'
    f"</tool_call>\n{_FENCE}\n\nThe tags are tokens.",
    f"{_FENCE}xml\n<tool_call>\n<function=get_stock>\n<parameter=symbol>\nAAPL\n</parameter>\n</function>\n</tool_call>\n"
    f"{_FENCE}",
    f"A broken call:\n\n{_FENCE}text\n<tool_call>\n{{'name': 'weather', 'arguments': {{'city': 'Paris'}}}}\n"
    f"</tool_call>\n{_FENCE}\n\nSingle quotes are the mistake.",
    f'The last brace is missing here:\n\n{_FENCE}\n<tool_call>\n{{"name": "weather", "arguments": {{"city": "Paris"}}\n'
    f"</tool_call>\n{_FENCE}\n",
    f'Models may do this:\n{_FENCE}\n<tool_call>\n{_FENCE}json\n{{"name": "now", "arguments": {{}}}}\n{_FENCE}\n'
    f"</tool_call>\n{_FENCE}\nIt is read, too.",
    f"{_FENCE}python\ncalls = [{{'name': 'weather', 'arguments': {{'city': 'Paris', 'days': None}}}}]\n"
    f"for call in calls:\n    print(call['name'])\n{_FENCE}",
    f"{_FENCE}python\nTOOLS = {{\n    'weather': weather,\n    'search': search,\n}}\n\ndef run(call):\n"
    f"    return TOOLS[call['name']](**call['arguments'])\n{_FENCE}",
    f"{_FENCE}python\nif '<tool_call>' in text:\n    body = text.split('<tool_call>')[1].split('</tool_call>')[0]\n"
    f"    call = json.loads(body)\n{_FENCE}",
    "import re\n\nCALL = re.compile(r'<tool_call>(.*?)</tool_call>', re.DOTALL)\n",
    "settings = {'name': 'weather', 'parameters': {'city': str, 'days': int}, 'strict': True, 'default': None}",
    '{"title": "Tools", "tools": ["weather", "search"], "strict": true}',
    f'{_FENCE}json\n{{"type": "object", "properties": {{"name": {{"type": "string"}}, "arguments": {{}}}}}}\n{_FENCE}',
    f"{_FENCE}js\nconst call = {{name: 'weather', arguments: {{city: 'Paris'}}}};\n{_FENCE}",
    "def weather(city, days=1):\n    return {'city': city, 'days': days, 'exact': True, 'until': None}\n",
    f"{_FENCE}\n<function=get_stock>\n<parameter=symbol>\nAAPL\n<parameter=days>\nthree\n</function>\n{_FENCE}",
]

NO_CALLS = PROSE + CODE
