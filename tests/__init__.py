"""The tests: one folder for each folder of the package, and what they share."""
