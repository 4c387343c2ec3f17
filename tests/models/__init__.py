"""Tests of the model adapters, through the real SDK over loopback HTTP."""
