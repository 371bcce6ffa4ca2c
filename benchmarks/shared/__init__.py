"""Result files, tables and parallel jobs, for the scripts of all subjects."""
