"""Experiments: their description (spec, suites), their plan, and running it with executors."""
