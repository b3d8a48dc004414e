"""The engine: takes turns that are due, asks the model, commits what it answers."""
