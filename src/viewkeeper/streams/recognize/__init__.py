"""MATCH_RECOGNIZE over streams and their views, kept part by part."""
