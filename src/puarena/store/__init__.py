"""The results folder: its schema, its shards, exported summaries, joining folders, and names made from content."""
