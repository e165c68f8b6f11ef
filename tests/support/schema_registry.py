"""A small schema registry, with what Confluent's HTTP API has for readers; the real one is in no repository that tests
fetch servers from."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer


class Registry:
    """Schemas by id, and by subject and version; `asked` are the paths that were asked for.

    `login` is who may ask (user, password), None: everybody; `fails`: it answers nothing but 500.
    """

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.login: tuple[str, str] | None = None
        self.fails = False
        self.url = ""

    def register(self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None, **more: Any) -> int:
        """The id of a schema that is the next version of a subject."""
        version = 1 + sum(each["subject"] == subject for each in self.schemas)
        self.schemas.append({"subject": subject, "version": version, "id": len(self.schemas) + 1,
                             "schema": json.dumps(schema), **({"references": references} if references else {}),
                             **more})  # fmt: skip
        return len(self.schemas)

    def written(self, id_: int, value: Any) -> bytes:
        """A message by a schema that has been registered."""
        named: dict[str, Any] = {}
        registered = self.schemas[id_ - 1]
        for each in registered.get("references", ()):
            found = self._find(lambda s, each=each: (s["subject"], s["version"]) == (each["subject"], each["version"]))
            parse_schema(json.loads(found["schema"]), named)
        data = BytesIO()
        data.write(b"\0" + id_.to_bytes(4, "big"))
        schemaless_writer(data, parse_schema(json.loads(registered["schema"]), named), value)
        return data.getvalue()

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        self.asked.append(path)
        if self.fails:
            return 500, {"error_code": 500, "message": "Error in the backend datastore"}
        if self.login is not None:
            expected = "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
            if authorization != expected:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            found = self._find(lambda each: each["id"] == int(parts[2]))
            if found is None:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            return 200, {name: found[name] for name in ("schema", "schemaType", "references") if name in found}
        found = self._find(lambda each: (each["subject"], str(each["version"])) == (parts[1], parts[3]))
        return (200, found) if found else (404, {"error_code": 40401, "message": "Subject not found."})

    def _find(self, is_it: Any) -> Any:
        return next(filter(is_it, self.schemas), None)


@contextmanager
def serving(registry: Registry, port: int = 0) -> Iterator[Registry]:
    """It answers at `registry.url` within this block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, found = registry.answer(self.path, self.headers.get("Authorization"))
            body = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
