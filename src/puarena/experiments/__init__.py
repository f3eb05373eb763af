"""The bench: what to run (spec, suites), in which fleets (plan), and running it (run, work, executors)."""
