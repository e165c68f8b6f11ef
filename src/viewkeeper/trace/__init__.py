"""Versioned columnar state: runs, lookup, merge, manifest, commit, leases.  Knows nothing of views or Spark."""
