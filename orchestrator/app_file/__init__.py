"""The app file, ``runstate.yaml``: one description of an application, read by every process."""
