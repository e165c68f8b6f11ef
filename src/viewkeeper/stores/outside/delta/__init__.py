"""Tables of Delta Lake, by their change data feed."""
