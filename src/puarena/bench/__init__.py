"""The bench: what to run (spec, suites), in which stacks (plan), running it (execute) and keeping it (store)."""
