"""Tables whose rows are hashes in Redis, with a stream as their log."""
