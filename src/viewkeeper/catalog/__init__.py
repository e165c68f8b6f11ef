"""Tables, views, column types: plain values, and how they are stored."""
