"""Tests of what a project's folder adds."""
