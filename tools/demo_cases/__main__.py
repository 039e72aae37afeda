"""`python -m tools.demo_cases URL`: send the cases of tests/demo/cases to a running server and count the right ones.

It prints a table by kind. `judge.py` has the rules. With --show, it also prints each wrong case: the last user message
and what was wrong with the answer. All requests have the same seed; other settings are the server's defaults.
"""

import argparse
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import OpenAI

from tools.demo_cases.cases import Schema, Step, Trial, kinds, object_schema, read
from tools.demo_cases.judge import Said, wrong_calls, wrong_text

_AT_ONCE = 4
_TOKENS = 300
_TOKENS_WITH_SCHEMA = 100
_SECONDS = 120.0


class Conversation:
    """A case that is being tried: what was said so far, and the request's other fields."""

    def __init__(self, client: OpenAI, model: str, case: Trial) -> None:
        self.case = case
        self._client = client
        self._messages: list[Any] = [{"role": "system", "content": case.system}] if case.system else []
        self._schema = object_schema(case.schema) if case.schema else None
        self._tools: dict[str, Schema] = {name: object_schema(tool.takes) for name, tool in case.tools.items()}
        self._fields: dict[str, Any] = {"model": model, "seed": 0, "max_tokens": _TOKENS}
        if self._schema:
            schema = {"name": "answer", "schema": self._schema, "strict": True}
            self._fields |= {"max_tokens": _TOKENS_WITH_SCHEMA}
            self._fields |= {"response_format": {"type": "json_schema", "json_schema": schema}}
        if case.tools:
            functions = [
                {"name": name, "description": case.tools[name].about, "parameters": schema}
                for name, schema in self._tools.items()
            ]
            self._fields |= {"tools": [{"type": "function", "function": function} for function in functions]}

    def wrong(self) -> str | None:
        """Say all turns, each after the answer to the one before. Return what went wrong, None if nothing did."""
        for step in self.case.steps():
            if why := self._wrong_step(step):
                return f"{step.say!r} → {why}"
        return None

    def _wrong_step(self, step: Step) -> str | None:
        said = self._ask({"role": "user", "content": step.say})
        if not step.calls():
            return wrong_text(step, said, self._schema)
        if (why := wrong_calls(step, said, self._tools)) or step.result is None:
            return why
        ids = [call["id"] for call in self._messages[-1]["tool_calls"]]
        result = json.dumps(step.result)
        return wrong_text(step, self._ask(*({"role": "tool", "tool_call_id": id, "content": result} for id in ids)))

    def _ask(self, *messages: Any) -> Said:
        self._messages += messages
        choice = self._client.chat.completions.create(messages=self._messages, **self._fields).choices[0]
        self._messages.append(choice.message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
        return Said(choice.message.content or "", calls, choice.finish_reason != "length")


def tried(client: OpenAI, model: str, cases: Iterable[Trial]) -> list[str | None]:
    """Try cases, several at once. Return for each what went wrong, None if nothing did."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(lambda case: Conversation(client, model, case).wrong(), cases))


def table(results: dict[str, list[str | None]]) -> str:
    """Return the table of all kinds: right answers, cases, percent."""
    rows = [*results.items(), ("all", [why for found in results.values() for why in found])]
    lines = [f"{'kind':<12}{'right':>6}{'cases':>7}"]
    for kind, found in rows:
        right = found.count(None)
        lines.append(f"{kind:<12}{right:>6}{len(found):>7}{right / len(found):>7.0%}")
    return "\n".join(lines)


def main() -> None:
    """Try every case and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo_cases", description=__doc__)
    parser.add_argument("url", help="the server's address, such as http://127.0.0.1:8000")
    parser.add_argument("--model", default="demo", help="the model's name [demo]")
    parser.add_argument("--show", action="store_true", help="print the wrong cases")
    options = parser.parse_args()
    client = OpenAI(base_url=f"{options.url.rstrip('/')}/v1", api_key="none", timeout=_SECONDS)
    results: dict[str, list[str | None]] = {}
    for kind in kinds():
        results[kind] = tried(client, options.model, read(kind))
        for why in filter(None, results[kind] if options.show else ()):
            print(f"{kind}: {why}")
    print(table(results))


if __name__ == "__main__":
    main()
