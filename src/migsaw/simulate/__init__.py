"""Traces and random arrivals → events → curves: what a policy makes of a fleet, before any cluster sees it."""
