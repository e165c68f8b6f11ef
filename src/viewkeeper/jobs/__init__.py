"""What is computed by view servers: jobs of stages, who owns which hashes, and how rows cross between servers."""
