"""Values and rules: standard library only, no clock, no disk, no network (a test holds it to that)."""
