"""Models: layers put together as the paper's Figure 1 shows, plus the cached step that decoding uses."""
