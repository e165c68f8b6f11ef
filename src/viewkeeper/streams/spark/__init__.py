"""The half of streams/ that runs on Spark."""
