"""Tables of Apache Cassandra as base tables."""
