"""The table of docs/vision-models.md: mlx-vlm's architectures, the media they take, how far their rows share a pass.

`python -m tools.vision_table` tests each on a tiny configuration and writes the page. It takes about four minutes, a
third of them for Gemma 3n.
"""
