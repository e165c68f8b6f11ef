"""A schema registry, asked by its HTTP API: Confluent's, which Apicurio, Karapace and Redpanda have, too."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from viewkeeper.errors import Error, StoreAway
from viewkeeper.stores.outside.kafka.client import TIMEOUT_SECONDS

_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class UnknownSchema(Exception):
    """What no schema of a message can be read from; the message is the reason."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as JSON, behind all that it refers to."""

    text: str
    references: tuple[str, ...] = ()


class SchemaRegistry:
    """Schemas by the ids that messages begin with.  `options` are OPTIONS, with their secrets; `said` puts before a
    message whom it is about."""

    def __init__(self, options: Mapping[str, str], said: Callable[[str], str]) -> None:
        self._urls = [url.strip().rstrip("/") for url in options["registry"].split(",")]
        self._headers = {"Accept": _ACCEPT}
        if (user := options.get("registry.user")) is not None:
            secret = f"{user}:{options.get('registry.password', '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(secret).decode()}"
        self._said = said

    def schema(self, id_: int) -> RegisteredSchema:
        """The schema `id_`, which never changes.

        Raises UnknownSchema where there is none, or it is not Avro's; StoreAway where no registry answers.
        """
        found = self._asked(f"/schemas/ids/{id_}")
        if found is None:
            raise UnknownSchema(f"the registry has no schema {id_}")
        if found.get("schemaType", "AVRO") != "AVRO":
            raise UnknownSchema(f"schema {id_} is one of {found['schemaType']}, not of Avro")
        return RegisteredSchema(found["schema"], tuple(self._references(found)))

    def _references(self, schema: Mapping[str, Any]) -> Iterator[str]:
        for each in schema.get("references") or ():
            subject, version = each["subject"], each["version"]
            found = self._asked(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            if found is None:
                raise UnknownSchema(f"the registry has no version {version} of {subject}, which the schema refers to")
            yield from self._references(found)
            yield found["schema"]

    def _asked(self, path: str) -> dict[str, Any] | None:
        """What the first registry that answers has there; None: nothing."""
        problem = ""
        for url in self._urls:
            request = urllib.request.Request(url + path, headers=self._headers)
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                    found = json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    raise Error(
                        self._said(f"the schema registry {url} refuses: {error.code} {error.reason}")
                    ) from error
                problem = f"{error.code} {error.reason}"
            except (OSError, HTTPException, ValueError) as error:
                problem = str(error) or type(error).__name__
            else:
                if isinstance(found, dict):
                    return found
                problem = "no object of JSON came"
        raise StoreAway(self._said(f"no schema registry answers at {', '.join(self._urls)}: {problem}"))
