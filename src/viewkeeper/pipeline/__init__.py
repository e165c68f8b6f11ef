"""The driver loop, and Spark."""
