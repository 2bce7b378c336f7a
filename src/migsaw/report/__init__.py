"""PURE: model values become tables, glyphs and sentences for people. Unknown is ``n/a (why)``, never 0."""
