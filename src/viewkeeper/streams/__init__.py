"""Streams cut into parts by time, and views over them that are kept part by part (paper 003, ViewDF)."""
