"""One call to one model server, and the typed errors it can end in."""
