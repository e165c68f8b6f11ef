"""Commands for programs that write tables in outside stores."""

from __future__ import annotations

import click

from viewkeeper.commands.output import debug_option
from viewkeeper.stores.outside.redis.scripts import rows_script

_SCRIPTS = {"redis": rows_script}


@click.command()
@click.argument("store", type=click.Choice(sorted(_SCRIPTS)))
@debug_option
def script(store: str) -> None:
    """Print the script by which other programs write rows, and their log, in one step.

    \b
    viewkeeper script redis > rows.lua
    redis-cli --eval rows.lua orders , put 1 1 price 19.90 0
    viewkeeper sql --db shop "CREATE TABLE orders (id BIGINT, price DECIMAL(15,2), PRIMARY KEY (id))
      USING redis OPTIONS (url 'redis://localhost', prefix 'orders')"
    """
    click.echo(_SCRIPTS[store](), nl=False)
