"""Streams of runs over real sockets."""
