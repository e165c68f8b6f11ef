"""OPTIONS of tables in outside stores: which there are, and secrets, which come from the environment or a file and are
never kept."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path

from viewkeeper.errors import InputError

_SECRET_WORDS = ("password", "secret", "token", "credential", "private")
_FROM = ("_env", "_file")


def require_known(
    kind: str, options: Mapping[str, str], required: Collection[str], optional: Collection[str],
    prefix: str | None = None,
) -> None:  # fmt: skip
    """Raises InputError where an option is missing, is not one of `kind`'s, or is a secret that is written out.

    Names that begin with `prefix` are the store's own client's, whatever they are.
    """
    known = {*required, *optional}
    for name in options:
        plain = _plain(name)
        if plain == name and any(word in name for word in _SECRET_WORDS):
            raise InputError(f"OPTIONS ({name} ...): a secret is not kept in the catalog; name the environment "
                             f"variable that has it, {name}_env '...', or a file, {name}_file '...'")  # fmt: skip
        if plain not in known and name not in known and not (prefix is not None and name.startswith(prefix)):
            close = get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"
            raise InputError(f"OPTIONS: {kind} has no option {name}; {hint}")
    given = {_plain(name) for name in options} | set(options)
    for name in required:
        if name not in given:
            raise InputError(f"OPTIONS: {kind} needs {name} '...'")


def filled_in(options: Mapping[str, str]) -> dict[str, str]:
    """`options` with the secrets that they name; raises InputError where one is not there."""
    found: dict[str, str] = {}
    for name, value in options.items():
        if name.endswith("_env"):
            if value not in os.environ:
                raise InputError(f"OPTIONS ({name} {value!r}): there is no such environment variable here")
            found[_plain(name)] = os.environ[value]
        elif name.endswith("_file"):
            try:
                found[_plain(name)] = Path(value).read_text().rstrip("\r\n")
            except OSError as error:
                raise InputError(f"OPTIONS ({name} {value!r}): {error.strerror or error}") from error
        else:
            found[name] = value
    return found


def choice(options: Mapping[str, str], name: str, choices: Collection[str], default: str) -> str:
    """The option `name`, in small letters, which must be one of `choices`."""
    value = options.get(name, default).lower()
    if value not in choices:
        raise InputError(f"OPTIONS ({name} {value!r}): there are {', '.join(choices)}")
    return value


def _plain(name: str) -> str:
    return next((name.removesuffix(end) for end in _FROM if name.endswith(end)), name)
