"""SQL materialized views over key-value stores, kept incrementally up to date and provably consistent."""
