"""Reading: by key, by range, at a version, with a session token."""
