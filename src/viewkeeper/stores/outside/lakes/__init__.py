"""What tables of lakes have in common: rows in files, which commits add and remove."""
