"""What is wrong and what to do about it: rules over model values, one registry of stable codes. Pure values."""
