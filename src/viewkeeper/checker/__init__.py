"""Is the view right?  Imports neither maintenance nor pipeline."""
