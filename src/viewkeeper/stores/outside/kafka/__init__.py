"""Topics of Apache Kafka as tables."""
