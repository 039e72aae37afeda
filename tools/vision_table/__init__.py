"""The table of docs/vision-models.md: every architecture of mlx-vlm, what it takes, and how far its rows share a batch.

`python -m tools.vision_table` tries each on a tiny configuration and writes the page. It takes about four minutes, a
third of them for Gemma 3n.
"""
