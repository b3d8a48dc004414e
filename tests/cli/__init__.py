"""The command line, without the processes that it starts."""
