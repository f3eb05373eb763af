"""Small helpers that every room may use; they import no other room."""
