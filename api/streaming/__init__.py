"""Runs as streams of server-sent events: the frames, who reads which run, and the routes."""
