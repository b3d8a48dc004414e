"""The ``runstate`` command: it starts processes and speaks HTTP to them."""
