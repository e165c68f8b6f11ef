"""The way of rows into a stream: converted and judged, laid out by part, and entered in the stream's log."""
