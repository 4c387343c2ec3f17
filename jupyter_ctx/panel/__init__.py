"""The side panel: what the kernel tells it, and what it asks of the kernel."""
