"""One operator a file: what a zone does for it in a batch."""
