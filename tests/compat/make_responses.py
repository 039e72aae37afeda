"""Writes the database of stored responses, and what its callers read of it: `python -m tests.compat.make_responses`."""

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.compat.bridge import FIXTURES, server, write
from tests.support.serving import Server

ADA, BEN, BOSS = "key-of-ada", "key-of-ben", "key-of-the-boss"
_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class _Writer:
    """Asks a server, and notes what is to be read later."""

    def __init__(self, running: Server, key: str | None) -> None:
        self._http = httpx.Client(
            base_url=f"{running.url}/v1", headers={"authorization": f"Bearer {key}"} if key else {}, timeout=60
        )
        self.key = key
        self.reads: list[dict[str, Any]] = []

    def post(self, path: str, model: str | None = "demo", **body: Any) -> Any:
        return self._http.post(path, json=body | ({"model": model} if model else {})).raise_for_status().json()

    def read(self, *paths: str) -> list[Any]:
        """Note what these paths give."""
        bodies = []
        for path in paths:
            answer = self._http.get(path)
            body: Any = answer.json() if answer.headers["content-type"] == "application/json" else answer.text
            if answer.is_error:
                del body["error"]["message"]  # may be put in better words
            self.reads.append({"key": self.key, "path": path, "status": answer.status_code, "body": body})
            bodies.append(body)
        return bodies


def main() -> None:
    """Write the database, its key, and what is read of it."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "responses.db"
        with server(responses_path=str(path)) as running:
            broken = _break_off(running)
        with server("demo", responses_path=str(path)) as running:
            open_reads, open_ids = _without_keys(_Writer(running, None), broken)
        with server("demo", responses_path=str(path), api_keys=(ADA, BEN), admin_keys=(BOSS,)) as running:
            ada, ben, boss = (_Writer(running, key) for key in (ADA, BEN, BOSS))
            ids = _of_ada(ada) | _of_ben(ben)
            ben.read(f"responses/{ids['third']}", f"conversations/{ids['conversation']}")
            ben.read(f"chat/completions/{ids['completion']}", f"responses/{open_ids['open']}")
            boss.read(f"responses/{ids['third']}", f"responses/{ids['bens']}", f"responses/{open_ids['open']}")
        for name in ("responses.db", "responses.db.key"):
            shutil.copyfile(Path(scratch) / name, FIXTURES / name)
    found: dict[str, Any] = {"keys": [ADA, BEN], "admin_keys": [BOSS], "ids": ids | open_ids}
    found |= {"reads": [*ada.reads, *ben.reads, *boss.reads], "open_reads": open_reads}
    write("responses.json", found)


def _break_off(running: Server) -> str:
    """Begin a response in the background, and kill its server."""
    script = json.dumps({"pieces": 1000, "interval": 0.1})
    made = _Writer(running, None).post("responses", "fake", input=script, background=True)
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    return str(made["id"])


def _without_keys(caller: _Writer, broken: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    response = caller.post("responses", input="Hello", metadata={"whose": "nobody's"})
    completion = caller.post("chat/completions", messages=[{"role": "user", "content": "Hello"}], store=True)
    caller.read(f"responses/{response['id']}", f"chat/completions/{completion['id']}")
    return caller.reads, {"open": response["id"], "broken": broken}


def _of_ada(ada: _Writer) -> dict[str, Any]:
    first = ada.post("responses", input="What is the weather in Paris?", tools=[_TOOL], tool_choice="required")
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": '{"temperature": 21}'}
    second = ada.post("responses", previous_response_id=first["id"], input=[output], tools=[_TOOL])
    asked: dict[str, Any] = {"instructions": "Be brief.", "metadata": {"a": "b"}, "max_output_tokens": 12}
    third = ada.post("responses", previous_response_id=second["id"], input="Thank you.", **asked)
    for one in (first, second, third):
        ada.read(f"responses/{one['id']}", f"responses/{one['id']}/input_items?order=asc&limit=100")
    compacted = ada.post("responses/compact", previous_response_id=third["id"])
    return {
        "first": first["id"],
        "second": second["id"],
        "third": third["id"],
        "call": call["call_id"],
        "compacted": compacted["output"],
        "conversation": _conversation(ada),
        "completion": _completion(ada, "a"),
        "background": _background(ada),
    }


def _background(caller: _Writer) -> str:
    with caller._http.stream(
        "POST", "responses", json={"model": "demo", "input": "Count from 1 to 5", "background": True, "stream": True}
    ) as stream:
        told = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    id_ = str(told[-1]["response"]["id"])
    caller.read(f"responses/{id_}", f"responses/{id_}?stream=true", f"responses/{id_}?stream=true&starting_after=3")
    return id_


def _conversation(caller: _Writer) -> str:
    items = [{"role": "user", "content": "My name is Ada."}, {"role": "assistant", "content": "Hello, Ada."}]
    made = caller.post("conversations", None, items=items, metadata={"topic": "names"})
    path = f"conversations/{made['id']}"
    response = caller.post("responses", conversation=made["id"], input="What is my name?")
    caller.read(path, f"{path}/items?order=asc", f"{path}/items?limit=2", f"responses/{response['id']}")
    (listed,) = caller.read(f"{path}/items?order=asc&limit=1")
    caller.read(f"{path}/items/{listed['data'][0]['id']}")
    return str(made["id"])


def _completion(caller: _Writer, run: str) -> str:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    made = caller.post("chat/completions", messages=messages, store=True, metadata={"run": run}, seed=1)
    path = f"chat/completions/{made['id']}"
    caller.read(path, f"{path}/messages", "chat/completions", f"chat/completions?metadata[run]={run}")
    return str(made["id"])


def _of_ben(ben: _Writer) -> dict[str, Any]:
    response = ben.post("responses", input="Hello")
    ben.read(f"responses/{response['id']}")
    _completion(ben, "b")
    return {"bens": response["id"]}


if __name__ == "__main__":
    main()
