"""Online placement: where the next instance goes, in constant time whatever the number of GPUs.

A board has few states (A100, H100: 723). What is worth deciding is therefore a table over them: :mod:`graph` has the
states and moves, :mod:`rules` rank the moves, :mod:`fleet` keeps GPUs by state and takes the best move that is there.
"""
