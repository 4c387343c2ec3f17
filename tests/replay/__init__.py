"""Recorded conversations played through the engine, billed by a cache model, beside other rules."""
