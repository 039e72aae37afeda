"""Writes the names of metrics and of fields: `python -m tests.compat.make_names`."""

import httpx

from tests.compat import names
from tests.compat.bridge import server, write


def main() -> None:
    """Write what a server of the scripted model says, and what the bundled one says of its cache."""
    with server(responses_path=":memory:") as running, httpx.Client(base_url=running.url, timeout=30) as client:
        names.use(client)
        found = {"metrics": names.metrics(client), "fields": {path: names.fields(client, path) for path in names.PATHS}}
    with server("demo", responses_path=":memory:") as running, httpx.Client(base_url=running.url, timeout=60) as client:
        body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
        client.post("/v1/chat/completions", json=body).raise_for_status()
        found["fields"]["/v1/cache"] |= names.fields(client, "/v1/cache")
    write("names.json", found)


if __name__ == "__main__":
    main()
