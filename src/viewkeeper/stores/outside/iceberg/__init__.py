"""Tables of Apache Iceberg, by their snapshots."""
