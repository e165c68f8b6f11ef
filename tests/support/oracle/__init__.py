"""The oracle of all tests: base tables as plain dictionaries, and hypothesis strategies for everything fed to them.

`model` holds the operations and the base; `strategies` draws schemas, rows, histories, batch cuts and views; `traps`
holds small cases that made other systems wrong.
"""
