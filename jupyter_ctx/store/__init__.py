"""Where sessions and results are kept on disk (DESIGN.md, section 3)."""
