"""Keeping streams and the views over them: rounds, what each does, and what it leaves to be committed."""
