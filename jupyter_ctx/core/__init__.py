"""Values and rules: standard library only; no clock, disk or network (a test holds it to that)."""
