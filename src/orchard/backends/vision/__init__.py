"""Models that take images, audio or video, through mlx-vlm. Only a worker that serves one imports this package."""
