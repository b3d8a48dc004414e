"""What people are told of a run: why it is where it is, what happened, and where the time went.

Pure, and the same words everywhere: on the pages, in ``/ops`` and in the command.
"""
