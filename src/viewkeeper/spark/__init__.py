"""How Spark is started, sessions whose settings are ours, and the one way in which a query gets there."""
