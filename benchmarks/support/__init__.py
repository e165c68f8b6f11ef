"""What the experiments share: data, other systems, other processes, the machine, the report."""
