"""One suite for every server that the store may run on."""
