"""PURE: the values that all rooms share.

Frozen dataclasses only. Nothing here knows a clock, a file, a network or randomness; bytes come in as arguments.
"""
