"""Values of expressions, a batch of rows at once: kernels on vectors, casts, exact arithmetic, errors as data."""
