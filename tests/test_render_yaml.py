"""The YAML that is written is read back by a real reader, to the same values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from migsaw.render.yaml_text import documents, to_yaml

TEXTS = st.one_of(
    st.text(max_size=20),
    st.text("abc \n:#-|>'\"", max_size=30),
    st.sampled_from(
        ["yes", "No", "on", "null", "~", "1e3", "0x10", "1_000", "12:30", ".inf", "1g.10gb", "- a", "a: b", "%", "@"]
    ),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-(10**12), 10**12), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=5))
def test_what_is_written_is_read_back(data):
    assert YAML(typ="safe", pure=True).load(to_yaml(data)) == data


@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3), min_size=1, max_size=3))
def test_several_documents_are_read_back(items):
    assert list(YAML(typ="safe", pure=True).load_all(documents(items))) == items


def test_the_style_is_the_one_people_write():
    data = {
        "version": "v1",
        "list": [0, 1],
        "deep": [{"a": True, "b": {"1g.10gb": 7}}],
        "file": "one: 1\ntwo: 2\n",
        "none": {},
    }
    assert to_yaml(data) == (
        "version: v1\n"
        "list: [0, 1]\n"
        "deep:\n"
        "  - a: true\n"
        "    b:\n"
        '      "1g.10gb": 7\n'
        "file: |\n"
        "  one: 1\n"
        "  two: 2\n"
        "none: {}\n"
    )
