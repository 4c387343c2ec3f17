"""The agent on a notebook file without a person: `jupyter ctx run`, and the front end it is."""
