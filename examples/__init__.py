"""Whole small applications that run on Runstate, one per folder."""
