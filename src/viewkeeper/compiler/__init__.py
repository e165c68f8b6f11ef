"""SQL text to bound relations."""
