"""A session written down: as a notebook, as Markdown, or line by line as it is stored.

`source.py` says what is exported, `items.py` reads the conversation out of it, `notebook.py` and
`markdown.py` are its two forms for people, `files.py` puts them on the disk, `writer.py` does all.
Of the package it knows core and the errors; how Markdown is made safe and entries become JSON is
given to it.
"""
