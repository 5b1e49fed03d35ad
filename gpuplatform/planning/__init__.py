"""The vocabulary of planners and pure comparisons; the one room that every `core` may import."""
