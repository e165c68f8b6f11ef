"""Sliding windows over parts: pre-aggregates a part, and how they are put together (paper 003, section 5.2)."""
