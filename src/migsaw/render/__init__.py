"""PURE: a plan becomes the documents of a target. What a target cannot express is refused, never approximated."""
