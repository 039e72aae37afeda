"""A server that runs already, for `make test-clients URL=...`."""

import httpx

_WRONG = {
    401: "needs an API key, and the tests send none",
    404: "serves no model `demo`, with which the tests are made",
}


def running(given: str) -> str:
    """Return a server's base URL, without /v1. Raise ValueError if the tests can't use the server."""
    url = given.rstrip("/").removesuffix("/v1")
    try:
        status = httpx.get(f"{url}/v1/models/demo", headers={"authorization": "Bearer none"}).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ValueError(f"no server answers at {url}: {error}") from None
    if status != 200:
        raise ValueError(f"the server at {url} {_WRONG.get(status, f'answers with {status}')}")
    return url
