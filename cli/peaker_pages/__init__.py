"""Self-contained HTML pages: one look, its elements and its charts. Standard library only; knows nothing of Peaker."""
