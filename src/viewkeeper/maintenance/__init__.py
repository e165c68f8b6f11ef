"""Relations to maintenance plans, and the zone programs that run them.  Runs without Spark."""
