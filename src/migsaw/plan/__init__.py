"""PURE: what to change. Packing, repartition, policies, reasons. It knows no clock, file or cluster."""
