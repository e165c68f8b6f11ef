"""Views that look for patterns in a stream (paper 003, section 5.1): query to machine, machine to Helper and view."""
